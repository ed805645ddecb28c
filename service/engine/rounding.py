"""Rounding once: from float64, or from a sum of two float64, to the dtype of the answer.

IEEE 754 round to nearest, ties to even, gradual underflow, overflow to infinity, for the four dtypes that the
service answers with. Rounding twice is not rounding: 1 + 2^-8 + 2^-40 is 1 + 2^-7 in bfloat16, but by way of
float32 it is 1 + 2^-8, a tie, and then 1.
"""

from collections.abc import Callable
from sys import byteorder
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Unsure = NDArray[np.bool_]
DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": BFLOAT16,
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}

# bfloat16 keeps 8 of the 53 significant bits of a float64 and ends, like float32, at 2^-133 = 2^(-126 - 7).
_DROPPED = np.uint64(53 - 8)
_HALF_LESS_ONE = np.uint64((1 << (53 - 8 - 1)) - 1)
_KEPT = np.uint64((1 << 64) - (1 << (53 - 8)))
_ONE = np.uint64(1)
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST_HALF = 2.0**-14
_UPPER = 1 if byteorder == "little" else 0  # the upper half of a 32-bit word
_ROUND_AT_2_POW_MINUS_133 = 1.5 * 2.0 ** (52 - 133)  # a float64 this large has its last bit at 2^-133


def nearest(values: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """Round float64 to `dtype`, once, to nearest even.

    >>> float(nearest(np.array([1 + 2**-8 + 2**-40]), "bfloat16")[0])
    1.0078125
    """
    target = np.dtype(dtype)
    if target == BFLOAT16:
        return _nearest_bfloat16(values)
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(target)


def nearest_of_sum(high: NDArray[np.float64], low: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """Round the real number high + low to `dtype`, once, to nearest even.

    For a dtype narrower than float64 the sum is first rounded *to odd*: cut off, and the last bit set where
    something was cut. With two bits or more to spare (53 against 24) rounding that is rounding the sum.
    """
    total = high + low
    if np.dtype(dtype) == np.float64:
        return total
    with np.errstate(invalid="ignore"):  # where the total is infinite the error is of no use
        back = total - high
        error = (high - (total - back)) + (low - back)
    return nearest(_to_odd(total, error), dtype)


def decide(
    high: NDArray[np.float64], low: NDArray[np.float64], error: NDArray[np.float64], dtype: DTypeLike
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """high + low rounded once, and where an error as large as that leaves it open how.

    For a narrow dtype `high` alone mostly decides: low is below 2^-53 |high|, and so is each sum's rounding.
    """
    if np.dtype(dtype) == np.float64:
        return _enclose(high, low, error, dtype)
    wide = error + 2.0**-51 * np.abs(high)
    rounded, undecided = nearest(high + wide, dtype), np.zeros(high.shape, np.bool_)
    near = different(nearest(high - wide, dtype), rounded)
    if near.any():
        rounded[near], undecided[near] = _enclose(high[near], low[near], error[near], dtype)
    return rounded, undecided


def _enclose(
    high: NDArray[np.float64], low: NDArray[np.float64], error: NDArray[np.float64], dtype: DTypeLike
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    below, above = nearest_of_sum(high, low - error, dtype), nearest_of_sum(high, low + error, dtype)
    return above, different(below, above)


def different(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Where two arrays of one dtype differ in any bit, as 0.0 and -0.0 do."""
    bits = f"i{a.itemsize}"
    unlike: NDArray[np.bool_] = a.view(bits) != b.view(bits)
    return unlike


def to_sixteen_bits(
    singles: NDArray[np.float32], floor: float, dtype: DTypeLike, write: Callable[[NDArray[Any]], None]
) -> Unsure | None:
    """Round float32, below 2 for float16, to float16 or bfloat16, and say where that may not be the rounding of the
    real number: nowhere, if None. `write` is given the rounded ones, in memory that is used again afterwards.

    The float32 are those nearest to float64 whose errors are below half an ulp (of the float32); those below `floor`
    are not, and unsure. The points half way between two neighbours of the narrower dtype are float32 themselves,
    ending in 1 and 15 zero bits (12 for float16). So where a float32 is no such point it lies on the same side of
    each as the real number, which is less than an ulp away. Where it is one, it is unsure; so half is rounded up.
    """
    bits = singles.view(np.uint32)
    half = np.dtype(dtype) != BFLOAT16
    rounded = _as_half(bits) if half else bits + np.uint32(1 << 15)
    upper = rounded.view(np.uint16).reshape(*singles.shape, 2)[..., _UPPER]
    size = np.abs(singles)
    smallest = size.min()
    unsure = size < floor if smallest < floor else None
    if half and smallest < _SMALLEST_HALF:
        subnormal = _subnormal_halves(singles, size < _SMALLEST_HALF, upper)
        unsure = subnormal if unsure is None else unsure | subnormal
    write(upper.view(dtype))
    rounded <<= np.uint32(16)
    if not rounded.min():
        unsure = rounded == 0 if unsure is None else unsure | (rounded == 0)
    return unsure


def _as_half(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """float32 with 2^-14 <= |x| < 2 as float16 in the upper half, half of its last bit added; the rest follows.

    The exponent, 113 to 127, becomes 1 to 15; the sign falls off at the top and is put back.
    """
    half: NDArray[np.uint32] = bits << np.uint32(3)
    half += np.uint32((1 << 15) - (112 << 26) & 0xFFFFFFFF)
    half |= bits & np.uint32(1 << 31)
    return half


def _subnormal_halves(singles: NDArray[np.float32], small: Unsure, rounded: NDArray[np.uint16]) -> Unsure:
    """Below 2^-14 float16 is subnormal: its half-way points are among the numbers that end in 12 zero bits."""
    few = singles[small]
    with np.errstate(under="ignore"):
        rounded[small] = few.astype(np.float16).view(np.uint16)
    unsure = np.zeros(small.shape, np.bool_)
    unsure[small] = (few.view(np.uint32) & np.uint32(0x0FFF)) == 0
    return unsure


def _to_odd(total: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    """total + error cut to 53 bits, the last bit 1 unless the error is 0; |error| <= ulp(total) / 2."""
    bits = np.array(total, np.float64).view(np.int64)
    even_and_inexact = (bits & 1 == 0) & (error != 0) & np.isfinite(total)
    outwards = (error > 0) == (total > 0)
    bits += np.where(even_and_inexact, np.where(outwards, 1, -1), 0)
    return bits.view(np.float64)


def _nearest_bfloat16(values: NDArray[np.float64]) -> NDArray[Any]:
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    odd = (bits >> _DROPPED) & _ONE
    kept = ((bits + (_HALF_LESS_ONE + odd)) & _KEPT).view(np.float64)
    small = np.abs(values) < _SMALLEST_NORMAL
    if small.any():
        subnormal = (values + _ROUND_AT_2_POW_MINUS_133) - _ROUND_AT_2_POW_MINUS_133
        kept = np.where(small, np.copysign(subnormal, values), kept)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = np.where(np.isnan(values), np.nan, kept).astype(np.float32)
    rounded: NDArray[Any] = (single.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16)
    return rounded
