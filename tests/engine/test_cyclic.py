"""Cyclic pairs against sines and cosines at a hundred digits."""

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS, real
from tests.oracles.oracle_sinusoidal import arranged

CYCLIC = "encodings/cyclic"


def pairs(x: float, periods: tuple[float, ...], layout: str = "interleaved") -> list[Any]:
    """sin and cos of 2 pi x / period, in turns, where quarters are exact."""
    with mpmath.workprec(PRECISION_BITS):
        halves = [2 * real(x) / real(period) for period in periods]
        return arranged([mpmath.sinpi(half) for half in halves], [mpmath.cospi(half) for half in halves], layout)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("layout", ["interleaved", "sin-cos", "cos-sin"])
def test_every_value_is_rounded_once(dtype: str, layout: str) -> None:
    periods = (7.0, 365.25, 0.1, 1e18, 24.0)
    at = (0.0, 6.0, -1.75, 0.3, 2.0**53, 1e-30)
    got = only(CYCLIC, positions=at, period=periods, layout=layout, dtype=dtype)
    assert_rounded_once(got, [pairs(x, periods, layout) for x in at], dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_quarters_are_exact(dtype: str) -> None:
    got = only(CYCLIC, length=200, offset=-100, period=(12, 24, 4), dtype=dtype, layout="sin-cos").astype(np.float64)
    for column, period in enumerate((12, 24, 4)):
        for row, x in enumerate(range(-100, 100)):
            if x % (period // 4) == 0:
                quarter = x // (period // 4) % 4
                assert tuple(got[row, [column, column + 3]]) == ((0, 1), (1, 0), (0, -1), (-1, 0))[quarter]
                assert not np.signbit(got[row, [column, column + 3]][quarter % 2])


def test_i01_the_last_of_a_period_is_not_its_first() -> None:
    got = only(CYCLIC, positions=(6, 0), period=(7,), dtype="float64")
    close(got.reshape(-1), [-0.781831482, 0.623489802, 0, 1], 1e-9)
    # a period of 6, one less, is the mistake
    assert only(CYCLIC, positions=(6,), period=(6,)).tolist() == [[0, 1]]


def test_the_origin_is_subtracted_first() -> None:
    year, day = 1704067200.0, 86400
    at = (year, year + 0.5, year + 21600, year - 86400 / 4)
    got = only(CYCLIC, positions=at, period=(day,), origin=year, dtype="float64")
    assert_rounded_once(got, [pairs(x - year, (day,)) for x in at], "float64")
    counted = only(CYCLIC, offset=int(year), length=40, period=(day,), origin=year, dtype="float64")
    np.testing.assert_array_equal(counted, only(CYCLIC, length=40, period=(day,), dtype="float64"))
    half = only(CYCLIC, offset=3, length=2, period=(8,), origin=0.5)
    np.testing.assert_array_equal(half, only(CYCLIC, positions=(2.5, 3.5), period=(8,)))


def test_positions_of_a_batch() -> None:
    got = only(CYCLIC, {"positions": np.array([[0, 6, 12], [18, 24, 30]])}, period=(24,))
    assert got.tolist() == [[[0, 1], [1, 0], [0, -1]], [[-1, 0], [0, 1], [1, 0]]]


def test_a_position_too_far_from_the_origin() -> None:
    fault = refused(CYCLIC, positions=(2.0**53,), period=(7,), origin=-2.0)
    assert (fault.parameter, fault.code, fault.limit) == ("origin", "out_of_range", 2**53)
    assert refused(CYCLIC, length=2, offset=-(2**53), period=(7,), origin=2.0).parameter == "origin"
    assert refused(CYCLIC, period=(7,)).parameter == "length"
