"""A drawing as SVG 1.1: cells as an embedded PNG of one pixel each, letters as outlines, so that no font is needed."""

from base64 import b64encode
from collections.abc import Iterator
from html import escape

from service.formats.format import Theme
from service.formats.pictures.drawing import Drawing, Image, Text
from service.formats.pictures.lettering import UNITS, Lettering
from service.formats.pictures.palette import BACKGROUND, INK, Colour, palette
from service.formats.pictures.png import encoded


def svg(drawing: Drawing, lettering: Lettering, theme: Theme) -> bytes:
    """The whole drawing as a file."""
    return "\n".join(_lines(drawing, lettering, palette(theme))).encode()


def _lines(drawing: Drawing, lettering: Lettering, colours: tuple[Colour, ...]) -> Iterator[str]:
    width, height = drawing.width, drawing.height
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title description">'
    )
    yield f'<title id="title">{escape(drawing.title)}</title>'
    yield f'<desc id="description">{escape(drawing.description)}</desc>'
    yield "<defs>"
    used = sorted({(letter, text.bold) for text in drawing.texts for letter in text.text if letter != " "})
    for letter, bold in used:
        yield f'<path id="{_name(letter, bold)}" d="{lettering.outline(letter, bold)[0]}"/>'
    yield "</defs>"
    yield f'<rect width="{width}" height="{height}" fill="{_hex(colours[BACKGROUND])}"/>'
    for image in drawing.images:
        yield _image(image, colours)
    for box in drawing.boxes:
        yield (
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" '
            f'fill="{_hex(colours[box.colour])}" shape-rendering="crispEdges"/>'
        )
    yield f'<g fill="{_hex(colours[INK])}">'
    for text in drawing.texts:
        yield from _letters(text, lettering)
    yield "</g>"
    yield "</svg>\n"


def _image(image: Image, colours: tuple[Colour, ...]) -> str:
    rows, columns = image.colours.shape
    data = b64encode(encoded(image.colours, colours, {})).decode()
    place = f'x="{image.x}" y="{image.y}" width="{columns * image.cell[0]}" height="{rows * image.cell[1]}"'
    return (
        f'<image {place} preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'xlink:href="data:image/png;base64,{data}"/>'
    )


def _letters(text: Text, lettering: Lettering) -> Iterator[str]:
    """A text's letters, in units of the font, moved and scaled to their place."""
    advances = [lettering.outline(letter, text.bold)[1] for letter in text.text]
    back = {"start": 0, "middle": -(sum(advances) // 2), "end": -sum(advances)}[text.anchor]
    scale = text.size / UNITS  # a power of two below: exact
    turned = " rotate(-90)" if text.direction == "up" else ""
    uses = []
    for letter, advance in zip(text.text, advances, strict=True):
        if letter != " ":
            uses.append(f'<use xlink:href="#{_name(letter, text.bold)}" x="{back}"/>')
        back += advance
    yield f'<g transform="translate({text.x} {text.y}){turned} scale({scale} {-scale})">{"".join(uses)}</g>'


def _name(letter: str, bold: bool) -> str:
    return f"{'b' if bold else 'r'}{ord(letter):x}"


def _hex(colour: Colour) -> str:
    return "#" + bytes(colour).hex()
