"""The ALiBi bias added to the caller's attention scores (Press et al., 2022)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.linear_bias import BIAS, USED_BY, Linear
from service.engine.scheme import Example, Usage


class ApplyAlibi(BiasedScores, Linear):
    """Parameters of `apply/alibi`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/alibi` with the same parameters:
`m_h (j - i)` for query i and key j, `m_h = 2^(-B h / n)`. With `attention_mask` in the body tokens stand where it
counts them, without the padding. Falcon's scores are not scaled yet where it adds its bias: leave `head_dim` out, and
divide the sum by the square root of the head width yourself."""

SCHEME = sum_scheme(
    BIAS,
    name="alibi",
    title="ALiBi bias added to attention scores",
    explanation="ALiBi's penalty for distance, added to your attention scores.",
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=ApplyAlibi,
    examples=(
        Example("Two heads, one decoding step over three keys", {}, {"tensors": {"x": [[[1, 2, 3]], [[1, 2, 3]]]}}),
        Example(
            "BLOOM: tokens counted behind padding",
            {"form": "key-only"},
            {"tensors": {"x": [[[[1, 2, 3]]], [[[1, 2, 3]]]], "attention_mask": [[1, 1, 1], [0, 1, 1]]}},
        ),
    ),
    used_by=(
        *USED_BY,
        Usage("Falcon RW, before its scores are scaled", {"form": "key-only", "arithmetic": "bfloat16"}, "falcon"),
    ),
    properties={"learned parameters": "none"},
)
