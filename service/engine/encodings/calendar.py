"""Calendar features of moments in time, as GluonTS and Informer compute them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from service.engine.errors import Refusal
from service.engine.numbers.reals import Reals, angle_factor
from service.engine.positions import POSITIONS_INPUT, Positioned, Where, part, sequence, where
from service.engine.quantities import LONGEST_LIST, DType, listed_texts
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.seasons import PATTERN, granularity, seasonality
from service.engine.timestamps import (
    DAY,
    FIRST,
    HOUR,
    LAST,
    MINUTE,
    SECOND,
    UNITS,
    Moments,
    Timestamp,
    Timestamps,
    Unit,
    first_day,
    iso_week,
    moment,
    moments,
    month,
    weekday,
)
from service.engine.waves import Waves

EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Feature:
    """How many values a feature has, what calendars call the first of them, and its index, from 0, at some moments."""

    count: int
    first: int
    index: Callable[[Moments], Moments]


FEATURES = {
    "second-of-minute": Feature(60, 0, lambda at: at // SECOND % 60),
    "minute-of-hour": Feature(60, 0, lambda at: at // MINUTE % 60),
    "quarter-of-hour": Feature(4, 0, lambda at: at // (15 * MINUTE) % 4),
    "hour-of-day": Feature(24, 0, lambda at: at // HOUR % 24),
    "day-of-week": Feature(7, 0, lambda at: weekday(at // DAY)),
    "day-of-month": Feature(31, 1, lambda at: at // DAY - first_day(at // DAY, "M")),
    "day-of-year": Feature(366, 1, lambda at: at // DAY - first_day(at // DAY, "Y")),
    "week-of-year": Feature(53, 1, lambda at: iso_week(at // DAY)),
    "month-of-year": Feature(12, 1, lambda at: month(at // DAY)),
}
CIRCLES = 16 * sum(feature.count for feature in FEATURES.values())  # bytes, in float64
FeatureName = Literal[
    "second-of-minute",
    "minute-of-hour",
    "quarter-of-hour",
    "hour-of-day",
    "day-of-week",
    "day-of-month",
    "day-of-year",
    "week-of-year",
    "month-of-year",
]


class Calendar(Positioned):
    """Parameters of `encodings/calendar`."""

    timestamps: Annotated[
        Timestamps | None,
        Field(
            description="ISO 8601 timestamps with Z or a numeric offset, instead of positions: comma-separated, or a "
            "list in a JSON body. Features are those of the clock that each states."
        ),
    ] = None
    unit: Unit = "seconds"
    origin: Annotated[
        Timestamp,
        Field(description="The timestamp of position 0; its Z or offset says which clock the features are read from."),
    ] = EPOCH
    frequency: Annotated[
        str | None,
        Field(
            description="A frequency string of pandas (s, 15min, h, D, B, W, ME, QE): what GluonTS has for it.",
            json_schema_extra={"pattern": PATTERN},
        ),
    ] = None
    features: Annotated[
        tuple[FeatureName, ...] | None,
        BeforeValidator(listed_texts("features", "hour-of-day,day-of-week")),
        Field(min_length=1, max_length=LONGEST_LIST, description="The features by name, in the order of the answer."),
    ] = None
    values: Annotated[
        Literal["normalised", "index", "counted", "cyclic"],
        Field(
            description="`normalised`: index / (count - 1) - 1/2, from -0.5 to 0.5; `index`: from 0; `counted`: as "
            "calendars count, days, weeks and months from 1; `cyclic`: two channels, the sine and cosine of 2 pi "
            "index / count."
        ),
    ] = "normalised"
    dtype: DType = "float32"


def _features(params: Calendar) -> tuple[str, ...]:
    if params.frequency is None:
        if params.features is None:
            detail = "features is missing: name features=hour-of-day,day-of-week or a frequency=h that implies them"
            raise Refusal("features", "missing", detail)
        return params.features
    _, unit = granularity(params.frequency)
    if params.features is not None:
        raise Refusal("features", "conflict", "frequency implies the features; give features, or frequency, not both")
    if not unit.features:
        detail = (
            f"frequency is {params.frequency}, for which GluonTS has no features; name some: features=month-of-year"
        )
        raise Refusal("frequency", "empty", detail)
    return unit.features


def _tensors(params: Calendar, inputs: Inputs) -> Tensors:
    names = _features(params)
    if params.timestamps is None:
        if params.length is None and params.positions is None and not inputs:
            raise Refusal("length", "missing", "no moments are given: give timestamps=, length= or positions=")
        places = where(params, inputs)
        _refuse_other_years(params, inputs, places)
        axes, shape = places.axes, places.shape
    else:
        _refuse_beside_timestamps(params, inputs)
        axes, shape = ("position",), (len(params.timestamps),)
    channels = len(names) * (2 if params.values == "cyclic" else 1)
    return {"features": Tensor((*axes, "feature"), (*shape, channels), params.dtype)}


def _refuse_beside_timestamps(params: Calendar, inputs: Inputs) -> None:
    default = Calendar()
    stated = [name for name in ("length", "offset", "positions", "unit", "origin") if _differs(params, default, name)]
    for name in [*stated, *(f"/{name}" for name in inputs)]:
        raise Refusal(name, "conflict", f"{name} and timestamps exclude each other; timestamps say everything")


def _differs(params: Calendar, default: Calendar, name: str) -> bool:
    return bool(getattr(params, name) != getattr(default, name))


def _refuse_other_years(params: Calendar, inputs: Inputs, places: Where) -> None:
    origin, unit = moment(params.origin), UNITS[params.unit]
    for end in places.ends:
        whole = floor(end)
        if not FIRST <= origin + whole * unit + round((end - whole) * unit) <= LAST:
            raise Refusal(
                _named(params, inputs),
                "out_of_range",
                f"position {end:.16g} in {params.unit} from {params.origin} leaves the years 1 to 9999",
            )


def _named(params: Calendar, inputs: Inputs) -> str:
    """What a refusal calls the positions."""
    if "positions" in inputs:
        return "/positions"
    return "offset" if params.positions is None else "positions"


def _moments(params: Calendar, inputs: Inputs, start: int, stop: int) -> Moments:
    if params.timestamps is not None:
        return np.array([moment(text) for text in params.timestamps[start:stop]], np.int64)
    return moments(part(params, inputs, start, stop), params.unit, moment(params.origin))


def _prepare(params: Calendar, _inputs: Inputs) -> dict[str, Array]:
    """The circle of each feature, where that is asked for."""
    names = set(_features(params)) if params.values == "cyclic" else ()
    return {name: _circle(FEATURES[name].count, params.dtype) for name in names}


def _circle(count: int, dtype: str) -> Array:
    """Sine and cosine of 2 pi index / count, (count, 2): a feature has few values, and many of them are exact."""
    circle = np.empty((count, 2), DTYPES[dtype])
    turn = Reals.of([count]).reciprocal() * angle_factor("two-pi")
    Waves(turn).write(range(count), circle[:, :1], circle[:, 1:])
    return circle


def _rows(params: Calendar, inputs: Inputs, state: dict[str, Array], _tensor: str, start: int, stop: int) -> Array:
    at, names = _moments(params, inputs, start, stop), _features(params)
    if not state:
        columns = [_column(FEATURES[name], at, params.values) for name in names]
        return nearest(np.stack(columns, axis=1), DTYPES[params.dtype])
    out = np.empty((stop - start, 2 * len(names)), DTYPES[params.dtype])
    for place, name in enumerate(names):
        out[:, 2 * place : 2 * place + 2] = state[name][FEATURES[name].index(at)]
    return out


def _column(feature: Feature, at: Moments, values: str) -> Array:
    """The feature in float64, the nearest to the real number: one division of integers."""
    index = feature.index(at)
    if values == "normalised":
        column: Array = (2 * index - (feature.count - 1)) / (2.0 * (feature.count - 1))
        return column
    return (index + (feature.first if values == "counted" else 0)).astype(np.float64)


def _columns(params: Calendar) -> tuple[str, ...]:
    """What each column is."""
    names = _features(params)
    if params.values == "cyclic":
        names = tuple(f"{half}({name})" for name in names for half in ("sin", "cos"))
    return names


def _facts(params: Calendar, _inputs: Inputs) -> Facts:
    facts: Facts = {"features": ",".join(_columns(params))}
    return facts if params.frequency is None else facts | {"seasonality": seasonality(params.frequency)}


DESCRIPTION = """\
A feature of a moment, such as the hour of the day, is an index from 0 to count - 1. `values=normalised` makes it
`index / (count - 1) - 1/2`: seconds and minutes count 60, hours 24, weekdays 7 (Monday first), days of the month 31, of
the year 366, ISO weeks 53, months 12. `values=cyclic` puts it on a circle instead, `sin(2 pi index / count)` and
`cos(2 pi index / count)`, where the last value and the first are neighbours. Name the features, or a `frequency`, which
implies those that GluonTS has for it.

