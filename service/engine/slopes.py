"""What every ALiBi scheme shares: the slopes of the heads, and blocks of the bias made from them."""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.frequencies import refuse_overflow
from service.engine.quantities import Real
from service.engine.reals import Reals, geometric
from service.engine.relative import Integers, Sizes, parts, write_by_distance
from service.engine.scheme import Array, Params
from service.engine.scores import refuse_uncountable
from service.engine.waves import products

BiasForm = Annotated[
    Literal["relative", "symmetric", "key-only"],
    Field(
        description="`relative` m (j - i): minus m times the distance back, positive for keys ahead (mask those); "
        "`symmetric` -m |i - j|; `key-only` m j, one row a head, equal to relative under softmax."
    ),
]
AlibiBiasMax = Annotated[Real, Field(gt=0, le=512, description="B in the slopes 2^(-B j / heads): 8 as published.")]


class Slopes(Params):
    """Parameters that decide the slopes, apart from the number of heads."""

    alibi_bias_max: AlibiBiasMax = 8.0


def slopes(heads: int, alibi_bias_max: float) -> Reals:
    """m_j = 2^(-B j / n), j = 1 ... n, for n a power of two; otherwise those of the power of two below n and then,
    for the remaining heads, every other one (j = 1, 3, 5, ...) of the power of two above.

    Press et al., Train Short, Test Long, 2022, and its reference code for other head counts.

    >>> slopes(6, 8.0).rounded().tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    lower = 1 << (heads.bit_length() - 1)
    step = Fraction(alibi_bias_max)
    exponents = [-step * j / lower for j in range(1, lower + 1)]
    exponents += [-step * j / (2 * lower) for j in range(1, 2 * (heads - lower), 2)]
    return geometric(2.0, exponents)


def write_bias(factors: Reals, form: str, size: Sizes, start: int, out: Array) -> None:
    """Rows `start`, `start + 1`, ... of the (…, head, query, key) bias, in C order, into `out` (rows, keys).

    >>> out = np.empty((2, 3))
    >>> two_queries = Sizes(queries=2, keys=3, offset=1)
    >>> write_bias(slopes(2, 8.0), "relative", two_queries, 1, out)  # query 1 of head 0, and query 0 of head 1
    >>> out.tolist()
    [[-0.125, -0.0625, 0.0], [-0.00390625, 0.0, 0.00390625]]
    """

    def lines(heads: slice, distances: Integers) -> Array:
        values = np.empty((len(factors[heads]), len(distances)), out.dtype)
        multipliers = -np.abs(distances) if form == "symmetric" else distances
        products(multipliers.astype(np.float64), factors[heads], values.T)
        return values

    if form != "key-only":
        write_by_distance(lines, len(factors), size, start, out)
        return
    for heads, _, key, part in parts(len(factors), size.queries, start, out):
        part[...] = lines(heads, np.arange(key, key + part.shape[2]))[:, None]


def refuse_unanswerable(params: Slopes, form: str, heads: int, size: Sizes, dtype: str) -> None:
    """Refuse distances that float64 does not count, and biases that the number format cannot hold."""
    refuse_uncountable(size)
    farthest = size.keys - 1 if form == "key-only" else size.largest_distance
    refuse_overflow(farthest * steepest(heads, params.alibi_bias_max), dtype, "the bias")


def steepest(heads: int, alibi_bias_max: float) -> float:
    """About the largest slope.

    >>> steepest(8, 8.0), steepest(6, 8.0)
    (0.5, 0.5)
    """
    lower = 1 << (heads.bit_length() - 1)
    return float(2.0 ** (-alibi_bias_max / (lower if heads == lower else 2 * lower)))


def form_note(form: str) -> list[str]:
    """What deserves saying about a form of the bias."""
    if form == "relative":
        return ["form=relative is positive where a key lies ahead of its query: use it under a causal mask"]
    if form == "key-only":
        return ["form=key-only leaves out a constant per row, which softmax does not see"]
    return []
