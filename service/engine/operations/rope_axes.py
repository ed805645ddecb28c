"""RoPE on several axes applied to the caller's queries and keys (M-RoPE, vision towers, video models)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import WIDEST
from service.engine.rotation.rope_axes import (
    amplitude_of,
    facts_of,
    fastest_of,
    filled_in,
    notes_of,
    placed,
    positions_along,
    refuse_format,
    waves_of,
    write_axis,
)
from service.engine.rotation.rope_axes_rotations import ROTATIONS
from service.engine.rotation.rope_block import AXES_BLOCK
from service.engine.rotation.rope_formulas import SCALING
from service.engine.rotation.rope_sections import (
    AxesPairing,
    RopeAxes,
    RopeAxesRule,
    channel_columns,
    letters_of,
    members_of,
    on_one_axis,
    rotated,
    sections_of,
)
from service.engine.rotation.rope_usages import TURNED
from service.engine.rotation.rotary import amplitude_in, pair_members
from service.engine.rotation.rotary_width import RotaryChannels
from service.engine.rotation.shifts import FROM_POSITIONS, Directed, distances_on_axes
from service.engine.rotation.turning import (
    Axes,
    Channels,
    Factors,
    Members,
    Table,
    Turned,
    factors_of,
    formats_of,
    queries_and_keys,
    turned_rows,
    turned_tensors,
    vector_rows,
)
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensors
from service.engine.vectors import SameDType, refuse_odd_shapes, refuse_overflow


class ApplyRopeAxes(RopeAxesRule, Directed, Turned):
    """Parameters of `apply/rope-axes`."""

    axes: Axes = "heads-length"
    output_pairing: Annotated[
        AxesPairing | None,
        Field(description="Where the turned pairs go: into the channels they came from, unless given."),
    ] = None
    rotary_channels: RotaryChannels = "first"
    turning: Annotated[
        Literal["pairs", "neighbours"],
        Field(
            description="Which channels turn by the tables: the `pairs` of the pairing; or `neighbours` 2k with 2k + 1 "
            "whatever the tables are in (V-JEPA 2, with pairing=half-per-axis: no rotation)."
        ),
    ] = "pairs"
    dtype: SameDType = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The channels that turn, how many leading axes have positions of their own, and the table by number format."""

    channels: Channels
    batches: int
    tables: Mapping[str, Table]
    factors: Factors


def _rule(params: ApplyRopeAxes, inputs: Inputs) -> RopeAxes:
    """The rotation of heads as wide as the queries."""
    given = {name: getattr(params, name) for name in RopeAxesRule.model_fields}
    return RopeAxes(dim=inputs["q"].shape[-1], **given)


def _check(params: ApplyRopeAxes, given: Inputs) -> tuple[RopeAxes, Inputs]:
    """The rotation and the distances that vectors turn by; refuses what cannot be turned."""
    for name, array in queries_and_keys(given).items():
        refuse_odd_shapes(name, array, 2, "(…, heads, length, dim) or (length, dim)")
        for dtype in formats_of(params, params.dtype, array)[1:]:
            refuse_overflow(name, array, dtype)
        if array.shape[-1] != given["q"].shape[-1]:
            detail = f"{name} has heads of {array.shape[-1]} channels and q of {given['q'].shape[-1]}; make them equal"
            raise Refusal(f"/tensors/{name}", "shape", detail)
    if not 2 <= given["q"].shape[-1] <= WIDEST:
        detail = f"q has heads of {given['q'].shape[-1]} channels; 2 to {WIDEST} will do"
        raise Refusal("/tensors/q", "shape", detail, limit=WIDEST)
    rule, inputs = _rule(params, given), distances_on_axes(params, given)
    channel_columns(rule)
    fastest_of(rule, placed(rule, inputs).grid)
    for array in queries_and_keys(given).values():
        refuse_format(rule, inputs, formats_of(params, params.dtype, array).table)
    amplitude_of(rule, params.direction)
    _refuse_output_pairing(params)
    _batches(params, rule, inputs)
    return rule, inputs


