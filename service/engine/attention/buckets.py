"""Logarithmic buckets of distances, exactly: where each begins or ends, as integers.

Between `low` and `high` the real bounds are b_j = low (high / low)^(j / steps). Which integers lie beyond one is
decided with 80 digits, and where b_j may itself be an integer, by comparing whole powers: no logarithm is rounded.
"""

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import gcd
from typing import Literal

import numpy as np

from service.engine.attention.relative import Integers
from service.engine.numbers.reals import MANY_DIGITS, NOISE, geometric
from service.engine.quantities import LARGEST_EXACT_INTEGER


def bounds(low: int, high: int, steps: int, count: int, side: Literal["first", "last"]) -> Integers:
    """For j = 1 ... count the first integer not below b_j, or the last not above it (2^53 + 1 stands for any larger).

    >>> bounds(8, 128, 8, 7, "first").tolist()  # T5, 32 buckets in both directions, distances to 128
    [12, 16, 23, 32, 46, 64, 91]
    >>> bounds(8, 128, 8, 7, "last").tolist()
    [11, 16, 22, 32, 45, 64, 90]
    """
    below = geometric(float(low), [Fraction(steps - j, steps) for j in range(1, count + 1)])
    above = geometric(float(high), [Fraction(j, steps) for j in range(1, count + 1)])
    found = (_nearest(Fraction(high, low), low, steps, j, real) for j, real in enumerate(below * above, 1))
    past = -1 if side == "first" else 1  # an integer on this side of its bound is one too far that way
    ends = [min(integer - past * (side_of == past), LARGEST_EXACT_INTEGER + 1) for integer, side_of in found]
    return np.array(ends, np.int64)


def _nearest(ratio: Fraction, low: int, steps: int, j: int, bound: Decimal) -> tuple[int, int]:
    """The integer nearest to b_j, and on which side of b_j it lies: -1 below, 0 equal, 1 above."""
    with localcontext(MANY_DIGITS):
        integer = int(bound.to_integral_value(ROUND_HALF_EVEN))
        away = integer - bound
        if abs(away) > NOISE * bound:
            return integer, 1 if away > 0 else -1
    common = gcd(j, steps)  # b_j = low ratio^(j / steps), so compare the powers of both sides
    left, right = Fraction(integer, low) ** (steps // common), ratio ** (j // common)
    return integer, (left > right) - (left < right)


def bucket(ends: Integers, distances: Integers) -> Integers:
    """How many of the ascending bounds lie at or below each distance.

    >>> bucket(np.array([1, 2, 4]), np.array([0, 1, 3, 4, 100])).tolist()
    [0, 1, 2, 3, 3]
    """
    return np.searchsorted(ends, distances, side="right").astype(np.int64)
