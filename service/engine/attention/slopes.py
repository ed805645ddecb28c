"""The slopes of ALiBi's heads: the real numbers, and what libraries make of them in float32 and bfloat16."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from service.engine.attention.relative import Integers
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import Reals, geometric
from service.engine.quantities import Heads, Real
from service.engine.rounding import BFLOAT16, DTYPES, nearest
from service.engine.scheme import Array, Params
from service.engine.waves import products, values

AlibiBiasMax = Annotated[Real, Field(gt=0, le=512, description="B in the slopes 2^(-B j / heads): 8 as published.")]
SlopeRule = Annotated[
    Literal["paper", "geometric"],
    Field(
        description="Slopes of a head count n that is no power of two: `paper` those of the power of two below, then "
        "every other one of the power of two above; `geometric` 2^(-B j / n) throughout (MLX before it was mended)."
    ),
]
SlopeArithmetic = Annotated[
    Literal["exact", "float32", "float32-powers", "float32-reciprocals", "bfloat16"],
    Field(
        description="`exact`: the real-number formula, rounded once. The others round slopes and then products on the "
        "way: `float32` both to float32 (fairseq, x-transformers); `float32-powers` as well, the slopes as powers of a "
        "first slope rounded to float32 (BLOOM); `float32-reciprocals` as 1 / 2^(B j / n), the power rounded too "
        "(MPT); `bfloat16` slopes as BLOOM's, positions and products to bfloat16 (Falcon)."
    ),
]


class Slopes(Params):
    """Parameters that decide the slopes, apart from the number of heads."""

    alibi_bias_max: AlibiBiasMax = 8.0
    alibi_num_heads: Annotated[
        Heads | None, Field(description="The first so many heads have a slope, the others 0 (all, unless given).")
    ] = None
    slope_rule: SlopeRule = "paper"
    interpolation_factor: Annotated[
        Real,
        Field(ge=1e-3, le=1e6, description="Distances are divided by it: contexts so many times the trained length."),
    ] = 1.0
    arithmetic: SlopeArithmetic = "exact"


class Factors(Protocol):
    """The slopes in one arithmetic."""

    def times(self, heads: slice, multipliers: Integers, dtype: str) -> Array:
        """Slopes of some heads times distances: (heads, distances)."""

    def slopes(self, dtype: str) -> Array:
        """The slopes themselves, (heads)."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Real numbers; every product is rounded once."""

    factors: Reals

    def times(self, heads: slice, multipliers: Integers, dtype: str) -> Array:
        some = self.factors[heads]
        out = np.empty((len(some), len(multipliers)), DTYPES[dtype])
        products(multipliers.astype(np.float64), some, out.T)
        return out

    def slopes(self, dtype: str) -> Array:
        return values(self.factors, DTYPES[dtype])


@dataclass(frozen=True, slots=True)
class Stepped:
    """Slopes of a narrow number format; distances and products are rounded to it, and then to the answer's."""

    factors: Floats
    step: "np.dtype[np.generic]"

    def times(self, heads: slice, multipliers: Integers, dtype: str) -> Array:
        at = nearest(multipliers.astype(np.float64), self.step).astype(np.float64)
        # Two factors of at most 24 bits each: their product is a float64, so it is rounded once.
        stepped = nearest(self.factors[heads, None] * at, self.step).astype(np.float64)
        return nearest(stepped + 0.0, DTYPES[dtype])

    def slopes(self, dtype: str) -> Array:
        return nearest(self.factors, DTYPES[dtype])


Series = list[tuple[Fraction, int]]  # the step of a geometric series of slopes, and which of its terms


def factors(params: Slopes, heads: int, divisor: int = 1) -> Factors:
    """The slopes of so many heads, divided by sqrt(divisor) where they are real numbers.

    m_j = 2^(-B j / n), j = 1 ... n, for n a power of two; otherwise those of the power of two below n and then,
    for the remaining heads, every other one (j = 1, 3, 5, ...) of the power of two above.

    Press et al., Train Short, Test Long, 2022, and its reference code for other head counts.

    >>> factors(Slopes(), 6).slopes("float32").tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    sloped = _sloped(params, heads)
    series, flat = _series(params, sloped), heads - sloped
    if params.arithmetic == "exact":
        real = geometric(2.0, [step * term for step, term in series]) / params.interpolation_factor
        if divisor != 1:
            real = real * geometric(float(divisor), [Fraction(-1, 2)]).numbers[0]
        return Exact(Reals((*real.numbers, *Reals.of([0] * flat).numbers)))
    single = _float32(params.arithmetic, series)
    if params.interpolation_factor != 1:
        inverse = nearest(np.array([1 / params.interpolation_factor]), np.float32)
        single = nearest(single * inverse.astype(np.float64), np.float32).astype(np.float64)
    step = BFLOAT16 if params.arithmetic == "bfloat16" else DTYPES["float32"]
    return Stepped(np.append(nearest(single, step).astype(np.float64), np.zeros(flat)), step)


def refuse_too_many(params: Slopes, heads: int) -> None:
    """Refuse more heads with a slope than there are heads."""
    sloped = _sloped(params, heads)
    if sloped > heads:
        raise Refusal(
            "alibi_num_heads",
            "out_of_range",
            f"alibi_num_heads is {sloped}, and there are {heads} heads: {heads} would do, which is all of them",
            limit=heads,
            requested=sloped,
        )


def _sloped(params: Slopes, heads: int) -> int:
    """How many heads have a slope."""
    return params.alibi_num_heads or heads


def _lower(params: Slopes, heads: int) -> int:
    """How many of the slopes are the first series."""
    return heads if params.slope_rule == "geometric" else 1 << (heads.bit_length() - 1)


def _series(params: Slopes, heads: int) -> Series:
    lower, most = _lower(params, heads), Fraction(params.alibi_bias_max)
    first = [(-most / lower, term) for term in range(1, lower + 1)]
    return first + [(-most / (2 * lower), term) for term in range(1, 2 * (heads - lower), 2)]


def _float32(arithmetic: str, series: Series) -> Floats:
    """Slopes rounded to float32 on a library's way, as float64."""
    if arithmetic == "float32":
        single = values(geometric(2.0, [step * term for step, term in series]), np.float32)
    elif arithmetic == "float32-reciprocals":
        exponents = [np.float32(term) * np.float32(float(-step)) for step, term in series]
        powers = values(geometric(2.0, [Fraction(float(exponent)) for exponent in exponents]), np.float32)
        with np.errstate(over="ignore", under="ignore"):
            single = np.float32(1) / powers
    else:
        single = np.concatenate([_powers_of_first(step, series) for step in dict.fromkeys(step for step, _ in series)])
    return single.astype(np.float64)


def _powers_of_first(step: Fraction, series: Series) -> Array:
    first = float(values(geometric(2.0, [step]), np.float32)[0])
    terms = [Fraction(term) for of, term in series if of == step]
    return values(geometric(first, terms), np.float32) if first else np.zeros(len(terms), np.float32)


def steepest(params: Slopes, heads: int) -> float:
    """About the largest slope.

    >>> steepest(Slopes(), 8), steepest(Slopes(), 6), steepest(Slopes(interpolation_factor=4), 8)
    (0.5, 0.5, 0.125)
    """
    sloped = _sloped(params, heads)
    lower = _lower(params, sloped)
    least = params.alibi_bias_max / (lower if sloped == lower else 2 * lower)
    return float(2.0**-least) / params.interpolation_factor
