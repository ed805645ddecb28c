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
    from_single,
    nearest,
    nearest_of_sum,
    singles_to_bfloat16,
)
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


def test_every_bfloat16_and_half_way_point_rounds_from_float32_as_ml_dtypes_rounds() -> None:
    patterns = (np.arange(0, 2**32, 2**15, dtype=np.uint64) + np.array([[0], [1], [2**15 - 1]], np.uint64)) % 2**32
    singles = patterns.astype(np.uint32).view(np.float32).reshape(-1)
    singles = singles[np.isfinite(singles)]
    assert bits(singles_to_bfloat16(singles)) == bits(singles.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_float32_on_a_half_way_point_is_open(dtype: str) -> None:
    patterns = (
        np.arange(2**10, 2**14, dtype=np.uint16) if dtype == "float16" else np.arange(100, 16000, dtype=np.uint16)
    )
    low, up = (
        patterns.view(DTYPES[dtype]).astype(np.float64),
        (patterns + 1).view(DTYPES[dtype]).astype(np.float64),
    )
    halfway = ((low + up) / 2).astype(np.float32)
    nearby = np.nextafter(halfway, np.float32(2.0))
    assert from_single(halfway, DTYPES[dtype])[1].all()
    rounded, unsure = from_single(nearby, DTYPES[dtype])
    assert not unsure.any()
    assert (rounded.astype(np.float64) == up).all()


def test_a_float32_on_a_half_way_point_of_subnormal_float16_is_open() -> None:
    halfway = ((np.arange(0, 1024) + 0.5) * 2.0**-24).astype(np.float32)
    assert from_single(halfway, np.float16)[1].all()
