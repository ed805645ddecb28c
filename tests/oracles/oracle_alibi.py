"""Attention with linear biases in the paper's own recursion (Press et al. 2022, section 3).

For n heads, n a power of two, the slopes are the geometric sequence that starts at 2^(-B/n) and has that
ratio (B = 8 in the paper). All to a hundred digits. For other n: the slopes of the power of two below, then
every other one of twice that many.
"""

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS, Real, real


def slopes(heads: int, bias_max: Real = 8) -> list[mpf]:
    """One slope per head, in head order.

    >>> [float(slope) for slope in slopes(6)]
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    below = 1
    while 2 * below <= heads:
        below *= 2
    with mpmath.workprec(PRECISION_BITS):
        start = mpf(2) ** (-real(bias_max) / below)
        sequence = [start ** (head + 1) for head in range(below)]
    if below == heads:
        return sequence
    return sequence + slopes(2 * below, bias_max)[0::2][: heads - below]


def distance(query: int, key: int, form: str) -> int:
    """What a slope is multiplied with: relative j - i, symmetric -|i - j|, key-only j (last-key: see `bias`)."""
    if form == "key-only":
        return key
    if form == "symmetric":
        return -abs(query - key)
    return key - query


def bias(
    heads: int,
    queries: int,
    keys: int,
    offset: int | None = None,
    *,
    form: str = "relative",
    bias_max: Real = 8,
) -> list[list[list[mpf]]]:
    """The bias of every head, query and key; query i stands at position i + offset (keys - queries)."""
    first = keys - queries if offset is None else offset
    if form == "last-key":  # every query is taken to stand at the last key
        whole = bias(heads, 1, keys, keys - 1, bias_max=bias_max)
        return [rows * queries for rows in whole]
    with mpmath.workprec(PRECISION_BITS):
        return [
            [[slope * distance(first + query, key, form) for key in range(keys)] for query in range(queries)]
            for slope in slopes(heads, bias_max)
        ]
