"""Sequences of text, images, video and audio: which position each of their tokens has on three axes.

A segment begins at the position where the one before it ended. Text, and audio by itself, move all axes together:

    text, n tokens            T = H = W = start, start + 1, ..., start + n - 1
    shared, n tokens          T = H = W = start for each of them (markers that come in pairs)
    image, video              T = start + trunc(i * interval), H = start + row, W = start + column

for frame i of the patch grid after merging, in the order of frames, rows and columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.engine.attention.attending import Integers
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats

AXES = ("time", "height", "width")
MOST_SEGMENTS = 4096
MOST_TOKENS = 1 << 20
# As their configurations have it: what a second of video is worth, in positions, and how it is computed.
Arithmetic = Literal["exact", "float32", "float32-seconds-first", "whole-seconds"]

Count = Annotated[int, Field(strict=True, ge=1, le=MOST_TOKENS)]
Side = Annotated[int, Field(strict=True, ge=1, le=MOST_TOKENS)]
Grid = Annotated[
    tuple[Side, ...],
    Field(
        min_length=2, max_length=3, description="Patches before merging: [height, width] or [frames, height, width]."
    ),
]
Tokens = Annotated[
    Count | None,
    Field(description="How many tokens stand for the grid in the sequence: checked against it, never needed."),
]


class Part(BaseModel):
    """One stretch of a sequence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Text(Part):
    """Text, or markers, each token at a position of its own."""

    type: Literal["text"]
    tokens: Count


class Shared(Part):
    """Tokens that share one position, as the two begin markers of a video with sound do."""

    type: Literal["shared"]
    tokens: Count


class Audio(Part):
    """Sound by itself, each token at a position of its own."""

    type: Literal["audio"]
    tokens: Count


class Image(Part):
    """An image of one frame."""

    type: Literal["image"]
    grid: Grid
    tokens: Tokens = None


class Video(Part):
    """A video, perhaps with sound whose tokens are woven into it."""

    type: Literal["video"]
    grid: Grid
    seconds_per_grid: Annotated[
        float, Field(gt=0, le=1e6, description="Seconds from one frame of the grid to the next.")
    ] = 1.0
    tokens: Tokens = None
    audio_tokens: Annotated[Count | None, Field(description="Tokens of its sound, one position each.")] = None


Segment = Annotated[Text | Shared | Audio | Image | Video, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Rules:
    """The conventions that models differ in."""

    advance: Literal["max-hw", "max-all"]
    spatial_merge_size: int
    temporal_merge_size: int
    positions_per_second: float | None
    arithmetic: Arithmetic
    interleave: Literal["windows", "time"]
    seconds_per_chunk: float


def token_count(segments: tuple[Segment, ...], rules: Rules) -> int:
    """How many tokens the segments have together; refuses grids that do not divide or that make other tokens."""
    total = sum(_tokens(f"/segments/{index}", segment, rules) for index, segment in enumerate(segments))
    if total > MOST_TOKENS:
        detail = f"the segments have {total} tokens together; {MOST_TOKENS} will do"
        raise Refusal("/segments", "too_large", detail, limit=MOST_TOKENS, requested=total)
    if rules.interleave == "windows" and _window(rules) < 1:
        detail = f"seconds_per_chunk makes windows of {_window(rules)} positions; at least 1 will do"
        raise Refusal("seconds_per_chunk", "out_of_range", detail, limit=1)
    return total


def farthest(segments: tuple[Segment, ...], rules: Rules) -> float:
    """A position that none of the tokens lies beyond: the lengths of all segments together."""
    rate = rules.positions_per_second or 1.0
    reach = 0.0
    for segment in segments:
        if isinstance(segment, Image | Video):
            seconds = segment.seconds_per_grid if isinstance(segment, Video) else 1.0
            reach += sum(segment.grid) + _frames(segment)[0] * seconds * rate
            reach += segment.audio_tokens or 0 if isinstance(segment, Video) else 0
        else:
            reach += segment.tokens
    return reach


def _tokens(pointer: str, segment: Segment, rules: Rules) -> int:
    if not isinstance(segment, Image | Video):
        return segment.tokens
    grid = _frames(segment)
    merges = (
        rules.temporal_merge_size if isinstance(segment, Video) else 1,
        rules.spatial_merge_size,
        rules.spatial_merge_size,
    )
    if isinstance(segment, Image) and grid[0] != 1:
        raise Refusal(
            f"{pointer}/grid", "value", f"the grid has {grid[0]} frames; an image has one: send it as a video"
        )
    for side, merge in zip(grid, merges, strict=True):
        if side % merge:
            detail = f"{side} patches of the grid {_shown(grid)} do not divide by {merge}, by which they are merged"
            raise Refusal(f"{pointer}/grid", "value", detail, requested=side)
    made = prod(merged(segment, rules))
    if segment.tokens not in (None, made):
        detail = f"the sequence has {segment.tokens} tokens here; the grid {_shown(grid)}, merged, makes {made}"
        raise Refusal(f"{pointer}/tokens", "conflict", detail, limit=made, requested=segment.tokens)
    return made + (segment.audio_tokens or 0 if isinstance(segment, Video) else 0)


def _frames(segment: Image | Video) -> tuple[int, int, int]:
    """The grid with its frames: one where there are none stated."""
    time, height, width = (1, *segment.grid)[-3:]
    return time, height, width


def _shown(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))


