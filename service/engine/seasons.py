"""Frequency strings of time series: which calendar features suit them, and after how many steps they repeat.

The strings are those of pandas, old and new: `h` or `H`, `15min` or `15T`, `W-SUN`, `ME`, `MS` or `M`, ...
"""

import re
from dataclasses import dataclass

from service.engine.errors import Refusal

MOST_STEPS = 10**6


@dataclass(frozen=True, slots=True)
class Granularity:
    """A unit of frequency strings: its spellings, the features that GluonTS gives it, the steps of its season."""

    spellings: tuple[str, ...]
    features: tuple[str, ...]
    season: int


_DAY = ("day-of-week", "day-of-month", "day-of-year")
GRANULARITIES = (
    Granularity(("YE", "YS", "Y", "A", "AS"), (), 1),
    Granularity(("QE", "QS", "Q"), ("month-of-year",), 4),
    Granularity(("ME", "MS", "M"), ("month-of-year",), 12),
    Granularity(("W",), ("day-of-month", "week-of-year"), 1),
    Granularity(("B",), _DAY, 5),
    Granularity(("D",), _DAY, 1),
    Granularity(("h", "H"), ("hour-of-day", *_DAY), 24),
    Granularity(("min", "T"), ("minute-of-hour", "hour-of-day", *_DAY), 1440),
    Granularity(("s", "S"), ("second-of-minute", "minute-of-hour", "hour-of-day", *_DAY), 3600),
)
_BY_SPELLING = {spelling: each for each in GRANULARITIES for spelling in each.spellings}
_FREQUENCY = re.compile(r"(\d{0,9})([A-Za-z]+)(-[A-Z]{3})?", re.ASCII)
PATTERN = f"^[0-9]{{0,9}}({'|'.join(_BY_SPELLING)})(-[A-Z]{{3}})?$"


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
    return steps, _BY_SPELLING[found[2]]


def seasonality(frequency: str) -> int:
    """Steps of a season, as GluonTS counts: 1 where the steps do not divide it.

    >>> seasonality("2h"), seasonality("5h"), seasonality("QS")
    (12, 1, 4)
    """
    steps, each = granularity(frequency)
    return 1 if each.season % steps else each.season // steps
