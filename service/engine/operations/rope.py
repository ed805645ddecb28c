"""RoPE applied to the caller's queries and keys (Su et al., RoFormer, 2021)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.arithmetics import Angles
from service.engine.errors import Refusal
from service.engine.positions import Values
from service.engine.quantities import Pairing
from service.engine.rotation.rope_block import ROPE_BLOCK
from service.engine.rotation.rope_formulas import FORMULAS
from service.engine.rotation.rope_usages import ROTATIONS, TURNED_ON_ONE_AXIS
from service.engine.rotation.rotary import (
    Rotary,
    amplitude,
    amplitude_in,
    fastest,
    pair_members,
    resolved,
    rotary_angles,
    rotary_facts,
    rotary_notes,
    table_width,
)
from service.engine.rotation.rotary_width import RotaryChannels
from service.engine.rotation.rotary_xpos import centred, refuse_far_xpos
from service.engine.rotation.shifts import FROM_POSITIONS, Shifted, distances_of
from service.engine.rotation.turning import (
    Axes,
    Channels,
    Factors,
    Formats,
    Table,
    Turned,
    factors_of,
    formats_of,
    queries_and_keys,
    turned_rows,
    turned_tensors,
    vector_rows,
)
from service.engine.rotation.xpos import Role
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensors, Usage, unused
from service.engine.vectors import VECTOR_POSITIONS, Rows, refuse_odd_shapes, refuse_overflow, refuse_wide


class ApplyRope(Rotary, Shifted, Turned):
    """Parameters of `apply/rope`."""

    axes: Axes = "heads-length"
    output_pairing: Annotated[
        Pairing | None,
        Field(
            description="Where the turned pairs go: into the channels they came from, unless given (DeepSeek V3: "
            "pairing=interleaved, output_pairing=half)."
        ),
    ] = None
    rotary_channels: RotaryChannels = "first"
    xpos_role: Annotated[
        Role, Field(description="xPos: what q holds; `key` is for keys that are sent alone, as q.")
    ] = "query"


@dataclass(frozen=True, slots=True)
class Turn:
    """The channels that turn, how many leading axes have positions of their own, and the tables by role and format."""

    channels: Channels
    batches: int
    tables: Mapping[tuple[Role, str], Table]
    factors: Factors


def _formats(params: ApplyRope, array: Array) -> Formats:
    return formats_of(params, params.dtype, array)


def _rows_of(params: ApplyRope, shape: tuple[int, ...], batches: int = 0) -> Rows:
    return vector_rows(params.axes, shape, batches)


def _check(params: ApplyRope, inputs: Inputs) -> int:
    arrays = queries_and_keys(inputs)
    for name, array in arrays.items():
        refuse_odd_shapes(name, array, 1, "(…, heads, length, dim), (length, dim) or (dim)")
        refuse_wide(name, array)
        for dtype in _formats(params, array)[1:]:
            refuse_overflow(name, array, dtype)
    width = _width(params, arrays["q"].shape[-1])
    fastest(params, width)
    amplitude(params, width, params.direction)
    if "k" in arrays and params.xpos_role == "key":
        raise Refusal("xpos_role", "conflict", "xpos_role=key is for keys sent alone, as q: leave it out beside k")
    if "k" in arrays and arrays["k"].shape[-1] != arrays["q"].shape[-1]:
        raise Refusal(
            "/tensors/k",
            "shape",
            f"k has heads of {arrays['k'].shape[-1]} channels and q of {arrays['q'].shape[-1]}; they must be equal",
        )
    return width


def _centred(params: ApplyRope, inputs: Inputs) -> ApplyRope:
    """The parameters with the centre of xPos."""
    return centred(params, _rows_of(params, inputs["q"].shape).length)


def _width(params: ApplyRope, dim: int) -> int:
    """How many channels turn; the width of a head is what the vectors have, and no parameter."""
    try:
        return table_width(params, dim)
    except Refusal as refusal:
        (fault,) = refusal.faults
        if fault.parameter != "dim":
            raise
        detail = f"q has heads of {dim} channels; they turn in pairs: an even number, or rotary_dim, would do"
        raise Refusal("/tensors/q", fault.code, detail, requested=dim) from None


def _tensors(params: ApplyRope, inputs: Inputs) -> Tensors:
    width = _check(params, inputs)
    params = _centred(params, inputs)
    arrays = queries_and_keys(inputs)
    at, _ = distances_of(params, inputs, {name: _rows_of(params, array.shape) for name, array in arrays.items()})
    for name, array in arrays.items():
        dtype = _formats(params, array).table
        refuse_far_xpos(params, width, at, dtype, _role(params, name), params.direction)
    return turned_tensors(inputs, params.axes, params.dtype)


def _prepare(params: ApplyRope, inputs: Inputs) -> Turn:
    width = _check(params, inputs)
    params = _centred(params, inputs)
    arrays = queries_and_keys(inputs)
    at, batches = distances_of(params, inputs, {name: _rows_of(params, array.shape) for name, array in arrays.items()})
    factors = factors_of(params, amplitude(params, width, params.direction), params.direction)
    angles = {
        role: rotary_angles(params, width, params.direction, role, factors.tables) for role in _roles(params, arrays)
    }
    channels = _channels(params, width, arrays["q"].shape[-1])
    wanted = {(_role(params, name), _formats(params, array).table) for name, array in arrays.items()}
    tables = {(role, dtype): _table(params, angles[role], at, width, dtype) for role, dtype in wanted}
    return Turn(channels, batches, tables, factors)


def _channels(params: ApplyRope, width: int, dim: int) -> Channels:
    given = pair_members(params.pairing, width)
    moves = params.output_pairing not in (None, params.pairing)
    wanted = pair_members(params.output_pairing or params.pairing, width) if moves else given
    return Channels(given, wanted, dim - width if params.rotary_channels == "last" else 0)


def _role(params: ApplyRope, name: str) -> Role:
    """Whose table an array is turned by: without xPos keys turn as queries do."""
    if params.xpos_scale_base is None:
        return "query"
    return "key" if name == "k" else params.xpos_role


def _roles(params: ApplyRope, names: Iterable[str]) -> set[Role]:
    return {_role(params, name) for name in names}


def _table(params: ApplyRope, angles: Angles, at: Values, width: int, dtype: str) -> Table:
    table = Table(np.empty((len(at), width), DTYPES[dtype]), np.empty((len(at), width), DTYPES[dtype]))
    first, second = pair_members(params.output_pairing or params.pairing, width)
    angles.write(at, table.cos[:, first], table.sin[:, second])
    table.cos[:, second] = table.cos[:, first]
    np.negative(table.sin[:, second], out=table.sin[:, first])
    if params.direction == "inverse":
        np.negative(table.sin, out=table.sin)
    if params.attention_on == "rounded-tables":
        table.times(amplitude_in(params, width, params.direction, dtype))
    return table


def _rows(params: ApplyRope, inputs: Inputs, state: Turn, tensor: str, start: int, stop: int) -> Array:
    array = inputs[tensor]
    formats = _formats(params, array)
    table = state.tables[_role(params, tensor), formats.table]
    of = _rows_of(params, array.shape, state.batches)
    return turned_rows(array, of, table, state.channels, formats, state.factors, start, stop)


def _facts(params: ApplyRope, inputs: Inputs) -> Facts:
    return rotary_facts(params, inputs["q"].shape[-1])


def _resolve(params: ApplyRope, inputs: Inputs) -> ApplyRope:
    whole = resolved(_centred(params, inputs), inputs["q"].shape[-1])
    return whole.model_copy(update={"output_pairing": params.output_pairing or params.pairing})


def _notes(params: ApplyRope, _inputs: Inputs) -> list[str]:
    idle = unused(params, ("xpos_role",), "no xpos_scale_base") if params.xpos_scale_base is None else []
    return rotary_notes(params) + idle


def _state_bytes(params: ApplyRope, inputs: Inputs) -> int:
    """cos and sin of every position in the widest number format; with xPos for queries and for keys."""
    listed = [inputs[name].size for name in ("positions", "from_positions") if name in inputs]
    rows = max(listed, default=_rows_of(params, inputs["q"].shape).length)
    return (2 if params.xpos_scale_base is None else 4) * 8 * rows * table_width(params, inputs["q"].shape[-1])


DESCRIPTION = f"""\
Turns each pair of channels of q (and k) at position p by `p * w_k`, `w_k = base^(-2k/rotary_dim)`. With
c = A cos(p w_k), s = A sin(p w_k) and h = rotary_dim/2:

