"""Position tables of a grid in two factors, one for its rows and one for its columns."""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import Grid2D
from service.engine.rounding import nearest_of_sum
from service.engine.scheme import Array, Example, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.table_rows import as_table
from service.engine.vectors import SameDType, answer_dtype, block, refuse_overflow


class Factorised(Params):
    """Parameters of `learned/factorised`."""

    grid: Annotated[
        Grid2D | None,
        Field(description="Cells: height,width; one number means a square (default: as many as the tables have rows)."),
    ] = None
    joining: Annotated[
        Literal["columns-rows", "rows-columns", "sum"],
        Field(
            description="Channels of a cell: `columns-rows` those of its column, then those of its row (DETR); "
            "`rows-columns` the reverse (Reformer); `sum` the sum of both, rounded once (Pix2Struct)."
        ),
    ] = "columns-rows"
    axes: Annotated[
        Literal["grid", "sequence", "channels-first"],
        Field(
            description="`grid` (row, column, channel); `sequence` (position, channel), rows one after the other; "
            "`channels-first` (channel, row, column)."
        ),
    ] = "grid"
    dtype: SameDType = None


class Factors(NamedTuple):
    """The rows of both tables that the grid needs, in the number format of the answer."""

    rows: Array
    columns: Array


def _grid(params: Factorised, inputs: Inputs) -> tuple[int, int]:
    tables = [len(as_table(name, inputs[name])) for name in ("rows", "columns")]
    height, width = (params.grid * 2)[:2] if params.grid else tables
    for name, asked, had in (("rows", height, tables[0]), ("columns", width, tables[1])):
        if asked > had:
            detail = f"the grid has {asked} {name}, and the table of {name} has {had}: {had} are the most"
            raise Refusal("grid", "out_of_range", detail, limit=had, requested=asked)
    return height, width


def _dtype(params: Factorised, inputs: Inputs) -> str:
    """The number format of the answer; refuses to choose between two."""
    mine, its = (answer_dtype(params.dtype, inputs[name]) for name in ("rows", "columns"))
    if mine != its:
        raise Refusal("dtype", "missing", f"rows holds {mine} and columns {its}: say dtype={mine} or dtype={its}")
    for name in ("rows", "columns"):
        refuse_overflow(name, inputs[name], mine)
    return mine


def _dim(params: Factorised, inputs: Inputs) -> int:
    mine, its = (int(inputs[name].shape[-1]) for name in ("rows", "columns"))
    if params.joining != "sum":
        return mine + its
    if mine != its:
        detail = f"rows has {mine} channels and columns {its}; joining=sum needs as many of both"
        raise Refusal("/tensors/columns", "shape", detail)
    return mine


def _tensors(params: Factorised, inputs: Inputs) -> Tensors:
    height, width = _grid(params, inputs)
    dim, dtype = _dim(params, inputs), _dtype(params, inputs)
    layouts = {
        "grid": Tensor(("row", "column", "channel"), (height, width, dim), dtype),
        "sequence": Tensor(("position", "channel"), (height * width, dim), dtype),
        "channels-first": Tensor(("channel", "row", "column"), (dim, height, width), dtype),
    }
    return {"encoding": layouts[params.axes]}


def _prepare(params: Factorised, inputs: Inputs) -> Factors:
    tables = (as_table(name, inputs[name]) for name in ("rows", "columns"))
    dtype = _dtype(params, inputs)
    return Factors(*(block(table, 0, size, dtype) for table, size in zip(tables, _grid(params, inputs), strict=True)))


def _rows(params: Factorised, _inputs: Inputs, state: Factors, _tensor: str, start: int, stop: int) -> Array:
    if params.axes == "channels-first":
        return _of_channels(params, state, np.arange(start, stop))
    row, column = np.divmod(np.arange(start, stop), len(state.columns))
    mine, its = state.rows[row], state.columns[column]
    if params.joining == "sum":
        return _sum(mine, its)
    return np.concatenate([its, mine] if params.joining == "columns-rows" else [mine, its], axis=1)


def _of_channels(params: Factorised, state: Factors, at: Array) -> Array:
    """Rows of (channel, row, column): along the columns, a channel of `columns`, or one number of `rows` repeated."""
    channel, row = np.divmod(at, len(state.rows))
    if params.joining == "sum":
        return _sum(state.rows[row, channel][:, None], state.columns.T[channel])
    first = (state.columns if params.joining == "columns-rows" else state.rows).shape[1]
    varying = (channel < first) == (params.joining == "columns-rows")
    within = np.where(channel < first, channel, channel - first)
    out = np.empty((len(at), len(state.columns)), state.rows.dtype)
    out[varying] = state.columns.T[within[varying]]
    out[~varying] = state.rows[row[~varying], within[~varying]][:, None]
    return out


def _sum(mine: Array, its: Array) -> Array:
    wide, other = (each.astype(np.float64) for each in np.broadcast_arrays(mine, its))
    with np.errstate(over="ignore", invalid="ignore"):
        return nearest_of_sum(wide, other, mine.dtype)


DESCRIPTION = """\
Cell (i, j) of a grid has the channels of row i of the table `rows` and of row j of the table `columns`: `columns-rows`
the columns' first as in DETR, `rows-columns` the rows' first as in Reformer's axial positions, or the `sum` of both.
The grid can be smaller than the tables, not larger. A sequence of n1 n2 positions is the grid (n1, n2) with
`axes=sequence`: position p is cell (p div n2, p mod n2).

**Axes**: (row, column, channel), (position, channel) or (channel, row, column). The body is JSON or a safetensors file
with `rows` and `columns`."""

SCHEME: Scheme[Factorised, Factors] = Scheme(
    family="learned",
    name="factorised",
    title="Your own tables of rows and columns, joined on a grid",
    explanation=(
        "Instead of a row for each cell of a grid, one for each of its rows and one for each of its columns, joined. A "
        "large grid then needs few trained numbers."
    ),
    description=DESCRIPTION,
    reference="Carion et al., End-to-End Object Detection with Transformers, 2020; Kitaev et al., Reformer, 2020",
    params=Factorised,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, inputs: params.model_copy(update={"grid": _grid(params, inputs)}),
    state_bytes=lambda _params, inputs: 8 * (inputs["rows"].size + inputs["columns"].size),
    inputs=(
        Input("rows", "A table of the grid's rows: (height or more, channels)."),
        Input("columns", "A table of the grid's columns: (width or more, channels)."),
    ),
    examples=(
        Example("Two rows, three columns", {}, {"tensors": {"rows": [[10.5], [20]], "columns": [[1.5], [2], [3]]}}),
        Example(
            "Axial positions of a sequence",
            {"joining": "rows-columns", "axes": "sequence", "grid": "2,2"},
            {"tensors": {"rows": [[10.5], [20]], "columns": [[1, 1.5], [2, 2.5], [3, 3.5]]}},
        ),
        Example("The sum", {"joining": "sum"}, {"tensors": {"rows": [[10.5], [20]], "columns": [[1.5], [2], [3]]}}),
    ),
    used_by=(
        Usage(
            "DETR with position_embedding_type=learned",
            {"joining": "columns-rows", "axes": "channels-first"},
            preset="detr",
        ),
        Usage("Reformer", {"joining": "rows-columns", "axes": "sequence"}, preset="reformer"),
        Usage("Pix2Struct", {"joining": "sum"}, preset="pix2struct"),
    ),
    properties={"learned parameters": "the tables that you send", "extrapolates": "no: rows and columns end"},
)
