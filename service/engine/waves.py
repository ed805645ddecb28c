"""sin(p w) and cos(p w) for positions p and frequencies w, rounded once.

A table of n consecutive positions and K frequencies has n K values but asks for few sines: every position is
p = a + r, a = R q + R/2 and -R/2 <= r < R/2, and by the angle-addition formula

    sin(p w) = sin(a w) cos(r w) + cos(a w) sin(r w)
    cos(p w) = cos(a w) cos(r w) - sin(a w) sin(r w)

so the *base* rows (at a) and the *offset* rows (at r) are computed in double-double (`sines.py`, `ladders.py`; for a
first short table in float64, `plain_rows.py`), and each value of the table takes two products and a sum (`blocks.py`),
in all one complex product for a sine and its cosine. Then comes the check that makes it right: with a bound b of its
error, a value v is decided when no boundary between two numbers of the dtype lies from v - b to v + b, for then the
real value rounds as v does. In float32 the bits of v tell that for all but some 5,000 of 16.8 million, which are
computed again in double-double (of many of them, those that their own bounds leave), where b is below 2^-87 for angles
up to 2^40 and grows with them beyond, as the frequencies have 144 bits (`Angles.errors`); and what is undecided even so
with 80 digits.

Rounding is thereby correct whatever way a value was reached, so no decomposition, block size, thread or
processor can show in the bytes: any rows computed alone equal the same rows of the whole.
"""

from collections.abc import Iterator
from decimal import localcontext
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from service.engine.numbers.blocks import (
    BLOCK_VALUES,
    LOUDEST_HALF,
    MOST_OCTAVES,
    ROWS_ERROR,
    Block,
    Grid,
    Offsets,
    Outs,
    Scratch,
    Target,
    Waveform,
    octaves_of,
)
from service.engine.numbers.ladders import Ladders
from service.engine.numbers.pairs import Floats, Pair, Rows, multiply, runs
from service.engine.numbers.plain_rows import is_plain, plain_plan
from service.engine.numbers.plans import Plan, bases_of, consecutive
from service.engine.numbers.reals import MANY_DIGITS, Number, Reals, pair, real
from service.engine.numbers.sines import Angles, Indices
from service.engine.numbers.undecided import Pending, Undecided, rounded, settle_exactly
from service.engine.rounding import decide, nearest_of_sum

FARTHEST = 2**53
PANEL_CHANNELS = 128
GROUP = 128  # base rows prepared and held together
MOST_KEPT = 4096  # frequencies, beyond which the groups are not kept for the next call
FEW_ROWS = 32  # not worth a table
SHARED = 8  # scattered positions are worth a table when that many share a base row, on average


