"""Rows that are compared with a uniform share: the last of them once more as heights, and its least value in words.

Colours tell a value from another, heights how far it lies from what all would have if they were alike.
"""

from dataclasses import dataclass, replace

import numpy as np

from service.formats.format import Captions, TensorSpec
from service.formats.pictures.cells import Values
from service.formats.pictures.drawing import Anchor, Box, Drawing, Text
from service.formats.pictures.palette import INK
from service.formats.pictures.plan import PROFILE_HEIGHT, Group, Steps
from service.formats.pictures.scales import Scale, spoken
from service.formats.pictures.wrapping import Face

MARK = 24  # a line from where heights begin to the word above the least of them


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a tensor."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


def last_row(group: Group) -> Group:
    """The group of that row alone, whose columns stand below those of the cells."""
    panels = replace(group.panels, count=1, across=1, rows=Steps(PROFILE_HEIGHT, 1), cell=(group.panels.cell[0], 1))
    spec: TensorSpec = _Row(group.spec.axes[-1:], group.spec.shape[-1:], group.spec.dtype)
    return Group(group.names, spec, Steps(1, 1), Steps(1, 1), panels)


def row_name(group: Group) -> str:
    """What the last row is: `layer 13`."""
    return f"{group.axes[0]} {(group.panels.rows.shown - 1) * group.panels.rows.stride}"


def share_told(group: Group, row: Values, captions: Captions, uniform: float) -> str:
    """In words what is compared with what, and what is seen of the last row."""
    axis, columns = group.axes[1], group.panels.columns
    first = captions.first.get(axis, 0) or 0

    def told(column: int) -> str:
        return f"{spoken(float(row[column]) / uniform)} at {axis} {first + column * columns.stride}"

    whole = round(1 / uniform)
    share = f"1/{whole}" if uniform == 1 / whole else spoken(uniform)
    among = " of those shown" if columns.stride > 1 else ""
    seen = f"{told(0)}, {told(len(row) - 1)}, and the least{among} is {told(int(np.argmin(row)))}"
    return f"1 is a uniform share ({share}); {row_name(group)}: {seen}"


def mark_least(drawing: Drawing, at: tuple[int, int], row: Values, cell: int, scale: Scale, face: Face) -> None:
    """A line where heights begin, one across it at the least of them, and what that is where there is room for it."""
    x, top = at
    heights = np.rint(scale.places(row) * (PROFILE_HEIGHT - 1))
    (ground,) = np.rint(scale.places(np.array([scale.ground])) * (PROFILE_HEIGHT - 1)).astype(int).tolist()
    y, middle = top + PROFILE_HEIGHT - 1 - ground, int(np.argmin(row)) * cell + cell // 2
    drawing.boxes += [Box(x, y, len(row) * cell, 1, INK), Box(x + middle, y - MARK, 1, MARK, INK)]
    told = f"least: {spoken(float(row.min()) / scale.uniform)}"
    length = face.lettering.width(told, face.size) + 4
    starts: dict[Anchor, int] = {"start": middle, "end": middle - length, "middle": middle - length // 2}
    for anchor, start in starts.items():
        beneath = heights[max(0, start) // cell : (start + length) // cell + 1]
        if 0 <= start <= len(row) * cell - length and (beneath < ground + MARK).all():
            drawing.texts.append(Text(x + middle, y - MARK - 5, told, face.size, anchor))
            return
