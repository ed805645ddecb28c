"""Turning the caller's vectors by tables of cosines and sines, pair by pair."""

from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.quantities import DType
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Inputs, Params, Tensor, Tensors
from service.engine.vectors import Rows, aligned, answer_dtype, block, vector_axes

# The channels that come first in their pairs, and those that come second.
Members = tuple[slice, slice] | tuple[NDArray[np.intp], NDArray[np.intp]]

Axes = Annotated[
    Literal["heads-length", "length-heads"],
    Field(
        description="Order of the axes before the channels when there are more than two: `heads-length` "
        "(…, heads, length, dim) or `length-heads` (…, length, heads, dim)."
    ),
]


class TurnedIn(Params):
    """Parameters that say in which number formats vectors are turned."""

    table_dtype: Annotated[
        DType | None,
        Field(
            description="Number format that cos and sin are rounded to: the answer's unless given (OLMo, Llama 4, "
            "DeepSeek V2: float32)."
        ),
    ] = None
    compute_dtype: Annotated[
        DType | None,
        Field(
            description="Number format that products and sums are rounded to before the answer's: the wider of the "
            "answer's and the tables' unless given (Cohere, vision towers of Qwen-VL: float32)."
        ),
    ] = None


class Turned(TurnedIn):
    """The same, and what the attention factor multiplies."""

    attention_on: Annotated[
        Literal["tables", "rounded-tables", "vectors"],
        Field(
            description="What the attention factor multiplies: `tables` cos and sin, as transformers and vLLM; "
            "`rounded-tables` cos and sin that are rounded to `table_dtype` already, as keras-hub, which computes "
            "YaRN's factor in that format too; `vectors` the channels that turn, before they do, as mlx-lm: then it is "
            "rounded to `compute_dtype`, and so is the product."
        ),
    ] = "tables"


class Factors(NamedTuple):
    """What multiplies cos and sin, the channels that turn before they do, and after they have."""

    tables: Decimal
    before: Decimal = Decimal(1)
    after: Decimal = Decimal(1)


def factors_of(params: Turned, amplitude: Decimal, direction: str) -> Factors:
    """Where the attention factor, or what undoes it, is a factor.

    >>> factors_of(Turned(attention_on="vectors"), Decimal("0.5"), "inverse")
    Factors(tables=Decimal('1'), before=Decimal('1'), after=Decimal('0.5'))
    """
    if params.attention_on == "tables":
        return Factors(amplitude)
    if params.attention_on == "rounded-tables":  # `Table.times` has it
        return Factors(Decimal(1))
    return Factors(Decimal(1), after=amplitude) if direction == "inverse" else Factors(Decimal(1), before=amplitude)


class Formats(NamedTuple):
    """The number formats of a turned array: of cos and sin, of products and sums, of the answer."""

    table: str
    compute: str
    answer: str


# Rows are turned in runs of about this size: they, their table rows and their partners stay in second-level cache.
RUN_BYTES = 1 << 17


class Table(NamedTuple):
    """Full-width rows of the table, so that a row x turns into x * cos + partner(x) * sin.

    For the first channel of a pair `sin` holds -sin(p w_k), for the second +sin(p w_k).
    """

    cos: Array
    sin: Array

    def times(self, factor: Array) -> None:
        """Multiply what is rounded already, each product rounded to the tables' number format."""
        with np.errstate(over="ignore", under="ignore"):
            for wave in self:
                np.multiply(wave, factor, out=wave)


class Channels(NamedTuple):
    """Which channels turn: `start` ... of as many as the table is wide, in pairs; `wanted` is where the results go."""

    given: Members
    wanted: Members
    start: int = 0

    def part(self, x: Array, width: int) -> Array:
        """The channels of x that turn."""
        return x[..., self.start : self.start + width]


def formats_of(params: TurnedIn, dtype: str | None, array: Array) -> Formats:
    """The number formats that an array is turned in; of two formats of 16 bits the wider is float32.

    >>> formats_of(TurnedIn(table_dtype="float32"), None, np.zeros(2, np.float16))
    Formats(table='float32', compute='float32', answer='float16')
    """
    answer = answer_dtype(dtype, array)
    table = params.table_dtype or answer
    return Formats(table, params.compute_dtype or _wider(table, answer), answer)


def _wider(one: str, other: str) -> str:
    if one == other:
        return one
    return "float64" if "float64" in (one, other) else "float32"


