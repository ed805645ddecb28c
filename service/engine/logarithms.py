"""Natural logarithms in double-double, made of frexp, +, -, * and / only: the same bits on every processor.

x = 2^e c (1 + r), c = 1 + i/128 the nearest to the fraction, |r| <= 2^-8, so ln x = e ln 2 + ln c + ln(1 + r). The
constants have 80 digits; r and r^2 are kept in double-double, the series beyond them is below 2^-16 |r| and computed
in float64, so the error is below 2^-66 of the logarithm. For x = 1 every part is 0.
"""

from functools import cache

import numpy as np

from service.engine.pairs import Floats, Pair, add, multiply, ordered_sum, two_product
from service.engine.reals import MANY_DIGITS, Reals, real

STEPS = 128
TERMS = range(10, 2, -1)  # of the series, the highest power first: r^11 is below 2^-80 |r|


@cache
def _constants() -> tuple[Pair, Pair]:
    """ln c for c = 1, 1 + 1/128, ..., 2; and ln 2."""
    table = Reals(tuple(MANY_DIGITS.ln(real(1 + i / STEPS)) for i in range(STEPS + 1)))
    logarithms = Pair(*table.pairs())
    return logarithms, logarithms.at(slice(STEPS, None))


def natural(numbers: Floats) -> Pair:
    """ln of numbers x >= 1, in double-double.

    >>> natural(np.array([1.0, 2.0, 10.0])).high.tolist()
    [0.0, 0.6931471805599453, 2.302585092994046]
    """
    table, two = _constants()
    fraction, exponent = np.frexp(numbers)
    fraction, exponent = 2 * fraction, exponent - 1.0
    index = np.rint((fraction - 1) * STEPS).astype(np.int64)
    near = 1 + index / STEPS
    whole = multiply(Pair(exponent, np.zeros_like(exponent)), two)
    return add(add(whole, table.at(index)), _near_one(_ratio(fraction - near, near)))


def _ratio(difference: Floats, near: Floats) -> Pair:
    """difference / near: the quotient, and what it leaves divided again."""
    quotient = difference / near
    product, error = two_product(quotient, near)
    return ordered_sum(quotient, ((difference - product) - error) / near)


def _near_one(r: Pair) -> Pair:
    """ln(1 + r) = r - r^2/2 + r^3/3 - ..."""
    series = np.zeros_like(r.high)
    for power in TERMS:
        series = 1 / power - r.high * series
    square = multiply(r, r)
    half = Pair(-square.high / 2, -square.low / 2)
    cube = square.high * r.high * series
    return add(add(r, half), Pair(cube, np.zeros_like(cube)))
