"""The permutation between the pairings of RoPE: of the channels of a head, or of the rows of a weight matrix."""

from typing import Annotated, Literal

from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import Heads
from service.engine.rotation.reordering import Indices, Reordered, order_of_rows, turning_heads
from service.engine.rotation.rotary_width import rotary_width
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage

IndexDType = Annotated[Literal["int64", "int32"], Field(description="Integer format of the indices.")]


class RopePermutation(Reordered):
    """Parameters of `permutations/rope`."""

    heads: Heads = 1
    dtype: IndexDType = "int64"


def _kv_heads(params: RopePermutation) -> int:
    """The heads of keys; refuses those that the projection has no place for."""
    if params.projection == "separate":
        if params.kv_heads is not None:
            detail = "projection=separate holds heads of one kind: give their number as heads"
            raise Refusal("kv_heads", "conflict", detail)
        return 0
    kv_heads = params.kv_heads or params.heads
    if params.projection == "grouped" and params.heads % kv_heads:
        detail = f"{params.heads} heads of queries do not make {kv_heads} equal groups"
        raise Refusal("kv_heads", "value", detail)
    return kv_heads


def _width(params: RopePermutation) -> int:
    return rotary_width(params, params.dim)


def _tensors(params: RopePermutation, _inputs: Inputs) -> Tensors:
    _width(params)
    heads = params.heads + 2 * _kv_heads(params)
    return {"permutation": Tensor(("channel",), (heads * params.dim,), params.dtype)}


def _prepare(_params: RopePermutation, _inputs: Inputs) -> None:
    return None


def _rows(params: RopePermutation, _inputs: Inputs, _state: None, _tensor: str, _start: int, _stop: int) -> Array:
    order: Indices = order_of_rows(params, turning_heads(params, params.heads, _kv_heads(params)))
    return order[None].astype(params.dtype, copy=False)


def _facts(params: RopePermutation, _inputs: Inputs) -> Facts:
    return {"rotary_dim": _width(params)}


def _resolve(params: RopePermutation, _inputs: Inputs) -> RopePermutation:
    filled = {"rotary_dim": _width(params), "partial_rotary_factor": None, "kv_heads": _kv_heads(params) or None}
    return params.model_copy(update=filled)


DESCRIPTION = """\
`out[i] = in[permutation[i]]` takes channels, or the rows of a query or key projection and its bias, from `pairing` to
`output_pairing`. With h = rotary_dim/2, channel 2k of interleaved pairs is channel k of half pairs, and 2k + 1 is
k + h. Each of `heads` heads is permuted in itself; channels that do not turn stay. Values and output projections are
left as they are. Keys of grouped-query attention have heads of their own number; where one projection holds queries,
keys and values, `projection` and `kv_heads` say how.

**Axes**: (channel), heads * dim of them."""

SCHEME: Scheme[RopePermutation, None] = Scheme(
    family="permutations",
    name="rope",
    title="Permutation between the pairings of RoPE",
    explanation=(
        "Two families of code pair the channels differently: neighbours, or one half with the other. Weights that move "
        "from one to the other have their rows reordered by this list."
    ),
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
        Example(
            "Four heads of queries and two of keys and values in one matrix",
            {"dim": "4", "heads": "4", "kv_heads": "2", "projection": "grouped"},
        ),
        Example("Two heads, and back", {"dim": "4", "heads": "2", "pairing": "half", "output_pairing": "interleaved"}),
    ),
    used_by=(
        Usage("weights of Meta's Llama for Hugging Face's code", {"pairing": "interleaved", "output_pairing": "half"}),
        Usage("and the way back", {"pairing": "half", "output_pairing": "interleaved"}),
    ),
    properties={"learned parameters": "none"},
)
