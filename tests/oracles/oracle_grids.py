"""Sinusoidal tables on grids in plain loops, to a hundred digits: each library's own, written from its formula.

The axes of a grid are (height, width) or (frames, height, width). What an axis adds to a row is an ordinary sinusoidal
encoding of its coordinate (`oracle_sinusoidal.encoding`). Nothing here knows the service; nothing is vectorised.
"""

from collections.abc import Sequence
from itertools import product

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS, Real, real
from tests.oracles.oracle_sinusoidal import encoding

Rows = list[list[mpf]]
Grid = tuple[int, ...]


def half(coordinate: Real, width: int, shift: Real = 0) -> list[mpf]:
    """Sines, then cosines."""
    return encoding(coordinate, width, 10000, "sin-cos", frequency_shift=shift)


def h_first(grid: Grid, dim: int) -> Rows:
    """transformers: the row's half, then the column's; row by row."""
    return [half(y, dim // 2) + half(x, dim // 2) for y in range(grid[0]) for x in range(grid[1])]


def mae(grid: Grid, dim: int) -> Rows:
    """A class token, and the column's half before the row's."""
    cells = [half(x, dim // 2) + half(y, dim // 2) for y in range(grid[0]) for x in range(grid[1])]
    return [[mpf(0)] * dim, *cells]


def moco(grid: Grid, dim: int) -> Rows:
    """MoCo v3: its mesh runs down the columns."""
    cells = [half(x, dim // 2) + half(y, dim // 2) for x in range(grid[1]) for y in range(grid[0])]
    return [[mpf(0)] * dim, *cells]


def big_vision(grid: Grid, dim: int) -> Rows:
    """As MoCo v3, it says; but its mesh runs along the rows, and its exponents are k / (dim/4 - 1)."""
    cells = [(y, x) for y in range(grid[0]) for x in range(grid[1])]
    return [half(x, dim // 2, shift=1) + half(y, dim // 2, shift=1) for y, x in cells]


def tensor2tensor(grid: Grid, dim: int) -> Rows:
    """floor(dim / 2 axes) time scales for each axis, from 1 to 10000; the channels left over stay as they are."""
    scales = dim // (2 * len(grid))
    rows = []
    for cell in product(*map(range, grid)):
        row: list[mpf] = []
        for coordinate in cell:
            row += half(coordinate, 2 * scales, shift=1)
        rows.append(row + [mpf(0)] * (dim - len(row)))
    return rows


def v_jepa(grid: Grid, dim: int) -> Rows:
    """Half of the channels for time, a quarter for height and for width."""
    rows = []
    for t, y, x in product(*map(range, grid)):
        rows.append(half(t, dim // 2) + half(y, dim // 4) + half(x, dim // 4))
    return rows


def v_jepa_uniform(grid: Grid, dim: int) -> Rows:
    """As many for each, the next even number above dim / 3, and cut off at dim."""
    each = 2 * -(-dim // 6)
    return [(half(t, each) + half(y, each) + half(x, each))[:dim] for t, y, x in product(*map(range, grid))]


def prithvi(grid: Grid, dim: int) -> Rows:
    """Six sixteenths for the column, as many for the row, four for time; after a class token."""
    rows = [[mpf(0)] * dim]
    for t, y, x in product(*map(range, grid)):
        rows.append(half(x, dim // 16 * 6) + half(y, dim // 16 * 6) + half(t, dim // 16 * 4))
    return rows


def detr_positions(
    mask: Sequence[Sequence[int]], scale: float, eps: float = 1e-6, offset: float = 0.0, *, normalize: bool = True
) -> list[tuple[float, float]]:
    """y and x of each pixel, row by row, in float64: counted pixel by pixel."""
    positions = []
    for row, line in enumerate(mask):
        for column in range(len(line)):
            so_far = sum(above[column] for above in mask[: row + 1]), sum(line[: column + 1])
            last = sum(above[column] for above in mask), sum(line)
            at = []
            for count, end in zip(so_far, last, strict=True):
                position = count + offset
                at.append(position / (end + eps) * scale if normalize else position)
            positions.append((at[0], at[1]))
    return positions


def detr(positions: Sequence[tuple[float, float]], dim: int, bases: tuple[Real, Real] = (10000, 10000)) -> Rows:
    """The half of y, then of x, sines and cosines in turn."""
    return [encoding(y, dim // 2, bases[0]) + encoding(x, dim // 2, bases[1]) for y, x in positions]


def boxes(coordinates: Sequence[Sequence[float]], dim: int, scale: Real, *, y_first: bool = True) -> Rows:
    """A block of sines and cosines in turn for each coordinate: y before x, width and height as they are."""
    rows = []
    with mpmath.workprec(PRECISION_BITS):
        for own in coordinates:
            order = [own[1], own[0], *own[2:]] if y_first else own
            values = [value for share in order for value in encoding(real(share) * real(scale), dim)]
            # The sine of half a turn is 0, not what the digits of pi leave.
            rows.append([value if abs(value) > 1e-90 else mpf(0) for value in values])
    return rows
