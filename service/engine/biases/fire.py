"""FIRE: distances on a logarithmic scale, divided by how far the query has come (Li et al., 2024)."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.logarithms import exact, log1p_product
from service.engine.pairs import Floats, Pair, add, divide
from service.engine.quantities import DType, Real
from service.engine.relative import PIECE, QueryKey, Sizes, line, parts, resolved, sizes, windows
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage
from service.engine.scores import refuse_uncountable


class Fire(QueryKey):
    """Parameters of `biases/fire`."""

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
    dtype: DType = "float32"


def _tensors(params: Fire, _inputs: Inputs) -> Tensors:
    size = sizes(params)
    refuse_uncountable(size)
    return {"distance": Tensor(("query", "key"), (size.queries, size.keys), params.dtype)}


def _psi(params: Fire, x: Floats) -> Pair:
    """ln(1 + c x) for whole or large x >= 0."""
    high, low = log1p_product(np.full_like(x, params.c), x)
    return Pair(np.where(x == 0, 0.0, high), np.where(x == 0, 0.0, low))


def _rows(params: Fire, _inputs: Inputs, _state: None, _tensor: str, start: int, stop: int) -> Array:
    size = sizes(params)
    out = np.empty((stop - start, size.keys), DTYPES[params.dtype])
    step = max(1, PIECE // size.keys)
    for row in range(0, len(out), step):
        for _, query, key, part in parts(1, size.queries, start + row, out[row : row + step]):
            _write_part(params, size, query, key, part)
    return out


def _write_part(params: Fire, size: Sizes, query: int, key: int, part: Array) -> None:
    along = _psi(params, np.abs(line(size, query, key, part)).astype(np.float64))
    positions = np.arange(query, query + part.shape[1]) + np.float64(size.offset)
    divisor = add(_psi(params, np.maximum(positions, params.threshold)), exact(np.full(len(positions), params.eps)))
    share = divide(Pair(*(windows(half, part) for half in along)), divisor.at((slice(None), None)))
    part[...] = nearest_of_sum(*share, part.dtype)


def _facts(params: Fire, _inputs: Inputs) -> Facts:
    return sizes(params)._asdict()


def _sequence(params: Fire, _inputs: Inputs) -> Sequence:
    return Sequence(params, 0)


DESCRIPTION = """\
For the query at position i and the key at j: `psi(|i - j|) / (psi(max(i, threshold)) + eps)`, `psi(x) = ln(1 + c x)`.
This is what a model's small network (1 number in, 32 hidden with ReLU, one a head out) turns into the bias of each
head; its weights are the model's own and stay there. Keys behind lie in 0 ... 1; those ahead are to be masked. Query
row r stands at position r + `offset`, by default keys - queries.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[Fire, None] = Scheme(
    family="biases",
    name="fire",
    title="FIRE normalised distances",
    description=DESCRIPTION,
    reference="Li et al., Functional Interpolation for Relative Positions Improves Long Context Transformers, 2024",
    params=Fire,
    rounding="faithful",
    tensors=_tensors,
    prepare=lambda _params, _inputs: None,
    rows=_rows,
    facts=_facts,
    sequence=_sequence,
    resolve=lambda params, _inputs: resolved(params),
    examples=(
        Example("Four positions, a threshold of two", {"length": "4", "threshold": "2"}),
        Example("One decoding step", {"queries": "1", "keys": "6", "c": "0.5", "dtype": "float64"}),
    ),
    used_by=(
        Usage("FIRE as published", {}),
        Usage("the authors' code at the start of training", {"eps": "1e-6"}),
    ),
    properties={
        "learned parameters": "c, threshold and the network, shared by the heads",
        "memory per head": "33 numbers of the network's last layer",
        "extrapolates": "yes: distances are shares of the length so far",
    },
)
