"""What a picture shows of some tensors, known from their axes and shapes alone: panels, and which cells of them.

Tensors of equal axes, shape, number format and quantity are one group: they share a colour scale. The last two axes are
a panel, or the two before the last where these are a plane (`PLANES`); a single axis, or one beside an axis of one
index, is a profile; every index of the other axes has a panel of its own. What does not fit is left out evenly: every
third row, every fifth head. Values are never blended, so each cell is one value of the answer; the steps along a
panel's axes and from channel to channel are odd, so that channels which alternate (sine, cosine, sine, ...) stay mixed;
and those along its axes are equal where both count the same, so that a diagonal stays one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from service.formats.format import Tensors, TensorSpec
from service.formats.pictures.sheet import Sheet

Like = Literal["together", "apart"]
PROFILE_HEIGHT = 200
LARGEST_CELL = 32
MOST_GROUPS = 6
FEW_PANELS = 12
FEW_NUMBERED = 4
# Cells are squares unless that would waste most of the room.
SQUARE_ASPECT = 4
# How wide letters of a panel's name are on average, as a part of their size.
LETTER = 0.56
# Axes that are looked at together, one picture for each channel that follows them.
PLANES = {("height", "width"), ("width", "height"), ("row", "column"), ("query", "key"), ("position", "frequency")}
# Axes of which one step is as far as one of the other.
ALIKE = {("query", "key"), ("height", "width"), ("width", "height"), ("row", "column"), ("position", "other")}


@dataclass(frozen=True, slots=True)
class Steps:
    """Indices 0, stride, 2 stride, ... of an axis."""

    length: int
    stride: int

    @property
    def shown(self) -> int:
        return -(-self.length // self.stride)


@dataclass(frozen=True, slots=True)
class Panels:
    """How the panels of a group are laid out, and what each of them shows."""

    count: int
    across: int
    rows: Steps
    columns: Steps
    cell: tuple[int, int]
    gap: tuple[int, int]
    least_pitch: int

    @property
    def down(self) -> int:
        return -(-self.count // self.across)

    @property
    def panel(self) -> tuple[int, int]:
        return self.columns.shown * self.cell[0], self.rows.shown * self.cell[1]

    @property
    def pitch(self) -> int:
        """From the beginning of a panel to where the next might begin."""
        return self.panel[0] if self.across == 1 else max(self.panel[0], self.least_pitch)

    @property
    def size(self) -> tuple[int, int]:
        """Of all panels and the gaps between them, in pixels."""
        across, down = self.gap
        return self.across * (self.pitch + across) - across, self.down * (self.panel[1] + down) - down


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that share a colour scale."""

    names: tuple[str, ...]
    spec: TensorSpec
    leading: Steps
    trailing: Steps
    panels: Panels

    @property
    def is_plane(self) -> bool:
        """Whether the last axis is one of panels."""
        return self.spec.axes[-3:-1] in PLANES

    @property
    def is_profile(self) -> bool:
        return _is_profile(self.spec)

    @property
    def axes(self) -> tuple[str, str]:
        """What rows and columns are."""
        if self.is_profile and len(self.spec.axes) > 1:
            return "", self.spec.axes[0]
        *_, rows, columns = ("", "", *(self.spec.axes[:-1] if self.is_plane else self.spec.axes))
        return rows, columns

    @property
    def leading_axes(self) -> tuple[str, ...]:
        return self.spec.axes[: -3 if self.is_plane else -2]


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups that are shown, and the names of the tensors for which there is no room."""

    groups: tuple[Group, ...]
    left_out: tuple[str, ...]


def plan(
    tensors: Tensors, sheet: Sheet, like: Like = "together", quantities: Mapping[str, str] = MappingProxyType({})
) -> Plan:
    """Everything about a picture but its colours and letters; tensors that look alike share a group, or do not.

    Those of which it is said what their values are share one with their like, however large these are.
    """
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, spec in tensors.items():
        if 0 not in spec.shape:
            own = "" if like == "together" else name
            key = (spec.axes, spec.shape, spec.dtype, quantities.get(name, own))
            alike.setdefault(key, []).append(name)
    groups = [_group(names, tensors, sheet) for names in list(alike.values())[:MOST_GROUPS]]
    shown = {name for group in groups for name in group.names}
    return Plan(tuple(groups), tuple(name for name in tensors if name not in shown))


def _group(names: list[str], tensors: Mapping[str, TensorSpec], sheet: Sheet) -> Group:
    spec = tensors[names[0]]
    pitch = _least_pitch(names if len(tensors) > 1 else [], spec, sheet)
    names = names[: _most_across(FEW_PANELS + 1, pitch, sheet) * sheet.most_down]
    # A plane's last axis is set aside, and the rest is as if there were none.
    *outer, last = (1, *spec.shape) if spec.axes[-3:-1] in PLANES else (1, *spec.shape, 1)
    *leading, rows, columns = (1, 1, *outer)
    is_profile = _is_profile(spec)
    most = _most_across(FEW_PANELS + 1, pitch, sheet) * sheet.most_down // len(names)
    before = Steps(math.prod(leading), -(-math.prod(leading) // most))
    after = _fitted(last, most // before.shown)
    count = len(names) * before.shown * after.shown
    if is_profile and len(spec.shape) > 1:
        rows, columns = columns, rows
    far = (spec.axes[:-1] if spec.axes[-3:-1] in PLANES else spec.axes)[-2:]
    gap = (sheet.numbered_gap if len(names) == count <= FEW_NUMBERED else sheet.gap[0], sheet.gap[1])
    arranging = _Arranging(sheet, pitch, count, rows, columns, tuple(far) in ALIKE, gap)
    return Group(tuple(names), spec, before, after, arranging.profiles() if is_profile else arranging.heatmaps())


def _is_profile(spec: TensorSpec) -> bool:
    """One row or column of numbers is drawn as heights; one of truth values stays cells."""
    is_column = len(spec.shape) == 2 and spec.shape[1] == 1 < spec.shape[0]
    return spec.dtype != "bool" and (len(spec.shape) < 2 or is_column)


def _least_pitch(names: list[str], spec: TensorSpec, sheet: Sheet) -> int:
    """Room for what a panel is called: a tensor, and its place on each outer axis."""
    is_plane = spec.axes[-3:-1] in PLANES
    axes = [*zip(spec.axes, spec.shape, strict=True)]
    outer = [*axes[:-3], axes[-1]] if is_plane else axes[:-2]
    told = [f"{axis} {length - 1}" for axis, length in outer]
    longest = len(", ".join([*([max(names, key=len)] if names else []), *told]))
    return max(sheet.least_pitch, int(longest * sheet.subtitle * LETTER) - sheet.gap[0] + 4)


def _most_across(count: int, pitch: int, sheet: Sheet) -> int:
    """How many panels there is room for side by side."""
    few, many = sheet.most_across
    most = few if count <= FEW_PANELS else many
    return max(1, min(most, (sheet.room[0] + sheet.gap[0]) // (pitch + sheet.gap[0])))


@dataclass(frozen=True, slots=True)
class _Arranging:
    """So many panels of so many rows and columns, to be put on a sheet."""

    sheet: Sheet
    pitch: int
    count: int
    rows: int
    columns: int
    alike: bool
    gap: tuple[int, int]

    def heatmaps(self) -> Panels:
        """The arrangement that gives cells the most room."""
        most = min(self.count, _most_across(self.count, self.pitch, self.sheet))
        choices = [self._heatmaps(across) for across in range(1, most + 1)]
        lowest = min(each.size[1] for each in choices)
        fitting = [each for each in choices if each.size[1] <= max(lowest, self.sheet.tallest)]
        return max(fitting, key=lambda each: (math.prod(each.panel), each.across))

    def _heatmaps(self, across: int) -> Panels:
        down = -(-self.count // across)
        height = max(self.sheet.least_height, (self.sheet.room[1] - (down - 1) * self.gap[1]) // down)
        width = self._width(across)
        x, y = _fitted(self.columns, width), _fitted(self.rows, height)
        if self.alike and _squarish(self.rows, self.columns):
            stride = max(x.stride, y.stride)
            x, y = Steps(self.columns, stride), Steps(self.rows, stride)
        cell = (min(LARGEST_CELL, width // x.shown), min(LARGEST_CELL, height // y.shown))
        if _squarish(x.shown, y.shown):
            stretch = 1 if self.alike else self.sheet.stretch
            cell = (min(cell[0], stretch * cell[1]), min(cell[1], stretch * cell[0]))
        return Panels(self.count, across, y, x, cell, self.gap, self.pitch)

    def profiles(self) -> Panels:
        """As many side by side as usual, or as there is room for where their columns are as wide as can be."""
        room, gap = self.sheet.room[0], self.gap[0]
        fit = (room + gap) // (max(self.pitch, self.columns * LARGEST_CELL) + gap)
        across = min(self.count, max(self.sheet.profiles_across, fit))
        across = -(-self.count // -(-self.count // across))  # as many in each row
        steps = _fitted(self.columns, self._width(across))
        cell = (min(LARGEST_CELL, self._width(across) // steps.shown), 1)
        return Panels(self.count, across, Steps(PROFILE_HEIGHT, 1), steps, cell, self.gap, self.pitch)

    def _width(self, across: int) -> int:
        """Of a panel."""
        return (self.sheet.room[0] - (across - 1) * self.gap[0]) // across


def _squarish(rows: int, columns: int) -> bool:
    return max(rows, columns) <= SQUARE_ASPECT * min(rows, columns)


def _fitted(length: int, room: int) -> Steps:
    """The smallest odd step with which there is room: for a cell in a pixel, for a channel in a panel."""
    step = -(-length // room)
    return Steps(length, step if step % 2 else step + 1)
