"""What every ALiBi scheme shares: the slopes of the heads, and blocks of the bias made from them."""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field

from service.engine.frequencies import refuse_overflow
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer, Real
from service.engine.reals import Reals, geometric
from service.engine.scheme import Array, Params
from service.engine.scores import Extent, refuse_uncountable
from service.engine.waves import products

BiasForm = Annotated[
    Literal["relative", "symmetric", "key-only"],
    Field(
        description="`relative` m (j - i): minus m times the distance back, positive for keys ahead (mask those); "
        "`symmetric` -m |i - j|; `key-only` m j, one row a head, equal to relative under softmax."
    ),
]
AlibiBiasMax = Annotated[Real, Field(gt=0, le=512, description="B in the slopes 2^(-B j / heads): 8 as published.")]
QueryOffset = Annotated[
    Integer,
    Field(
        ge=-LARGEST_EXACT_INTEGER,
        le=LARGEST_EXACT_INTEGER,
        description="Position of the first query; keys - queries unless given: the last query meets the last key.",
    ),
]
PIECE = 1 << 16  # products at a time: what a wide row or many heads take beside the answer stays small


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


def write_bias(factors: Reals, form: str, offset: int, queries: int, start: int, out: Array) -> None:
    """Rows `start`, `start + 1`, ... of the (…, head, query, key) bias, in C order, into `out` (rows, keys).

    Whole heads go together as far as the rows reach, a part of a head alone; wide rows go in pieces.

    >>> out = np.empty((2, 3))
    >>> write_bias(slopes(2, 8.0), "relative", 1, 2, 1, out)  # query 1 of the first head and query 0 of the second
    >>> out.tolist()
    [[-0.125, -0.0625, 0.0], [-0.00390625, 0.0, 0.00390625]]
    """
    row, stop, keys = start, start + len(out), out.shape[1]
    while row < stop:
        head, query = divmod(row, queries)
        head %= len(factors)
        heads = min((stop - row) // queries, len(factors) - head, max(1, PIECE // (queries + keys)))
        heads, count = (heads, queries) if query == 0 and heads else (1, min(queries - query, stop - row))
        rows = out[row - start : row - start + heads * count].reshape(heads, count, keys)
        for key in range(0, keys, PIECE):
            _write_piece(factors[head : head + heads], form, query + offset, key, rows[:, :, key : key + PIECE])
        row += heads * count


def _write_piece(factors: Reals, form: str, first_query: int, first_key: int, out: Array) -> None:
    """The bias of some heads (…, query, key), queries and keys counted from the first ones, into `out`.

    It depends on the distance alone, so the rows of a head are a window that slides along one line of products.
    """
    _, queries, keys = out.shape
    if form == "key-only":
        distances = np.arange(first_key, first_key + keys, dtype=np.float64)
    else:
        distances = _distances(form, first_key - first_query - queries + 1, queries + keys - 1)
    lines = np.empty((len(factors), len(distances)), out.dtype)
    products(distances, factors, lines.T)
    out[...] = lines[:, None] if form == "key-only" else sliding_window_view(lines, keys, axis=1)[:, ::-1]


def _distances(form: str, first: int, count: int) -> NDArray[np.float64]:
    """What the slopes are multiplied with, from the last query's first key to the first query's last key."""
    distances = np.arange(first, first + count, dtype=np.float64)
    return distances if form == "relative" else -np.abs(distances)


def refuse_unanswerable(
    params: Slopes, form: str, heads: int, queries: int, keys: int, offset: int, dtype: str
) -> None:
    """Refuse distances that float64 does not count, and biases that the number format cannot hold."""
    refuse_uncountable(Extent(queries, keys, offset))
    farthest = keys - 1 if form == "key-only" else max(abs(offset + queries - 1), abs(keys - 1 - offset))
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
