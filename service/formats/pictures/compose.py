"""From an answer to a drawing: the title, then for each group of tensors its panels, their axes and the legend."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from service.formats.format import Answer, Captions, Tensors
from service.formats.pictures.axes import Ticks, along, called
from service.formats.pictures.cells import Values, panels
from service.formats.pictures.drawing import Box, Drawing, Image, Text
from service.formats.pictures.legend import BAR, LINE, MOST_TICKS, TICK_LENGTH, Legend, on, within
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.naming import left_out, panel_names
from service.formats.pictures.palette import BACKGROUND, INK
from service.formats.pictures.plan import PROFILE_HEIGHT, Group, Like, Plan, Steps, plan
from service.formats.pictures.scales import Indices, Scale, alike, relative, scale
from service.formats.pictures.share import last_row, mark_least, row_name, share_told
from service.formats.pictures.sheet import SHEETS, Sheet
from service.formats.pictures.wrapping import Face

TITLE_GAP = 5  # and more than a title's size between two of a title
BAR_GAP = 22
# Room for what stands around the cells of a group, at most: axes, labels, ticks, the colour bar.
AROUND_X, AROUND_Y = 280, 180
LEAST_NAME, NAME_LINES = 144, 4  # of a line across heights
HEIGHTS = {"logarithmic": "value (log scale)", "relative": "times uniform (log scale)"}
BELOW = 40  # ticks, their numbers, and the label


@dataclass(frozen=True, slots=True)
class Shown:
    """A group with the values of its cells, and the scale they are coloured by."""

    group: Group
    values: Sequence[Values]
    scale: Scale
    row: str = ""  # which, where it is one of several

    @property
    def has_ramp(self) -> bool:
        """Whether colours need a ramp to be read by: two of them do not, and heights have an axis."""
        return not self.group.is_profile and self.scale.kind != "two"

    @property
    def has_legend(self) -> bool:
        return self.has_ramp or bool(self.scale.states)


def most_pixels(tensors: Tensors) -> int:
    """No picture of these tensors has more pixels."""
    return max(_pixels_of(plan(tensors, sheet, like), sheet) for sheet in SHEETS.values() for like in get_args(Like))


def _pixels_of(planned: Plan, sheet: Sheet) -> int:
    width = max(sheet.least_width, *(group.panels.size[0] for group in planned.groups)) + AROUND_X
    height = sum(group.panels.size[1] + AROUND_Y for group in planned.groups) + PROFILE_HEIGHT + AROUND_Y
    head = (4 + 2 * sheet.most_lines) * LINE + sheet.most_lines * (sheet.title + TITLE_GAP)
    return width * (height + head + 2 * sheet.margin)


def compose(answer: Answer, lettering: Lettering) -> Drawing:
    """Compute what is shown, and say where it goes."""
    sheet = SHEETS[answer.captions.width]
    planned = plan(answer.tensors, sheet)
    values = [list(panels(answer, group)) for group in planned.groups]
    if not all(alike(_by_tensor(group, each)) for group, each in zip(planned.groups, values, strict=True)):
        planned = plan(answer.tensors, sheet, "apart")
        values = [list(panels(answer, group)) for group in planned.groups]
    uniform = answer.captions.uniform
    shown = [
        Shown(group, each, _scale(group, each, uniform)) for group, each in zip(planned.groups, values, strict=True)
    ]
    return Composer(answer.captions, planned, lettering).drawn([*shown, *_last_rows(shown)])


def _by_tensor(group: Group, values: Sequence[Values]) -> list[Sequence[Values]]:
    each = len(values) // len(group.names)
    return [values[start : start + each] for start in range(0, len(values), each)]


def _last_rows(shown: Sequence[Shown]) -> Iterator[Shown]:
    """Of what is compared with a uniform share."""
    for each in shown:
        if each.scale.kind == "relative":
            yield Shown(last_row(each.group), [each.values[-1][-1:]], each.scale, row_name(each.group))


def _scale(group: Group, values: Sequence[Values], uniform: Mapping[str, float]) -> Scale:
    if group.names[0] in uniform:
        return relative(values[0], uniform[group.names[0]])
    return scale(values, group.spec.dtype, "heights" if group.is_profile else "colours")


class Composer:
    """Puts one thing below the other."""

    def __init__(self, captions: Captions, planned: Plan, lettering: Lettering) -> None:
        self.captions = captions
        self.planned = planned
        self.lettering = lettering
        self.sheet = SHEETS[captions.width]
        self.small, self.tick = Face(lettering, self.sheet.subtitle), Face(lettering, self.sheet.tick)
        self.named = sum(len(group.names) for group in planned.groups) + len(planned.left_out) > 1
        self.y, self.left = self.sheet.margin, 0
        self.drawing = Drawing(self._known(captions.title), "")

    def drawn(self, shown: Sequence[Shown]) -> Drawing:
        told = list(dict.fromkeys(line for each in shown for line in left_out(each.group)))
        told += [self._share(each) for each in shown if each.scale.kind == "relative" and not each.group.is_profile]
        told += dict.fromkeys(line for each in shown for line in self._called(each))
        if self.planned.left_out:
            told.append(f"not shown: {', '.join(self.planned.left_out)} (tensor=NAME shows one)")
        if any(each.row for each in shown):  # columns stand below the cells that they are of
            self.left = max(self._left(each) for each in shown)
        widths = [self._left(each) + each.group.panels.size[0] + self._beside(each) for each in shown]
        self.drawing.width = max(self.sheet.least_width, *widths) + self.sheet.margin
        self.drawing.description = self._known("; ".join([self.captions.parameters, *told]).strip("; "))
        self._head(told)
        for each in shown:
            self._group(each)
        self.drawing.height = self.y + self.sheet.margin
        return self.drawing

    # Words

    def _share(self, shown: Shown) -> str:
        return share_told(shown.group, shown.values[-1][-1], self.captions, shown.scale.uniform)

    def _called(self, shown: Shown) -> Iterator[str]:
        """What indices are called, where there is no room for it along the axis."""
        rows, columns = shown.group.axes
        beneath = [columns] if self._has_called_rows(shown) or not self._are_rows_called(shown) else [rows, columns]
        for axis in beneath:
            names = self.captions.named.get(axis, ())
            if names:
                yield f"{axis}: {', '.join(f'{index} {name}' for index, name in enumerate(names))}"

    def _are_rows_called(self, shown: Shown) -> bool:
        return len(self.captions.named.get(shown.group.axes[0], ())) == shown.group.panels.rows.shown

    def _has_called_rows(self, shown: Shown) -> bool:
        """Whether there is room at the left for what the rows are called."""
        if not self._are_rows_called(shown) or shown.group.panels.cell[1] < self.sheet.least_step[1]:
            return False
        return all(self.tick.fits(name, self.sheet.names) for name in self.captions.named[shown.group.axes[0]])

    def _known(self, text: str) -> str:
        return self.lettering.known("".join(letter if letter.isprintable() else " " for letter in text), bold=False)

    def _head(self, told: Sequence[str]) -> None:
        x, room, most = self.sheet.margin, self.drawing.width - 2 * self.sheet.margin, self.sheet.most_lines
        title, small = Face(self.lettering, self.sheet.title, bold=True), self.small
        for line in title.wrapped(self._known(self.captions.title), room, most):
            self.y += title.size + TITLE_GAP * bool(self.drawing.texts)
            self.drawing.texts.append(Text(x, self.y, line, title.size, bold=True))
        for text in (self.captions.parameters, "; ".join(told)):
            for line in small.wrapped(self._known(text), room, most):
                self.y += LINE
                self.drawing.texts.append(Text(x, self.y, line, small.size))
        self.y += LINE

    # Groups

    def _beside(self, shown: Shown) -> int:
        """How much room the legend at the right of a group takes."""
        return BAR_GAP + BAR + 66 if self.sheet.bar_is_beside and shown.has_legend else 0

    def _left(self, shown: Shown) -> int:
        """How much room the labels at the left of a group take."""
        vertical = self._vertical(shown)
        widest = max((self.lettering.width(text, self.sheet.tick) for _, text in vertical.marks), default=0)
        return max(self.left, self.sheet.margin + (LINE + 4 if vertical.label else 0) + widest + TICK_LENGTH + 6)

    def _vertical(self, shown: Shown) -> Ticks:
        axis, panels_ = shown.group.axes[0], shown.group.panels
        if shown.group.is_profile:
            on_axis = on(shown.scale, PROFILE_HEIGHT, MOST_TICKS)
            marks = [(PROFILE_HEIGHT - 1 - place, shown.scale.spoken(value)) for value, place in on_axis]
            return Ticks(HEIGHTS.get(shown.scale.kind, "value"), marks)
        if self._has_called_rows(shown):
            return called(axis, panels_.cell[1], self.captions)
        return self._along(axis, panels_.rows, panels_.cell[1], self.sheet.least_step[1])

    def _along(self, axis: str, steps: Steps, cell: int, least: int) -> Ticks:
        return along(axis, steps, cell, self.captions, least=least, digit=self.sheet.digit)

    def _group(self, shown: Shown) -> None:
        panels_ = shown.group.panels
        left, pitch = self._left(shown), panels_.pitch + panels_.gap[0]
        width, height = panels_.panel
        vertical = self._vertical(shown)
        horizontal = self._along(shown.group.axes[1], panels_.columns, panels_.cell[0], self.sheet.least_step[0])
        names = list(self._names(shown))
        self.y += LINE if any(names) else 0
        top = self.y
        for number, values in enumerate(shown.values):
            row, column = divmod(number, panels_.across)
            x, y = left + column * pitch, top + row * (height + panels_.gap[1])
            cell, colours = (panels_.cell, _pixels(shown, values))
            self.drawing.images.append(Image(x, y, cell, colours))
            self.drawing.frame(x, y, width, height)
            if names[number]:
                self._name(names[number], x, y, max(pitch, panels_.least_pitch + panels_.gap[0]) - 4)
            if shown.group.is_profile:
                self._lines(shown.scale, x, y, width)
            if shown.row:
                mark_least(self.drawing, (x, y), values[0], panels_.cell[0], shown.scale, self.small)
            if column == 0:
                self._left_ticks(x, y, vertical)
            if number + panels_.across >= panels_.count:
                has_next = column + 1 < panels_.across and number + 1 < panels_.count
                self._bottom_ticks(x, y + height, horizontal, pitch if has_next else self.drawing.width)
        size = panels_.size
        self._labels(left, top, size, vertical.label, horizontal.label)
        self.y = top + self._with_legend(shown, left, top, self.lettering.width(vertical.label, self.sheet.label))
        self.y += panels_.gap[1] // 2

    def _names(self, shown: Shown) -> Iterator[str]:
        if shown.scale.kind == "relative" and shown.group.is_profile:
            yield shown.row
        else:
            yield from panel_names(shown.group, self.named)

    def _name(self, name: str, x: int, y: int, room: int) -> None:
        """What a panel is, above it."""
        self.drawing.texts.append(Text(x, y - 6, self.small.cut(name, room), self.small.size))

    def _with_legend(self, shown: Shown, left: int, top: int, label: int) -> int:
        """Draws it; how high the group is together with it."""
        size = shown.group.panels.size
        legend = Legend(shown, size, self.sheet, self.lettering)
        below = size[1] + BELOW
        if self.sheet.bar_is_beside:
            legend.draw(self.drawing, left + size[0] + BAR_GAP, top)
            return max(below, label, legend.height)
        legend.draw(self.drawing, left, top + max(below, label) + 4)
        return max(below, label) + 4 + legend.height

    def _lines(self, scale_: Scale, x: int, y: int, width: int) -> None:
        """The values that heights are compared with, each named above it where that is in the panel.

        In half of its width, for where heights are about a value some are above it.
        """
        for name, value in self.captions.lines.items():
            if not scale_.low < value < scale_.high:
                continue
            (place,) = np.rint(scale_.places(np.array([value])) * (PROFILE_HEIGHT - 1)).astype(int).tolist()
            at = y + PROFILE_HEIGHT - 1 - place
            told = self.small.wrapped(self._known(name), max(width // 2, min(width - 8, LEAST_NAME)), NAME_LINES)
            first = at - 5 - LINE * (len(told) - 1) if at - y > LINE * len(told) else at + LINE
            self.drawing.boxes.append(Box(x, at, width, 1, INK))
            for number, line in enumerate(told):
                self.drawing.texts.append(Text(x + 4, first + LINE * number, line, self.small.size))

    def _left_ticks(self, x: int, y: int, ticks: Ticks) -> None:
        for place, text in ticks.marks:
            self.drawing.boxes.append(Box(x - 1 - TICK_LENGTH, y + place, TICK_LENGTH, 1))
            self.drawing.texts.append(Text(x - TICK_LENGTH - 4, y + place + 4, text, self.sheet.tick, "end"))

    def _bottom_ticks(self, x: int, y: int, ticks: Ticks, pitch: int) -> None:
        """Those that leave room for the first of the next panel."""
        halves = [-(-self.lettering.width(text, self.sheet.tick) // 2) for _, text in ticks.marks]
        for (place, text), half in zip(ticks.marks, halves, strict=True):
            if place and place + half + 4 > pitch + ticks.marks[0][0] - halves[0]:
                continue
            self.drawing.boxes.append(Box(x + place, y + 1, 1, TICK_LENGTH))
            beneath = Text(x + place, y + TICK_LENGTH + 12, text, self.sheet.tick, "middle")
            self.drawing.texts.append(within(beneath, self.drawing.width, self.lettering))

    def _labels(self, left: int, top: int, size: tuple[int, int], vertical: str, horizontal: str) -> None:
        label = self.sheet.label
        if horizontal:
            self.drawing.texts.append(Text(left + size[0] // 2, top + size[1] + 34, horizontal, label, "middle"))
        if vertical:
            # A label that is longer than the panels are high begins with them.
            middle = top + max(size[1], self.lettering.width(vertical, label)) // 2
            x = self.sheet.margin + label
            self.drawing.texts.append(Text(x, middle, vertical, label, "middle", direction="up"))


def _pixels(shown: Shown, values: Values) -> Indices:
    """The colours of a panel's cells; a profile's are columns from zero (or from below) to their value."""
    colours = shown.scale.colours(values)
    if not shown.group.is_profile:
        return colours
    finite = np.isfinite(values[0])
    places = shown.scale.places(np.where(finite, values[0], shown.scale.high))
    ends = np.rint(places * (PROFILE_HEIGHT - 1))
    (base,) = np.rint(shown.scale.places(np.array([shown.scale.ground])) * (PROFILE_HEIGHT - 1))
    height = np.arange(PROFILE_HEIGHT - 1, -1, -1)[:, None]
    filled = (height >= np.minimum(ends, base)) & (height <= np.maximum(ends, base))
    filled |= ~finite
    return np.where(filled, colours, BACKGROUND).astype(np.uint8)
