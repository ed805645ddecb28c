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

    form: Indices
    row: Indices
    channel: Indices
    value: Floats
    error: Floats


Outs = dict[Waveform, Array]


class Views(NamedTuple):
    """The leading rows of each buffer, (waveforms, rows, channels)."""

    own: Floats
    other: Floats
    value: Floats
    term: Floats
    below: Singles
    above: Singles


class Scratch:
    """The buffers of one call: nothing is shared between threads. `forms` are the waveforms that it writes."""

    def __init__(self, forms: tuple[Waveform, ...], rows: int, channels: int) -> None:
        self.forms = slice(int(forms[0]), int(forms[-1]) + 1)
        shape = (len(forms), rows, channels)
        self._bases = _aligned((2, rows, channels), np.float64)
        self._doubles = _aligned(shape, np.float64), _aligned(shape, np.float64)
        self._singles = _aligned(shape, np.float32), _aligned(shape, np.float32)
        self._base: tuple[Grid, int] | None = None
        self._views: dict[int, Views] = {}

    def views(self, rows: int) -> Views:
        """As many rows of each buffer; the waveforms that the own ones are multiplied with are the others."""
        if rows not in self._views:
            own, other = self._bases[self.forms, :rows], self._bases[::-1][self.forms, :rows]
            buffers = (buffer[:, :rows] for buffer in (*self._doubles, *self._singles))
            self._views[rows] = Views(own, other, *buffers)
        return self._views[rows]

    def spread(self, grid: "Grid", base: int | Indices, rows: int) -> None:
        """Repeat a base row: two arrays in line are multiplied faster than an array and a row."""
        if isinstance(base, int):
            if self._base != (grid, base):
                self._base = grid, base
                for form, wave in enumerate(grid.bases):
                    self._bases[form] = wave.high[base]
            return
        self._base = None
        for form, wave in enumerate(grid.bases):
            self._bases[form, :rows] = wave.high[base]


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
    """Bounds of the errors (waveforms, base rows, channels); a level row is one number, its largest."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        largest = rows.max(axis=2, keepdims=True)
        level = (largest <= LEVEL * rows.min(axis=2, keepdims=True)).all(axis=0)
        self.each = [(largest if even else rows)[:, [base]] for base, even in enumerate(level[:, 0].tolist())]

    def at(self, base: int | Indices) -> Floats:
        """(waveforms, rows, channels), of which the last two may be 1."""
        return self.each[base] if isinstance(base, int) else self.rows[:, base]


class Grid:
    """Base rows against offset rows; `errors` are what the rows themselves bring into a sine and a cosine."""

    def __init__(self, bases: Rows, offsets: Offsets, errors: tuple[Floats, Floats]) -> None:
        self.bases, self.offsets, self.errors = bases, offsets, errors
        self._bounds: dict[tuple[int, int, float], Bounds] = {}

    def fill(self, block: Block, outs: Outs, scratch: Scratch) -> Iterator[Undecided]:
        """Write the block's rows of arrays of one dtype; yield what is undecided, if anything is."""
        parts = [out[block.rows] for out in outs.values()]
        if parts[0].dtype != np.float64:
            yield from self._fill_narrow(block, parts, scratch)
        else:
            for form, part in zip(outs, parts, strict=True):
                yield from self._fill_double(block, form, part)

    def _bound(self, forms: slice, factor: float, base: int | Indices) -> Floats:
        """factor * (S + C s) + the errors of the rows, for these base rows."""
        key = (forms.start, forms.stop, factor)
        if key not in self._bounds:
            sizes = np.abs([wave.high for wave in self.bases])
            rows = factor * (sizes + sizes[::-1] * self.offsets.reach) + np.stack(self.errors)[:, None]
            self._bounds[key] = Bounds(rows[forms])
        return self._bounds[key].at(base)

    def _fill_narrow(self, block: Block, outs: list[Array], scratch: Scratch) -> Iterator[Undecided]:
        """Sines and cosines together, where both are wanted: half as many calls, each of twice the size."""
        rows, forms = block.rows.stop - block.rows.start, scratch.forms
        scratch.spread(self, block.base, rows)
        views = scratch.views(rows)
        sines = self.offsets.narrow_sines[forms, block.offset]
        np.multiply(views.own, self.offsets.narrow_cosines[block.offset], out=views.value)
        np.multiply(views.other, sines, out=views.term)
        np.add(views.value, views.term, out=views.value)
        error = self._bound(forms, NARROW_ERROR, block.base)
        round_off = _to_float32 if outs[0].dtype == np.float32 else _to_sixteen_bits
        yield from _listed(forms, round_off(views, error, outs), views.value, error)

    def _fill_double(self, block: Block, form: Waveform, out: NDArray[Any]) -> Iterator[Undecided]:
        own, other = split(self.bases[form].at(block.base)), split(self.bases[1 - form].at(block.base))
        cosines, sines = (rows.at(block.offset) for rows in self.offsets.split(form))
        total, rest = two_sum(own.leading * cosines.leading, other.leading * sines.leading)
        for base, offset in ((own, cosines), (other, sines)):
            rest += base.leading * offset.rest
            rest += base.rest * offset.whole
        forms = slice(int(form), form + 1)
        error = self._bound(forms, DOUBLE_ERROR, block.base)
        below, above = total + (rest - error[0]), total + (rest + error[0])
        out[...] = above
        yield from _listed(forms, different(below, above)[None], above[None], error)


def _listed(forms: slice, undecided: NDArray[np.bool_] | None, value: Floats, error: Floats) -> Iterator[Undecided]:
    if undecided is None:
        return
    flat = undecided.reshape(-1).nonzero()[0]
    if flat.size:
        places = np.unravel_index(flat, undecided.shape)
        form, row, channel = places
        errors = np.broadcast_to(error, value.shape)[places]
        yield Undecided(form + forms.start, row, channel, value[places], errors)


def _to_float32(views: Views, error: Floats, outs: list[Array]) -> NDArray[np.bool_]:
    """Round; undecided where value - error and value + error differ."""
    np.subtract(views.value, error, out=views.term)
    views.below[...] = views.term
    np.add(views.value, error, out=views.term)
    views.above[...] = views.term
    for out, above in zip(outs, views.above, strict=True):
        out[...] = above
    return different(views.below, views.above)


def _to_sixteen_bits(views: Views, error: Floats, outs: list[Array]) -> NDArray[np.bool_] | None:
    """Round by way of float32, which does where the error is below half of its ulp.

    Half an ulp of x is 2^-25 |x| or more, so that holds from 2^26 times the error on, with a factor of 2 to spare.
    """
    views.above[...] = views.value
    return to_sixteen_bits(views.above, 2.0**26 * float(error.max()), outs)