class Waves:
    """Frequencies prepared for writing tables.

    >>> waves = Waves(Reals.of([1.0, 0.5]))
    >>> sines = np.empty((3, 2), np.float32)
    >>> waves.write(range(3), sines, None)
    >>> sines.tolist()
    [[0.0, 0.0], [0.8414709568023682, 0.4794255495071411], [0.9092974066734314, 0.8414709568023682]]
    """

    def __init__(self, frequencies: Reals, amplitude: Number = 1) -> None:
        """`amplitude`, 0 or from 2^-100 to 2^100, multiplies the sines and cosines before they are rounded."""
        self.frequencies = frequencies
        self._silent = amplitude == 0
        self.count = len(frequencies)
        starts = range(0, self.count, PANEL_CHANNELS)
        groups = 2 if self.count <= MOST_KEPT else 0
        self._panels = [Panel(frequencies[start : start + PANEL_CHANNELS], groups, amplitude) for start in starts]

    def write(self, positions: range | Floats, sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> None:
        """Fill sin and cos, each (len(positions), count), of any of the four dtypes, strided views included.

        Every value, float64 too, is the real one rounded once to nearest even. `positions` are consecutive
        integers (a range of step 1) or finite float64 of any kind, no farther than 2^53 from 0. sin(-0.0) is
        +0.0: a position is a number, and -0.0 is the number 0. Raises ValueError for other positions.
        """
        if not isinstance(positions, range):
            positions = np.asarray(positions, np.float64)
        _check_positions(positions)
        if self._silent:
            for out in (sin, cos):
                if out is not None:
                    out[...] = 0
            return
        for index, panel in enumerate(self._panels):
            columns = slice(index * PANEL_CHANNELS, (index + 1) * PANEL_CHANNELS)
            for arrays in _alike(sin, cos):
                panel.write(positions, {form: out[:, columns] for form, out in arrays.items()})


def _alike(sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> list[Outs]:
    """The arrays asked for, those of one dtype together."""
    outs = [{form: out} for form, out in ((Waveform.SIN, sin), (Waveform.COS, cos)) if out is not None]
    return [outs[0] | outs[1]] if sin is not None and cos is not None and sin.dtype == cos.dtype else outs


def _check_positions(positions: range | Floats) -> None:
    if isinstance(positions, range):
        if positions and (positions.step != 1 or max(-positions[0], positions[-1]) > FARTHEST):
            raise ValueError(f"{positions} is not a range of step 1 within 2^53 of 0")
    elif not (np.abs(positions) <= FARTHEST).all():
        raise ValueError("positions must be finite and within 2^53 of 0")


class Panel:
    """Up to 128 frequencies: few enough for a block of at least 128 rows to stay in cache."""

    def __init__(self, frequencies: Reals, kept_groups: int, amplitude: Number) -> None:
        self.angles = Angles(frequencies, amplitude)
        self._loudest = abs(float(amplitude))
        self.frequencies = frequencies
        self.count = len(frequencies)
        self.stride = 1 << (BLOCK_VALUES // self.count).bit_length() - 1  # R, a power of two
        self._used = False
        self._offsets: Offsets | None = None
        self._ladders = Ladders(self.angles, self.stride)
        self._groups = Groups(kept_groups)
        self._errors: dict[int, Floats] = {}

    def write(self, positions: range | Floats, outs: Outs) -> None:
        """Fill the arrays, each (len(positions), count)."""
        if len(positions) <= FEW_ROWS or not self._in_bounds(positions, outs):
            self._write_singly(np.array(positions, np.float64), outs)
            return
        scratch = Scratch.of_thread(tuple(outs), self.stride, self.count)
        for rows in self._parts(positions):
            part, group = positions[rows], {form: out[rows] for form, out in outs.items()}
            plan = self._plan(part, group)
            if plan:
                self._write_blocks(plan, part, Target.of(group), scratch)
            else:
                self._write_singly(np.asarray(part), group)

    def _plan(self, positions: range | Floats, outs: Outs) -> Plan | None:
        """How to make these rows in blocks; None where each is best made for itself."""
        if not isinstance(positions, range):
            return self._scattered(positions)
        first, self._used = not self._used, True
        narrow = len(outs) == len(Waveform) and all(out.dtype != np.float64 for out in outs.values())
        if first and narrow and is_plain(self.angles, positions, self.stride):
            return plain_plan(self.angles, positions, self.stride)
        return self._consecutive(positions)

    def _in_bounds(self, positions: range | Floats, outs: Outs) -> bool:
        """Whether the bounds hold that blocks rely on."""
        octaves, (dtype,) = octaves_of(self._loudest), {out.dtype for out in outs.values()}
        held = self._loudest < LOUDEST_HALF if dtype == np.float16 else octaves <= MOST_OCTAVES
        return held and bool(self._row_errors(_farthest(positions)).max() <= ROWS_ERROR * 2.0**octaves)

    def _parts(self, positions: range | Floats) -> Iterator[slice]:
        """Runs that need no more than a group of base rows: consecutive positions on a grid of such groups.

        Scattered positions may need a base row for every SHARED of them, so they go in shorter runs.
        """
        size = self.stride * GROUP
        if not isinstance(positions, range):
            yield from runs(len(positions), size // SHARED)
            return
        start = 0
        while start < len(positions):
            stop = min(len(positions), start + size - positions[start] % size)
            yield slice(start, stop)
            start = stop

    @property
    def offsets(self) -> Offsets:
        """The rows at -R/2 ... R/2 - 1, computed when first needed; two threads may both do it, and agree."""
        if self._offsets is None:
            self._offsets = Offsets(self._ladders.offsets())
        return self._offsets

    def _consecutive(self, positions: range) -> Plan:
        """Blocks of one base row each and a run of offset rows."""
        bases = bases_of(positions, self.stride)
        grid, before = self._bases(bases.start, len(bases))

        def where(rows: Indices) -> tuple[Indices, Indices]:
            which, offset = np.divmod(rows + (positions[0] - before * self.stride), self.stride)
            return which, offset

        return Plan.of(grid, consecutive(positions, self.stride, before), where)

    def _bases(self, base: int, bases: int) -> tuple[Grid, int]:
        """The base rows `base` ... of one group, and which of all base rows its first is.

        A call that needs few of a group prepares those few; the next call for the same group prepares it whole, for
        those that follow: a long table is written by many calls.
        """
        group = base // GROUP
        grid = self._groups.get(group)
        if grid is None:
            if bases < GROUP // 2 and not self._groups.asked(group):
                return self._grid(self._ladders.bases(base, bases), self.stride * max(-base, base + bases)), base
            rows = self._ladders.bases(group * GROUP, GROUP)
            grid = self._grid(rows, self.stride * GROUP * max(-group, group + 1))
            self._groups.keep(group, grid)
        return grid, group * GROUP

    def _scattered(self, positions: Floats) -> Plan | None:
        """Blocks of a base row and an offset row for each position; None where few share a base row."""
        base = np.floor(positions / self.stride)
        offset = positions - base * self.stride
        bases, which = np.unique(base, return_inverse=True)
        if bases.size * SHARED > positions.size or (offset != np.rint(offset)).any():
            return None
        middles = bases[:, None] * self.stride + self.stride // 2
        rows = Rows(*self.angles.of_unit_amplitude(middles, slice(None)))
        at = offset.astype(np.intp)
        blocks = (Block(run, which[run], at[run]) for run in runs(positions.size, self.stride))
        return Plan.of(self._grid(rows, _farthest(positions)), blocks, lambda row: (which[row], at[row]))

    def _grid(self, bases: Rows, farthest: float) -> Grid:
        scaled = Rows(*self.angles.scaled(bases))
        return Grid(scaled, self.offsets, self._row_errors(farthest), octaves_of(self._loudest))

    def _row_errors(self, farthest: float) -> Floats:
        """Of sines and cosines (2, count): the errors of a coarse, a fine and an offset row, and one to spare.

        They are told of distances that are powers of two, and kept.
        """
        bits = min(int(farthest + 2 * GROUP * self.stride).bit_length(), FARTHEST.bit_length() + 1)
        if bits not in self._errors:
            self._errors[bits] = 4 * np.stack(self.angles.errors(np.array(2.0**bits), slice(None)))
        return self._errors[bits]

    def _write_blocks(self, plan: Plan, positions: range | Floats, target: Target, scratch: Scratch) -> None:
        undecided = Undecided(self.angles, plan, positions, target)
        for block in plan.blocks:
            undecided.add(block.rows.start, plan.grid.fill(block, target, scratch))
        undecided.settle()

    def _write_singly(self, positions: Floats, outs: Outs) -> None:
        """Each value for itself: narrow ones in float64, and what that leaves open, like float64, in double-double."""
        for rows in runs(len(positions), self.stride):
            at, group = positions[rows, None], {form: out[rows] for form, out in outs.items()}
            narrow = {form: out for form, out in group.items() if out.dtype != np.float64}
            if narrow:
                self._write_plainly(at, narrow)
            if wide := {form: out for form, out in group.items() if form not in narrow}:
                value, error = self.angles.at(at, slice(None)), self.angles.errors(at, slice(None))
                for form, out in wide.items():
                    out[...], undecided = decide(*value[form], error[form], out.dtype)
                    settle_exactly(self.angles, form, at[:, 0], np.argwhere(undecided), out)

    def _write_plainly(self, at: Floats, outs: Outs) -> None:
        pending = Pending(self.angles, at[:, 0], outs)
        value, error = self.angles.plainly(at, slice(None)), self.angles.errors(at, slice(None), plain=True)
        for form, out in outs.items():
            out[...], undecided = decide(value[form], np.zeros_like(value[form]), error[form], out.dtype)
            pending.compute(form, out, *undecided.nonzero())


class Groups:
    """The groups of base rows used last. Threads share it: entries are only ever replaced whole, and all agree."""

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self._grids: tuple[tuple[int, Grid], ...] = ()
        self._asked: tuple[int, ...] = ()

    def get(self, group: int) -> Grid | None:
        return next((grid for held, grid in self._grids if held == group), None)

    def asked(self, group: int) -> bool:
        """Whether it was asked for lately, and that it is now."""
        before = group in self._asked
        self._asked = (group, *self._asked)[: self.kept]
        return before

    def keep(self, group: int, grid: Grid) -> None:
        self._grids = ((group, grid), *(held for held in self._grids if held[0] != group))[: self.kept]


def _farthest(positions: range | Floats) -> float:
    """The largest distance from 0."""
    if isinstance(positions, range):
        return float(max(-positions[0], positions[-1], 0))
    return float(np.abs(positions).max())


def products(multipliers: Floats, factors: Reals, out: NDArray[Any]) -> None:
    """out[i, k] = multipliers[i] * factors[k], rounded once to the dtype of `out`.

    In double-double the product is good to 2^-100 (the factor to 2^-105, its low part's product and the sum to 2^-103
    each), and exact where the factor is a float64 (slopes that are powers of two make ties by the thousand); the
    undecided are multiplied again with 80 digits, and ties seen to be ties.

    >>> out = np.empty((2, 2), np.float32)
    >>> products(np.array([1.0, 3.0]), Reals.of([0.5, 0.1]), out)
    >>> out.tolist()
    [[0.5, 0.10000000149011612], [1.5, 0.30000001192092896]]
    """
    factor = Pair(*factors.pairs())
    relative_error = np.where(factor.low == 0, 0.0, 2.0**-100)
    for run in runs(len(multipliers), max(1, BLOCK_VALUES // max(1, len(factors)))):
        multiplier, part = multipliers[run, None], out[run]
        with np.errstate(over="ignore", invalid="ignore"):
            value = multiply(Pair(multiplier, np.zeros_like(multiplier)), factor)
        size = np.abs(value.high)
        value = Pair(value.high + 0.0, value.low)  # a product that is 0 is +0.0
        part[...], undecided = decide(*value, relative_error * size, out.dtype)
        for i, k in np.argwhere(undecided | _out_of_range(size, multiplier, factor.high)).tolist():
            with localcontext(MANY_DIGITS):
                exact = pair(real(float(multiplier[i, 0])) * factors.numbers[k])
            part[i, k] = rounded(exact, out.dtype)


def _out_of_range(size: Floats, multiplier: Floats, factor: Floats) -> NDArray[np.bool_]:
    """Where double-double over- or underflows, other than at 0."""
    extreme: NDArray[np.bool_] = ~((size > 2.0**-900) & (size < 2.0**900)) & (multiplier != 0) & (factor != 0)
    return extreme


def values(reals: Reals, dtype: DTypeLike) -> NDArray[Any]:
    """The numbers rounded once to `dtype`, shape (count,)."""
    return nearest_of_sum(*reals.pairs(), dtype)
