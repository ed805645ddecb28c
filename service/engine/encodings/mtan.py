"""The fixed time embedding of multi-time attention networks (Shukla and Marlin, 2021): slow sinusoids of 48 t."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, wave_bytes
from service.engine.points import from_origin, refuse_far_origin
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import Base, Dim, DType, Origin, Real
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, fastest, frequencies
from service.engine.waves import Waves


class Mtan(Positioned):
    """Parameters of `encodings/mtan`."""

    dim: Dim
    base: Base = 10.0
    scale: Annotated[
        Real, Field(ge=1e-9, le=1e9, description="Multiplies the time: 48, for times of 48 hours between 0 and 1.")
    ] = 48.0
    origin: Origin = 0.0
    dtype: DType = "float32"


def _table(params: Mtan) -> SinusoidalTable:
    return SinusoidalTable(base=params.base, odd_width="refuse")


def _tensors(params: Mtan, inputs: Inputs) -> Tensors:
    fast = fastest(_table(params), params.dim) * params.scale
    if fast > 2.0**FASTEST_BITS:
        detail = (
            f"scale is {params.scale:g} and makes frequencies of about {fast:.3g} radians per unit; 2^63 is the most"
        )
        raise Refusal("scale", "out_of_range", detail)
    places = where(params, inputs)
    refuse_far_origin(params.origin, places)
    return {"embedding": Tensor((*places.axes, "channel"), (*places.shape, params.dim), params.dtype)}


def _rows(params: Mtan, inputs: Inputs, state: Waves, _tensor: str, start: int, stop: int) -> Array:
    times = from_origin(params.origin, part(params, inputs, start, stop))
    out = np.empty((stop - start, params.dim), DTYPES[params.dtype])
    state.write(times, out[:, 0::2], out[:, 1::2])
    return out


DESCRIPTION = """\
Of a time t, from `origin`, the angles are `scale * t * base^(-2k/dim)`: with base 10 the slowest frequency is not below
a tenth of the fastest. The learned embedding of the same network, a line and sines, is `encodings/time2vec`.

**Channel order**: sin, cos of the first frequency, then of the second, and so on. **Axes**: (position, channel)."""

SCHEME: Scheme[Mtan, Waves] = Scheme(
    family="encodings",
    name="mtan",
    title="Fixed time embedding of multi-time attention",
    explanation=(
        "Measurements that come at irregular times, as at a hospital bed, have no position number. Their real times "
        "become sines and cosines, so that attention can compare any two moments."
    ),
    description=DESCRIPTION,
    reference="Shukla and Marlin, Multi-Time Attention Networks for Irregularly Sampled Time Series, 2021",
    params=Mtan,
    rounding="correct",
    tensors=_tensors,
    sequence=sequence,
    prepare=lambda params, _inputs: Waves(frequencies(_table(params), params.dim) * params.scale),
    rows=_rows,
    state_bytes=lambda params, _inputs: wave_bytes(params.dim),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Irregular times of a stay of 48 hours", {"positions": "0,0.0104,0.5,1", "dim": "8"}),
        Example("Times of two series, in the body", {"dim": "4"}, {"positions": [[0, 0.1], [0.25, 1]]}),
    ),
    used_by=(Usage("mTAN with fixed embeddings", {}, "mtan"), Usage("the same with times in hours", {"scale": "1"})),
    properties={
        "distance": "of times, near ones told apart best",
        "caching": "a feature of the input",
        "implementation": "sinusoids of real-valued times",
        "learned parameters": "none",
        "extrapolates": "defined at any time",
    },
)
