"""Softmax attention of a few vectors, the same bytes on every processor and for every order of the keys."""

import numpy as np

from service.engine.numbers.dots import dots, totals
from service.engine.numbers.logarithms import exact, exponential
from service.engine.numbers.pairs import Floats, Pair, two_product

LOWEST = -600.0  # e^-600 beside 1 is far below any digit of an answer


def scores_of(vectors: Floats) -> Floats:
    """x_i . x_j / sqrt(dim) for every two rows."""
    scores: Floats = dots(vectors, vectors) / np.sqrt(np.array(float(vectors.shape[1])))
    return scores


def attended(scores: Floats, values: Floats) -> Floats:
    """softmax(scores) values: each row of weights sums to 1.

    Scores are taken as they are; exponentials, sums and the quotient are within some 2^-50.

    >>> attended(np.zeros((1, 2)), np.array([[1.0, 4.0], [3.0, 0.0]])).tolist()
    [[2.0, 2.0]]
    """
    weights = exponential(exact(np.maximum(scores - scores.max(axis=1, keepdims=True), LOWEST)))
    found = np.empty((len(scores), values.shape[1]))
    for query in range(len(scores)):
        high, low = weights.high[query], weights.low[query]
        whole = two_product(values.T, high)
        found[query] = totals(Pair(whole.high, whole.low + values.T * low)) / totals(Pair(high, low))
    return found
