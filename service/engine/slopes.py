"""What every ALiBi scheme shares: the slopes of the heads, and blocks of the bias made from them."""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer, Real
from service.engine.reals import Reals, geometric
from service.engine.scheme import Array, Params
from service.engine.waves import products

BiasForm = Annotated[
    Literal["relative", "symmetric", "key-only"],
    Field(
        description="`relative` m (j - i): minus m times the distance back, positive for keys ahead (mask those); "
        "`symmetric` -m |i - j|; `key-only` m j, one row a head, equal to relative under softmax."
    ),
]
AlibiBiasMax = Annotated[
    Real, Field(gt=0, le=1024, description="B in the slopes 2^(-B j / heads): 8 as published.")
]
QueryOffset = Annotated[
    Integer,
    Field(
        ge=-LARGEST_EXACT_INTEGER,
        le=LARGEST_EXACT_INTEGER,
        description="Position of the first query; keys - queries unless given, so that the last query meets the last key.",
    ),
]
LARGEST_FINITE = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


class Slopes(Params):
    """Parameters that decide the slopes, apart from the number of heads."""

    alibi_bias_max: AlibiBiasMax = 8.0


def slopes(heads: int, alibi_bias_max: float) -> Reals:
    """m_j = 2^(-B j / n), j = 1 ... n, for n a power of two; otherwise those of the power of two below n and then,
    for the remaining heads, every other one (j = 1, 3, 5, ...) of the power of two above.

    Press et al., Train Short, Test Long, 2022, and its reference code for other head counts.
    """
    lower = 1 << (heads.bit_length() - 1)
    step = Fraction(alibi_bias_max)
    exponents = [-step * j / lower for j in range(1, lower + 1)]
    exponents += [-step * j / (2 * lower) for j in range(1, 2 * (heads - lower), 2)]
    return geometric(2.0, exponents)


def write_bias(
    factors: Reals, form: str, offset: int, queries: int, keys: int, start: int, out: Array
) -> None:
    """Rows `start`, `start + 1`, ... of the (head, query, key) bias, in C order, into `out` (rows, keys).

    The bias depends on the distance alone, so a block of queries of one head is a window that slides along the biases
    of all their distances.
    """
    row, stop = start, start + len(out)
    while row < stop:
        head, query = divmod(row, queries)
        count = min(queries - query, stop - row)
        block = out[row - start : row - start + count]
        if form == "key-only":
            products(np.arange(keys, dtype=np.float64), factors[head : head + 1], block.reshape(keys, 1))
        else:
            distances = _distances(form, query + offset, count, keys)
            line = np.empty((len(distances), 1), out.dtype)
            products(distances, factors[head : head + 1], line)
            block[...] = sliding_window_view(line[:, 0], keys)[::-1]
        row += count


def _distances(form: str, first_query: int, queries: int, keys: int) -> NDArray[np.float64]:
    """j - i from the last query's first key to the first query's last key."""
    distances = np.arange(-(first_query + queries - 1), keys - first_query, dtype=np.float64)
    return distances if form == "relative" else -np.abs(distances)


def refuse_overflow(
    heads: int, alibi_bias_max: float, form: str, offset: int, queries: int, keys: int, dtype: str
) -> None:
    """A bias that the number format cannot hold is refused rather than answered as an infinity."""
    if form == "key-only":
        distance = keys - 1
    else:
        distance = max(abs(offset + queries - 1), abs(keys - 1 - offset))
    # The steepest slope; an upper bound is enough here, so float arithmetic will do.
    steepest = 2.0 ** (-alibi_bias_max / (2 * heads))
    limit = LARGEST_FINITE.get(dtype)
    if limit is not None and distance * steepest > limit:
        raise Refusal(
            "dtype",
            "out_of_range",
            f"the bias reaches about {distance * steepest:.3g}; {dtype} holds {limit:.6g} at most: use float32",
            limit=limit,
        )
