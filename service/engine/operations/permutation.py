"""The permutation between RoPE's pairings applied to the caller's weights, biases or vectors: copies, bit for bit."""

from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.rotation.reordering import Indices, Reordered, order_of_rows, turning_heads
from service.engine.rotation.rotary_width import rotary_width
from service.engine.scheme import ITEMSIZE, Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage


class ApplyPermutation(Reordered):
    """Parameters of `apply/permutation`."""

    axis: Annotated[
        Literal["first", "last"],
        Field(
            description="The axis that holds the heads: the `first` (PyTorch weights, (heads * dim, inputs)) or the "
            "`last` (Keras and Flax kernels, activations). A bias has one axis."
        ),
    ] = "first"


def _heads(params: ApplyPermutation, rows: int) -> tuple[int, int]:
    """The heads of queries (or of either) and of keys that so many rows hold; refuses rows that they do not make."""
    if rows % params.dim:
        detail = f"x has {rows} rows along its {params.axis} axis; heads of dim {params.dim} take a multiple of that"
        raise Refusal("/tensors/x", "shape", detail)
    heads = rows // params.dim
    if params.projection == "separate":
        if params.kv_heads is not None:
            raise Refusal("kv_heads", "conflict", "projection=separate holds heads of one kind: leave kv_heads out")
        return heads, 0
    kv_heads = params.kv_heads or heads // 3
    queries = heads - 2 * kv_heads
    if queries < 1 or (params.kv_heads is None and queries != kv_heads):
        detail = f"x has rows for {heads} heads; projection={params.projection} needs some beside the two of each of "
        raise Refusal("kv_heads", "value", f"{detail}{kv_heads} heads of keys: give kv_heads")
    if params.projection == "grouped" and queries % kv_heads:
        detail = f"x has {queries} heads of queries, which do not make {kv_heads} equal groups"
        raise Refusal("kv_heads", "value", detail)
    return queries, kv_heads


def _along(params: ApplyPermutation, x: Array) -> int:
    """How many rows the permuted axis has."""
    rows: int = x.shape[0 if params.axis == "first" else -1]
    return rows


def _tensors(params: ApplyPermutation, inputs: Inputs) -> Tensors:
    x = inputs["x"]
    if x.ndim < 1 or 0 in x.shape:
        raise Refusal("/tensors/x", "shape", f"x has the shape {x.shape}; at least one axis, none empty, is needed")
    if x.dtype.name not in ITEMSIZE:
        detail = f"x holds {x.dtype.name}; {', '.join(ITEMSIZE)} can be answered"
        raise Refusal("/tensors/x", "type", detail)
    rotary_width(params, params.dim)
    _heads(params, _along(params, x))
    axes = ("row", *(f"axis_{axis}" for axis in range(1, x.ndim)))
    return {"x": Tensor(axes, x.shape, x.dtype.name)}


def _prepare(params: ApplyPermutation, inputs: Inputs) -> Indices:
    return order_of_rows(params, turning_heads(params, *_heads(params, _along(params, inputs["x"]))))


def _rows(params: ApplyPermutation, inputs: Inputs, state: Indices, _tensor: str, start: int, stop: int) -> Array:
    x = inputs["x"]
    flat = x.reshape(-1, x.shape[-1])
    if params.axis == "last" or x.ndim == 1:
        return np.ascontiguousarray(flat[start:stop][:, state])
    each = prod(x.shape[1:-1])
    head, within = np.divmod(np.arange(start, stop), each)
    return flat[state[head] * each + within]


def _facts(params: ApplyPermutation, inputs: Inputs) -> Facts:
    queries, keys = _heads(params, _along(params, inputs["x"]))
    heads: Facts = {"heads": queries} if not keys else {"heads": queries, "kv_heads": keys}
    return {"rotary_dim": rotary_width(params, params.dim), **heads}


def _resolve(params: ApplyPermutation, inputs: Inputs) -> ApplyPermutation:
    keys = _heads(params, _along(params, inputs["x"]))[1] or None
    width = rotary_width(params, params.dim)
    return params.model_copy(update={"rotary_dim": width, "partial_rotary_factor": None, "kv_heads": keys})


DESCRIPTION = """\
Takes the rows of a query or key projection (heads * dim, ...), its bias, or vectors with `axis=last`, from `pairing` to
`output_pairing`: `out[i] = x[permutation[i]]`, the permutation of `permutations/rope` for as many heads as there are
rows. The way back has the two pairings exchanged. With h = rotary_dim/2, channel 2k of interleaved pairs is channel k
of half pairs, and 2k + 1 is k + h; every head is permuted in itself, and its other channels stay. Numbers are copied
bit for bit, in the number format they came in. Normalisations of queries and keys (q_norm, (dim)) move too; values and
output projections do not.

**Axes**: (row, …) as they came. The body is JSON, one `.npy` (x) or a safetensors file with `x`."""

SCHEME: Scheme[ApplyPermutation, Indices] = Scheme(
    family="apply",
    name="permutation",
    title="The permutation between RoPE's pairings applied to weights",
    explanation=(
        "Your weights, reordered from one way of pairing channels to the other, so that a model runs in another "
        "library's code."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer, 2021; the conversion between Meta's and Hugging Face's weights of Llama",
    params=ApplyPermutation,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    resolve=_resolve,
    state_bytes=lambda params, inputs: 8 * _along(params, inputs["x"]),
    inputs=(Input("x", "The weights (heads * dim, ...) or the bias (heads * dim)."),),
    examples=(
        Example(
            "A weight matrix of Meta's Llama for Hugging Face's code, two heads",
            {"dim": "4"},
            {"tensors": {"x": [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6], [7, 7]]}},
        ),
        Example(
            "A bias, and back",
            {"dim": "4", "pairing": "half", "output_pairing": "interleaved"},
            {"tensors": {"x": [0, 2, 1, 3]}},
        ),
        Example(
            "Queries, keys and values in one bias, one group",
            {"dim": "4", "projection": "grouped", "kv_heads": "1"},
            {"tensors": {"x": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}},
        ),
    ),
    used_by=(
        Usage("weights of Meta's Llama for Hugging Face's code", {"pairing": "interleaved", "output_pairing": "half"}),
        Usage("and the way back (llama.cpp)", {"pairing": "half", "output_pairing": "interleaved"}),
    ),
    properties={"learned parameters": "the caller's, moved and not changed"},
)
