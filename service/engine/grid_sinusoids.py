"""Sinusoidal tables on a grid: what the schemes of every number of axes share.

A table on a grid is separable: a channel depends on the coordinate along one axis alone. So the sines and cosines of an
axis are computed once for each of its coordinates that a block of rows touches, and copied to the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from pydantic import Field

from service.engine.arithmetics import FLOAT32_NOTE, Divided, Exact
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, SLOWEST_BITS, WAVE_BYTES
from service.engine.grids import Axis, GridCoordinates, Indices, along, axes_of, per_axis
from service.engine.positions import Values
from service.engine.quantities import LARGEST_EXACT_INTEGER, Base, Dim, DType, Integer, Real
from service.engine.reals import Number
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.scheme import Sequence as Rows
from service.engine.single import float32_periods
from service.engine.sinusoids import SinusoidalTable, fastest, frequencies, table_angles
from service.engine.waves import Waves

GridLayout = Annotated[
    Literal["sin-cos", "cos-sin", "interleaved", "sines-first"],
    Field(
        description="Channel order within the block of an axis: `sin-cos` all sines then all cosines; `cos-sin` the "
        "reverse; `interleaved` sin, cos, sin, cos, ...; `sines-first` has no such blocks: the sines of all axes, then "
        "the cosines of all axes."
    ),
]
CELLS = ("frames", "height", "width")
# The conventions of libraries that have every number of axes.
POSITIONAL_ENCODINGS = {
    "layout": "interleaved",
    "channel_split": "rounded-up",
    "grid_axes": "kept",
    "arithmetic": "float32",
}
TENSOR2TENSOR = {"frequency_shift": "1", "channel_split": "rounded-down", "grid_axes": "kept"}
TWO_PI = 6.283185307179586  # the float64 that Python code has for 2 pi
COORDINATES_NOTE = (
    "arithmetic=float32-coordinates rounds the coordinates to float32 step by step, as diffusers does; "
    "the rest is exact"
)


class GridTable(GridCoordinates):
    """What decides a sinusoidal table on a grid, apart from the grid and the shares of its axes."""

    dim: Dim
    base: Base = 10_000.0
    frequency_shift: Annotated[
        Real,
        Field(
            ge=0,
            le=32_768,
            description="w_k = base^(-k / (pairs - frequency_shift)), `pairs` those of an axis: 0, or 1 as big_vision.",
        ),
    ] = 0.0
    layout: GridLayout = "sin-cos"
    class_tokens: Annotated[
        Integer, Field(ge=0, le=65_536, description="Rows of zeros before the cells, for class or other extra tokens.")
    ] = 0
    grid_axes: Annotated[
        Literal["flat", "kept"],
        Field(description="`flat`: one axis of all cells, (position, channel); `kept`: the axes of the grid."),
    ] = "flat"
    arithmetic: Annotated[
        Literal["exact", "float32", "float32-coordinates"],
        Field(
            description="`exact`: the real-number formula, rounded once; `float32`: step by step as PyTorch model "
            "code; `float32-coordinates`: coordinates in float32 steps, the rest exact, as diffusers."
        ),
    ] = "exact"
    dtype: DType = "float32"


class Columns(NamedTuple):
    """The channels of one axis in a row; a row that ends before cuts them off."""

    sines: slice
    cosines: slice


def arranged(widths: Sequence[int], layout: str) -> list[Columns]:
    """The channels of axes of those (even) widths, in channel order.

    >>> arranged([4, 2], "sines-first")[1]
    Columns(sines=slice(2, 3, None), cosines=slice(5, 6, None))
    """
    starts = [sum(widths[:place]) for place in range(len(widths))]
    return [_columns(start, width, sum(widths), layout) for start, width in zip(starts, widths, strict=True)]


def _columns(start: int, width: int, total: int, layout: str) -> Columns:
    pairs = width // 2
    if layout == "interleaved":
        return Columns(slice(start, start + width, 2), slice(start + 1, start + width, 2))
    if layout == "sines-first":
        first, second = start // 2, (total + start) // 2
    else:
        first, second = start, start + pairs
    halves = slice(first, first + pairs), slice(second, second + pairs)
    return Columns(*halves[::-1]) if layout == "cos-sin" else Columns(*halves)


class Writer(Protocol):
    """What has the cosines and sines of positions."""

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None: ...


def write_axis(writer: Writer, at: Values, places: Indices, columns: Columns, pairs: int, out: Array) -> None:
    """The channels of one axis into rows `out`, whose positions are those `at` their places."""
    sines, cosines = np.empty((2, len(at), pairs), out.dtype)
    writer.write(at, cosines, sines)
    for wave, channels in ((sines, columns.sines), (cosines, columns.cosines)):
        part = out[:, channels]
        part[...] = wave.take(places, axis=0)[:, : part.shape[1]]


def share(dim: int, axes: int, channel_split: str) -> int:
    """The channels of each axis where all have as many: an even number.

    >>> share(8, 2, "equal"), share(10, 2, "rounded-up"), share(10, 2, "rounded-down")
    (4, 6, 4)
    """
    if channel_split == "equal":
        refuse_indivisible(dim, 2 * axes, channel_split)
    if channel_split == "rounded-up":
        return 2 * -(-dim // (2 * axes))
    if dim < 2 * axes:
        detail = f"dim is {dim}; {axes} axes take {2 * axes} channels at least"
        raise Refusal("dim", "out_of_range", detail, limit=2 * axes, requested=dim)
    return 2 * (dim // (2 * axes))


def refuse_indivisible(dim: int, divisor: int, channel_split: str = "") -> None:
    """Refuse a width that leaves no even shares.

    >>> refuse_indivisible(10, 4)
    Traceback (most recent call last):
    service.engine.errors.Refusal: dim is 10; a multiple of 4 is needed, such as 8
    """
    if dim % divisor:
        near = dim - dim % divisor or divisor
        why = f"with channel_split={channel_split} " if channel_split else ""
        detail = f"dim is {dim}; {why}a multiple of {divisor} is needed, such as {near}"
        raise Refusal("dim", "indivisible", detail)


P = TypeVar("P", bound=GridTable)


@dataclass(frozen=True, slots=True)
class Block:
    """An axis of the grid: which of those that the rows run along, its rule, and its channels."""

    place: int
    axis: Axis
    width: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class Plan:
    """A table on a grid: the cells along each axis in the order of the rows, and its blocks in channel order."""

    cells: Mapping[str, int]
    blocks: tuple[Block, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.cells.values())


def plan(params: GridTable, cells: Mapping[str, int], widths: Mapping[str, int]) -> Plan:
    """The plan of a table; `widths` are in channel order."""
    order = [name for name in CELLS if name in cells]
    rules = dict(zip(order, axes_of(params, tuple(cells[name] for name in order)), strict=True))
    columns = arranged(list(widths.values()), params.layout)
    blocks = [
        Block(list(cells).index(name), rules[name], width, own)
        for (name, width), own in zip(widths.items(), columns, strict=True)
    ]
    for block in blocks:
        _refuse_far(params, block, list(cells.values())[block.place])
    return Plan(cells, tuple(blocks))


def power_table(base: float, arithmetic: str, frequency_shift: float = 0.0) -> SinusoidalTable:
    """Frequencies base^(-k / (pairs - frequency_shift)); in float32 by its power, as all code for grids has it."""
    given: dict[str, Any] = {"base": base, "frequency_shift": frequency_shift, "odd_width": "refuse"}
    if arithmetic == "float32":
        given |= {"arithmetic": "float32", "frequency_form": "power"}
    return SinusoidalTable(**given)


def detr_writer(base: float, width: int, arithmetic: str, scale: Number = 1) -> Writer:
    """What writes the channels of one coordinate, `scale` times it, as DETR: in float32 divided by powers, and the
    scale is the caller's."""
    if arithmetic == "float32":
        return Divided(float32_periods(base, width, width // 2))
    return Exact(Waves(frequencies(power_table(base, arithmetic), width) * scale))


def _table(params: GridTable) -> SinusoidalTable:
    return power_table(params.base, params.arithmetic, params.frequency_shift)


def _refuse_far(params: GridTable, block: Block, cells: int) -> None:
    """Refuse frequencies and coordinates that cannot be computed."""
    fast, ratio = fastest(_table(params), block.width), block.axis.ratio
    name = "interpolation_scale" if params.base_size is None else "base_size"
    pairs = block.width // 2
    slow = -log2(params.base) * (pairs - 1) / (pairs - params.frequency_shift)
    bits = log2(ratio)
    if not SLOWEST_BITS <= min(slow, 0) + bits <= log2(fast) + bits <= FASTEST_BITS:
        detail = f"{name} multiplies the coordinates by about 2^{bits:.0f}; with this base that cannot be computed"
        raise Refusal(name, "out_of_range", detail)
    farthest = float((cells + block.axis.first) * ratio)
    if params.arithmetic != "exact" and farthest > LARGEST_EXACT_INTEGER:
        detail = f"{name} makes coordinates of about {farthest:.3g}; arithmetic={params.arithmetic} takes 2^53 at most"
        raise Refusal(name, "out_of_range", detail)


@dataclass(frozen=True, slots=True)
class State:
    """A table's plan, and what writes each of its blocks."""

    plan: Plan
    writers: tuple[Writer, ...]


def grid_scheme(
    *,
    name: str,
    title: str,
    description: str,
    reference: str,
    params: type[P],
    cells: Callable[[P], Mapping[str, int]],
    widths: Callable[[P], Mapping[str, int]],
    examples: tuple[Example, ...],
    used_by: tuple[Usage, ...],
) -> Scheme[P, State]:
    """A scheme of tables on a grid.

    `cells(params)`   the cells along each axis, in the order in which the rows run along them
    `widths(params)`  the channels of each axis, even numbers, in channel order
    """

    def planned(given: P) -> Plan:
        return plan(given, cells(given), widths(given))

    def tensors(given: P, _inputs: Inputs) -> Tensors:
        _refuse_conflicts(given)
        table = planned(given)
        axes, shape = tuple(table.cells), table.shape
        if given.grid_axes == "flat":
            axes, shape = ("position",), (given.class_tokens + prod(shape),)
        return {"encoding": Tensor((*axes, "channel"), (*shape, given.dim), given.dtype)}

    def prepare(given: P, _inputs: Inputs) -> State:
        table = planned(given)
        return State(table, tuple(_writer(given, block) for block in table.blocks))

    def facts(given: P, _inputs: Inputs) -> Facts:
        return {f"{axis}_channels": width for axis, width in widths(given).items()}

    def state_bytes(given: P, _inputs: Inputs) -> int:
        return WAVE_BYTES * sum(widths(given).values()) // 2

    def resolve(given: P, _inputs: Inputs) -> P:
        lists = {axis: getattr(given, axis) for axis in ("grid", "base_size", "interpolation_scale", "max_grid")}
        count = len(cells(given))
        full = {axis: per_axis(numbers, count, axis) for axis, numbers in lists.items() if numbers is not None}
        return given.model_copy(update=full)

    return Scheme(
        family="encodings",
        name=name,
        title=title,
        description=description,
        reference=reference,
        params=params,
        rounding="correct",
        tensors=tensors,
        prepare=prepare,
        rows=_rows,
        facts=facts,
        notes=lambda given, _inputs: _notes(given),
        sequence=lambda given, _inputs: Rows(given, 0),
        state_bytes=state_bytes,
        resolve=resolve,
        examples=examples,
        used_by=used_by,
        properties={
            "learned parameters": "none",
            "extrapolates": "defined at any coordinate; base_size keeps the coordinates of the trained grid",
            "memory per head": "none: one table of cells * dim values serves all heads",
        },
    )


def _refuse_conflicts(params: GridTable) -> None:
    if params.class_tokens and params.grid_axes == "kept":
        detail = f"class_tokens is {params.class_tokens}; rows before the cells need grid_axes=flat"
        raise Refusal("class_tokens", "conflict", detail)


def _writer(params: GridTable, block: Block) -> Writer:
    if params.arithmetic == "float32":
        return table_angles(_table(params), block.width)
    ratio = block.axis.ratio if params.arithmetic == "exact" else 1
    return Exact(Waves(frequencies(_table(params), block.width) * ratio))


def _rows(params: GridTable, _inputs: Inputs, state: State, _tensor: str, start: int, stop: int) -> Array:
    out = np.empty((stop - start, params.dim), DTYPES[params.dtype])
    tokens = min(max(0, params.class_tokens - start), len(out))
    out[:tokens] = 0
    if tokens < len(out):
        _write_cells(params, state, start + tokens - params.class_tokens, out[tokens:])
    return out


def _write_cells(params: GridTable, state: State, start: int, out: Array) -> None:
    for block, writer in zip(state.plan.blocks, state.writers, strict=True):
        indices, places = along(state.plan.shape, block.place, start, start + len(out))
        at = block.axis.cells(indices) if params.arithmetic == "exact" else block.axis.singles(indices)
        write_axis(writer, at, places, block.columns, block.width // 2, out)
    out[:, sum(block.width for block in state.plan.blocks) :] = 0


def _notes(params: GridTable) -> list[str]:
    notes = {"float32": [FLOAT32_NOTE], "float32-coordinates": [COORDINATES_NOTE]}
    return notes.get(params.arithmetic, [])
