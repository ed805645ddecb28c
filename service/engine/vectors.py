"""The caller's own vectors: their number format, their axes, and which position each of their rows has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.positions import Values, as_positions, batch_axes, consecutive, given_positions
from service.engine.quantities import LARGEST_EXACT_INTEGER, WIDEST, DType, Offset, Positions
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import FLOATING, Array, Input, Inputs, Params

SameDType = Annotated[
    DType | None,
    Field(description="Number format of the arithmetic and the answer: the body's own unless given (JSON: float32)."),
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


class Run(NamedTuple):
    """Consecutive rows of a block, and the consecutive rows of the table that serve them, equally many each."""

    rows: slice
    table: slice


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

    def runs(self, start: int, stop: int, most: int) -> Iterator[Run]:
        """Rows `start` to `stop` as runs of about `most` rows at the most, whose table rows follow one another.

        >>> heads_length = Rows((2, 3, 8), length_axis=1)  # 2 heads of 3 positions
        >>> [(run.rows, run.table) for run in heads_length.runs(1, 6, 4)]
        [(slice(0, 2, None), slice(1, 3, None)), (slice(2, 5, None), slice(0, 3, None))]
        >>> length_heads = Rows((3, 2, 8), length_axis=0)  # each position serves 2 rows
        >>> [(run.rows, run.table) for run in length_heads.runs(1, 6, 4)]
        [(slice(0, 1, None), slice(0, 1, None)), (slice(1, 5, None), slice(1, 3, None))]
        """
        each = prod(self.shape[self.length_axis + 1 : -1])  # rows that one position serves
        row = start
        while row < stop:
            place, within = divmod(row, each)
            whole = min((stop - row) // each, self.length - place % self.length, most // each)
            positions, count = (
                (1, min(each - within, stop - row, most)) if within or whole < 1 else (whole, whole * each)
            )
            table = self._table_row(row, place)
            yield Run(slice(row - start, row - start + count), slice(table, table + positions))
            row += count

    def _table_row(self, row: int, place: int) -> int:
        batch = row // prod(self.shape[self.batches : -1]) if self.batches else 0
        return batch * self.length + place % self.length


def aligned(array: Array, run: Run) -> Array:
    """The run's rows of an array, (positions, rows of each, channels): table rows broadcast against it."""
    rows = array[run.rows]
    positions = run.table.stop - run.table.start
    return rows.reshape(positions, -1, rows.shape[-1])


def answer_dtype(dtype: str | None, array: Array) -> str:
    """The number format of the answer: the one asked for, or the array's own; integers become float32."""
    return dtype or (array.dtype.name if array.dtype.name in FLOATING else "float32")


def block(array: Array, start: int, stop: int, dtype: str) -> Array:
    """Rows `start` to `stop` of an array (…, channels) in a number format, C-ordered, rounded at most once.

    >>> block(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, 2, "float16")
    array([[3., 4.]], dtype=float16)
    """
    part = np.ascontiguousarray(array.reshape(-1, array.shape[-1])[start:stop])
    wanted = DTYPES[dtype]
    return part if part.dtype == wanted else nearest(part.astype(np.float64), wanted)


def refuse_odd_shapes(name: str, array: Array, least: int, meaning: str) -> None:
    """Vectors need at least `least` axes, none of them empty, and numbers that are not truth values."""
    pointer = f"/tensors/{name}"
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise Refusal(pointer, "type", f"{name} holds {array.dtype.name}; numbers are needed")
    if array.ndim < least or 0 in array.shape:
        raise Refusal(pointer, "shape", f"{name} has the shape {array.shape}; {meaning} is needed, with no empty axis")
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        _refuse_inexact_integers(pointer, array)


def refuse_wide(name: str, array: Array) -> None:
    """Every channel has a frequency of its own, which takes its time: as many as tables may have."""
    width = array.shape[-1]
    if width > WIDEST:
        detail = f"{name} has {width} channels; up to {WIDEST} will do"
        raise Refusal(f"/tensors/{name}", "shape", detail, limit=WIDEST, requested=width)


def refuse_overflow(name: str, array: Array, dtype: str) -> None:
    """A finite number that the number format cannot hold is refused; infinities of the caller's own pass through."""
    if array.dtype.name == dtype or array.dtype.kind == "b":
        return
    with np.errstate(invalid="ignore"):
        magnitude = np.where(np.isfinite(array), np.abs(array), 0)
    place = np.unravel_index(int(np.argmax(magnitude)), array.shape)
    value = np.asarray(magnitude[place]).astype(np.float64).reshape(1)
    if not np.isfinite(nearest(value, DTYPES[dtype]).astype(np.float64)[0]):
        raise Refusal(
            "/".join([f"/tensors/{name}", *(str(int(axis)) for axis in place)]),
            "out_of_range",
            f"{float(array[place]):g} is beyond {dtype}; dtype=float64 would hold it",
        )


def _refuse_inexact_integers(pointer: str, array: Array) -> None:
    inside = (array >= -LARGEST_EXACT_INTEGER) & (array <= LARGEST_EXACT_INTEGER)
    if not inside.all():
        index = np.unravel_index(int(np.argmin(inside)), array.shape)
        raise Refusal(
            "/".join([pointer, *(str(int(axis)) for axis in index)]),
            "out_of_range",
            f"{array[index]} is beyond 2^53, where integers stop being float64; send real numbers",
            limit=LARGEST_EXACT_INTEGER,
        )


def positions_of(params: Placed, inputs: Inputs, rows: Mapping[str, Rows]) -> tuple[Values, int]:
    """The positions of a table that serves every array, and how many leading axes have positions of their own."""
    length = _common_length(rows)
    if "positions" not in inputs and params.positions is None:
        return consecutive(params.offset, length).values, 0
    if params.offset:
        raise Refusal("offset", "conflict", "offset and positions exclude each other; positions say everything")
    return placed_rows(*given_positions(params.positions, inputs), rows)


def _common_length(rows: Mapping[str, Rows]) -> int:
    first, *others = rows
    length = rows[first].length
    for name in others:
        if rows[name].length != length:
            raise Refusal(
                f"/tensors/{name}",
                "shape",
                f"{name} has {rows[name].length} positions and {first} has {length}; send them apart",
            )
    return length


def placed_rows(given: Array, pointer: str, rows: Mapping[str, Rows]) -> tuple[NDArray[np.float64], int]:
    """Explicit positions of rows, and how many leading axes have their own; refuses shapes that do not fit."""
    values, length = as_positions(given, pointer), next(iter(rows.values())).length
    # (1, length), as position ids often come, is one list for the whole batch.
    shape = values.shape if prod(values.shape[:-1]) > 1 else values.shape[-1:]
    for name, of in rows.items():
        wanted = (*of.shape[: len(shape) - 1], length)
        if len(shape) - 1 > of.length_axis or shape != wanted:
            raise Refusal(
                pointer,
                "shape",
                f"positions have the shape {shape}; for {name} {of.shape} it can be {_possible(of, length)}",
            )
    return values.reshape(-1), len(shape) - 1


def _possible(of: Rows, length: int) -> str:
    return " or ".join(str((*of.shape[:axes], length)) for axes in range(of.length_axis + 1))


def vector_axes(ndim: int, inner: tuple[str, ...]) -> tuple[str, ...]:
    """Axis names of an array of the caller's whose last axes are `inner`.

    >>> vector_axes(4, ("head", "position", "channel"))
    ('batch', 'head', 'position', 'channel')
    """
    leading = ndim - len(inner)
    return (*batch_axes(leading), *inner) if leading > 0 else inner[-ndim:]
