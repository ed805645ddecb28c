"""Real numbers known to 80 digits: what a frequency is before anything is rounded.

    Reals.of([0.5, Fraction(1, 3)])          numbers taken exactly (a float is the number it stands for)
    geometric(10000.0, exponents)            base ** exponent for rational exponents
    powers(10000.0, step, count)             base ** (step k) for k = 0, 1, ...
    a * b, a / b, a + b, a - b               entry by entry; the other side is Reals or one number
    numbers.pairs()                          as unevaluated sums of two float64

Each operation rounds at the 80th digit, a relative error under 10^-79 (2^-262). A few thousand in a row, as
the recurrences in `geometric` and `powers` make, still leave more than 2^-240: the 2^-200 promised has room to spare.
`decimal` rounds its logarithm and exponential correctly, whatever the processor, so the digits are the same
everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from functools import cache
from math import inf, isinf, lcm, nextafter
from operator import add, mul, sub, truediv

import numpy as np
from numpy.typing import NDArray

DIGITS = 80
MANY_DIGITS = Context(
    prec=DIGITS, rounding=ROUND_HALF_EVEN, traps=[DivisionByZero, InvalidOperation, Overflow], capitals=1
)
LAST_DIGIT = Decimal(10) ** -DIGITS
NOISE = Decimal(10) ** -60  # a part this much smaller than the whole is the error of 80-digit arithmetic
TINY = Decimal(10) ** -28  # below it sin(x) and x agree for more than 56 digits, nearly as far as NOISE
LITTLE_LESS = Decimal("0." + "9" * 70)

Number = int | float | Fraction | Decimal


def real(number: Number) -> Decimal:
    """The number with 80 digits; call it under `localcontext(MANY_DIGITS)`."""
    if isinstance(number, Fraction):
        return Decimal(number.numerator) / Decimal(number.denominator)
    return +Decimal(number)


def pair(number: Decimal) -> tuple[float, float]:
    """The number as high + low, high the nearest float64; the error is under 2^-105 of the number.

    A number that agrees with its nearest float64 for 60 digits is taken to *be* that float64. So 16 ** 1/4,
    computed as exp(ln(16) / 4), is 2 and not 2 + 10^-79, and ties are seen to be ties. A real number of this
    service comes so close without being equal with a probability of 10^-44.
    """
    high = float(number)
    if isinf(high):
        return high, 0.0
    rest = number - Decimal(high)
    return high, 0.0 if abs(rest) <= NOISE * abs(number) else float(rest)


def as_float(number: Decimal) -> float | None:
    """The float64 that the number is, if it is one for all that its digits tell; call it under
    `localcontext(MANY_DIGITS)`.

    >>> as_float(Decimal("0.25")), as_float(Decimal("0.3"))
    (0.25, None)
    """
    nearest = float(number)
    return nearest if abs(number - Decimal(nearest)) <= NOISE * abs(number) else None


def pair_of_sine(sine: Decimal) -> tuple[float, float]:
    """The sine as high + low. A tiny one is nearer to its angle than the digits tell, but always the smaller.

    That matters where the angle is half way between two floats: sin(9 * 1e-200) rounds towards 0. So a tiny
    sine is made smaller by more than the digits' error, and low is cut, lest it round to the half-way point.
    """
    return pair_below(sine) if 0 < abs(sine) < TINY else pair(sine)


def pair_below(number: Decimal) -> tuple[float, float]:
    """A number that is a hair nearer to 0 than its digits tell, as high + low: see `pair_of_sine`."""
    smaller = number * LITTLE_LESS
    high = float(smaller)
    rest = smaller - Decimal(high)
    low = float(rest)
    return high, nextafter(low, 0.0) if abs(Decimal(low)) > abs(rest) else low


@dataclass(frozen=True, slots=True)
class Reals:
    """An immutable row of real numbers, 80 digits each.

    >>> (Reals.of([1, 2, 3]) / 4).rounded().tolist()
    [0.25, 0.5, 0.75]
    """

    numbers: tuple[Decimal, ...]

    @classmethod
    def of(cls, numbers: Iterable[Number]) -> "Reals":
        """Take the numbers as they are: a float64 stands for exactly its own value."""
        with localcontext(MANY_DIGITS):
            return cls(tuple(real(number) for number in numbers))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Decimal]:
        return iter(self.numbers)

    def __getitem__(self, index: slice) -> "Reals":
        """A part of the row."""
        return Reals(self.numbers[index])

    def __mul__(self, other: "Reals | Number") -> "Reals":
        return self._with(other, mul)

    def __truediv__(self, other: "Reals | Number") -> "Reals":
        return self._with(other, truediv)

    def __add__(self, other: "Reals | Number") -> "Reals":
        return self._with(other, add)

    def __sub__(self, other: "Reals | Number") -> "Reals":
        return self._with(other, sub)

    def reciprocal(self) -> "Reals":
        """1 / x for each."""
        with localcontext(MANY_DIGITS):
            return Reals(tuple(1 / number for number in self.numbers))

    def logarithm(self) -> "Reals":
        """ln x for each x > 0.

        >>> (Reals.of([2, 8]).logarithm() / Reals.of([8, 2]).logarithm()).rounded().tolist()
        [0.3333333333333333, 3.0]
        """
        with localcontext(MANY_DIGITS):
            return Reals(tuple(number.ln() for number in self.numbers))

    def blend(self, other: "Reals", share: "Reals | Number") -> "Reals":
        """(1 - share) * self + share * other: `share` 0 is self, 1 is other.

        >>> Reals.of([2, 2]).blend(Reals.of([4, 4]), Reals.of([0, 0.5])).rounded().tolist()
        [2.0, 3.0]
        """
        return self + (other - self) * share

    def pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers as high + low (see `pair`), two arrays of shape (count,)."""
        with localcontext(MANY_DIGITS):
            both = [pair(number) for number in self.numbers]
        high, low = np.array(both, np.float64).reshape(-1, 2).T
        return np.ascontiguousarray(high), np.ascontiguousarray(low)

    def rounded(self) -> NDArray[np.float64]:
        """The nearest float64 of each number."""
        high, low = self.pairs()
        return high + low

    def _with(self, other: "Reals | Number", operation: Callable[[Decimal, Decimal], Decimal]) -> "Reals":
        with localcontext(MANY_DIGITS):
            if not isinstance(other, Reals):
                number = real(other)
                return Reals(tuple(operation(mine, number) for mine in self.numbers))
            paired = zip(self.numbers, other.numbers, strict=True)
            return Reals(tuple(operation(mine, theirs) for mine, theirs in paired))


