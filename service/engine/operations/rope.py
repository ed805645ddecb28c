"""RoPE applied to the caller's queries and keys (Su et al., RoFormer, 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.rotary import Rotary, arithmetic_note, rotary_angles, rotary_width
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.vectors import (
    VECTOR_POSITIONS,
    Placed,
    Rows,
    answer_dtype,
    block,
    positions_of,
    refuse_odd_shapes,
    vector_axes,
)

Axes = Annotated[
    Literal["heads-length", "length-heads"],
    Field(
        description="Order of the axes before the channels when there are more than two: `heads-length` "
        "(…, heads, length, dim) or `length-heads` (…, length, heads, dim)."
    ),
]
Direction = Annotated[
    Literal["forward", "inverse"],
    Field(description="`forward` turns by p * w_k; `inverse` turns back."),
]


class ApplyRope(Rotary, Placed):
    """Parameters of `apply/rope`."""

    axes: Axes = "heads-length"
    direction: Direction = "forward"


@dataclass(frozen=True, slots=True)
class Turn:
    """The width that turns, how many leading axes have positions of their own, and cos and sin by number format."""

    width: int
    batches: int
    tables: Mapping[str, tuple[Array, Array]]


def _arrays(inputs: Inputs) -> dict[str, Array]:
    return {name: inputs[name] for name in ("q", "k") if name in inputs}


def _rows_of(params: ApplyRope, shape: tuple[int, ...], batches: int = 0) -> Rows:
    if len(shape) == 1:
        return Rows((1, *shape), 0, batches)
    back = 3 if len(shape) > 2 and params.axes == "length-heads" else 2
    return Rows(shape, len(shape) - back, batches)


def _check(params: ApplyRope, inputs: Inputs) -> int:
    arrays = _arrays(inputs)
    for name, array in arrays.items():
        refuse_odd_shapes(name, array, 1, "(…, heads, length, dim), (length, dim) or (dim)")
    width = rotary_width(params, arrays["q"].shape[-1])
    if "k" in arrays and arrays["k"].shape[-1] != arrays["q"].shape[-1]:
        raise Refusal(
            "/tensors/k",
            "shape",
            f"k has heads of {arrays['k'].shape[-1]} channels and q of {arrays['q'].shape[-1]}; they must be equal",
        )
    return width


def _tensors(params: ApplyRope, inputs: Inputs) -> Tensors:
    _check(params, inputs)
    arrays = _arrays(inputs)
    positions_of(params, inputs, {name: _rows_of(params, array.shape) for name, array in arrays.items()})
    inner = (
        ("head", "position", "channel") if params.axes == "heads-length" else ("position", "head", "channel")
    )
    return {
        name: Tensor(
            vector_axes(array.ndim, inner if array.ndim > 2 else ("position", "channel")),
            array.shape,
            answer_dtype(params.dtype, array),
        )
        for name, array in arrays.items()
    }


def _prepare(params: ApplyRope, inputs: Inputs) -> Turn:
    width = _check(params, inputs)
    arrays = _arrays(inputs)
    at, batches = positions_of(
        params, inputs, {name: _rows_of(params, array.shape) for name, array in arrays.items()}
    )
    angles = rotary_angles(params, width)
    tables = {}
    for dtype in {answer_dtype(params.dtype, array) for array in arrays.values()}:
        cos = np.empty((len(at), width // 2), DTYPES[dtype])
        sin = np.empty_like(cos)
        angles.write(at, cos, sin)
        tables[dtype] = (cos, -sin if params.direction == "inverse" else sin)
    return Turn(width, batches, tables)


def _rows(params: ApplyRope, inputs: Inputs, state: Turn, tensor: str, start: int, stop: int) -> Array:
    array = inputs[tensor]
    dtype = answer_dtype(params.dtype, array)
    at = _rows_of(params, array.shape, state.batches).table_rows(start, stop)
    cos, sin = (table[at] for table in state.tables[dtype])
    return turned(block(array, start, stop, dtype), cos, sin, params.pairing, state.width)


def turned(x: Array, cos: Array, sin: Array, pairing: str, width: int) -> Array:
    """Each row of x turned: two products and one sum a channel, each rounded in the number format of x.

    `half`: y_k = x_k c_k - x_{k+h} s_k, y_{k+h} = x_{k+h} c_k + x_k s_k; `interleaved` the same for 2k and 2k + 1.
    Channels beyond `width` pass through.
    """
    if pairing == "half":
        one, two = slice(0, width // 2), slice(width // 2, width)
    else:
        one, two = slice(0, width, 2), slice(1, width, 2)
    out = np.empty_like(x, order="C", subok=False)
    # The caller's infinities and overflows follow IEEE arithmetic; they are not the service's to warn of.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.subtract(x[:, one] * cos, x[:, two] * sin, out=out[:, one])
        np.add(x[:, two] * cos, x[:, one] * sin, out=out[:, two])
    out[:, width:] = x[:, width:]
    return out


def _facts(params: ApplyRope, inputs: Inputs) -> Facts:
    return {"rotary_dim": rotary_width(params, inputs["q"].shape[-1]), "attention_factor": 1.0}


DESCRIPTION = """\
Turns each pair of channels of q (and k) at position p by `p * w_k`, `w_k = base^(-2k/rotary_dim)`. With
c = cos(p w_k), s = sin(p w_k) and h = rotary_dim/2:

- `pairing=half`: `y_k = x_k c - x_(k+h) s`, `y_(k+h) = x_(k+h) c + x_k s`
- `pairing=interleaved`: `y_2k = x_2k c - x_(2k+1) s`, `y_(2k+1) = x_(2k+1) c + x_2k s`

Channels beyond `rotary_dim` pass through, and the **channel order** stays as it came. Two axes are (length, dim); more
are (…, heads, length, dim), or (…, length, heads, dim) with `axes=length-heads`; k may have fewer heads than q. cos and sin
are rounded once to the number format of the vectors, then the two products and their sum are rounded each.

The body is JSON, one `.npy` (q) or a safetensors file with `q`, `k` and, if you like, `positions`."""

SCHEME: Scheme[ApplyRope, Turn] = Scheme(
    family="apply",
    name="rope",
    title="RoPE applied to queries and keys",
    description=DESCRIPTION,
    reference="Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, section 3.2",
    params=ApplyRope,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=lambda params, _inputs: arithmetic_note(params),
    inputs=(
        Input("q", "Queries: (…, heads, length, dim), (length, dim) or (dim)."),
        Input("k", "Keys: the same length and dim, any number of heads.", required=False),
        VECTOR_POSITIONS,
    ),
    examples=(
        Example("One vector at position 1", {"offset": "1"}, {"tensors": {"q": [1, 2, 3, 4]}}),
        Example(
            "Queries and keys, two positions",
            {"pairing": "interleaved"},
            {"tensors": {"q": [[1, 2, 3, 4], [5, 6, 7, 8]], "k": [[1, 0, 0, 1], [0, 1, 1, 0]]}},
        ),
        Example(
            "Turned back, at positions of your own",
            {"direction": "inverse"},
            {"tensors": {"q": [[1, 2, 3, 4], [5, 6, 7, 8]]}, "positions": [3, 7]},
        ),
    ),
    used_by=(
        Usage("Llama, Mistral, Qwen, Gemma and most models in Hugging Face form", {"pairing": "half"}),
        Usage("GPT-J, CodeGen (rotary_dim 64)", {"pairing": "interleaved", "rotary_dim": "64"}),
    ),
    properties={"learned parameters": "none", "norm": "kept"},
)
