"""Sines and cosines of position * frequency, one at a time: in double-double, and with 80 digits.

The angle is reduced in *turns*. With F = frequency / 2 pi, only the fraction of position * F matters, and a
fraction is what rint and a subtraction give exactly. So F is kept as words of 24 bits, a position as two
halves of 26 bits: each product of a half and a word is exact, and so is its fraction. What is left is a sum.

    turn  = fraction of  sum over words of (high half + low half) * word         double-double
    turn  = step / 64 + rest,   |rest| <= 1/128                                  exact
    angle = 2 pi rest                                                            double-double
    sin, cos of the angle by Taylor; turned on by step / 64 with the angle-addition formula

Errors, u = 2^-53, x = position * frequency in radians, `small` = min(1, |x|):

    F cut to 144 bits                               2^-143 |x|
    the sum of 12 fractions, carries in float64     2^-97 of a turn, or relative to a small one: 2^-94 small
    2 pi rest, Taylor, angle addition               under 40 u^2 of the terms' sizes:            2^-99 small
    together                                        < 2^-92 small + 2^-142 |x|

and for the cosine the same with 1 for `small`. The bounds below are four times that.

In plain float64 the same takes a fifth of the time, and decides all but one in 2^19 of the values in float32:

    F cut to 96 bits                                2^-95 |x|
    the sum of 8 fractions of 1/2 at most           8 * 4 u of a turn, or relative to a small one:  201 u small
    2 pi rest, Taylor, angle addition               under 16 u of the terms' sizes:                  16 u small
    together                                        < 2^-45 small + 2^-95 |x|

of which twice as much, and more, is taken.
"""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import factorial, floor, log2

import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.pairs import (
    Floats,
    Pair,
    add,
    halves,
    multiply,
    negative,
    stacked,
    sum_of_products,
    two_sum,
)
from service.engine.numbers.reals import (
    MANY_DIGITS,
    NOISE,
    TINY,
    Number,
    Reals,
    pair,
    pair_below,
    pair_of_sine,
    pi,
    real,
    sine_cosine,
)

Indices = NDArray[np.intp]

WORD_BITS, WORDS = 24, 6
STEPS = 64  # to a turn; a multiple of 4, so that 0, 1 and -1 stand in the table exactly
FASTEST = 2.0**64  # radians per position: with positions to 2^53, 80 digits still leave 45 after the point
SLOWEST = 2.0**-400  # below, and for positions as small, the words would run out of exponents
_SLOWEST_TURN = Decimal(SLOWEST) / 16
_WORD_OCTETS = WORD_BITS // 8
_WORD_SHIFTS = np.arange(WORDS - 1, -1, -1)[:, None] * WORD_BITS
_BITS_OF_A_DIGIT = log2(10)
UNIT, WORD_CUT = 2.0**-90, 2.0**-140
PLAIN_WORDS, PLAIN_UNIT, PLAIN_WORD_CUT = 4, 2.0**-44, 2.0**-92
NOTHING_KNOWN = 2.0  # an error bound as wide as all sines and cosines together
LITTLE_MORE = 1 + 2.0**-20  # for what is rounded in the bounds themselves, and in multiplying by an amplitude


