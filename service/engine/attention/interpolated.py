"""FIRE's distances, and the bias that a small network makes of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.relative import PIECE, Sizes, line, parts, windows
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.logarithms import exact, log1p_product
from service.engine.numbers.networks import MOST_WEIGHTS, WEIGHTS, Network, bent, network
from service.engine.numbers.pairs import Floats, Pair, add, divide
from service.engine.quantities import Real
from service.engine.scheme import Array, Facts, Inputs, Params, Usage


class Interpolated(Params):
    """Parameters of the distances, apart from their sizes."""

    c: Annotated[Real, Field(ge=1e-6, le=1e6, description="The learned scale within the logarithm: 0.1 at first.")] = (
        0.1
    )
    threshold: Annotated[
        Real,
        Field(ge=1, le=1e12, description="The learned L: queries before it are measured against it: 512 at first."),
    ] = 512.0
    eps: Annotated[
        Real, Field(ge=0, le=1, description="Added to the divisor: 0 as published, 1e-6 in the authors' code.")
    ] = 0.0


def _psi(params: Interpolated, x: Floats) -> Pair:
    """ln(1 + c x) for whole or large x >= 0."""
    high, low = log1p_product(np.full_like(x, params.c), x)
    return Pair(np.where(x == 0, 0.0, high), np.where(x == 0, 0.0, low))


def _shares(params: Interpolated, size: Sizes, query: int, key: int, part: Array) -> Pair:
    """The distances of a part (…, queries, keys) whose first query and key these are: (queries, keys)."""
    along = _psi(params, np.abs(line(size, query, key, part)).astype(np.float64))
    positions = np.arange(query, query + part.shape[-2]) + np.float64(size.offset)
    divisor = add(_psi(params, np.maximum(positions, params.threshold)), exact(np.full(len(positions), params.eps)))
    return divide(Pair(*(windows(half, part) for half in along)), divisor.at((slice(None), None)))


def refuse_large(params: Interpolated, weights: Network, size: Sizes, dtype: str) -> None:
    """Refuse biases that the number format may not hold."""
    farthest = np.array([float(size.largest_distance)])
    share = _psi(params, farthest).high / _psi(params, np.array([params.threshold])).high
    refuse_overflow(weights.bound(float(share[0])), dtype, "the bias")


def _check(params: Interpolated, inputs: Inputs, place: Place) -> None:
    refuse_large(params, _network(inputs, place), place.size, place.dtype)


def _network(inputs: Inputs, place: Place) -> Network:
    return network(None, place.heads, 0, inputs)


def _prepare(params: Interpolated, inputs: Inputs, place: Place) -> Write:
    lines = bent(_network(inputs, place))

    def write(start: int, out: Array) -> None:
        for some, share, part in share_parts(params, place.heads, place.size, start, out):
            lines.write(share, some, part)

    return write


def share_parts(
    params: Interpolated, heads: int, size: Sizes, start: int, out: Array
) -> Iterator[tuple[slice, Pair, Array]]:
    """Rows `start`, ... of a (…, head, query, key) answer as (some heads, distances, their part of `out`)."""
    step = max(1, PIECE // out.shape[1])
    for row in range(0, len(out), step):
        for some, query, key, part in parts(heads, size.queries, start + row, out[row : row + step]):
            yield some, _shares(params, size, query, key, part), part


def _facts(_params: Interpolated, inputs: Inputs) -> Facts:
    hidden = int(inputs["weight_in"].shape[0])
    return {"hidden": hidden, "network_bytes_per_head": 4 * (hidden + 1)}


BIAS: Bias[Interpolated] = Bias(
    check=_check,
    prepare=_prepare,
    inputs=tuple(replace(array, required=True) for array in WEIGHTS),
    facts=_facts,
    state_bytes=lambda _params, _inputs, _place: 64 * MOST_WEIGHTS,
)

USED_BY = (
    Usage("FIRE as published", {}),
    Usage("the authors' code at the start of training", {"eps": "1e-6"}),
)
