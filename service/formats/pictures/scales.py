"""From values to colours: which colour each value has, and what the colour bar says.

A value becomes the number of a colour by +, -, *, / and rounding alone, which give the same on every processor.

    truth values, and masks of 0 and -inf
      or of 0 and a far negative number     two colours
    positive heights over three decades,
      cells over two                        the sequential ramp, by their logarithm; 0 beside it, if it occurs
    cells that are never negative           the sequential ramp, from the least to the largest
      and differ by a small part            the sequential ramp, from 0, so that noise does not look like more
    heights that are never negative         the sequential ramp, from 0 to the largest
    zeros, and everything else              the diverging ramp, its middle at zero
      where heads, or a few columns and     the same by the logarithm, and even about zero, so that each is seen
      the others, differ by 30 times
    parts of a whole                        the sequential ramp from 0 to 100 percent
    what is compared with a uniform share   the diverging ramp by the logarithm, its middle at that share
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.formats.pictures.cells import Values
from service.formats.pictures.palette import (
    DIVERGING,
    FALSE,
    NEGATIVE_INFINITY,
    NOT_A_NUMBER,
    POSITIVE_INFINITY,
    RAMP,
    SEQUENTIAL,
    TRUE,
    ZERO,
)

Indices = NDArray[np.uint8]
Kind = Literal["two", "diverging", "symlog", "sequential", "share", "logarithmic", "relative"]
# Heights over more than three decades and cells over more than two are shown by their logarithm.
LOGARITHMIC_RATIO = {"heights": 1000, "colours": 100}
# Masks of numbers have 0 and one that is lower than this, such as the lowest of their number format.
FAR = -9999
# How many times what one part of the values reaches is less than the largest where an even scale would not show it; and
# what part of that a scale is even within.
UNLIKE_RATIO = 30
EVEN_PART, LEAST_EVEN = 1 / 8, 1e-6
# Where one column of so many is larger than the others by that much, these decide.
FEW_COLUMNS = 16
# Numbers that are not whole and differ by less than this part of the largest are shown from zero on.
LEAST_PART = 1 / 16
# How many times a uniform share, or what part of it, has the last colour of its ramp at most.
MOST_TIMES = 16
# Tensors whose largest values are further apart than this are shown with scales of their own.
ALIKE_RATIO = 4
# Below this a range has no room for ticks: its values are shown as zero.
LEAST = 1e-290
MOST = 1.7976931348623157e308
# 2 / ln 2, the factor of the series below, as the nearest float64.
_TWO_BY_LN2 = 2.8853900817779268


@dataclass(frozen=True, slots=True)
class Scale:
    """The values at the two ends of a ramp, and the colours of what is no number."""

    kind: Kind
    low: float
    high: float
    states: tuple[tuple[str, int], ...] = ()
    uniform: float = 0.0
    even: float = 0.0  # of a symmetric logarithm: how far from zero it is none

    @property
    def ground(self) -> float:
        """Where heights begin."""
        if self.kind == "relative":
            return self.uniform
        return self.low if self.kind in ("logarithmic", "two") else 0.0

    @property
    def ramp(self) -> int:
        """The number of the first colour of its ramp."""
        return DIVERGING if self.kind in ("diverging", "symlog", "relative") else SEQUENTIAL

    def colours(self, values: Values) -> Indices:
        """The number of each value's colour."""
        finite = np.isfinite(values)
        if self.kind == "two":
            numbers = np.where(values == self.high, TRUE, FALSE).astype(np.uint8)
        else:
            shown = finite & (values > 0) if self.kind == "logarithmic" else finite
            places = np.rint(self.places(np.where(shown, values, self.low)) * (RAMP - 1))
            numbers = (places + self.ramp).astype(np.uint8)
        if self.kind == "logarithmic":
            numbers[values == 0] = ZERO
        numbers[np.isposinf(values)] = POSITIVE_INFINITY
        numbers[np.isneginf(values)] = NEGATIVE_INFINITY
        numbers[np.isnan(values)] = NOT_A_NUMBER
        return numbers

    def places(self, values: Values) -> Values:
        """Where finite values lie between the ends: 0 to 1."""
        if self.kind == "logarithmic":
            low, high = log2(np.array([self.low, self.high]))
            return np.asarray((log2(values) - low) / (high - low))
        if self.kind == "symlog":
            (most,) = _bent(np.array([self.high]), self.even)
            return np.asarray(0.5 + _bent(values, self.even) / (2 * most))
        if self.kind == "relative":
            low, high = log2(np.array([self.low, self.high]))
            return np.asarray((log2(np.clip(values, self.low, self.high)) - low) / (high - low))
        # Half of each, so that the distance between the ends is never beyond float64.
        return (values / 2 - self.low / 2) / (self.high / 2 - self.low / 2)

    def ticks(self, most: int) -> list[float]:
        """Round values between the ends, about so many at most."""
        if self.kind == "relative":
            return list(_times(self.uniform, round(self.high / self.uniform), most))
        if self.kind == "symlog":
            return _both_ways(self.even, self.high, most)
        marks = _decades if self.kind == "logarithmic" else _round
        return list(marks(self.low, self.high, most))

    def spoken(self, value: float) -> str:
        """What stands beside a tick; at the ends of a ramp that has values beyond them, that."""
        if self.kind == "share":
            return f"{spoken(100 * value)} %"
        if self.kind != "relative":
            return spoken(value)
        beyond = {self.low: "\N{LESS-THAN OR EQUAL TO}", self.high: "\N{GREATER-THAN OR EQUAL TO}"}.get(value, "")
        return f"{beyond}{spoken(value / self.uniform)}"


