"""Patches of images and videos: which row of a table is which patch, and where it lies on each axis.

Along an axis of n patches the patch with index i is at numerator(i) * ratio, an integer times a fraction: the integer
is what cosines and sines are taken of, and the fraction goes into the frequencies, so that nothing is rounded before.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from service.engine.attention.attending import Integers
from service.engine.errors import Refusal
from service.engine.grids import per_axis
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer, listed_integers, listed_reals
from service.engine.scheme import Params

MOST_PATCHES_ALONG = 2**40
MOST_OFFSET = 2**40

Side = Annotated[int, Field(ge=1, le=MOST_PATCHES_ALONG)]
Sides = Annotated[tuple[Side, ...], BeforeValidator(listed_integers("sizes", "4,6")), Field(min_length=1, max_length=4)]


class Patches(Params):
    """Parameters that lay tokens out on a grid of patches."""

    grid: Annotated[
        Sides | None, Field(description="Patches along each axis: height,width or frames,height,width.")
    ] = None
    coordinates: Annotated[
        Literal["integer", "centred", "unit-centres", "unit-ends", "floor", "share"],
        Field(
            description="Where patch i of n lies: `integer` i; `centred` i - ceil(n/2) on the last two axes; "
            "`unit-centres` (2i + 1)/n - 1; `unit-ends` 2i/(n - 1) - 1; `floor` floor(i * base_size / n); `share` "
            "i / (interpolation_scale * base_size) - 1/2 (LTX)."
        ),
    ] = "integer"
    offset: Annotated[
        Integer,
        Field(
            ge=-MOST_OFFSET,
            le=MOST_OFFSET,
            description="Position of the first patch on every axis (Llama 4: 1), for integer coordinates.",
        ),
    ] = 0
    base_size: Annotated[
        Sides | None,
        Field(description="Scales the coordinates to a grid of that size: multiplied by base_size / grid."),
    ] = None
    interpolation_scale: Annotated[
        tuple[Annotated[float, Field(ge=1e-6, le=1e6)], ...],
        BeforeValidator(listed_reals("numbers")),
        Field(
            min_length=1,
            max_length=4,
            description="Divides the positions: one number, or one for each axis (1.25,1,1 for video at 30 frames a "
            "second where the model knows 24).",
        ),
    ] = (1.0,)
    spatial_merge_size: Annotated[
        Integer,
        Field(
            ge=1,
            le=64,
            description="Order of the patches: 1 row by row; m in blocks of m x m, as models have it that merge them.",
        ),
    ] = 1
    class_token: Annotated[
        Literal["none", "first", "last"],
        Field(description="A row for a class token, which is not turned: before or after the patches."),
    ] = "none"


# What says nothing where the positions are in the body.
OF_GRIDS = ("grid", "coordinates", "offset", "base_size", "spatial_merge_size", "class_token")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid of `count` patches."""

    kind: str
    count: int
    first: int
    ratio: Fraction
    base: int
    scale: Fraction

    def numerators(self, indices: Integers) -> Integers:
        """What the indices of patches stand for, to be multiplied by `ratio`."""
        if self.kind == "unit-centres":
            return 2 * indices + 1 - self.count
        if self.kind == "unit-ends":
            return 2 * indices - max(1, self.count - 1)
        if self.kind == "floor":
            return indices * self.base // self.count
        if self.kind == "share":
            return 2 * self.scale.denominator * indices - self.base * self.scale.numerator
        return indices + self.first


def grid_axes(params: Patches, grid: tuple[int, ...]) -> tuple[Axis, ...]:
    """The axes of a grid; refuses conventions that it cannot be laid out in."""
    axes = len(grid)
    bases = grid if params.base_size is None else params.base_size
    if len(bases) != axes:
        detail = f"base_size holds {len(bases)} sizes; the grid has {axes} axes"
        raise Refusal("base_size", "shape", detail, limit=axes, requested=len(bases))
    if params.coordinates in ("floor", "share") and params.base_size is None:
        detail = f"base_size is missing: coordinates={params.coordinates} measures the grid by one of that size"
        raise Refusal("base_size", "missing", detail)
    if params.coordinates == "floor" and max(grid) * max(bases) > LARGEST_EXACT_INTEGER:
        detail = "grid * base_size is beyond 2^53: coordinates=floor multiplies the two"
        raise Refusal("base_size", "out_of_range", detail, limit=LARGEST_EXACT_INTEGER)
    if params.offset and params.coordinates not in ("integer", "centred"):
        raise Refusal("offset", "conflict", f"offset is for integer coordinates; they are {params.coordinates}")
    _refuse_blocks(params.spatial_merge_size, grid)
    found = tuple(
        _axis(params, count, base, scale, last_two=index >= axes - 2)
        for index, (count, base, scale) in enumerate(zip(grid, bases, scales_of(params, axes), strict=True))
    )
    _refuse_odd_shares(found)
    return found


