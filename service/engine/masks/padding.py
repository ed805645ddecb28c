"""Padding mask: every query attends to every key that is a token."""

from dataclasses import replace

from service.engine.attention.attending import ATTENTION_MASK, Integers, Run, Sized, mask_scheme
from service.engine.quantities import LARGEST_EXACT_INTEGER
from service.engine.scheme import Example, Usage


def _runs(_params: Sized, positions: Integers, _first: Integers) -> Run:
    return Run(positions * 0, positions * 0 + LARGEST_EXACT_INTEGER)


DESCRIPTION = """\
Query i may attend to key j where `attention_mask[j]` is 1, wherever i stands: what encoders and
cross-attention need."""

SCHEME = mask_scheme(
    name="padding",
    title="Padding mask",
    explanation=(
        "Texts of a batch are filled up to one length, and the filling must not be seen. A 0 in attention_mask shuts a "
        "whole column."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017; transformers masking_utils, 2025",
    params=Sized,
    runs=_runs,
    inputs=(replace(ATTENTION_MASK, required=True),),
    examples=(
        Example("One row, padded on the right", {}, {"tensors": {"attention_mask": [1, 1, 0]}}),
        Example(
            "A batch, for a decoder's two queries, to be added to scores",
            {"queries": "2", "dtype": "bfloat16"},
            {"tensors": {"attention_mask": [[1, 1, 1], [0, 1, 1]]}},
        ),
    ),
    used_by=(
        Usage("transformers encoders and cross-attention (sdpa)", {}, "transformers"),
        Usage("BERT before 2020", {"dtype": "float32", "fill": "-10000"}, "bert"),
        Usage(
            "transformers' invert_attention_mask, eager attention",
            {"dtype": "float32", "fill": "min"},
            "transformers-eager",
        ),
    ),
)
