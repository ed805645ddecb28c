"""Attention temperature: a factor on queries that grows with the logarithm of their position."""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.logarithms import exponential, logarithm, natural
from service.engine.numbers.pairs import Floats, Pair, add, multiply, negative, two_sum
from service.engine.numbers.reals import MANY_DIGITS, Reals, real
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import LARGEST_EXACT_INTEGER, DType, Integer, Real
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage

Schedule = Annotated[
    Literal["llama4", "ministral3", "inkling2", "beam", "log-n", "ssmax"],
    Field(description="How the factor grows: see the formulas above."),
]
FloorScale = Annotated[
    Integer,
    Field(
        ge=1,
        le=LARGEST_EXACT_INTEGER,
        description="L: the positions of one step, or the trained length. Llama 4: floor_scale (8192); Ministral 3: "
        "original_max_position_embeddings (16384); Inkling 2: log_scaling_n_floor (128000); "
        "Beam: 2048; log-n: Qwen's seq_length (2048).",
    ),
]
AttnScale = Annotated[
    Real,
    Field(
        ge=0,
        le=1000,
        description="s: Llama 4's attn_scale (0.1), Ministral 3's llama_4_scaling_beta (0.1), Inkling 2's "
        "log_scaling_alpha (0.1), Beam's exponent (0.1), SSMax's scale (0.43).",
    ),
]


class Temperature(Positioned):
    """Parameters of `encodings/temperature`."""

    schedule: Schedule = "llama4"
    floor_scale: FloorScale | None = None
    attn_scale: AttnScale | None = None
    dtype: DType = "float32"


class Knobs(NamedTuple):
    """L and s of a schedule; None where it has no such knob."""

    floor_scale: int | None
    attn_scale: float | None


DEFAULTS: Mapping[str, Knobs] = {
    "llama4": Knobs(8192, 0.1),
    "ministral3": Knobs(16384, 0.1),
    "inkling2": Knobs(128_000, 0.1),
    "beam": Knobs(2048, 0.1),
    "log-n": Knobs(2048, None),
    "ssmax": Knobs(None, 0.43),
}

STEEPEST = 16  # an exponent with which no position leaves what is computed

ONE_AND_MORE = ("llama4", "ministral3", "inkling2")  # 1 + s times a logarithm


def _knobs(params: Temperature) -> dict[str, float]:
    """The knobs that the schedule has; refuses one that it has not."""
    found: dict[str, float] = {}
    for name, default in DEFAULTS[params.schedule]._asdict().items():
        given = getattr(params, name)
        if default is not None:
            found[name] = default if given is None else given
        elif given is not None:
            raise Refusal(name, "conflict", f"schedule={params.schedule} has no {name}: leave it out")
    return found


def _tensors(params: Temperature, inputs: Inputs) -> Tensors:
    knobs = _knobs(params)
    if params.schedule == "log-n" and knobs["floor_scale"] == 1:
        raise Refusal(
            "floor_scale", "out_of_range", "floor_scale is 1, and log 1 = 0 divides nothing; 2 or more will do", limit=2
        )
    if params.schedule == "beam" and knobs["attn_scale"] > STEEPEST:
        detail = f"attn_scale is {knobs['attn_scale']:g}; schedule=beam takes {STEEPEST} at most"
        raise Refusal("attn_scale", "out_of_range", detail, limit=STEEPEST, requested=knobs["attn_scale"])
    places = where(params, inputs)
    _refuse_uncounted(params, places.values)
    if params.schedule == "beam":
        most = (1 + (places.farthest + 1) / knobs["floor_scale"]) ** knobs["attn_scale"]
        refuse_overflow(most, params.dtype, "the factor")
    return {"temperature": Tensor((*places.axes, "channel"), (*places.shape, 1), params.dtype)}


def _refuse_uncounted(params: Temperature, positions: range | NDArray[np.float64]) -> None:
    """Refuse positions that count no tokens: negative ones, fractions, and the last one before 2^53 + 1."""
    if isinstance(positions, range):
        wrong = [each for each in (positions[0], positions[-1]) if not 0 <= each < LARGEST_EXACT_INTEGER]
    else:
        proper = (positions >= 0) & (positions < LARGEST_EXACT_INTEGER) & (positions == np.rint(positions))
        wrong = positions[~proper].tolist()
    if wrong:
        name = "offset" if isinstance(positions, range) else "positions"
        raise Refusal(
            name if params.positions is not None or isinstance(positions, range) else "/positions",
            "out_of_range",
            f"position {wrong[0]} counts no tokens; integers from 0 to 2^53 - 1 will do",
            limit=LARGEST_EXACT_INTEGER - 1,
            requested=wrong[0],
        )


