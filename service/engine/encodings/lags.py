"""Lags of a time series by its frequency, as GluonTS chooses them: which earlier values a model is shown."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.relative import IndexDType, refuse_large_index
from service.engine.errors import Refusal
from service.engine.positions import POSITIONS_INPUT, Positioned, Values, part, sequence, where
from service.engine.quantities import Integer
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage, no_state
from service.engine.seasons import Frequency, lags


class Lags(Positioned):
    """Parameters of `encodings/lags`."""

    frequency: Frequency
    lag_ub: Annotated[Integer, Field(ge=1, le=10**6, description="The largest lag.")] = 1200
    num_lags: Annotated[
        Integer | None, Field(ge=1, le=10**6, description="So many of the smallest lags (default: all of them).")
    ] = None
    num_default_lags: Annotated[
        Integer, Field(ge=0, le=10**6, description="The lags 1, 2, ... that every frequency has.")
    ] = 7
    dtype: IndexDType = "int64"


def _lags(params: Lags) -> list[int]:
    found = lags(params.frequency, params.lag_ub, params.num_default_lags)[: params.num_lags]
    if not found:
        detail = f"num_default_lags is 0, and frequency {params.frequency} has no other lags up to {params.lag_ub}"
        raise Refusal("num_default_lags", "empty", detail)
    return found


def _positioned(params: Lags, inputs: Inputs) -> bool:
    return bool(inputs) or params.length is not None or params.positions is not None


def _tensors(params: Lags, inputs: Inputs) -> Tensors:
    found = _lags(params)
    if not _positioned(params, inputs):
        return {"lags": Tensor(("lag",), (len(found),), params.dtype)}
    places = where(params, inputs)
    _refuse_fractions(params, places.values)
    refuse_large_index(int(places.farthest) + max(found), params.dtype)
    return {"index": Tensor((*places.axes, "lag"), (*places.shape, len(found)), params.dtype)}


def _refuse_fractions(params: Lags, positions: Values) -> None:
    if isinstance(positions, range):
        return
    broken = positions[positions != np.rint(positions)]
    if broken.size:
        named = "positions" if params.positions is not None else "/positions"
        raise Refusal(named, "type", f"position {broken[0]:g} is between two steps; whole numbers are needed")


def _rows(params: Lags, inputs: Inputs, _state: None, tensor: str, start: int, stop: int) -> Array:
    found = np.array(_lags(params), np.int64)
    if tensor == "lags":
        return found[None].astype(params.dtype)
    at = np.asarray(part(params, inputs, start, stop), np.int64)
    return (at[:, None] - found).astype(params.dtype)


def _facts(params: Lags, _inputs: Inputs) -> Facts:
    found = _lags(params)
    return {"count": len(found), "largest": max(found)}


DESCRIPTION = """\
The lags 1 ... `num_default_lags`, and those of a season before: for hours the same hour of the last seven days and
its neighbours, the days of the last four weeks and of the month before, the weeks 4, 8 and 12 and of three years
before, each counted in steps of `frequency`, above 7 and up to `lag_ub`, sorted, without repeats. They follow the
library's own floor divisions in float64.

Without positions the answer is the list of lags; with `length` or positions it is `index = position - lag`, the place
in the series that each lag reads (negative before its start). **Axes**: (lag), or (position, lag)."""

SCHEME: Scheme[Lags, None] = Scheme(
    family="encodings",
    name="lags",
    title="Lags by frequency",
    explanation=(
        "A forecast looks back to moments that matter: an hour ago, the same hour yesterday, the same day a year ago. "
        "The lags are how many steps back those are, for the frequency of the series."
    ),
    description=DESCRIPTION,
    reference="Alexandrov et al., GluonTS, 2019; gluonts 0.17.0, get_lags_for_frequency",
    params=Lags,
    rounding="integer",
    tensors=_tensors,
    sequence=lambda params, inputs: sequence(params, inputs) if _positioned(params, inputs) else None,
    prepare=no_state,
    rows=_rows,
    facts=_facts,
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("The lags of hours", {"frequency": "h"}),
        Example(
            "What three steps of a monthly series read",
            {"frequency": "ME", "length": "3", "offset": "40", "num_lags": "9", "dtype": "int32"},
        ),
        Example("At steps of your own", {"frequency": "D", "num_lags": "2"}, {"positions": [[100, 101], [700, 5]]}),
    ),
    used_by=(
        Usage("GluonTS, TimeSeriesTransformer: hourly", {"frequency": "h"}, "gluonts-hourly"),
        Usage("GluonTS: every 15 minutes", {"frequency": "15min"}, "gluonts-15min"),
        Usage("GluonTS: daily", {"frequency": "D"}, "gluonts-daily"),
        Usage("GluonTS: business days", {"frequency": "B"}, "gluonts-business"),
        Usage("GluonTS: weekly", {"frequency": "W"}, "gluonts-weekly"),
        Usage("GluonTS: monthly", {"frequency": "ME"}, "gluonts-monthly"),
    ),
    properties={"learned parameters": "none", "extrapolates": "defined at any step"},
)
