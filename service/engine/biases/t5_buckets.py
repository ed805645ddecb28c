"""T5's relative position buckets: which row of a learned table each query and key take their bias from."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.buckets import bounds, bucket
from service.engine.errors import Refusal
from service.engine.positions import batch_axes
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.relative import (
    IndexDType,
    Integers,
    QueryKeyPositions,
    distinct,
    index_rows,
    index_tensors,
    position_rows,
    sizes,
    whole_positions,
)
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Sequence, Tensor, Tensors, Usage

Direction = Annotated[
    Literal["bidirectional", "causal"],
    Field(
        description="`bidirectional`: half of the buckets for keys behind, half for keys ahead (encoders); `causal`: "
        "all for keys behind, and bucket 0 for every key ahead (decoders)."
    ),
]


class T5Buckets(QueryKeyPositions):
    """Parameters of `biases/t5-buckets`."""

    direction: Direction = "bidirectional"
    num_buckets: Annotated[Integer, Field(ge=2, le=8192, description="Rows of the learned table: 32 as published.")] = (
        32
    )
    max_distance: Annotated[
        Integer,
        Field(ge=2, le=LARGEST_EXACT_INTEGER, description="Distances from here on share one bucket: 128 as published."),
    ] = 128
    dtype: IndexDType = "int64"


def _each_way(params: T5Buckets) -> int:
    """The buckets of one direction; refuses numbers that leave a direction no exact or no logarithmic bucket."""
    if params.direction == "causal":
        return params.num_buckets
    if params.num_buckets % 2:
        raise Refusal(
            "num_buckets",
            "odd",
            f"num_buckets is {params.num_buckets}; direction=bidirectional gives half of them to either direction: "
            f"an even number is needed, such as {params.num_buckets + 1}",
        )
    if params.num_buckets == 2:
        raise Refusal(
            "num_buckets",
            "out_of_range",
            "num_buckets is 2; direction=bidirectional halves them, and halves what is left for exact distances: "
            "4 or more would do",
            limit=4,
            requested=2,
        )
    return params.num_buckets // 2


def _firsts(params: T5Buckets) -> Integers:
    """The first distance of every bucket of a direction but bucket 0."""
    each_way = _each_way(params)
    exact = each_way // 2
    if params.max_distance <= exact:
        raise Refusal(
            "max_distance",
            "out_of_range",
            f"max_distance is {params.max_distance}; the distances below {exact} have buckets of their own: it must "
            f"be {exact + 1} or more",
            limit=exact + 1,
            requested=params.max_distance,
        )
    steps = each_way - exact
    return np.append(np.arange(1, exact + 1), bounds(exact, params.max_distance, steps, steps - 1, "first"))


def _buckets(params: T5Buckets, firsts: Integers, distances: Integers) -> Integers:
    """The bucket of each distance key - query."""
    if params.direction == "causal":
        return bucket(firsts, -distances)
    return bucket(firsts, np.abs(distances)) + np.where(distances > 0, params.num_buckets // 2, 0)


def _tensors(params: T5Buckets, inputs: Inputs) -> Tensors:
    _firsts(params)
    positions = whole_positions(params, inputs)
    if positions is None:
        return index_tensors(params, params.num_buckets, params.dtype)
    axes = (*batch_axes(positions.ndim - 1), "query", "key") if positions.ndim > 1 else ("query", "key")
    return {"index": Tensor(axes, (*positions.shape, positions.shape[-1]), params.dtype)}


def _prepare(params: T5Buckets, _inputs: Inputs) -> Integers:
    return _firsts(params)


def _rows(params: T5Buckets, inputs: Inputs, state: Integers, _tensor: str, start: int, stop: int) -> Array:
    def of(distances: Integers) -> Integers:
        return _buckets(params, state, distances)

    positions = whole_positions(params, inputs)
    if positions is None:
        return index_rows(params, of, params.dtype, start, stop)
    return position_rows(positions, of, params.dtype, start, stop)


def _facts(params: T5Buckets, inputs: Inputs) -> Facts:
    firsts = _firsts(params)
    facts: Facts = {
        "first_distances": [0, *firsts.tolist()],
        "table_rows": params.num_buckets,
        "table_bytes_per_head": 4 * params.num_buckets,
    }
    if whole_positions(params, inputs) is not None:
        return facts
    size = sizes(params)
    used = distinct(lambda distances: _buckets(params, firsts, distances), size, np.append(firsts, -firsts))
    return {**size._asdict(), **facts, "buckets_used": used}


def _sequence(params: T5Buckets, inputs: Inputs) -> Sequence | None:
    return None if "positions" in inputs else Sequence(params, 0)


DESCRIPTION = """\
For r = key - query the index is `base + bucket(n)`. With `direction=bidirectional` each direction has B =
`num_buckets`/2 buckets, n = |r|, and base is B for keys ahead (r > 0), 0 for others; with `causal` B = `num_buckets`,
base is 0 and n = max(-r, 0). With e = floor(B/2), D = `max_distance`: `bucket(n) = n` for n < e, else `min(B - 1, e +
floor((B - e) ln(n/e) / ln(D/e)))`, in exact arithmetic: the bounds of the buckets are integers, and no logarithm is
rounded.

The bias of a head is then `table[index]` for a learned table of `num_buckets` rows a head. Query row r stands at
position r + `offset`, by default keys - queries, as a decoding step with a cache needs. `facts` states the first
distance of each bucket and the memory of the table per head in float32. `positions`, in any order, stand in for both
queries and keys: the coordinates of LayoutLM's boxes, one request an axis.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[T5Buckets, Integers] = Scheme(
    family="biases",
    name="t5-buckets",
    title="T5 relative position buckets",
    description=DESCRIPTION,
    reference="Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020",
    params=T5Buckets,
    rounding="integer",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    sequence=_sequence,
    state_bytes=lambda params, _inputs: 8 * params.num_buckets,
    inputs=(
        Input(
            "positions",
            "Positions that queries and keys share, whole numbers in any order: a list, or one for each of a batch.",
            required=False,
        ),
    ),
    examples=(
        Example("Three queries over five keys", {"queries": "3", "keys": "5", "offset": "0"}),
        Example("A decoder's step over 200 keys", {"direction": "causal", "queries": "1", "keys": "200"}),
        Example("Few buckets", {"length": "6", "num_buckets": "8", "max_distance": "5", "dtype": "int32"}),
        Example(
            "LayoutLM: the left edges of three boxes",
            {"num_buckets": "64", "max_distance": "256"},
            {"positions": [100, 40, 900]},
        ),
    ),
    used_by=(
        Usage("T5, mT5, UMT5, Switch and LongT5 encoders; MPNet; LayoutLM v2 and v3, UDOP (text)", {}, "t5"),
        Usage(
            "T5 family decoders, ProphetNet, Pix2Struct; x-transformers with causal=True",
            {"direction": "causal"},
            "t5-decoder",
        ),
        Usage(
            "LayoutLM v2 and v3 (left edges of boxes, and then their bottom edges)",
            {"num_buckets": "64", "max_distance": "256"},
            "layoutlm-boxes",
        ),
        Usage("WavLM", {"num_buckets": "320", "max_distance": "800"}, "wavlm"),
        Usage("CPMAnt within a segment", {"num_buckets": "512", "max_distance": "2048"}, "cpmant"),
    ),
    properties={
        "learned parameters": "num_buckets numbers a head: the table that the indices point into",
        "memory per head": "num_buckets numbers",
        "extrapolates": "yes: all distances from max_distance on share a bucket",
    },
)
