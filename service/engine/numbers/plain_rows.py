"""Rows of sines and cosines in float64, for the first table of some frequencies: a tenth of what ladders cost.

With integers p below 2^26 and frequencies F = w / 2 pi below 1 turn, in words of 24 bits (`sines.py`), u = 2^-53:

    turn  = fraction of p F0  +  fraction of p F1  +  p (F2 + F3)     the fractions exact, their sum as high + low
    rest  = turn - step / 64, |rest| <= 1/128                         exact, but for low and p (F2 + F3) added: 2^-8 u
    angle = 2 pi rest                                                 below 2^-4.3
    sin   = S + (C sin(angle) + (S (cos(angle) - 1) + S's low part))  S, C: sine and cosine of step / 64

Words cut off: 2^26 2^-96 of a turn. The angle's own errors, with those of 2 pi and of two roundings, are below 0.1 u,
so are all products in the brackets together, as the sine of the angle is below 2^-4.3, and the last sum rounds by
u / 2: each number is within 0.75 u. A product of two such rows has 4 errors of a row times a sine or a cosine,
2 sqrt(2) * 0.75 u at most, and its own roundings, 1.5 u: within 4 u, where blocks take 7 u for granted
(`LARGEST_NARROW`).
"""

import numpy as np

from service.engine.numbers.blocks import NarrowGrid, Turns, Waveform
from service.engine.numbers.pairs import Floats, Pair, aligned, two_sum
from service.engine.numbers.plans import Plan, bases_of, consecutive
from service.engine.numbers.sines import STEP_COSINES, STEP_SINES, STEPS, TAU, Angles, Indices, plain_taylor

FARTHEST_PLAIN = 2**26
FASTEST_PLAIN = 6.0  # radians per position, less than a turn

MOST_BASES = 32  # beyond, ladders cost less than what they spare of each undecided value


def is_plain(angles: Angles, positions: range, stride: int) -> bool:
    """Whether rows in float64 do, and are worth it."""
    within = positions[0] - stride > -FARTHEST_PLAIN and positions[-1] + stride < FARTHEST_PLAIN
    slow = angles.amplitude is None and bool(angles.speed.max() <= FASTEST_PLAIN)
    return within and slow and len(bases_of(positions, stride)) <= MOST_BASES


def plain_plan(angles: Angles, positions: range, stride: int) -> Plan:
    """Blocks of a base row and of offset rows -stride/2 ... stride/2 - 1."""
    bases, half = bases_of(positions, stride), stride // 2
    middles = np.arange(bases.start, bases.stop, dtype=np.float64) * stride + half
    rows = plain_turns(angles, np.concatenate((np.arange(half + 1.0), middles)))
    up, turns = rows[: half + 1], rows[half + 1 :]
    offsets: Turns = aligned((stride, rows.shape[1]), np.complex128)
    offsets[:half] = up[:0:-1]
    np.conjugate(up[:half], out=offsets[half:])
    # sin a + i cos a
    swapped: Turns = aligned(turns.shape, np.complex128)
    swapped.real, swapped.imag = turns.imag, turns.real

    def closely(rows: Indices, channels: Indices, forms: Indices) -> tuple[Pair, Floats]:
        at = (rows + positions[0]).astype(np.float64)
        waves, errors = angles.at(at, channels), angles.errors(at, channels)
        cosine = forms == Waveform.COS
        value = Pair(*(np.where(cosine, *both) for both in zip(waves[1], waves[0], strict=True)))
        return value, np.where(cosine, errors[1], errors[0])

    return Plan(NarrowGrid(swapped, offsets), consecutive(positions, stride, bases.start), closely)


def plain_turns(angles: Angles, positions: Floats) -> Turns:
    """cos(p w) + i sin(p w) for integers p within 2^26 of 0 and w up to 6, each part within 0.75 * 2^-53, without the
    amplitude: (positions, frequencies)."""
    at = positions[:, None]
    first, second, third, fourth = angles.words[:4]
    turn, low = two_sum(_fraction(at * first), _fraction(at * second))
    turn -= np.rint(turn)
    low += at * (third + fourth)
    step = np.rint(turn * STEPS)
    turn -= step / STEPS
    turn += low
    turn *= TAU.high
    index = step.astype(np.intp) % STEPS
    sine, versine = plain_taylor(turn)
    turned: Turns = aligned(turn.shape, np.complex128)
    sine_step, cosine_step = STEP_SINES.high.take(index), STEP_COSINES.high.take(index)
    turned.imag = sine_step + (cosine_step * sine + (sine_step * versine + STEP_SINES.low.take(index)))
    turned.real = cosine_step + (cosine_step * versine - sine_step * sine + STEP_COSINES.low.take(index))
    return turned


def _fraction(product: Floats) -> Floats:
    product -= np.rint(product)
    return product
