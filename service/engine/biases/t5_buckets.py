"""T5's relative position buckets: which row of a learned table each query and key take their bias from."""

import numpy as np

from service.engine.attention.bucket_bias import Buckets, bucket_facts, bucket_of, first_distances
from service.engine.attention.relative import (
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
from service.engine.positions import batch_axes
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage, own_table


class T5Buckets(QueryKeyPositions, Buckets):
    """Parameters of `biases/t5-buckets`."""

    dtype: IndexDType = "int64"


def _tensors(params: T5Buckets, inputs: Inputs) -> Tensors:
    first_distances(params)
    positions = whole_positions(params, inputs)
    if positions is None:
        return index_tensors(params, params.num_buckets, params.dtype)
    axes = (*batch_axes(positions.ndim - 1), "query", "key") if positions.ndim > 1 else ("query", "key")
    return {"index": Tensor(axes, (*positions.shape, positions.shape[-1]), params.dtype)}


def _rows(params: T5Buckets, inputs: Inputs, state: Integers, _tensor: str, start: int, stop: int) -> Array:
    def of(distances: Integers) -> Integers:
        return bucket_of(params, state, distances)

    positions = whole_positions(params, inputs)
    if positions is None:
        return index_rows(params, of, params.dtype, start, stop)
    return position_rows(positions, of, params.dtype, start, stop)


def _facts(params: T5Buckets, inputs: Inputs) -> Facts:
    if whole_positions(params, inputs) is not None:
        return bucket_facts(params)
    size, firsts = sizes(params), first_distances(params)
    used = distinct(lambda distances: bucket_of(params, firsts, distances), size, np.append(firsts, -firsts))
    return {**size._asdict(), **bucket_facts(params), "buckets_used": used}


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
    explanation=(
        "Which of T5's learned numbers a pair of positions uses: its bucket. Distances up to a few are told apart "
        "exactly, then the buckets grow wider and wider; the stripes in the picture show it."
    ),
    description=DESCRIPTION,
    reference="Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020",
    params=T5Buckets,
    rounding="integer",
    tensors=_tensors,
    sequence=own_table,
    prepare=lambda params, _inputs: first_distances(params),
    rows=_rows,
    facts=_facts,
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
        Usage("T5, mT5, UMT5, Switch, Pop2Piano and LongT5 encoders; MPNet; LayoutLM v2 and v3, UDOP (text)", {}, "t5"),
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