def _refuse_output_pairing(params: ApplyRopeAxes) -> None:
    if params.turning == "neighbours" and params.output_pairing is not None:
        raise Refusal("output_pairing", "conflict", "turning=neighbours leaves channels where they are")
    if params.output_pairing == "half-per-axis" and params.section_rule != "chunked":
        detail = f"output_pairing=half-per-axis needs section_rule=chunked; it is {params.section_rule}"
        raise Refusal("output_pairing", "conflict", detail)


def _batches(params: ApplyRopeAxes, rule: RopeAxes, inputs: Inputs) -> int:
    """How many leading axes of the vectors have positions of their own; refuses positions that do not fit."""
    shape = placed(rule, inputs).where.shape
    # (1, length, axes), as position ids often come, is one list for the whole batch.
    shape = shape if prod(shape[:-1]) > 1 else shape[-1:]
    pointer = "/positions" if "positions" in inputs else "grid"
    for name, array in queries_and_keys(inputs).items():
        of = vector_rows(params.axes, array.shape)
        wanted = (*array.shape[: len(shape) - 1], of.length)
        if len(shape) - 1 > of.length_axis or shape != wanted:
            detail = f"there are positions for {shape}; {name} {array.shape} has {of.length} along its length axis"
            raise Refusal(pointer, "shape", detail)
    return len(shape) - 1


def _tensors(params: ApplyRopeAxes, inputs: Inputs) -> Tensors:
    _check(params, inputs)
    return turned_tensors(inputs, params.axes, params.dtype)


def _prepare(params: ApplyRopeAxes, given: Inputs) -> Turn:
    rule, inputs = _check(params, given)
    channels = _channels(params, rule)
    dtypes = {formats_of(params, params.dtype, array).table for array in queries_and_keys(inputs).values()}
    tables = {dtype: _table(params, rule, inputs, channels.wanted, dtype) for dtype in dtypes}
    return Turn(channels, _batches(params, rule, inputs), tables, _factors(params, rule))


def _channels(params: ApplyRopeAxes, rule: RopeAxes) -> Channels:
    width = rotated(rule)
    start = rule.dim - width if params.rotary_channels == "last" else 0
    if params.turning == "neighbours":
        neighbours = pair_members("interleaved", width)
        return Channels(neighbours, neighbours, start)
    given = members_of(rule, width)
    return Channels(given, members_of(_turned(params, rule), width) if _moves(params) else given, start)


def _factors(params: ApplyRopeAxes, rule: RopeAxes) -> Factors:
    return factors_of(params, amplitude_of(rule, params.direction), params.direction)


def _moves(params: ApplyRopeAxes) -> bool:
    """Whether turned pairs go into other channels than they came from."""
    return params.output_pairing not in (None, params.pairing)


def _turned(params: ApplyRopeAxes, rule: RopeAxes) -> RopeAxes:
    """The rule whose tables have the pairs where they go."""
    return rule.model_copy(update={"pairing": params.output_pairing}) if _moves(params) else rule


def _table(params: ApplyRopeAxes, rule: RopeAxes, inputs: Inputs, members: Members, dtype: str) -> Table:
    places = placed(rule, inputs)
    rows, width = prod(places.where.shape), rotated(rule)
    table = Table(np.empty((rows, width), DTYPES[dtype]), np.empty((rows, width), DTYPES[dtype]))
    columns, factor = channel_columns(_turned(params, rule)), _factors(params, rule).tables
    for waves in waves_of(rule, columns, places.grid, factor, dtype):
        at = positions_along(rule, inputs, waves.axis, 0, rows)
        write_axis(waves, at, {"cos": table.cos, "sin": table.sin})
    back = members[1] if params.direction == "inverse" else members[0]
    table.sin[:, back] = -table.sin[:, back]
    if params.attention_on == "rounded-tables":
        table.times(amplitude_in(on_one_axis(rule), width, params.direction, dtype))
    return table


def _rows(params: ApplyRopeAxes, inputs: Inputs, state: Turn, tensor: str, start: int, stop: int) -> Array:
    array = inputs[tensor]
    of = vector_rows(params.axes, array.shape, state.batches)
    formats = formats_of(params, params.dtype, array)
    return turned_rows(array, of, state.tables[formats.table], state.channels, formats, state.factors, start, stop)


