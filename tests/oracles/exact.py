"""Real numbers to a hundred digits, and their one rounding to each dtype, by exact rationals.

The service rounds with floating-point arithmetic and bit patterns. Here a value is a `Fraction` and is
compared with the two neighbouring members of the dtype, so that the service's rounding is not its own judge.
"""

from collections.abc import Sequence
from fractions import Fraction
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


def as_fraction(value: Real) -> Fraction:
    """The exact rational that an mpf (or any real handed here) stands for."""
    if not isinstance(value, mpf):
        return Fraction(value)
    sign, significand, exponent, _ = value._mpf_
    return (-1 if sign else 1) * Fraction(int(significand)) * Fraction(2) ** int(exponent)


def nearest_even(quotient: Fraction) -> int:
    """The nearest integer; of two equally near ones the even one.

    >>> [nearest_even(Fraction(n, 2)) for n in (1, 3, 4, -1)]
    [0, 2, 2, 0]
    """
    below = quotient.numerator // quotient.denominator
    rest = quotient - below
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1):
        return below + 1
    return below


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
    exact = as_fraction(value)
    ulp = spacing(abs(exact), dtype)
    return float(nearest_even(exact / ulp) * ulp)


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
