"""Block mask: positions in blocks of one size, each block open within itself."""

from typing import Annotated, Literal

from pydantic import Field

from service.engine.attention.attending import Integers, Mask, Run, mask_scheme
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Example, Usage

BlockSize = Annotated[Integer, Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Number of positions in a block.")]
Reach = Annotated[
    Literal["diagonal", "causal"],
    Field(description="`diagonal`: a query's own block only; `causal`: its own block and all blocks before it."),
]


class Block(Mask):
    """Parameters of `masks/block`."""

    block_size: BlockSize
    reach: Reach = "diagonal"


def _runs(params: Block, positions: Integers, _first: Integers) -> Run:
    start = positions - positions % params.block_size
    return Run(start if params.reach == "diagonal" else start * 0, start + params.block_size)


DESCRIPTION = """\
With blocks of b positions, query i may attend to key j where

- `reach=diagonal`: `floor(j / b) = floor(i / b)`, both ways within a block
- `reach=causal`: `floor(j / b) <= floor(i / b)`, both ways within a block and back to all blocks before it"""

SCHEME = mask_scheme(
    name="block",
    title="Block-diagonal and block-causal mask",
    explanation=(
        "Blocks of equal size see themselves in full, and with reach=causal all blocks before them. Diffusion language "
        "models write block by block in this way."
    ),
    description=DESCRIPTION,
    reference="Qiu et al., Blockwise Self-Attention, 2020; Arriola et al., Block Diffusion, 2025",
    params=Block,
    runs=_runs,
    examples=(
        Example("Blocks of two", {"length": "5", "block_size": "2"}),
        Example("Block-causal", {"length": "4", "block_size": "2", "reach": "causal"}),
        Example("With padding", {"block_size": "2"}, {"tensors": {"attention_mask": [1, 1, 1, 1, 0]}}),
    ),
    used_by=(
        Usage("blockwise local attention, windows of equal size in vision encoders", {}),
        Usage(
            "block diffusion (BD3-LM, LLaDA 2), frame-causal video and streaming audio encoders", {"reach": "causal"}
        ),
    ),
)
