"""What is drawn: images of whole cells, boxes, and texts, at whole pixels from the top left corner."""

from dataclasses import dataclass, field
from typing import Literal

from service.formats.pictures.palette import INK
from service.formats.pictures.scales import Indices

Anchor = Literal["start", "middle", "end"]
Direction = Literal["across", "up"]


@dataclass(frozen=True, slots=True)
class Image:
    """Colours by number, each drawn as a cell of so many pixels."""

    x: int
    y: int
    cell: tuple[int, int]
    colours: Indices


@dataclass(frozen=True, slots=True)
class Box:
    """A filled box of one colour; lines are thin boxes."""

    x: int
    y: int
    width: int
    height: int
    colour: int = INK // 2


@dataclass(frozen=True, slots=True)
class Text:
    """A text whose base line passes through (x, y) at its beginning, middle or end."""

    x: int
    y: int
    text: str
    size: int = 11
    anchor: Anchor = "start"
    bold: bool = False
    direction: Direction = "across"


@dataclass(slots=True)
class Drawing:
    """A picture before it is pixels or vectors. `title` and `description` are for those who cannot see it."""

    title: str
    description: str
    width: int = 0
    height: int = 0
    images: list[Image] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def frame(self, x: int, y: int, width: int, height: int) -> None:
        """A thin line around a place."""
        across = [Box(x - 1, edge, width + 2, 1) for edge in (y - 1, y + height)]
        along = [Box(edge, y, 1, height) for edge in (x - 1, x + width)]
        self.boxes += across + along
