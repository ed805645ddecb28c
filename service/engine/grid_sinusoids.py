"""Sinusoidal tables on a grid: what the schemes of every number of axes share.

A table on a grid is separable: a channel depends on the coordinate along one axis alone. So the sines and cosines of an
axis are computed once for each of its coordinates that a block of rows touches, and copied to the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2, prod
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from pydantic import Field

from service.engine.arithmetics import FLOAT32_NOTE, Divided, Exact, Float32
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, SLOWEST_BITS, wave_bytes
from service.engine.grids import Axis, GridCoordinates, Indices, along, axes_of, per_axis
from service.engine.numbers.reals import Number, Reals
from service.engine.numbers.single import Singles, float32_frequencies, float32_periods
from service.engine.positions import Values
from service.engine.quantities import LARGEST_EXACT_INTEGER, Base, Dim, DType, FrequencyShift, Integer
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage, own_table
from service.engine.sinusoids import SinusoidalTable, fastest, frequencies, spread
from service.engine.waves import Waves

GridLayout = Annotated[
    Literal["sin-cos", "cos-sin", "interleaved", "sines-first"],
    Field(
        description="Channel order within the block of an axis: `sin-cos` all sines then all cosines; `cos-sin` the "
        "reverse; `interleaved` sin, cos, sin, cos, ...; `sines-first` has no such blocks: the sines of all axes, then "
        "the cosines of all axes."
    ),
]
AxisOrder = Annotated[
    Literal["h-first", "w-first"],
    Field(
        description="Whose channels come first: `h-first` those of the row index y; `w-first` those of the column "
        "index x (MAE, whatever its variables are called)."
    ),
]
GridAxes = Annotated[
    Literal["flat", "kept"],
    Field(description="`flat`: one axis of all cells, (position, channel); `kept`: the axes of the grid."),
]
ChannelAxis = Annotated[
    Literal["last", "first"],
    Field(description="`last`: a row of channels for every cell; `first`: the channel axis before those of the grid."),
]
CELLS = ("frames", "height", "width")
TWO_PI = 6.283185307179586  # the float64 that Python code has for 2 pi
COORDINATES_NOTE = (
    "arithmetic=float32-coordinates rounds the coordinates to float32 step by step, as diffusers does; "
    "the rest is exact"
)


def usages_of_any_grid(axes: int) -> tuple[Usage, ...]:
    """The conventions of libraries that have grids of every number of axes."""
    kept = {"grid_axes": "kept"}
    interleaved = {"layout": "interleaved", "channel_split": "rounded-up", **kept, "arithmetic": "float32"}
    name = "positional-encodings"
    return (
        Usage(f"{name} PositionalEncoding{axes}D", interleaved, name),
        Usage(f"{name} PositionalEncodingPermute{axes}D", interleaved | {"channel_axis": "first"}, f"{name}-permute"),
        Usage(
            "tensor2tensor add_timing_signal_nd",
            {"frequency_shift": "1", "channel_split": "rounded-down", **kept},
            "tensor2tensor",
        ),
    )


class GridTable(GridCoordinates):
    """What decides a sinusoidal table on a grid, apart from the grid and the shares of its axes."""

    dim: Dim
    base: Base = 10_000.0
    frequency_shift: Annotated[
        FrequencyShift,
        Field(
            description="w_k = base^(-k / (pairs - frequency_shift)), `pairs` those of an axis: 0, or 1 as big_vision."
        ),
    ] = 0.0
    layout: GridLayout = "sin-cos"
    class_tokens: Annotated[
        Integer, Field(ge=0, le=65_536, description="Rows of zeros before the cells, for class or other extra tokens.")
    ] = 0
    grid_axes: GridAxes = "flat"
    channel_axis: ChannelAxis = "last"
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


@dataclass(frozen=True, slots=True)
class Pairs:
    """The frequencies (or periods) of an axis, and what writes the waves of some of them."""

    series: Reals | Singles
    kind: Callable[[Any], Writer]

    def __len__(self) -> int:
        return len(self.series)

    def writer(self, some: slice = slice(None)) -> Writer:
        """What writes those pairs."""
        return self.kind(self.series[some])


def exactly(series: Reals) -> Writer:
    """Real frequencies, rounded once."""
    return Exact(Waves(series))


class Layer(NamedTuple):
    """The channels of one axis: their frequencies, what writes them all, and where they go.

    `placed(start, stop)` are the positions of those cells along the axis, and the place of each cell's among them.
    """

    pairs: Pairs
    writer: Writer
    columns: Columns
    placed: Callable[[int, int], tuple[Values, Indices]]


def write_cells(layers: Sequence[Layer], start: int, out: Array) -> None:
    """The cells `start`, ... of a table into `out` (cells, channels); what belongs to no axis is 0."""
    for pairs, writer, columns, placed in layers:
        at, places = placed(start, start + len(out))
        sines, cosines = np.empty((2, len(at), len(pairs)), out.dtype)
        writer.write(at, cosines, sines)
        for wave, channels in ((sines, columns.sines), (cosines, columns.cosines)):
            part = out[:, channels]
            part[...] = wave.take(places, axis=0)[:, : part.shape[1]]
    out[:, 2 * sum(len(layer.pairs) for layer in layers) :] = 0


def write_planes(layers: Sequence[Layer], dim: int, cells: int, start: int, out: Array) -> None:
    """The rows `start`, ... of (…, channel, lines of cells) into `out` (rows, cells of a line).

    Whole channels go together as far as the rows reach, a part of one alone.
    """
    lines, row = cells // out.shape[1], 0
    while row < len(out):
        plane, line = divmod(start + row, lines)
        image, channel = divmod(plane, dim)
        left = len(out) - row
        alone = line > 0 or left < lines
        planes, count = (1, min(lines - line, left)) if alone else (min(left // lines, dim - channel), lines)
        piece = out[row : row + planes * count].reshape(planes, -1)
        _write_some(layers, channel, image * cells + line * out.shape[1], piece.T)
        row += planes * count


def _write_some(layers: Sequence[Layer], first: int, start: int, out: Array) -> None:
    """Some channels, from `first` on, of the cells `start`, ... into `out` (cells, channels)."""
    out[...] = 0
    for layer in layers:
        at, places = layer.placed(start, start + len(out))
        for sine, channels in ((True, layer.columns.sines), (False, layer.columns.cosines)):
            some, where = _overlap(channels, len(layer.pairs), first, out.shape[1])
            if some.start < some.stop:
                wave = np.empty((len(at), some.stop - some.start), out.dtype)
                layer.pairs.writer(some).write(at, *((None, wave) if sine else (wave, None)))
                out[:, where] = wave.take(places, axis=0)


def _overlap(channels: slice, count: int, first: int, width: int) -> tuple[slice, slice]:
    """Which of an axis's pairs have their channel among `width` from `first` on, and where there.

    >>> _overlap(slice(1, 9, 2), 4, 4, 3)
    (slice(2, 3, None), slice(1, 3, 2))
    """
    step = channels.step or 1
    low = max(0, -((channels.start - first) // step))
    high = min(count, -((channels.start - first - width) // step))
    begin = channels.start + low * step - first
    return slice(low, high), slice(begin, begin + (high - low) * step, step)


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


def detr_pairs(base: float, width: int, arithmetic: str, scale: Number = 1) -> Pairs:
    """The pairs of one coordinate of that many channels, `scale` times it, as DETR: in float32 it is divided by powers,
    and the scale is the caller's."""
    if arithmetic == "float32":
        return Pairs(float32_periods(base, width, width // 2), Divided)
    return Pairs(frequencies(power_table(base, arithmetic), width) * scale, exactly)


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
    """A table's plan, and the pairs of each of its blocks with what writes them."""

    plan: Plan
    pairs: tuple[Pairs, ...]
    writers: tuple[Writer, ...]


def grid_scheme(
    *,
    name: str,
    title: str,
    explanation: str,
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
        return {"encoding": with_channels(axes, shape, given.dim, given.channel_axis, given.dtype)}

    def prepare(given: P, _inputs: Inputs) -> State:
        table = planned(given)
        pairs = tuple(_pairs(given, block) for block in table.blocks)
        return State(table, pairs, tuple(each.writer() for each in pairs))

    def facts(given: P, _inputs: Inputs) -> Facts:
        return {f"{axis}_channels": width for axis, width in widths(given).items()}

    def state_bytes(given: P, _inputs: Inputs) -> int:
        return wave_bytes(sum(widths(given).values()))

    def resolve(given: P, _inputs: Inputs) -> P:
        lists = {axis: getattr(given, axis) for axis in ("grid", "base_size", "interpolation_scale", "max_grid")}
        count = len(cells(given))
        full = {axis: per_axis(numbers, count, axis) for axis, numbers in lists.items() if numbers is not None}
        return given.model_copy(update=full)

    return Scheme(
        family="encodings",
        name=name,
        title=title,
        explanation=explanation,
        description=description,
        reference=reference,
        params=params,
        rounding="correct",
        tensors=tensors,
        sequence=own_table,
        prepare=prepare,
        rows=_rows,
        resolve=resolve,
        facts=facts,
        notes=lambda given, _inputs: _notes(given),
        state_bytes=state_bytes,
        examples=examples,
        used_by=used_by,
        properties={
            "distance": "along each axis apart, as a model learns to use it",
            "caching": "added once, before the first layer",
            "implementation": "one table, added once",
            "learned parameters": "none",
            "extrapolates": "defined at any coordinate; base_size keeps the coordinates of the trained grid",
            "memory per head": "none: one table of cells * dim values serves all heads",
        },
    )


def with_channels(
    axes: tuple[str, ...], shape: tuple[int, ...], dim: int, channel_axis: str, dtype: str, batch: tuple[int, ...] = ()
) -> Tensor:
    """A table of cells with its channel axis last, or first of all but the batch.

    >>> with_channels(("height", "width"), (2, 3), 8, "first", "float32").axes
    ('channel', 'height', 'width')
    """
    before: tuple[str, ...] = ("batch",) if batch else ()
    if channel_axis == "first":
        return Tensor((*before, "channel", *axes), (*batch, dim, *shape), dtype)
    return Tensor((*before, *axes, "channel"), (*batch, *shape, dim), dtype)


def _refuse_conflicts(params: GridTable) -> None:
    for name, needed in (("grid_axes", "flat"), ("channel_axis", "last")):
        if params.class_tokens and getattr(params, name) != needed:
            detail = f"class_tokens is {params.class_tokens}; rows before the cells need {name}={needed}"
            raise Refusal("class_tokens", "conflict", detail)


def _pairs(params: GridTable, block: Block) -> Pairs:
    table = _table(params)
    if params.arithmetic == "float32":
        divisor = float(2 * spread(table, block.width))
        return Pairs(float32_frequencies(params.base, divisor, block.width // 2, form="power"), Float32)
    ratio = block.axis.ratio if params.arithmetic == "exact" else 1
    return Pairs(frequencies(table, block.width) * ratio, exactly)


def _rows(params: GridTable, _inputs: Inputs, state: State, _tensor: str, start: int, stop: int) -> Array:
    dtype, layers = DTYPES[params.dtype], _layers(params, state)
    if params.channel_axis == "first":
        cells = prod(state.plan.shape)
        line = state.plan.shape[-1] if params.grid_axes == "kept" else cells
        planes = np.empty((stop - start, line), dtype)
        write_planes(layers, params.dim, cells, start, planes)
        return planes
    out = np.empty((stop - start, params.dim), dtype)
    tokens = min(max(0, params.class_tokens - start), len(out))
    out[:tokens] = 0
    if tokens < len(out):
        write_cells(layers, start + tokens - params.class_tokens, out[tokens:])
    return out


def _layers(params: GridTable, state: State) -> list[Layer]:
    blocks = zip(state.plan.blocks, state.pairs, state.writers, strict=True)
    return [
        Layer(pairs, writer, block.columns, partial(_placed, params.arithmetic, state.plan.shape, block))
        for block, pairs, writer in blocks
    ]


def _placed(arithmetic: str, shape: tuple[int, ...], block: Block, start: int, stop: int) -> tuple[Values, Indices]:
    indices, places = along(shape, block.place, start, stop)
    return (block.axis.cells if arithmetic == "exact" else block.axis.singles)(indices), places


def _notes(params: GridTable) -> list[str]:
    notes = {"float32": [FLOAT32_NOTE], "float32-coordinates": [COORDINATES_NOTE]}
    return notes.get(params.arithmetic, [])
