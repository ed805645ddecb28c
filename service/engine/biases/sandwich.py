"""Sandwich: the inner products of sinusoidal encodings as a bias, steeper for the first heads (Chi et al., 2023)."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, fastest_frequency, refuse_overflow
from service.engine.pairs import Floats
from service.engine.quantities import Base, Heads, Integer
from service.engine.reals import geometric
from service.engine.relative import QueryKey, Sizes, resolved, sizes, write_by_distance
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage
from service.engine.scores import refuse_uncountable
from service.engine.waves import Waves

MOST_SINES = 1 << 26  # distances times frequencies: some two seconds of work
TOGETHER = 1 << 18


class Sandwich(QueryKey):
    """Parameters of `biases/sandwich`."""

    heads: Heads
    dim: Annotated[
        Integer, Field(ge=2, le=65_536, description="Width of the encodings multiplied (even): 128 as published.")
    ] = 128
    base: Base = 10_000.0
    first_index: Annotated[
        Integer,
        Field(ge=0, le=1, description="The first i in the frequencies base^(-2i/dim): 1 as published, 0 as encodings."),
    ] = 1
    dtype: Annotated[
        Literal["float16", "bfloat16", "float32"],
        Field(description="Number format of the answer; every value is rounded to it once."),
    ] = "float32"


def _exponents(params: Sandwich) -> list[Fraction]:
    if params.dim % 2:
        raise Refusal(
            "dim", "odd", f"dim is {params.dim}; frequencies come in pairs of channels, such as {params.dim + 1}"
        )
    return [Fraction(-2 * (params.first_index + k), params.dim) for k in range(params.dim // 2)]


def _nearest(size: Sizes) -> int:
    """The smallest distance of a matrix, either way."""
    return max(size.nearest, -size.farthest, 0)


def _tensors(params: Sandwich, _inputs: Inputs) -> Tensors:
    size = sizes(params)
    refuse_uncountable(size)
    exponents = _exponents(params)
    fastest_frequency(params.base, -float(exponents[-1]), "base")
    distances = size.largest_distance - _nearest(size) + 1
    if distances * len(exponents) > MOST_SINES:
        raise Refusal(
            "dim",
            "out_of_range",
            f"{distances} distances of {params.dim} channels take {distances * len(exponents)} sines; {MOST_SINES} are "
            "computed at most: ask for fewer keys, or a smaller dim",
            limit=MOST_SINES,
            requested=distances * len(exponents),
        )
    refuse_overflow(params.heads * len(exponents) / 4, params.dtype, "the bias")
    return {"bias": Tensor(("head", "query", "key"), (params.heads, size.queries, size.keys), params.dtype)}


def _prepare(params: Sandwich, _inputs: Inputs) -> Floats:
    """The sum of sin^2(D w / 2) over the frequencies, for every distance D from the smallest to the largest.

    cos(x) - 1 = -2 sin^2(x / 2): so nothing cancels near distance 0.
    """
    size = sizes(params)
    waves = Waves(geometric(params.base, _exponents(params)) / 2)
    distances = range(_nearest(size), size.largest_distance + 1)
    return np.concatenate([_sums(waves, some) for some in _runs(distances, max(1, TOGETHER // waves.count))])


def _runs(distances: range, most: int) -> Iterator[range]:
    return (distances[start : start + most] for start in range(0, len(distances), most))


def _sums(waves: Waves, distances: range) -> Floats:
    """Added up frequency by frequency, always in that order: numpy's own sums need not be."""
    sines = np.empty((len(distances), waves.count))
    waves.write(distances, sines, None)
    total = np.zeros(len(distances))
    for sine in (sines * sines).T:
        total += sine
    return total


def _rows(params: Sandwich, _inputs: Inputs, state: Floats, _tensor: str, start: int, stop: int) -> Array:
    size = sizes(params)
    nearest_distance = _nearest(size)
    out = np.empty((stop - start, size.keys), DTYPES[params.dtype])
    heads = np.arange(1.0, params.heads + 1)[:, None]

    def lines(some: slice, distances: Array) -> Array:
        line = state[np.abs(distances) - nearest_distance]
        return nearest(line * params.heads / (-4 * heads[some]) + 0.0, out.dtype)

    write_by_distance(lines, params.heads, size, start, out)
    return out


def _facts(params: Sandwich, _inputs: Inputs) -> Facts:
    return {**sizes(params)._asdict(), "frequencies": params.dim // 2}


def _sequence(params: Sandwich, _inputs: Inputs) -> Sequence:
    return Sequence(params, 0)


def _state_bytes(params: Sandwich, _inputs: Inputs) -> int:
    size = sizes(params)
    return 8 * (size.queries + size.keys) + WAVE_BYTES


DESCRIPTION = """\
Head h of H adds to the score of query i and key j `(sum over k of cos((i - j) w_k) - dim/2) / (8 h / H)`, h = 1 ... H,
with the dim/2 frequencies `w_k = base^(-2k/dim)`, k = 1 ... dim/2 (from 0 with `first_index=0`): the inner product of
the sinusoidal encodings of the two positions, less what it is at distance 0. It is symmetric: under a causal mask only
keys behind count. Query row r stands at position r + `offset`, by default keys - queries.

**Axes**: (head, query, key)."""

SCHEME: Scheme[Sandwich, Floats] = Scheme(
    family="biases",
    name="sandwich",
    title="Sandwich attention bias",
    description=DESCRIPTION,
    reference="Chi et al., Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis, 2023",
    params=Sandwich,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    sequence=_sequence,
    resolve=lambda params, _inputs: resolved(params),
    state_bytes=_state_bytes,
    examples=(
        Example("Two heads, four positions", {"heads": "2", "length": "4"}),
        Example("One decoding step, few channels", {"heads": "3", "dim": "4", "queries": "1", "keys": "5"}),
    ),
    used_by=(
        Usage("Sandwich in NeMo", {}, "nemo"),
        Usage("Inner products of the encodings as encodings/sinusoidal gives them", {"first_index": "0"}),
    ),
    properties={
        "learned parameters": "none",
        "memory per head": "none beside the bias",
        "extrapolates": "yes: the bias is defined at any distance",
    },
)
