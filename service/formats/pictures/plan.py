"""What a picture shows of some tensors, known from their axes and shapes alone: panels, and which cells of them.

Tensors of equal axes, shape and number format are one group: they share a colour scale. The last two axes are a panel,
or the two before the last where these are a plane (`PLANES`); a single axis is a profile; every index of the other
axes has a panel of its own. What does not fit is left out evenly: every third row, every fifth head. Values are never
blended, so each cell is one value of the answer; the steps along a panel's axes are odd, so that channels which
alternate (sine, cosine, sine, ...) stay mixed; and they are equal where both axes count the same, so that a diagonal
stays one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from service.formats.format import Tensors, TensorSpec

WIDTH, HEIGHT = 1024, 512  # pixels for the cells of one group
LEAST_HEIGHT = 96
PROFILE_HEIGHT = 200
GAP_X, GAP_Y = 20, 26
LEAST_PITCH = 96  # room for a panel's name
LARGEST_CELL = 32
MOST_PANELS = 12
MOST_GROUPS = 6
# Cells are squares unless that would waste most of the room.
SQUARE_ASPECT = 4
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

    @property
    def down(self) -> int:
        return -(-self.count // self.across)

    @property
    def panel(self) -> tuple[int, int]:
        return self.columns.shown * self.cell[0], self.rows.shown * self.cell[1]

    @property
    def pitch(self) -> int:
        """From the beginning of a panel to where the next might begin."""
        return self.panel[0] if self.across == 1 else max(self.panel[0], LEAST_PITCH)

    @property
    def size(self) -> tuple[int, int]:
        """Of all panels and the gaps between them, in pixels."""
        height = self.panel[1]
        return self.across * (self.pitch + GAP_X) - GAP_X, self.down * (height + GAP_Y) - GAP_Y


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
        """One row of numbers is drawn as heights; one row of truth values stays a row of cells."""
        return len(self.spec.shape) < 2 and self.spec.dtype != "bool"

    @property
    def axes(self) -> tuple[str, str]:
        """What rows and columns are."""
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


def plan(tensors: Tensors, like: Literal["together", "apart"] = "together") -> Plan:
    """Everything about a picture but its colours and letters; tensors that look alike share a group, or do not."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, spec in tensors.items():
        if 0 not in spec.shape:
            key = (spec.axes, spec.shape, spec.dtype) if like == "together" else (name,)
            alike.setdefault(key, []).append(name)
    groups = [_group(names, tensors) for names in list(alike.values())[:MOST_GROUPS]]
    shown = {name for group in groups for name in group.names}
    return Plan(tuple(groups), tuple(name for name in tensors if name not in shown))


def _group(names: list[str], tensors: Mapping[str, TensorSpec]) -> Group:
    names = names[:MOST_PANELS]
    spec = tensors[names[0]]
    # A plane's last axis is set aside, and the rest is as if there were none.
    *outer, last = (1, *spec.shape) if spec.axes[-3:-1] in PLANES else (1, *spec.shape, 1)
    *leading, rows, columns = (1, 1, *outer)
    most = MOST_PANELS // len(names)
    before = _at_most(math.prod(leading), most)
    after = _at_most(last, most // before.shown)
    count = len(names) * before.shown * after.shown
    is_profile = len(spec.shape) < 2 and spec.dtype != "bool"
    far = (spec.axes[:-1] if spec.axes[-3:-1] in PLANES else spec.axes)[-2:]
    arranged = _profiles(count, columns) if is_profile else _heatmaps(count, rows, columns, tuple(far) in ALIKE)
    return Group(tuple(names), spec, before, after, arranged)


def _at_most(length: int, most: int) -> Steps:
    return Steps(length, -(-length // most))


def _heatmaps(count: int, rows: int, columns: int, alike: bool) -> Panels:
    """The arrangement that gives cells the most room."""
    choices = [_arranged(count, across, rows, columns, alike) for across in range(1, min(count, 6) + 1)]
    return max(choices, key=lambda each: (math.prod(each.panel), each.across))


def _arranged(count: int, across: int, rows: int, columns: int, alike: bool) -> Panels:
    down = -(-count // across)
    width = (WIDTH - (across - 1) * GAP_X) // across
    height = max(LEAST_HEIGHT, (HEIGHT - (down - 1) * GAP_Y) // down)
    x, y = _fitted(columns, width), _fitted(rows, height)
    if alike and _squarish(rows, columns):
        stride = max(x.stride, y.stride)
        x, y = Steps(columns, stride), Steps(rows, stride)
    cell = (min(LARGEST_CELL, width // x.shown), min(LARGEST_CELL, height // y.shown))
    if _squarish(x.shown, y.shown):
        cell = (min(cell), min(cell))
    return Panels(count, across, y, x, cell)


def _squarish(rows: int, columns: int) -> bool:
    return max(rows, columns) <= SQUARE_ASPECT * min(rows, columns)


def _profiles(count: int, columns: int) -> Panels:
    across = 1 if count == 1 else 2
    steps = _fitted(columns, (WIDTH - (across - 1) * GAP_X) // across)
    width = min(LARGEST_CELL, (WIDTH - (across - 1) * GAP_X) // across // steps.shown)
    return Panels(count, across, Steps(PROFILE_HEIGHT, 1), steps, (width, 1))


def _fitted(length: int, room: int) -> Steps:
    """The smallest odd step with which an axis has a pixel for each cell."""
    step = -(-length // room)
    return Steps(length, step if step % 2 else step + 1)
