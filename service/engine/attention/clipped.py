"""Shaw's clipped distances: which row of a table each has."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.relative import Integers
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Array, Params, Usage, unused

Reach = Annotated[Integer | None, Field(ge=0, le=LARGEST_EXACT_INTEGER // 4)]


class Clipped(Params):
    """Parameters that decide the rows."""

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


def reach(params: Clipped) -> tuple[int, int]:
    """How far the table reaches to either side of distance 0."""
    left = params.max_relative_position if params.left is None else params.left
    right = params.max_relative_position if params.right is None else params.right
    if left == right == 0:
        raise Refusal("left", "out_of_range", "left and right are both 0, which leaves one index: 1 or more would do")
    return left, right


def table_rows(params: Clipped) -> int:
    """How many rows the learned table has."""
    return sum(reach(params)) + 1


def row_of(params: Clipped, distances: Integers) -> Integers:
    """The row of each distance key - query.

    >>> row_of(Clipped(max_relative_position=2), np.array([-9, -1, 0, 1, 2, 3])).tolist()
    [0, 1, 2, 3, 4, 4]
    >>> row_of(Clipped(max_relative_position=2, beyond="zero-row"), np.array([-9, -1, 0, 1, 2, 3])).tolist()
    [5, 1, 2, 3, 4, 5]
    """
    left, right = reach(params)
    signed = distances if params.sign == "key-query" else -distances
    rows: Integers = np.clip(signed, -left, right) + left
    return rows if params.beyond == "clip" else np.where(rows == signed + left, rows, left + right + 1)


def with_zero_row(params: Clipped, table: Array) -> Array:
    """A table (…, rows, dim) and the row of zeros that some distances have."""
    if params.beyond == "clip":
        return table
    return np.concatenate([table, np.zeros_like(table[..., :1, :])], axis=-2)


def reach_notes(params: Clipped) -> list[str]:
    """What was given and has no effect."""
    both = params.left is not None and params.right is not None
    return unused(params, ("max_relative_position",) if both else (), "left and right both given")


USED_BY = (
    Usage("Shaw et al. (base model), tensor2tensor with max_relative_position=16", {}, "tensor2tensor"),
    Usage("VITS (window_size 4)", {"max_relative_position": "4", "beyond": "zero-row"}, "vits"),
    Usage("Wav2Vec2-BERT, SeamlessM4T v2", {"left": "64", "right": "8"}, "wav2vec2-bert"),
    Usage("SpeechT5", {"sign": "query-key", "left": "160", "right": "159"}, "speecht5"),
)
