"""Sines one at a time: float64 and double-double keep the bounds that they state, for angles of every size."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine.numbers.reals import Reals, geometric
from service.engine.numbers.sines import Angles
from tests.engine.answers import Array

RANDOM = np.random.default_rng(23)
FREQUENCIES = {
    "rotary": geometric(10000.0, [Fraction(-k, 32) for k in range(32)]),
    "fast": geometric(7.3, [Fraction(k) for k in range(-8, 20)]),
    "slow": geometric(1e9, [Fraction(-k, 3) for k in range(24)]),
    "turns": Reals.of([Fraction(355, 113), 1, 2**30]),
}


def positions() -> Array:
    """Of every size and both signs, whole and fractional, and near multiples of pi, where sines are small."""
    sizes = 2.0 ** RANDOM.uniform(-60, 53, 3000)
    whole = np.rint(2.0 ** RANDOM.uniform(0, 53, 1000))
    near_zeros = np.rint(RANDOM.uniform(1, 2**40, 1000)) * np.pi
    everything = np.concatenate([[0.0, 2.0**53, 0.5, 22.0, 355.0], sizes, whole, near_zeros])
    signed: Array = everything * RANDOM.choice([-1.0, 1.0], everything.size)
    return signed


@pytest.mark.parametrize("name", FREQUENCIES)
def test_float64_keeps_its_bound(name: str) -> None:
    """Against double-double, whose own errors are 2^46 times smaller; half of the bound is to spare."""
    angles, at = Angles(FREQUENCIES[name]), positions()[:, None]
    plain, bounds = angles.plainly(at, slice(None)), angles.errors(at, slice(None), plain=True)
    for value, exact, bound in zip(plain, angles.at(at, slice(None)), bounds, strict=True):
        assert (np.abs(value - exact.high) <= bound / 2).all()


@pytest.mark.parametrize("name", FREQUENCIES)
def test_double_double_keeps_its_bound(name: str) -> None:
    angles, frequencies = Angles(FREQUENCIES[name]), list(FREQUENCIES[name])
    chosen = RANDOM.choice(positions(), 60)
    value, bound = angles.at(chosen[:, None], slice(None)), angles.errors(chosen[:, None], slice(None))
    with mpmath.workprec(500):
        for row, position in enumerate(chosen.tolist()):
            channel = row % len(frequencies)
            cosine, sine = mpmath.cos_sin(mpf(position) * mpf(str(frequencies[channel])))
            for got, exact, limit in zip(value, (sine, cosine), bound, strict=True):
                error = mpf(float(got.high[row, channel])) + mpf(float(got.low[row, channel])) - exact
                assert abs(error) <= limit[row, channel]


def test_a_small_sine_has_a_small_bound() -> None:
    angles = Angles(Reals.of([1e-9]))
    sine, cosine = angles.errors(np.array([[3.0]]), slice(None), plain=True)
    assert sine[0, 0] < 3e-9 * 2.0**-43
    assert cosine[0, 0] >= 2.0**-44
