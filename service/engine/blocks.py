"""Tables by the angle-addition formula: a block is one base row (or one for each row) against offset rows.

With u = 2^-53, S = |sin| and C = |cos| of the base row, s the largest |sin| of the offset rows (their cosines
are at most 1), the errors of a sine before it is rounded to its dtype are

    narrow dtypes   rows rounded to float64: 2 u; products: u; their sum: u;
                    adding or subtracting the bound: u                                5 u (S + C s)
    float64         rows cut into 26 bits and a float64 rest: the leading products and their sum are exact;
                    the other products and sums are below 2^-25 and rounded there, 16 roundings at most
                                                                                      16 * 2^-26 u (S + C s)
    both            the errors of the double-double rows, given by the caller

of which 6 and 32 are used. For a cosine S and C change places. Where angles are small, S + C s is as small as
the sine, so that small sines are decided as readily as large ones.
"""

from collections.abc import Iterator
from enum import IntEnum
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from service.engine.pairs import Floats, Pair, Rows, halves, negative, two_sum
from service.engine.rounding import different, to_sixteen_bits
from service.engine.sines import Indices

Array = NDArray[Any]
Singles = NDArray[np.float32]

U = 2.0**-53
NARROW_ERROR = 6 * U
DOUBLE_ERROR = 32 * 2.0**-26 * U
LEVEL = 1024.0  # a row of bounds that varies less is replaced by its largest: one number is subtracted faster
ALIGNMENT = 64  # bytes in a cache line, and in the widest vector register


class Waveform(IntEnum):
    """Which of the two; also the place in a (sin, cos) tuple."""

    SIN = 0
    COS = 1


class Block(NamedTuple):
    """Output rows, and the base and offset rows that they are made of."""

    rows: slice
    base: int | Indices
    offset: slice | Indices


class Undecided(NamedTuple):
    """Values of a block that may not be rounded right: where they are, the float64 they came from, and its error."""

    form: "Waveform"
    places: tuple[Indices, Indices]
    value: Floats
    error: Floats


class Scratch:
    """The buffers of one call: nothing is shared between threads. Each is (sin and cos, rows, channels)."""

    def __init__(self, rows: int, channels: int) -> None:
        shape = (2, rows, channels)
        self.bases = _aligned(shape, np.float64)
        self.value, self.term = _aligned(shape, np.float64), _aligned(shape, np.float64)
        self.below, self.above = _aligned(shape, np.float32), _aligned(shape, np.float32)
        self._base: tuple[Grid, int] | None = None

    def spread(self, grid: "Grid", base: int | Indices, rows: int) -> None:
        """Repeat a base row: two arrays in line are multiplied faster than an array and a row."""
        if isinstance(base, int):
            if self._base != (grid, base):
                self._base = grid, base
                for form, wave in enumerate(grid.bases):
                    self.bases[form] = wave.high[base]
            return
        self._base = None
        for form, wave in enumerate(grid.bases):
            self.bases[form, :rows] = wave.high[base]


def _aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _aligned_copy(rows: Floats) -> Floats:
    copy = _aligned(rows.shape, np.float64)
    copy[...] = rows
    return copy


class Offsets:
    """The offset rows of a panel, as blocks multiply by them: for a cosine the sines are negative."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.reach: Floats = np.abs(rows.sines.high).max(axis=0)  # s
        self.narrow_cosines = _aligned_copy(rows.cosines.high)
        self.narrow_sines = _aligned_copy(np.stack([rows.sines.high, -rows.sines.high]))
        self._split: dict[Waveform, tuple[Split, Split]] = {}

    def split(self, form: Waveform) -> tuple["Split", "Split"]:
        """The cosines and the sines for products in double-double; two threads may both do it, and agree."""
        if form not in self._split:
            sines = self.rows.sines if form is Waveform.SIN else negative(self.rows.sines)
            self._split[form] = split(self.rows.cosines), split(sines)
        return self._split[form]


class Split(NamedTuple):
    """A number as 26 bits and a rest, and as one float64."""

    leading: Floats
    rest: Floats
    whole: Floats

    def at(self, index: slice | Indices) -> "Split":
        return Split(self.leading[index], self.rest[index], self.whole[index])


def split(number: Pair) -> Split:
    """Cut off 26 bits; the rest is rounded at 2^-26 u of the number."""
    leading, rest = halves(number.high)
    return Split(leading, rest + number.low, number.high)


class Bounds:
    """Bounds of the errors, a row for each base row; a level row is one number, its largest."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        largest = rows.max(axis=1)
        level = largest <= LEVEL * rows.min(axis=1)
        self.each = [float(most) if even else row for most, even, row in zip(largest, level, rows, strict=True)]

    def at(self, base: int | Indices) -> Floats | float:
        return self.each[base] if isinstance(base, int) else self.rows[base]


