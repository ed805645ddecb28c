"""Segment mask: keys are marked by a number, and a query sees those marked like itself."""

import numpy as np

from service.engine.attention.attending import ATTENTION_MASK, Direction, Integers, Mask, Run, mask_scheme
from service.engine.quantities import LARGEST_EXACT_INTEGER
from service.engine.scheme import Example, Input, Usage


class Segments(Mask):
    """Parameters of `masks/segments`."""

    direction: Direction = "causal"


def _runs(params: Segments, positions: Integers, _first: Integers) -> Run:
    causal = params.direction == "causal"
    return Run(positions * 0, positions + 1 if causal else np.full(positions.shape, LARGEST_EXACT_INTEGER))


DESCRIPTION = """\
Query i may attend to key j where `segment_ids[i] = segment_ids[j]` and, with `direction=causal`, `j <= i`. The ids are
any integers, in any order; a query outside the keys has none and attends to nothing."""

SCHEME = mask_scheme(
    name="segments",
    title="Packed sequences marked by segment ids",
    explanation=(
        "The same for texts that are marked token by token: a query sees the tokens that have its own mark. It suits "
        "batches whose texts are not laid out by lengths."
    ),
    description=DESCRIPTION,
    reference="Krell et al., Efficient Sequence Packing without Cross-contamination, 2021",
    params=Segments,
    runs=_runs,
    inputs=(Input("segment_ids", "The segment of each key, any integers: (keys), or (batch, keys)."), ATTENTION_MASK),
    examples=(
        Example("Segments of a batch", {}, {"tensors": {"segment_ids": [[0, 0, 1, 1], [7, 7, 7, 2]]}}),
        Example(
            "Both ways within a segment, with padding",
            {"direction": "bidirectional"},
            {"tensors": {"segment_ids": [0, 0, 1, 1], "attention_mask": [1, 1, 1, 0]}},
        ),
    ),
    used_by=(
        Usage("transformers packed_sequence_mask_function under a causal mask", {}, "transformers"),
        Usage(
            "transformers blockwise_overlay (images that see themselves; join with causal by OR), FlexAttention "
            "document masks of encoders",
            {"direction": "bidirectional"},
            "transformers-blocks",
        ),
    ),
)