def scale(values: Sequence[Values], dtype: str, shown_as: Literal["colours", "heights"]) -> Scale:
    """The scale of all panels of a group."""
    if dtype == "bool":
        return Scale("two", 0, 1, (("true", TRUE), ("false", FALSE)))
    finite = np.concatenate([each[np.isfinite(each)] for each in values])
    states = tuple(_states(values))
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if states and low == high == 0:
        return Scale("two", -1, 0, ((("0", TRUE),) if finite.size else ()) + states)
    if low <= FAR and high == 0 and "int" not in dtype and np.isin(finite, (low, 0)).all():
        return Scale("two", low, 0, (("0", TRUE), (spoken(low), FALSE), *states))
    if low >= 0 and "int" not in dtype and (low > 0 or shown_as == "colours"):
        least = float(finite.min(where=finite > 0, initial=high))
        if least > 0 and high / least >= LOGARITHMIC_RATIO[shown_as]:
            return Scale("logarithmic", least, high, ((("0", ZERO),) if low == 0 else ()) + states)
    if low >= 0 and (high > 0 or shown_as == "heights" or "int" in dtype):
        from_zero = shown_as == "heights" or ("int" not in dtype and high - low < LEAST_PART * high)
        low = 0.0 if from_zero else low
        return Scale("sequential", low, high if high - low > LEAST else low + 1, states)
    most = max(-low, high) if max(-low, high) > LEAST else 1.0
    return Scale("diverging", -most, most, states)


