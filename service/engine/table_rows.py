"""Which row of a learned table a position has, and that it has none beyond the last.

A table is a list of rows, no formula: 2048 rows cannot serve position 2048. Most models take position p from row p.
OPT and BART keep two rows in front, RoBERTa's family begins behind the row of its padding token.
"""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.positions import Positioned, Where, part
from service.engine.quantities import Integer
from service.engine.scheme import Array, Inputs
from service.engine.vectors import refuse_odd_shapes

Indices = NDArray[np.int64]

TABLE = "a table (rows, channels)"


class TableRows(Positioned):
    """Parameters that say which rows of a table positions have."""

    offset_rule: Annotated[
        Literal["none", "opt", "roberta"],
        Field(
            description="The row of position p: `none` row p; `opt` row p + 2 (OPT, BART); `roberta` row "
            "p + padding_idx + 1. The last two have a row for padded tokens, whose position is -1."
        ),
    ] = "none"
    padding_idx: Annotated[
        Integer | None,
        Field(ge=0, le=2**31, description="Token id, and row, of padding; for offset_rule=roberta (default: 1)."),
    ] = None


def padding_row(params: TableRows) -> int | None:
    """The row of zeros that padded tokens have; refuses one where the rule knows none.

    >>> padding_row(TableRows(offset_rule="roberta"))
    1
    """
    if params.offset_rule == "roberta":
        return 1 if params.padding_idx is None else params.padding_idx
    if params.padding_idx is not None:
        detail = f"offset_rule={params.offset_rule} knows no padding_idx: leave it out, or say offset_rule=roberta"
        raise Refusal("padding_idx", "conflict", detail)
    return None


def first_row(params: TableRows) -> int:
    """The row of position 0.

    >>> first_row(TableRows()), first_row(TableRows(offset_rule="roberta"))
    (0, 2)
    """
    padding = padding_row(params)
    if padding is not None:
        return padding + 1
    return 2 if params.offset_rule == "opt" else 0


def refuse_outside(params: TableRows, places: Where, rows: int) -> None:
    """Refuse positions that are no whole numbers, or whose rows a table of `rows` rows has not."""
    first = first_row(params)
    values = places.values
    if isinstance(values, range):
        outside = [float(each) for each in (values[0], values[-1]) if not 0 <= each + first < rows]
        if outside:
            raise _outside(params, places, rows, outside[0], None)
        return
    proper = (values == np.rint(values)) & (values + first >= 0) & (values + first < rows)
    if not proper.all():
        index = int(np.argmin(proper))
        raise _outside(params, places, rows, float(values[index]), index)


def _outside(params: TableRows, places: Where, rows: int, position: float, index: int | None) -> Refusal:
    if position != int(position):
        detail = f"position {position:g} lies between two rows of a table; whole numbers are needed"
        return Refusal(_place(params, places, position, index), "type", detail)
    first = first_row(params)
    detail = (
        f"position {int(position)} would need row {int(position) + first}, and the table has {rows} rows: "
        f"positions from {-first} to {rows - 1 - first} have one"
    )
    last = rows - 1 - first
    return Refusal(_place(params, places, position, index), "out_of_range", detail, limit=last, requested=int(position))


def _place(params: TableRows, places: Where, position: float, index: int | None) -> str:
    if index is None:
        return "offset" if position == params.offset else "length"
    if params.positions is not None:
        return "positions"
    return "/".join(["/positions", *(str(int(axis)) for axis in np.unravel_index(index, places.shape))])


def rows_at(params: TableRows, inputs: Inputs, start: int, stop: int) -> range | Indices:
    """The table's rows for rows `start` to `stop` of the answer, after `refuse_outside` has seen them all.

    >>> rows_at(TableRows(offset_rule="opt", length=4), {}, 1, 3)
    range(3, 5)
    """
    at = part(params, inputs, start, stop)
    first = first_row(params)
    if isinstance(at, range):
        return range(at.start + first, at.stop + first)
    return at.astype(np.int64) + first


def as_table(name: str, array: Array) -> Array:
    """A stored table as (rows, channels), without the leading axes of length 1 that some checkpoints have.

    >>> as_table("x", np.zeros((1, 5, 3))).shape
    (5, 3)
    """
    refuse_odd_shapes(name, array, 2, TABLE)
    if any(length > 1 for length in array.shape[:-2]):
        raise Refusal(f"/tensors/{name}", "shape", f"{name} has the shape {array.shape}; {TABLE} is needed")
    return array.reshape(array.shape[-2:])
