"""How the rows of a table are made of base rows and offset rows, and how what that leaves open is looked at again."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from service.engine.numbers.blocks import Block, Grid, NarrowGrid, Places
from service.engine.numbers.pairs import Floats, Pair
from service.engine.numbers.sines import Indices

# Values, and their errors, by row of the table, channel and waveform.
Look = Callable[[Indices, Indices, Indices], tuple[Pair, Floats]]
# Which base row and which offset row rows of the table are made of.
Where = Callable[[Indices], tuple[Indices, Indices]]


class Plan(NamedTuple):
    """The blocks of a table, and two ways to look at a value again: one that is worth it for many values at a time, if
    there is one, and a closer one."""

    grid: NarrowGrid
    blocks: Iterator[Block]
    closely: Look
    narrowly: Look | None = None

    @classmethod
    def of(cls, grid: Grid, blocks: Iterator[Block], where: Where) -> "Plan":
        """With the rows of the grid, which are in double-double."""

        def narrowly(rows: Indices, channels: Indices, forms: Indices) -> tuple[Pair, Floats]:
            return grid.narrow(Places(forms, channels, *where(rows)))

        def closely(rows: Indices, channels: Indices, forms: Indices) -> tuple[Pair, Floats]:
            return grid.closely(Places(forms, channels, *where(rows)))

        return cls(grid, blocks, closely, narrowly)


def bases_of(positions: range, stride: int) -> range:
    """Which base rows consecutive positions are made of."""
    return range(positions[0] // stride, positions[-1] // stride + 1)


def consecutive(positions: range, stride: int, before: int) -> Iterator[Block]:
    """Blocks of one base row each and a run of offset rows; `before` is the number of the grid's first base row."""
    first, last = positions[0], positions[-1]
    for base in bases_of(positions, stride):
        origin = base * stride
        start, stop = max(first, origin), min(last + 1, origin + stride)
        yield Block(slice(start - first, stop - first), base - before, slice(start - origin, stop - origin))
