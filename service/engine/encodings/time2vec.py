"""Time2Vec: one linear and some periodic channels of a time, with weights and phases (Kazemi et al., 2019)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.weights import seed_of, trained
from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, refuse_overflow
from service.engine.numbers.pairs import Floats
from service.engine.numbers.random_numbers import normal, uniform
from service.engine.numbers.reals import Reals
from service.engine.numbers.sums import Sums, write_line
from service.engine.points import from_origin, refuse_far_origin
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import Dim, DType, Origin, Seed
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Input, Inputs, Scheme, Tensor, Tensors, Usage

Linear = Annotated[
    Literal["first", "last"],
    Field(description="Where the linear channel stands: `first` as published, `last` as a common PyTorch port."),
]


class Time2Vec(Positioned):
    """Parameters of `encodings/time2vec`."""

    dim: Dim
    seed: Seed | None = None
    distribution: Annotated[
        Literal["normal", "uniform"],
        Field(description="What a seed draws: `normal` of deviation 1, `uniform` between 0 and 1."),
    ] = "normal"
    linear: Linear = "first"
    function: Annotated[Literal["sin", "cos"], Field(description="The periodic function.")] = "sin"
    origin: Origin = 0.0
    output: Annotated[
        Literal["encoding", "weights"],
        Field(description="`encoding`: the channels; `weights`: a row of weights and a row of phases."),
    ] = "encoding"
    dtype: DType = "float32"


def _tensors(params: Time2Vec, inputs: Inputs) -> Tensors:
    weights, phases = _parameters(params, inputs)
    if params.output == "weights":
        largest = float(max(np.abs(weights).max(), np.abs(phases).max()))
        refuse_overflow(largest, params.dtype, "the largest weight")
        return {"weights": Tensor(("parameter", "channel"), (2, params.dim), params.dtype)}
    places = where(params, inputs)
    refuse_far_origin(params.origin, places)
    reach = max(abs(end - params.origin) for end in places.ends)
    line = _line(params)
    refuse_overflow(float(abs(weights[line]) * reach + abs(phases[line])), params.dtype, "the linear channel")
    return {"encoding": Tensor((*places.axes, "channel"), (*places.shape, params.dim), params.dtype)}


def _line(params: Time2Vec) -> int:
    """The linear channel."""
    return 0 if params.linear == "first" else params.dim - 1


def _parameters(params: Time2Vec, inputs: Inputs) -> tuple[Floats, Floats]:
    """Weights and phases, one a channel each, in the order of the answer."""
    seed = seed_of(params.seed, inputs, ("weights", "phases"))
    if seed is not None:
        draw = normal if params.distribution == "normal" else uniform
        weights, phases = draw(seed, range(2), params.dim)
        return weights, phases
    for name in ("weights", "phases"):
        if name not in inputs:
            raise Refusal(f"/tensors/{name}", "missing", f"{name} is missing; weights and phases come together")
    shape = (params.dim,)
    return trained(inputs, "weights", ("channel",), shape), trained(inputs, "phases", ("channel",), shape)


def _prepare(params: Time2Vec, inputs: Inputs) -> Sums | None:
    periodic = [np.delete(numbers, _line(params)).tolist() for numbers in _parameters(params, inputs)]
    return Sums([Reals.of(numbers) for numbers in periodic]) if params.dim > 1 else None


def _rows(params: Time2Vec, inputs: Inputs, state: Sums | None, tensor: str, start: int, stop: int) -> Array:
    weights, phases = _parameters(params, inputs)
    dtype, line = DTYPES[params.dtype], _line(params)
    if tensor == "weights":
        return nearest(np.stack([weights, phases])[start:stop], dtype)
    at = np.asarray(from_origin(params.origin, part(params, inputs, start, stop)), np.float64)
    out = np.empty((stop - start, params.dim), dtype)
    write_line(at, float(weights[line]), float(phases[line]), out[:, line])
    if state is not None:
        periodic = out[:, 1:] if params.linear == "first" else out[:, :-1]
        sin, cos = (periodic, None) if params.function == "sin" else (None, periodic)
        state.write(np.stack([at, np.ones_like(at)], axis=1), sin, cos)
    return out


DESCRIPTION = """\
Of a time t, from `origin`, one channel is `w t + phi` and the others are `sin(w_i t + phi_i)` (or cos). Weights and
phases come from the body, one a channel in the order of the answer, or are drawn: weight i is number (0, i) of
`seed`, phase i number (1, i), by Philox4x32-10 with the seed as key and the counter (i, row, 0, 0). The answer is
exact for these float64.

**Channel order**: `linear=first` the linear channel, then the periodic ones; `last` the periodic ones first.
**Axes**: (position, channel); `output=weights`: (parameter, channel), weights, then phases."""

SCHEME: Scheme[Time2Vec, Sums | None] = Scheme(
    family="encodings",
    name="time2vec",
    title="Time2Vec",
    explanation=(
        "Time as a learned vector: one channel grows steadily, the others are waves whose "
        "frequencies and phases a model trains. Untrained ones are drawn from a seed here, or you bring your own."
    ),
    description=DESCRIPTION,
    reference="Kazemi et al., Time2Vec: Learning a Vector Representation of Time, 2019",
    params=Time2Vec,
    rounding="correct",
    tensors=_tensors,
    sequence=lambda params, inputs: None if inputs or params.output == "weights" else sequence(params, inputs),
    prepare=_prepare,
    rows=_rows,
    state_bytes=lambda params, _inputs: 2 * WAVE_BYTES * params.dim,
    inputs=(
        POSITIONS_INPUT,
        Input("weights", "Trained weights, one a channel in the order of the answer.", required=False),
        Input("phases", "Trained phases, likewise.", required=False),
    ),
    examples=(
        Example("Five channels of three times, weights drawn", {"positions": "0,1.5,-2", "dim": "5", "seed": "7"}),
        Example("Times of a batch, in the body", {"dim": "3", "seed": "7"}, {"positions": [[0, 0.5], [7, 365.25]]}),
    ),
    used_by=(
        Usage("the paper; mTAN's learned time embedding", {"seed": "0"}),
        Usage("a common PyTorch port (randn, linear channel last)", {"seed": "0", "linear": "last"}),
        Usage("the same port with cosines", {"seed": "0", "linear": "last", "function": "cos"}),
        Usage("Keras ports (uniform initialisation)", {"seed": "0", "distribution": "uniform"}),
    ),
    properties={
        "distance": "of times, by periods that are trained",
        "caching": "a feature of the input",
        "implementation": "a line and sines, with weights",
        "learned parameters": "2 dim, drawn or brought",
        "extrapolates": "the linear channel grows with time",
    },
)