def _prepare(params: Temperature, _inputs: Inputs) -> Pair:
    """What the logarithm is multiplied with: s, or 1 / ln L."""
    knobs = _knobs(params)
    if params.schedule != "log-n":
        return Pair(np.array([knobs["attn_scale"]]), np.zeros(1))
    return Pair(*Reals((MANY_DIGITS.divide(1, MANY_DIGITS.ln(real(knobs["floor_scale"]))),)).pairs())


def _rows(params: Temperature, inputs: Inputs, state: Pair, _tensor: str, start: int, stop: int) -> Array:
    positions = np.asarray(part(params, inputs, start, stop), np.int64)
    length = int(_knobs(params).get("floor_scale", 1))
    if params.schedule == "beam":  # p + 1 + L may be more than float64 counts
        grown = logarithm(two_sum((positions + 1).astype(np.float64), np.full(positions.shape, float(length))))
    else:
        grown = natural(_arguments(params.schedule, positions, length))
    if params.schedule in ("inkling2", "beam"):
        grown = add(grown, negative(natural(np.full(positions.shape, float(length)))))
    growth = multiply(grown, state)
    if params.schedule in ONE_AND_MORE:
        growth = add(Pair(np.ones(positions.shape), np.zeros(positions.shape)), growth)
    if params.schedule == "beam":
        growth = exponential(growth)
    return nearest_of_sum(*growth, DTYPES[params.dtype])[:, None]


def _arguments(schedule: str, positions: NDArray[np.int64], length: int) -> Floats:
    """What the logarithm is taken of: whole numbers, so that no floor is ever rounded."""
    if schedule == "llama4":
        counted = 1 + (positions + 1) // length
    elif schedule == "ministral3":
        counted = 1 + positions // length
    elif schedule in ("inkling2", "log-n"):
        counted = np.maximum(positions + 1, length)
    else:
        counted = positions + 1
    return counted.astype(np.float64)


DESCRIPTION = """\
The factor on the query at position p (0, 1, ...), or on its scores:

- `schedule=llama4`: `1 + s ln(1 + floor((p + 1) / L))`, on layers without position encoding
- `schedule=ministral3`: `1 + s ln(1 + floor(p / L))`
- `schedule=inkling2`: `1 + s ln(max((p + 1) / L, 1))`
- `schedule=beam`: `(1 + (p + 1) / L)^s`, on layers without position encoding
- `schedule=log-n`: `ln(p + 1) / ln(L)` for p + 1 > L, else 1
- `schedule=ssmax`: `s ln(p + 1)`, n = p + 1 keys visible; 0 for the first query, whose one key gets all weight anyway

L is `floor_scale`, s is `attn_scale`; floors are those of whole numbers, at any position.

**Axes**: (position, channel) with one channel, so that it multiplies queries (length, dim) as it is."""

SCHEME: Scheme[Temperature, Pair] = Scheme(
    family="encodings",
    name="temperature",
    title="Attention temperature by position",
    explanation=(
        "In a long context attention spreads over so many tokens that it loses its point. These factors, larger at "
        "later positions, sharpen it again; models multiply their queries by them."
    ),
    description=DESCRIPTION,
    reference="Meta, Llama 4, 2025; Mistral AI, Ministral 3, 2025; Bai et al., Qwen, 2023; Nakanishi, SSMax, 2025",
    params=Temperature,
    rounding="faithful",
    tensors=_tensors,
    sequence=sequence,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, _inputs: params.model_copy(update=_knobs(params)),
    facts=lambda params, _inputs: dict(_knobs(params)),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Around Llama 4's first step", {"length": "4", "offset": "8190"}),
        Example("Qwen beyond its trained length", {"positions": "0,2047,4095", "schedule": "log-n"}),
        Example("SSMax at positions of your own", {"schedule": "ssmax"}, {"positions": [[0, 1, 2], [7, 8, 9]]}),
    ),
    used_by=(
        Usage("Llama 4 (attn_temperature_tuning)", {"schedule": "llama4"}, "llama4"),
        Usage("Ministral 3", {"schedule": "ministral3"}, "ministral3"),
        Usage("Mistral 4", {"schedule": "ministral3", "floor_scale": "8192"}, "mistral4"),
        Usage("Inkling 2", {"schedule": "inkling2"}, "inkling2"),
        Usage("Beam", {"schedule": "beam"}, "beam"),
        Usage("Qwen (use_logn_attn)", {"schedule": "log-n"}, "qwen"),
        Usage("Scalable-Softmax, with s as trained", {"schedule": "ssmax"}, "ssmax"),
    ),
    properties={"learned parameters": "none", "extrapolates": "yes: it is made for positions beyond training"},
)
