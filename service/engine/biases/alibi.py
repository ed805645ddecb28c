"""ALiBi: a bias on attention scores that grows linearly with distance (Press et al., 2022)."""

from service.engine.attention.biased import BiasTable, table_scheme
from service.engine.attention.linear_bias import BIAS, USED_BY, Linear
from service.engine.quantities import Heads
from service.engine.scheme import Example, Usage


class Alibi(BiasTable, Linear):
    """Parameters of `biases/alibi`."""

    heads: Heads


DESCRIPTION = """\
Head h adds `m_h (j - i)` to the score of query i and key j: `m_h = 2^(-B h / n)` for h = 1 ... n heads, B =
`alibi_bias_max`; for a head count n that is no power of two, the slopes of the power of two below, then every other
slope of the power of two above. Query row r stands at position r + `offset`, by default keys - queries, which is what
decoding with a cache needs. `interpolation_factor` divides every distance, `head_dim` the bias by its square root, and
heads beyond `alibi_num_heads` have none.

`attention_mask` in the body (0 for padding) says where tokens stand, from 0 on and without the padding, as in BLOOM;
padding stands at 0 and must be masked, and each query is one of the keys.

`arithmetic` says how the numbers are made. With `exact` every value is the real number, rounded once. Otherwise slopes,
products and the quotient by sqrt(head_dim) are each rounded on the way.

**Axes**: (head, query, key), or (batch, head, query, key) where the mask has a batch; `form=key-only` and `last-key`
have one query row. The order of heads is that of the slopes."""

SCHEME = table_scheme(
    BIAS,
    name="alibi",
    title="ALiBi attention bias",
    explanation=(
        "ALiBi encodes nothing in the tokens: it lowers every attention score in proportion to the distance, steeply "
        "in some heads and gently in others. It needs no parameters, and models read on beyond the length that they "
        "were trained on. Under a causal mask the lower left triangles count."
    ),
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=Alibi,
    heads=lambda params, _inputs: params.heads,
    rounding="correct",
    instead="form=key-only has one row a head, and biases/alibi-slopes only the slopes",
    examples=(
        Example("Two heads, four positions", {"heads": "2", "length": "4"}),
        Example("One decoding step over four keys", {"heads": "2", "queries": "1", "keys": "4"}),
        Example("An encoder's symmetric bias", {"heads": "3", "length": "3", "form": "symmetric"}),
        Example(
            "BLOOM: tokens counted behind padding",
            {"heads": "2", "form": "key-only"},
            {"tensors": {"attention_mask": [[0, 0, 1, 1], [1, 1, 1, 1]]}},
        ),
    ),
    used_by=(
        *USED_BY,
        Usage(
            "llm-foundry without a causal mask",
            {"form": "symmetric", "arithmetic": "float32-reciprocals"},
            "llm-foundry-bidirectional",
        ),
        Usage("Falcon RW (heads 64 wide)", {"form": "key-only", "arithmetic": "bfloat16", "head_dim": "64"}, "falcon"),
        Usage(
            "NeMo with seq_len_interpolation_factor 4 (the first forward pass)",
            {"form": "last-key", "arithmetic": "float32", "interpolation_factor": "4"},
            "nemo-interpolated",
        ),
    ),
    properties={
        "distance": "scores fall with the distance, by each head at a rate of its own",
        "caching": "keys are kept as they are; the bias is of the query at hand",
        "implementation": "a number times the distance, added to scores",
        "learned parameters": "none",
        "extrapolates": "yes: the bias is defined at any distance",
        "memory per head": "queries * keys values, or none where the attention kernel takes the slopes",
    },
)