def relative(rows: Values, uniform: float) -> Scale:
    """The scale of values beside what each would be if all were alike.

    The last row, which is what comes out, decides how far it goes: nine tenths of it lie within, if they are not
    further away than there is room for. What lies beyond has the last colour.
    """
    last = np.sort(np.abs(log2(np.clip(rows[-1], uniform / MOST_TIMES, uniform * MOST_TIMES) / uniform)))
    most = float(last[(len(last) - 1) * 9 // 10])
    times = next((2**each for each in (1, 2, 3) if most <= each), MOST_TIMES)
    return Scale("relative", uniform / times, uniform * times, tuple(_states([rows])), uniform)


def share(values: Sequence[Values]) -> Scale:
    """The scale of parts of a whole."""
    return Scale("share", 0.0, 1.0, tuple(_states(values)))


def spread(given: Scale, reached: Iterable[float]) -> Scale:
    """A scale about zero by its logarithm, where something that reaches so far from it would look like zero.

    It is seen where the scale is even within an eighth of that.
    """
    least = min(filter(None, reached), default=0.0)
    if least < LEAST or least * UNLIKE_RATIO > given.high:
        return given
    even = float(f"{max(least * EVEN_PART, given.high * LEAST_EVEN):.0e}")
    return replace(given, kind="symlog", even=even)


def alike(values: Sequence[Sequence[Values]]) -> bool:
    """Whether tensors are of one size, so that one scale shows them all."""
    largest = [max(map(reach, one)) for one in values]
    return min(largest) * ALIKE_RATIO >= max(largest)


def _states(values: Sequence[Values]) -> Iterator[tuple[str, int]]:
    if any(np.isposinf(each).any() for each in values):
        yield "inf", POSITIVE_INFINITY
    if any(np.isneginf(each).any() for each in values):
        yield "-inf", NEGATIVE_INFINITY
    if any(np.isnan(each).any() for each in values):
        yield "NaN", NOT_A_NUMBER


def log2(values: Values) -> Values:
    """Binary logarithms of positive values to about 1e-9, made of +, -, *, / in one order.

    2 / ln 2 times the series z + z^3 / 3 + z^5 / 5 + ... with z = (m - 1) / (m + 1), m the mantissa.

    >>> log2(np.array([0.25, 1.0, 10.0])).round(6).tolist()
    [-2.0, 0.0, 3.321928]
    """
    mantissa, exponent = np.frexp(values)
    z = (mantissa - 1) / (mantissa + 1)
    square = z * z
    total = np.zeros_like(z)
    for odd in range(17, 0, -2):
        total = total * square + 1 / odd
    return np.asarray(exponent + total * z * _TWO_BY_LN2)


def most_columns(values: Sequence[Values]) -> float:
    """How far from zero all columns reach, few that are larger left aside."""
    sizes = [np.where(np.isfinite(each), np.abs(each), 0) for each in values]
    reached = np.sort(np.concatenate([each.max(axis=0) for each in sizes]))
    return float(reached[max(0, len(reached) - 1 - max(1, len(reached) // FEW_COLUMNS))])


def reach(values: Values) -> float:
    """The largest finite value, whichever its sign."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def _bent(values: Values, even: float) -> Values:
    """Values in units of `even` up to that, and from there one more for each doubling."""
    size = np.abs(values) / even
    return np.asarray(np.sign(values) * np.where(size <= 1, size, 1 + log2(np.maximum(size, 1))))


def _both_ways(even: float, high: float, most: int) -> list[float]:
    """Zero, and powers of ten on both sides of it: the largest, and evenly others that are not too near to zero."""
    first, last = (int(f"{value:e}".partition("e")[2]) for value in (4 * even, high))
    every = max(1, -(-(last - first) // max(1, most // 2)))
    found = [float(f"1e{exponent}") for exponent in range(last, first, -every)]
    return sorted([*(-value for value in found), 0.0, *found])


def spoken(value: float) -> str:
    """A value on a colour bar: four digits, and no more than it has."""
    return f"{value:.4g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "\N{MINUS SIGN}")


def step_of(length: float, most: int) -> float:
    """The least of 1, 2 and 5 times a power of ten of which at most so many fit into a length.

    >>> step_of(128, 10), step_of(2.0, 6), step_of(0.03, 6)
    (20.0, 0.5, 0.005)
    """
    exponent = int(f"{length / most:e}".partition("e")[2])
    candidates = [float(f"{digit}e{exponent + more}") for more in (0, 1) for digit in (1, 2, 5)]
    return next((each for each in candidates if length / each <= most), candidates[-1])


def _round(low: float, high: float, most: int) -> Iterator[float]:
    """Multiples of a round step between two values; exact, so that 0 is 0 and 0.3 is 0.3."""
    step = Fraction(repr(step_of(min(high - low, MOST), most)))
    first = -(-Fraction(low) // step)
    while first * step <= Fraction(high):
        yield float(first * step)
        first += 1


def _times(uniform: float, largest: int, most: int) -> Iterator[float]:
    """A uniform share times powers of two, from the least to the largest: all of them, or evenly some."""
    reach = largest.bit_length() - 1
    steps = [step for step in range(1, reach) if reach % step == 0 and 2 * reach // step + 1 <= most]
    step = steps[0] if steps else reach
    for exponent in range(-reach, reach + 1, step):
        yield uniform * 2.0**exponent


def _decades(low: float, high: float, most: int) -> Iterator[float]:
    first, last = (int(f"{value:e}".partition("e")[2]) for value in (low, high))
    every = -(-(last - first + 1) // most)
    for exponent in range(first, last + 1, every):
        if low <= float(f"1e{exponent}") <= high:
            yield float(f"1e{exponent}")