- `pairing=half`: `y_k = x_k c - x_(k+h) s`, `y_(k+h) = x_(k+h) c + x_k s`
- `pairing=interleaved`: `y_2k = x_2k c - x_(2k+1) s`, `y_(2k+1) = x_(2k+1) c + x_2k s`

`angle_sign=negative` has -s for s. Channels that do not turn pass through; the **channel order** stays as it came, but
for `output_pairing`, which puts y where that pairing has it (`direction=inverse` with the two exchanged undoes that).
Two axes are (length, dim); more are (…, heads, length, dim), or (…, length, heads, dim) with `axes=length-heads`; k may
have fewer heads than q. cos and sin are rounded once to `table_dtype`, the two products and their sum each to
`compute_dtype`, the answer to `dtype`: all of them the number format of the vectors unless said otherwise.

`direction=shift` turns what stands at p0 to p, by (p - p0) w_k and without A: a cached key after a context shift, equal
to the key turned at p but for the roundings of both.

{FORMULAS}

The body is JSON, one `.npy` (q) or a safetensors file with `q`, `k` and, if you like, `positions`."""

SCHEME: Scheme[ApplyRope, Turn] = Scheme(
    pasted=ROPE_BLOCK,
    family="apply",
    name="rope",
    title="RoPE applied to queries and keys",
    explanation=(
        "Your queries and keys, turned as attention layers turn them. Turn the same vector at two positions and "
        "compare: the length stays, the direction moves."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, section 3.2",
    params=ApplyRope,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    resolve=_resolve,
    state_bytes=_state_bytes,
    inputs=(
        Input("q", "Queries: (…, heads, length, dim), (length, dim) or (dim)."),
        Input("k", "Keys: the same length and dim, any number of heads.", required=False),
        VECTOR_POSITIONS,
        FROM_POSITIONS,
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
        Example(
            "A cached key moved from position 100 to 36",
            {"direction": "shift", "from_offset": "100", "offset": "36"},
            {"tensors": {"q": [1, 2, 3, 4]}},
        ),
        Example(
            "DeepSeek V3: pairs of neighbours in, halves out",
            {"pairing": "interleaved", "output_pairing": "half", "offset": "5"},
            {"tensors": {"q": [1, 2, 3, 4]}},
        ),
        Example(
            "Positions over four, as a pasted block says",
            {"offset": "8"},
            {"tensors": {"q": [1, 2, 3, 4]}, "rope_scaling": {"type": "linear", "factor": 4.0}},
        ),
    ),
    used_by=(
        Usage("Llama, Mistral, Qwen, Gemma and most models in Hugging Face form", {"pairing": "half"}),
        Usage("GPT-J, CodeGen (rotary_dim 64)", {"pairing": "interleaved", "rotary_dim": "64"}, preset="gptj"),
        *ROTATIONS,
        *TURNED_ON_ONE_AXIS,
    ),
    properties={"learned parameters": "none", "norm": "kept, times the attention factor"},
)
