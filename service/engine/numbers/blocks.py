"""Tables by the angle-addition formula: a block is one base row (or one for each row) against offset rows.

With u = 2^-53, S = |sin| and C = |cos| of the base row, s the largest |sin| of the offset rows (their cosines
are at most 1), the errors of a sine before it is rounded to its dtype are

    narrow dtypes   rows rounded to float64: 2 u; products: u; their sum: u           4 u (S + C s)
    float64         in two parts, see below                                          2^-76
    looked at again in double-double (`closely`): products 8 u^2, their sum 4 u^2    12 u^2 (S + C s)
    all             the errors of the double-double rows, given by the caller

of which 5 u, 2^-75 and 16 u^2 are used. For a cosine S and C change places. Where angles are small, S + C s is as small
as the sine, so that small sines are decided as readily as large ones.

Sine and cosine together are one complex product, (sin a + i cos a) (cos b - i sin b) = sin(a + b) + i cos(a + b).
numpy's complex product has other bits on processors that fuse its steps, within the same 4 u; what is rounded from it
is only what any error as large leaves no choice about.

For float64 both numbers are cut at 2^-26: a = a' + a", b = b' + b", the leading parts multiples of 2^-26, the rests
below 2^-26.5 in size.

    total = a' b'             products are multiples of 2^-52, their sums below 2: exact, fused or not
    rest  = a' b" + a" b      rests rounded: 2 u; b rounded: u; products 4 u; their sum 2 u; the bound added: 2 u,
                              each of 2^-26.5 at most                                11 * 2^-26.5 u < 2^-76

so a value is decided where total + (rest - bound) and total + (rest + bound) are the same float64.

Which float32 that is, the float64 shows in its own bits (`_to_float32`): rounding drops the last 29, and is in
doubt only where they are near the middle of their range. All narrow errors are below

    5 u sqrt 2 + 2^-54 < 2^-50.07

which is less than 2^15 ulps of a float64 as small as 2^-13. So those are unsure whose last bits are within 2^15 of
2^28, one in 2^13, and those below 2^-12. These few are decided by bounds of their own (`narrow`).

With an amplitude of up to 2^octaves the errors and these limits are as many times as large.
"""

from enum import IntEnum
from functools import cached_property
from math import frexp
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.pairs import Floats, Pair, Rows, add, aligned, multiply, negative
from service.engine.numbers.sines import Indices
from service.engine.rounding import Unsure, to_sixteen_bits

Array = NDArray[Any]
Singles = NDArray[np.float32]
Turns = NDArray[np.complex128]

BLOCK_VALUES = 16384  # 128 KiB of float64: a block and its few companions stay in a core's second-level cache
LINE = 256  # complex numbers that numpy multiplies in one go: each go costs as much as some twenty of them
U = 2.0**-53
NARROW_ERROR = 5 * U
DOUBLE_ERROR = 2.0**-75
CUT_BITS = 26
CLOSE_ERROR = 16 * U * U
ROWS_ERROR = 2.0**-54  # what the rows themselves may bring into a narrow value
LARGEST_NARROW = 2.0**0.5 * NARROW_ERROR + ROWS_ERROR


class Waveform(IntEnum):
    """Which of the two; also the place in a (sin, cos) tuple."""

    SIN = 0
    COS = 1


class Block(NamedTuple):
    """Output rows, and the base row (or one for each) and the offset rows that they are made of."""

    rows: slice
    base: int | Indices
    offset: slice | Indices


class Places(NamedTuple):
    """Some values, each by its waveform, channel, base row and offset row."""

    form: Indices
    channel: Indices
    base: Indices
    offset: Indices


Outs = dict[Waveform, Array]


def _interleaved(outs: Outs) -> Array | None:
    """Sines and cosines as one array (rows, 2 channels), if that is how they lie in memory: sine, cosine, sine, ..."""
    if len(outs) < 2:
        return None
    sines, cosines = outs[Waveform.SIN], outs[Waveform.COS]
    item = sines.itemsize
    apart = cosines.__array_interface__["data"][0] - sines.__array_interface__["data"][0]
    if apart != item or not sines.strides == cosines.strides == (sines.strides[0], 2 * item):
        return None
    shape, strides = (sines.shape[0], 2 * sines.shape[1]), (sines.strides[0], item)
    return np.lib.stride_tricks.as_strided(sines, shape, strides)


