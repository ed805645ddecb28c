"""sin(p w) and cos(p w) for positions p and frequencies w, rounded once.

A table of n consecutive positions and K frequencies takes n K values, but only about n / R + R different rows of
work: every position is p = R q + r, and by the angle-addition formula

    sin(p w) = sin(R q w) cos(r w) + cos(R q w) sin(r w)
    cos(p w) = cos(R q w) cos(r w) - sin(R q w) sin(r w)

so the *base* rows (at R q) and the *offset* rows (r = 0 .. R - 1) are computed in double-double (`sines.py`), and
each value of the table takes two products and a sum. Then comes the check that makes it right: with a bound b of
its error, a value v is decided when v - b and v + b round to the same number, for then the real value rounds to
it as well. The undecided (some 60 of 16.8 million in float32) are computed again in double-double, and the
undecided of those with 80 digits. Rounding is thereby correct whatever way a value was reached, so no
decomposition, block size, thread or processor can show in the bytes.

The bounds, with u = 2^-53, S = |sin(R q w)|, C = |cos(R q w)|, and s, c = the largest |sin(r w)|, |cos(r w)| <= 1:

    narrow dtypes   rows rounded to float64: 2 u; products: u; sum: u; v - b and v + b: u  ->  5 u (S + C s)
    float64         rows cut to 26 + 53 bits: the leading products and their sum are exact, the six others and
                    their sums are rounded at 2^-26 u                                     ->  16 * 2^-26 u (S + C s)
    both            the rows themselves (`Angles.errors`, with the largest angle of the block)

The factors in use are 6 and 32. For the cosine S and C change places. As (S + C s) is small where the angles are,
small sines are decided as readily as large ones.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from service.engine.pairs import Floats, Pair, halves, multiply, two_sum
from service.engine.reals import MANY_DIGITS, Reals, localcontext, pair, real
from service.engine.rounding import nearest, nearest_of_sum
from service.engine.sines import Angles, Indices, turned

U = 2.0**-53
NARROW_ERROR = 6 * U
DOUBLE_ERROR = 32 * 2.0**-26 * U
FARTHEST = 2**53

BLOCK_VALUES = 16384  # 128 KiB of float64: a block and its few companions stay in a core's second-level cache
PANEL_CHANNELS = 128
GROUP = 256  # base rows held at once: bounds the memory of a long table
COARSE = 16  # a ladder of n rows is made from n / 16 coarse rows and 16 fine ones
FEW_ROWS = 32  # not worth a table


class Rows(NamedTuple):
    """Rows of sines and cosines in double-double, each (rows, channels)."""

    sines: Pair
    cosines: Pair


class Waves:
    """Frequencies prepared for writing tables.

    >>> waves = Waves(Reals.of([1.0, 0.5]))
    >>> sines = np.empty((3, 2), np.float32)
    >>> waves.write(range(3), sines, None)
    >>> sines.tolist()
    [[0.0, 0.0], [0.8414710164070129, 0.4794255495071411], [0.9092974066734314, 0.8414710164070129]]
    """

    def __init__(self, frequencies: Reals) -> None:
        self.frequencies = frequencies
        self.count = len(frequencies)
        starts = range(0, self.count, PANEL_CHANNELS)
        self._panels = [Panel(frequencies[start : start + PANEL_CHANNELS]) for start in starts]

    def write(self, positions: range | Floats, sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> None:
        """Fill sin and cos, each (len(positions), count) and of any of the four dtypes, strided views included.

        Every value is the real one rounded once to nearest even. `positions` are consecutive integers (a range
        of step 1) or finite float64 of any kind, no farther than 2^53 from 0. sin(-0.0) is +0.0: a position is a
        number, and -0.0 is the number 0.
        """
        _check_positions(positions)
        for index, panel in enumerate(self._panels):
            start = index * PANEL_CHANNELS
            columns = slice(start, start + PANEL_CHANNELS)
            panel.write(
                positions, None if sin is None else sin[:, columns], None if cos is None else cos[:, columns]
            )


def _check_positions(positions: range | Floats) -> None:
    if isinstance(positions, range):
        if positions and (positions.step != 1 or max(-positions.start, positions.stop - 1) > FARTHEST):
            raise ValueError(f"{positions} is not a range of step 1 within 2^53 of 0")
    elif not (np.abs(positions) <= FARTHEST).all():
        raise ValueError("positions must be finite and within 2^53 of 0")


class Panel:
    """Up to 128 frequencies: few enough for a block of at least 128 rows to stay in cache."""

    def __init__(self, frequencies: Reals) -> None:
        self.angles = Angles(frequencies)
        self.frequencies = frequencies
        self.count = len(frequencies)
        self.stride = 1 << (BLOCK_VALUES // self.count).bit_length() - 1  # R
        self._offsets: Offsets | None = None

    def write(self, positions: range | Floats, sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> None:
        targets = [Target(kind, out) for kind, out in enumerate((sin, cos)) if out is not None]
        rows = BLOCK_VALUES // self.count
        for start in range(0, len(positions), rows):
            chunk = positions[start : start + rows]
            where = np.array(chunk, np.float64)
            high_low = self.angles.at(where[:, None], slice(None))
            errors = self.angles.errors(where[:, None], slice(None))
            for target in targets:
                out = target.out[start : start + rows]
                value = high_low[target.kind]
                out[...], undecided = decide(value, errors[target.kind], out.dtype)
                for row, channel in np.argwhere(undecided):
                    both = self.angles.exactly(float(where[row]), int(channel))[target.kind]
                    out[row, channel] = nearest_of_sum(*np.array(both)[:, None], out.dtype)[0]


class Target(NamedTuple):
    """An array to fill: kind 0 with sines, 1 with cosines."""

    kind: int
    out: NDArray[Any]


class Offsets(NamedTuple):
    rows: Rows


def decide(value: Pair, error: Floats, dtype: DTypeLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The value rounded once, and where the error bound leaves it open how."""
    below = nearest_of_sum(value.high, value.low - error, dtype)
    above = nearest_of_sum(value.high, value.low + error, dtype)
    return above, different(below, above)


