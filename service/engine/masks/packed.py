"""Packed mask: several sequences in one row, each of which sees only itself."""

import numpy as np

from service.engine.attention.attending import Direction, Integers, Mask, Run, mask_scheme
from service.engine.quantities import SegmentLengths
from service.engine.scheme import Example, Usage


class Packed(Mask):
    """Parameters of `masks/packed`."""

    segment_lengths: SegmentLengths
    direction: Direction = "causal"

    def implied_keys(self) -> tuple[str, int] | None:
        return "segment_lengths", sum(self.segment_lengths)


def _runs(params: Packed, positions: Integers, _first: Integers) -> Run:
    low, high = _segment(params.segment_lengths, positions)
    return Run(low, np.minimum(high, positions + 1) if params.direction == "causal" else high)


def _segment(lengths: tuple[int, ...], positions: Integers) -> tuple[Integers, Integers]:
    """Where the segments of some positions begin and end; nowhere for positions outside all of them."""
    bounds = np.cumsum([0, *lengths])
    index = np.searchsorted(bounds, positions, side="right")
    outside = (index == 0) | (index == len(bounds))
    index = np.where(outside, 1, index)
    return np.where(outside, 0, bounds[index - 1]), np.where(outside, 0, bounds[index])


DESCRIPTION = """\
Sequences of `segment_lengths` lie one after another (the lengths are the differences of FlashAttention's cu_seqlens).
Query i may attend to key j where both are of one sequence and, with `direction=causal`, `j <= i`. For sequences that
are marked by a number for each key, see `masks/segments`."""

SCHEME = mask_scheme(
    name="packed",
    title="Packed sequences: block-diagonal mask",
    explanation=(
        "Several short texts in one row save computing time, and none must see another. Each has a square of its own "
        "on the diagonal."
    ),
    description=DESCRIPTION,
    reference="Krell et al., Efficient Sequence Packing without Cross-contamination, 2021",
    params=Packed,
    runs=_runs,
    examples=(
        Example("Three tokens, then two", {"segment_lengths": "3,2"}),
        Example("Both ways within a sequence", {"segment_lengths": "1,3", "direction": "bidirectional"}),
        Example("With padding", {"segment_lengths": "3,2"}, {"tensors": {"attention_mask": [1, 1, 0, 1, 1]}}),
    ),
    used_by=(
        Usage("FlashAttention varlen with causal=True", {}, "flash-attention"),
        Usage(
            "FlashAttention varlen in encoders: Qwen2-VL images, ModernBERT unpadded",
            {"direction": "bidirectional"},
            "flash-attention-encoder",
        ),
    ),
)
