"""Values that blocks left undecided, decided: by the float64 that they came from, in double-double, with 80 digits."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from service.engine.numbers.blocks import BLOCK_VALUES, Array, Outs, Target, Waveform
from service.engine.numbers.pairs import Floats, runs
from service.engine.numbers.plans import Look, Plan
from service.engine.numbers.sines import Angles, Indices
from service.engine.rounding import decide, nearest_of_sum

PENDING = 8192  # undecided values computed again together
FEW = 512  # not worth two attempts: numpy's calls cost more than the values


class Undecided:
    """Values that blocks left undecided, settled many at a time."""

    def __init__(self, angles: Angles, plan: Plan, positions: range | Floats, target: Target) -> None:
        self.angles, self.plan, self.positions, self.target = angles, plan, positions, target
        self._forms = np.array([int(form) for form in target.outs])
        self._row_size = angles.speed.size * self._forms.size
        self._found: list[Indices] = []
        self._size = 0

    def add(self, start: int, flat: Indices) -> None:
        """Note these values of a block whose first row that is, and settle when there are many."""
        if flat.size:
            self._found.append(flat + start * self._row_size)
            self._size += flat.size
        if self._size >= PENDING:
            self.settle()

    def settle(self) -> None:
        """Decide by the float64 that they came from, if that saves anything, in double-double, then with 80 digits."""
        if not self._found:
            return
        flat = np.concatenate(self._found)
        self._found, self._size = [], 0
        if self.plan.narrowly is not None and self.target.dtype != np.float64 and flat.size > FEW:
            flat = self._decide(flat, self.plan.narrowly)
        if flat.size:
            flat = self._decide(flat, self.plan.closely)
        if flat.size:
            self._settle_exactly(flat)

    def _decide(self, flat: Indices, look: Look) -> Indices:
        """Write what is decided so; the rest."""
        row, channel, place = self._unravelled(flat)
        value, error = look(row, channel, self._forms[place])
        nearest, undecided = decide(*value, error, self.target.dtype)
        for index, out in enumerate(self.target.outs.values()):
            of_form = place == index
            out[row[of_form], channel[of_form]] = nearest[of_form]
        return flat[undecided]

    def _unravelled(self, flat: Indices) -> tuple[Indices, Indices, Indices]:
        row, within = np.divmod(flat, self._row_size)
        channel, place = np.divmod(within, self._forms.size)
        return row, channel, place

    def _settle_exactly(self, flat: Indices) -> None:
        row, channel, place = self._unravelled(flat)
        for index, (form, out) in enumerate(self.target.outs.items()):
            left = np.stack((row, channel), axis=1)[place == index]
            settle_exactly(self.angles, form, self.positions, left, out)


class Pending:
    """Values that are computed each for itself."""

    def __init__(self, angles: Angles, positions: range | Floats, outs: Outs) -> None:
        self.angles, self.positions, self.outs = angles, positions, outs

    def compute(self, form: Waveform, out: Array, rows: Indices, channels: Indices) -> None:
        """Write these values: in double-double, and with 80 digits what is undecided even so."""
        for run in runs(rows.size, BLOCK_VALUES):
            row, channel = rows[run], channels[run]
            where = picked(self.positions, row)
            value = self.angles.at(where, channel)[form]
            out[row, channel], undecided = decide(*value, self.angles.errors(where, channel)[form], out.dtype)
            left = np.stack((row, channel), axis=1)[undecided]
            settle_exactly(self.angles, form, self.positions, left, out)


def picked(positions: range | Floats, rows: Indices) -> Floats:
    """The positions of some rows."""
    return (rows + positions.start).astype(np.float64) if isinstance(positions, range) else positions[rows]


def settle_exactly(angles: Angles, form: Waveform, positions: range | Floats, left: Indices, out: NDArray[Any]) -> None:
    """Write values (row, channel) with 80 digits."""
    if left.size:
        exact = [angles.exactly(float(positions[i]), k)[form] for i, k in left.tolist()]
        high, low = np.array(exact, np.float64).T
        out[left[:, 0], left[:, 1]] = nearest_of_sum(high, low, out.dtype)


def rounded(exact: tuple[float, float], dtype: DTypeLike) -> Any:
    """high + low, rounded once."""
    high, low = np.array(exact, np.float64)[:, None]
    return nearest_of_sum(high, low, dtype)[0]
