"""Sandwich: the inner products of sinusoidal encodings as a bias, steeper for the first heads (Chi et al., 2023)."""

from service.engine.attention.biased import BiasTable, table_scheme
from service.engine.attention.sandwich_bias import BIAS, USED_BY, InnerProducts
from service.engine.quantities import DType, Heads
from service.engine.scheme import Example


class Sandwich(BiasTable, InnerProducts):
    """Parameters of `biases/sandwich`."""

    heads: Heads
    dtype: DType = "float32"


DESCRIPTION = """\
Head h of H adds to the score of query i and key j `(sum over k of cos((i - j) w_k) - dim/2) / (8 h / H)`, h = 1 ... H,
with the dim/2 frequencies `w_k = base^(-2k/dim)`, k = 1 ... dim/2 (from 0 with `first_index=0`): the inner product of
the sinusoidal encodings of the two positions, less what it is at distance 0. It is symmetric: under a causal mask only
keys behind count. Query row r stands at position r + `offset`, by default keys - queries.

**Axes**: (head, query, key)."""

SCHEME = table_scheme(
    BIAS,
    name="sandwich",
    title="Sandwich attention bias",
    explanation=(
        "What is left of sinusoidal encodings when only their effect on attention scores is kept: their inner "
        "products, a curve that falls with distance in small waves. It needs no parameters."
    ),
    description=DESCRIPTION,
    reference="Chi et al., Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis, 2023",
    params=Sandwich,
    heads=lambda params, _inputs: params.heads,
    rounding="faithful",
    examples=(
        Example("Two heads, four positions", {"heads": "2", "length": "4"}),
        Example("One decoding step, few channels", {"heads": "3", "dim": "4", "queries": "1", "keys": "5"}),
    ),
    used_by=USED_BY,
    properties={
        "learned parameters": "none",
        "memory per head": "none beside the bias",
        "extrapolates": "yes: the bias is defined at any distance",
    },
)
