"""T5's bias added to the caller's attention scores (Raffel et al., 2020)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.bucket_bias import BIAS, USED_BY, BucketBias
from service.engine.scheme import Example


class ApplyT5(BiasedScores, BucketBias):
    """Parameters of `apply/t5`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/t5` with the same parameters:
`table[bucket(j - i), h]` for query i, key j and head h, from a table (num_buckets, heads) in the body, or one that
`seed` draws, times `scale`. T5's own scores are not divided by the square root of the head width."""

TABLE = [[bucket / 4] for bucket in range(32)]

SCHEME = sum_scheme(
    BIAS,
    name="t5",
    title="T5 bias added to attention scores",
    explanation="T5's learned number for each distance, added to your attention scores.",
    description=DESCRIPTION,
    reference="Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020",
    params=ApplyT5,
    examples=(
        Example(
            "One head, five keys and a table of your own", {}, {"tensors": {"x": [[[1, 2, 3, 4, 5]]], "table": TABLE}}
        ),
    ),
    used_by=USED_BY,
    properties={"learned parameters": "num_buckets numbers a head: the table"},
)
