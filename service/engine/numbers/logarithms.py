"""Logarithms and exponentials of many numbers at once, with more digits than float64 and the same on every processor.

numpy's own follow the processor's instruction set. These are made of +, -, *, / and exact scalings by powers of two, on
double-doubles (`pairs.py`), from tables known to 80 digits: rounded to float64 they are faithful, and nearly always
correct.
"""

from fractions import Fraction
from functools import cache

import numpy as np

from service.engine.numbers.pairs import Floats, Pair, add, divide, multiply, two_product, two_sum
from service.engine.numbers.reals import Reals, geometric

STEPS = 128  # of [1, 2], each with a logarithm that is known
TERMS = 13  # of the exponential's series: r^14 / 14! is below 2^-94 for |r| <= ln(2) / 64
PARTS = 32  # of one octave, each with a power of two that is known


@cache
def _steps() -> Pair:
    """ln(1 + i / STEPS) for i = 0 ... STEPS: the last is ln 2."""
    return Pair(*Reals.of([1 + Fraction(step, STEPS) for step in range(STEPS + 1)]).logarithm().pairs())


@cache
def _octave() -> Pair:
    """The powers 2^(j / PARTS) within an octave."""
    return Pair(*geometric(2.0, [Fraction(part, PARTS) for part in range(PARTS)]).pairs())


@cache
def _factorials() -> Pair:
    """1 / n! for n = 0 ... TERMS."""
    inverses = [Fraction(1)]
    for n in range(1, TERMS + 1):
        inverses.append(inverses[-1] / n)
    return Pair(*Reals.of(inverses).pairs())


def exact(values: Floats) -> Pair:
    """Float64 as pairs."""
    return Pair(values, np.zeros_like(values))


def natural(numbers: Floats) -> Pair:
    """ln of float64 x > 0; of 1 it is 0 exactly.

    >>> natural(np.array([1.0, 2.0, 10.0])).high.tolist()
    [0.0, 0.6931471805599453, 2.302585092994046]
    """
    return logarithm(exact(numbers))


def logarithm(x: Pair) -> Pair:
    """ln x for x > 0, within 2^-66 |ln x| for x >= 1, and within 2^-78 + 2^-66 |ln x| below.

    With x = 2^e m and c the multiple of 1/128 nearest to m, ln x = e ln 2 + ln c + 2 artanh((m - c) / (m + c)).
    """
    fraction, exponent = np.frexp(x.high)
    m = Pair(2 * fraction, np.ldexp(x.low, 1 - exponent))
    step = np.rint((m.high - 1) * STEPS).astype(np.intp)
    near = 1 + step / STEPS
    tangent = divide(two_sum(m.high - near, m.low), add(m, exact(near)))
    doubled = Pair(2 * tangent.high, 2 * tangent.low)
    steps = _steps()
    whole = multiply(steps.at(slice(STEPS, None)), exact(exponent - 1.0))
    return add(add(whole, steps.at(step)), add(doubled, multiply(doubled, exact(_series(tangent.high)))))


def _series(tangent: Floats) -> Floats:
    """artanh(t) / t - 1 = t^2 / 3 + t^4 / 5 + ..., for |t| <= 2^-9."""
    square = tangent * tangent
    total = np.zeros_like(square)
    for odd in (11, 9, 7, 5, 3):
        total = square * (total + 1.0 / odd)
    return total


def exponential(x: Pair) -> Pair:
    """e^x for |x| <= 600, within 2^-88 + the absolute error of x.

    With n the integer nearest to x PARTS / ln 2 and r = x - n ln 2 / PARTS, e^x = 2^(n / PARTS) e^r.

    >>> exponential(exact(np.array([0.0, 1.0]))).high.tolist()
    [1.0, 2.718281828459045]
    """
    ln_two = _steps().at(slice(STEPS, None))
    n = np.rint(x.high * (PARTS / ln_two.high))
    whole, part = np.divmod(n.astype(np.int64), PARTS)
    rest = add(x, multiply(exact(-n / PARTS), ln_two))
    inverses = _factorials()
    total = Pair(*(np.broadcast_to(half, rest.high.shape) for half in inverses.at(slice(TERMS, None))))
    for order in range(TERMS - 1, -1, -1):
        total = add(inverses.at(slice(order, order + 1)), multiply(total, rest))
    value = multiply(_octave().at(part), total)
    return Pair(np.ldexp(value.high, whole), np.ldexp(value.low, whole))


def power(base: Floats, exponent: Floats) -> Pair:
    """base^exponent for base > 0 while the result stays between e^-600 and e^600.

    >>> power(np.array([2.0, 9.0]), np.array([0.5, 0.5])).high.tolist()
    [1.4142135623730951, 3.0]
    """
    return exponential(multiply(natural(base), exact(exponent)))


def log1p_product(factor: Floats, multiplier: Floats) -> Pair:
    """ln(1 + factor * multiplier), for products that are 0 or not tiny (2^-20 or more)."""
    product = two_product(factor, multiplier)
    return logarithm(add(exact(np.ones_like(product.high)), product))
