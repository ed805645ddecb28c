"""How a row of a resized table is made of the rows of the old one: weights that are whole numbers over a whole number.

New row i of m lies at the coordinate u of the n old rows (row j at j), a step further for each i:

    half-pixel      u = (i + 1/2) s - 1/2, s = n / m, or n / (m + 0.1)
    align-corners   u = i s,               s = (n - 1) / (m - 1)

Old row j gets the weight k(j - u), or with antialiasing k((j - u) / s) where s > 1. The kernels are

    linear   k(x) = 1 - |x|                                   |x| <= 1
    cubic    k(x) = (a + 2) |x|^3 - (a + 3) |x|^2 + 1         |x| <= 1        (Keys 1981)
             k(x) = a |x|^3 - 5 a |x|^2 + 8 a |x| - 4 a       1 <= |x| <= 2

and 0 beyond. u is a fraction, and so is every weight: nothing is rounded here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Literal, NamedTuple

Kernel = Literal["linear", "cubic"]
Edges = Literal["replicate", "renormalise"]

REACH = {"linear": 1, "cubic": 2}


class Taps(NamedTuple):
    """The old rows that make a new one, and their weights `numerators / denominator`, which add up to 1."""

    rows: tuple[int, ...]
    numerators: tuple[int, ...]
    denominator: int


class Step(NamedTuple):
    """u of the first new row, and how much it grows with each: (first + i by) / over."""

    first: int
    by: int
    over: int


def half_pixel(old: int, new: int) -> Step:
    """Cells of one size each, from edge to edge.

    >>> half_pixel(4, 8)  # u = -1/4, 1/4, 3/4, ...
    Step(first=-4, by=8, over=16)
    """
    return Step(old - new, 2 * old, 2 * new)


def plus_tenth(old: int, new: int) -> Step:
    """The same where new + 0.1 cells are said to fill the old ones: DINO's guard against a size rounded down."""
    return Step(10 * old - (10 * new + 1), 20 * old, 2 * (10 * new + 1))


def align_corners(old: int, new: int) -> Step:
    """The first on the first, the last on the last; a single one on the first.

    >>> align_corners(4, 8)  # u = 0, 3/7, 6/7, ...
    Step(first=0, by=3, over=7)
    """
    return Step(0, old - 1, new - 1) if new > 1 else Step(0, 0, 1)


@dataclass(frozen=True, slots=True)
class Resizing:
    """How one axis of `old` rows is resized. `quarters` is -4 a of the cubic kernel: 3 for a = -0.75, 2 for -0.5.

    `stretch` widens the kernel where the step is larger than 1 (antialiasing). `edges` says what becomes of rows
    before the first and behind the last: the first or last takes their weight, or they are left out.

    >>> Resizing(4, half_pixel(4, 8), "linear").taps(1)
    Taps(rows=(0, 1), numerators=(3, 1), denominator=4)
    """

    old: int
    step: Step
    kernel: Kernel
    quarters: int = 3
    stretch: bool = False
    edges: Edges = "replicate"

    @property
    def unit(self) -> int:
        """What the kernel takes for 1, in parts of `step.over`."""
        return max(self.step.over, self.step.by) if self.stretch else self.step.over

    @property
    def most(self) -> int:
        """The largest number of taps that a row can have."""
        near = -(-2 * REACH[self.kernel] * self.unit // self.step.over)
        return min(near, self.old) if self.edges == "renormalise" else near

    def taps(self, row: int) -> Taps:
        """The taps of a new row, from the first old row to the last."""
        first, by, over = self.step
        at, unit = first + row * by, self.unit
        wide = REACH[self.kernel] * unit
        near = range((at - wide) // over + 1, -((-at - wide) // over))
        if self.edges == "renormalise":
            near = range(max(near.start, 0), min(near.stop, self.old))
        weigh: Callable[[int, int], int] = _linear if self.kernel == "linear" else self._cubic
        weighed = [(min(max(old, 0), self.old - 1), weigh(abs(old * over - at), unit)) for old in near]
        return reduced([(old, weight) for old, weight in weighed if weight])

    def _cubic(self, distance: int, unit: int) -> int:
        """4 unit^3 k(distance / unit)."""
        a, square = self.quarters, distance * distance
        if distance <= unit:
            return (8 - a) * square * distance - (12 - a) * square * unit + 4 * unit**3
        return a * (-square * distance + 5 * square * unit - 8 * distance * unit**2 + 4 * unit**3)


def _linear(distance: int, unit: int) -> int:
    """unit k(distance / unit)."""
    return unit - distance


def reduced(weighed: list[tuple[int, int]]) -> Taps:
    """Old rows with weights in proportion, as taps whose weights add up to 1.

    >>> reduced([(3, 10), (4, 30)])
    Taps(rows=(3, 4), numerators=(1, 3), denominator=4)
    """
    common = gcd(*(weight for _, weight in weighed))
    numerators = tuple(weight // common for _, weight in weighed)
    return Taps(tuple(old for old, _ in weighed), numerators, sum(numerators))


def crossed(outer: Taps, inner: Taps, width: int) -> Taps:
    """The taps of a cell of a grid `width` cells wide, of those of its row and of its column.

    >>> crossed(Taps((0, 1), (1, 1), 2), Taps((2,), (1,), 1), 5)
    Taps(rows=(2, 7), numerators=(1, 1), denominator=2)
    """
    return Taps(
        tuple(row * width + column for row, column in product(outer.rows, inner.rows)),
        tuple(mine * its for mine, its in product(outer.numerators, inner.numerators)),
        outer.denominator * inner.denominator,
    )
