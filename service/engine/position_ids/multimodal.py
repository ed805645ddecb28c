"""Position ids on three axes for text with images, video and audio (M-RoPE: Wang et al., Qwen2-VL, 2024)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.modalities import (
    AXES,
    IN_FLOAT32,
    MOST_SEGMENTS,
    MOST_TOKENS,
    Arithmetic,
    AudioLengths,
    Numbers,
    Rules,
    Segment,
    farthest,
    token_count,
    token_positions,
)
from service.engine.numbers.counting import refuse_uncountable
from service.engine.quantities import ExactInteger, Integer, Real
from service.engine.scheme import Array, Example, Facts, Inputs, Params, Scheme, Tensor, Tensors, Usage, unused

Merge = Annotated[Integer, Field(ge=1, le=64)]


class Multimodal(Params):
    """Parameters of `positions/multimodal`."""

    dtype: Annotated[
        Literal["int32", "int64", "float32", "float64"],
        Field(description="Number format of the positions: integers, or floating where they may be fractions."),
    ] = "int64"
    segments: Annotated[
        tuple[Segment, ...],
        Field(
            min_length=1,
            max_length=MOST_SEGMENTS,
            description="The sequence part by part, each an object whose type is text, shared, image, video or audio.",
        ),
    ] = ()
    advance: Annotated[
        Literal["max-hw", "max-all"],
        Field(
            description="Where the tokens after a grid begin: `max-hw` as many positions on as its longer side has "
            "tokens (transformers 5); `max-all` behind every position so far (transformers 4, vLLM, Qwen-Omni)."
        ),
    ] = "max-hw"
    spatial_merge_size: Annotated[Merge, Field(description="Rows and columns of patches that make one token.")] = 2
    temporal_merge_size: Annotated[Merge, Field(description="Frames of a video that make one token.")] = 1
    positions_per_second: Annotated[
        Real | None,
        Field(
            gt=0,
            le=1e6,
            description="How far apart on the time axis the frames of a video are, times its `seconds_per_grid` "
            "(tokens_per_second, position_id_per_seconds); one position a frame unless given.",
        ),
    ] = None
    arithmetic: Annotated[
        Arithmetic,
        Field(
            description="How a frame's time is computed before it is truncated: `exact`; `float32` i * (seconds * "
            "rate), as Qwen2.5-VL; `float32-seconds-first` (i * seconds) * rate, as Qwen-Omni; `whole-seconds` the "
            "seconds truncated first (Qwen2.5-VL in transformers 4)."
        ),
    ] = "exact"
    times: Annotated[
        Literal["truncated", "fractions"],
        Field(
            description="Whether the time of a frame is `truncated` to a whole position, or may be `fractions` of one, "
            "and all that follows too (Qwen3-Omni): dtype=float32 or float64, and arithmetic in float32."
        ),
    ] = "truncated"
    audio_lengths: Annotated[
        AudioLengths,
        Field(
            description="How many tokens L mel frames make: `two-strides` ((L - 1)//2 + 1 - 2)//2 + 1 (Qwen2.5-Omni); "
            "`windows` 13 for every 100 frames, and of the rest what three strides of two leave (Qwen3-Omni)."
        ),
    ] = "two-strides"
    interleave: Annotated[
        Literal["windows", "time"],
        Field(
            description="How a video and its sound are woven: `windows` of seconds_per_chunk in turn (Qwen2.5-Omni); "
            "`time` token by token (Qwen3-Omni)."
        ),
    ] = "windows"
    seconds_per_chunk: Annotated[
        Real, Field(gt=0, le=1e6, description="Seconds of a window of `interleave=windows`.")
    ] = 2.0
    padded_length: Annotated[
        Integer | None, Field(ge=1, le=MOST_TOKENS, description="Pad the sequence to so many tokens.")
    ] = None
    padding_side: Annotated[Literal["left", "right"], Field(description="Where the padding is.")] = "right"
    fill: Annotated[
        ExactInteger,
        Field(description="The position of padding: 0 in transformers 5, 1 in transformers 4 and Qwen2.5-Omni."),
    ] = 0
    delta_length: Annotated[
        Literal["tokens", "padded"],
        Field(
            description="What rope_delta counts from: the `tokens` (transformers 5), or the `padded` length "
            "(transformers 4)."
        ),
    ] = "tokens"
    axes: Annotated[
        Literal["first", "last"],
        Field(description="`first`: (axis, token), as transformers; `last`: (token, axis), as `encodings/rope-axes`."),
    ] = "first"


def _rules(params: Multimodal) -> Rules:
    return Rules(
        params.advance,
        params.spatial_merge_size,
        params.temporal_merge_size,
        params.positions_per_second,
        params.arithmetic,
        params.interleave,
        params.seconds_per_chunk,
        params.times,
        params.audio_lengths,
    )


def _tensors(params: Multimodal, _inputs: Inputs) -> Tensors:
    if not params.segments:
        raise Refusal("/segments", "missing", "segments is missing: a list of the parts of the sequence is needed")
    _refuse_fractions(params)
    rules = _rules(params)
    tokens = token_count(params.segments, rules)
    reach = farthest(params.segments, rules)
    # Far below the limit the bound is of no interest; near it a few positions more or less are.
    counted = params.dtype if params.times == "truncated" else "int64"
    refuse_uncountable(counted, "/segments", 0, int(min(reach, 2.0**60)))
    refuse_uncountable(counted, "fill", params.fill, 0)
    length = tokens if params.padded_length is None else params.padded_length
    if length < tokens:
        detail = f"padded_length is {length}; the segments have {tokens} tokens"
        raise Refusal("padded_length", "out_of_range", detail, limit=tokens, requested=length)
    axes, shape = ("axis", "token"), (len(AXES), length)
    if params.axes == "last":
        axes, shape = axes[::-1], shape[::-1]
    return {"positions": Tensor(axes, shape, params.dtype)}


def _refuse_fractions(params: Multimodal) -> None:
    """Refuse fractions in integers, integers in floating formats, and fractions that no library computes."""
    floating = params.dtype in ("float32", "float64")
    if floating != (params.times == "fractions"):
        fitting = "float32 or float64" if params.times == "fractions" else "int64 or int32"
        detail = f"dtype is {params.dtype}; times={params.times} makes {fitting}"
        raise Refusal("dtype", "conflict", detail)
    if params.times == "fractions" and params.arithmetic not in IN_FLOAT32:
        detail = f"arithmetic is {params.arithmetic}; times=fractions takes {' or '.join(IN_FLOAT32)}, as Qwen3-Omni"
        raise Refusal("arithmetic", "conflict", detail)


def _prepare(params: Multimodal, _inputs: Inputs) -> Numbers:
    """The positions of the tokens, (axis, token)."""
    return token_positions(params.segments, _rules(params))


def _rows(params: Multimodal, _inputs: Inputs, state: Numbers, _tensor: str, start: int, stop: int) -> Array:
    tokens = state.shape[1]
    length = params.padded_length or tokens
    whole = np.full((len(AXES), length), params.fill, params.dtype)
    first = length - tokens if params.padding_side == "left" else 0
    whole[:, first : first + tokens] = state
    return (whole if params.axes == "first" else whole.T)[start:stop]


def _facts(params: Multimodal, _inputs: Inputs) -> Facts:
    positions = _prepare(params, {})
    tokens = positions.shape[1]
    counted = params.padded_length or tokens if params.delta_length == "padded" else tokens
    last = float(positions.max()) if params.times == "fractions" else int(positions.max())
    return {"tokens": tokens, "last_position": last, "rope_delta": last + 1 - counted}


def _notes(params: Multimodal, _inputs: Inputs) -> list[str]:
    # `fill` and `delta_length` are conventions that a preset states whether or not there is padding.
    return unused(params, ("padding_side",), "no padded_length") if params.padded_length is None else []


_TRANSFORMERS_4 = {"advance": "max-all", "fill": "1", "delta_length": "padded"}

DESCRIPTION = """\
Three positions for each token, on the axes of time, height and width. The body lists the sequence part by part:

- `{"type": "text", "tokens": n}`, and `audio` alike: all axes go on together, a position a token; sound may state its
  `mel_frames` instead, of which `audio_lengths` makes tokens;
- `{"type": "shared", "tokens": n}`: n tokens at one position, as the two begin markers of a video with sound;
- `{"type": "image", "grid": [h, w]}`, `{"type": "video", "grid": [t, h, w]}`: patches, merged by `spatial_merge_size`;
  the token of frame i, row r and column c is at start + (trunc(i * interval), r, c). A video may state its
  `seconds_per_grid`, and `audio_tokens` or `audio_mel_frames` of a sound that is woven into it.

A grid, and a sound with its frames, may state the `tokens` that stand for it in the sequence; where the two disagree
the answer is a refusal with both numbers. Models that split a video by timestamps (Qwen3-VL, GLM-4V) have each frame as
an image of its own. After a video with sound the next part begins behind its last window. `rope_delta` is the last
position + 1 less the number of tokens: a decoder's next token is at that number + rope_delta on all axes. Axes: (axis,
token), or (token, axis)."""

SCHEME: Scheme[Multimodal, Numbers] = Scheme(
    family="positions",
    name="multimodal",
    title="Position ids of text with images, video and audio",
    explanation=(
        "Text goes on one position at a time; an image lies still in time and spreads over rows and columns. This "
        "gives each token its three positions, as models that read both count them."
    ),
    description=DESCRIPTION,
    reference="Wang et al., Qwen2-VL, 2024, section 2.1 (M-RoPE); Xu et al., Qwen2.5-Omni, 2025 (TMRoPE)",
    params=Multimodal,
    # Whole numbers, of which all are right; with fractions each step is rounded as the library has it.
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    structured=("segments",),
    # The positions of at most so many tokens, and what is made on the way.
    state_bytes=lambda params, _inputs: 200 * token_count(params.segments, _rules(params)),
    examples=(
        Example(
            "Text, an image of four tokens, text",
            {},
            {
                "segments": [
                    {"type": "text", "tokens": 3},
                    {"type": "image", "grid": [4, 4], "tokens": 4},
                    {"type": "text", "tokens": 2},
                ]
            },
        ),
        Example(
            "Qwen2.5-VL: a video of two frames a second",
            {"positions_per_second": "2", "arithmetic": "float32"},
            {
                "segments": [
                    {"type": "text", "tokens": 2},
                    {"type": "video", "grid": [3, 2, 4], "seconds_per_grid": 1.0},
                    {"type": "text", "tokens": 1},
                ]
            },
        ),
        Example(
            "Qwen2.5-Omni: a video with sound between its markers",
            {"advance": "max-all", "positions_per_second": "25", "axes": "last"},
            {
                "segments": [
                    {"type": "text", "tokens": 1},
                    {"type": "shared", "tokens": 2},
                    {"type": "video", "grid": [2, 2, 2], "seconds_per_grid": 2.0, "audio_tokens": 3},
                    {"type": "shared", "tokens": 2},
                ]
            },
        ),
    ),
    used_by=(
        Usage("Qwen2-VL, Qwen3-VL, Qwen3.5, GLM-4V in transformers 5", {"advance": "max-hw"}, preset="qwen2-vl"),
        Usage("Qwen2-VL, Qwen3-VL in transformers 4", _TRANSFORMERS_4, preset="qwen2-vl-4"),
        Usage(
            "Qwen2.5-VL in transformers 5", {"positions_per_second": "2", "arithmetic": "float32"}, preset="qwen2-5-vl"
        ),
        Usage(
            "Qwen2.5-VL in transformers 4",
            {**_TRANSFORMERS_4, "positions_per_second": "2", "arithmetic": "whole-seconds"},
            preset="qwen2-5-vl-4",
        ),
        Usage(
            "transformers 4.57, whose models add their own rate, merges and arithmetic",
            _TRANSFORMERS_4,
            preset="transformers-4.57",
        ),
        Usage(
            "vLLM: Qwen2-VL, Qwen2.5-VL with its own rate",
            {"advance": "max-all", "arithmetic": "float32-seconds-first"},
            preset="vllm",
        ),
        Usage("ERNIE-4.5-VL", {"temporal_merge_size": "2"}, preset="ernie-4-5-vl"),
        Usage(
            "Qwen2.5-Omni",
            {
                "advance": "max-all",
                "positions_per_second": "25",
                "arithmetic": "float32-seconds-first",
                "interleave": "windows",
                "fill": "1",
            },
            preset="qwen2-5-omni",
        ),
        Usage(
            "Qwen3-Omni",
            {
                "advance": "max-all",
                "positions_per_second": "13",
                "arithmetic": "float32-seconds-first",
                "interleave": "time",
                "times": "fractions",
                "dtype": "float32",
                "audio_lengths": "windows",
            },
            preset="qwen3-omni",
        ),
    ),
    properties={
        "learned parameters": "none",
        "extrapolates": "a grid takes as many positions as its longer side",
        "fractions": "with times=fractions every step is rounded to float32 once, in the library's order",
    },
)