def merged(segment: Image | Video, rules: Rules) -> tuple[int, int, int]:
    """Frames, rows and columns of tokens."""
    time, height, width = _frames(segment)
    frames = time // rules.temporal_merge_size if isinstance(segment, Video) else time
    return frames, height // rules.spatial_merge_size, width // rules.spatial_merge_size


def token_positions(segments: tuple[Segment, ...], rules: Rules) -> Integers:
    """The positions (3, tokens) of every token in order: time, height, width.

    >>> rules = Rules("max-hw", 2, 1, None, "exact", "windows", 2.0)
    >>> segments = Text(type="text", tokens=1), Image(type="image", grid=(4, 4)), Text(type="text", tokens=1)
    >>> token_positions(segments, rules).tolist()
    [[0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]]
    """
    return np.concatenate(list(_placed(segments, rules)), axis=1)


def _placed(segments: tuple[Segment, ...], rules: Rules) -> Iterator[Integers]:
    start = 0
    for segment in segments:
        if isinstance(segment, Text | Audio):
            part = _along(start, segment.tokens)
        elif isinstance(segment, Shared):
            part = np.full((3, segment.tokens), start)
        else:
            part = _seen(segment, rules) + start
            if isinstance(segment, Video) and segment.audio_tokens:
                part, last = woven(part, _along(start, segment.audio_tokens), start, rules)
                yield part
                start = int(last.max()) + 1
                continue
        yield part
        start = _next(segment, part, start, rules)


def _next(segment: Segment, part: Integers, start: int, rules: Rules) -> int:
    """Where the next segment begins: behind every position, or as far on as the longer side of the grid."""
    if rules.advance == "max-hw" and isinstance(segment, Image | Video):
        return start + max(_frames(segment)[1:]) // rules.spatial_merge_size
    return int(part.max()) + 1


def _along(start: int, count: int) -> Integers:
    """Consecutive positions on all axes alike."""
    return np.broadcast_to(np.arange(start, start + count), (3, count))


def _seen(segment: Image | Video, rules: Rules) -> Integers:
    """The positions of a grid from 0, in the order of frames, rows and columns."""
    frames, height, width = merged(segment, rules)
    times = _times(segment, frames, rules)
    grid = np.meshgrid(times, np.arange(height), np.arange(width), indexing="ij")
    return np.stack([axis.reshape(-1) for axis in grid])


def _times(segment: Image | Video, frames: int, rules: Rules) -> Integers:
    """trunc(i * seconds per grid * positions per second) for each frame; i itself where seconds do not count."""
    index = np.arange(frames)
    if rules.positions_per_second is None or isinstance(segment, Image):
        return index
    return _products(index, segment.seconds_per_grid, rules.positions_per_second, rules.arithmetic)


def _products(index: Integers, seconds: float, rate: float, arithmetic: Arithmetic) -> Integers:
    """trunc(index * seconds * rate): of the real numbers, rounded to float32, or of whole seconds.

    >>> index = np.arange(4)
    >>> [_products(index, 4 / 3, 1.0, form).tolist() for form in ("exact", "float32", "whole-seconds")]
    [[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 3]]
    """
    if arithmetic in ("exact", "whole-seconds"):
        seconds = seconds if arithmetic == "exact" else float(int(seconds))
        over, under = _ratio(seconds), _ratio(rate)
        return np.array([i * over[0] * under[0] // (over[1] * under[1]) for i in index.tolist()], np.int64)
    at, second, per = index.astype(np.float32), np.float32(seconds), np.float32(rate)
    products: Floats = (at * (second * per) if arithmetic == "float32" else at * second * per).astype(np.float64)
    return products.astype(np.int64)


def _ratio(number: float) -> tuple[int, int]:
    return number.as_integer_ratio()


def woven(video: Integers, audio: Integers, start: int, rules: Rules) -> tuple[Integers, Integers]:
    """Video and its sound as one stretch, and the last run of either in it.

    `windows` cuts both at every `seconds_per_chunk`, and puts a window of video before one of sound. `time` puts every
    token where its time is, video first; what is left of the longer one comes at the end.
    """
    runs = list(_windows(video, audio, start, rules) if rules.interleave == "windows" else _by_time(video, audio))
    return np.concatenate(runs, axis=1), runs[-1]


def _windows(video: Integers, audio: Integers, start: int, rules: Rules) -> Iterator[Integers]:
    streams = [_cut(stream, start, _window(rules)) for stream in (video, audio)]
    for index in range(max(map(len, streams))):
        yield from (windows[index] for windows in streams if index < len(windows))


def _window(rules: Rules) -> int:
    """How many positions a window has."""
    return int((rules.positions_per_second or 1.0) * rules.seconds_per_chunk)


def _cut(stream: Integers, start: int, size: int) -> list[Integers]:
    """One window for each `size` positions; a token too many windows ahead opens the next, and one only."""
    windows: list[Integers] = []
    begin = 0
    for place, time in enumerate((stream[0] - start).tolist()):
        if time >= (len(windows) + 1) * size:
            windows.append(stream[:, begin:place])
            begin = place
    return [*windows, stream[:, begin:]]


def _by_time(video: Integers, audio: Integers) -> Iterator[Integers]:
    """Sorted by time until one of the two has no more, video first where times are equal; then the rest."""
    both = np.concatenate((video, audio), axis=1)
    sound = np.arange(both.shape[1]) >= video.shape[1]
    order = np.lexsort((sound, both[0]))
    ordered, sound = both[:, order], sound[order]
    common = int(np.flatnonzero(sound != sound[-1])[-1]) + 1
    yield from (ordered[:, :common], ordered[:, common:])
