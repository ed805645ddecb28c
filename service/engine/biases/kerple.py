"""KERPLE: biases that fall with the logarithm, or a power, of the distance (Chi et al., 2022)."""

from service.engine.attention.biased import BiasTable, table_scheme
from service.engine.attention.kernel_bias import BIAS, Kernel
from service.engine.scheme import Example, Usage


class Kerple(BiasTable, Kernel):
    """Parameters of `biases/kerple`."""


DESCRIPTION = """\
A head adds to the score of query i and key j, with its learned numbers `r1` and `r2`: `form=log`
`-r1 ln(1 + r2 |i - j|)`; `form=power` `-r1 |i - j|^r2`, 0 < r2 <= 2. Both are symmetric: under a causal mask only
keys behind count. Query row r stands at position r + `offset`, by default keys - queries.

**Axes**: (head, query, key), as many heads as `r1` and `r2` have entries."""

SCHEME = table_scheme(
    BIAS,
    name="kerple",
    title="KERPLE attention bias",
    explanation=(
        "Like ALiBi, with a curve that the model learns: each head lowers its scores by the logarithm, or a power, of "
        "the distance. The logarithm flattens out, so that far tokens are not lost altogether."
    ),
    description=DESCRIPTION,
    reference="Chi et al., KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation, 2022",
    params=Kerple,
    heads=lambda params, _inputs: len(params.r1),
    rounding="faithful",
    examples=(
        Example("Two heads, four positions", {"r1": "1,0.5", "r2": "1,0.1", "length": "4"}),
        Example(
            "One decoding step, powers of the distance",
            {"form": "power", "r1": "0.5,0.25", "r2": "1,0.5", "queries": "1", "keys": "5"},
        ),
    ),
    used_by=(
        Usage("KERPLE-log in GPT-NeoX, with its p as r1 and a as r2", {"r1": "1,0.5", "r2": "0.5,0.25"}),
        Usage("KERPLE-power in GPT-NeoX, with its a as r1 and p as r2", {"form": "power", "r1": "1", "r2": "0.5"}),
    ),
    properties={
        "distance": "scores fall with the logarithm or a power of the distance",
        "caching": "keys are kept as they are; the bias is of the query at hand",
        "implementation": "two numbers a head and a logarithm, added to scores",
        "learned parameters": "two numbers a head, given in the request",
        "memory per head": "2 numbers, and queries * keys values where the bias is written out",
        "extrapolates": "yes: the bias is defined at any distance",
    },
)
