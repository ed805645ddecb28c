"""The sine encoding of DETR's decoders: of points and boxes, a block of channels for each coordinate."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import float32_notes
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, wave_bytes
from service.engine.grid_sinusoids import (
    TWO_PI,
    GridLayout,
    Writer,
    arranged,
    detr_pairs,
    power_table,
    refuse_indivisible,
)
from service.engine.numbers.reals import angle_factor
from service.engine.positions import Where, as_positions
from service.engine.quantities import LARGEST_EXACT_INTEGER, Base, DType, ExactOrFloat32, Integer, Real
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import fastest

MOST_COORDINATES = 256
POINTS = Input(
    "positions", "Points (…, 2) as x and y, or boxes (…, 4) as x, y, width and height; other counts of coordinates too."
)


class DetrBoxes(Params):
    """Parameters of `encodings/detr-boxes`."""

    dim: Annotated[
        Integer, Field(ge=2, le=65_536, description="Channels of each coordinate (num_pos_feats), an even number.")
    ]
    base: Base = 10_000.0
    scale: Annotated[Real | None, Field(ge=1e-6, le=1000, description="Multiplies the coordinates (2 pi).")] = None
    coordinate_order: Annotated[
        Literal["y-first", "as-given"],
        Field(
            description="Order of the blocks of x, y, width, height: `y-first` y, x, and the rest as it is; `as-given`."
        ),
    ] = "y-first"
    layout: GridLayout = "interleaved"
    arithmetic: ExactOrFloat32 = "exact"
    dtype: DType = "float32"


def _points(inputs: Inputs) -> Array:
    """The coordinates of each point or box, (…, coordinates), as float64."""
    points = as_positions(inputs["positions"], "/positions")
    if points.shape[-1] > MOST_COORDINATES:
        detail = f"positions have {points.shape[-1]} coordinates on their last axis; {MOST_COORDINATES} is the most"
        raise Refusal("/positions", "shape", detail, limit=MOST_COORDINATES, requested=points.shape[-1])
    return points


def _tensors(params: DetrBoxes, inputs: Inputs) -> Tensors:
    refuse_indivisible(params.dim, 2)
    points, scale = _points(inputs), params.scale or TWO_PI
    if fastest(power_table(params.base, params.arithmetic), params.dim) * scale > 2.0**FASTEST_BITS:
        detail = f"scale is {params.scale or '2 pi'}, which with this base makes frequencies beyond 2^63"
        raise Refusal("scale", "out_of_range", detail)
    if params.arithmetic == "float32" and float(np.abs(points).max()) * scale > LARGEST_EXACT_INTEGER:
        detail = "positions times scale lie beyond 2^53, which arithmetic=float32 does not take"
        raise Refusal("/positions", "out_of_range", detail, limit=LARGEST_EXACT_INTEGER)
    places = Where(points.shape[:-1], points)
    axes = places.axes if points.ndim > 1 else ()
    return {"encoding": Tensor((*axes, "channel"), (*places.shape, points.shape[-1] * params.dim), params.dtype)}


def _prepare(params: DetrBoxes, _inputs: Inputs) -> Writer:
    scale = angle_factor("two-pi") if params.scale is None else params.scale
    return detr_pairs(params.base, params.dim, params.arithmetic, scale).writer()


def _rows(params: DetrBoxes, inputs: Inputs, state: Writer, _tensor: str, start: int, stop: int) -> Array:
    points = _points(inputs)
    points = points.reshape(-1, points.shape[-1])[start:stop]
    if params.arithmetic == "float32":
        points = (points.astype(np.float32) * np.float32(params.scale or TWO_PI)).astype(np.float64)
    order = list(range(points.shape[1]))
    if params.coordinate_order == "y-first":
        order[:2] = order[1::-1]
    out = np.empty((len(points), len(order) * params.dim), DTYPES[params.dtype])
    for coordinate, columns in zip(order, arranged([params.dim] * len(order), params.layout), strict=True):
        at = np.ascontiguousarray(points[:, coordinate])
        state.write(at, out[:, columns.cosines], out[:, columns.sines])
    return out


DESCRIPTION = """\
The coordinates of a point, (x, y), or of a box, (x, y, width, height), are the last axis of `positions`, in shares of
the image (0 to 1). Each coordinate c has `dim` channels: dim/2 sines and as many cosines of `scale * c * w_k`,
`w_k = base^(-2k/dim)`, k = 0 ... dim/2 - 1; `dim` is half of the model's width in most models.

**Channel order**: the block of y, then of x, then of width and height (`coordinate_order`), in each sin w_0, cos w_0,
sin w_1, cos w_1, ... (`layout`). **Axes**: (…, position, channel)."""

SCHEME: Scheme[DetrBoxes, Writer] = Scheme(
    family="encodings",
    name="detr-boxes",
    title="Sine encoding of points and boxes in DETR's decoders",
    explanation=(
        "The decoders of these detectors ask about points and boxes. The coordinates of each, from 0 to 1, become "
        "sines and cosines as the pixels' do, so that a query and what it looks for speak one language."
    ),
    description=DESCRIPTION,
    reference="Liu et al., DAB-DETR, 2022; Meng et al., Conditional DETR, 2021; Zhu et al., Deformable DETR, 2021",
    params=DetrBoxes,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    notes=lambda params, _inputs: float32_notes(params.arithmetic),
    state_bytes=lambda params, _inputs: wave_bytes(params.dim),
    inputs=(POINTS,),
    examples=(
        Example("Two points", {"dim": "4"}, {"positions": [[0.25, 0.5], [1, 0]]}),
        Example(
            "A batch of boxes in the float32 steps of model code",
            {"dim": "4", "arithmetic": "float32"},
            {"positions": [[[0.5, 0.5, 1, 1]], [[0.1, 0.9, 0.2, 0.05]]]},
        ),
    ),
    used_by=(
        Usage(
            "DAB-DETR, Conditional DETR, Grounding DINO, LW-DETR, RF-DETR, SAM 3",
            {"arithmetic": "float32"},
            preset="dab-detr",
        ),
        Usage(
            "Deformable DETR's proposals (two stages), after their sigmoid",
            {"coordinate_order": "as-given", "arithmetic": "float32"},
            preset="deformable-detr",
        ),
    ),
    properties={"learned parameters": "none", "extrapolates": "defined at any coordinate"},
)
