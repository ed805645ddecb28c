"""Rounding once: from float64, or from a sum of two float64, to the dtype of the answer.

IEEE 754 round to nearest, ties to even, gradual underflow, overflow to infinity, for the four dtypes that the
service answers with. Rounding twice is not rounding: 1 + 2^-8 + 2^-40 is 1 + 2^-7 in bfloat16, but by way of
float32 it is 1 + 2^-8, a tie, and then 1.
"""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
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


def from_single(singles: NDArray[np.float32], dtype: DTypeLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Round float32 to float16 or bfloat16, and say where that may not be the rounding of the real number.

    The float32 are taken to be correctly rounded. Rounding keeps order, and the points half way between two
    neighbours of the narrower dtype are float32 themselves; so a float32 that is not such a point lies on the
    same side of each as the real number does, and rounds to the same neighbour.

    Half-way points end in 1 and 15 zero bits for bfloat16. For float16, with its subnormals, they are among
    the numbers that end in 12 zero bits.
    """
    bits = singles.view(np.uint32)
    if np.dtype(dtype) == BFLOAT16:
        return singles_to_bfloat16(singles), (bits & 0xFFFF) == 0x8000
    with np.errstate(over="ignore", under="ignore"):
        return singles.astype(np.float16), (bits & 0x0FFF) == 0


def singles_to_bfloat16(singles: NDArray[np.float32]) -> NDArray[Any]:
    """Round finite float32 to bfloat16, to nearest even."""
    bits = singles.view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    rounded >>= 16
    return rounded.astype(np.uint16).view(BFLOAT16)


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
