"""`.png` and `.svg`: what tensors look like, as labelled heatmaps. What a picture needs is loaded with the first one.

sheet      how large the parts of a picture are, wide or narrow
plan       which panels and which of their cells are shown, from axes and shapes
cells      the values of those cells, pulled in blocks
scales     from values to numbers of colours, and what the colour bar says
shown      panels with their values and scale, and what is said of them
palette    what the numbers mean, light or dark
axes       the numbers along the edges
lettering  letters as pixels and as outlines (the only part that needs matplotlib, besides colour maps)
naming     what panels are called, and what has none
share      what is compared with a uniform share
wrapping   texts that are longer than their place
legend     the ramp of colours, and what is no number
compose    all of it at its place: a drawing
png, svg   a drawing as bytes
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from service.formats.errors import CannotHold
from service.formats.format import Answer, Chunk, Document, Format, Tensors, Theme, holders
from service.formats.pictures.compose import compose, most_pixels
from service.formats.pictures.drawing import Drawing
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.plan import plan
from service.formats.pictures.png import png
from service.formats.pictures.sheet import WIDE
from service.formats.pictures.svg import svg

# Letters of a picture: outlines of each that is used, and a use of some hundred bytes for each that stands there.
LETTERS_BYTES = 1 << 18
# Bytes for each pixel while it is drawn: cells as float64, what is made of them on the way, and the pixels themselves.
WORKING_FACTOR = 40


@dataclass(frozen=True, slots=True)
class Picture(Format):
    """A format for eyes: it shows the numbers, and does not hold them."""

    draw: Callable[[Drawing, Lettering, Theme], bytes]

    def check(self, tensors: Tensors) -> None:
        """Raise `CannotHold` if there is not a single value to show."""
        if not plan(tensors, WIDE).groups:
            raise CannotHold("empty", f"{self.extension} has nothing to show without values", holders(tensors))

    def size(self, document: Document, tensors: Tensors) -> None:  # noqa: ARG002 - only drawing would tell
        self.check(tensors)

    def bound(self, document: Document, tensors: Tensors) -> int:  # noqa: ARG002 - captions are cut to fit
        self.check(tensors)
        # At worst nothing can be packed, and four letters stand for three bytes.
        return most_pixels(tensors) * 3 // 2 + LETTERS_BYTES

    def working(self, tensors: Tensors) -> int:
        return WORKING_FACTOR * most_pixels(tensors)

    def chunks(self, answer: Answer, start: int, stop: int | None) -> Iterator[Chunk]:
        if start or stop is not None:
            raise ValueError(f"{self.extension} has no byte windows")
        return self._drawn(answer)

    def _drawn(self, answer: Answer) -> Iterator[Chunk]:
        lettering = Lettering()
        yield self.draw(compose(answer, lettering), lettering, answer.captions.theme)


# The letters and the colours are matplotlib's, the packing is zlib's: their versions count among what makes the bytes.
_REVISION = f"3-matplotlib-{version('matplotlib')}-zlib-{zlib.ZLIB_RUNTIME_VERSION}"

PNG = Picture("png", "image/png", _REVISION, "none", png)
SVG = Picture("svg", "image/svg+xml", _REVISION, "none", svg)
PICTURES = (PNG.extension, SVG.extension)
