"""RoPE with mixed axes applied to the caller's queries and keys, by learned frequencies."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import prod

import numpy as np

from service.engine.arithmetics import float32_notes
from service.engine.errors import Refusal
from service.engine.rotation.rope_mixed import (
    FORMULA,
    FREQUENCIES,
    REFERENCE,
    MixedRule,
    each_its_own,
    frequencies_of,
    points_of,
    state_bytes,
    usages,
    writers_of,
)
from service.engine.rotation.rotary import pair_members
from service.engine.rotation.shifts import FROM_POSITIONS, Directed, distances_on_axes
from service.engine.rotation.turning import (
    Axes,
    Channels,
    Factors,
    Table,
    TurnedIn,
    formats_of,
    queries_and_keys,
    turned_rows,
    turned_tensors,
    vector_rows,
)
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensors
from service.engine.vectors import Rows, SameDType, refuse_odd_shapes, refuse_overflow


class ApplyRopeMixed(MixedRule, Directed, TurnedIn):
    """Parameters of `apply/rope-mixed`."""

    axes: Axes = "heads-length"
    dtype: SameDType = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The channels that turn, and the tables by number format."""

    channels: Channels
    tables: Mapping[str, Table]


def _check(params: ApplyRopeMixed, given: Inputs) -> Inputs:
    """The arrays with the distances that vectors turn by; refuses what cannot be turned."""
    heads, axes, pairs = frequencies_of(given).shape
    inputs = distances_on_axes(params, given)
    points = points_of(inputs, axes)
    for name, array in queries_and_keys(given).items():
        refuse_odd_shapes(name, array, 3 if each_its_own(given) else 2, "(…, heads, length, dim) or (length, dim)")
        for dtype in formats_of(params, params.dtype, array)[1:]:
            refuse_overflow(name, array, dtype)
        if array.shape[-1] != given["q"].shape[-1]:
            detail = f"{name} has heads of {array.shape[-1]} channels and q of {given['q'].shape[-1]}; make them equal"
            raise Refusal(f"/tensors/{name}", "shape", detail)
        if 2 * pairs > array.shape[-1]:
            detail = f"frequencies has {pairs} pairs; heads of {array.shape[-1]} channels have {array.shape[-1] // 2}"
            raise Refusal("/tensors/frequencies", "shape", detail, limit=array.shape[-1] // 2, requested=pairs)
        _refuse_places(params, name, array, heads if each_its_own(given) else None, points.shape)
    return inputs


def _refuse_places(params: ApplyRopeMixed, name: str, array: Array, heads: int | None, places: tuple[int, ...]) -> None:
    """Refuse vectors for which there are other positions or other heads."""
    length = vector_rows(params.axes, array.shape).length
    # (1, length, axes), as position ids often come, is one list for the whole batch.
    if prod(places[:-1]) != length or places[-2] != length:
        detail = f"there are positions for {places[:-1]}; {name} {array.shape} has {length} along its length axis"
        raise Refusal("/positions", "shape", detail)
    had = None if heads is None else array.shape[-3 if params.axes == "heads-length" else -2]
    if had != heads:
        detail = f"frequencies are for {heads} heads; {name} {array.shape} has {had}"
        raise Refusal("/tensors/frequencies", "shape", detail, limit=had, requested=heads)


def _rows_of(params: ApplyRopeMixed, inputs: Inputs, array: Array) -> Rows:
    """Where the rows of the vectors lie in a table: one row for each head and position, where heads differ."""
    if not each_its_own(inputs):
        return vector_rows(params.axes, array.shape)
    *batch, one, other, dim = array.shape
    return Rows((*batch, one * other, dim), len(batch))


def _tensors(params: ApplyRopeMixed, inputs: Inputs) -> Tensors:
    _check(params, inputs)
    return turned_tensors(inputs, params.axes, params.dtype)


def _prepare(params: ApplyRopeMixed, given: Inputs) -> Turn:
    inputs = _check(params, given)
    _, axes, pairs = frequencies_of(inputs).shape
    points = points_of(inputs, axes).reshape(-1, axes)
    members = pair_members(params.pairing, 2 * pairs)
    dtypes = {formats_of(params, params.dtype, array).table for array in queries_and_keys(inputs).values()}
    writers = writers_of(params, inputs)
    tables = {}
    for dtype in dtypes:
        waves = np.empty((2, len(writers), len(points), pairs), DTYPES[dtype])
        for head, write in enumerate(writers):
            write(points, waves[0, head], waves[1, head])
        if params.axes == "length-heads":
            waves = waves.swapaxes(1, 2)
        tables[dtype] = _table(waves.reshape(2, -1, pairs), members, params.direction)
    return Turn(Channels(members, members), tables)


def _table(waves: Array, members: tuple[slice, slice], direction: str) -> Table:
    """Full-width rows of cosines and signed sines."""
    _, rows, pairs = waves.shape
    table = Table(np.empty((rows, 2 * pairs), waves.dtype), np.empty((rows, 2 * pairs), waves.dtype))
    first, second = members if direction != "inverse" else members[::-1]
    for each in members:
        table.cos[:, each] = waves[0]
    table.sin[:, second] = waves[1]
    np.negative(waves[1], out=table.sin[:, first])
    return table


def _rows(params: ApplyRopeMixed, inputs: Inputs, state: Turn, tensor: str, start: int, stop: int) -> Array:
    array = inputs[tensor]
    formats = formats_of(params, params.dtype, array)
    of = _rows_of(params, inputs, array)
    factors = Factors(Decimal(1))
    return turned_rows(array, of, state.tables[formats.table], state.channels, formats, factors, start, stop)


def _facts(_params: ApplyRopeMixed, inputs: Inputs) -> Facts:
    return {"rotary_dim": 2 * frequencies_of(inputs).shape[2]}


def _notes(params: ApplyRopeMixed, _inputs: Inputs) -> list[str]:
    return float32_notes(params.arithmetic)


def _state_bytes(_params: ApplyRopeMixed, inputs: Inputs) -> int:
    """The frequencies, and cos and sin of every position in the widest number format, twice over on the way."""
    heads, axes, pairs = frequencies_of(inputs).shape
    places = prod(inputs["positions"].shape) // axes
    table_bytes: int = 4 * 8 * heads * 2 * pairs * places
    return state_bytes(inputs) + table_bytes


DESCRIPTION = f"""\
{FORMULA}

With c and s the cosine and sine of a pair's angle, `y = x c - x' s` for its first channel and `y = x c + x' s` for its
second, x' being the other member. Channels beyond the pairs pass through; the **channel order** stays as it came. Two
axes are (length, dim); more are (…, heads, length, dim), or (…, length, heads, dim) with `axes=length-heads`. Where
each head has frequencies of its own, q and k both have so many heads. cos and sin are rounded once to `table_dtype`,
the two products and their sum each to `compute_dtype`, the answer to `dtype`: all of them the number format of the
vectors unless said otherwise. `direction=inverse` undoes it; `direction=shift` turns what stands at `from_positions`
to `positions`."""

SCHEME: Scheme[ApplyRopeMixed, Turn] = Scheme(
    family="apply",
    name="rope-mixed",
    title="RoPE with mixed axes applied to queries and keys, by learned frequencies",
    explanation="Your queries and keys of an image or a video, turned by the frequencies that the model has learned.",
    description=DESCRIPTION,
    reference=REFERENCE,
    params=ApplyRopeMixed,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    state_bytes=_state_bytes,
    inputs=(
        Input("q", "Queries: (…, heads, length, dim) or (length, dim)."),
        FREQUENCIES,
        Input("positions", "Positions along the length axis, one for each axis: (length, axes)."),
        Input("k", "Keys: the same length and dim.", required=False),
        FROM_POSITIONS,
    ),
    examples=(
        Example(
            "Queries and keys, two positions on two axes",
            {},
            {
                "tensors": {
                    "q": [[1, 2, 3, 4], [5, 6, 7, 8]],
                    "k": [[1, 0, 0, 1], [0, 1, 1, 0]],
                    "frequencies": [[1, 0.5], [0.25, -1]],
                },
                "positions": [[1, 0], [1, 2]],
            },
        ),
        Example(
            "Turned back",
            {"direction": "inverse", "pairing": "half"},
            {"tensors": {"q": [[1, 2, 3, 4]], "frequencies": [[1, 0.5], [0.25, -1]]}, "positions": [[1, 2]]},
        ),
    ),
    used_by=usages(table_dtype="float32"),
    properties={"learned parameters": "the caller's frequencies", "norm": "kept"},
)
