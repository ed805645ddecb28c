"""Turning the caller's vectors by tables of cosines and sines, pair by pair."""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.scheme import Array, Inputs, Tensor, Tensors
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
Direction = Annotated[
    Literal["forward", "inverse"],
    Field(description="`forward` turns by p * w_k, times A; `inverse` undoes it."),
]

# Rows are turned in runs of about this size: they, their table rows and their partners stay in second-level cache.
RUN_BYTES = 1 << 17


class Table(NamedTuple):
    """Full-width rows of the table, so that a row x turns into x * cos + partner(x) * sin.

    For the first channel of a pair `sin` holds -sin(p w_k), for the second +sin(p w_k).
    """

    cos: Array
    sin: Array


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


def turned_rows(array: Array, of: Rows, table: Table, members: Members, start: int, stop: int) -> Array:
    """Rows `start` to `stop` of an array, turned in the number format of the table."""
    x = block(array, start, stop, table.cos.dtype.name)
    out = np.empty(x.shape, x.dtype)
    most = max(1, RUN_BYTES // (x.shape[1] * x.itemsize))
    for run in of.runs(start, stop, most):
        cos, sin = (part[run.table, None] for part in table)
        turn(aligned(x, run), cos, sin, members, aligned(out, run))
    return out


def turn(x: Array, cos: Array, sin: Array, members: Members, out: Array) -> None:
    """out = x turned: x * cos + partner(x) * sin, two products and one sum a channel, each rounded in x's format.

    With `sin` negative for the first of each pair that is y_1 = x_1 c - x_2 s, y_2 = x_2 c + x_1 s. All arrays are
    (positions, rows of each, channels); channels beyond the width of `cos` pass through.

    >>> x, out = np.array([[[1.0, 2.0]]]), np.empty((1, 1, 2))
    >>> turn(x, np.array([[[0.0, 0.0]]]), np.array([[[-1.0, 1.0]]]), (slice(0, 1), slice(1, 2)), out)  # a quarter turn
    >>> out.tolist()
    [[[-2.0, 1.0]]]
    """
    width = cos.shape[-1]
    turned, rest = out[..., :width], out[..., width:]
    # The caller's infinities and overflows follow IEEE arithmetic; they are not the service's to warn of.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.multiply(x[..., :width], cos, out=turned)
        other = partners(x[..., :width], members)
        np.multiply(other, sin, out=other)
        np.add(turned, other, out=turned)
    rest[...] = x[..., width:]


def partners(x: Array, members: Members) -> Array:
    """Each channel's partner in its place: the first and the second members of the pairs change places.

    >>> partners(np.arange(4.0), (slice(0, 2), slice(2, 4))).tolist()
    [2.0, 3.0, 0.0, 1.0]
    >>> partners(np.arange(4.0), (slice(0, 4, 2), slice(1, 4, 2))).tolist()
    [1.0, 0.0, 3.0, 2.0]
    """
    other = np.empty(x.shape, x.dtype)
    first, second = members
    other[..., first], other[..., second] = x[..., second], x[..., first]
    return other
