"""FIRE's bias added to the caller's attention scores (Li et al., 2024)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.interpolated import BIAS, USED_BY, Interpolated
from service.engine.scheme import Example


class ApplyFire(BiasedScores, Interpolated):
    """Parameters of `apply/fire`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/fire` for query i, key j and head h:
`sum_k V_hk max(W_k s + b_k, 0) + d_h`, s the normalised distance, with the model's own network from the body
(`weight_in` W, `bias_in` b, `weight_out` V, `bias_out` d). The bias is that of the real numbers, not the sum of
rounded terms; for float64 scores, where its terms cancel, its last digits may be wrong."""

NETWORK = {"weight_in": [1, -2], "bias_in": [0, 1], "weight_out": [[-1, 0.5]], "bias_out": [0.25]}

SCHEME = sum_scheme(
    BIAS,
    name="fire",
    title="FIRE bias added to attention scores",
    explanation="What your trained network makes of each distance, added to your attention scores.",
    description=DESCRIPTION,
    reference="Li et al., Functional Interpolation for Relative Positions Improves Long Context Transformers, 2024",
    params=ApplyFire,
    examples=(
        Example("One head, two hidden numbers", {"threshold": "2"}, {"tensors": {"x": [[[1, 2, 3]]], **NETWORK}}),
    ),
    used_by=USED_BY,
    properties={"learned parameters": "c, threshold and the network"},
)
