"""The permutation between the pairings of RoPE: of the channels of a head, or of the rows of a weight matrix."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.quantities import HeadDim, Heads, Pairing
from service.engine.rotation.rotary import pair_members
from service.engine.rotation.rotary_width import RotaryWidth, rotary_width
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage

IndexDType = Annotated[Literal["int64", "int32"], Field(description="Integer format of the indices.")]


class RopePermutation(RotaryWidth):
    """Parameters of `permutations/rope`."""

    dim: HeadDim
    heads: Heads = 1
    pairing: Pairing = "interleaved"
    output_pairing: Pairing = "half"
    dtype: IndexDType = "int64"


def _width(params: RopePermutation) -> int:
    return rotary_width(params, params.dim)


def _tensors(params: RopePermutation, _inputs: Inputs) -> Tensors:
    _width(params)
    return {"permutation": Tensor(("channel",), (params.heads * params.dim,), params.dtype)}


def _prepare(params: RopePermutation, _inputs: Inputs) -> Array:
    """The permutation of one head: member by member, where each channel of the output lies in the input."""
    width = _width(params)
    inside = np.arange(params.dim)
    given, wanted = pair_members(params.pairing, width), pair_members(params.output_pairing, width)
    for source, target in zip(given, wanted, strict=True):
        inside[target] = np.arange(params.dim)[source]
    return inside


def _rows(params: RopePermutation, _inputs: Inputs, state: Array, _tensor: str, _start: int, _stop: int) -> Array:
    heads = np.arange(params.heads)[:, None] * params.dim
    return (heads + state).reshape(1, -1).astype(params.dtype)


def _facts(params: RopePermutation, _inputs: Inputs) -> Facts:
    return {"rotary_dim": _width(params)}


def _resolve(params: RopePermutation, _inputs: Inputs) -> RopePermutation:
    return params.model_copy(update={"rotary_dim": _width(params), "partial_rotary_factor": None})


DESCRIPTION = """\
`out[i] = in[permutation[i]]` takes channels, or the rows of a query or key projection and its bias, from `pairing` to
`output_pairing`. With h = rotary_dim/2, channel 2k of interleaved pairs is channel k of half pairs, and 2k + 1 is
k + h. Each of `heads` heads is permuted in itself; channels beyond `rotary_dim` stay. Values and output projections are
left as they are. Keys of grouped-query attention have heads of their own number.

**Axes**: (channel), heads * dim of them."""

SCHEME: Scheme[RopePermutation, Array] = Scheme(
    family="permutations",
    name="rope",
    title="Permutation between the pairings of RoPE",
    description=DESCRIPTION,
    reference="Su et al., RoFormer, 2021; Meta's and Hugging Face's Llama differ by it",
    params=RopePermutation,
    rounding="integer",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    resolve=_resolve,
    examples=(
        Example("From Meta's Llama to Hugging Face's, one head", {"dim": "8"}),
        Example("Two heads, and back", {"dim": "4", "heads": "2", "pairing": "half", "output_pairing": "interleaved"}),
    ),
    used_by=(
        Usage("weights of Meta's Llama for Hugging Face's code", {"pairing": "interleaved", "output_pairing": "half"}),
        Usage("and the way back", {"pairing": "half", "output_pairing": "interleaved"}),
    ),
    properties={"learned parameters": "none"},
)
