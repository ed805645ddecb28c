"""Sequences of text, images, video and audio: which position each of their tokens has on three axes.

A segment begins at the position where the one before it ended. Text, and audio by itself, move all axes together:

    text, n tokens            T = H = W = start, start + 1, ..., start + n - 1
    shared, n tokens          T = H = W = start for each of them (markers that come in pairs)
    image, video              T = start + trunc(i * interval), H = start + row, W = start + column

for frame i of the patch grid after merging, in the order of frames, rows and columns; with `times=fractions` without
trunc, and every step in float32, as Qwen3-Omni has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from service.engine.attention.attending import Integers
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats

AXES = ("time", "height", "width")
MOST_SEGMENTS = 4096
MOST_TOKENS = 1 << 20
# As their configurations have it: what a second of video is worth, in positions, and how it is computed.
Arithmetic = Literal["exact", "float32", "float32-seconds-first", "whole-seconds"]
IN_FLOAT32 = ("float32", "float32-seconds-first")
# How many tokens an audio encoder makes of mel frames.
AudioLengths = Literal["two-strides", "windows"]
WINDOW_FRAMES, WINDOW_TOKENS = 100, 13
# Positions: integers, or float32 where they may be fractions; and one of them.
Numbers = NDArray[Any]
Number = Any

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
MelFrames = Annotated[
    Count | None, Field(description="Frames of the sound's spectrogram, of which `audio_lengths` makes tokens.")
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
    tokens: Tokens = None
    mel_frames: MelFrames = None


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
    audio_mel_frames: MelFrames = None


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
    times: Literal["truncated", "fractions"] = "truncated"
    audio_lengths: AudioLengths = "two-strides"

    @property
    def zero(self) -> Number:
        """Position 0."""
        return np.float32(0) if self.times == "fractions" else 0


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
        reach += _tokens_alone(segment, rules)
    return reach


def _tokens_alone(segment: Segment, rules: Rules) -> int:
    """The tokens of a segment that are not those of a grid."""
    if isinstance(segment, Image):
        return 0
    if isinstance(segment, Video):
        return _sound(segment.audio_tokens, segment.audio_mel_frames, rules)
    return segment.tokens if isinstance(segment, Text | Shared) else _sound(segment.tokens, segment.mel_frames, rules)


def _sound(tokens: int | None, mel_frames: int | None, rules: Rules) -> int:
    """The tokens of a sound: as stated, else of its frames, else none."""
    return tokens or (0 if mel_frames is None else audio_tokens(mel_frames, rules.audio_lengths))


def audio_tokens(mel_frames: int, rule: AudioLengths) -> int:
    """How many tokens the encoder of a model makes of so many frames.

    >>> audio_tokens(300, "two-strides"), audio_tokens(300, "windows"), audio_tokens(57, "windows")
    (75, 39, 8)
    """
    if rule == "two-strides":
        return ((mel_frames - 1) // 2 + 1 - 2) // 2 + 1
    windows, rest = divmod(mel_frames, WINDOW_FRAMES)
    for _ in range(3):
        rest = (rest - 1) // 2 + 1
    return windows * WINDOW_TOKENS + rest


def _refuse_sound(pointer: str, segment: Audio | Video, rules: Rules) -> None:
    """Refuse sounds whose tokens and frames disagree, or that have none."""
    video = isinstance(segment, Video)
    stated, frames = (
        (segment.audio_tokens, segment.audio_mel_frames) if isinstance(segment, Video) else
        (segment.tokens, segment.mel_frames)
    )  # fmt: skip
    named, counted = ("audio_tokens", "audio_mel_frames") if video else ("tokens", "mel_frames")
    if frames is None:
        if stated is None and not video:
            detail = "tokens is missing: the tokens of the sound, or its mel_frames"
            raise Refusal(f"{pointer}/tokens", "missing", detail)
        return
    made = audio_tokens(frames, rules.audio_lengths)
    if made < 1:
        raise Refusal(f"{pointer}/{counted}", "out_of_range", f"{frames} frames make no token", requested=frames)
    if stated not in (None, made):
        detail = f"the sound has {stated} tokens here; {frames} frames make {made}"
        raise Refusal(f"{pointer}/{named}", "conflict", detail, limit=made, requested=stated)


def _tokens(pointer: str, segment: Segment, rules: Rules) -> int:
    if isinstance(segment, Audio | Video):
        _refuse_sound(pointer, segment, rules)
    if not isinstance(segment, Image | Video):
        return _tokens_alone(segment, rules)
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
    return made + _tokens_alone(segment, rules)


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


def token_positions(segments: tuple[Segment, ...], rules: Rules) -> Numbers:
    """The positions (3, tokens) of every token in order: time, height, width.

    >>> rules = Rules("max-hw", 2, 1, None, "exact", "windows", 2.0)
    >>> segments = Text(type="text", tokens=1), Image(type="image", grid=(4, 4)), Text(type="text", tokens=1)
    >>> token_positions(segments, rules).tolist()
    [[0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]]
    """
    return np.concatenate(list(_placed(segments, rules)), axis=1)


def _placed(segments: tuple[Segment, ...], rules: Rules) -> Iterator[Numbers]:
    start = rules.zero
    for segment in segments:
        sound = _tokens_alone(segment, rules)
        if isinstance(segment, Text | Audio):
            part = _along(start, sound)
        elif isinstance(segment, Shared):
            part = np.full((3, sound), start)
        else:
            part = _seen(segment, rules) + start
            if sound:
                part, last = woven(part, _along(start, sound), start, rules)
                yield part
                start = last.max() + 1
                continue
        yield part
        start = _next(segment, part, start, rules)


def _next(segment: Segment, part: Numbers, start: Number, rules: Rules) -> Number:
    """Where the next segment begins: behind every position, or as far on as the longer side of the grid."""
    if rules.advance == "max-hw" and isinstance(segment, Image | Video):
        return start + max(_frames(segment)[1:]) // rules.spatial_merge_size
    return part.max() + 1


def _along(start: Number, count: int) -> Numbers:
    """Consecutive positions on all axes alike."""
    return np.broadcast_to(np.arange(count, dtype=np.asarray(start).dtype) + start, (3, count))


def _seen(segment: Image | Video, rules: Rules) -> Numbers:
    """The positions of a grid from 0, in the order of frames, rows and columns."""
    frames, height, width = merged(segment, rules)
    times = _times(segment, frames, rules)
    grid = np.meshgrid(times, *(np.arange(side, dtype=times.dtype) for side in (height, width)), indexing="ij")
    return np.stack([axis.reshape(-1) for axis in grid])


def _times(segment: Image | Video, frames: int, rules: Rules) -> Numbers:
    """trunc(i * seconds per grid * positions per second) for each frame; i itself where seconds do not count."""
    index = np.arange(frames)
    if rules.positions_per_second is None or isinstance(segment, Image):
        return index.astype(np.asarray(rules.zero).dtype)
    if rules.times == "fractions":
        return _single_products(index, segment.seconds_per_grid, rules.positions_per_second, rules.arithmetic)
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
    products: Floats = _single_products(index, seconds, rate, arithmetic).astype(np.float64)
    return products.astype(np.int64)


def _single_products(index: Integers, seconds: float, rate: float, arithmetic: Arithmetic) -> NDArray[np.float32]:
    """index * (seconds * rate), or (index * seconds) * rate, each product rounded to float32."""
    at, second, per = index.astype(np.float32), np.float32(seconds), np.float32(rate)
    products: NDArray[np.float32] = at * (second * per) if arithmetic == "float32" else at * second * per
    return products


def _ratio(number: float) -> tuple[int, int]:
    return number.as_integer_ratio()


def woven(video: Numbers, audio: Numbers, start: Number, rules: Rules) -> tuple[Numbers, Numbers]:
    """Video and its sound as one stretch, and the last run of either in it.

    `windows` cuts both at every `seconds_per_chunk`, and puts a window of video before one of sound. `time` puts every
    token where its time is, video first; what is left of the longer one comes at the end.
    """
    runs = list(_windows(video, audio, start, rules) if rules.interleave == "windows" else _by_time(video, audio))
    return np.concatenate(runs, axis=1), runs[-1]


def _windows(video: Numbers, audio: Numbers, start: Number, rules: Rules) -> Iterator[Numbers]:
    streams = [_cut(stream, start, _window(rules)) for stream in (video, audio)]
    for index in range(max(map(len, streams))):
        yield from (windows[index] for windows in streams if index < len(windows))


def _window(rules: Rules) -> int:
    """How many positions a window has."""
    return int((rules.positions_per_second or 1.0) * rules.seconds_per_chunk)


def _cut(stream: Numbers, start: Number, size: int) -> list[Numbers]:
    """One window for each `size` positions; a token too many windows ahead opens the next, and one only."""
    windows: list[Numbers] = []
    begin = 0
    for place, time in enumerate((stream[0] - start).tolist()):
        if time >= (len(windows) + 1) * size:
            windows.append(stream[:, begin:place])
            begin = place
    return [*windows, stream[:, begin:]]


def _by_time(video: Numbers, audio: Numbers) -> Iterator[Numbers]:
    """Sorted by time until one of the two has no more, video first where times are equal; then the rest."""
    both = np.concatenate((video, audio), axis=1)
    sound = np.arange(both.shape[1]) >= video.shape[1]
    order = np.argsort(both[0], kind="stable")  # where times are equal, video comes first
    ordered, sound = both[:, order], sound[order]
    common = int(np.flatnonzero(sound != sound[-1])[-1]) + 1
    yield from (ordered[:, :common], ordered[:, common:])
