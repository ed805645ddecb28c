"""mTAN's fixed embedding in the paper's loops."""

from fractions import Fraction

import numpy as np
import pytest

from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, close, only, refused
from tests.oracles.oracle_sinusoidal import encoding

MTAN = "encodings/mtan"


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("dim", "base", "scale"), [(8, 10, 48), (6, 10, 1), (34, 7.5, 0.3)])
def test_every_value_is_rounded_once(dtype: str, dim: int, base: float, scale: float) -> None:
    times = (0.0, 0.0104, 1.0, -0.5, 1e6)
    got = only(MTAN, positions=times, dim=dim, base=base, scale=scale, dtype=dtype)
    exact = [encoding(Fraction(time) * Fraction(scale), dim, base) for time in times]
    assert_rounded_once(got, exact, dtype)


def test_the_loops_of_the_published_code() -> None:
    got = only(MTAN, positions=(0.25,), dim=8, dtype="float64")[0]
    divisors = np.exp(np.arange(0, 8, 2) * -(np.log(10.0) / 8))
    close(got[0::2], np.sin(48 * 0.25 * divisors), 1e-14)
    close(got[1::2], np.cos(48 * 0.25 * divisors), 1e-14)


def test_the_origin_is_subtracted_first() -> None:
    moved = only(MTAN, offset=1_704_067_200, length=5, dim=4, origin=1704067200.0)
    np.testing.assert_array_equal(moved, only(MTAN, length=5, dim=4))


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"dim": 7}, "dim", "odd"),
        ({"dim": 4096, "base": 1e-19, "scale": 1e9}, "base", "out_of_range"),
        ({"dim": 8, "base": 1e-19, "scale": 1e9}, "scale", "out_of_range"),
        ({"dim": 8, "origin": 2.0**53, "offset": -4}, "origin", "out_of_range"),
        ({"dim": 8, "length": None}, "length", "missing"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(MTAN, **{"length": 2, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
