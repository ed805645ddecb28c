"""Sines of sums of products: sin(x_1 w_1 + x_2 w_2 + ...), rounded once, for phases and for dot products.

Each product's sine and cosine come in double-double (`sines.py`), sums of angles by the angle-addition formula.
With s, c the bounds of the errors of a sine and a cosine, and m = min(1, |angle|) that of the sine itself:

    s(a + b) = s(a) + s(b) + m(a) c(b) + m(b) c(a) + 2^-98 (m(a) + m(b))
    c(a + b) = c(a) + c(b) + m(a) s(b) + m(b) s(a) + 2^-98

so a sum of small angles is decided as readily as its terms are. For number formats narrower than float64 the same in
float64 comes first, with 2^-50 for 2^-98, and double-double has the rows that it leaves undecided. What is undecided
still, where the terms cancel or a value lies next to a half-way point, is computed again with 80 digits, and where
those cancel too, in fractions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from service.engine.numbers.pairs import Floats, Pair, two_product, two_sum
from service.engine.numbers.reals import MANY_DIGITS, Reals, as_float, pair_of_sine, pi, real
from service.engine.numbers.sines import Angles, sine_cosine_of_turn, turned
from service.engine.rounding import decide, nearest_of_sum

UNIT = 2.0**-98
PLAIN_UNIT = 2.0**-50  # two products and a sum of numbers up to 1 in float64, with room to spare
CANCELLED = Decimal(10) ** -75  # a sum this much smaller than its terms may be their 80-digit noise
BLOCK_VALUES = 16384


@dataclass(frozen=True, slots=True)
class _Part:
    """sin and cos of a sum of angles, and bounds: of the errors, and of the sine."""

    sine: Pair
    cosine: Pair
    sine_error: Floats
    cosine_error: Floats
    most: Floats

    def plus(self, other: "_Part") -> "_Part":
        most = self.most + other.most
        return _Part(
            *turned((self.sine, self.cosine), (other.sine, other.cosine)),
            self.sine_error
            + other.sine_error
            + self.most * other.cosine_error
            + other.most * self.cosine_error
            + UNIT * most,
            self.cosine_error + other.cosine_error + self.most * other.sine_error + other.most * self.sine_error + UNIT,
            np.minimum(most, 1.0),
        )


class Sums:
    """Frequencies of several variables, prepared: `terms[j][k]` multiplies variable j in channel k.

    >>> sums = Sums([Reals.of([1.0, 2.0]), Reals.of([0.25, 0.0])])
    >>> sines = np.empty((1, 2), np.float32)
    >>> sums.write(np.array([[0.5, 1.0]]), sines, None)  # sin(0.5 * 1 + 1 * 0.25), sin(0.5 * 2)
    >>> sines.tolist()
    [[0.681638777256012, 0.8414709568023682]]
    """

    def __init__(self, terms: Sequence[Reals]) -> None:
        self._angles = [Angles(frequencies) for frequencies in terms]
        self.count = len(terms[0])

    def write(self, variables: Floats, sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> None:
        """Fill sin and cos, each (rows, count), for variables (rows, terms)."""
        step = max(1, BLOCK_VALUES // self.count)
        for start in range(0, len(variables), step):
            rows = slice(start, start + step)
            self._write(variables[rows], *(None if out is None else out[rows] for out in (sin, cos)))

    def _write(self, variables: Floats, *outs: NDArray[Any] | None) -> None:
        wide = any(out is not None and out.dtype == np.float64 for out in outs)
        left = np.arange(len(variables)) if wide else self._plainly(variables, *outs)
        if left.size:
            self._closely(variables[left], left, *outs)

    def _plainly(self, variables: Floats, *outs: NDArray[Any] | None) -> NDArray[np.intp]:
        """Values by float64; the rows that its bounds leave undecided."""
        waves, bounds, most = self._plain_part(variables, 0)
        for term in range(1, len(self._angles)):
            (sine, cosine), (sine_error, cosine_error), mine = self._plain_part(variables, term)
            waves = waves[0] * cosine + waves[1] * sine, waves[1] * cosine - waves[0] * sine
            bounds = (
                bounds[0] + sine_error + most * cosine_error + mine * bounds[1] + PLAIN_UNIT * (most + mine),
                bounds[1] + cosine_error + most * sine_error + mine * bounds[0] + PLAIN_UNIT,
            )
            most = np.minimum(most + mine, 1.0)
        unsure = np.zeros(len(variables), np.bool_)
        for out, value, error in zip(outs, waves, bounds, strict=True):
            if out is not None:
                out[...], undecided = decide(value + 0.0, np.zeros_like(value), error, out.dtype)
                unsure |= undecided.any(axis=1)
        return np.flatnonzero(unsure)

    def _plain_part(self, variables: Floats, term: int) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
        angles, at = self._angles[term], variables[:, term, None]
        most = np.minimum(np.abs(at) * angles.speed, 1.0)
        return angles.plainly(at, slice(None)), angles.errors(at, slice(None), plain=True), most

    def _closely(self, variables: Floats, rows: NDArray[np.intp], *outs: NDArray[Any] | None) -> None:
        total = self._part(variables, 0)
        for term in range(1, len(self._angles)):
            total = total.plus(self._part(variables, term))
        values = (total.sine, total.sine_error), (total.cosine, total.cosine_error)
        for form, (out, (value, error)) in enumerate(zip(outs, values, strict=True)):
            if out is not None:
                out[rows] = self._rounded(variables, value, error, form, out.dtype)

    def _part(self, variables: Floats, term: int) -> _Part:
        angles, at = self._angles[term], variables[:, term, None]
        return _Part(
            *angles.at(at, slice(None)),
            *angles.errors(at, slice(None)),
            np.minimum(np.abs(at) * angles.speed, 1.0),
        )

    def _rounded(self, variables: Floats, value: Pair, error: Floats, form: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        rounded, undecided = decide(value.high, value.low, error, dtype)
        for row, channel in np.argwhere(undecided).tolist():
            exact = self._exactly(variables[row].tolist(), channel)[form]
            rounded[row, channel] = _rounded(exact, dtype)
        return rounded

    def _exactly(self, variables: list[float], channel: int) -> tuple[tuple[float, float], tuple[float, float]]:
        with localcontext(MANY_DIGITS):
            terms = [real(x) * angles.turns[channel] for x, angles in zip(variables, self._angles, strict=True)]
            turn = sum(terms, Decimal(0))
            if abs(turn) <= CANCELLED * max(abs(term) for term in terms):
                turn = self._left_of(variables, channel)
            sine, cosine = sine_cosine_of_turn(turn)
            return pair_of_sine(sine), pair_of_sine(cosine)

    def _left_of(self, variables: list[float], channel: int) -> Decimal:
        """What is left of terms that cancel: all of it where they are fractions, of radians or of turns; 0 otherwise,
        for then it is the noise of their digits."""
        for numbers, whole in (
            ([angles.frequencies.numbers[channel] for angles in self._angles], 2 * pi()),
            ([angles.turns[channel] for angles in self._angles], Decimal(1)),
        ):
            known = [as_float(number) for number in numbers]
            if None not in known:
                left = sum(Fraction(x) * Fraction(each) for x, each in zip(variables, known, strict=True) if each)
                return real(Fraction(left)) / whole
        return Decimal(0)


def write_line(at: Floats, slope: float, height: float, out: NDArray[Any]) -> None:
    """out[i] = at[i] * slope + height, rounded once.

    >>> out = np.empty(2, np.float32)
    >>> write_line(np.array([0.0, 3.0]), 0.5, 0.25, out)
    >>> out.tolist()
    [0.25, 1.75]
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        product = two_product(at, np.array(slope, np.float64))
        high, rest = two_sum(product.high, np.array(height, np.float64))
        low = rest + product.low
        error = 2.0**-52 * np.abs(low)
    out[...], undecided = decide(high + 0.0, low, error, out.dtype)
    size = np.abs(product.high)
    extreme = ~((size > 2.0**-900) & (size < 2.0**900)) & (at != 0) & (slope != 0)
    for row in np.flatnonzero(undecided | extreme).tolist():
        exact = Fraction(float(at[row])) * Fraction(slope) + Fraction(height)
        nearest_float = float(exact)
        out[row] = _rounded((nearest_float, float(exact - Fraction(nearest_float))), out.dtype)


def _rounded(exact: tuple[float, float], dtype: DTypeLike) -> Any:
    high, low = np.array(exact, np.float64)[:, None]
    return nearest_of_sum(high, low, dtype)[0]