class Angles:
    """Some frequencies, prepared, and what their sines and cosines are multiplied by.

    `words` (6, count): F = frequency / 2 pi, largest word first; `speed` (count,): |frequency| and a little more;
    `amplitude`: None where it is 1.
    """

    def __init__(self, frequencies: Reals, amplitude: Number = 1) -> None:
        self.frequencies = frequencies
        (exact,) = Reals.of([amplitude])
        self.amplitude = None if exact == 1 else exact
        self.scale = _constants(Reals((exact,))).at(0)
        with localcontext(MANY_DIGITS):
            whole = 2 * pi()
            self.turns = tuple(frequency / whole for frequency in frequencies)
            if any(abs(frequency) > FASTEST for frequency in frequencies):
                raise ValueError("a frequency is beyond 2^64 radians per position")
            self.words = _words(self.turns)
        self.speed = np.abs(self.words[0] + self.words[1] + self.words[2]) * (LITTLE_MORE * TAU.high)
        for slow in np.flatnonzero(self.speed == 0):
            self.speed[slow] = abs(float(frequencies.numbers[slow]))

    def at(self, positions: Floats, channels: Indices | slice) -> tuple[Pair, Pair]:
        """sin and cos of positions * frequencies[channels], times the amplitude, in double-double, broadcast."""
        return self.scaled(self.of_unit_amplitude(positions, channels))

    def scaled(self, waves: tuple[Pair, Pair]) -> tuple[Pair, Pair]:
        """Sines and cosines times the amplitude."""
        if self.amplitude is None:
            return waves
        sine, cosine = waves
        return multiply(sine, self.scale), multiply(cosine, self.scale)

    def of_unit_amplitude(self, positions: Floats, channels: Indices | slice) -> tuple[Pair, Pair]:
        """sin and cos of positions * frequencies[channels] in double-double, broadcast."""
        turn = _fraction_of_product(positions, self.words[:, channels])
        step = np.rint(turn.high * STEPS)
        rest = two_sum(turn.high - step / STEPS, turn.low)
        sine, cosine = _taylor(multiply(rest, TAU))
        index = step.astype(np.intp) % STEPS
        return turned((sine, cosine), (STEP_SINES.at(index), STEP_COSINES.at(index)))

    def plainly(self, positions: Floats, channels: Indices | slice) -> tuple[Floats, Floats]:
        """sin and cos as in `at`, in float64."""
        turn = np.zeros(np.broadcast_shapes(positions.shape, self.words[0, channels].shape))
        for part in _parts(positions):
            for word in self.words[:PLAIN_WORDS, channels]:
                product = part * word
                turn += product - np.rint(product)
        turn -= np.rint(turn)
        step = np.rint(turn * STEPS)
        turn -= step / STEPS
        sine, versine = plain_taylor(turn * TAU.high)
        cosine = 1.0 + versine
        index = step.astype(np.intp) % STEPS
        step_sine, step_cosine = STEP_SINES.high[index], STEP_COSINES.high[index]
        waves = step_sine * cosine + step_cosine * sine, step_cosine * cosine - step_sine * sine
        return waves if self.amplitude is None else (waves[0] * self.scale.high, waves[1] * self.scale.high)

    def errors(self, positions: Floats, channels: Indices | slice, *, plain: bool = False) -> tuple[Floats, Floats]:
        """Bounds of the absolute errors of `at`, or of `plainly`, for the sines and for the cosines."""
        unit, word_cut = (PLAIN_UNIT, PLAIN_WORD_CUT) if plain else (UNIT, WORD_CUT)
        speed, distance = self.speed[channels], np.abs(positions)
        angle = distance * speed
        words = word_cut * angle
        blind = ((distance < SLOWEST) & (distance > 0)) | ((speed < SLOWEST) & (speed > 0))
        unknown = words + np.where(blind, NOTHING_KNOWN, 0.0)
        most = LITTLE_MORE * np.abs(self.scale.high)
        return most * (unit * np.minimum(angle, 1.0) + unknown), most * (unit + unknown)

    def exactly(self, position: float, channel: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """sin and cos of one angle with some 45 digits or more, each as high + low; zeros, ones are exact."""
        if position == 0:  # the first row of most tables, every channel of it
            return (0.0, 0.0), (float(self.scale.high), float(self.scale.low))
        with localcontext(MANY_DIGITS):
            sine, cosine = sine_cosine_of_turn(real(position) * self.turns[channel])
            if self.amplitude is None:
                return pair_of_sine(sine), pair_of_sine(cosine)
            return self._scaled_exactly(sine, cosine), self._scaled_exactly(cosine, sine)

    def _scaled_exactly(self, wave: Decimal, other: Decimal) -> tuple[float, float]:
        """A sine or cosine times the amplitude; below the digits of a tiny angle, and of 1 beside one."""
        product = wave * (self.amplitude or 1)
        return pair_below(product) if 0 < min(abs(wave), abs(other)) < TINY else pair(product)


def turned(a: tuple[Pair, Pair], b: tuple[Pair, Pair]) -> tuple[Pair, Pair]:
    """(sin, cos) of the sum of two angles from those of each: the angle-addition formula, both waves in one go.

    The arrays of both angles have as many axes.
    """
    (sin_a, cos_a), (sin_b, cos_b) = a, b
    wave = sum_of_products(
        _terms(sin_a, cos_a, cos_a, sin_a),
        _terms(cos_b, cos_b, sin_b, negative(sin_b)),
    )
    return wave.at(0), wave.at(1)


def _terms(*factors: Pair) -> Pair:
    """The factors of the first terms of sine and cosine, and of the second: (term, wave, ...)."""
    both = stacked(*factors)
    return Pair(*(half.reshape(2, 2, *half.shape[1:]) for half in both))


def sine_cosine_of_turn(turn: Decimal) -> tuple[Decimal, Decimal]:
    """sin and cos of 2 pi turn; call it under `localcontext(MANY_DIGITS)`.

    What is left of a turn after whole quarters, if it lies in the noise of the digits, is 0: frequencies such
    as 2 pi / period do meet their zeros, and no other comes so close.
    """
    quarters = (4 * turn).to_integral_value()
    rest = turn - quarters / 4
    if abs(rest) <= NOISE * abs(turn):
        rest = Decimal(0)
    sine, cosine = sine_cosine(2 * pi() * rest)
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[int(quarters % 4)]


def _words(turns: Sequence[Decimal]) -> Floats:
    """The leading 144 bits of each number as 6 float64 of 24 bits each, (6, count); zeros where it is too small."""
    leading = [_leading_bits(turn) for turn in turns]
    octets = np.frombuffer(b"".join(bits.to_bytes(_WORD_OCTETS * WORDS, "big") for bits, _ in leading), np.uint8)
    ones, twos, fours = octets.reshape(-1, WORDS, _WORD_OCTETS).T.astype(np.float64)[::-1]
    last = np.array([exponent for _, exponent in leading], np.intp)
    signs = np.array([-1.0 if turn < 0 else 1.0 for turn in turns])
    words: Floats = np.ldexp(signs * (ones + 2.0**8 * twos + 2.0**16 * fours), last + _WORD_SHIFTS)
    return words


def _leading_bits(turn: Decimal) -> tuple[int, int]:
    """The leading 144 bits, and the exponent of the last of them; no bits where the number is too small."""
    if abs(turn) < _SLOWEST_TURN:
        return 0, 0
    more = WORD_BITS * WORDS + 1 - floor(turn.adjusted() * _BITS_OF_A_DIGIT)
    bits = int(abs(turn) * _power_of_two(more))  # 144 bits or a few more
    surplus = bits.bit_length() - WORD_BITS * WORDS
    return bits >> surplus, surplus - more


@lru_cache(maxsize=1024)
def _power_of_two(exponent: int) -> Decimal:
    with localcontext(MANY_DIGITS):
        return Decimal(2) ** exponent


def _fraction_of_product(positions: Floats, words: Floats) -> Pair:
    """positions * sum(words) less the nearest integer: the reduced turn, |turn| <= 1/2 and a hair."""
    parts = _parts(positions)
    total = carries = np.zeros(np.broadcast_shapes(positions.shape, words[0].shape))
    for word in words:
        for part in parts:
            product = part * word
            total, carry = two_sum(total, product - np.rint(product))
            carries = carries + carry
    return two_sum(total - np.rint(total), carries)


def _parts(positions: Floats) -> list[Floats]:
    """The two halves of the positions, or one: integers below 2^26 have but one."""
    return [half for half in halves(positions) if half.any()]


def plain_taylor(angle: Floats) -> tuple[Floats, Floats]:
    """sin and cos - 1 for |angle| <= 2 pi / 128: the first terms left out, angle^11 / 11! and angle^12 / 12!, are below
    2^-68 of the result."""
    square = angle * angle
    sine, cosine = np.full_like(angle, _SINE_SERIES[3].high), np.full_like(angle, _COSINE_SERIES[4].high)
    for coefficient in reversed(_SINE_SERIES[:3]):
        sine *= square
        sine += coefficient.high
    for coefficient in reversed(_COSINE_SERIES[:4]):
        cosine *= square
        cosine += coefficient.high
    return angle + angle * (square * sine), square * cosine


def _taylor(angle: Pair) -> tuple[Pair, Pair]:
    """sin and cos for |angle| <= 2 pi / 128, where angle^2 < 2^-8.6: both at once, as first + first * square * series.

    The terms from angle^8 on are below 2^-50 of the result, so float64 is enough for their sum; the series
    ends where the next term is below 2^-110.
    """
    one = np.ones_like(angle.high)
    first = stacked(angle, Pair(one, np.zeros_like(one)))
    square = multiply(angle, angle)
    waves = add(first, multiply(first, multiply(square, _horner(square))))
    return waves.at(0), waves.at(1)


def _horner(square: Pair) -> Pair:
    """The polynomials of sine and cosine (2, ...), the leading three coefficients in double-double."""
    series = [coefficient.at((..., *(None,) * square.high.ndim)) for coefficient in _SERIES]
    tail = series[-1].high
    for coefficient in reversed(series[3:-1]):
        tail = tail * square.high + coefficient.high
    total = Pair(tail, np.zeros_like(tail))
    for coefficient in reversed(series[:3]):
        total = add(coefficient, multiply(square, total))
    return total


def _constants(numbers: Reals) -> Pair:
    return Pair(*numbers.pairs())


def _series(first: int) -> tuple[Pair, ...]:
    """(-1)^n / (2 n + first)! for n from 1 to 7: first = 1 for the sine, 0 for the cosine."""
    series = _constants(Reals.of(Fraction((-1) ** n, factorial(2 * n + first)) for n in range(1, 8)))
    return tuple(series.at(n) for n in range(7))


def _steps() -> tuple[Pair, Pair]:
    """sin and cos of the 64 steps of a turn."""
    with localcontext(MANY_DIGITS):
        both = [sine_cosine_of_turn(Decimal(step) / STEPS) for step in range(STEPS)]
    return _constants(Reals(tuple(sine for sine, _ in both))), _constants(Reals(tuple(cos for _, cos in both)))


_SINE_SERIES, _COSINE_SERIES = _series(1), _series(0)
_SERIES = [stacked(*both) for both in zip(_SINE_SERIES, _COSINE_SERIES, strict=True)]
STEP_SINES, STEP_COSINES = _steps()
TAU = _constants(Reals.of([2 * pi()])).at(0)
