"""Lags by frequency, ages, and what each refuses."""

import re
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.seasons import PATTERN, lags
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS

LAGS, AGE = "encodings/lags", "encodings/age"


def test_hours_by_hand() -> None:
    days = [24 * day + near for day in range(1, 8) for near in (-1, 0, 1)]
    weeks = [168 * week + near for week in range(1, 5) for near in (-1, 0, 1)]
    month = [719, 720, 721]
    expected = [*range(1, 8), *sorted({*days, *weeks, *month, 672})]  # 4 weeks; 8 weeks are beyond 1200
    assert only(LAGS, frequency="h").tolist() == expected
    assert only(LAGS, frequency="h", num_lags=3).tolist() == [1, 2, 3]
    assert only(LAGS, frequency="YE", num_default_lags=2).tolist() == [1, 2]
    assert only(LAGS, frequency="ME", lag_ub=12, num_default_lags=0).tolist() == [11, 12]
    assert lags("QS", 1200, 1) == [1, 8, 9, 11, 12, 13]


def test_where_each_lag_reads() -> None:
    got = only(LAGS, frequency="ME", length=3, offset=2, num_lags=4, dtype="int32")
    assert got.dtype == np.int32
    assert got.tolist() == [[1, 0, -1, -2], [2, 1, 0, -1], [3, 2, 1, 0]]
    batch = only(LAGS, {"positions": np.array([[7, 1], [-3, 2**40]])}, frequency="ME", num_lags=2)
    assert batch.tolist() == [[[6, 5], [0, -1]], [[-4, -5], [2**40 - 1, 2**40 - 2]]]
    assert only(LAGS, frequency="D", positions="9,4", num_lags=1).tolist() == [[8], [3]]
    scheme = by_key("encodings", "lags")
    assert scheme.facts(scheme.params(frequency="ME"), {}) == {"count": 16, "largest": 37}
    assert scheme.sequence(scheme.params(frequency="ME"), {}) is None
    assert scheme.sequence(scheme.params(frequency="ME", length=3), {}) is not None


@pytest.mark.parametrize(
    ("parameters", "inputs", "named", "code"),
    [
        ({"frequency": "fortnight"}, {}, "frequency", "unknown"),
        ({"frequency": "m"}, {}, "frequency", "ambiguous"),
        ({"frequency": "2QE"}, {}, "frequency", "unsupported"),
        ({"frequency": "YE", "num_default_lags": 0}, {}, "num_default_lags", "empty"),
        ({"frequency": "h", "positions": "1,2.5"}, {}, "positions", "type"),
        ({"frequency": "h"}, {"positions": np.array([0.5])}, "/positions", "type"),
        ({"frequency": "h", "length": 3, "offset": 2**40, "dtype": "int32"}, {}, "dtype", "out_of_range"),
    ],
)
def test_lags_refuse(parameters: dict[str, Any], inputs: dict[str, Any], named: str, code: str) -> None:
    fault = refused(LAGS, inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize("frequency", ["W-FRI", "2W-SUN", "YE-DEC", "YS-JAN", "A-JUN", "QE-FEB", "QS-DEC", "Q-MAR"])
def test_an_anchor_is_a_weekday_of_weeks_or_a_month_of_years_and_quarters(frequency: str) -> None:
    assert only(LAGS, frequency=frequency).tolist() == only(LAGS, frequency=frequency.partition("-")[0]).tolist()
    assert re.search(PATTERN, frequency)


@pytest.mark.parametrize(
    ("frequency", "would_do"),
    [
        ("W-FOO", "W-SUN"),
        ("W-JAN", "W-SUN"),
        ("h-FOO", "h alone"),
        ("15min-JAN", "min alone"),
        ("D-XYZ", "D alone"),
        ("B-MON", "B alone"),
        ("ME-MON", "ME alone"),
        ("MS-JAN", "MS alone"),
        ("YE-SUN", "YE-JAN"),
        ("QS-FOO", "QS-JAN"),
    ],
)
def test_an_anchor_without_a_meaning_is_refused(frequency: str, would_do: str) -> None:
    fault = refused(LAGS, frequency=frequency)
    assert (fault.parameter, fault.code) == ("frequency", "anchor")
    assert frequency in fault.detail
    assert would_do in fault.detail
    assert not re.search(PATTERN, frequency)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("chosen", "shift"),
    [
        ({}, 2),
        ({"scale": "natural"}, 1),
        ({"shift": 1.5}, 1.5),
        ({"scale": "natural", "shift": 1e9}, 1e9),
        ({"scale": "linear"}, 0),
    ],
)
def test_ages_are_rounded_once(chosen: dict[str, Any], shift: float, dtype: str) -> None:
    at = [0, 1, 8, 98, 0.5, 997.75, 1e-20, 65000 if dtype == "float16" else 2**53 - 3]
    got = only(AGE, {"positions": np.array(at)}, dtype=dtype, **chosen)
    of = {"linear": lambda x: x, "natural": mpmath.log}.get(chosen.get("scale", ""), mpmath.log10)
    with mpmath.workprec(PRECISION_BITS):
        assert_rounded_once(got, [[of(mpf(shift) + mpf(age))] for age in at], dtype)


def test_powers_of_ten_are_whole() -> None:
    got = only(AGE, positions="8,98,998,999999999998", dtype="float64")
    assert got[:, 0].tolist() == [1, 2, 3, 12]
    scheme = by_key("encodings", "age")
    shifts = [
        scheme.resolve(scheme.params(length=1, scale=scale), {}).shift for scale in ("log10", "natural", "linear")
    ]
    assert shifts == [2, 1, 0]


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"positions": "-1.5,3"}, "shift", "out_of_range"),
        ({"length": 2, "scale": "natural", "shift": 0.5}, "shift", "out_of_range"),
        ({"length": 2, "offset": 70000, "scale": "linear", "dtype": "float16"}, "dtype", "out_of_range"),
        ({}, "length", "missing"),
    ],
)
def test_ages_refuse(parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(AGE, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
