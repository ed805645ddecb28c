"""Every colour a picture can have, by number: 256 of them, so that a picture is whole numbers from the start.

0 is the background, then come `INK` shades from it to the ink (letters, lines), the colours of values that are no
numbers and of truth values, and two ramps of `RAMP` colours: diverging, whose middle is zero, and sequential. Themes
differ in nothing but what the numbers mean.
"""

from functools import cache

from service.formats.format import Theme

Colour = tuple[int, int, int]

BACKGROUND = 0
INK = 16
NEGATIVE_INFINITY, POSITIVE_INFINITY, NOT_A_NUMBER, FALSE, TRUE = range(INK + 1, INK + 6)
ZERO = TRUE + 1  # where the ramp has no place for it
RAMP = 115  # odd: the middle of the diverging ramp is zero
DIVERGING = 24
SEQUENTIAL = DIVERGING + RAMP

_PLAIN: dict[Theme, tuple[Colour, Colour]] = {
    "light": ((255, 255, 255), (31, 35, 40)),
    "dark": ((13, 17, 23), (230, 237, 243)),
}
_STATES: dict[Theme, tuple[Colour, ...]] = {
    "light": ((110, 119, 129), (244, 143, 10), (214, 70, 190), (226, 230, 236), (9, 105, 218)),
    "dark": ((72, 79, 88), (244, 143, 10), (214, 70, 190), (33, 40, 50), (88, 166, 255)),
}
_MAPS: dict[Theme, tuple[str, str]] = {"light": ("RdBu_r", "viridis"), "dark": ("berlin", "viridis")}


@cache
def palette(theme: Theme) -> tuple[Colour, ...]:
    """The 256 colours of a theme; the ramps are matplotlib's."""
    paper, ink = _PLAIN[theme]
    shades = [_between(paper, ink, level) for level in range(INK + 1)]
    diverging, sequential = (_ramp(name) for name in _MAPS[theme])
    colours = [*shades, *_STATES[theme], paper, paper, *diverging, *sequential]
    return (*colours, *[paper] * (256 - len(colours)))


def _between(paper: Colour, ink: Colour, level: int) -> Colour:
    red, green, blue = ((a * (INK - level) + b * level + INK // 2) // INK for a, b in zip(paper, ink, strict=True))
    return red, green, blue


def _ramp(name: str) -> list[Colour]:
    """A colour map in so many steps, each part to the nearest of 256."""
    from service.formats.pictures.loading import matplotlib  # noqa: PLC0415 - loaded with the first picture

    chosen = matplotlib().colormaps[name].resampled(RAMP)
    parts = [[int(255 * part + 0.5) for part in chosen(number)] for number in range(RAMP)]
    return [(red, green, blue) for red, green, blue, _ in parts]