def vector_rows(axes: str, shape: tuple[int, ...], batches: int = 0) -> Rows:
    """The rows of queries or keys, and the positions along their length axis.

    >>> vector_rows("length-heads", (2, 5, 3, 8)).length, vector_rows("heads-length", (8,)).length
    (5, 1)
    """
    if len(shape) == 1:
        return Rows((1, *shape), 0, batches)
    back = 3 if len(shape) > 2 and axes == "length-heads" else 2
    return Rows(shape, len(shape) - back, batches)


def queries_and_keys(inputs: Inputs) -> dict[str, Array]:
    """The vectors that a request brings."""
    return {name: inputs[name] for name in ("q", "k") if name in inputs}


def turned_tensors(inputs: Inputs, axes: str, dtype: str | None) -> Tensors:
    """What the turned vectors will look like: as they came, in the number format asked for."""
    inner = ("head", "position", "channel") if axes == "heads-length" else ("position", "head", "channel")
    return {
        name: Tensor(
            vector_axes(array.ndim, inner if array.ndim > 2 else ("position", "channel")),
            array.shape,
            answer_dtype(dtype, array),
        )
        for name, array in queries_and_keys(inputs).items()
    }


def turned_rows(
    array: Array, of: Rows, table: Table, channels: Channels, formats: Formats, factors: Factors, start: int, stop: int
) -> Array:
    """Rows `start` to `stop` of an array, turned in the formats asked for; what does not turn is copied."""
    width = table.cos.shape[-1]
    x = _times(block(array, start, stop, formats.compute), factors.before, channels, width)
    out = np.empty(x.shape, x.dtype)
    most = max(1, RUN_BYTES // (x.shape[1] * x.itemsize))
    for run in of.runs(start, stop, most):
        cos, sin = (part[run.table, None].astype(x.dtype, copy=False) for part in table)
        turn(aligned(x, run), cos, sin, channels, aligned(out, run))
    out = _times(out, factors.after, channels, width)
    if formats.answer == formats.compute:
        return out
    answered = block(array, start, stop, formats.answer).copy()
    channels.part(answered, width)[...] = nearest(channels.part(out, width).astype(np.float64), DTYPES[formats.answer])
    return answered


def _times(x: Array, factor: Decimal, channels: Channels, width: int) -> Array:
    """The channels that turn, times a factor that is rounded to their number format."""
    if factor == 1:
        return x
    product = x.copy()
    turning = channels.part(product, width)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.multiply(turning, nearest(np.array([float(factor)]), x.dtype), out=turning)
    return product


def turn(x: Array, cos: Array, sin: Array, channels: Channels, out: Array) -> None:
    """out = x turned: x * cos + partner(x) * sin, two products and one sum a channel, each rounded in x's format.

    With `sin` negative for the first of each pair that is y_1 = x_1 c - x_2 s, y_2 = x_2 c + x_1 s. All arrays are
    (positions, rows of each, channels); channels that do not turn pass through.

    >>> x, out, pair = np.array([[[1.0, 2.0]]]), np.empty((1, 1, 2)), (slice(0, 1), slice(1, 2))
    >>> turn(x, np.array([[[0.0, 0.0]]]), np.array([[[-1.0, 1.0]]]), Channels(pair, pair), out)  # a quarter turn
    >>> out.tolist()
    [[[-2.0, 1.0]]]
    """
    width = cos.shape[-1]
    turning, turned = channels.part(x, width), channels.part(out, width)
    own = turning if channels.given is channels.wanted else moved(turning, channels.given, channels.wanted)
    # The caller's infinities and overflows follow IEEE arithmetic; they are not the service's to warn of.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.multiply(own, cos, out=turned)
        other = moved(turning, channels.given, channels.wanted[::-1])
        np.multiply(other, sin, out=other)
        np.add(turned, other, out=turned)
    stop = channels.start + width
    out[..., : channels.start], out[..., stop:] = x[..., : channels.start], x[..., stop:]


def moved(x: Array, given: Members, wanted: Members) -> Array:
    """The members of the pairs in other channels: with the two exchanged, each channel's partner in its place.

    >>> half, neighbours = (slice(0, 2), slice(2, 4)), (slice(0, 4, 2), slice(1, 4, 2))
    >>> moved(np.arange(4.0), half, half[::-1]).tolist()
    [2.0, 3.0, 0.0, 1.0]
    >>> moved(np.arange(4.0), neighbours, half).tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    out = np.empty(x.shape, x.dtype)
    first, second = wanted
    out[..., first], out[..., second] = x[..., given[0]], x[..., given[1]]
    return out