class Target(NamedTuple):
    """Where values go: the arrays of one dtype, and the one array that they are halves of, if they are."""

    outs: Outs
    joint: Array | None

    @classmethod
    def of(cls, outs: Outs) -> "Target":
        """Of arrays (rows, channels) of one dtype."""
        return cls(outs, _interleaved(outs))

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Of all of them."""
        return next(iter(self.outs.values())).dtype

    def write(self, rows: slice, values: Array) -> None:
        """`values` (rows, channels, waveforms), rounded or in float64, into these rows."""
        if self.joint is not None:
            self.joint[rows] = values.reshape(len(values), -1)
            return
        for place, out in enumerate(self.outs.values()):
            out[rows] = values[..., place]


class Scratch:
    """The buffers of one call. `forms` are the waveforms that it writes."""

    def __init__(self, forms: tuple[Waveform, ...], rows: int, channels: int) -> None:
        self.forms = tuple(map(int, forms))
        count = len(forms)
        self._values = aligned((rows, channels, count), np.float64)
        self._singles = aligned((rows, channels, count), np.float32)
        self._unsure = aligned((rows, channels, count), np.bool_)
        # Two arrays in line are multiplied faster than an array and a row: a base row is repeated.
        self._turns = aligned((rows, channels), np.complex128) if count == 2 else None
        self._factors = aligned((3, rows if count == 1 else 0, channels), np.float64)
        self._doubles: Floats | None = None

    @classmethod
    def of_thread(cls, forms: tuple[Waveform, ...], rows: int, channels: int) -> "Scratch":
        """This thread's own, used again where the last call was of the same kind: fresh memory costs its first touch,
        for a block of a few hundred rows more than the block."""
        key = (forms, rows, channels)
        if getattr(_threads, "key", None) != key:
            _threads.key, _threads.scratch = key, cls(forms, rows, channels)
        scratch: Scratch = _threads.scratch
        return scratch

    def product(self, grid: "NarrowGrid", block: Block) -> Floats:
        """The block's values in float64, (rows, channels, waveforms)."""
        rows = block.rows.stop - block.rows.start
        value = self._values[:rows]
        if self._turns is not None:
            self._turns[:rows] = grid.turns[block.base]
            np.multiply(self._turns[:rows], grid.offset_turns[block.offset], out=value.view(np.complex128)[..., 0])
        else:
            assert isinstance(grid, Grid)
            self._single(grid, block, value[..., 0])
        return value

    def _single(self, grid: "Grid", block: Block, value: Floats) -> None:
        """Of one waveform alone the real products are faster."""
        (form,), rows = self.forms, slice(len(value))
        own, other, term = self._factors[:, rows]
        own[...], other[...] = grid.bases[form].high[block.base], grid.bases[1 - form].high[block.base]
        np.multiply(own, grid.offsets.cosines[block.offset], out=value)
        np.multiply(other, grid.offsets.sines[form, block.offset], out=term)
        np.add(value, term, out=value)

    def double_product(self, grid: "Grid", block: Block) -> tuple[Floats, Floats, Floats]:
        """The total and the rest of sines and cosines, and room for as many more, each (rows, channels, 2)."""
        if self._doubles is None:
            self._doubles = aligned((3, *self._unsure.shape[:2], 2), np.float64)
        total, rest, term = self._doubles[:, : block.rows.stop - block.rows.start]
        base, offset = grid.split(), grid.offsets.split()
        for bases, offsets, product in (
            (base.leading, offset.leading, total),
            (base.leading, offset.rest, rest),
            (base.rest, offset.whole, term),
        ):
            _multiply(bases[block.base], offsets[block.offset], product.view(np.complex128)[..., 0])
        np.add(rest, term, out=rest)
        return total, rest, term

    def singles(self, rows: int) -> Singles:
        """As many rows of the float32 buffer."""
        return self._singles[:rows]

    def unsure(self, rows: int) -> Unsure:
        """As many rows of the buffer of truth values."""
        return self._unsure[:rows]


