"""Moments in time: ISO 8601 timestamps, and what the clock and the calendar of a place show.

A moment is counted in whole microseconds since 1970-01-01T00:00:00 *of the clock that its timestamp states*, in the
Gregorian calendar without leap seconds, years 1 to 9999. Zone names are refused: what they mean depends on tables
that differ between machines and years.
"""

import re
from datetime import date
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from service.engine.positions import Values
from service.engine.quantities import listed_texts

Moments = NDArray[np.int64]

MOST_TIMESTAMPS = 65_536  # of a JSON body; an address holds fewer
LONGEST = 48  # characters of a text that could have been meant as a timestamp
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
UNITS = {
    "microseconds": 1,
    "milliseconds": 1000,
    "seconds": SECOND,
    "minutes": MINUTE,
    "hours": HOUR,
    "days": DAY,
}
FIRST = (date.min.toordinal() - date(1970, 1, 1).toordinal()) * DAY
LAST = (date.max.toordinal() + 1 - date(1970, 1, 1).toordinal()) * DAY - 1

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_PLUS_READ_AS_SPACE = re.compile(r".*T[0-9:.]+ \d\d:\d\d", re.ASCII)


def moment(text: str) -> int:
    """The microseconds that a timestamp's own clock shows; raises PydanticCustomError for what is none.

    >>> moment("1970-01-01T01:00:00+01:00") == moment("1970-01-01T01:00Z") == HOUR
    True
    """
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        raise PydanticCustomError("timestamp", "{why}", {"why": _why_not(text)})
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    sign, offset_hour, offset_minute = found.groups()[7:]
    _refuse_beyond("hour", hour, 23)
    _refuse_beyond("minute", minute, 59)
    _refuse_beyond("second", second, 59)
    if sign:
        _refuse_beyond("hour of the offset", int(offset_hour), 23)
        _refuse_beyond("minute of the offset", int(offset_minute), 59)
        if sign == "-" and int(offset_hour) == int(offset_minute) == 0:
            raise PydanticCustomError("timestamp", "the offset -00:00 means an unknown clock: write Z or another")
    try:
        days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        place = {"day": text[:10]}
        raise PydanticCustomError("timestamp", "{day} is no day of the Gregorian calendar", place) from None
    fraction = int((found[7] or "").ljust(6, "0"))
    return days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction


def instant(text: str) -> int:
    """The microseconds since 1970-01-01T00:00:00Z at which a timestamp's clock shows that.

    >>> instant("1970-01-01T01:00:00+01:00"), instant("1969-12-31T23:30:00-00:45") // MINUTE
    (0, 15)
    """
    found = _TIMESTAMP.fullmatch(text)
    shown = moment(text)
    if not found or not found[8]:
        return shown
    ahead = int(found[9]) * HOUR + int(found[10]) * MINUTE
    return shown - ahead if found[8] == "+" else shown + ahead


def _why_not(text: str) -> str:
    """What keeps a text from being a timestamp; only short ones are looked at closely."""
    text = text[:LONGEST]
    if _PLUS_READ_AS_SPACE.fullmatch(text):
        return "a + in an address means a space: write the offset as %2B05:30"
    if re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?", text, re.ASCII):
        return "which clock is meant is not said: give the time, and Z or an offset, such as 2024-02-29T12:00:00Z"
    if re.search(r"T[0-9:]+\.\d{7,}", text):
        return "moments are counted in microseconds: six digits of a second's fraction are the most"
    if re.search(r"T[0-9:.]+.*[A-Za-z]{2,}", text):
        return "names of time zones depend on the machine's tables: give Z or an offset, such as -05:00"
    return "a timestamp such as 2024-02-29T12:00:00Z or 2024-02-29T12:00:00.25-05:30 is needed"


def _refuse_beyond(what: str, value: int, most: int) -> None:
    if value > most:
        place = {"what": what, "value": value, "most": most}
        raise PydanticCustomError("timestamp", "the {what} is {value}; it goes from 0 to {most}", place)


def _checked(text: str) -> str:
    moment(text)
    return text


Timestamp = Annotated[
    str,
    AfterValidator(_checked),
    Field(json_schema_extra={"pattern": f"^{_TIMESTAMP.pattern}$".replace("?:", "").replace(r"\d", "[0-9]")}),
]
Timestamps = Annotated[
    tuple[Timestamp, ...],
    BeforeValidator(listed_texts("timestamps", "2024-02-29T12:00:00Z,2024-03-01T00:00:00-05:00")),
    Field(min_length=1, max_length=MOST_TIMESTAMPS),
]
Unit = Annotated[
    Literal["microseconds", "milliseconds", "seconds", "minutes", "hours", "days"],
    Field(description="Unit of the positions."),
]


def moments(at: Values, unit: str, origin: int) -> Moments:
    """origin + at * unit, to the nearest microsecond.

    The whole part of a position counts exactly; its fraction, times the unit, is rounded.

    >>> (moments(np.array([0.7]), "days", 0) // MINUTE).tolist()  # 0.7 is a little less as a float64
    [1008]
    """
    times = np.asarray(at, np.float64)
    whole = np.floor(times)
    fraction: Moments = np.rint((times - whole) * UNITS[unit]).astype(np.int64)
    return origin + whole.astype(np.int64) * UNITS[unit] + fraction


def first_day(days: Moments, period: Literal["M", "Y"]) -> Moments:
    """The first day of the month or year that each day since 1970 lies in.

    >>> first_day(np.array([0, 59, -1]), "M").tolist()
    [0, 59, -31]
    """
    first: Moments = days.astype("M8[D]").astype(f"M8[{period}]").astype("M8[D]").astype(np.int64)
    return first


def month(days: Moments) -> Moments:
    """The month of the year, 0 to 11, of each day since 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12


def iso_week(days: Moments) -> Moments:
    """The ISO week of the year, 0 to 52: weeks begin on Monday and belong to the year of their Thursday."""
    thursday = days - weekday(days) + 3
    return (thursday - first_day(thursday, "Y")) // 7


def weekday(days: Moments) -> Moments:
    """0 for Monday to 6 for Sunday; 1970-01-01 was a Thursday."""
    return (days + 3) % 7