def _facts(params: ApplyRopeAxes, inputs: Inputs) -> Facts:
    rule = _rule(params, inputs)
    return {**facts_of(rule), "axes_of_channels": letters_of(channel_columns(rule), len(sections_of(params)))}


def _resolve(params: ApplyRopeAxes, inputs: Inputs) -> ApplyRopeAxes:
    more = {"output_pairing": params.output_pairing or params.pairing} if params.turning == "pairs" else {}
    return params.model_copy(update={**filled_in(_rule(params, inputs)), **more})


def _notes(params: ApplyRopeAxes, inputs: Inputs) -> list[str]:
    notes = notes_of(_rule(params, inputs), inputs)
    if params.turning == "neighbours":
        notes.append("turning=neighbours is no rotation unless neighbours share an angle")
    return notes


def _state_bytes(params: ApplyRopeAxes, inputs: Inputs) -> int:
    """cos and sin of every position in the widest number format, and what is made on the way."""
    rule = _rule(params, inputs)
    return 4 * 8 * prod(placed(rule, inputs).where.shape) * rotated(rule)


DESCRIPTION = f"""\
Turns the channels of q (and k) by the tables of `encodings/rope-axes`: with c and s the cosine and sine of a channel,
times A,

- of a pair's first channel: `y = x c - x' s`, of its second: `y = x c + x' s`, x' being the other member.

The positions are a `grid` in the query, or `positions` in the body, (length, axes) or one such list for each entry of
the leading axes. Channels that do not turn pass through, and the **channel order** stays as it came, but for
`output_pairing`, which puts y where that pairing has it. Two axes are (length, dim); more are (…, heads, length, dim),
or (…, length, heads, dim) with `axes=length-heads`; k may have fewer heads than q. cos and sin are rounded once to
`table_dtype`, the two products and their sum each to `compute_dtype`, the answer to `dtype`: all of them the number
format of the vectors unless said otherwise.

`direction=shift` turns what stands at `from_positions` to `positions`, by their difference and without A: cached keys
after a context shift.

{SCALING}"""

SCHEME: Scheme[ApplyRopeAxes, Turn] = Scheme(
    pasted=AXES_BLOCK,
    family="apply",
    name="rope-axes",
    title="RoPE on several axes applied to queries and keys",
    explanation=(
        "Your queries and keys of an image, a video or mixed text, turned along several axes as the model does it."
    ),
    description=DESCRIPTION,
    reference="Wang et al., Qwen2-VL, 2024 (M-RoPE); Heo et al., Rotary Position Embedding for ViT, 2024",
    params=ApplyRopeAxes,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    resolve=_resolve,
    state_bytes=_state_bytes,
    inputs=(
        Input("q", "Queries: (…, heads, length, dim) or (length, dim)."),
        Input("k", "Keys: the same length and dim, any number of heads.", required=False),
        Input(
            "positions",
            "Positions along the length axis, one for each axis: (length, axes), or such a list for each entry of the "
            "leading axes.",
            required=False,
        ),
        FROM_POSITIONS,
    ),
    examples=(
        Example(
            "Two positions on two axes",
            {"sections": "1,1"},
            {"tensors": {"q": [[1, 2, 3, 4], [5, 6, 7, 8]]}, "positions": [[0, 1], [2, 0]]},
        ),
        Example(
            "M-RoPE with YaRN, as a pasted block says",
            {"sections": "1,1"},
            {
                "tensors": {"q": [[1, 2, 3, 4]]},
                "positions": [[3, 5]],
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
        ),
        Example(
            "Turned back, keys too",
            {"sections": "1,1", "direction": "inverse"},
            {"tensors": {"q": [[1, 2, 3, 4]], "k": [[1, 0, 0, 1]]}, "positions": [[3, 5]]},
        ),
    ),
    used_by=(*ROTATIONS, *TURNED),
    properties={"learned parameters": "none", "norm": "kept, but for doubled sections and neighbours"},
)
