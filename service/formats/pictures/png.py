"""A drawing as PNG with a palette (ISO/IEC 15948), and the same for the images inside an SVG.

Python's zlib packs it, whose version is part of the format's revision.
"""

import struct
import zlib

import numpy as np

from service.formats.format import Theme
from service.formats.pictures.drawing import Drawing, Image, Text
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import INK, Colour, palette
from service.formats.pictures.scales import Indices

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVEL = 6
_NONE, _UP = 0, 2


def png(drawing: Drawing, lettering: Lettering, theme: Theme) -> bytes:
    """The whole drawing as a file."""
    told = {"Title": drawing.title, "Description": drawing.description}
    return encoded(canvas(drawing, lettering), palette(theme), told)


def canvas(drawing: Drawing, lettering: Lettering) -> Indices:
    """The number of each pixel's colour."""
    pixels = np.zeros((drawing.height, drawing.width), np.uint8)
    for image in drawing.images:
        _paste(pixels, image)
    for box in drawing.boxes:
        pixels[box.y : box.y + box.height, box.x : box.x + box.width] = box.colour
    for text in drawing.texts:
        _write(pixels, text, lettering)
    return pixels


def encoded(pixels: Indices, colours: tuple[Colour, ...], told: dict[str, str]) -> bytes:
    """Colours by number as a file; `told` are its texts by keyword."""
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = pixels
    # A row like the one above it is a row of zeros; any other is packed best as it is.
    same = np.zeros(height, bool)
    same[1:] = (pixels[1:] == pixels[:-1]).all(axis=1)
    rows[same] = 0
    rows[:, 0] = np.where(same, _UP, _NONE)
    chunks = [(b"IHDR", struct.pack(">2I5B", width, height, 8, 3, 0, 0, 0))]
    chunks.append((b"PLTE", b"".join(bytes(colour) for colour in colours)))
    chunks += [(b"iTXt", name.encode() + b"\0\0\0en\0\0" + text.encode()) for name, text in told.items()]
    chunks += [(b"IDAT", zlib.compress(rows.data, _LEVEL)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _paste(pixels: Indices, image: Image) -> None:
    width, height = image.cell
    drawn = image.colours.repeat(height, axis=0).repeat(width, axis=1)
    pixels[image.y : image.y + drawn.shape[0], image.x : image.x + drawn.shape[1]] = drawn


def _write(pixels: Indices, text: Text, lettering: Lettering) -> None:
    """Letters, as shades between background and ink; what lies beyond the edge is cut off."""
    shades, below = lettering.pixels(text.text, text.size, text.bold)
    shades = ((shades.astype(np.uint16) * INK + 127) // 255).astype(np.uint8)
    back = {"start": 0, "middle": shades.shape[1] // 2, "end": shades.shape[1]}[text.anchor]
    x, y = text.x - back, text.y - shades.shape[0] + below
    if text.direction == "up":
        # The text's beginning is at the bottom, and its base line to the right.
        shades = np.rot90(shades)
        x, y = text.x - shades.shape[1] + below, text.y + back - shades.shape[0]
    top, left = max(0, -y), max(0, -x)
    place = pixels[y + top : y + shades.shape[0], x + left : x + shades.shape[1]]
    np.maximum(place, shades[top : top + place.shape[0], left : left + place.shape[1]], out=place)
