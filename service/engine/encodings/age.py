"""The age of a time series at each of its steps, on a logarithmic scale as GluonTS has it."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.logarithms import logarithm
from service.engine.numbers.pairs import Pair, multiply, two_sum
from service.engine.numbers.reals import MANY_DIGITS, Reals, real
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import DType, Real
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage

SHIFTS = {"log10": 2.0, "natural": 1.0, "linear": 0.0}


class Age(Positioned):
    """Parameters of `encodings/age`."""

    scale: Annotated[
        Literal["log10", "natural", "linear"],
        Field(description="`log10` of the shifted age, its natural logarithm, or the age itself."),
    ] = "log10"
    shift: Annotated[
        Real | None,
        Field(ge=0, le=1e9, description="Added to the age first: 2 for log10, 1 for natural (log1p), 0 for linear."),
    ] = None
    dtype: DType = "float32"


def _shift(params: Age) -> float:
    return SHIFTS[params.scale] if params.shift is None else params.shift


def _tensors(params: Age, inputs: Inputs) -> Tensors:
    places = where(params, inputs)
    youngest = places.ends[0]
    if params.scale == "linear":
        refuse_overflow(places.farthest + _shift(params), params.dtype, "the age")
    elif youngest + _shift(params) < 1:
        raise Refusal(
            "shift",
            "out_of_range",
            f"the youngest age is {youngest:g} and shift {_shift(params):g}; their sum must be 1 or more for a "
            f"logarithm: shift={1 - youngest:g} would do",
            limit=1 - youngest,
            requested=_shift(params),
        )
    return {"age": Tensor((*places.axes, "channel"), (*places.shape, 1), params.dtype)}


def _prepare(_params: Age, _inputs: Inputs) -> Pair:
    """1 / ln 10."""
    return Pair(*Reals((MANY_DIGITS.divide(1, MANY_DIGITS.ln(real(10))),)).pairs())


def _rows(params: Age, inputs: Inputs, state: Pair, _tensor: str, start: int, stop: int) -> Array:
    ages = np.asarray(part(params, inputs, start, stop), np.float64)
    shifted = two_sum(ages, np.full(ages.shape, _shift(params)))
    if params.scale != "linear":
        shifted = logarithm(shifted)
    if params.scale == "log10":
        shifted = multiply(shifted, state)
    return nearest_of_sum(*shifted, DTYPES[params.dtype])[:, None]


DESCRIPTION = """\
Of age t, the position: `scale=log10` `log10(shift + t)`, shift 2 (GluonTS); `scale=natural` `ln(shift + t)`, shift 1
(log1p); `scale=linear` `shift + t`, shift 0. **Axes**: (position, channel), one channel."""

SCHEME: Scheme[Age, Pair] = Scheme(
    family="encodings",
    name="age",
    title="Age of a time series",
    explanation=(
        "How long a series has existed is one number, and its logarithm is a better one: the difference between the "
        "first and second day is large, between the thousandth and the next one small."
    ),
    description=DESCRIPTION,
    reference="Alexandrov et al., GluonTS, 2019; gluonts 0.17.0, AddAgeFeature",
    params=Age,
    rounding="faithful",
    tensors=_tensors,
    sequence=sequence,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, _inputs: params.model_copy(update={"shift": _shift(params)}),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("The first nine steps", {"length": "9"}),
        Example("log1p of a real-valued age", {"positions": "0,0.5,1e6", "scale": "natural", "dtype": "float64"}),
        Example("Ages of a batch, in the body", {}, {"positions": [[0, 1, 2], [98, 99, 100]]}),
    ),
    used_by=(
        Usage("GluonTS AddAgeFeature, TimeSeriesTransformer", {}, "gluonts"),
        Usage("GluonTS AddAgeFeature(log_scale=False)", {"scale": "linear"}, "gluonts-linear"),
    ),
    properties={"learned parameters": "none", "extrapolates": "yes: the logarithm grows ever more slowly"},
)