def scales_of(params: Patches, axes: int) -> tuple[Fraction, ...]:
    """What divides the positions on each axis."""
    return tuple(Fraction(scale) for scale in per_axis(params.interpolation_scale, axes, "interpolation_scale"))


def _refuse_odd_shares(axes: tuple[Axis, ...]) -> None:
    """Refuse scales whose multiples float64 does not count."""
    for axis in axes:
        reach = 2 * axis.scale.denominator * axis.count + axis.base * axis.scale.numerator
        if axis.kind == "share" and reach > LARGEST_EXACT_INTEGER:
            detail = (
                f"interpolation_scale is {float(axis.scale):g}, in float64 no simple fraction: coordinates=share takes "
                "such as 3.125; else send positions in the body"
            )
            raise Refusal("interpolation_scale", "value", detail)


def _refuse_blocks(merge: int, grid: tuple[int, ...]) -> None:
    if merge > 1 and (len(grid) < 2 or grid[-1] % merge or grid[-2] % merge):
        shown = " x ".join(map(str, grid))
        detail = f"spatial_merge_size is {merge}; the grid {shown} cannot be cut into blocks of {merge} x {merge}"
        raise Refusal("spatial_merge_size", "value", detail)


def _axis(params: Patches, count: int, base: int, scale: Fraction, *, last_two: bool) -> Axis:
    kind = params.coordinates
    if kind == "share":
        return Axis(kind, count, 0, 1 / (2 * base * Fraction(scale.numerator)), base, scale)
    ratio = Fraction(base, count) if kind != "floor" else Fraction(1)
    if kind == "unit-centres":
        ratio /= count
    if kind == "unit-ends":
        ratio /= max(1, count - 1)
    first = params.offset - (count - count // 2 if kind == "centred" and last_two else 0)
    return Axis(kind, count, first, ratio / scale, base, scale)


def patch_count(params: Patches, grid: tuple[int, ...]) -> int:
    """How many rows the patches and the class token have; refuses more than float64 counts."""
    count = prod(grid) + (params.class_token != "none")
    if count > LARGEST_EXACT_INTEGER:
        detail = f"the grid has {prod(grid)} patches; 2^53 will do"
        raise Refusal("grid", "out_of_range", detail, limit=LARGEST_EXACT_INTEGER)
    return count


def numerators(params: Patches, grid: tuple[int, ...], axis: int, start: int, stop: int) -> Integers:
    """The numerators along one axis of rows `start` to `stop`: 0 for a class token.

    >>> numerators(Patches(class_token="last"), (2, 3), 1, 0, 7).tolist()
    [0, 1, 2, 0, 1, 2, 0]
    """
    rows = np.arange(start, stop) - (params.class_token == "first")
    total = prod(grid)
    inside = (rows >= 0) & (rows < total)
    indices = _indices(np.where(inside, rows, 0), grid, axis, params.spatial_merge_size)
    return np.where(inside, grid_axes(params, grid)[axis].numerators(indices), 0)


def _indices(rows: Integers, grid: tuple[int, ...], axis: int, merge: int) -> Integers:
    """Which patch along an axis a row is.

    >>> [_indices(np.arange(8), (2, 4), axis, 2).tolist() for axis in (0, 1)]
    [[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]]
    """
    if merge == 1 or axis < len(grid) - 2:
        return rows // prod(grid[axis + 1 :]) % grid[axis]
    across = axis == len(grid) - 1
    blocks, within = np.divmod(rows, merge * merge)
    block = blocks % (grid[-1] // merge) if across else blocks // (grid[-1] // merge) % (grid[-2] // merge)
    inside: Integers = within % merge if across else within // merge
    return block * merge + inside
