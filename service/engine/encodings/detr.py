"""DETR's sine encoding of a feature map: cumulative counts of pixels, normalised, in sines and cosines."""

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.arithmetics import float32_notes
from service.engine.attention.attending import MOST_KEYS, Booleans, truths
from service.engine.errors import Refusal
from service.engine.frequencies import wave_bytes
from service.engine.grid_sinusoids import (
    TWO_PI,
    AxisOrder,
    ChannelAxis,
    Columns,
    GridAxes,
    GridLayout,
    Layer,
    Pairs,
    Writer,
    arranged,
    detr_pairs,
    power_table,
    refuse_indivisible,
    with_channels,
    write_cells,
    write_planes,
)
from service.engine.grids import Along, along, per_axis
from service.engine.numbers.pairs import Floats
from service.engine.quantities import BasePerAxis, Dim, DType, Grid2D, Real
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Input, Inputs, Params, Scheme, Tensors, Usage, own_table, unused
from service.engine.sinusoids import fastest

MASK = Input(
    "mask",
    "Which pixels are of the image and which are padding, 0 and 1, or truth values: (height, width), or (batch, "
    "height, width).",
    required=False,
    values="flags",
)


class Detr(Params):
    """Parameters of `encodings/detr`."""

    dim: Dim
    grid: Grid2D | None = None
    base: BasePerAxis = (10_000.0,)
    normalize: Annotated[
        Literal["last", "none"],
        Field(
            description="`last`: (count + offset) / (last count + eps) * scale, as every model has it; `none`: count + "
            "offset, as the libraries' classes have it by default."
        ),
    ] = "last"
    scale: Annotated[
        Real | None, Field(ge=1e-6, le=1000, description="Where the last pixel lies after normalising (2 pi).")
    ] = None
    eps: Annotated[Real, Field(ge=1e-12, le=1, description="Added to the last count, lest it be 0.")] = 1e-6
    offset: Annotated[
        Real, Field(ge=-1, le=1, description="Added to the counts, which begin with 1: -0.5 is the centre of a pixel.")
    ] = 0.0
    mask_marks: Annotated[
        Literal["pixels", "padding"],
        Field(description="What 1 in the mask means: `pixels` of the image (transformers); `padding` (DETR's code)."),
    ] = "pixels"
    axis_order: AxisOrder = "h-first"
    layout: GridLayout = "interleaved"
    grid_axes: GridAxes = "flat"
    channel_axis: ChannelAxis = "last"
    arithmetic: Annotated[
        Literal["exact", "float32"],
        Field(
            description="`exact`: positions in float64, the rest in real numbers, rounded once; `float32`: step by "
            "step as PyTorch model code."
        ),
    ] = "exact"
    dtype: DType = "float32"


class Counts(NamedTuple):
    """Along one axis: the count of every pixel (batch, height, width), and the last one of its line."""

    so_far: NDArray[np.int32]
    last: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class State:
    """The pairs of each axis, height then width, what writes them, and the mask's counts of each."""

    pairs: tuple[Pairs, Pairs]
    writers: tuple[Writer, Writer]
    counts: tuple[Counts, Counts] | None


def _pixels(params: Detr, inputs: Inputs) -> Booleans | None:
    """The mask as (batch, height, width), True where a pixel is; None without one."""
    if "mask" not in inputs:
        return None
    array = inputs["mask"]
    _refuse_shape(params, array)
    pixels = truths("mask", inputs).reshape(-1, *array.shape[-2:])
    if params.mask_marks == "padding":
        pixels = ~pixels
    empty = ~pixels.any(axis=(1, 2))
    if empty.any():
        image = f"/{int(np.argmax(empty))}" if array.ndim == 3 else ""
        detail = f"no pixel of this image is left (mask_marks={params.mask_marks}); one at least is needed"
        raise Refusal(f"/tensors/mask{image}", "empty", detail)
    return pixels


def _refuse_shape(params: Detr, mask: Array) -> None:
    pointer = "/tensors/mask"
    if mask.ndim not in (2, 3) or mask.size == 0:
        detail = f"mask has the shape {mask.shape}; (height, width) or (batch, height, width) is needed, not empty"
        raise Refusal(pointer, "shape", detail)
    if mask.size > MOST_KEYS:
        detail = f"mask has {mask.size} entries; {MOST_KEYS} will do: send the batch in parts"
        raise Refusal(pointer, "too_large", detail, limit=MOST_KEYS, requested=mask.size)
    if params.grid is not None and per_axis(params.grid, 2, "grid") != mask.shape[-2:]:
        detail = f"mask has the shape {mask.shape}; grid is {','.join(map(str, params.grid))}: leave grid out"
        raise Refusal(pointer, "shape", detail)


