"""Rounding happens once, to nearest even, in every dtype."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from service.engine.rounding import (
    BFLOAT16,
    DTYPES,
    decide,
    different,
    nearest,
    nearest_of_sum,
    to_sixteen_bits,
)
from tests.engine.answers import Array
from tests.oracles.exactness import rounded_once

EVERY_DTYPE = pytest.mark.parametrize("dtype", DTYPES)
within_range = st.floats(-60000.0, 60000.0)


def bits(array: Any) -> list[int]:
    """Bit patterns, as sign and zero matter."""
    array = np.asarray(array)
    return [int(pattern) for pattern in array.reshape(-1).view(f"u{array.itemsize}")]


@EVERY_DTYPE
@settings(deadline=None)
@given(value=within_range)
def test_a_float64_is_rounded_once(dtype: str, value: float) -> None:
    assert float(nearest(np.array([value]), DTYPES[dtype])[0]) == rounded_once(mpf(value), dtype)


@EVERY_DTYPE
@settings(deadline=None)
@given(value=st.floats(-1e-4, 1e-4))
def test_small_and_subnormal_values_are_rounded_once(dtype: str, value: float) -> None:
    assert float(nearest(np.array([value]), DTYPES[dtype])[0]) == rounded_once(mpf(value), dtype)


@settings(deadline=None)
@given(exponent=st.integers(-140, -120), steps=st.integers(1, 2**12), sign=st.sampled_from([-1.0, 1.0]))
def test_bfloat16_underflows_gradually(exponent: int, steps: int, sign: float) -> None:
    value = sign * steps * 2.0 ** (exponent - 8)
    assert float(nearest(np.array([value]), BFLOAT16)[0]) == rounded_once(mpf(value), "bfloat16")


def test_bfloat16_is_not_rounded_by_way_of_float32() -> None:
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(nearest(value, BFLOAT16)[0]) == 1.0078125
    assert float(value.astype(ml_dtypes.bfloat16)[0]) == 1.0, "the shortcut that this module avoids"


def test_float16_is_not_rounded_by_way_of_float32() -> None:
    value = np.array([1 + 2.0**-11 + 2.0**-40])
    assert float(nearest(value, np.float16)[0]) == 1 + 2.0**-10


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0x0000),
        (-0.0, 0x8000),
        (2.0**-134, 0x0000),  # half the smallest: to even
        (-(2.0**-134), 0x8000),
        (2.0**-134 * 1.5, 0x0001),
        (3 * 2.0**-134, 0x0002),
        (2.0**-126 * (1 - 2.0**-9), 0x0080),  # the largest subnormal's neighbour rounds up to a normal
        (1e-300, 0x0000),
        (3.3895313892515355e38, 0x7F7F),
        (3.3961775292304601e38, 0x7F80),  # 2^128 - 2^119: half way beyond the largest
        (3.396e38, 0x7F7F),
        (-1e300, 0xFF80),
        (np.inf, 0x7F80),
        (-np.inf, 0xFF80),
    ],
)
def test_the_ends_of_bfloat16(value: float, expected: int) -> None:
    assert bits(nearest(np.array([value]), BFLOAT16)) == [expected]


@EVERY_DTYPE
def test_nan_stays_nan(dtype: str) -> None:
    assert np.isnan(nearest(np.array([np.nan, -np.nan]), DTYPES[dtype]).astype(np.float64)).all()


@pytest.mark.parametrize(("dtype", "largest"), [(np.float16, 65504.0), (np.float32, 3.4028234663852886e38)])
def test_overflow_is_silent_and_infinite(dtype: type, largest: float) -> None:
    assert nearest(np.array([largest, -2 * largest]), dtype).tolist() == [largest, -np.inf]


def test_any_shape_is_kept() -> None:
    assert nearest(np.ones((2, 3, 4))[:, ::2], BFLOAT16).shape == (2, 2, 4)


@EVERY_DTYPE
@settings(deadline=None)
@given(value=st.floats(0.001, 60000.0), tail=st.sampled_from([-(2.0**-54), -(2.0**-80), 0.0, 2.0**-90, 2.0**-54]))
def test_a_sum_is_rounded_once(dtype: str, value: float, tail: float) -> None:
    # half-way points of the dtype, nudged by far less than a float64 can see
    halfway = value
    if dtype != "float64":
        low = nearest(np.array([value]), DTYPES[dtype])
        up = (low.view(f"u{low.itemsize}") + 1).astype(f"u{low.itemsize}").view(DTYPES[dtype])
        halfway = (float(low[0]) + float(up[0])) / 2
    high, low_part = np.array([halfway]), np.array([halfway * tail])
    expected = rounded_once(mpf(halfway) + mpf(float(low_part[0])), dtype)
    assert float(nearest_of_sum(high, low_part, DTYPES[dtype])[0]) == expected


def test_a_value_is_undecided_only_near_a_boundary() -> None:
    high, low = np.array([1.0, 1 + 2.0**-24, 1 + 2.0**-24]), np.array([0.0, 2.0**-60, 2.0**-60])
    rounded, undecided = decide(high, low, np.array([2.0**-55, 2.0**-59, 2.0**-61]), np.float32)
    assert undecided.tolist() == [False, True, False]
    assert rounded.tolist()[2] == 1 + 2.0**-23


def test_zeros_of_unlike_sign_are_different() -> None:
    assert different(np.array([0.0, 1.0]), np.array([-0.0, 1.0])).tolist() == [True, False]


def half_way_points(dtype: str, first: int, last: int) -> tuple[Array, Array, Array]:
    """The float32 half way between neighbours with these bit patterns, and the neighbours."""
    patterns = np.arange(first, last, dtype=np.uint16)
    low, up = (part.view(DTYPES[dtype]).astype(np.float64) for part in (patterns, patterns + np.uint16(1)))
    return ((low + up) / 2).astype(np.float32), low, up


def to_sixteen(singles: Array, dtype: str, floor: float = 0.0) -> tuple[Array, Array]:
    out = np.empty((1, singles.size, 2), DTYPES[dtype])[:, :, 0]  # as strided as an interleaved table

    def write(rounded: Array) -> None:
        out[...] = rounded[0]

    unsure = to_sixteen_bits(singles.astype(np.float32)[None, None], floor, DTYPES[dtype], write)
    return out[0], np.zeros(singles.size, np.bool_) if unsure is None else unsure[0, 0]


# From the smallest number that is normal, or subnormal, to 1.
RANGES = [("bfloat16", 0x0080, 0x3F80), ("float16", 0x0400, 0x3C00), ("float16", 0x0000, 0x0400)]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("dtype", "first", "last"), RANGES)
def test_sixteen_bits_from_float32(dtype: str, first: int, last: int, sign: float) -> None:
    """Every half-way point is unsure; its neighbours round to the two sides; the numbers themselves stay."""
    points, low, up = half_way_points(dtype, first, last)
    assert to_sixteen(sign * points, dtype)[1].all()
    below, above = np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(2))
    for singles, expected in ((below, low), (above, up), (low, low), (up, up)):
        rounded, unsure = to_sixteen(sign * singles, dtype)
        assert (rounded.astype(np.float64) == sign * expected).all()
        assert not unsure[singles >= 2.0**-14].any()  # subnormal float16 may be unsure for nothing


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_lies_below_the_floor_is_unsure(dtype: str) -> None:
    _, unsure = to_sixteen(np.array([0.0, 1e-7, -1e-7, 3e-7, 0.5]), dtype, floor=2e-7)
    assert unsure.tolist() == [True, True, True, False, False]
    _, unsure = to_sixteen(np.array([2.0**-3 + 2.0**-14 if dtype == "float16" else 0.5 + 2.0**-9, 1e-9]), dtype, 2e-7)
    assert unsure.tolist() == [True, True]
