"""A mask added to the caller's attention scores."""

from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.attending import (
    Booleans,
    EmptyRows,
    Fill,
    counted,
    fill_fact,
    fill_value,
    flags,
    rows_of,
    written,
)
from service.engine.errors import Refusal
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.vectors import SameDType, answer_dtype, block, refuse_odd_shapes, vector_axes

MOST_AXES = 8

Joining = Annotated[
    Literal["add", "replace"],
    Field(
        description="`add`: `fill` is added to masked scores, the sum rounded once (eager attention; a very negative "
        "score may become -inf); `replace`: masked scores become `fill` (masked_fill)."
    ),
]


class ApplyMask(Params):
    """Parameters of `apply/mask`."""

    joining: Joining = "add"
    fill: Fill = "min"
    empty_rows: EmptyRows = "keep"
    dtype: SameDType = None


def _mask(inputs: Inputs) -> Booleans:
    """The mask as a view of the scores' shape: axes that it has not are those before queries and keys (heads)."""
    x, mask = inputs["x"], flags("mask", inputs, MOST_AXES)
    mask = np.atleast_2d(mask)
    missing = (1,) * (x.ndim - mask.ndim)
    spread = mask.reshape((*mask.shape[:-2], *missing, *mask.shape[-2:]))
    if spread.ndim != x.ndim or any(mine not in (1, its) for mine, its in zip(spread.shape, x.shape, strict=True)):
        raise Refusal(
            "/tensors/mask",
            "shape",
            f"mask has the shape {inputs['mask'].shape} and x has {x.shape}; (queries, keys), (batch, queries, keys) "
            "or the shape of x is needed, an axis of 1 serving for all",
        )
    return np.broadcast_to(spread, x.shape)


def _tensors(params: ApplyMask, inputs: Inputs) -> Tensors:
    x = inputs["x"]
    refuse_odd_shapes("x", x, 2, "(…, queries, keys)")
    _mask(inputs)
    dtype = answer_dtype(params.dtype, x)
    fill_value(dtype, params.fill)
    inner = ("head", "query", "key") if x.ndim > 2 else ("query", "key")
    return {"x": Tensor(vector_axes(x.ndim, inner), x.shape, dtype)}


def _rows(params: ApplyMask, inputs: Inputs, state: Booleans, tensor: str, start: int, stop: int) -> Array:
    dtype = answer_dtype(params.dtype, inputs[tensor])
    x, allowed = block(inputs[tensor], start, stop, dtype), rows_of(state, start, stop)
    if params.empty_rows == "attend-all":
        allowed[~allowed.any(axis=1)] = True
    mask = written(allowed, dtype, params.fill)
    if params.joining == "add":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.add(x, mask, out=mask)
    np.copyto(mask, x, where=allowed)
    return mask


def _facts(params: ApplyMask, inputs: Inputs) -> Facts:
    fill = fill_fact(answer_dtype(params.dtype, inputs["x"]), params.fill)
    return fill | counted(inputs["x"].shape, partial(rows_of, _mask(inputs)))


DESCRIPTION = """\
Answers scores x of shape (…, queries, keys): x where the mask is 1 (or True: **may attend**, as in the answers of the
masks with `dtype=bool`), x plus `fill` where it is 0. The mask is (queries, keys), (batch, queries, keys), where the
axes between (heads) share it, or of the shape of x; an axis of 1 serves for all. One mask is applied once, so no two
fills are ever added: join masks with `masks/combined` first. **Axes** stay as they came.

The body is JSON (0 and 1, or true and false), or a safetensors file with `x` and `mask` (integers or truth values)."""

SCHEME: Scheme[ApplyMask, Booleans] = Scheme(
    family="apply",
    name="mask",
    title="Mask added to attention scores",
    explanation="Your attention scores with all that a query must not see put out of reach, before the softmax.",
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.2.3",
    params=ApplyMask,
    rounding="faithful",
    tensors=_tensors,
    prepare=lambda _params, inputs: _mask(inputs),
    rows=_rows,
    facts=_facts,
    state_bytes=lambda _params, inputs: inputs["mask"].size,
    inputs=(
        Input("x", "Attention scores: (…, queries, keys)."),
        Input(
            "mask",
            "0 and 1, or truth values: (queries, keys), (batch, queries, keys), or the shape of x.",
            values="flags",
        ),
    ),
    examples=(
        Example(
            "Causal, two queries and two keys", {}, {"tensors": {"x": [[0.5, 1.5], [2, -1]], "mask": [[1, 0], [1, 1]]}}
        ),
        Example(
            "Replaced by a number of your own",
            {"joining": "replace", "fill": "-10000"},
            {"tensors": {"x": [[0.5, 1.5], [2, -1]], "mask": [[True, False], [True, True]]}},
        ),
    ),
    used_by=(
        Usage("transformers eager attention", {"joining": "add", "fill": "min"}),
        Usage("PyTorch masked_fill", {"joining": "replace", "fill": "-inf"}),
    ),
    properties={"learned parameters": "none"},
    infinite=True,
)
