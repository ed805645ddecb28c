"""Real numbers to a hundred digits, and their one rounding to each dtype, by exact rationals.

The service rounds with floating-point arithmetic and bit patterns. Here a value is a ratio of two integers and is
compared with the two neighbouring members of the dtype, so that the service's rounding is not its own judge.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ldexp
from typing import TypeAlias

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import ArrayLike, NDArray

Real: TypeAlias = int | float | Fraction | mpf

PRECISION_BITS = 420
"""Working precision: 53 bits of position, 24 to 53 of answer, and more than 300 to spare."""

SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
SMALLEST_EXPONENT = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}
"""The exponent of the smallest subnormal number: every member is a multiple of 2 to this power."""


def real(value: Real) -> mpf:
    """The value as an mpf, without loss: a float stands for the binary fraction that it is.

    >>> real(Fraction(1, 4))
    mpf('0.25')
    """
    with mpmath.workprec(PRECISION_BITS):
        if isinstance(value, Fraction):
            return mpf(value.numerator) / mpf(value.denominator)
        return mpf(value)


def as_ratio(value: Real) -> tuple[int, int]:
    """The numerator and the positive denominator of the exact rational that an mpf (or any real handed here) stands
    for, not always in lowest terms.

    >>> as_ratio(mpf("-0.375")), as_ratio(3)
    ((-3, 8), (3, 1))
    """
    if not isinstance(value, mpf):
        return Fraction(value).as_integer_ratio()
    sign, significand, exponent, _ = value._mpf_
    numerator = -int(significand) if sign else int(significand)
    return (numerator << exponent, 1) if exponent >= 0 else (numerator, 1 << -exponent)


def as_fraction(value: Real) -> Fraction:
    """The same as a `Fraction`."""
    return Fraction(*as_ratio(value))


def spacing(magnitude: Fraction, dtype: str) -> Fraction:
    """The distance between neighbouring members of the dtype around a magnitude (its ulp)."""
    if magnitude == 0:
        return Fraction(2) ** SMALLEST_EXPONENT[dtype]
    highest = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** highest > magnitude:
        highest -= 1  # now 2^highest <= magnitude < 2^(highest + 1)
    exponent = max(highest + 1 - SIGNIFICAND_BITS[dtype], SMALLEST_EXPONENT[dtype])
    return Fraction(2) ** exponent


def rounded(value: Real, dtype: str) -> float:
    """The member of the dtype nearest to a real number, ties to even, as a float (which holds all four).

    The values of this service lie far below every overflow, so none is handled.

    >>> rounded(mpf("0.01"), "bfloat16"), rounded(Fraction(257), "bfloat16")
    (0.010009765625, 256.0)
    """
    numerator, denominator = as_ratio(value)
    if numerator == 0:
        return 0.0
    magnitude = abs(numerator)
    highest = magnitude.bit_length() - denominator.bit_length()
    if magnitude << max(-highest, 0) < denominator << max(highest, 0):
        highest -= 1  # now 2^highest <= magnitude / denominator < 2^(highest + 1)
    exponent = max(highest + 1 - SIGNIFICAND_BITS[dtype], SMALLEST_EXPONENT[dtype])
    unit = denominator << max(exponent, 0)
    steps, rest = divmod(magnitude << max(-exponent, 0), unit)
    if 2 * rest > unit or (2 * rest == unit and steps % 2 == 1):
        steps += 1
    return ldexp(-steps if numerator < 0 else steps, exponent)


def rounded_rows(rows: Sequence[Sequence[mpf]], dtype: str) -> NDArray[np.float64]:
    """Every value of a table rounded once to the dtype, held as float64."""
    return np.array([[rounded(value, dtype) for value in row] for row in rows], dtype=np.float64)


def ulps_apart(left: ArrayLike, right: ArrayLike, dtype: str = "float32") -> NDArray[np.int64]:
    """How many representable steps lie between two arrays of float32 (or float64), element by element.

    >>> ulps_apart(np.float32([1, -0.0]), np.float32([1 + 2**-23, 0]))
    array([1, 0])
    """
    integer = np.int32 if dtype == "float32" else np.int64
    lines = []
    for side in (left, right):
        bits = np.atleast_1d(np.asarray(side, dtype=dtype)).view(integer).astype(np.int64)
        # Negative floats count downwards from zero: mirror them, so that the integers are in numerical order.
        smallest = np.int64(np.iinfo(integer).min)
        lines.append(np.where(bits < 0, smallest - bits, bits))
    steps: NDArray[np.int64] = np.abs(lines[0] - lines[1])
    return steps


def from_bfloat16_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The numbers that bfloat16 bit patterns stand for: the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
