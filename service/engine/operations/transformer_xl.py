"""Scores with relative positions, shifted to the keys and added to the caller's attention scores (Dai et al., 2019)."""

from service.engine.attention.biased import Summed, sum_scheme
from service.engine.attention.relative_scores import ROWS, RelativeRows
from service.engine.scheme import Example, Usage


class ApplyTransformerXL(Summed, RelativeRows):
    """Parameters of `apply/transformer-xl`."""


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys), for contents, plus `relative[…, i, r]`, for positions, where r is
the row of `biases/transformer-xl` with the same `span` whose relative position is that of query i and key j. That is
what the "relative shift" of model code does, written as what it means: row p meets each pair at distance p. The last
query stands at the last key. Both arrays are scaled alike, or not yet."""

SCHEME = sum_scheme(
    ROWS,
    name="transformer-xl",
    title="Relative scores shifted and added to attention scores",
    explanation=(
        "Scores of queries with distances come row by row in the wrong order; this puts each where its query and key "
        "meet, and adds it to your attention scores."
    ),
    description=DESCRIPTION,
    reference="Dai et al., Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, 2019, appendix B",
    params=ApplyTransformerXL,
    examples=(
        Example(
            "One head, two queries, three keys: distances 2, 1, 0, -1",
            {},
            {"tensors": {"x": [[[0, 0, 0], [10, 10, 10]]], "relative": [[[1, 2, 3, 4], [5, 6, 7, 8]]]}},
        ),
    ),
    used_by=(
        Usage("Conformer, Wav2Vec2-Conformer, FastSpeech2-Conformer, Parakeet", {}, "conformer"),
        Usage("Transformer-XL", {"span": "legacy"}, "transformer-xl"),
        Usage("XLNet (attn_type bi)", {"span": "xlnet-bi"}, "xlnet"),
        Usage("XLNet (attn_type uni)", {"span": "xlnet-uni"}, "xlnet-uni"),
    ),
    properties={"learned parameters": "none here; the model projects the rows"},
)
