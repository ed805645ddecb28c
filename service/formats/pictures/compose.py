"""From an answer to a drawing: the title, then for each group of tensors its panels, their axes and the legend."""

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from service.formats.format import Answer, Captions, Tensors
from service.formats.pictures.axes import Ticks, along, called
from service.formats.pictures.drawing import Box, Drawing, Image, Text
from service.formats.pictures.legend import BAR, LINE, MOST_TICKS, TICK_LENGTH, Legend, on, within
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.naming import left_out, panel_names
from service.formats.pictures.palette import INK
from service.formats.pictures.plan import PROFILE_HEIGHT, Like, Plan, Steps, plan
from service.formats.pictures.scales import (
    Scale,
)
from service.formats.pictures.share import mark_least, share_told
from service.formats.pictures.sheet import SHEETS, Sheet
from service.formats.pictures.shown import Shown, all_shown, cautions, pixels, quantity
from service.formats.pictures.wrapping import Face

TITLE_GAP = 5  # and more than a title's size between two of a title
BAR_GAP = 22
# Room for what stands around the cells of a group, at most: axes, labels, ticks, the colour bar.
AROUND_X, AROUND_Y = 280, 260
LEAST_NAME, NAME_LINES = 144, 4  # of a line across heights
BELOW = 40  # ticks, their numbers, and the label
LEAST_COLUMN, LONGEST_NAME, UPRIGHT_GAP = 14, 120, 4  # of columns whose names stand upright beneath them


def most_pixels(tensors: Tensors) -> int:
    """No picture of these tensors has more pixels."""
    return max(_pixels_of(plan(tensors, sheet, like), sheet) for sheet in SHEETS.values() for like in get_args(Like))


def _pixels_of(planned: Plan, sheet: Sheet) -> int:
    width = max(sheet.least_width, *(group.panels.size[0] for group in planned.groups)) + AROUND_X
    height = sum(group.panels.size[1] + AROUND_Y for group in planned.groups) + PROFILE_HEIGHT + AROUND_Y
    head = (4 + 3 * sheet.most_lines) * LINE + sheet.most_lines * (sheet.title + TITLE_GAP)
    return width * (height + head + 2 * sheet.margin)


