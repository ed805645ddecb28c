"""Tables less the mean of all their values, over ten times the standard deviation of them all (PatchTST).

The sum of sines over consecutive positions has a closed form, and so has that of their squares:

    sum of e^(i p w), p = a ... a + n - 1,   is   sin(n w / 2) / sin(w / 2) * e^(i w (a + (n - 1) / 2))

so mean and deviation are real numbers to 80 digits, however long the table is.
"""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from service.engine.arithmetics import Exact
from service.engine.numbers.blocks import BLOCK_VALUES
from service.engine.numbers.pairs import Floats, Pair, add
from service.engine.numbers.reals import MANY_DIGITS, Reals, pair, pi
from service.engine.numbers.sines import Angles, sine_cosine_of_turn
from service.engine.positions import Values
from service.engine.rounding import decide, nearest_of_sum
from service.engine.scheme import Array
from service.engine.waves import Waves

ROUNDED = 2.0**-98  # what the sum with the shift loses, relative to its terms


def moments(frequencies: Reals, cosines: int, first: int, length: int) -> tuple[Decimal, Decimal]:
    """Mean and unbiased standard deviation of all sines, and of the first `cosines` cosines, of those positions.

    >>> mean, deviation = moments(Reals.of([1]), 1, 0, 2)  # of 0, 1, sin 1 and cos 1
    >>> round(mean, 9), round(deviation, 9)
    (Decimal('0.595443323'), Decimal('0.440374461'))
    """
    with localcontext(MANY_DIGITS):
        total = squares = Decimal(0)
        for k, frequency in enumerate(frequencies):
            turn = frequency / (2 * pi())
            sine, cosine = _sums(turn, first, length)
            _, twice = _sums(2 * turn, first, length)
            total += sine
            squares += (length - twice) / 2
            if k < cosines:
                total += cosine
                squares += (length + twice) / 2
        count = length * (len(frequencies) + cosines)
        mean = total / count
        return mean, ((squares - count * mean * mean) / (count - 1)).sqrt()


def _sums(turn: Decimal, first: int, length: int) -> tuple[Decimal, Decimal]:
    """The sums of sin and cos of 2 pi turn p over the positions p."""
    sine, cosine = sine_cosine_of_turn(turn * (2 * first + length - 1) / 2)
    divisor, _ = sine_cosine_of_turn(turn / 2)
    if not divisor:
        sine, cosine = sine_cosine_of_turn(turn * first)
        return length * sine, length * cosine
    ratio = sine_cosine_of_turn(turn * length / 2)[0] / divisor
    return ratio * sine, ratio * cosine


class Standardised:
    """The sines and cosines, less their mean, over ten times their deviation; rounded once."""

    def __init__(self, frequencies: Reals, cosines: int, first: int, length: int) -> None:
        self._exact = Exact(Waves(frequencies))
        mean, deviation = moments(frequencies, cosines, first, length)
        with localcontext(MANY_DIGITS):
            self._factor = 1 / (10 * deviation)
            self._shift = -mean * self._factor
            high, low = pair(self._shift)
        self._scaled = Angles(frequencies, self._factor)
        self._shift_pair = Pair(np.array(high), np.array(low))

    def angles(self, at: Values, out: Array) -> None:
        self._exact.angles(at, out)

    def frequencies(self, dtype: "np.dtype[np.generic]") -> Array:
        return self._exact.frequencies(dtype)

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        positions = np.array(at, np.float64)
        step = max(1, BLOCK_VALUES // self._scaled.speed.size)
        for start in range(0, len(positions), step):
            part = positions[start : start + step, None]
            waves, errors = self._scaled.at(part, slice(None)), self._scaled.errors(part, slice(None))
            for form, out in enumerate((sin, cos)):
                if out is not None:
                    self._round(form, part, waves[form], errors[form], out[start : start + step])

    def _round(self, form: int, positions: Floats, wave: Pair, error: Floats, out: Array) -> None:
        value = add(wave, self._shift_pair)
        lost = ROUNDED * (np.abs(wave.high) + np.abs(self._shift_pair.high))
        out[...], undecided = decide(value.high, value.low, error + lost, out.dtype)
        for row, channel in np.argwhere(undecided).tolist():
            out[row, channel] = self._exactly(form, float(positions[row, 0]), channel, out.dtype)

    def _exactly(self, form: int, position: float, channel: int, dtype: "np.dtype[np.generic]") -> Any:
        with localcontext(MANY_DIGITS):
            wave = sine_cosine_of_turn(Decimal(position) * self._scaled.turns[channel])[form]
            high, low = pair(wave * self._factor + self._shift)
        return nearest_of_sum(np.array([high]), np.array([low]), dtype)[0]
