"""Rotary encodings in the paper's own loops (Su et al. 2021, equations 15 and 34), to a hundred digits.

Pair k of a head turns by the angle p * base^(-2k/d):

    y_first  = x_first cos - x_second sin
    y_second = x_second cos + x_first sin

`interleaved` pairs channels (2k, 2k+1) as the paper does, `half` pairs (k, k + d/2) as GPT-NeoX does.
"""

from collections.abc import Sequence
from functools import cache

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS, Real, real


@cache
def frequencies(dim: int, base: Real = 10000) -> tuple[mpf, ...]:
    """base^(-2k/d) for every pair k of a rotary width d."""
    with mpmath.workprec(PRECISION_BITS):
        return tuple(real(base) ** (-mpf(2 * pair) / dim) for pair in range(dim // 2))


def angles(position: Real, dim: int, base: Real = 10000) -> list[mpf]:
    """What every pair turns by at a position."""
    with mpmath.workprec(PRECISION_BITS):
        return [real(position) * frequency for frequency in frequencies(dim, base)]


def cos_sin(position: Real, dim: int, base: Real = 10000) -> tuple[list[mpf], list[mpf]]:
    """The cosines and the sines of the d/2 angles of one position.

    >>> cosines, sines = cos_sin(7, 4)
    >>> [mpmath.nstr(value, 7) for value in cosines + sines]
    ['0.7539023', '0.997551', '0.6569866', '0.06994285']
    """
    with mpmath.workprec(PRECISION_BITS):
        turns = angles(position, dim, base)
        return [mpmath.cos(turn) for turn in turns], [mpmath.sin(turn) for turn in turns]


def full_width(values: Sequence[mpf], pairing: str) -> list[mpf]:
    """A half-width row at full width: [a, b] is [a, b, a, b] for half, [a, a, b, b] for interleaved."""
    if pairing == "half":
        return [*values, *values]
    return [value for value in values for _ in range(2)]


def partners(pair: int, rotary_dim: int, pairing: str) -> tuple[int, int]:
    """The two channels that a pair turns."""
    if pairing == "half":
        return pair, pair + rotary_dim // 2
    return 2 * pair, 2 * pair + 1


def rotate(
    x: Sequence[Real],
    position: Real,
    *,
    base: Real = 10000,
    pairing: str = "half",
    rotary_dim: int | None = None,
    direction: str = "forward",
) -> list[mpf]:
    """One head's vector turned to a position; channels beyond the rotary width pass unchanged.

    >>> [mpmath.nstr(value, 10) for value in rotate([1, 2, 3, 4], 1)]
    ['-1.984110649', '1.959900667', '2.462377902', '4.019799668']
    """
    width = len(x) if rotary_dim is None else rotary_dim
    cosines, sines = cos_sin(position, width, base)
    with mpmath.workprec(PRECISION_BITS):
        y = [real(value) for value in x]
        for pair in range(width // 2):
            first, second = partners(pair, width, pairing)
            sine = sines[pair] if direction == "forward" else -sines[pair]
            y[first] = real(x[first]) * cosines[pair] - real(x[second]) * sine
            y[second] = real(x[second]) * cosines[pair] + real(x[first]) * sine
    return y