def compose(answer: Answer, lettering: Lettering) -> Drawing:
    """Compute what is shown, and say where it goes."""
    sheet = SHEETS[answer.captions.width]
    planned, shown = all_shown(answer, sheet)
    return Composer(answer.captions, planned, lettering).drawn(shown)


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
        told += dict.fromkeys(line for each in shown for line in (*cautions(each), *self._called(each)))
        if self.planned.left_out:
            told.append(f"not shown: {', '.join(self.planned.left_out)} (tensor=NAME shows one)")
        if any(each.row for each in shown):  # columns stand below the cells that they are of
            self.left = max(self._left(each) for each in shown)
        widths = [self._left(each) + each.group.panels.size[0] + self._beside(each) for each in shown]
        self.drawing.width = max(self.sheet.least_width, *widths) + self.sheet.margin
        said = [self.captions.parameters, *self.captions.notes, *told]
        self.drawing.description = self._known("; ".join(said).strip("; "))
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
        rows_told = self._are_rows_called(shown) and not self._has_called_rows(shown)
        columns_told = not self._has_called_columns(shown)
        for axis in [rows] * rows_told + [columns] * columns_told:
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

    def _has_called_columns(self, shown: Shown) -> bool:
        """Whether there is room beneath the columns for what they are called."""
        names, columns = self.captions.named.get(shown.group.axes[1], ()), shown.group.panels.columns
        if len(names) != columns.length or columns.stride > 1 or shown.group.panels.cell[0] < LEAST_COLUMN:
            return False
        return all(self.tick.fits(name, LONGEST_NAME) for name in names)

    def _known(self, text: str) -> str:
        return self.lettering.known("".join(letter if letter.isprintable() else " " for letter in text), bold=False)

    def _head(self, told: Sequence[str]) -> None:
        x, room, most = self.sheet.margin, self.drawing.width - 2 * self.sheet.margin, self.sheet.most_lines
        title, small = Face(self.lettering, self.sheet.title, bold=True), self.small
        for line in title.wrapped(self._known(self.captions.title), room, most):
            self.y += title.size + TITLE_GAP * bool(self.drawing.texts)
            self.drawing.texts.append(Text(x, self.y, line, title.size, bold=True))
        for text in (self.captions.parameters, "; ".join(self.captions.notes), "; ".join(told)):
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
            return Ticks(self._quantity(shown), marks)
        if self._has_called_rows(shown):
            return called(axis, panels_.cell[1], self.captions)
        return self._along(axis, panels_.rows, panels_.cell[1], self.sheet.least_step[1])

    def _horizontal(self, shown: Shown) -> Ticks:
        axis, panels_ = shown.group.axes[1], shown.group.panels
        if self._has_called_columns(shown):
            return called(axis, panels_.cell[0], self.captions, numbered=False)
        return self._along(axis, panels_.columns, panels_.cell[0], self.sheet.least_step[0])

    def _quantity(self, shown: Shown) -> str:
        told = quantity(shown, self.captions)
        return told if self.small.fits(told, PROFILE_HEIGHT) else "value"

    def _along(self, axis: str, steps: Steps, cell: int, least: int) -> Ticks:
        return along(axis, steps, cell, self.captions, least=least, digit=self.sheet.digit)

    def _group(self, shown: Shown) -> None:
        panels_ = shown.group.panels
        left, pitch = self._left(shown), panels_.pitch + panels_.gap[0]
        width, height = panels_.panel
        vertical = self._vertical(shown)
        horizontal, upright = self._horizontal(shown), self._has_called_columns(shown)
        names = list(self._names(shown))
        self.y += LINE if any(names) else 0
        top = self.y
        for number, values in enumerate(shown.values):
            row, column = divmod(number, panels_.across)
            x, y = left + column * pitch, top + row * (height + panels_.gap[1])
            cell, colours = (panels_.cell, pixels(shown, values))
            self.drawing.images.append(Image(x, y, cell, colours))
            self.drawing.frame(x, y, width, height)
            if names[number]:
                self._name(names[number], x, y, max(pitch, panels_.least_pitch + panels_.gap[0]) - 4)
            if shown.group.is_profile:
                self._lines(shown.scale, x, y, width)
            if shown.row:
                mark_least(self.drawing, (x, y), values[0], panels_.cell[0], shown.scale, self.small)
            if column == 0 or self._has_room(vertical, pitch - width):
                self._left_ticks(x, y, vertical)
            if number + panels_.across >= panels_.count:
                has_next = column + 1 < panels_.across and number + 1 < panels_.count
                if upright:
                    self._upright_ticks(x, y + height, horizontal)
                else:
                    self._bottom_ticks(x, y + height, horizontal, pitch if has_next else self.drawing.width)
        below = BELOW
        if upright:
            below += max(self.lettering.width(text, self.sheet.tick) for _, text in horizontal.marks) + UPRIGHT_GAP
        self._labels(left, top, panels_.size, vertical.label, horizontal.label, below)
        label = self.lettering.width(vertical.label, self.sheet.label)
        self.y = top + self._with_legend(shown, left, top, max(panels_.size[1] + below, label))
        self.y += panels_.gap[1] // 2

    def _names(self, shown: Shown) -> Iterator[str]:
        if shown.scale.kind == "relative" and shown.group.is_profile:
            yield shown.row
        else:
            yield from panel_names(shown.group, self.named)

    def _name(self, name: str, x: int, y: int, room: int) -> None:
        """What a panel is, above it."""
        self.drawing.texts.append(Text(x, y - 6, self.small.cut(name, room), self.small.size))

    def _with_legend(self, shown: Shown, left: int, top: int, below: int) -> int:
        """Draws it; how high the group is together with it."""
        size = shown.group.panels.size
        legend = Legend(shown, size, self.sheet, self.lettering)
        if self.sheet.bar_is_beside:
            legend.draw(self.drawing, left + size[0] + BAR_GAP, top)
            return max(below, legend.height)
        legend.draw(self.drawing, left, top + below + 4)
        return below + 4 + legend.height

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

    def _has_room(self, ticks: Ticks, room: int) -> bool:
        """Whether there is room for numbers between a panel and the one at its left."""
        return all(self.tick.fits(text, room - TICK_LENGTH - 8) for _, text in ticks.marks)

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

    def _upright_ticks(self, x: int, y: int, ticks: Ticks) -> None:
        for place, text in ticks.marks:
            self.drawing.boxes.append(Box(x + place, y + 1, 1, TICK_LENGTH))
            middle = x + place + self.sheet.tick * 3 // 8
            self.drawing.texts.append(Text(middle, y + TICK_LENGTH + 5, text, self.sheet.tick, "end", direction="up"))

    def _labels(self, left: int, top: int, size: tuple[int, int], vertical: str, horizontal: str, below: int) -> None:
        label = self.sheet.label
        if horizontal:
            self.drawing.texts.append(Text(left + size[0] // 2, top + size[1] + below - 6, horizontal, label, "middle"))
        if vertical:
            # A label that is longer than the panels are high begins with them.
            middle = top + max(size[1], self.lettering.width(vertical, label)) // 2
            x = self.sheet.margin + label
            self.drawing.texts.append(Text(x, middle, vertical, label, "middle", direction="up"))