def _sides(params: Detr, inputs: Inputs) -> tuple[int, ...]:
    """Height and width."""
    if "mask" in inputs:
        return inputs["mask"].shape[-2:]
    if params.grid is None:
        raise Refusal("grid", "missing", "grid is missing: give grid=height,width, or a mask in the body")
    return per_axis(params.grid, 2, "grid")


def _tensors(params: Detr, inputs: Inputs) -> Tensors:
    _pixels(params, inputs)
    sides = _sides(params, inputs)
    refuse_indivisible(params.dim, 4)
    for base in _bases(params):
        fastest(power_table(base, params.arithmetic), params.dim // 2)
    if params.normalize == "none" and params.scale is not None:
        raise Refusal("scale", "conflict", "scale is part of normalising: leave it out, or give normalize=last")
    axes: tuple[str, ...] = ("height", "width")
    shape = sides
    if params.grid_axes == "flat":
        axes, shape = ("position",), (prod(sides),)
    batch = inputs["mask"].shape[:-2] if "mask" in inputs else ()
    return {"encoding": with_channels(axes, shape, params.dim, params.channel_axis, params.dtype, batch)}


def _bases(params: Detr) -> tuple[float, ...]:
    return per_axis(params.base, 2, "base")


def _prepare(params: Detr, inputs: Inputs) -> State:
    pixels = _pixels(params, inputs)
    counts = None if pixels is None else (_counted(pixels, 1), _counted(pixels, 2))
    height, width = (detr_pairs(base, params.dim // 2, params.arithmetic) for base in _bases(params))
    return State((height, width), (height.writer(), width.writer()), counts)


def _counted(pixels: Booleans, axis: int) -> Counts:
    so_far = np.cumsum(pixels, axis=axis, dtype=np.int32)
    return Counts(so_far, np.take(so_far, [-1], axis=axis).squeeze(axis))


def _rows(params: Detr, inputs: Inputs, state: State, _tensor: str, start: int, stop: int) -> Array:
    sides, dtype = _sides(params, inputs), DTYPES[params.dtype]
    layers = [
        Layer(state.pairs[axis], state.writers[axis], columns, partial(_placed, params, sides, state.counts, axis))
        for axis, columns in _columns(params).items()
    ]
    if params.channel_axis == "first":
        out = np.empty((stop - start, sides[1] if params.grid_axes == "kept" else prod(sides)), dtype)
        write_planes(layers, params.dim, prod(sides), start, out)
    else:
        out = np.empty((stop - start, params.dim), dtype)
        write_cells(layers, start, out)
    return out


def _placed(
    params: Detr, sides: tuple[int, ...], counts: tuple[Counts, Counts] | None, axis: int, start: int, stop: int
) -> tuple[Floats, NDArray[np.intp]]:
    """The positions along an axis of those pixels, each once, and the place of every pixel's among them."""
    if counts is None:
        return _of_index(params, along(sides, axis, start, stop), sides[axis])
    return _of_mask(params, counts[axis], axis, start, stop)


def _columns(params: Detr) -> dict[int, Columns]:
    """The channels of each axis, 0 for height and 1 for width."""
    first, second = arranged([params.dim // 2] * 2, params.layout)
    return {0: first, 1: second} if params.axis_order == "h-first" else {1: first, 0: second}


def _of_index(params: Detr, found: Along, side: int) -> tuple[Floats, NDArray[np.intp]]:
    """Positions where every cell is a pixel: the count is the index + 1."""
    counts = np.asarray(found.indices, np.float64) + 1
    return _positions(params, counts, np.full(counts.shape, float(side))), found.places


def _of_mask(params: Detr, counts: Counts, axis: int, start: int, stop: int) -> tuple[Floats, NDArray[np.intp]]:
    """Positions of those rows, each once, and the place of every row's among them."""
    height, width = counts.so_far.shape[1:]
    image, pixel = np.divmod(np.arange(start, stop), height * width)
    line = pixel % width if axis == 0 else pixel // width
    last = counts.last[image, line].astype(np.float64)
    at = _positions(params, counts.so_far.reshape(-1)[start:stop].astype(np.float64), last)
    return np.unique(at, return_inverse=True)


def _positions(params: Detr, counts: Floats, last: Floats) -> Floats:
    """(count + offset) / (last + eps) * scale, each step rounded to float64 or float32."""
    steps = np.float32 if params.arithmetic == "float32" else np.float64
    given = TWO_PI if params.scale is None else params.scale
    offset, eps, scale = np.array([params.offset, params.eps, given], steps)
    positions: Array = counts.astype(steps) + offset
    if params.normalize == "last":
        positions = positions / (last.astype(steps) + eps) * scale
    return positions.astype(np.float64)


def _resolve(params: Detr, inputs: Inputs) -> Detr:
    scale = TWO_PI if params.scale is None and params.normalize == "last" else params.scale
    return params.model_copy(update={"grid": _sides(params, inputs), "base": _bases(params), "scale": scale})


def _notes(params: Detr, inputs: Inputs) -> list[str]:
    notes = float32_notes(params.arithmetic)
    notes += unused(params, ("eps",), "normalize=none") if params.normalize == "none" else []
    return notes if inputs else notes + unused(params, ("mask_marks",), "no mask")


def _state_bytes(params: Detr, inputs: Inputs) -> int:
    mask = inputs["mask"].size if "mask" in inputs else 0
    return wave_bytes(params.dim) + 12 * mask


DESCRIPTION = """\
The pixels of a feature map are counted along each axis, padding not: the count of the first pixel is 1. Of a pixel
whose counts are Y (in its column) and X (in its row), and whose column and row end with the counts H and W, the
positions are `y = (Y + offset) / (H + eps) * scale` and `x = (X + offset) / (W + eps) * scale`, taken in float64, each
step rounded; the table is exact for these. Each axis has half of the channels: dim/4 sines and as many cosines of
`y w_k` or `x w_k`, `w_k = base^(-4k/dim)`, k = 0 ... dim/4 - 1.

**Channel order**: y's half, then x's, in each sin w_0, cos w_0, sin w_1, cos w_1, ... (`axis_order`, `layout`).

**Axes**: (position, channel), the pixels row by row, as the encoder reads them after flattening; with `grid_axes=kept`
(height, width, channel); with `channel_axis=first` besides (channel, height, width), as the libraries' modules answer.
A mask of a batch brings a first axis of its own."""

SCHEME: Scheme[Detr, State] = Scheme(
    family="encodings",
    name="detr",
    title="DETR's sine encoding of a feature map",
    explanation=(
        "Object detectors of the DETR family tell the pixels of a feature map apart by sines and cosines of where they "
        "lie in the image. Padding of a batch is not counted, and the coordinates are shares of the image, so that a "
        "picture looks the same in every size."
    ),
    description=DESCRIPTION,
    reference="Carion et al., End-to-End Object Detection with Transformers, 2020; transformers 5.24",
    params=Detr,
    rounding="correct",
    tensors=_tensors,
    sequence=own_table,
    prepare=_prepare,
    rows=_rows,
    resolve=_resolve,
    facts=lambda params, _inputs: {"height_channels": params.dim // 2, "width_channels": params.dim // 2},
    notes=_notes,
    state_bytes=_state_bytes,
    inputs=(MASK,),
    examples=(
        Example("A feature map of 2 x 3 pixels", {"grid": "2,3", "dim": "8"}),
        Example(
            "Deformable DETR in the float32 steps of its code",
            {"grid": "3,2", "dim": "8", "offset": "-0.5", "arithmetic": "float32", "grid_axes": "kept"},
        ),
        Example(
            "Two images, one of them padded on the right and below",
            {"dim": "4"},
            {"tensors": {"mask": [[[1, 1, 1], [1, 1, 1]], [[1, 1, 0], [0, 0, 0]]]}},
        ),
    ),
    used_by=(
        Usage(
            "DETR, Conditional DETR, Table Transformer, MaskFormer, Mask2Former, OneFormer, SAM 2 and 3, EdgeTAM",
            {"arithmetic": "float32"},
            preset="detr",
        ),
        Usage("Deformable DETR", {"offset": "-0.5", "arithmetic": "float32"}, preset="deformable-detr"),
        Usage("DAB-DETR", {"base": "20", "arithmetic": "float32"}, preset="dab-detr"),
        Usage("Grounding DINO, MM Grounding DINO", {"base": "20", "arithmetic": "float32"}, preset="grounding-dino"),
        Usage(
            "the modules themselves: (batch, channel, height, width)",
            {"grid_axes": "kept", "channel_axis": "first", "arithmetic": "float32"},
            preset="detr-module",
        ),
        Usage(
            "transformers' DETR modules without normalize=True, which is their default",
            {"normalize": "none", "arithmetic": "float32"},
            preset="detr-not-normalized",
        ),
    ),
    properties={
        "distance": "by rows and columns apart, as shares of the image",
        "caching": "added to queries and keys in every layer",
        "implementation": "one table an image, of its padding mask",
        "learned parameters": "none",
        "extrapolates": "normalised positions lie between 0 and scale, whatever the size of the image",
        "memory per head": "none: one table of pixels * dim values serves all heads",
    },
)