Moments are `timestamps`, or `positions` in `unit` since `origin` (seconds since 1970 in UTC unless stated), to the
nearest microsecond. Features are read from the clock that the timestamp, or the origin, states with its offset.

**Channel order**: as named, or by frequency from the shortest to the longest, as `facts` say; with `values=cyclic` a
sine and a cosine each.
**Axes**: (position, feature)."""

INFORMER_MARKS = "month-of-year,day-of-month,day-of-week,hour-of-day,quarter-of-hour"

SCHEME: Scheme[Calendar, dict[str, Array]] = Scheme(
    family="encodings",
    name="calendar",
    title="Calendar features",
    explanation=(
        "Forecasting models are told what a moment is: which hour, weekday, day or month. Each feature is a number "
        "from -1/2 to 1/2, as libraries for time series have it, or a point on a circle."
    ),
    description=DESCRIPTION,
    reference="Alexandrov et al., GluonTS: Probabilistic Time Series Models in Python, 2019; gluonts 0.17.0",
    params=Calendar,
    rounding="correct",
    tensors=_tensors,
    sequence=sequence,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    named=lambda params: {"feature": _columns(params)},
    state_bytes=lambda params, _inputs: CIRCLES if params.values == "cyclic" else 0,
    inputs=(POSITIONS_INPUT,),
    listed=("timestamps",),
    examples=(
        Example(
            "A day of hours around a leap day",
            {"length": "24", "unit": "hours", "origin": "2024-02-29T00:00:00Z", "frequency": "h"},
        ),
        Example(
            "Timestamps of two clocks",
            {"timestamps": "2024-02-29T12:00:00Z,2024-12-31T23:59:00-05:00", "features": "hour-of-day,week-of-year"},
        ),
        Example(
            "Informer's marks of seconds since 1970",
            {"positions": "1709208000,1735689540", "features": INFORMER_MARKS, "values": "counted"},
        ),
        Example(
            "Hours and weekdays on their circles",
            {"timestamps": "2024-02-29T23:00:00Z,2024-03-01T00:00:00Z", "frequency": "h", "values": "cyclic"},
        ),
        Example(
            "Hours of a batch since the start of 2024, in the body",
            {"unit": "hours", "origin": "2024-01-01T00:00:00Z", "frequency": "h"},
            {"positions": [[0, 1], [8783, 8783.5]]},
        ),
    ),
    used_by=(
        Usage("GluonTS and Informer, monthly; GluonTS, quarterly", {"frequency": "ME"}, "gluonts-monthly"),
        Usage("GluonTS and Informer, weekly", {"frequency": "W"}, "gluonts-weekly"),
        Usage("GluonTS and Informer, daily and business days", {"frequency": "D"}, "gluonts-daily"),
        Usage("GluonTS and Informer, hourly", {"frequency": "h"}, "gluonts-hourly"),
        Usage("GluonTS and Informer, by the minute", {"frequency": "min"}, "gluonts-minutely"),
        Usage("GluonTS and Informer, by the second", {"frequency": "s"}, "gluonts-secondly"),
        Usage("GluonTS *_index features, hourly", {"frequency": "h", "values": "index"}),
        Usage("cyclical pairs of the hour, weekday, day and day of the year", {"frequency": "h", "values": "cyclic"}),
        Usage(
            "Informer TemporalEmbedding (timeenc=0)",
            {"features": INFORMER_MARKS, "values": "counted"},
            "informer-marks",
        ),
    ),
    properties={
        "distance": "of dates: hour, weekday, month as they repeat",
        "caching": "a feature of the input",
        "implementation": "a number for each field of a date",
        "learned parameters": "none",
        "extrapolates": "years 1 to 9999",
    },
)
