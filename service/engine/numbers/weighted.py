"""Weighted sums of table rows within 1 ulp of the real number, the same bytes on every processor.

Weights are whole numbers over a whole number (`resampling.Taps`). With u = 2^-53, K taps, S = sum |weight * value|:

1. float32 and narrower: weights, products and sums in float64, one after the other. The error is below (K + 2) u S,
   and S at most L M with L the sum of a row's weights' sizes and M the largest value of the column. Where that is less
   than 2^-26 of the result, a quarter of an ulp of float32, the result is rounded, and within 1 ulp.
2. Every other row, and float64: products and sums without error, in three float64 a sum (see `_Sum`), then one division
   in double-double. What the third float64 lost is known; where it is nothing, as where terms cancel to 0, or less than
   2^-60 of the result, the result is rounded.
3. What is left: fractions, value by value.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.pairs import Floats, Pair, divide, ordered_sum, two_product, two_sum
from service.engine.resampling import Taps
from service.engine.rounding import nearest, nearest_of_sum

Array = NDArray[Any]

BLOCK_VALUES = 16384  # float64 of a block stay in a core's second-level cache
BLOCK_TAPS = 1 << 18
TAP_BYTES = 128  # an old row and its weight as whole numbers, and as numbers of an array
LARGEST = 2.0**700  # so that values times whole weights are finite
U = 2.0**-53


def largest_values(values: Array) -> Floats:
    """The largest |value| of each column of a table (rows, channels); NaN where there is one."""
    with np.errstate(invalid="ignore"):
        most: Floats = values.max(axis=0).astype(np.float64)
        least: Floats = values.min(axis=0).astype(np.float64)
    largest: Floats = np.maximum(most, -least)
    return largest


def working_bytes(rows: int, most: int) -> int:
    """About how much memory the weights of a block take, of `rows` rows that are computed in all."""
    return TAP_BYTES * min(rows * most, max(most, BLOCK_TAPS))


def write_sums(values: Array, largest: Floats, taps: Iterator[Taps], most: int, out: Array) -> None:
    """out[i] = the weighted sum of rows of `values` (rows, channels) that the i-th of `taps` says.

    `most` is the largest number of taps that any row of the whole answer has; `largest` as `largest_values` has it,
    each at most 2^700. So a row's bytes do not depend on the rows that are computed with it.

    >>> table, out = np.array([[0.0], [1.0]]), np.empty((2, 1), np.float32)
    >>> write_sums(table, largest_values(table), iter([Taps((0, 1), (2, 1), 3), Taps((1,), (1,), 1)]), 2, out)
    >>> out.tolist()
    [[0.3333333432674408], [1.0]]
    """
    channels = values.shape[1]
    width = min(channels, BLOCK_VALUES)
    step = max(1, min(BLOCK_VALUES // width, BLOCK_TAPS // most))
    for start in range(0, len(out), step):
        rows = [next(taps) for _ in range(min(step, len(out) - start))]
        for column in range(0, channels, width):
            panel = slice(column, column + width)
            _write(values[:, panel], largest[panel], rows, most, out[start : start + step, panel])


def _write(values: Array, largest: Floats, rows: Sequence[Taps], most: int, out: Array) -> None:
    if out.dtype == np.float64:
        out[...] = _closely(values, rows, most, out.dtype)
        return
    sums, error = _quickly(values, largest, rows, most)
    out[...] = nearest(sums, out.dtype)
    unsure = np.flatnonzero((error > 2.0**-26 * np.abs(sums)).any(axis=1)).tolist()
    if unsure:
        out[unsure] = _closely(values, [rows[row] for row in unsure], most, out.dtype)


def _quickly(values: Array, largest: Floats, rows: Sequence[Taps], most: int) -> tuple[Floats, Floats]:
    """The sums in float64, and a bound of their errors."""
    olds, weights = np.zeros((most, len(rows)), np.intp), np.zeros((most, len(rows), 1))
    for place, each in enumerate(rows):
        olds[: len(each.rows), place] = each.rows
        weights[: len(each.rows), place, 0] = [numerator / each.denominator for numerator in each.numerators]
    sums, sizes = np.zeros((len(rows), values.shape[1])), np.zeros((len(rows), 1))
    for old, weight in zip(olds, weights, strict=True):
        sums += weight * values[old].astype(np.float64)
        sizes += np.abs(weight)
    return sums, (most + 4) * U * sizes * largest


class _Sum(NamedTuple):
    """high + low + rest, with an error below (terms) 4 u `lost`. Nothing is lost before a sum needs 159 bits."""

    high: Floats
    low: Floats
    rest: Floats
    lost: Floats

    def plus(self, term: Pair) -> "_Sum":
        high, below = two_sum(self.high, term.high)
        low, first = two_sum(self.low, below)
        low, second = two_sum(low, term.low)
        return _Sum(high, low, self.rest + (first + second), self.lost + (np.abs(first) + np.abs(second)))


def _closely(values: Array, rows: Sequence[Taps], most: int, dtype: np.dtype[Any]) -> Array:
    total = _Sum(*(np.zeros((len(rows), values.shape[1])) for _ in range(4)))
    for tap in range(max(len(each.rows) for each in rows)):
        here = [(each.rows[tap], each.numerators[tap]) if tap < len(each.rows) else (0, 0) for each in rows]
        old = values[[row for row, _ in here]].astype(np.float64)
        for part in _parts([weight for _, weight in here]):
            total = total.plus(two_product(old, part[:, None]))
    top, error = two_sum(total.high, total.low)
    numerator = ordered_sum(top, error + total.rest)
    denominator = Pair(*(part[:, None] for part in _parts([each.denominator for each in rows], 2)[:2]))
    quotient = divide(numerator, denominator)
    out = nearest_of_sum(quotient.high + 0.0, quotient.low, dtype)
    # Each tap has at most six parts: its weight is below 2^300.
    unsure = 24 * most * U * total.lost > 2.0**-60 * np.abs(top)
    for row, channel in np.argwhere(unsure).tolist():
        out[row, channel] = _exactly(values[:, channel], rows[row], dtype)
    return out


def _parts(numbers: Sequence[int], least: int = 1) -> list[Floats]:
    """Whole numbers as sums of float64, each the nearest to what the ones before leave: as many as they need."""
    parts: list[Floats] = []
    left = list(numbers)
    while len(parts) < least or any(left):
        part = [float(number) for number in left]
        parts.append(np.array(part))
        left = [number - int(nearby) for number, nearby in zip(left, part, strict=True)]
    return parts


def _exactly(column: Array, taps: Taps, dtype: np.dtype[Any]) -> Any:
    terms = zip(taps.rows, taps.numerators, strict=True)
    exact = sum((Fraction(float(column[row])) * weight for row, weight in terms), Fraction(0)) / taps.denominator
    high = float(exact)
    low = float(exact - Fraction(high))
    return nearest_of_sum(np.array([high]), np.array([low]), dtype)[0]
