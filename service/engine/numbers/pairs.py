"""Double-double arithmetic: a real number as high + low, two float64 of which high is the sum rounded.

The classic error-free transformations (Dekker 1971, Knuth 1969), made of +, - and * only, each correctly
rounded by IEEE 754 on every processor; nothing here is fused. u = 2^-53 below; errors are relative.

Operands stay between 2^-900 and 2^900 or are exactly 0: the callers see to it, so nothing overflows and no
product's error term falls below the smallest float64.
"""

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.float64]

ALIGNMENT = 64  # bytes in a cache line, and in the widest vector register

# Veltkamp's constant for 53 bits: multiplying by 2^27 + 1 cuts a float64 into two halves of 26 bits.
_CUT = 2.0**27 + 1


class Pair(NamedTuple):
    """high + low, |low| <= u |high|."""

    high: Floats
    low: Floats

    def at(self, index: Any) -> "Pair":
        """Both halves indexed alike."""
        return Pair(self.high[index], self.low[index])


def two_sum(a: Floats, b: Floats) -> Pair:
    """a + b, exactly."""
    total = a + b
    back = total - a
    return Pair(total, (a - (total - back)) + (b - back))


def ordered_sum(a: Floats, b: Floats) -> Pair:
    """a + b, exactly, where |a| >= |b| or a = 0."""
    total = a + b
    return Pair(total, b - (total - a))


def halves(a: Floats) -> Pair:
    """a = high + low, exactly, each of at most 26 bits: products of two halves are exact."""
    scaled = a * _CUT
    high = scaled - (scaled - a)
    return Pair(high, a - high)


def two_product(a: Floats, b: Floats) -> Pair:
    """a * b, exactly."""
    product = a * b
    (a1, a0), (b1, b0) = halves(a), halves(b)
    return Pair(product, a0 * b0 - (((product - a1 * b1) - a0 * b1) - a1 * b0))


def add(a: Pair, b: Pair) -> Pair:
    """a + b within 4 u^2 (|a| + |b|)."""
    high, error = two_sum(a.high, b.high)
    return ordered_sum(high, error + (a.low + b.low))


def multiply(a: Pair, b: Pair) -> Pair:
    """a * b within 8 u^2."""
    high, error = two_product(a.high, b.high)
    return ordered_sum(high, error + (a.high * b.low + a.low * b.high))


def sum_of_products(a: Pair, b: Pair) -> Pair:
    """a[0] * b[0] + a[1] * b[1] within 16 u^2 (|a[0] b[0]| + |a[1] b[1]|).

    Of each product the rounding is known exactly; what is lost beside it is below 8 u^2 of the product. The rest of a
    product is below 3 u of it: adding the rests, and that of the sum, loses 3 u^2 and 4 u^2 more.
    """
    product, error = two_product(a.high, b.high)
    rest = error + (a.high * b.low + a.low * b.high)
    total, lost = two_sum(product[0], product[1])
    return ordered_sum(total, lost + (rest[0] + rest[1]))


def divide(a: Pair, b: Pair) -> Pair:
    """a / b within 16 u^2: the quotient of the highs, and then of what it leaves."""
    quotient = a.high / b.high
    rest = add(a, negative(multiply(Pair(quotient, np.zeros_like(quotient)), b)))
    return ordered_sum(quotient, rest.high / b.high)


def negative(a: Pair) -> Pair:
    """-a."""
    return Pair(-a.high, -a.low)


def stacked(*pairs: Pair) -> Pair:
    """Pairs of one shape as one, along a new first axis."""
    return Pair(np.array([pair.high for pair in pairs]), np.array([pair.low for pair in pairs]))


class Rows(NamedTuple):
    """Rows of sines and cosines, each (rows, channels)."""

    sines: Pair
    cosines: Pair

    def at(self, index: Any) -> "Rows":
        """Sines and cosines indexed alike."""
        return Rows(self.sines.at(index), self.cosines.at(index))


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Memory that begins with a cache line: what is written there is written faster."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def runs(length: int, size: int) -> Iterator[slice]:
    """Slices of that size, the last perhaps smaller, that make up the length."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))
