"""Positions on a grid of cells: the one place that says which cell a row is, and where it lies along each axis.

The cells of a grid (height, width) or (frames, height, width) are the rows of a table in C order: `along` gives their
indices along an axis. What coordinate an index has is a convention: `GridCoordinates` are its parameters, `axis` makes
of them the rule of one axis.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.positions import Values
from service.engine.quantities import GridSides, PerAxis
from service.engine.scheme import Params

Indices = NDArray[np.intp]
Number = TypeVar("Number", int, float)


class GridCoordinates(Params):
    """Parameters that say which coordinate a cell has along an axis, the same rule for every axis."""

    coordinates: Annotated[
        Literal["integer", "half-pixel"],
        Field(
            description="Of the cell with index i: `integer` i, its corner; `half-pixel` i + 1/2, its centre. "
            "Then base_size and interpolation_scale act."
        ),
    ] = "integer"
    base_size: Annotated[
        GridSides | None,
        Field(
            description="Scales the coordinates to a grid of that size: multiplied by base_size / cells. "
            "One number, or one for each axis in the order of `grid` (default: not scaled)."
        ),
    ] = None
    interpolation_scale: Annotated[
        PerAxis,
        Field(description="Divides the coordinates. One number, or one for each axis in the order of `grid`."),
    ] = (1.0,)
    max_grid: Annotated[
        GridSides | None,
        Field(
            description="The grid is the window in the middle of one of that size, and has its coordinates "
            "(pos_embed_max_size in diffusers). One number, or one for each axis (default: it stands alone)."
        ),
    ] = None


def per_axis(given: tuple[Number, ...], axes: int, name: str) -> tuple[Number, ...]:
    """One number for every axis; refuses other counts than one and one for each.

    >>> per_axis((4,), 2, "grid"), per_axis((4, 6), 2, "grid")
    ((4, 4), (4, 6))
    """
    if len(given) not in (1, axes):
        detail = f"{name} holds {len(given)} numbers; this grid has {axes} axes: give {axes}, or one for all"
        raise Refusal(name, "shape", detail, limit=axes, requested=len(given))
    return given * axes if len(given) == 1 else given


class Along(NamedTuple):
    """Indices along an axis, each once, and for every row the place of its own among them."""

    indices: range | Indices
    places: Indices


def along(shape: tuple[int, ...], axis: int, start: int, stop: int) -> Along:
    """The indices along one axis of rows `start` to `stop` of a grid in C order: no more of them than rows.

    >>> along((2, 3), 1, 2, 6)
    Along(indices=range(0, 3), places=array([2, 0, 1, 2]))
    """
    inner, count = prod(shape[axis + 1 :]), shape[axis]
    first, last = start // inner, (stop - 1) // inner
    indices = np.arange(start, stop, dtype=np.intp) // inner % count
    if first // count == last // count:
        span = range(first % count, last % count + 1)
    elif last - first + 1 >= count:
        span = range(count)
    else:
        return Along(*np.unique(indices, return_inverse=True))
    return Along(span, indices - span.start)


@dataclass(frozen=True, slots=True)
class Axis:
    """The coordinates along an axis: (index + first) / divisors, or in real numbers (index + first) * ratio."""

    first: Fraction
    divisors: tuple[float, ...]
    ratio: Fraction

    def cells(self, indices: range | Indices) -> Values:
        """index + first: positions that are to be multiplied by `ratio`, exactly."""
        if isinstance(indices, range) and self.first.denominator == 1:
            return range(indices.start + int(self.first), indices.stop + int(self.first))
        return np.asarray(indices, np.float64) + float(self.first)

    def singles(self, indices: range | Indices) -> Values:
        """The coordinates in float32, one rounding a step, as float64."""
        whole = int(self.first)
        coordinates = (np.asarray(indices, np.float64) + whole).astype(np.float32) + np.float32(self.first - whole)
        for divisor in self.divisors:
            coordinates = coordinates / np.float32(divisor)
        return coordinates.astype(np.float64)


def axes_of(params: GridCoordinates, grid: tuple[int, ...]) -> tuple[Axis, ...]:
    """The rule of each axis of that grid; refuses a grid that its `max_grid` does not hold.

    >>> axes_of(GridCoordinates(base_size=(16,)), (4, 6))[1].ratio
    Fraction(8, 3)
    """
    full = grid if params.max_grid is None else per_axis(params.max_grid, len(grid), "max_grid")
    if any(most < side for most, side in zip(full, grid, strict=True)):
        detail = f"max_grid is {','.join(map(str, full))}, smaller than the grid {','.join(map(str, grid))}"
        raise Refusal("max_grid", "out_of_range", detail)
    scales = per_axis(params.interpolation_scale, len(grid), "interpolation_scale")
    bases = full if params.base_size is None else per_axis(params.base_size, len(grid), "base_size")
    half = Fraction(params.coordinates == "half-pixel", 2)
    return tuple(
        Axis(half + (most - side) // 2, (most / base, scale), Fraction(base, most) / Fraction(scale))
        for side, most, base, scale in zip(grid, full, bases, scales, strict=True)
    )
