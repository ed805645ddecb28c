"""The KERPLE bias added to the caller's attention scores (Chi et al., 2022)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.kernel_bias import BIAS, Kernel
from service.engine.scheme import Example, Usage


class ApplyKerple(BiasedScores, Kernel):
    """Parameters of `apply/kerple`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/kerple`: `-r1 ln(1 + r2 |i - j|)`, or
`-r1 |i - j|^r2` with `form=power`, for query i, key j and the head's own `r1` and `r2`."""

SCHEME = sum_scheme(
    BIAS,
    name="kerple",
    title="KERPLE bias added to attention scores",
    explanation="KERPLE's falling curve, with the numbers of each head, added to your attention scores.",
    description=DESCRIPTION,
    reference="Chi et al., KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation, 2022",
    params=ApplyKerple,
    examples=(
        Example(
            "Two heads, one decoding step over three keys",
            {"r1": "1,0.5", "r2": "1,0.1"},
            {"tensors": {"x": [[[1, 2, 3]], [[1, 2, 3]]]}},
        ),
    ),
    used_by=(
        Usage("KERPLE-log in GPT-NeoX, with its p as r1 and a as r2", {"r1": "1,0.5", "r2": "0.5,0.25"}),
        Usage(
            "KERPLE-power in GPT-NeoX, with its a as r1 and p as r2", {"form": "power", "r1": "1,0.5", "r2": "0.5,1"}
        ),
    ),
    properties={"learned parameters": "two numbers a head, given in the request"},
)
