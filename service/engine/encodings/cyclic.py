"""Cyclic encoding: a sine and a cosine of a value's place in each of some periods."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from service.engine.frequencies import WAVE_BYTES
from service.engine.numbers.reals import Reals, angle_factor
from service.engine.points import from_origin, refuse_far_origin
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import LONGEST_LIST, DType, Layout, Origin, listed_reals
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import channels
from service.engine.waves import Waves

Period = Annotated[float, Field(ge=1e-15, le=1e18)]


class Cyclic(Positioned):
    """Parameters of `encodings/cyclic`."""

    period: Annotated[
        tuple[Period, ...],
        BeforeValidator(listed_reals("periods")),
        Field(
            min_length=1,
            max_length=LONGEST_LIST,
            description="After how much the values repeat, one or several, comma-separated: 24 for hours 0 to 23, "
            "not 23 (then 23 and 0 would be one).",
        ),
    ]
    origin: Origin = 0.0
    layout: Layout = "interleaved"
    dtype: DType = "float32"


def _tensors(params: Cyclic, inputs: Inputs) -> Tensors:
    places = where(params, inputs)
    refuse_far_origin(params.origin, places)
    return {"encoding": Tensor((*places.axes, "channel"), (*places.shape, 2 * len(params.period)), params.dtype)}


def _rows(params: Cyclic, inputs: Inputs, state: Waves, _tensor: str, start: int, stop: int) -> Array:
    out = np.empty((stop - start, 2 * len(params.period)), DTYPES[params.dtype])
    order = channels(out.shape[1], params.layout, "refuse")
    state.write(
        from_origin(params.origin, part(params, inputs, start, stop)), out[:, order.sines], out[:, order.cosines]
    )
    return out


DESCRIPTION = """\
For each period P the channels `sin(2 pi (x - origin) / P)` and `cos(2 pi (x - origin) / P)` of a position x: an hour,
a weekday, seconds since an epoch. `x - origin` is taken in float64 first; where it is a whole number of quarters of P,
the values are exactly 0, 1 or -1.

**Channel order**: `layout=interleaved` is sin, cos of the first period, then of the second, ...; `sin-cos` all sines,
then all cosines; `cos-sin` the reverse. **Axes**: (position, channel)."""

SCHEME: Scheme[Cyclic, Waves] = Scheme(
    family="encodings",
    name="cyclic",
    title="Cyclic sine and cosine pairs",
    explanation=(
        "What comes round again, such as the hour of a day, belongs on a circle: a sine and a cosine, so that 23 "
        "o'clock and 0 o'clock are neighbours. Each period that you name gives one pair."
    ),
    description=DESCRIPTION,
    reference="Mardia and Jupp, Directional Statistics, 2000, section 2.1 (a value on the unit circle)",
    params=Cyclic,
    rounding="correct",
    tensors=_tensors,
    sequence=sequence,
    prepare=lambda params, _inputs: Waves(Reals.of(params.period).reciprocal() * angle_factor("two-pi")),
    rows=_rows,
    state_bytes=lambda params, _inputs: WAVE_BYTES * len(params.period),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("The seven weekdays", {"length": "7", "period": "7"}),
        Example(
            "Time of day and of year, in seconds since 1970, from the start of 2024",
            {"positions": "1704067200,1709208000", "period": "86400,31556952", "origin": "1704067200"},
        ),
        Example(
            "Hours of a batch, in the body", {"period": "24", "layout": "cos-sin"}, {"positions": [[0, 6], [12, 18]]}
        ),
    ),
    used_by=(
        Usage("second of the minute, minute of the hour", {"period": "60"}, "minute-of-hour"),
        Usage("hour of the day", {"period": "24"}, "hour-of-day"),
        Usage("day of the week", {"period": "7"}, "day-of-week"),
        Usage("day of the month", {"period": "31"}, "day-of-month"),
        Usage("day of the year", {"period": "366"}, "day-of-year"),
        Usage("month of the year", {"period": "12"}, "month-of-year"),
        Usage("week of the year (ISO)", {"period": "53"}, "week-of-year"),
    ),
    properties={
        "distance": "phases of one period: neighbours across its end are near",
        "caching": "a feature of the input",
        "implementation": "two numbers a period",
        "learned parameters": "none",
        "extrapolates": "yes: it repeats",
    },
)
