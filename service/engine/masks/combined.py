"""Combined mask: two masks of the caller's, joined by AND or OR, cell by cell."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.attending import (
    ANSWERED,
    Answered,
    Booleans,
    answer_notes,
    counted,
    fill_fact,
    flags,
    refuse_unwritable,
    rows_of,
    with_fill,
    written,
)
from service.engine.errors import Refusal
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.vectors import vector_axes

Operator = Annotated[
    Literal["and", "or"],
    Field(description="`and`: a query may attend where both masks say so; `or`: where either does."),
]
MOST_AXES = 4


class Combined(Answered):
    """Parameters of `masks/combined`."""

    operator: Operator = "and"


@dataclass(frozen=True, slots=True)
class Both:
    """The two masks, each as a view of the common shape (…, query, key)."""

    a: Booleans
    b: Booleans

    def joined(self, operator: str, start: int, stop: int) -> Booleans:
        """Those rows of the two together."""
        join = np.logical_and if operator == "and" else np.logical_or
        rows: Booleans = join(rows_of(self.a, start, stop), rows_of(self.b, start, stop))
        return rows


def _both(inputs: Inputs) -> Both:
    a, b = (np.atleast_2d(flags(name, inputs, MOST_AXES)) for name in ("a", "b"))
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise Refusal(
            "/tensors/b",
            "shape",
            f"b has the shape {inputs['b'].shape} and a has {inputs['a'].shape}; axes must be equal, or 1, or missing",
        ) from None
    return Both(np.broadcast_to(a, shape), np.broadcast_to(b, shape))


def _tensors(params: Combined, inputs: Inputs) -> Tensors:
    refuse_unwritable(params)
    shape = _both(inputs).a.shape
    return {"mask": Tensor(vector_axes(len(shape), ("query", "key")), shape, params.dtype)}


def _rows(params: Combined, _inputs: Inputs, state: Both, _tensor: str, start: int, stop: int) -> Array:
    allowed = state.joined(params.operator, start, stop)
    if params.empty_rows == "attend-all":
        allowed[~allowed.any(axis=1)] = True
    return written(allowed, params.dtype, params.fill)


def _facts(params: Combined, inputs: Inputs) -> Facts:
    both = _both(inputs)
    return fill_fact(params.dtype, params.fill) | counted(both.a.shape, partial(both.joined, params.operator))


DESCRIPTION = f"""\
Query i may attend to key j where `a[i, j]` AND (or OR) `b[i, j]`; axes that are missing on the left, or 1, are
repeated. So the answers of other masks, fetched as files with `dtype=bool`, become one: causal OR the blocks of images,
sliding AND packed. With one mask as both it turns truth values into numbers to add.

**True means may attend**; {ANSWERED}

**Axes**: (…, query, key), those of the two together."""

SCHEME: Scheme[Combined, Both] = Scheme(
    family="masks",
    name="combined",
    title="Two masks joined by AND or OR",
    explanation=(
        "Two rules at once: both must allow a pair (and), or either does (or). So a causal mask with an image that "
        "sees all of itself is made of two masks."
    ),
    description=DESCRIPTION,
    reference="transformers masking_utils and_masks, or_masks, 2025; PyTorch FlexAttention, 2024",
    params=Combined,
    rounding="correct",
    tensors=_tensors,
    prepare=lambda _params, inputs: _both(inputs),
    rows=_rows,
    resolve=with_fill,
    facts=_facts,
    notes=lambda params, _inputs: answer_notes(params),
    state_bytes=lambda _params, inputs: sum(array.size for array in inputs.values()),
    inputs=(
        Input("a", "A mask of 0 and 1, or truth values: (…, queries, keys), or (keys).", values="flags"),
        Input("b", "Another one; its axes are those of a, or 1, or missing on the left.", values="flags"),
    ),
    examples=(
        Example(
            "Causal, and two tokens of an image that see each other",
            {"operator": "or"},
            {"tensors": {"a": [[1, 0, 0], [1, 1, 0], [1, 1, 1]], "b": [[0, 0, 0], [0, 1, 1], [0, 1, 1]]}},
        ),
        Example(
            "A causal mask and the padding of a batch, to be added to scores",
            {"dtype": "float16"},
            {"tensors": {"a": [[1, 0, 0], [1, 1, 0], [1, 1, 1]], "b": [[[0, 1, 1]], [[1, 1, 1]]]}},
        ),
    ),
    used_by=(
        Usage("transformers and_masks, FlexAttention and_masks", {"operator": "and"}),
        Usage("transformers or_masks, FlexAttention or_masks; Gemma 3 and PaliGemma images", {"operator": "or"}),
    ),
    properties={"learned parameters": "none"},
    infinite=True,
)
