"""Random numbers by address: the number at (seed, stream, row, column) is the same whatever else was asked for.

Bits are those of Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011): the key is the
seed, the counter is (column, row, high half of the row, stream), and of its four words the first two are used:

    bits    = second word * 2^32 + first word
    uniform = (2 floor(bits / 2^12) + 1) / 2^53        in (0, 1), never 0, 1 or 1/2
    normal  = the inverse of the normal distribution at uniform, by the rational functions of Wichura (Algorithm
              AS 241, 1988), in float64 step by step with a logarithm of our own

    truncated = the same, the uniform number u taken to P + u (1 - 2 P) first, P the chance of lying below -bound

All steps are +, -, *, /, square roots and integer operations, so the float64 are the same on every processor; they
are the random numbers, and what follows from them is exact.
"""

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import MANY_DIGITS, pi, real

Words = NDArray[np.uint64]
RowNumbers = range | NDArray[np.int64]

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_SHOULDER = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10: four words of 32 bits for each counter (arrays that broadcast; values below 2^32).

    >>> zero = np.zeros((), np.uint64)
    >>> [f"{int(word):08x}" for word in philox((zero, zero, zero, zero), (0, 0))]  # as published
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = counter
    for turn in range(_ROUNDS):
        keys = [np.uint64((key[half] + turn * _KEY_STEPS[half]) & 0xFFFFFFFF) for half in (0, 1)]
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (second >> _32) ^ b ^ keys[0], second & _LOW, (first >> _32) ^ d ^ keys[1], first & _LOW
    return a, b, c, d


def uniform(seed: int, rows: RowNumbers, columns: int, *, stream: int = 0) -> Floats:
    """Numbers in (0, 1), shape (rows, columns).

    >>> float(uniform(7, range(3, 4), 2)[0, 1]) == float(uniform(7, range(0, 9), 5)[3, 1])
    True
    """
    numbers = np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
    row = numbers.astype(np.uint64)[:, None]
    column = np.arange(columns, dtype=np.uint64)[None, :]
    counter = column, row & _LOW, row >> _32, np.full((1, 1), stream, np.uint64)
    low, high, _, _ = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
    bits = (high << _32 | low) >> np.uint64(12)
    return (2.0 * bits.astype(np.float64) + 1.0) * 2.0**-53


def normal(seed: int, rows: RowNumbers, columns: int, *, stream: int = 0) -> Floats:
    """Numbers of the standard normal distribution, shape (rows, columns)."""
    return inverse_normal(uniform(seed, rows, columns, stream=stream))


def truncated_normal(seed: int, rows: RowNumbers, columns: int, bound: float) -> Floats:
    """Numbers of the standard normal distribution between -bound and bound, shape (rows, columns)."""
    below = chance_below(-bound)
    chances = below + uniform(seed, rows, columns) * (1.0 - 2.0 * below)
    return np.clip(inverse_normal(chances), -bound, bound)


@lru_cache(maxsize=64)
def chance_below(bound: float) -> float:
    """The chance that a standard normal variable lies below `bound` <= 0, the nearest float64; 0 from -9 on.

    1/2 - phi(x) (x + x^3/3 + x^5/(3 5) + ...) for x = -bound: no chance that `uniform` can draw lies below that of -9.

    >>> chance_below(-2.0)
    0.02275013194817921
    """
    if bound <= -9.0:
        return 0.0
    with localcontext(MANY_DIGITS):
        x = -real(bound)
        total, term, odd = Decimal(0), x, 1
        while term > Decimal("1e-70"):
            total += term
            odd += 2
            term *= x * x / odd
        density = (-x * x / 2).exp() / (2 * pi()).sqrt()
        return float(Decimal("0.5") - density * total)


def inverse_normal(probability: Floats) -> Floats:
    """The number below which a standard normal variable lies with that probability, in (0, 1); about 16 digits.

    >>> inverse_normal(np.array([0.5, 0.975])).round(12).tolist()
    [0.0, 1.95996398454]
    """
    centred = probability - 0.5
    middle = 0.180625 - centred * centred
    central = centred * _ratio(_CENTRE, np.maximum(middle, 0.0))
    distance = np.sqrt(-logarithm(np.minimum(probability, 1.0 - probability)))
    outer = np.where(distance <= 5.0, _ratio(_SHOULDER, distance - 1.6), _ratio(_TAIL, distance - 5.0))
    return np.where(middle >= 0, central, np.where(centred < 0, -outer, outer))


def logarithm(numbers: Floats) -> Floats:
    """ln of positive float64, within some 2 ulp: x = m 2^e, ln m = 2 artanh((m - 1) / (m + 1)).

    >>> logarithm(np.array([1.0, 0.5])).tolist()
    [0.0, -0.6931471805599453]
    """
    mantissa, exponent = np.frexp(numbers)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    slope = (mantissa - 1.0) / (mantissa + 1.0)
    square = slope * slope
    series = np.zeros_like(square)
    for odd in range(23, 0, -2):
        series = series * square + 1.0 / odd
    return (exponent - small) * _LN2 + 2.0 * slope * series


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    """The first polynomial over the second, coefficients from the highest power down."""
    above, below = (_polynomial(coefficients, x) for coefficients in polynomials)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    total = np.zeros_like(x)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total
