"""DeBERTa's logarithmic relative positions: exact near zero, ever wider buckets farther away (v2 and v3)."""

from math import ceil, log
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.buckets import bounds, bucket
from service.engine.attention.relative import (
    IndexDType,
    Integers,
    QueryKey,
    distinct,
    index_rows,
    index_tensors,
    resolved,
    sizes,
)
from service.engine.attention.scores import refuse_uncountable
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage, own_table

MOST_STEPS = 65_536


class DebertaBuckets(QueryKey):
    """Parameters of `biases/deberta-buckets`."""

    position_buckets: Annotated[
        Integer, Field(ge=4, le=65_536, description="Buckets of both directions together (even): 256 as published.")
    ] = 256
    max_relative_positions: Annotated[
        Integer,
        Field(
            ge=2,
            le=LARGEST_EXACT_INTEGER,
            description="Distances below it fill the buckets: 512 as published (max_position_embeddings where a "
            "config says -1).",
        ),
    ] = 512
    output: Annotated[
        Literal["bucket", "index"],
        Field(
            description="`bucket`: the signed bucket, also beyond the last one; `index`: bucket + position_buckets, "
            "clipped to the table's rows."
        ),
    ] = "bucket"
    dtype: IndexDType = "int64"


def _middle(params: DebertaBuckets) -> int:
    """Up to here distances are their own buckets."""
    if params.position_buckets % 2:
        raise Refusal(
            "position_buckets",
            "odd",
            f"position_buckets is {params.position_buckets}; either direction has half of them: an even number is "
            f"needed, such as {params.position_buckets + 1}",
        )
    middle = params.position_buckets // 2
    if params.max_relative_positions <= middle + 1:
        raise Refusal(
            "max_relative_positions",
            "out_of_range",
            f"max_relative_positions is {params.max_relative_positions}; the distances up to {middle} are buckets of "
            f"their own, so it must be {middle + 2} or more",
            limit=middle + 2,
            requested=params.max_relative_positions,
        )
    return middle


def _steps(params: DebertaBuckets) -> int:
    """How many logarithmic buckets of a direction the distances of this matrix reach into, or a few more."""
    middle, size = _middle(params), sizes(params)
    refuse_uncountable(size)
    farthest = size.largest_distance
    if farthest <= middle:
        return 0
    growth = log((params.max_relative_positions - 1) / middle)
    steps = ceil(log(farthest / middle) / growth * (middle - 1)) + 1
    if params.output == "index":
        return min(steps, middle)
    if steps > MOST_STEPS:
        raise Refusal(
            "max_relative_positions",
            "out_of_range",
            f"with max_relative_positions {params.max_relative_positions} the distance {farthest} falls into bucket "
            f"{steps}; {MOST_STEPS} are computed at most: use output=index, or more max_relative_positions",
            limit=MOST_STEPS,
            requested=steps,
        )
    return steps


def _firsts(params: DebertaBuckets) -> Integers:
    """The first distance of each bucket of a direction but bucket 0, as far as this matrix needs them."""
    middle, steps = _middle(params), _steps(params)
    lasts = bounds(middle, params.max_relative_positions - 1, middle - 1, steps, "last")
    return np.concatenate([np.arange(1, middle + 1), np.full(min(steps, 1), middle + 1), lasts[:-1] + 1])


def _buckets(params: DebertaBuckets, firsts: Integers, distances: Integers) -> Integers:
    """The bucket of each distance key - query, or its row."""
    found = -np.sign(distances) * bucket(firsts, np.abs(distances))
    if params.output == "bucket":
        return found
    span = params.position_buckets
    return np.clip(found + span, 0, 2 * span - 1)


def _tensors(params: DebertaBuckets, _inputs: Inputs) -> Tensors:
    tensors = index_tensors(params, 2 * params.position_buckets, params.dtype)
    _steps(params)
    matrix = tensors["index"]
    return {params.output: Tensor(matrix.axes, matrix.shape, matrix.dtype)}


def _rows(params: DebertaBuckets, _inputs: Inputs, state: Integers, _tensor: str, start: int, stop: int) -> Array:
    return index_rows(params, lambda distances: _buckets(params, state, distances), params.dtype, start, stop)


def _facts(params: DebertaBuckets, _inputs: Inputs) -> Facts:
    firsts, size = _firsts(params), sizes(params)
    used = distinct(lambda distances: _buckets(params, firsts, distances), size, np.append(firsts, -firsts))
    rows = 2 * params.position_buckets
    return {**size._asdict(), "buckets_used": used, "table_rows": rows, "table_bytes_per_channel": 4 * rows}


DESCRIPTION = """\
For r = query - key, B = `position_buckets`, M = `max_relative_positions` and m = B/2: `bucket = r` where |r| <= m,
else `sign(r) (m + ceil((m - 1) ln(|r|/m) / ln((M - 1)/m)))`, in exact arithmetic: the ends of the buckets are
integers, and no logarithm is rounded. |r| = M - 1 falls into the last bucket, B - 1; farther distances go on beyond
it.

`output=index` is `clip(bucket + B, 0, 2 B - 1)`, the row of the 2 B learned position vectors that attention gathers,
from content to position (c2p) and, after the library's transposition, from position to content (p2c). The library
counts queries from 0: give `offset=0` where there are more keys than queries.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[DebertaBuckets, Integers] = Scheme(
    family="biases",
    name="deberta-buckets",
    title="DeBERTa log-bucketed relative positions",
    explanation=(
        "DeBERTa compares what a token says with how far away it is, in attention terms of their own. Distances are "
        "exact when near and logarithmic when far, and this matrix says which learned vector each pair uses."
    ),
    description=DESCRIPTION,
    reference="He et al., DeBERTa: Decoding-enhanced BERT with Disentangled Attention, 2021 (v2 and v3 of the code)",
    params=DebertaBuckets,
    rounding="integer",
    tensors=_tensors,
    sequence=own_table,
    prepare=lambda params, _inputs: _firsts(params),
    rows=_rows,
    resolve=lambda params, _inputs: resolved(params),
    facts=_facts,
    state_bytes=lambda params, _inputs: 8 * (params.position_buckets + MOST_STEPS),
    examples=(
        Example("Few buckets", {"length": "8", "position_buckets": "4", "max_relative_positions": "8"}),
        Example("Rows of the position vectors", {"queries": "2", "keys": "6", "offset": "0", "output": "index"}),
    ),
    used_by=(
        Usage("DeBERTa v2 and v3, SEW-D (make_log_bucket_position)", {}),
        Usage("DeBERTa v2 and v3, SEW-D (the rows that c2p gathers)", {"output": "index"}),
    ),
    properties={
        "learned parameters": "2 position_buckets vectors, shared by the heads",
        "memory per head": "2 position_buckets vectors as wide as the head (projected for each head): "
        "table_bytes_per_channel in the facts (float32), times that width",
        "extrapolates": "buckets beyond the last one share its row",
    },
)
