"""How large the parts of a picture are, in pixels: one sheet for each width that a picture can have.

The letters of both are of about one size. What differs is the room beside them: a wide picture suits a page, a narrow
one a phone that shows it as it is, with fewer panels side by side and the colour bar beneath instead of beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.formats.format import PictureWidth


@dataclass(frozen=True, slots=True)
class Sheet:
    """The sizes of everything but of cells, which take the room that they are given."""

    room: tuple[int, int]  # for the cells of one group, gaps between panels included
    least_width: int
    margin: int
    gap: tuple[int, int]  # between panels; below one there is room for the name of the next
    numbered_gap: int  # between a few tensors side by side: room for numbers at the left of each
    least_height: int  # of a panel
    least_pitch: int  # from panel to panel, for its name
    most_across: tuple[int, int]  # panels side by side: where there are few, and where there are many
    most_down: int  # of many
    profiles_across: int
    tallest: int  # all panels of a group, if they can be arranged so
    stretch: int  # how much longer than the other a side of a cell may be, where axes count different things
    title: int
    subtitle: int
    label: int
    tick: int
    digit: int  # the width of a tick's digit with a share of the space around a number
    least_step: tuple[int, int]  # between numbers along the bottom and at the left
    names: int  # the room at the left for what indices are called
    most_lines: int  # of the title, of the parameters, and of what is left out
    bar_is_beside: bool


WIDE = Sheet(
    room=(1024, 512),
    least_width=560,
    margin=16,
    gap=(20, 26),
    numbered_gap=48,
    least_height=96,
    least_pitch=96,
    most_across=(6, 8),
    most_down=5,
    profiles_across=3,
    tallest=1 << 16,
    stretch=1,
    title=15,
    subtitle=11,
    label=12,
    tick=10,
    digit=8,
    least_step=(44, 22),
    names=200,
    most_lines=3,
    bar_is_beside=True,
)
# With letters of 12 pixels 352 are as wide as it gets: shown on 333, which a phone of 375 has beside the margins of a
# page, they are larger than 11.
NARROW = Sheet(
    room=(256, 560),
    least_width=340,
    margin=10,
    gap=(12, 28),
    numbered_gap=12,
    least_height=96,
    least_pitch=54,
    most_across=(4, 4),
    most_down=10,
    profiles_across=1,
    tallest=1000,
    stretch=2,
    title=15,
    subtitle=12,
    label=12,
    tick=12,
    digit=10,
    least_step=(44, 24),
    names=48,
    most_lines=6,
    bar_is_beside=False,
)
SHEETS: Mapping[PictureWidth, Sheet] = {"wide": WIDE, "narrow": NARROW}