def _multiply(base: Turns, offset: Turns, out: Turns) -> None:
    """Each row of `offset` by its base row, or by the one for all, repeated until lines are long enough."""
    if base.ndim == 1:
        rows, channels = offset.shape
        times = min(rows & -rows, 1 << max(1, LINE // channels).bit_length() - 1)
        base = np.repeat(base[None], times, axis=0).reshape(-1)
        offset, out = offset.reshape(-1, base.size), out.reshape(-1, base.size)
    np.multiply(base, offset, out=out)


_threads = local()


def _complex(real: Floats, imaginary: Floats) -> Turns:
    number: Turns = aligned(real.shape, np.complex128)
    number.real, number.imag = real, imaginary
    return number


class Offsets:
    """The offset rows of a panel, as blocks multiply by them."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.reach: Floats = np.abs(rows.sines.high).max(axis=0)  # s
        self.cosines = rows.cosines.high
        self.turns = _complex(rows.cosines.high, -rows.sines.high)  # cos b - i sin b
        self._split: Split | None = None

    @cached_property
    def sines(self) -> Floats:
        """What a sine's second product has, and a cosine's; two threads may both do it, and agree."""
        sines = aligned((2, *self.cosines.shape), np.float64)
        sines[0], sines[1] = self.rows.sines.high, -self.rows.sines.high
        return sines

    def split(self) -> "Split":
        """For products in double; two threads may both do it, and agree."""
        if self._split is None:
            self._split = split(negative(self.rows.sines), self.rows.cosines, self.turns)
        return self._split


class Split(NamedTuple):
    """Complex numbers as a leading part and a rest, and as they are in float64."""

    leading: Turns
    rest: Turns
    whole: Turns


def split(imaginary: Pair, real: Pair, whole: Turns, octaves: int = 0) -> Split:
    """Numbers whose parts are at most 2^octaves, cut at 2^(octaves - 26)."""
    cutter = 1.5 * 2.0 ** (52 - CUT_BITS + octaves)  # the last bit of numbers of this size is where to cut
    leading = [(part.high + cutter) - cutter for part in (real, imaginary)]
    rest = [(part.high - cut) + part.low for part, cut in zip((real, imaginary), leading, strict=True)]
    return Split(_complex(*leading), _complex(*rest), whole)


class NarrowGrid:
    """Base rows sin a + i cos a against offset rows cos b - i sin b, in float64: enough for narrow dtypes.

    Base rows may have an amplitude, of up to 2^octaves. Together, products are within LARGEST_NARROW 2^octaves.
    """

    def __init__(self, turns: Turns, offset_turns: Turns, octaves: int = 0) -> None:
        self.turns, self.offset_turns, self.octaves = turns, offset_turns, octaves

    def fill(self, block: Block, target: Target, scratch: Scratch) -> Indices:
        """Write the block's rows; which values are undecided, as indices of (rows, channels, waveforms) laid flat."""
        value = scratch.product(self, block)
        round_off = _to_float32 if target.dtype == np.float32 else _to_sixteen_bits
        return round_off(value, block.rows, target, scratch, self.octaves)


class Grid(NarrowGrid):
    """The same with rows in double-double, of which `errors` are what they bring into a sine and a cosine."""

    def __init__(self, bases: Rows, offsets: Offsets, errors: Floats, octaves: int = 0) -> None:
        super().__init__(_complex(bases.sines.high, bases.cosines.high), offsets.turns, octaves)
        self.bases, self.offsets, self.errors = bases, offsets, errors
        self._split: Split | None = None

    def split(self) -> Split:
        """For products in double; two threads may both do it, and agree."""
        if self._split is None:
            self._split = split(self.bases.cosines, self.bases.sines, self.turns, self.octaves)
        return self._split

    def fill(self, block: Block, target: Target, scratch: Scratch) -> Indices:
        if target.dtype == np.float64:
            return self._fill_double(block, target, scratch)
        return super().fill(block, target, scratch)

    def narrow(self, at: Places) -> tuple[Pair, Floats]:
        """These values as blocks have them, in float64, and their errors."""
        own, other = self._bases(at, "high")
        cosines = self.offsets.cosines[at.offset, at.channel]
        sines = self.offsets.sines[at.form, at.offset, at.channel]
        value = own * cosines + other * sines
        return Pair(value, np.zeros_like(value)), self._error(NARROW_ERROR, own, other, at)

    def closely(self, at: Places) -> tuple[Pair, Floats]:
        """These values in double-double, and their errors."""
        own, other = (Pair(*both) for both in zip(self._bases(at, "high"), self._bases(at, "low"), strict=True))
        place = at.offset, at.channel
        rows = self.offsets.rows
        sign = np.where(at.form == Waveform.SIN, 1.0, -1.0)
        sines = Pair(sign * rows.sines.high[place], sign * rows.sines.low[place])
        value = add(multiply(own, rows.cosines.at(place)), multiply(other, sines))
        return value, self._error(CLOSE_ERROR, own.high, other.high, at)

    def _bases(self, at: Places, half: str) -> NDArray[np.float64]:
        sines, cosines = (getattr(wave, half)[at.base, at.channel] for wave in self.bases)
        sine = at.form == Waveform.SIN
        return np.array([np.where(sine, sines, cosines), np.where(sine, cosines, sines)])

    def _error(self, factor: float, own: Floats, other: Floats, at: Places) -> Floats:
        """factor * (S + C s) + the errors of the rows."""
        error: Floats = factor * (np.abs(own) + np.abs(other) * self.offsets.reach[at.channel])
        error += self.errors[at.form, at.channel]
        return error

    def _fill_double(self, block: Block, target: Target, scratch: Scratch) -> Indices:
        total, rest, above = scratch.double_product(self, block)
        error = DOUBLE_ERROR * 2.0**self.octaves + self.errors.max()
        np.add(rest, error, out=above)
        np.add(total, above, out=above)
        np.subtract(rest, error, out=rest)
        below = np.add(total, rest, out=rest)
        forms = slice(None) if len(scratch.forms) == 2 else slice(scratch.forms[0], scratch.forms[0] + 1)
        target.write(block.rows, above[..., forms])
        unsure = scratch.unsure(len(total))
        np.not_equal(below[..., forms].view(np.int64), above[..., forms].view(np.int64), out=unsure)
        return unsure.reshape(-1).nonzero()[0]


# How a float64 shows that its rounding to float32 is in doubt. Its bits plus SHIFT, as far as KEPT, are read as a
# float64 again: 2 where the last 29 bits are in the window around 2^28, less than 2 (bit 62 is not set) where it was
# below 2^-12, and larger else.
DROPPED_BITS, WINDOW_BITS, FLOOR_BITS = 29, 16, 12
SHIFT = np.uint64((FLOOR_BITS + 1 << 52) + (1 << DROPPED_BITS - 1) + (1 << WINDOW_BITS - 1))
KEPT = np.uint64((1 << 62) + (1 << DROPPED_BITS) - (1 << WINDOW_BITS))
# With an amplitude errors are larger, and the floor is higher, by as many octaves.
MOST_OCTAVES = FLOOR_BITS - 1
LOUDEST_HALF = 1.99  # `to_sixteen_bits` takes float16 below 2


def octaves_of(amplitude: float) -> int:
    """The least n >= 0 with amplitude <= 2^n.

    >>> [octaves_of(amplitude) for amplitude in (0.0, 1.0, 1.1, 2.0, 2.5)]
    [0, 0, 1, 1, 2]
    """
    fraction, exponent = frexp(amplitude)
    return max(0, exponent - (fraction == 0.5))


def _to_float32(value: Floats, rows: slice, target: Target, scratch: Scratch, octaves: int) -> Indices:
    """Round, and say which may be wrong. `value` is used up."""
    target.write(rows, value)
    bits = value.view(np.uint64)
    np.add(bits, SHIFT - np.uint64(octaves << 52), out=bits)
    np.bitwise_and(bits, KEPT, out=bits)
    return np.less_equal(value, 2.0, out=scratch.unsure(len(value))).reshape(-1).nonzero()[0]


def _to_sixteen_bits(value: Floats, rows: slice, target: Target, scratch: Scratch, octaves: int) -> Indices:
    """Round by way of float32, which does where the error is below half of its ulp.

    Half an ulp of x is 2^-25 |x| or more, so that holds from 2^26 times the error on, with a factor of 2 to spare.
    """
    singles = scratch.singles(len(value))
    singles[...] = value
    floor = 2.0 ** (26 + octaves) * LARGEST_NARROW
    unsure = to_sixteen_bits(singles, floor, target.dtype, lambda rounded: target.write(rows, rounded))
    return _NONE if unsure is None else np.flatnonzero(unsure)


_NONE = np.zeros(0, np.intp)
