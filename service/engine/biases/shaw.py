"""Clipped relative indices (Shaw et al., 2018): distances up to a limit, each with a learned vector of its own."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.relative import IndexDType, Integers, QueryKey, index_rows, index_tensors, resolved, sizes
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensors, Usage, unused

Reach = Annotated[Integer | None, Field(ge=0, le=LARGEST_EXACT_INTEGER // 4)]


class Shaw(QueryKey):
    """Parameters of `biases/shaw`."""

    max_relative_position: Annotated[
        Integer,
        Field(ge=1, le=LARGEST_EXACT_INTEGER // 4, description="K: distances beyond it are clipped to it, both ways."),
    ] = 16
    left: Annotated[Reach, Field(description="The most negative distance (K unless given).")] = None
    right: Annotated[Reach, Field(description="The most positive distance (K unless given).")] = None
    sign: Annotated[
        Literal["key-query", "query-key"],
        Field(description="What a distance is: `key-query` as in the paper, or `query-key`."),
    ] = "key-query"
    beyond: Annotated[
        Literal["clip", "zero-row"],
        Field(
            description="Distances that the table does not reach: `clip` its first or last row; `zero-row` one more "
            "row, the last, which holds zeros (VITS)."
        ),
    ] = "clip"
    dtype: IndexDType = "int64"


def _reach(params: Shaw) -> tuple[int, int]:
    """How far the table reaches to either side of distance 0."""
    left = params.max_relative_position if params.left is None else params.left
    right = params.max_relative_position if params.right is None else params.right
    if left == right == 0:
        raise Refusal("left", "out_of_range", "left and right are both 0, which leaves one index: 1 or more would do")
    return left, right


def _tensors(params: Shaw, _inputs: Inputs) -> Tensors:
    return index_tensors(params, sum(_reach(params)) + 1 + (params.beyond == "zero-row"), params.dtype)


def _rows(params: Shaw, _inputs: Inputs, _state: None, _tensor: str, start: int, stop: int) -> Array:
    left, right = _reach(params)
    sign = 1 if params.sign == "key-query" else -1

    def index(distances: Integers) -> Integers:
        rows = np.clip(sign * distances, -left, right) + left
        return rows if params.beyond == "clip" else np.where(rows == sign * distances + left, rows, left + right + 1)

    return index_rows(params, index, params.dtype, start, stop)


def _facts(params: Shaw, _inputs: Inputs) -> Facts:
    (left, right), size = _reach(params), sizes(params)
    ends = (size.nearest, size.farthest) if params.sign == "key-query" else (-size.farthest, -size.nearest)
    if params.beyond == "clip":
        lowest, highest = (min(max(end, -left), right) for end in ends)
    else:
        lowest, highest = max(ends[0], -left), min(ends[1], right)
    return {**size._asdict(), "table_rows": left + right + 1, "rows_used": max(highest - lowest + 1, 0)}


def _notes(params: Shaw, _inputs: Inputs) -> list[str]:
    both = params.left is not None and params.right is not None
    return unused(params, ("max_relative_position",) if both else (), "left and right both given")


def _sequence(params: Shaw, _inputs: Inputs) -> Sequence:
    return Sequence(params, 0)


DESCRIPTION = """\
`index = clip(key - query, -left, right) + left`, with `sign=query-key` of query - key; `left` and `right` are K =
`max_relative_position` unless given. It is the row of a learned table of left + right + 1 vectors, as wide as a head,
which are added to the keys (and, in the paper, other ones to the values). With `beyond=zero-row` distances outside
have the index left + right + 1 instead of being clipped: append a row of zeros. Query row r stands at position r +
`offset`, by default keys - queries.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[Shaw, None] = Scheme(
    family="biases",
    name="shaw",
    title="Clipped relative indices",
    description=DESCRIPTION,
    reference="Shaw et al., Self-Attention with Relative Position Representations, 2018",
    params=Shaw,
    rounding="integer",
    tensors=_tensors,
    prepare=lambda _params, _inputs: None,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    sequence=_sequence,
    resolve=lambda params, _inputs: resolved(params),
    examples=(
        Example("Distances clipped at two", {"length": "6", "max_relative_position": "2"}),
        Example("One decoding step, farther back than ahead", {"queries": "1", "keys": "9", "left": "4", "right": "1"}),
    ),
    used_by=(
        Usage("Shaw et al. (base model), tensor2tensor with max_relative_position=16", {}, "tensor2tensor"),
        Usage("VITS (window_size 4)", {"max_relative_position": "4", "beyond": "zero-row"}, "vits"),
        Usage("Wav2Vec2-BERT, SeamlessM4T v2", {"left": "64", "right": "8"}, "wav2vec2-bert"),
        Usage("SpeechT5", {"sign": "query-key", "left": "160", "right": "159"}, "speecht5"),
        Usage(
            "DeBERTa v1 (max_relative_positions 512)",
            {"sign": "query-key", "left": "512", "right": "511"},
            "deberta-v1",
        ),
        Usage(
            "BERT relative_key (512 positions; transformers 4)",
            {"sign": "query-key", "max_relative_position": "511"},
            "bert-relative-key",
        ),
    ),
    properties={
        "learned parameters": "left + right + 1 vectors as wide as a head, often shared by the heads",
        "memory per head": "left + right + 1 vectors as wide as the head, unless the heads share them",
        "extrapolates": "yes: farther distances share the last row",
    },
)
