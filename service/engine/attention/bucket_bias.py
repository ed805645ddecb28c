"""T5's buckets of distances, and the bias that a learned table gives each of them."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.buckets import bounds, bucket
from service.engine.attention.relative import Integers, write_by_distance
from service.engine.attention.weights import Drawn, refuse_table, table, table_notes
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import ITEMSIZE, Array, Facts, Input, Inputs, Params, Usage

Direction = Annotated[
    Literal["bidirectional", "causal"],
    Field(
        description="`bidirectional`: half of the buckets for keys behind, half for keys ahead (encoders); `causal`: "
        "all for keys behind, and bucket 0 for every key ahead (decoders)."
    ),
]


class Buckets(Params):
    """Parameters that decide the buckets."""

    direction: Direction = "bidirectional"
    num_buckets: Annotated[Integer, Field(ge=2, le=8192, description="Rows of the learned table: 32 as published.")] = (
        32
    )
    max_distance: Annotated[
        Integer,
        Field(ge=2, le=LARGEST_EXACT_INTEGER, description="Distances from here on share one bucket: 128 as published."),
    ] = 128


def _each_way(params: Buckets) -> int:
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


def first_distances(params: Buckets) -> Integers:
    """The first distance of every bucket of a direction but bucket 0.

    >>> first_distances(Buckets()).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    """
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


def bucket_of(params: Buckets, firsts: Integers, distances: Integers) -> Integers:
    """The bucket of each distance key - query."""
    if params.direction == "causal":
        return bucket(firsts, -distances)
    return bucket(firsts, np.abs(distances)) + np.where(distances > 0, params.num_buckets // 2, 0)


class BucketBias(Drawn, Buckets):
    """Parameters of the bias, apart from its sizes and its heads."""


TABLE = Input("table", "The learned table: (num_buckets, heads). Without it, seed draws one.", required=False)
AXES = ("num_buckets", "heads")


def _check(params: BucketBias, inputs: Inputs, place: Place) -> None:
    first_distances(params)
    refuse_table(params, inputs, AXES, (params.num_buckets, place.heads), place.dtype)


def _prepare(params: BucketBias, inputs: Inputs, place: Place) -> Write:
    firsts = first_distances(params)
    by_head = np.ascontiguousarray(table(params, inputs, AXES, (params.num_buckets, place.heads), place.dtype).T)

    def lines(heads: slice, distances: Integers) -> Array:
        values: Array = by_head[heads][:, bucket_of(params, firsts, distances)]
        return values

    def write(start: int, out: Array) -> None:
        write_by_distance(lines, place.heads, place.size, start, out)

    return write


def bucket_facts(params: Buckets) -> Facts:
    """The first distance of each bucket, and the size of the table."""
    return {
        "first_distances": [0, *first_distances(params).tolist()],
        "table_rows": params.num_buckets,
        "table_bytes_per_head": 4 * params.num_buckets,
    }


BIAS: Bias[BucketBias] = Bias(
    check=_check,
    prepare=_prepare,
    inputs=(TABLE,),
    facts=lambda params, _inputs: bucket_facts(params),
    notes=table_notes,
    state_bytes=lambda params, _inputs, place: params.num_buckets * (8 + ITEMSIZE[place.dtype] * place.heads),
)

USED_BY = (
    Usage("T5, mT5, UMT5, Switch and LongT5 encoders; MPNet; LayoutLM v2 and v3 (text)", {}, "t5"),
    Usage("T5 family decoders, ProphetNet, Pix2Struct", {"direction": "causal"}, "t5-decoder"),
    Usage("x-transformers, causal, heads 64 wide", {"direction": "causal", "scale": "8"}, "x-transformers"),
)
