"""The caller's own vectors: their number format, their axes, and which position each of their rows has."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.positions import Values, as_positions, batch_axes, consecutive
from service.engine.quantities import DType, Offset, Positions
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import ITEMSIZE, Array, Input, Inputs, Params

SameDType = Annotated[
    DType | None,
    Field(
        description="Number format of the arithmetic and the answer: the body's own unless given (JSON: float32)."
    ),
]
VECTOR_POSITIONS = Input(
    "positions",
    "Positions along the length axis: one for each, or one list for each entry of the leading axes.",
    required=False,
)


class Placed(Params):
    """Parameters that say which positions the rows of the caller's vectors have."""

    offset: Offset = 0
    positions: Positions | None = None
    dtype: SameDType = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an array (…, channels) and the place of each in a table of positions.

    `length_axis` counts positions; `batches` leading axes have positions of their own.
    """

    shape: tuple[int, ...]
    length_axis: int
    batches: int = 0

    @property
    def length(self) -> int:
        return self.shape[self.length_axis]

    def table_rows(self, start: int, stop: int) -> NDArray[np.intp]:
        """For rows `start` to `stop`: the row of the position table that each belongs to."""
        row = np.arange(start, stop)
        inner = prod(self.shape[self.length_axis + 1 : -1])
        batch = row // prod(self.shape[self.batches : -1]) if self.batches else 0
        return batch * self.length + row // inner % self.length


def answer_dtype(dtype: str | None, array: Array) -> str:
    """The number format of the answer: the one asked for, or the array's own; integers become float32."""
    return dtype or (array.dtype.name if array.dtype.name in ITEMSIZE else "float32")


def block(array: Array, start: int, stop: int, dtype: str) -> Array:
    """Rows `start` to `stop` of an array (…, channels) in a number format, every value rounded at most once."""
    part = array.reshape(-1, array.shape[-1])[start:stop]
    wanted = DTYPES[dtype]
    return part if part.dtype == wanted else nearest(part.astype(np.float64), wanted)


def refuse_odd_shapes(name: str, array: Array, least: int, meaning: str) -> None:
    """Vectors need at least `least` axes, none of them empty, and numbers that are not truth values."""
    pointer = f"/tensors/{name}"
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise Refusal(pointer, "type", f"{name} holds {array.dtype.name}; numbers are needed")
    if array.ndim < least or 0 in array.shape:
        raise Refusal(
            pointer, "shape", f"{name} has the shape {array.shape}; {meaning} is needed, with no empty axis"
        )


def positions_of(params: Placed, inputs: Inputs, rows: Mapping[str, Rows]) -> tuple[Values, int]:
    """The positions of a table that serves every array, and how many leading axes have positions of their own."""
    first, *others = rows
    length = rows[first].length
    for name in others:
        if rows[name].length != length:
            raise Refusal(
                f"/tensors/{name}",
                "shape",
                f"{name} has {rows[name].length} positions and {first} has {length}; send them apart, each with its offset",
            )
    if "positions" in inputs and params.positions is not None:
        raise Refusal(
            "positions", "repeated", "positions are given in the address and in the body; give them once"
        )
    given = inputs["positions"] if "positions" in inputs else params.positions
    if given is None:
        return consecutive(params.offset, length).values, 0
    if params.offset:
        raise Refusal(
            "offset", "conflict", "offset and positions exclude each other; positions say everything"
        )
    return _explicit(np.asarray(given), rows, length)


def _explicit(given: Array, rows: Mapping[str, Rows], length: int) -> tuple[Values, int]:
    values = as_positions(given)
    shape = values.shape or (1,)
    for name, of in rows.items():
        wanted = (*of.shape[: len(shape) - 1], length)
        if len(shape) - 1 > of.length_axis or shape != wanted:
            raise Refusal(
                "/positions",
                "shape",
                f"positions have the shape {shape}; {name} {of.shape} needs {(length,)}"
                + (f" or {(*of.shape[:1], length)}" if of.length_axis else ""),
            )
    return values.reshape(-1), len(shape) - 1


def vector_axes(ndim: int, inner: tuple[str, ...]) -> tuple[str, ...]:
    """Axis names of an array of the caller's whose last axes are `inner`.

    >>> vector_axes(4, ("head", "position", "channel"))
    ('batch', 'head', 'position', 'channel')
    """
    leading = ndim - len(inner)
    return (*batch_axes(leading), *inner) if leading > 0 else inner[-ndim:]
