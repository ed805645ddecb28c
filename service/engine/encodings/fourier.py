"""Fourier features of coordinates: octave bands (NeRF), linear bands (Perceiver), geometric bands (GLIGEN)."""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, WAVE_BYTES, refuse_overflow
from service.engine.numbers.reals import Reals, angle_factor, geometric
from service.engine.points import Coordinates, axes_of_a_point, points
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import AngleFactor, Base, DType, Integer, Layout, Real
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.waves import Waves


class Fourier(Positioned):
    """Parameters of `encodings/fourier`."""

    bands: Annotated[Integer, Field(ge=1, le=4096, description="Frequencies per coordinate.")]
    spacing: Annotated[
        Literal["octave", "linear", "geometric"],
        Field(
            description="w_k of the n bands: `octave` 2^k; `linear` n numbers evenly from 1 to resolution/2; "
            "`geometric` base^(k/n)."
        ),
    ] = "octave"
    resolution: Annotated[
        Real | None,
        Field(gt=0, le=1e15, description="Of `spacing=linear`: twice the last frequency (pixels along an axis)."),
    ] = None
    base: Base | None = None
    angle_factor: AngleFactor = "pi"
    include_input: Annotated[
        Literal["none", "first"],
        Field(description="`first`: the coordinates themselves come before their sines and cosines."),
    ] = "none"
    coordinates: Coordinates = "each"
    layout: Layout = "interleaved"
    dtype: DType = "float32"


def _tensors(params: Fourier, inputs: Inputs) -> Tensors:
    _refuse_strangers(params)
    fastest = _fastest(params)
    if fastest > 2.0**FASTEST_BITS:
        name = {"octave": "bands", "linear": "resolution", "geometric": "base"}[params.spacing]
        detail = f"{name} makes frequencies of about {fastest:.3g} radians per unit; 2^63 is the most"
        raise Refusal(name, "out_of_range", detail)
    places = where(params, inputs)
    if params.include_input == "first":
        refuse_overflow(places.farthest, params.dtype, "the largest coordinate")
    point = points(params.coordinates, places)
    width = axes_of_a_point(params.coordinates, inputs) * (2 * params.bands + (params.include_input == "first"))
    return {"features": Tensor((*point.axes, "channel"), (*point.shape, width), params.dtype)}


def _refuse_strangers(params: Fourier) -> None:
    """Each spacing takes its own parameter, and no other's."""
    for name, spacing in (("resolution", "linear"), ("base", "geometric")):
        given = getattr(params, name) is not None
        if given and params.spacing != spacing:
            detail = f"{name} belongs to spacing={spacing}; spacing is {params.spacing}"
            raise Refusal(name, "conflict", detail)
        if not given and params.spacing == spacing:
            raise Refusal(name, "missing", f"{name} is missing; spacing={spacing} needs it")


def _fastest(params: Fourier) -> float:
    """No less than the largest frequency, about."""
    factor = 7.0
    if params.spacing == "octave":
        return factor * 2.0 ** min(params.bands - 1, 99)
    return factor * max(1.0, params.resolution or params.base or 0.0)


def _frequencies(params: Fourier) -> Reals:
    if params.spacing == "octave":
        return Reals.of(2**k for k in range(params.bands))
    if params.base is not None:
        return geometric(params.base, [Fraction(k, params.bands) for k in range(params.bands)])
    last = Fraction(params.resolution or 0) / 2
    step = (last - 1) / max(params.bands - 1, 1)
    return Reals.of(1 + k * step for k in range(params.bands))


