"""Arrays as a drawing and as a picture, and what of a drawing its tests look at."""

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from service.formats import FORMATS
from service.formats.format import Answer, Captions, PictureWidth, Theme
from service.formats.pictures.compose import compose
from service.formats.pictures.drawing import Drawing, Image, Text
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import BACKGROUND
from tests.formats.samples import Spec, rows_of, specs

Arrays = dict[str, NDArray[Any]]
CAPTIONS = Captions("A table", "encodings/none: length=5")


def answer(arrays: Arrays, captions: Captions = CAPTIONS, axes: tuple[str, ...] = (), block_bytes: int = 96) -> Answer:
    told = specs(arrays)
    if axes:
        told = {name: Spec(axes, spec.shape, spec.dtype) for name, spec in told.items()}
    return Answer({}, told, rows_of(arrays), block_bytes, captions=captions)


def drawn(arrays: Arrays, captions: Captions = CAPTIONS, axes: tuple[str, ...] = ()) -> Drawing:
    return compose(answer(arrays, captions, axes), Lettering())


def panels(drawing: Drawing) -> list[Image]:
    """The images that are no colour bars."""
    return [image for image in drawing.images if image.cell not in ((14, 1), (1, 14))]


def words(drawing: Drawing) -> list[str]:
    return [text.text for text in drawing.texts]


def picture(extension: str, arrays: Arrays, theme: Theme = "light", width: PictureWidth = "wide") -> bytes:
    tensors = specs(arrays)
    captions = Captions("t", "p", theme=theme, width=width)
    chunks = FORMATS[extension].stream({}, tensors, rows_of(arrays), captions=captions)
    return b"".join(chunks)


def faults(drawing: Drawing) -> Iterator[str]:
    """Texts that lie over each other or over cells, and those that the picture cuts off."""
    lettering = Lettering()
    places = [(text.text, _place(text, lettering)) for text in drawing.texts]
    for number, (told, (left, top, right, bottom)) in enumerate(places):
        if left < 0 or top < 0 or right > drawing.width or bottom > drawing.height:
            yield f"{told!r} is cut off"
        for other, (x, y, end, low) in places[:number]:
            if left < end and x < right and top < low and y < bottom:
                yield f"{told!r} lies over {other!r}"
        if any(_cells(image, left, top, right, bottom) for image in drawing.images):
            yield f"{told!r} lies over cells"


def _cells(image: Image, left: int, top: int, right: int, bottom: int) -> bool:
    """Whether a place has cells in it; above the columns of a profile there are none."""
    drawn = image.colours.repeat(image.cell[1], axis=0).repeat(image.cell[0], axis=1)
    part = drawn[max(0, top - image.y) : max(0, bottom - image.y), max(0, left - image.x) : max(0, right - image.x)]
    return bool((part != BACKGROUND).any())


def _place(text: Text, lettering: Lettering) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a text, from its base line to the height of its capitals."""
    length, height = lettering.width(text.text, text.size, text.bold), text.size * 3 // 4
    back = {"start": 0, "middle": length // 2, "end": length}[text.anchor]
    if text.direction == "up":
        return text.x - height, text.y + back - length, text.x, text.y + back
    return text.x - back, text.y - height, text.x - back + length, text.y
