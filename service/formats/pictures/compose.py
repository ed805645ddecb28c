"""From an answer to a drawing: the title, then for each group of tensors its panels, their axes and the colour bar."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from service.formats.format import Answer, Captions, Tensors
from service.formats.pictures.axes import Ticks, along, called, steps_told
from service.formats.pictures.cells import Values, panels
from service.formats.pictures.drawing import Box, Drawing, Image, Text
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import BACKGROUND, INK, RAMP
from service.formats.pictures.plan import GAP_X, GAP_Y, LEAST_PITCH, PROFILE_HEIGHT, Group, Plan, plan
from service.formats.pictures.scales import Indices, Scale, alike, scale, spoken

MARGIN = 16
LEAST_WIDTH, MOST_LINES = 560, 3
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
TITLE, SUBTITLE, LABEL, TICK = 15, 11, 12, 10
LINE = 16  # from base line to base line
TITLE_GAP = 5  # and more than a title's size between two of a title
BAR, BAR_GAP = 14, 22
MOST_BAR = 240
TICK_LENGTH = 4
# Room for what stands around the cells of a group, at most: axes, labels, ticks, the colour bar.
AROUND_X, AROUND_Y = 280, 110
BELOW = 40  # ticks, their numbers, and the label
MOST_TICKS, TICK_ROOM = 6, 16


@dataclass(frozen=True, slots=True)
class Shown:
    """A group with the values of its cells, and the scale they are coloured by."""

    group: Group
    values: Sequence[Values]
    scale: Scale

    @property
    def bar_width(self) -> int:
        return BAR_GAP + BAR + 66 if self.has_ramp or self.scale.states else 0

    @property
    def has_ramp(self) -> bool:
        """Whether colours need a ramp to be read by: two of them do not, and heights have an axis."""
        return not self.group.is_profile and self.scale.kind != "two"


def most_pixels(tensors: Tensors) -> int:
    """No picture of these tensors has more pixels."""
    return max(_pixels_of(plan(tensors)), _pixels_of(plan(tensors, "apart")))


def _pixels_of(planned: Plan) -> int:
    width = max(LEAST_WIDTH, *(group.panels.size[0] for group in planned.groups)) + AROUND_X
    height = sum(group.panels.size[1] + AROUND_Y for group in planned.groups)
    return width * (height + (4 + 2 * MOST_LINES) * LINE + MOST_LINES * (TITLE + TITLE_GAP) + 2 * MARGIN)


def compose(answer: Answer, lettering: Lettering) -> Drawing:
    """Compute what is shown, and say where it goes."""
    planned = plan(answer.tensors)
    values = [list(panels(answer, group)) for group in planned.groups]
    if not all(alike(_by_tensor(group, each)) for group, each in zip(planned.groups, values, strict=True)):
        planned = plan(answer.tensors, "apart")
        values = [list(panels(answer, group)) for group in planned.groups]
    shown = [Shown(group, each, _scale(group, each)) for group, each in zip(planned.groups, values, strict=True)]
    return Composer(answer.captions, planned, lettering).drawn(shown)


def _by_tensor(group: Group, values: Sequence[Values]) -> list[Sequence[Values]]:
    each = len(values) // len(group.names)
    return [values[start : start + each] for start in range(0, len(values), each)]


def _scale(group: Group, values: Sequence[Values]) -> Scale:
    return scale(values, group.spec.dtype, "heights" if group.is_profile else "colours")


class Composer:
    """Puts one thing below the other."""

    def __init__(self, captions: Captions, planned: Plan, lettering: Lettering) -> None:
        self.captions = captions
        self.planned = planned
        self.lettering = lettering
        self.named = sum(len(group.names) for group in planned.groups) + len(planned.left_out) > 1
        self.y = MARGIN
        self.drawing = Drawing(self._known(captions.title), "")

    def drawn(self, shown: Sequence[Shown]) -> Drawing:
        told = [line for each in shown for line in left_out(each.group)]
        told += dict.fromkeys(line for each in shown for line in self._called(each.group.axes[1]))
        if self.planned.left_out:
            told.append(f"not shown: {', '.join(self.planned.left_out)} (tensor=NAME shows one)")
        widths = [self._left(each) + each.group.panels.size[0] + each.bar_width for each in shown]
        self.drawing.width = max(LEAST_WIDTH, *widths) + MARGIN
        self.drawing.description = self._known("; ".join([self.captions.parameters, *told]).strip("; "))
        self._head(told)
        for each in shown:
            self._group(each)
        self.drawing.height = self.y + MARGIN
        return self.drawing

    # Words

    def _called(self, axis: str) -> Iterator[str]:
        """What the indices along the bottom are called, for which there is no room beneath them."""
        names = self.captions.named.get(axis, ())
        if names:
            yield f"{axis}: {', '.join(f'{index} {name}' for index, name in enumerate(names))}"

    def _known(self, text: str) -> str:
        return self.lettering.known("".join(letter if letter.isprintable() else " " for letter in text), bold=False)

    def _head(self, told: Sequence[str]) -> None:
        for line in self._wrapped(self.captions.title, TITLE, bold=True):
            self.y += TITLE + TITLE_GAP * bool(self.drawing.texts)
            self.drawing.texts.append(Text(MARGIN, self.y, line, TITLE, bold=True))
        for line in [*self._wrapped(self.captions.parameters), *self._wrapped("; ".join(told))]:
            self.y += LINE
            self.drawing.texts.append(Text(MARGIN, self.y, line, SUBTITLE))
        self.y += MARGIN

    def _cut(self, text: str, room: int, size: int, bold: bool = False) -> str:
        """As much of a text as there is room for."""
        if self.lettering.width(text, size, bold) <= room:
            return text
        while text and self.lettering.width(text + ELLIPSIS, size, bold) > room:
            text = text[:-1]
        return text + ELLIPSIS

    def _wrapped(self, text: str, size: int = SUBTITLE, bold: bool = False) -> list[str]:
        """A text in lines that fit; the last says so if there is more."""
        room = self.drawing.width - 2 * MARGIN
        lines: list[str] = []
        for word in self._known(text).split():
            if lines and self.lettering.width(f"{lines[-1]} {word}", size, bold) <= room:
                lines[-1] += f" {word}"
            else:
                lines.append(self._cut(word, room, size, bold))
        if len(lines) > MOST_LINES:
            lines[MOST_LINES - 1 :] = [self._cut(lines[MOST_LINES - 1] + ELLIPSIS, room, size, bold)]
        return lines

    # Groups

    def _left(self, shown: Shown) -> int:
        """How much room the labels at the left of a group take."""
        labels = [text for _, text in self._vertical(shown).marks]
        widest = max((self.lettering.width(text, TICK) for text in labels), default=0)
        return MARGIN + (LINE + 4 if self._vertical(shown).label else 0) + widest + TICK_LENGTH + 6

    def _vertical(self, shown: Shown) -> Ticks:
        panels_ = shown.group.panels
        if shown.group.is_profile:
            marks = [(PROFILE_HEIGHT - 1 - place, spoken(value)) for value, place in _on(shown.scale, PROFILE_HEIGHT)]
            return Ticks("value (log scale)" if shown.scale.kind == "logarithmic" else "value", marks)
        return called(shown.group.axes[0], panels_.rows, panels_.cell[1], self.captions, least=22)

    def _group(self, shown: Shown) -> None:
        panels_ = shown.group.panels
        left = self._left(shown)
        width, height = panels_.panel
        vertical = self._vertical(shown)
        horizontal = along(shown.group.axes[1], panels_.columns, panels_.cell[0], self.captions, least=44)
        names = list(_names(shown.group, self.named))
        self.y += LINE if any(names) else 0
        top = self.y
        for number, values in enumerate(shown.values):
            row, column = divmod(number, panels_.across)
            x, y = left + column * (panels_.pitch + GAP_X), top + row * (height + GAP_Y)
            cell, colours = (panels_.cell, _pixels(shown, values))
            self.drawing.images.append(Image(x, y, cell, colours))
            self.drawing.frame(x, y, width, height)
            if names[number]:
                name = self._cut(names[number], max(panels_.pitch, LEAST_PITCH) + GAP_X - 4, SUBTITLE)
                self.drawing.texts.append(Text(x, y - 6, name, SUBTITLE))
            if shown.group.is_profile:
                self._lines(shown.scale, x, y, width)
            if column == 0:
                self._left_ticks(x, y, vertical)
            if number + panels_.across >= panels_.count:
                self._bottom_ticks(x, y + height, horizontal)
        size = panels_.size
        self._labels(left, top, size, vertical.label, horizontal.label)
        self._legend(shown, left + size[0] + BAR_GAP, top)
        beside = self.lettering.width(vertical.label, LABEL)
        self.y = top + max(size[1] + BELOW, beside, self._legend_height(shown)) + GAP_Y // 2

    def _lines(self, scale_: Scale, x: int, y: int, width: int) -> None:
        """The values that heights are compared with, each named above it where that is in the panel."""
        for name, value in self.captions.lines.items():
            if not scale_.low < value < scale_.high:
                continue
            (place,) = np.rint(scale_.places(np.array([value])) * (PROFILE_HEIGHT - 1)).astype(int).tolist()
            at = y + PROFILE_HEIGHT - 1 - place
            told = self._cut(self._known(name), width - 8, SUBTITLE)
            self.drawing.boxes.append(Box(x, at, width, 1, INK))
            self.drawing.texts.append(Text(x + 4, at - 5 if at - y > LINE else at + LINE, told, SUBTITLE))

    def _legend_height(self, shown: Shown) -> int:
        return (_bar_height(shown) + 10 if shown.has_ramp else 0) + LINE * len(shown.scale.states)

    def _left_ticks(self, x: int, y: int, ticks: Ticks) -> None:
        for place, text in ticks.marks:
            self.drawing.boxes.append(Box(x - 1 - TICK_LENGTH, y + place, TICK_LENGTH, 1))
            self.drawing.texts.append(Text(x - TICK_LENGTH - 4, y + place + 4, text, TICK, "end"))

    def _bottom_ticks(self, x: int, y: int, ticks: Ticks) -> None:
        for place, text in ticks.marks:
            self.drawing.boxes.append(Box(x + place, y + 1, 1, TICK_LENGTH))
            self.drawing.texts.append(Text(x + place, y + TICK_LENGTH + 12, text, TICK, "middle"))

    def _labels(self, left: int, top: int, size: tuple[int, int], vertical: str, horizontal: str) -> None:
        if horizontal:
            self.drawing.texts.append(Text(left + size[0] // 2, top + size[1] + 34, horizontal, LABEL, "middle"))
        if vertical:
            # A label that is longer than the panels are high begins with them.
            middle = top + max(size[1], self.lettering.width(vertical, LABEL)) // 2
            self.drawing.texts.append(Text(MARGIN + LABEL, middle, vertical, LABEL, "middle", direction="up"))

    def _ramp(self, scale_: Scale, x: int, y: int, height: int) -> None:
        """Every colour of the ramp with round values beside them."""
        places = np.arange(height - 1, -1, -1) * (RAMP - 1) // (height - 1)
        self.drawing.images.append(Image(x, y, (BAR, 1), (places + scale_.ramp).astype(np.uint8)[:, None]))
        self.drawing.frame(x, y, BAR, height)
        for value, place in _on(scale_, height):
            at = y + height - 1 - place
            self.drawing.boxes.append(Box(x + BAR + 1, at, TICK_LENGTH, 1))
            self.drawing.texts.append(Text(x + BAR + TICK_LENGTH + 5, at + 4, spoken(value), TICK))

    def _legend(self, shown: Shown, x: int, y: int) -> None:
        """The ramp, then a swatch for each value that is no number."""
        if shown.has_ramp:
            self._ramp(shown.scale, x, y, _bar_height(shown))
            y += _bar_height(shown) + 10
        for text, colour in shown.scale.states:
            self.drawing.boxes.append(Box(x, y, BAR, LINE - 4, colour))
            self.drawing.frame(x, y, BAR, LINE - 4)
            self.drawing.texts.append(Text(x + BAR + TICK_LENGTH + 5, y + 10, text, TICK))
            y += LINE


def _bar_height(shown: Shown) -> int:
    return max(LINE * 4, min(MOST_BAR, shown.group.panels.size[1]))


def left_out(group: Group) -> Iterator[str]:
    """Sentences about what of a group is not shown."""
    rows, columns = group.axes
    among = [] if group.is_profile else [(group.panels.rows, rows)]
    last = group.spec.axes[-1] if group.is_plane else ""
    outer = [(group.leading, " and ".join(group.leading_axes)), (group.trailing, last)]
    told = steps_told([*among, (group.panels.columns, columns), *outer])
    if told:
        yield f"shown: {told}; no values are blended"


def _pixels(shown: Shown, values: Values) -> Indices:
    """The colours of a panel's cells; a profile's are columns from zero (or from below) to their value."""
    colours = shown.scale.colours(values)
    if not shown.group.is_profile:
        return colours
    finite = np.isfinite(values[0])
    places = shown.scale.places(np.where(finite, values[0], shown.scale.high))
    ends = np.rint(places * (PROFILE_HEIGHT - 1))
    ground = shown.scale.low if shown.scale.kind in ("logarithmic", "two") else 0.0
    (base,) = np.rint(shown.scale.places(np.array([ground])) * (PROFILE_HEIGHT - 1))
    height = np.arange(PROFILE_HEIGHT - 1, -1, -1)[:, None]
    filled = (height >= np.minimum(ends, base)) & (height <= np.maximum(ends, base))
    filled |= ~finite
    return np.where(filled, colours, BACKGROUND).astype(np.uint8)


def _on(scale_: Scale, height: int) -> list[tuple[float, int]]:
    """The ticks of a scale with their heights in pixels."""
    if scale_.kind == "two":
        return []
    ticks = scale_.ticks(min(MOST_TICKS, height // TICK_ROOM))
    places = np.rint(scale_.places(np.array(ticks, np.float64)) * (height - 1))
    return list(zip(ticks, places.astype(int).tolist(), strict=True))


def _names(group: Group, named: bool) -> Iterator[str]:
    """What each panel of a group is: the tensor where there are several, and its place on the outer axes."""
    for name in group.names:
        first = [name] if named else []
        for index in range(0, group.leading.length, group.leading.stride):
            for channel in range(0, group.trailing.length, group.trailing.stride):
                last = [f"{group.spec.axes[-1]} {channel}"] if group.is_plane else []
                yield ", ".join([*first, *_places(group, index), *last])


def _places(group: Group, index: int) -> list[str]:
    """The indices on the leading axes of a panel."""
    named = []
    for axis, length in reversed(list(zip(group.leading_axes, group.spec.shape, strict=False))):
        index, place = divmod(index, length)
        named.append(f"{axis} {place}")
    return named[::-1]
