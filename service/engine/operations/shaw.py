"""Scores with Shaw's relative vectors added to the caller's attention scores (Shaw et al., 2018)."""

from service.engine.attention.biased import BiasedScores, sum_scheme
from service.engine.attention.relative_scores import VECTORS, RelativeVectors
from service.engine.scheme import Example, Usage


class ApplyShaw(BiasedScores, RelativeVectors):
    """Parameters of `apply/shaw`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus `q_i . a_ij / sqrt(dim)`, with `a_ij` the row of the table that
`biases/shaw` names for query i and key j: clip(j - i, -left, right) + left. `scaling=none` leaves out the division. The
products are added in float64 in the order of the channels; that sum, divided, is the bias."""

TABLE = [[distance, 1, distance / 8, 0] for distance in range(-16, 17)]

SCHEME = sum_scheme(
    VECTORS,
    name="shaw",
    title="Scores with relative vectors added to attention scores",
    explanation="The product of your queries with the vector of each distance, added to your attention scores.",
    description=DESCRIPTION,
    reference="Shaw et al., Self-Attention with Relative Position Representations, 2018, equation 5",
    params=ApplyShaw,
    examples=(
        Example(
            "One head, two queries and vectors for distances -16 ... 16",
            {},
            {"tensors": {"x": [[[0, 1], [2, 3]]], "q": [[[1, 2, 3, 4], [0, 1, 0, -1]]], "table": TABLE}},
        ),
    ),
    used_by=(
        Usage("Shaw et al. (base model), tensor2tensor with max_relative_position=16", {}, "tensor2tensor"),
        Usage(
            "VITS (window_size 4), of queries that are scaled already",
            {"max_relative_position": "4", "beyond": "zero-row", "scaling": "none"},
            "vits",
        ),
        Usage("Wav2Vec2-BERT, SeamlessM4T v2", {"left": "64", "right": "8"}, "wav2vec2-bert"),
        Usage(
            "SpeechT5, of queries that are scaled already",
            {"sign": "query-key", "left": "160", "right": "159", "scaling": "none"},
            "speecht5",
        ),
    ),
    properties={"learned parameters": "left + right + 1 vectors as wide as a head, often shared by the heads"},
)
