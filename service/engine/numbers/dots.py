"""Sums and products of rows, each sum rounded once: whatever the processor, and in whatever order its terms come.

A term is a float64, or a product of two as the float64 pair that it is; `math.fsum` adds such numbers without error and
rounds their sum to float64. So a sum that does not depend on the order in exact arithmetic does not depend on it here.
"""

from math import fsum

import numpy as np

from service.engine.numbers.pairs import Floats, Pair, add, divide, multiply, negative, ordered_sum, two_product
from service.engine.numbers.sines import Angles

BLOCK_VALUES = 1 << 14


def sums(terms: Pair) -> Pair:
    """The sum over the last axis of each row in double-double: halves of the terms added, as often as it takes.

    >>> sums(Pair(np.array([[1.0, 2.0**-60]]), np.zeros((1, 2)))).low.tolist() == [2.0**-60]
    True
    """
    while (count := terms.high.shape[-1]) > 1:
        half = count // 2
        folded = add(terms.at(np.s_[..., :half]), terms.at(np.s_[..., half : 2 * half]))
        terms = _beside(folded, terms.at(np.s_[..., 2 * half :]))
    return terms.at(np.s_[..., 0])


def running_sums(terms: Pair) -> Pair:
    """The sums of the first 1, 2, ... terms along the last axis, in double-double.

    After the step of 2^n each sum has 2^(n + 1) terms, or all before it.

    >>> running_sums(Pair(np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 3)))).high.tolist()
    [[1.0, 3.0, 6.0]]
    """
    step = 1
    while step < terms.high.shape[-1]:
        later = add(terms.at(np.s_[..., step:]), terms.at(np.s_[..., :-step]))
        terms = _beside(terms.at(np.s_[..., :step]), later)
        step *= 2
    return terms


def _beside(first: Pair, second: Pair) -> Pair:
    return Pair(*(np.concatenate(halves, axis=-1) for halves in zip(first, second, strict=True)))


def mean_cosines(angles: Angles, length: int) -> Pair:
    """The mean of cos(d w_k) over all k, for d = 0 ... length - 1.

    >>> from service.engine.numbers.reals import Reals
    >>> mean_cosines(Angles(Reals.of([1.0, 0.0])), 2).high.tolist()
    [1.0, 0.7701511529340699]
    """
    count, parts = len(angles.turns), []
    step = max(1, BLOCK_VALUES // count)
    for start in range(0, length, step):
        distances = np.arange(start, min(start + step, length), dtype=np.float64)[:, None]
        parts.append(sums(angles.at(distances, slice(None))[1]))
    whole = Pair(*(np.concatenate(halves) for halves in zip(*parts, strict=True)))
    return divide(whole, Pair(np.array(float(count)), np.array(0.0)))


def totals(terms: Pair) -> Floats:
    """The sum over the last axis of each row, rounded once.

    >>> totals(Pair(np.array([[1.0, 2.0**-60, -1.0]]), np.zeros((1, 3)))).tolist() == [2.0**-60]
    True
    """
    shape = terms.high.shape[:-1]
    both = np.concatenate(np.broadcast_arrays(*terms), axis=-1).reshape(-1, 2 * terms.high.shape[-1])
    return np.array([fsum(row) for row in both.tolist()], np.float64).reshape(shape)


def dots(a: Floats, b: Floats) -> Floats:
    """The dot product of each row of `a` with each row of `b`, (rows of a, rows of b), rounded once.

    >>> dots(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[10.0, 1.0]])).tolist()
    [[12.0], [34.0]]
    """
    return np.array([totals(two_product(row, b)) for row in a]).reshape(len(a), len(b))


def norms(rows: Pair) -> Floats:
    """The length of each row: the root of its sum of squares, within 1 ulp.

    >>> norms(Pair(np.array([[3.0, 4.0]]), np.zeros((1, 2)))).tolist()
    [5.0]
    """
    return np.sqrt(totals(multiply(rows, rows)))


def root(square: Pair) -> Pair:
    """The square root of numbers that are 0 or more, within 2^-98: one step of Newton's from the float64 one."""
    near = np.sqrt(square.high)
    rest = add(square, negative(two_product(near, near)))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(near > 0, rest.high / (2 * near), 0.0)
    return ordered_sum(near, step)
