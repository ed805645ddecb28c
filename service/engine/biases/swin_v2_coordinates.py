"""Swin v2's log-spaced relative coordinates, from which a small network makes the bias table (Liu et al., 2022)."""

from fractions import Fraction
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.reals import Reals
from service.engine.quantities import DType, Window
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Params, Scheme, Tensor, Tensors, Usage, own_table
from service.engine.waves import values

LONGEST_SIDE = 4096


class SwinV2Coordinates(Params):
    """Parameters of `biases/swin-v2-coordinates`."""

    window: Window
    pretrained_window: Annotated[
        Window | None, Field(description="The window that the network was trained with, which then sets the scale.")
    ] = None
    mode: Annotated[
        Literal["swin", "cr"],
        Field(
            description="`swin`: sign(r) log2(1 + 8 |r| / (size - 1)) / 3; `cr`: sign(r) ln(1 + |r|), unscaled "
            "(timm's SwinV2-CR)."
        ),
    ] = "swin"
    dtype: DType = "float32"


def _grid(window: Window) -> tuple[int, ...]:
    return tuple(2 * size - 1 for size in window)


def _scales(params: SwinV2Coordinates) -> list[Fraction]:
    """What each axis is multiplied with before the logarithm."""
    if max(params.window) > LONGEST_SIDE:
        raise Refusal(
            "window",
            "out_of_range",
            f"window has a side of {max(params.window)}; {LONGEST_SIDE} at most are computed",
            limit=LONGEST_SIDE,
            requested=max(params.window),
        )
    trained = params.pretrained_window
    if trained is None:
        trained = params.window
    elif params.mode == "cr":
        raise Refusal("pretrained_window", "conflict", "mode=cr has no scale: leave pretrained_window out")
    elif len(trained) != len(params.window) or 1 in trained:
        raise Refusal(
            "pretrained_window",
            "out_of_range",
            f"pretrained_window is {','.join(map(str, trained))}; {len(params.window)} sizes of 2 or more are needed, "
            "one for each of window: they are divided by size - 1",
        )
    return [Fraction(8, max(size - 1, 1)) if params.mode == "swin" else Fraction(1) for size in trained]


def _tensors(params: SwinV2Coordinates, _inputs: Inputs) -> Tensors:
    _scales(params)
    sizes = _grid(params.window)
    axes = ("frames", "height", "width")[-len(sizes) :]
    return {"coordinates": Tensor((*axes, "axis"), (*sizes, len(sizes)), params.dtype)}


def _prepare(params: SwinV2Coordinates, _inputs: Inputs) -> list[Array]:
    """The coordinates along each axis, in the number format of the answer."""
    divisor = Reals.of([8]).logarithm().numbers[0] if params.mode == "swin" else 1
    axes = []
    for size, scale in zip(params.window, _scales(params), strict=True):
        ahead = Reals.of([1 + scale * step for step in range(1, size)]).logarithm() / divisor
        right = values(ahead, DTYPES[params.dtype])
        axes.append(np.concatenate([-right[::-1], np.zeros(1, right.dtype), right]))
    return axes


def _rows(params: SwinV2Coordinates, _inputs: Inputs, state: list[Array], _tensor: str, start: int, stop: int) -> Array:
    places = np.unravel_index(np.arange(start, stop), _grid(params.window))
    return np.stack([axis[place] for axis, place in zip(state, places, strict=True)], axis=1)


def _facts(params: SwinV2Coordinates, _inputs: Inputs) -> Facts:
    rows = prod(_grid(params.window))
    return {"table_rows": rows, "table_bytes_per_head": 4 * rows}


DESCRIPTION = """\
For the relative coordinates r = -(size - 1) ... size - 1 of each axis of a window, `mode=swin`: `sign(r) log2(1 + 8
|r| / (size - 1)) / log2(8)`, size that of `pretrained_window` where given; an axis of size 1 has the coordinate 0.
`mode=cr`: `sign(r) ln(1 + |r|)`. A network of two layers turns each point into one number a head, and 16 times its
sigmoid is the bias that `biases/swin-index` points into.

**Axes**: (height, width, axis), with frames first for video; the last axis holds the coordinate in (frames,) height,
width."""

SCHEME: Scheme[SwinV2Coordinates, list[Array]] = Scheme(
    family="biases",
    name="swin-v2-coordinates",
    title="Log-spaced relative coordinates in a window",
    explanation=(
        "Swin v2 does not learn a number for each distance but a small network that makes one from it. Its inputs are "
        "these coordinates, on a logarithmic scale, so that a larger window has few values that are new to it."
    ),
    description=DESCRIPTION,
    reference="Liu et al., Swin Transformer V2: Scaling Up Capacity and Resolution, 2022, section 3.3",
    params=SwinV2Coordinates,
    rounding="correct",
    tensors=_tensors,
    sequence=own_table,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    state_bytes=lambda params, _inputs: 16 * sum(params.window),
    examples=(
        Example("A window of 2 x 3 patches", {"window": "2,3"}),
        Example("Window 16 of a network trained with 8", {"window": "3,4", "pretrained_window": "8,8"}),
    ),
    used_by=(
        Usage("Swin v2 trained at window 8", {"window": "8,8"}, "swin-v2-window8"),
        Usage(
            "Swin v2 at window 16, trained at window 8",
            {"window": "16,16", "pretrained_window": "8,8"},
            "swin-v2-window16-from-8",
        ),
        Usage("timm SwinV2-CR (window 7)", {"window": "7,7", "mode": "cr"}, "timm-swin-v2-cr"),
    ),
    properties={
        "learned parameters": "the network's, none here",
        "memory per head": "(2 H - 1)(2 W - 1) numbers once the network has run",
        "extrapolates": "yes: the coordinates of a larger window lie close to those trained with",
    },
)
