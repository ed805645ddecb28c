"""Random Fourier features: sines and cosines of Gaussian random projections (Rahimi and Recht; Tancik et al.)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.weights import seed_of, trained
from service.engine.errors import Refusal
from service.engine.frequencies import REAL_BYTES, refuse_overflow, wave_bytes
from service.engine.numbers.pairs import Floats
from service.engine.numbers.random_numbers import normal
from service.engine.numbers.reals import Reals, angle_factor
from service.engine.numbers.sums import Sums
from service.engine.points import Coordinates, axes_of_a_point, points
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import AngleFactor, Dim, DType, Layout, Real, Seed
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import channels
from service.engine.waves import Waves

MOST_WEIGHTS = 1 << 18  # each is prepared as a frequency of its own, in some 15 microseconds
Output = Annotated[
    Literal["features", "weights"],
    Field(description="`features`: the encoding; `weights`: the weights as drawn, before scale and angle factor."),
]


class GaussianFourier(Positioned):
    """Parameters of `encodings/gaussian-fourier`."""

    dim: Dim
    seed: Seed | None = None
    scale: Annotated[
        Real, Field(ge=1e-9, le=1e9, description="Standard deviation: it multiplies the drawn weights, or the body's.")
    ] = 1.0
    angle_factor: AngleFactor = "two-pi"
    coordinates: Coordinates = "each"
    layout: Layout = "sin-cos"
    output: Output = "features"
    dtype: DType = "float32"


def _tensors(params: GaussianFourier, inputs: Inputs) -> Tensors:
    if params.dim % 2:
        raise Refusal("dim", "odd", f"dim is {params.dim}; sines and cosines come in pairs: {params.dim + 1} would do")
    if params.coordinates == "each" and params.output == "weights":
        return {"weights": _weights_tensor(params, inputs)}
    point = points(params.coordinates, where(params, inputs))
    weights = _weights_tensor(params, inputs)
    if params.output == "weights":
        return {"weights": weights}
    return {"features": Tensor((*point.axes, "channel"), (*point.shape, params.dim), params.dtype)}


def _weights_tensor(params: GaussianFourier, inputs: Inputs) -> Tensor:
    _refuse_many(params, axes_of_a_point(params.coordinates, inputs))
    largest = float(np.abs(_weights(params, inputs)).max())
    if params.output == "weights":
        refuse_overflow(largest, params.dtype, "the largest weight")
    elif largest * params.scale > 2.0**60:
        detail = f"scale is {params.scale:g}, and the largest weight {largest:.3g}; their product may be 2^60 at most"
        raise Refusal("scale", "out_of_range", detail)
    shape = (axes_of_a_point(params.coordinates, inputs), params.dim // 2)
    return Tensor(("coordinate", "feature"), shape, params.dtype)


def _refuse_many(params: GaussianFourier, axes: int) -> None:
    count = axes * params.dim // 2
    if count > MOST_WEIGHTS:
        fitting = f"dim={2 * (MOST_WEIGHTS // axes)} or " if axes <= MOST_WEIGHTS else ""
        said = f"dim is {params.dim}; points of {axes} coordinates have {count} weights then"
        detail = f"{said}, of {MOST_WEIGHTS} at most: {fitting}fewer coordinates would do"
        raise Refusal("dim", "too_large", detail, limit=MOST_WEIGHTS, requested=count)


def _weights(params: GaussianFourier, inputs: Inputs) -> Floats:
    """(coordinates, features)."""
    shape = (axes_of_a_point(params.coordinates, inputs), params.dim // 2)
    seed = seed_of(params.seed, inputs, ("weights",))
    if seed is not None:
        return normal(seed, range(shape[0]), shape[1])
    if params.coordinates == "each":
        return trained(inputs, "weights", ("feature",), shape[1:])[None, :]
    return trained(inputs, "weights", ("coordinate", "feature"), shape)


def _prepare(params: GaussianFourier, inputs: Inputs) -> Waves | Sums:
    factor = angle_factor(params.angle_factor)
    terms = [Reals.of(row) * params.scale * factor for row in _weights(params, inputs).tolist()]
    return Waves(terms[0]) if len(terms) == 1 else Sums(terms)


def _state_bytes(params: GaussianFourier, inputs: Inputs) -> int:
    axes = axes_of_a_point(params.coordinates, inputs)
    return wave_bytes(params.dim) if axes == 1 else 2 * REAL_BYTES * axes * params.dim // 2


def _rows(params: GaussianFourier, inputs: Inputs, state: Waves | Sums, tensor: str, start: int, stop: int) -> Array:
    dtype = DTYPES[params.dtype]
    if tensor == "weights":
        return nearest(_weights(params, inputs)[start:stop], dtype)
    out = np.empty((stop - start, params.dim), dtype)
    order = channels(params.dim, params.layout, "refuse")
    axes = axes_of_a_point(params.coordinates, inputs)
    at = part(params, inputs, start * axes, stop * axes)
    if isinstance(state, Waves):
        state.write(at, out[:, order.sines], out[:, order.cosines])
    else:
        state.write(np.asarray(at, np.float64).reshape(-1, axes), out[:, order.sines], out[:, order.cosines])
    return out


DESCRIPTION = """\
A point x has the features `sin(f s w_k . x)` and `cos(f s w_k . x)`, k = 0 ... dim/2 - 1: f the `angle_factor`
(2 pi), s the `scale`, w_k random numbers of the standard normal distribution, or trained ones from the body.

