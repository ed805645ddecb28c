"""Frequency strings of time series: which calendar features suit them, and after how many steps they repeat.

The strings are those of pandas, old and new: `h` or `H`, `15min` or `15T`, `W-SUN`, `ME`, `MS` or `M`, `QS-DEC`, ...
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from service.engine.errors import Refusal

MOST_STEPS = 10**6


@dataclass(frozen=True, slots=True)
class Granularity:
    """A unit of frequency strings: its spellings, the features that GluonTS gives it, the steps of its season, and on
    which days or months its steps can end, as `W-SUN` says.
    """

    spellings: tuple[str, ...]
    features: tuple[str, ...]
    season: int
    anchors: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        """A regular expression of its spellings and anchors."""
        anchor = f"(-({'|'.join(self.anchors)}))?" if self.anchors else ""
        return f"({'|'.join(self.spellings)}){anchor}"


_DAY = ("day-of-week", "day-of-month", "day-of-year")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
GRANULARITIES = (
    Granularity(("YE", "YS", "Y", "A", "AS"), (), 1, _MONTHS),
    Granularity(("QE", "QS", "Q"), ("month-of-year",), 4, _MONTHS),
    Granularity(("ME", "MS", "M"), ("month-of-year",), 12),
    Granularity(("W",), ("day-of-month", "week-of-year"), 1, _WEEKDAYS),
    Granularity(("B",), _DAY, 5),
    Granularity(("D",), _DAY, 1),
    Granularity(("h", "H"), ("hour-of-day", *_DAY), 24),
    Granularity(("min", "T"), ("minute-of-hour", "hour-of-day", *_DAY), 1440),
    Granularity(("s", "S"), ("second-of-minute", "minute-of-hour", "hour-of-day", *_DAY), 3600),
)
_BY_SPELLING = {spelling: each for each in GRANULARITIES for spelling in each.spellings}
_FREQUENCY = re.compile(r"(\d{0,9})([A-Za-z]+)(?:-([A-Z]{3}))?", re.ASCII)
PATTERN = f"^[0-9]{{0,9}}({'|'.join(each.pattern for each in GRANULARITIES)})$"
Frequency = Annotated[
    str,
    Field(
        description="A frequency string of pandas: s, 15min, h, D, B, W, ME, QE.",
        json_schema_extra={"pattern": PATTERN},
    ),
]


def granularity(frequency: str) -> tuple[int, Granularity]:
    """How many units a step is, and of what; refuses what is no frequency string, and `m`, which has two meanings.

    >>> steps, each = granularity("15min")
    >>> steps, each.season, each.features[:2]
    (15, 1440, ('minute-of-hour', 'hour-of-day'))
    """
    found = _FREQUENCY.fullmatch(frequency)
    steps = int(found[1] or 1) if found else 0
    if found and found[2] == "m":
        detail = "frequency is m: months in Informer, minutes elsewhere; ME means months, min minutes"
        raise Refusal("frequency", "ambiguous", detail)
    if not found or found[2] not in _BY_SPELLING or not 1 <= steps <= MOST_STEPS:
        known = ", ".join(each.spellings[0] for each in GRANULARITIES)
        detail = f"frequency is {frequency[:40]!r}; a count (1 to 10^6) and one of {known} would do, such as h or 15min"
        raise Refusal("frequency", "unknown", detail)
    unit = _BY_SPELLING[found[2]]
    if found[3] and found[3] not in unit.anchors:
        would_do = ", ".join(f"{found[2]}-{anchor}" for anchor in unit.anchors) or f"{found[2]} alone"
        raise Refusal("frequency", "anchor", f"frequency is {frequency}; {would_do} would do")
    return steps, unit


def seasonality(frequency: str) -> int:
    """Steps of a season, as GluonTS counts: 1 where the steps do not divide it.

    >>> seasonality("2h"), seasonality("5h"), seasonality("QS")
    (12, 1, 4)
    """
    steps, each = granularity(frequency)
    return 1 if each.season % steps else each.season // steps


def lags(frequency: str, largest: int, defaults: int) -> list[int]:
    """The lags that GluonTS has for a frequency: the first ones, then those above 7 of earlier seasons, sorted.

    Its floor divisions are of float64, so a lag may fall one short of the quotient; these take the same steps.

    >>> lags("ME", 1200, 7)
    [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 24, 25, 35, 36, 37]
    """
    steps, each = granularity(frequency)
    unit = each.spellings[0]
    if unit == "QE" and steps != 1:
        detail = f"frequency is {frequency[:40]}; lags are known of single quarters: ask for {3 * steps}ME, say"
        raise Refusal("frequency", "unsupported", detail)
    seasonal = {int(lag) for lag in _seasonal(unit, steps) if 7 < lag <= largest}
    return [*range(1, defaults + 1), *sorted(seasonal)]


def _seasonal(unit: str, steps: int) -> Iterator[float]:
    """Lags of earlier hours, days, weeks, months and years, in steps of so many units."""
    if unit in ("QE", "ME"):
        yield from _around(12, 3 * steps if unit == "QE" else steps, 3, 1)
    if unit == "s":
        yield from _around(60, steps, 3, 2)
    if unit in ("s", "min"):
        yield from _around(60, steps / (60 if unit == "s" else 1), 3, 2)
    if unit in ("s", "min", "h"):
        yield from _around(24, steps / {"s": 3600, "min": 60, "h": 1}[unit], 7, 1)
    if unit in ("min", "h", "D", "B"):
        days = steps / {"min": 1440, "h": 24, "D": 1, "B": 1}[unit]
        yield from _around(5 if unit == "B" else 7, days, 4, 1)
        yield from _around(22 if unit == "B" else 30, days, 1, 1)
    if unit in ("min", "h", "D", "B", "W"):
        weeks = steps / {"min": 10080, "h": 168, "D": 7, "B": 5, "W": 1}[unit]
        yield from _around(52, weeks, 3, 1)
        yield from (4 // weeks, 8 // weeks, 12 // weeks)


def _around(period: int, steps: float, cycles: int, reach: int) -> Iterator[float]:
    """The steps a season, two seasons, ... ago and their neighbours."""
    for cycle in range(1, cycles + 1):
        middle = cycle * period // steps
        yield from (middle + each for each in range(-reach, reach + 1))
