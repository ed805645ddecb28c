"""Calendar features against the standard library's calendar, in loops and exact fractions."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from pydantic import ValidationError

from service.engine import by_key
from service.engine.encodings import calendar
from service.engine.encodings.calendar import FEATURES
from service.engine.seasons import GRANULARITIES, granularity, seasonality
from service.engine.waves import Waves
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, rounded

CALENDAR = "encodings/calendar"
NAMES = tuple(FEATURES)
COUNTS = (60, 60, 4, 24, 7, 31, 366, 53, 12)
EPOCH = datetime(1970, 1, 1)


def counted(at: datetime) -> list[int]:
    """Second, minute, quarter, hour, weekday, day of month and year, week, month, as the calendar counts them."""
    return [
        at.second,
        at.minute,
        at.minute // 15,
        at.hour,
        at.weekday(),
        at.day,
        at.timetuple().tm_yday,
        at.isocalendar().week,
        at.month,
    ]


def index(at: datetime) -> list[int]:
    return [number - first for number, first in zip(counted(at), (0, 0, 0, 0, 0, 1, 1, 1, 1), strict=True)]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_normalised_features_are_rounded_once(dtype: str) -> None:
    got = only(CALENDAR, length=200, unit="hours", origin="2023-12-29T07:11:13Z", features=NAMES, dtype=dtype)
    for row, hours in zip(got.astype(np.float64), range(200), strict=True):
        at = datetime(2023, 12, 29, 7, 11, 13) + timedelta(hours=hours)
        exact = [Fraction(x, count - 1) - Fraction(1, 2) for x, count in zip(index(at), COUNTS, strict=True)]
        assert row.tolist() == [rounded(value, dtype) for value in exact]


@pytest.mark.parametrize("values", ["index", "counted"])
def test_whole_numbers(values: str) -> None:
    seconds = [0, 1709208000, 1735689599, -1, 951782400.75, -11644473600]
    got = only(CALENDAR, {"positions": np.array(seconds)}, features=NAMES, values=values)
    oracle = index if values == "index" else counted
    assert got.tolist() == [oracle(EPOCH + timedelta(seconds=second)) for second in seconds]


def test_features_are_read_from_the_clock_that_is_stated() -> None:
    stamps = ("2024-02-29T23:30:00Z", "2024-03-01T00:30:00+01:00", "2024-02-29T18:30:00-05:00")  # one moment
    got = only(CALENDAR, timestamps=stamps, features=("hour-of-day", "day-of-month"), values="counted")
    assert got.tolist() == [[23, 29], [0, 1], [18, 29]]
    berlin = only(CALENDAR, positions=(0.5,), unit="hours", origin=stamps[1], features=("hour-of-day",), values="index")
    assert berlin.tolist() == [[1]]


def test_leap_days() -> None:
    stamps = tuple(f"{year}-12-31T00:00:00Z" for year in (1900, 2000, 2023, 2024))
    assert only(CALENDAR, timestamps=stamps, features=("day-of-year",), values="counted").tolist() == [
        [365],
        [366],
        [365],
        [366],
    ]
    assert only(CALENDAR, timestamps=stamps[1:2], features=("day-of-year",)).tolist() == [[0.5]]


@pytest.mark.parametrize("unit", GRANULARITIES)
def test_each_spelling_of_a_frequency(unit: object) -> None:
    for each in GRANULARITIES:
        if each is unit:
            assert {granularity(spelling) for spelling in each.spellings} == {(1, each)}
    assert granularity("12W-SUN") == (12, granularity("W")[1])
    assert [seasonality(text) for text in ("15min", "7min", "24h", "QS-DEC", "B", "YE")] == [96, 1, 1, 4, 5, 1]


def test_a_frequency_implies_features_and_facts_say_so() -> None:
    scheme = by_key("encodings", "calendar")
    params = scheme.params(length=3, frequency="6h")
    assert scheme.facts(params, {}) == {
        "features": "hour-of-day,day-of-week,day-of-month,day-of-year",
        "seasonality": 4,
    }
    assert scheme.tensors(params, {})["features"].shape == (3, 4)
    assert scheme.facts(scheme.params(length=3, features="day-of-week"), {}) == {"features": "day-of-week"}


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"length": 2}, "features", "missing"),
        ({"length": 2, "features": "day-of-week", "frequency": "D"}, "features", "conflict"),
        ({"length": 2, "frequency": "YE"}, "frequency", "empty"),
        ({"length": 2, "frequency": "m"}, "frequency", "ambiguous"),
        ({"length": 2, "frequency": "5m"}, "frequency", "ambiguous"),
        ({"length": 2, "frequency": "fortnight"}, "frequency", "unknown"),
        ({"length": 2, "frequency": "0h"}, "frequency", "unknown"),
        ({"length": 2, "frequency": "-1h"}, "frequency", "unknown"),
        ({"frequency": "D"}, "length", "missing"),
        ({"length": 2, "offset": 2**50, "frequency": "D"}, "offset", "out_of_range"),
        ({"positions": "-62135596801", "frequency": "D"}, "positions", "out_of_range"),
        ({"positions": "253402300800", "frequency": "D"}, "positions", "out_of_range"),
        ({"timestamps": "2024-02-29T12:00Z", "frequency": "D", "unit": "hours"}, "unit", "conflict"),
        ({"timestamps": "2024-02-29T12:00Z", "frequency": "D", "length": 1}, "length", "conflict"),
        ({"timestamps": "2024-02-29T12:00Z", "frequency": "D", "positions": "5"}, "positions", "conflict"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(CALENDAR, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_without_moments_every_way_to_give_them_is_told() -> None:
    detail = refused(CALENDAR, frequency="D").detail
    assert all(name in detail for name in ("timestamps=", "length=", "positions="))


def test_positions_in_the_body() -> None:
    fault = refused(CALENDAR, {"positions": np.array([1e15])}, frequency="D")
    assert fault.parameter == "/positions"
    fault = refused(CALENDAR, {"positions": np.array([1])}, frequency="D", timestamps="2024-02-29T12:00Z")
    assert (fault.parameter, fault.code) == ("/positions", "conflict")
    ends = only(CALENDAR, positions=(-62135596800, 253402300799), features="day-of-week", values="index")
    assert ends.tolist() == [[0], [4]]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"timestamps": "2024-02-29T12:00Z,2024-02-29"}, "which clock"),
        ({"timestamps": "2024-02-29T12:00Z,"}, "such as 2024-02-29T12:00:00Z"),
        ({"features": "day-of-week,,"}, "such as hour-of-day"),
        ({"features": "day-of-the-week"}, "day-of-week"),
        ({"origin": "1970"}, "such as 2024"),
    ],
)
def test_parameters_that_cannot_be_read(parameters: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        by_key("encodings", "calendar").params(**parameters)
    assert why in str(caught.value)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_cyclic_features_are_rounded_once(dtype: str) -> None:
    got = only(
        CALENDAR, length=90, unit="hours", origin="2023-12-29T07:11:13Z", features=NAMES, dtype=dtype, values="cyclic"
    )
    rows = []
    with mpmath.workprec(PRECISION_BITS):
        for hours in range(90):
            at = datetime(2023, 12, 29, 7, 11, 13) + timedelta(hours=hours)
            turns = [mpf(x) / count for x, count in zip(index(at), COUNTS, strict=True)]
            rows.append([wave(2 * turn) for turn in turns for wave in (mpmath.sinpi, mpmath.cospi)])
        assert_rounded_once(got, rows, dtype)


def test_a_circle_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noon is exactly half a turn: such values take many digits, so not every noon of a century may ask for them."""
    written: list[int] = []

    class Recorded(Waves):
        def write(self, positions: Any, sin: Any, cos: Any) -> None:
            written.append(len(positions))
            super().write(positions, sin, cos)

    monkeypatch.setattr(calendar, "Waves", Recorded)
    chosen = {"unit": "hours", "features": ("hour-of-day", "day-of-week", "hour-of-day"), "values": "cyclic"}
    got = only(CALENDAR, length=3000, **chosen)
    assert sorted(written) == [7, 24]
    np.testing.assert_array_equal(got[:, :2], got[:, 4:])
    np.testing.assert_array_equal(got[: -24 * 7], got[24 * 7 :])
    np.testing.assert_array_equal(got[12], [0, -1, *got[0, 2:4], 0, -1])


def test_cyclic_features_name_their_channels() -> None:
    scheme = by_key("encodings", "calendar")
    params = scheme.params(length=3, frequency="W", values="cyclic")
    assert scheme.facts(params, {})["features"] == (
        "sin(day-of-month),cos(day-of-month),sin(week-of-year),cos(week-of-year)"
    )
    assert scheme.tensors(params, {})["features"].shape == (3, 4)
    assert scheme.state_bytes(params, {}) > 0 == scheme.state_bytes(scheme.params(length=3, frequency="W"), {})