def different(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Where two arrays differ in any bit: 0.0 and -0.0 do."""
    bits = f"i{a.itemsize}"
    unlike: NDArray[np.bool_] = a.view(bits) != b.view(bits)
    return unlike


def products(multipliers: Floats, factors: Reals, out: NDArray[Any]) -> None:
    """out[i, k] = multipliers[i] * factors[k], rounded once to the dtype of `out`.

    In double-double the product is good to 2^-100; the undecided are multiplied again with 80 digits, and ties
    (of slopes that are powers of two, say) are seen to be ties.

    >>> out = np.empty((2, 2), np.float32)
    >>> products(np.array([1.0, 3.0]), Reals.of([0.5, 0.1]), out)
    >>> out.tolist()
    [[0.5, 0.10000000149011612], [1.5, 0.30000001192092896]]
    """
    rows = max(1, BLOCK_VALUES // max(1, len(factors)))
    high, low = factors.pairs()
    for start in range(0, len(multipliers), rows):
        block = multipliers[start : start + rows, None]
        value = multiply(Pair(block, np.zeros_like(block)), Pair(high, low))
        part = out[start : start + rows]
        size = np.abs(value.high)
        part[...], undecided = decide(value, 2.0**-100 * size, out.dtype)
        undecided |= (size < 2.0**-900) | (size > 2.0**900)
        for row, channel in np.argwhere(undecided):
            with localcontext(MANY_DIGITS):
                exact = pair(real(float(block[row, 0])) * factors.numbers[channel])
            part[row, channel] = nearest_of_sum(*np.array(exact)[:, None], out.dtype)[0]


def values(reals: Reals, dtype: DTypeLike) -> NDArray[Any]:
    """The numbers rounded once to `dtype`, shape (count,)."""
    return nearest_of_sum(*reals.pairs(), dtype)
