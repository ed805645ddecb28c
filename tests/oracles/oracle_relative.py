"""Relative positions written again with loops and whole numbers: no logarithm, no window sliding, no table of bounds.

Raffel et al. 2020 (T5), He et al. 2021 (DeBERTa), Liu et al. 2021 and 2022 (Swin), Bao et al. 2022 (BEiT).
"""

from collections.abc import Sequence
from itertools import product

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS


def t5_buckets(most: int, each_way: int, max_distance: int) -> list[int]:
    """The bucket of every distance 0 ... most in one direction that has `each_way` buckets.

    Distance n >= e lies in bucket e + j for the largest j with (n / e)^steps >= (D / e)^j.

    >>> t5_buckets(17, 16, 128)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10]
    """
    exact = each_way // 2
    steps = each_way - exact
    found, j = [], 0
    for n in range(most + 1):
        if n < exact:
            found.append(n)
            continue
        while j < steps - 1 and n**steps * exact ** (j + 1) >= max_distance ** (j + 1) * exact**steps:
            j += 1
        found.append(exact + j)
    return found


def t5_bucket(distance: int, direction: str, num_buckets: int, one_way: Sequence[int]) -> int:
    """The bucket of key - query, from the buckets of one direction."""
    if direction == "causal":
        return one_way[max(-distance, 0)]
    return one_way[abs(distance)] + (num_buckets // 2 if distance > 0 else 0)


def deberta_buckets(most: int, position_buckets: int, max_relative_positions: int) -> list[int]:
    """The bucket of every distance 0 ... most: m + j for the smallest j with (r / m)^(m - 1) <= ((M - 1) / m)^j.

    >>> deberta_buckets(7, 4, 8)
    [0, 1, 2, 3, 3, 3, 3, 3]
    """
    middle = position_buckets // 2
    steps, last = middle - 1, max_relative_positions - 1
    found, j = [], 0
    for r in range(most + 1):
        if r <= middle:
            found.append(r)
            continue
        while r**steps * middle**j > last**j * middle**steps:
            j += 1
        found.append(middle + j)
    return found


def window_index(window: Sequence[int], class_token: bool) -> list[list[int]]:
    """The row of the table for every query and key of a window of two or three sizes."""
    patches = list(product(*(range(size) for size in window)))
    rows = []
    for query in patches:
        row = []
        for key in patches:
            index = 0
            for size, q, k in zip(window, query, key, strict=True):
                index = index * (2 * size - 1) + q - k + size - 1
            row.append(index)
        rows.append(row)
    if not class_token:
        return rows
    largest = max(map(max, rows))  # then: the class token to others, others to it, it to itself
    return [[largest + 3, *([largest + 1] * len(patches))], *([largest + 2, *row] for row in rows)]


def log_coordinate(r: int, size: int, mode: str) -> mpf:
    """The log-spaced coordinate of r patches along an axis whose scale is that of `size` patches."""
    with mpmath.workprec(PRECISION_BITS):
        if mode == "cr":
            return mpmath.sign(r) * mpmath.log(1 + abs(r))
        scaled = mpf(8 * abs(r)) / (size - 1) if r else mpf(0)
        return mpmath.sign(r) * mpmath.log(scaled + 1) / mpmath.log(8)