def _rows(params: Fourier, inputs: Inputs, state: Waves, _tensor: str, start: int, stop: int) -> Array:
    axes = axes_of_a_point(params.coordinates, inputs)
    at, dtype = part(params, inputs, start * axes, stop * axes), DTYPES[params.dtype]
    shape = (stop - start, axes, params.bands)
    waves = np.empty((2, (stop - start) * axes, params.bands), dtype)
    state.write(at, *waves)
    sines, cosines = waves.reshape(2, *shape)
    columns = [_arranged(sines, cosines, params.layout).reshape(stop - start, -1)]
    if params.include_input == "first":
        columns.insert(0, nearest(np.asarray(at, np.float64).reshape(-1, axes), dtype))
    return np.concatenate(columns, axis=1)


def _arranged(sines: Array, cosines: Array, layout: str) -> Array:
    """(points, coordinates, bands) of each in channel order."""
    if layout == "interleaved":
        return np.stack([sines, cosines], axis=1).transpose(0, 3, 1, 2)
    return np.stack([sines, cosines] if layout == "sin-cos" else [cosines, sines], axis=1)


DESCRIPTION = """\
For a coordinate x and frequency w_k the features are `sin(f w_k x)` and `cos(f w_k x)`. The factor f is pi in both
papers (NeRF, Perceiver); the published NeRF code has 1: `angle_factor` says which.

**Channel order**: `layout=interleaved` goes band by band, in each the sines of all coordinates, then their cosines
(NeRF); `sin-cos` is all sines, coordinate by coordinate with all bands, then all cosines (Perceiver); `cos-sin` the
reverse. `include_input=first` puts the coordinates before them. **Axes**: (position, channel)."""

SCHEME: Scheme[Fourier, Waves] = Scheme(
    family="encodings",
    name="fourier",
    title="Fourier features in octave, linear or geometric bands",
    explanation=(
        "A network sees fine detail badly when it is given plain coordinates. Sines and cosines of each coordinate in "
        "bands, each finer than the one before, make the detail visible: NeRF draws scenes from them and Perceiver "
        "reads pixels."
    ),
    description=DESCRIPTION,
    reference="Mildenhall et al., NeRF, 2020, section 5.1; Jaegle et al., Perceiver, 2021, section 3.2",
    params=Fourier,
    rounding="correct",
    tensors=_tensors,
    sequence=sequence,
    prepare=lambda params, _inputs: Waves(_frequencies(params) * angle_factor(params.angle_factor)),
    rows=_rows,
    state_bytes=lambda params, _inputs: WAVE_BYTES * params.bands,
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Three octaves of one coordinate", {"positions": "0.3,-0.7", "bands": "3"}),
        Example(
            "Perceiver's bands for 224 pixels",
            {
                "positions": "-1,-0.5,0.1",
                "bands": "4",
                "spacing": "linear",
                "resolution": "224",
                "layout": "sin-cos",
                "include_input": "first",
            },
        ),
        Example(
            "Two points in space as the NeRF code has them, in the body",
            {"bands": "2", "angle_factor": "one", "include_input": "first", "coordinates": "last-axis"},
            {"positions": [[0.1, 0.2, 0.3], [1, -1, 0.5]]},
        ),
    ),
    used_by=(
        Usage("NeRF, the paper: positions", {"bands": "10"}, "nerf-positions"),
        Usage("NeRF, the paper: directions", {"bands": "4"}, "nerf-directions"),
        Usage(
            "NeRF, the published code: positions",
            {"bands": "10", "angle_factor": "one", "include_input": "first"},
            "nerf-code-positions",
        ),
        Usage(
            "NeRF, the published code: directions",
            {"bands": "4", "angle_factor": "one", "include_input": "first"},
            "nerf-code-directions",
        ),
        Usage(
            "Perceiver on ImageNet (resolution 224 along each axis)",
            {"bands": "64", "spacing": "linear", "resolution": "224", "layout": "sin-cos", "include_input": "first"},
            "perceiver-imagenet",
        ),
        Usage("GLIGEN boxes", {"bands": "8", "spacing": "geometric", "base": "100", "angle_factor": "one"}, "gligen"),
    ),
    properties={"learned parameters": "none", "extrapolates": "defined at any coordinate"},
)
