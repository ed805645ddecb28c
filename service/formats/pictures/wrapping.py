"""Texts that are longer than their place: in several lines, and cut where there is no more room."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.formats.pictures.lettering import Lettering

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Face:
    """Letters of one size."""

    lettering: Lettering
    size: int
    bold: bool = False

    def fits(self, text: str, room: int) -> bool:
        """Whether there is room for a text in so many pixels."""
        return self.lettering.width(text, self.size, self.bold) <= room

    def cut(self, text: str, room: int) -> str:
        """As much of a text as there is room for."""
        if self.fits(text, room):
            return text
        while text and not self.fits(text + ELLIPSIS, room):
            text = text[:-1]
        return text + ELLIPSIS

    def wrapped(self, text: str, room: int, most: int) -> list[str]:
        """A text in so many lines at most; the last says so if there is more."""
        lines: list[str] = []
        for space, word in self._words(text, room):
            if lines and self.fits(lines[-1] + space + word, room):
                lines[-1] += space + word
            else:
                lines.append(self.cut(word, room))
        if len(lines) > most:
            lines[most - 1 :] = [self.cut(lines[most - 1] + ELLIPSIS, room)]
        return lines

    def _words(self, text: str, room: int) -> Iterator[tuple[str, str]]:
        """What stays on one line, after what stands before it; a list that is longer is broken after its commas."""
        for word in text.split():
            first, *more = [word] if self.fits(word, room) else re.findall("[^,]+,*|,+", word)
            yield " ", first
            yield from (("", part) for part in more)