Weight k of coordinate j is number (j, k) of `seed`, drawn by address: Philox4x32-10 with the seed as key and the
counter (k, j, 0, 0); 52 bits of its first two words make a uniform number, the inverse of the normal distribution
(Wichura's AS 241 in float64) the weight. The features are exact for these float64.

**Channel order**: `layout=sin-cos` all sines, then all cosines; `cos-sin` the reverse; `interleaved` sin, cos in turns.
**Axes**: (position, channel); `output=weights`: (coordinate, feature)."""

SCHEME: Scheme[GaussianFourier, Waves | Sums] = Scheme(
    family="encodings",
    name="gaussian-fourier",
    title="Gaussian random Fourier features",
    explanation=(
        "The same idea as Fourier features, with frequencies drawn at random instead of in bands. The scale of the "
        "draw decides how fine the detail is that a network can learn."
    ),
    description=DESCRIPTION,
    reference="Tancik et al., Fourier Features Let Networks Learn High Frequency Functions, 2020; Song et al., 2021",
    params=GaussianFourier,
    rounding="correct",
    tensors=_tensors,
    sequence=lambda params, inputs: None if inputs or params.output == "weights" else sequence(params, inputs),
    prepare=_prepare,
    rows=_rows,
    state_bytes=_state_bytes,
    inputs=(
        POSITIONS_INPUT,
        Input("weights", "Trained weights: one a feature, or (coordinate, feature) for points.", required=False),
    ),
    examples=(
        Example("Eight features of two times", {"positions": "0.25,-1", "dim": "8", "seed": "7", "scale": "16"}),
        Example(
            "Two points in a plane, in the body",
            {"dim": "6", "seed": "7", "coordinates": "last-axis"},
            {"positions": [[0.1, 0.2], [1, -1]]},
        ),
    ),
    used_by=(
        Usage(
            "diffusers GaussianFourierProjection (of ln x; score-based models)",
            {"seed": "0", "scale": "16"},
            "score-sde",
        ),
        Usage("the same with flip_sin_to_cos", {"seed": "0", "scale": "16", "layout": "cos-sin"}, "score-sde-flipped"),
        Usage("Segment Anything prompt encoder (points in -1 ... 1)", {"seed": "0"}, "sam"),
    ),
    properties={"learned parameters": "dim/2 per coordinate, drawn or brought", "extrapolates": "defined at any point"},
)
