"""What colours mean: a ramp with round values along it, and a swatch for each value that is no number.

Beside the panels they stand one below the other; beneath them the ramp lies, and swatches follow each other.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.formats.pictures.drawing import Box, Drawing, Image, Text
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import RAMP
from service.formats.pictures.scales import Scale
from service.formats.pictures.sheet import Sheet

BAR = 14
LINE = 16  # from base line to base line
MOST_BAR = 240
LEAST_LYING = 192
TICK_LENGTH = 4
MOST_TICKS, TICK_ROOM, TICK_GAP = 6, 16, 10


class Coloured(Protocol):
    """What a legend is of."""

    @property
    def scale(self) -> Scale: ...
    @property
    def has_ramp(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Legend:
    """The legend of panels that take so many pixels."""

    shown: Coloured
    size: tuple[int, int]
    sheet: Sheet
    lettering: Lettering

    @property
    def length(self) -> int:
        """Of the ramp."""
        if self.sheet.bar_is_beside:
            return max(LINE * 4, min(MOST_BAR, self.size[1]))
        return max(LEAST_LYING, self.size[0])

    @property
    def height(self) -> int:
        if self.sheet.bar_is_beside:
            return (self.length + 10 if self.shown.has_ramp else 0) + LINE * len(self.shown.scale.states)
        return (BAR + TICK_LENGTH + 22 if self.shown.has_ramp else 0) + (LINE + 4 if self.shown.scale.states else 0)

    def draw(self, drawing: Drawing, x: int, y: int) -> None:
        """From its upper left corner on."""
        ramp, swatches = (
            (self._standing, self._below) if self.sheet.bar_is_beside else (self._lying, self._after_each_other)
        )
        if self.shown.has_ramp:
            y = ramp(drawing, x, y)
        swatches(drawing, x, y)

    def _standing(self, drawing: Drawing, x: int, y: int) -> int:
        """The ramp with its largest value at the top; where the next thing goes."""
        drawing.images.append(Image(x, y, (BAR, 1), self._colours()[::-1, None]))
        drawing.frame(x, y, BAR, self.length)
        for value, place in on(self.shown.scale, self.length, min(MOST_TICKS, self.length // TICK_ROOM)):
            at = y + self.length - 1 - place
            drawing.boxes.append(Box(x + BAR + 1, at, TICK_LENGTH, 1))
            drawing.texts.append(
                Text(x + BAR + TICK_LENGTH + 5, at + 4, self.shown.scale.spoken(value), self.sheet.tick)
            )
        return y + self.length + 10

    def _lying(self, drawing: Drawing, x: int, y: int) -> int:
        """The ramp with its largest value at the right; where the next thing goes."""
        drawing.images.append(Image(x, y, (1, BAR), self._colours()[None, :]))
        drawing.frame(x, y, self.length, BAR)
        for value, place in self._apart():
            drawing.boxes.append(Box(x + place, y + BAR + 1, 1, TICK_LENGTH))
            beneath = Text(
                x + place, y + BAR + TICK_LENGTH + 13, self.shown.scale.spoken(value), self.sheet.tick, "middle"
            )
            drawing.texts.append(within(beneath, drawing.width, self.lettering))
        return y + BAR + TICK_LENGTH + 22

    def _apart(self) -> Sequence[tuple[float, int]]:
        """As many ticks as can be told side by side."""
        most = next((most for most in range(MOST_TICKS, 1, -1) if self._has_room(most)), 1)
        return on(self.shown.scale, self.length, most)

    def _has_room(self, most: int) -> bool:
        """Whether none of so many ticks has its text too near to that of the next."""
        ticks = on(self.shown.scale, self.length, most)
        halves = [self.lettering.width(self.shown.scale.spoken(value), self.sheet.tick) / 2 for value, _ in ticks]
        ends = [(place - half, place + half) for (_, place), half in zip(ticks, halves, strict=True)]
        return all(end + TICK_GAP <= begin for (_, end), (begin, _) in itertools.pairwise(ends))

    def _colours(self) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """From the least value to the largest, a colour for each pixel of the ramp's length."""
        places = np.arange(self.length) * (RAMP - 1) // (self.length - 1)
        return (places + self.shown.scale.ramp).astype(np.uint8)

    def _below(self, drawing: Drawing, x: int, y: int) -> None:
        for text, colour in self.shown.scale.states:
            self._swatch(drawing, x, y, text, colour)
            y += LINE

    def _after_each_other(self, drawing: Drawing, x: int, y: int) -> None:
        for text, colour in self.shown.scale.states:
            self._swatch(drawing, x, y, text, colour)
            x += BAR + TICK_LENGTH + 5 + self.lettering.width(text, self.sheet.tick) + LINE

    def _swatch(self, drawing: Drawing, x: int, y: int, text: str, colour: int) -> None:
        drawing.boxes.append(Box(x, y, BAR, LINE - 4, colour))
        drawing.frame(x, y, BAR, LINE - 4)
        drawing.texts.append(Text(x + BAR + TICK_LENGTH + 5, y + 10, text, self.sheet.tick))


def on(scale: Scale, length: int, most: int) -> Sequence[tuple[float, int]]:
    """About so many ticks of a scale at most, with their places along it in pixels."""
    if scale.kind == "two":
        return []
    ticks = scale.ticks(most)
    places = np.rint(scale.places(np.array(ticks, np.float64)) * (length - 1))
    return list(zip(ticks, places.astype(int).tolist(), strict=True))


def within(text: Text, width: int, lettering: Lettering) -> Text:
    """A text around a place, moved left where the picture would cut it off."""
    half = -(-lettering.width(text.text, text.size) // 2)
    return Text(min(text.x, width - 2 - half), text.y, text.text, text.size, text.anchor)
