"""Timestamps: which are read, which are refused and why, and the calendar against the standard library's."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from pydantic_core import PydanticCustomError

from service.engine.timestamps import DAY, FIRST, LAST, first_day, iso_week, moment, moments, month, weekday

EPOCH = datetime(1970, 1, 1)
UNIT_SECONDS = {
    "microseconds": 1e-6,
    "milliseconds": 1e-3,
    "seconds": 1,
    "minutes": 60,
    "hours": 3600,
    "days": 86400,
}


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29T12:34:56Z",
        "2024-02-29T12:34Z",
        "1969-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.5Z",
        "2000-02-29T00:00:00.25+05:30",
        "2000-02-29T00:00:00-23:59",
        "2000-02-29T00:00:00+00:00",
    ],
)
def test_it_shows_its_own_clock(text: str) -> None:
    clock = datetime.fromisoformat(text).replace(tzinfo=None)
    assert moment(text) == (clock - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2024-02-29", "which clock"),
        ("2024-02-29T12:00:00", "which clock"),
        ("2024-02-29T12:00:00.5", "which clock"),
        ("2024-02-29T12:00:00 05:30", "%2B05:30"),
        ("2024-02-29T12:00:00[Europe/Berlin]", "names of time zones"),
        ("2024-02-29T12:00:00 CET", "names of time zones"),
        ("2023-02-29T12:00:00Z", "no day of the Gregorian"),
        ("1900-02-29T12:00:00Z", "no day of the Gregorian"),
        ("0000-01-01T12:00:00Z", "no day of the Gregorian"),
        ("2024-02-29T24:00:00Z", "hour is 24; it goes from 0 to 23"),
        ("2024-02-29T12:60:00Z", "minute is 60"),
        ("2016-12-31T23:59:60Z", "second is 60"),
        ("2024-02-29T12:00:00+24:00", "hour of the offset is 24"),
        ("2024-02-29T12:00:00+05:60", "minute of the offset is 60"),
        ("2024-02-29T12:00:00-00:00", "unknown clock"),
        ("2024-02-29 12:00:00Z", "such as 2024"),
        ("2024-02-29t12:00:00z", "such as 2024"),
        ("2024-02-29T12:00:00.1234567Z", "six digits of a second's fraction"),
        ("2024-02-29T12:00:00.123456789+05:30", "six digits of a second's fraction"),
        ("٢024-02-29T12:00:00Z", "such as 2024"),
        ("", "such as 2024"),
        ("T" + "1" * 100_000, "such as 2024"),
    ],
)
def test_it_refuses_what_is_no_moment(text: str, why: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        moment(text)
    assert why in caught.value.message()


def test_minus_zero_minutes_alone_is_an_offset() -> None:
    assert moment("2024-02-29T12:00:00-00:30") == moment("2024-02-29T12:00:00Z")
    assert timezone(-timedelta(minutes=30)).utcoffset(None) == -timedelta(minutes=30)


def test_every_day_of_many_years() -> None:
    first, last = date(1, 1, 1).toordinal(), date(9999, 12, 31).toordinal()
    chosen = [*range(first, first + 800), *range(date(1895, 1, 1).toordinal(), date(2105, 1, 1).toordinal())]
    chosen += [*range(last - 800, last + 1)]
    dates = [date.fromordinal(ordinal) for ordinal in chosen]
    days = np.array(chosen) - date(1970, 1, 1).toordinal()
    assert weekday(days).tolist() == [day.weekday() for day in dates]
    assert month(days).tolist() == [day.month - 1 for day in dates]
    assert (days - first_day(days, "M")).tolist() == [day.day - 1 for day in dates]
    assert (days - first_day(days, "Y")).tolist() == [day.timetuple().tm_yday - 1 for day in dates]
    assert iso_week(days).tolist() == [day.isocalendar().week - 1 for day in dates]
    assert (days[0] * DAY, (days[-1] + 1) * DAY - 1) == (FIRST, LAST)


def test_positions_count_to_the_nearest_microsecond() -> None:
    for unit, seconds in UNIT_SECONDS.items():
        for position in (0.0, 1.0, -2.5, 0.7, 1 / 3, 12345.678):
            expected = round(position * seconds * 1e6)
            assert abs(int(moments(np.array([position]), unit, 5)[0]) - 5 - expected) <= 1
    assert moments(range(-2, 3), "hours", 1).tolist() == [hours * 3_600_000_000 + 1 for hours in range(-2, 3)]
    assert moments(np.array([0.7, 1 - 2.0**-53]), "days", 0).tolist() == [60_480_000_000, DAY]