def geometric(base: Number, exponents: Sequence[Fraction]) -> Reals:
    """base ** exponent for each exponent, base > 0.

    One logarithm, then one exponential for each *different step* between neighbouring exponents: the
    exponents -2k/d of an encoding have one step, so all but the first cost a multiplication.

    >>> geometric(16.0, [Fraction(0), Fraction(1, 4), Fraction(-1, 2)]).rounded().tolist()
    [1.0, 2.0, 0.25]
    """
    if not 0 < base < inf:
        raise ValueError(f"the base of a power must be positive and finite, not {base!r}")
    powers: list[Decimal] = []
    # In whole numbers of one fraction: arithmetic with fractions would cost as much as that with 80 digits.
    denominator = lcm(*(exponent.denominator for exponent in exponents))
    with localcontext(MANY_DIGITS):
        logarithm = real(base).ln()

        @cache
        def ratio(step: int) -> Decimal:
            return (logarithm * (Decimal(step) / denominator)).exp()

        power, before = Decimal(1), 0
        for exponent in exponents:
            place = exponent.numerator * (denominator // exponent.denominator)
            power *= ratio(place - before)
            before = place
            powers.append(power)
    return Reals(tuple(powers))


def powers(base: Number, step: Fraction, count: int) -> Reals:
    """base ** (step k) for k = 0 ... count - 1: what `geometric` has for these exponents, at less cost.

    >>> powers(16.0, Fraction(-1, 4), 3).rounded().tolist()
    [1.0, 0.5, 0.25]
    """
    if count < 2:
        return geometric(base, [Fraction(0)] * count)
    first, ratio = geometric(base, [Fraction(0), step]).numbers
    found = [first, ratio]
    with localcontext(MANY_DIGITS):
        while len(found) < count:
            found.append(found[-1] * ratio)
    return Reals(tuple(found))


@cache
def pi() -> Decimal:
    """Pi: Machin's 16 arctan(1/5) - 4 arctan(1/239), summed in integers."""
    unit = 10**110

    def arctangent(inverse: int) -> int:
        total, term, n = 0, unit // inverse, 0
        while term:
            total += (-1) ** n * term // (2 * n + 1)
            term //= inverse * inverse
            n += 1
        return total

    with localcontext(MANY_DIGITS):
        return Decimal(16 * arctangent(5) - 4 * arctangent(239)).scaleb(-110)


def angle_factor(name: str) -> Decimal:
    """1, pi or 2 pi, for `one`, `pi` and `two-pi`."""
    with localcontext(MANY_DIGITS):
        return {"one": Decimal(1), "pi": pi(), "two-pi": 2 * pi()}[name]


def sine_cosine(angle: Decimal) -> tuple[Decimal, Decimal]:
    """sin and cos of an angle of at most a few radians, by Taylor's series to the 80th digit.

    Call it under `localcontext(MANY_DIGITS)`. The sine keeps its relative precision however small the angle.
    """
    square = angle * angle
    sine = cosine = term = Decimal(1)
    n = 0
    while abs(term) > LAST_DIGIT:
        n += 2
        term *= -square / (n * (n - 1))  # (-1)^(n/2) angle^n / n!
        cosine += term
        sine += term / (n + 1)
    return sine * angle, cosine
