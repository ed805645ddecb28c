"""Sinusoids of distances in time, between every two of some real-valued times."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.arithmetics import Angles, float32_notes
from service.engine.errors import Refusal
from service.engine.frequencies import wave_bytes
from service.engine.positions import POSITIONS_INPUT, as_positions, batch_axes, given_positions
from service.engine.quantities import LARGEST_EXACT_INTEGER, LONGEST_LIST, Dim, DType, Positions
from service.engine.rounding import DTYPES
from service.engine.scheme import ITEMSIZE, Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, fastest, table_angles, write_table
from service.engine.timestamps import UNITS, Timestamps, Unit, instant

Floats = NDArray[np.float64]


class State(NamedTuple):
    """The angles, and the times: real numbers (…, times), or whole microseconds."""

    angles: Angles
    times: Floats | NDArray[np.int64]


class TemporalDistance(SinusoidalTable):
    """Parameters of `biases/temporal-distance`."""

    positions: Positions | None = None
    timestamps: Annotated[
        Timestamps | None,
        Field(
            description="ISO 8601 timestamps with Z or a numeric offset, instead of positions: comma-separated, or a "
            "list in a JSON body. The time between two is the same wherever their clocks stand."
        ),
    ] = None
    unit: Unit = "seconds"
    dim: Dim
    dtype: DType = "float32"


def _times(params: TemporalDistance, inputs: Inputs) -> Floats | NDArray[np.int64]:
    """Real numbers (…, times), or whole microseconds."""
    if params.timestamps is None:
        if "positions" not in inputs and params.positions is None:
            detail = "positions is missing: give positions=0,0.5,7 or timestamps=, or positions in the body"
            raise Refusal("positions", "missing", detail)
        return as_positions(*given_positions(params.positions, inputs))
    for name in ["positions"] * (params.positions is not None) + [f"/{name}" for name in inputs]:
        raise Refusal(name, "conflict", f"{name} and timestamps exclude each other; timestamps say everything")
    return np.array([instant(text) for text in params.timestamps], np.int64)


def _between(times: Floats | NDArray[np.int64], unit: str, rows: NDArray[np.int64]) -> Floats:
    """The distances query - key of those rows of the (…, query, key) matrix, in units."""
    count, flat = times.shape[-1], times.reshape(-1)
    query = rows // count
    apart: Floats | NDArray[np.int64] = flat[query] - flat[query // count * count + rows % count]
    if apart.dtype == np.float64:
        return apart.astype(np.float64) + 0.0
    whole, rest = np.divmod(apart, UNITS[unit])
    total: Floats = whole.astype(np.float64) + rest / UNITS[unit]
    return total


def _tensors(params: TemporalDistance, inputs: Inputs) -> Tensors:
    fastest(params, params.dim)
    times = _times(params, inputs)
    spread = _spread(params, times)
    if spread > LARGEST_EXACT_INTEGER:
        named = "unit" if params.timestamps else "/positions" if inputs else "positions"
        detail = f"the times are {spread:.3g} {params.unit if params.timestamps else 'units'} apart; 2^53 is the most"
        raise Refusal(named, "out_of_range", detail, limit=LARGEST_EXACT_INTEGER, requested=spread)
    axes = batch_axes(times.ndim - 1) if times.ndim > 1 else ()
    shape = (*times.shape, times.shape[-1], params.dim)
    return {"encoding": Tensor((*axes, "query", "key", "channel"), shape, params.dtype)}


def _prepare(params: TemporalDistance, inputs: Inputs) -> State:
    return State(table_angles(params, params.dim), _times(params, inputs))


def _rows(params: TemporalDistance, _inputs: Inputs, state: State, _tensor: str, start: int, stop: int) -> Array:
    out = np.empty((stop - start, params.dim), DTYPES[params.dtype])
    write_table(params, state.angles, _between(state.times, params.unit, np.arange(start, stop)), out)
    return out


def _facts(params: TemporalDistance, inputs: Inputs) -> Facts:
    times = _times(params, inputs)
    count = times.shape[-1]
    return {
        "times": count,
        "largest_distance": _spread(params, times),
        "table_bytes_per_channel": count * count * ITEMSIZE[params.dtype],
    }


def _spread(params: TemporalDistance, times: Floats | NDArray[np.int64]) -> float:
    """The largest distance, in units."""
    return float(np.ptp(times, axis=-1).max()) / (1 if params.timestamps is None else UNITS[params.unit])


def _notes(params: TemporalDistance, _inputs: Inputs) -> list[str]:
    idle = ["unit has no effect with positions"] if params.timestamps is None and params.unit != "seconds" else []
    return float32_notes(params.arithmetic) + idle


def _sequence(params: TemporalDistance, inputs: Inputs) -> Sequence | None:
    # What is kept for other requests goes by its parameters: by few of them, as an address has.
    return None if inputs or len(params.timestamps or ()) > LONGEST_LIST else Sequence(params, 0)


DESCRIPTION = """\
For times t_i, real numbers or timestamps, the sinusoidal encoding of every distance t_i - t_j: `angle = (t_i - t_j)
w_k`, `w_k = base^(-2k/dim)`. Distances of `timestamps` are counted in `unit`, from microseconds; those of positions are
differences in float64. The distance from a time to itself is 0: sines 0, cosines 1.

**Channel order**: as `encodings/sinusoidal`: `layout=interleaved` is sin w_0, cos w_0, sin w_1, ...
**Axes**: (query, key, channel), after the batch axes of positions in the body, whose last axis holds the times."""

SCHEME: Scheme[TemporalDistance, State] = Scheme(
    family="biases",
    name="temporal-distance",
    title="Sinusoids of distances in time",
    explanation=(
        "For events at irregular times what matters is how long ago the other one was. Each pair of times gets the "
        "sines and cosines of the time between them."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017; Zuo et al., Transformer Hawkes Process, 2020",
    params=TemporalDistance,
    rounding="correct",
    tensors=_tensors,
    sequence=_sequence,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    state_bytes=lambda params, inputs: wave_bytes(params.dim) + _times(params, inputs).nbytes,
    inputs=(POSITIONS_INPUT,),
    listed=("timestamps",),
    examples=(
        Example("Three events", {"positions": "0,0.5,7.25", "dim": "4"}),
        Example(
            "Hours between timestamps of two clocks",
            {"timestamps": "2024-02-29T12:00:00Z,2024-02-29T08:30:00-05:00", "unit": "hours", "dim": "4"},
        ),
        Example("Two series, in the body", {"dim": "3"}, {"positions": [[0, 0.5], [2.5, 7]]}),
    ),
    used_by=(Usage("Transformer Hawkes Process's temporal encoding, of distances", {}),),
    properties={
        "distance": "differences of real-valued times themselves",
        "caching": "keys meet a row for each difference of times",
        "implementation": "sinusoids of every two times",
        "learned parameters": "none",
        "memory per head": "none: times * times vectors of each series serve all heads: table_bytes_per_channel in the "
        "facts, times their width",
        "extrapolates": "defined at any distance",
    },
)
