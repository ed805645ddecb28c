"""Rows of sines and cosines at equal steps: a few in full, the others by the angle-addition formula.

A panel of stride R asks for two kinds:

    offsets   -R/2 ... R/2 - 1        sums of r = 0 ... n - 1 and of n, 2 n, ...; those below 0 are mirrored
    bases     (q + 1/2) R, ...        sums of one row in full for each 16, and of 0, R, 2 R, ... 15 R

What these are sums of does not change, and is computed once.
"""

from typing import NamedTuple

import numpy as np

from service.engine.numbers.pairs import Floats, Pair, Rows, aligned, halves, negative, runs
from service.engine.numbers.sines import Angles

FINE_BASES = 16
# Values added up at a time: the some twenty arrays of that stay in a core's second-level cache.
SUMMED_VALUES = 4096


class Ladders:
    """The rungs of one panel. Threads share it: what is kept is replaced whole, and all agree."""

    def __init__(self, angles: Angles, stride: int) -> None:
        self._angles = angles
        self._stride = stride
        self._rungs: tuple[Rows, Rows, Rows] | None = None

    def offsets(self) -> Rows:
        """The rows at -R/2 ... R/2 - 1."""
        fine, coarse, _ = self._all_rungs()
        half = self._stride // 2
        up = _sums(coarse, fine, half + 1)
        both = aligned((4, self._stride, up.sines.high.shape[1]), np.float64)
        for place, part in zip(both, (*up.sines, *up.cosines), strict=True):
            place[:half], place[half:] = part[:0:-1], part[:half]
        np.negative(both[:2, :half], out=both[:2, :half])
        return Rows(Pair(*both[:2]), Pair(*both[2:]))

    def bases(self, first: int, count: int) -> Rows:
        """The rows at (q + 1/2) R for that many q."""
        start, step = first * self._stride + self._stride // 2, FINE_BASES * self._stride
        coarse = self._full(range(start, start + count * self._stride, step))
        return _sums(coarse, self._all_rungs()[2], count)

    def _all_rungs(self) -> tuple[Rows, Rows, Rows]:
        if self._rungs is None:
            half, step = self._stride // 2, 1 << self._stride.bit_length() // 2
            kinds = (range(step), range(0, half + 1, step), range(0, FINE_BASES * self._stride, self._stride))
            rows = self._full([position for kind in kinds for position in kind])
            ends = np.cumsum([len(kind) for kind in kinds]).tolist()
            fine, coarse, bases = (rows.at(slice(end - len(kind), end)) for kind, end in zip(kinds, ends, strict=True))
            self._rungs = fine, coarse, bases
        return self._rungs

    def _full(self, positions: "range | list[int]") -> Rows:
        return Rows(*self._angles.of_unit_amplitude(np.array(positions, np.float64)[:, None], slice(None)))


class Factor(NamedTuple):
    """Numbers high + low, and high as upper + lower, of at most 26 bits each: products of two such halves are exact."""

    high: Floats
    low: Floats
    upper: Floats
    lower: Floats

    @classmethod
    def of(cls, number: Pair) -> "Factor":
        """Of an array of numbers."""
        return cls(*number, *halves(number.high))

    def repeated(self, rows: slice, memory: Floats) -> "Factor":
        """These rows, each so often as `memory` (4, rows, times, channels) has place for it, and laid flat."""
        for place, part in zip(memory, self, strict=True):
            place[...] = part[rows, None]
        return Factor(*memory.reshape(4, -1))

    def tiled(self, times: int) -> "Factor":
        """The whole array so often, and laid flat."""
        return Factor(*(np.tile(part.reshape(-1), times) for part in self))

    def first(self, size: int) -> "Factor":
        """The first so many."""
        return Factor(*(part[:size] for part in self))


def _sums(coarse: Rows, fine: Rows, count: int) -> Rows:
    """The rows of `coarse`, each turned on by all of `fine`; the first so many of them.

    What `turned` does, in memory that is used again: arrays that begin with a cache line, and are not fresh, take a
    third of the time.
    """
    (rungs, channels), steps = coarse.sines.high.shape, len(fine.sines.high)
    width = steps * channels
    together = min(rungs, max(1, SUMMED_VALUES // width))
    memory, scratch = aligned((2, 4 * together * width), np.float64), aligned((6, together * width), np.float64)
    sums = aligned((4, rungs * width), np.float64)
    sines, cosines = (Factor.of(wave) for wave in coarse)
    others = [Factor.of(wave).tiled(together) for wave in (*fine, negative(fine.sines))]
    for run in runs(rungs, together):
        flat = slice(run.start * width, run.stop * width)
        size = flat.stop - flat.start
        shape = (4, run.stop - run.start, steps, channels)
        sine_a, cosine_a = (
            factor.repeated(run, place[: 4 * size].reshape(shape))
            for factor, place in zip((sines, cosines), memory, strict=True)
        )
        sine_b, cosine_b, less_sine_b = (factor.first(size) for factor in others)
        room = scratch[:, :size]
        _add_products((sine_a, cosine_b), (cosine_a, sine_b), Pair(*sums[:2, flat]), room)
        _add_products((cosine_a, cosine_b), (sine_a, less_sine_b), Pair(*sums[2:, flat]), room)
    rows = sums.reshape(4, rungs * steps, channels)[:, :count]
    return Rows(Pair(*rows[:2]), Pair(*rows[2:]))


def _add_products(a: tuple[Factor, Factor], b: tuple[Factor, Factor], out: Pair, room: Floats) -> None:
    """out = a[0] * a[1] + b[0] * b[1], as `sum_of_products` adds them; `room` are six arrays that are written over."""
    first, rest, second, other, term, back = room
    for factors, product, error in ((a, first, rest), (b, second, other)):
        _multiply(*factors, product, error, term)
    total = out.high
    np.add(first, second, out=total)
    np.subtract(total, first, out=back)
    np.subtract(second, back, out=second)
    np.subtract(total, back, out=back)
    np.subtract(first, back, out=first)
    for part in (second, other, rest):
        np.add(first, part, out=first)  # what the sum of the products lost, and what they lost themselves
    np.add(total, first, out=back)
    np.subtract(back, total, out=total)
    np.subtract(first, total, out=out.low)
    total[...] = back


def _multiply(a: Factor, b: Factor, product: Floats, error: Floats, term: Floats) -> None:
    """product = a.high * b.high, and error = a * b - product, but for the product of the lows."""
    np.multiply(a.high, b.high, out=product)
    np.multiply(a.upper, b.upper, out=term)
    np.subtract(product, term, out=error)
    for left, right in ((a.lower, b.upper), (a.upper, b.lower)):
        np.multiply(left, right, out=term)
        np.subtract(error, term, out=error)
    np.multiply(a.lower, b.lower, out=term)
    np.subtract(term, error, out=error)
    for left, right in ((a.high, b.low), (a.low, b.high)):
        np.multiply(left, right, out=term)
        np.add(error, term, out=error)