class Grid:
    """Base rows against offset rows; `errors` are what the rows themselves bring into a sine and a cosine."""

    def __init__(self, bases: Rows, offsets: Offsets, errors: tuple[Floats, Floats]) -> None:
        self.bases, self.offsets, self.errors = bases, offsets, errors
        self._bounds: dict[tuple[Waveform, float], Bounds] = {}

    def fill(self, block: Block, outs: dict[Waveform, NDArray[Any]], scratch: Scratch) -> Iterator[Undecided]:
        """Write the block's rows; yield what is undecided of an array, if anything is."""
        parts = {form: out[block.rows] for form, out in outs.items()}
        narrow = {form: part for form, part in parts.items() if part.dtype != np.float64}
        if narrow:
            yield from self._fill_narrow(block, narrow, scratch)
        for form in parts.keys() - narrow.keys():
            yield from self._fill_double(block, form, parts[form])

    def _bound(self, form: Waveform, factor: float, base: int | Indices) -> Floats | float:
        """factor * (S + C s) + the errors of the rows, for these base rows."""
        if (form, factor) not in self._bounds:
            own, other = np.abs(self.bases[form].high), np.abs(self.bases[1 - form].high)
            self._bounds[form, factor] = Bounds(factor * (own + other * self.offsets.reach) + self.errors[form])
        return self._bounds[form, factor].at(base)

    def _fill_narrow(self, block: Block, outs: dict[Waveform, NDArray[Any]], scratch: Scratch) -> Iterator[Undecided]:
        """Sines and cosines together, where both are wanted: half as many calls, each of twice the size."""
        rows = block.rows.stop - block.rows.start
        scratch.spread(self, block.base, rows)
        forms, others = _places(outs)
        count = len(outs)
        value, term = scratch.value[:count, :rows], scratch.term[:count, :rows]
        below, above = scratch.below[:count, :rows], scratch.above[:count, :rows]
        np.multiply(scratch.bases[forms, :rows], self.offsets.narrow_cosines[block.offset], out=value)
        np.multiply(scratch.bases[others, :rows], self.offsets.narrow_sines[forms, block.offset], out=term)
        value += term
        for place, (form, out) in enumerate(outs.items()):
            round_off = _to_float32 if out.dtype == np.float32 else _to_sixteen_bits
            error = self._bound(form, NARROW_ERROR, block.base)
            undecided = round_off(value[place], error, term[place], (below[place], above[place]), out)
            yield from _listed(form, undecided, value[place], error)

    def _fill_double(self, block: Block, form: Waveform, out: NDArray[Any]) -> Iterator[Undecided]:
        own, other = split(self.bases[form].at(block.base)), split(self.bases[1 - form].at(block.base))
        cosines, sines = (rows.at(block.offset) for rows in self.offsets.split(form))
        total, rest = two_sum(own.leading * cosines.leading, other.leading * sines.leading)
        for base, offset in ((own, cosines), (other, sines)):
            rest += base.leading * offset.rest
            rest += base.rest * offset.whole
        error = self._bound(form, DOUBLE_ERROR, block.base)
        below, above = total + (rest - error), total + (rest + error)
        out[...] = above
        yield from _listed(form, different(below, above), above, error)


def _listed(
    form: Waveform, undecided: NDArray[np.bool_] | None, value: Floats, error: Floats | float
) -> Iterator[Undecided]:
    if undecided is None:
        return
    flat = np.flatnonzero(undecided)
    if flat.size:
        places = np.divmod(flat, undecided.shape[1])
        each = np.full(flat.size, error) if isinstance(error, float) else np.broadcast_to(error, value.shape)[places]
        yield Undecided(form, places, value[places], each)


def _to_float32(
    value: Floats, error: Floats | float, spare: Floats, singles: tuple[Singles, Singles], out: Array
) -> NDArray[np.bool_]:
    """Round; undecided where value - error and value + error differ."""
    below, above = singles
    below[...] = np.subtract(value, error, out=spare)
    above[...] = np.add(value, error, out=spare)
    out[...] = above
    return different(below, above)


def _to_sixteen_bits(
    value: Floats, error: Floats | float, _spare: Floats, singles: tuple[Singles, Singles], out: Array
) -> NDArray[np.bool_] | None:
    """Round by way of float32, which does where the error is below half of its ulp.

    Half an ulp of x is 2^-25 |x| or more, so that holds from 2^26 times the error on, with a factor of 2 to spare.
    """
    single, _ = singles
    single[...] = value
    return to_sixteen_bits(single, 2.0**26 * float(np.max(error)), out)


def _places(outs: dict[Waveform, NDArray[Any]]) -> tuple[slice, slice]:
    """Where the waveforms wanted lie in a (sin, cos) array, and where their counterparts do."""
    if len(outs) == 2:
        return slice(0, 2), slice(None, None, -1)
    (form,) = outs
    return slice(form, form + 1), slice(1 - form, 2 - form)
