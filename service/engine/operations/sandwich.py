"""The Sandwich bias added to the caller's attention scores (Chi et al., 2023)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.sandwich_bias import BIAS, USED_BY, InnerProducts
from service.engine.scheme import Example


class ApplySandwich(BiasedScores, InnerProducts):
    """Parameters of `apply/sandwich`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/sandwich`:
`(sum over k of cos((i - j) w_k) - dim/2) / (8 h / H)` for query i, key j and head h = 1 ... H."""

SCHEME = sum_scheme(
    BIAS,
    name="sandwich",
    title="Sandwich bias added to attention scores",
    explanation="The curve that sinusoidal encodings leave in attention, added to your attention scores.",
    description=DESCRIPTION,
    reference="Chi et al., Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis, 2023",
    params=ApplySandwich,
    examples=(
        Example(
            "Two heads, one decoding step over three keys", {"dim": "4"}, {"tensors": {"x": [[[1, 2, 3]], [[1, 2, 3]]]}}
        ),
    ),
    used_by=USED_BY,
    properties={"learned parameters": "none"},
)
