"""Letters: how wide a text is, its pixels, and its outlines, all from DejaVu Sans as matplotlib ships it.

FreeType computes in whole numbers, so that pixels are the same on every processor. A font is opened for each picture:
two threads must not share one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.formats.pictures.loading import data, matplotlib

UNITS = 2048  # of the em, in DejaVu
_FILES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
_MOVE, _CURVE, _CLOSE = 1, 3, 79


class Lettering:
    """The regular and the bold face."""

    def __init__(self) -> None:
        matplotlib()
        from matplotlib import ft2font  # noqa: PLC0415 - loaded with the first picture

        self._flags = ft2font.LoadFlags
        self._faces = [ft2font.FT2Font(str(data() / "fonts" / "ttf" / name)) for name in _FILES]
        self._glyphs: dict[tuple[str, bool], tuple[str, int]] = {}

    def known(self, text: str, bold: bool) -> str:
        """The text with a question mark for what the font has no letter for."""
        face = self._faces[bold]
        return "".join(letter if face.get_char_index(ord(letter)) else "?" for letter in text)

    def width(self, text: str, size: int, bold: bool = False) -> int:
        """Pixels from the beginning to the end of a text."""
        return -(-sum(self.outline(letter, bold)[1] for letter in text) * size // UNITS)

    def pixels(self, text: str, size: int, bold: bool) -> tuple[NDArray[np.uint8], int]:
        """How much of each pixel is ink, 0 to 255, and how many rows of them lie below the base line."""
        face = self._faces[bold]
        face.set_size(size, 72)
        face.set_text(text)
        face.draw_glyphs_to_bitmap(antialiased=True)
        return np.array(face.get_image(), np.uint8), face.get_descent() // 64

    def outline(self, letter: str, bold: bool) -> tuple[str, int]:
        """A letter's outline as SVG has it, y upwards, and its advance: in units of the font."""
        key = (letter, bold)
        if key not in self._glyphs:
            face = self._faces[bold]
            glyph = face.load_char(ord(letter), flags=self._flags.NO_SCALE)
            self._glyphs[key] = (" ".join(_drawn(*face.get_path())), glyph.horiAdvance)
        return self._glyphs[key]


def _drawn(points: NDArray[Any], codes: NDArray[Any]) -> Iterator[str]:
    """matplotlib's path as SVG's: moves, lines, and quadratic curves of two points each."""
    # Its points are sixty-fourths of units.
    steps = zip(((points * 64).astype(int)).tolist(), codes.tolist(), strict=True)
    for (x, y), code in steps:
        if code == _CURVE:
            (end_x, end_y), _ = next(steps)
            yield f"Q{x} {y} {end_x} {end_y}"
        else:
            yield "Z" if code == _CLOSE else f"{'M' if code == _MOVE else 'L'}{x} {y}"
