"""T5's attention bias: a learned number for each head and bucket of distances (Raffel et al., 2020)."""

from service.engine.attention.biased import BiasTable, table_scheme
from service.engine.attention.bucket_bias import BIAS, USED_BY, BucketBias
from service.engine.errors import Refusal
from service.engine.quantities import Heads
from service.engine.scheme import Example, Inputs


class T5(BiasTable, BucketBias):
    """Parameters of `biases/t5`."""

    heads: Heads | None = None


def _heads(params: T5, inputs: Inputs) -> int:
    """As many as were asked for, or as the table in the body has."""
    table = inputs.get("table")
    if params.heads is None and table is None:
        raise Refusal("heads", "missing", "heads is missing: give heads=, or in the body the table, which has them")
    return params.heads or (table.shape[1] if table is not None and table.ndim == 2 else 0)


DESCRIPTION = """\
Head h adds `table[bucket(j - i), h]` to the score of query i and key j. The buckets are those of `biases/t5-buckets`
with the same parameters: exact for near distances, logarithmic up to `max_distance`, one for all beyond, with bounds
that are exact integers. The table comes in the body, (num_buckets, heads) as in T5's checkpoints, or `seed` draws one
from the normal distribution: `scale` is its standard deviation (d_model^-0.5 where T5 is initialised), and multiplies
a table of your own (sqrt(head width) in x-transformers). Every value is that product, rounded once.

Query row r stands at position r + `offset`, by default keys - queries, as a decoding step with a cache needs. T5 adds
the bias to scores that are **not** divided by the square root of the head width.

**Axes**: (head, query, key)."""

SCHEME = table_scheme(
    BIAS,
    name="t5",
    title="T5 attention bias",
    explanation=(
        "T5 learns a number for each head and each distance, and adds it to the attention score. Near distances have "
        "numbers of their own, far ones share them, and all that lie beyond a limit share one."
    ),
    description=DESCRIPTION,
    reference="Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020",
    params=T5,
    heads=_heads,
    rounding="correct",
    instead="the bias repeats num_buckets numbers a head: biases/t5-buckets says where",
    examples=(
        Example("Two heads, drawn", {"heads": "2", "length": "4", "seed": "7", "num_buckets": "8"}),
        Example(
            "A table of your own",
            {"length": "4", "num_buckets": "8"},
            {"tensors": {"table": [[0.5, -1], [0.25, -2], [0.125, -3], [0, -4], [0, 0], [1, 2], [2, 4], [4, 8]]}},
        ),
    ),
    used_by=USED_BY,
    properties={
        "distance": "each bucket of distances has a number of its own in every head",
        "caching": "keys are kept as they are; the bias is of the query at hand, read from the table",
        "implementation": "buckets, and a table for each head, added to scores",
        "learned parameters": "num_buckets numbers a head: the table",
        "memory per head": "num_buckets numbers, and queries * keys values where the bias is written out",
        "extrapolates": "yes: all distances from max_distance on share a bucket",
    },
)
