"""Chunked mask: a query attends causally within its own chunk of the sequence."""

from typing import Annotated, Literal

from pydantic import Field

from service.engine.attention.attending import Integers, Mask, Run, mask_scheme
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Example, Usage

ChunkSize = Annotated[Integer, Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Number of positions in a chunk.")]
ChunkOrigin = Annotated[
    Literal["first-token", "zero"],
    Field(
        description="Where the first chunk begins: `first-token` at the first 1 of `attention_mask` (0 without one); "
        "`zero` at position 0 whatever is padded."
    ),
]


class Chunked(Mask):
    """Parameters of `masks/chunked`."""

    chunk_size: ChunkSize
    chunk_origin: ChunkOrigin = "first-token"


def _runs(params: Chunked, positions: Integers, first: Integers) -> Run:
    origin = first if params.chunk_origin == "first-token" else first * 0
    return Run(positions - (positions - origin) % params.chunk_size, positions + 1)


DESCRIPTION = """\
With chunks of c positions, query i may attend to key j where `j <= i` and `floor((j - o) / c) = floor((i - o) / c)`, o
the position of the first token."""

SCHEME = mask_scheme(
    name="chunked",
    title="Chunked causal mask",
    explanation=(
        "The text is cut into chunks, and a query sees those of its own chunk that came before it. At the first token "
        "of a chunk the past is gone, unless other layers keep it."
    ),
    description=DESCRIPTION,
    reference="Meta, Llama 4, 2025: attention_chunk_size",
    params=Chunked,
    runs=_runs,
    examples=(
        Example("Chunks of two", {"length": "5", "chunk_size": "2"}),
        Example("One token of left padding", {"chunk_size": "2"}, {"tensors": {"attention_mask": [0, 1, 1, 1, 1]}}),
    ),
    used_by=(Usage("Llama 4: chunk_size = attention_chunk_size", {}, "llama4"),),
)
