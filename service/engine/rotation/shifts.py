"""How far vectors turn: to their positions, back from them, or from one position to another (context shift)."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.arithmetics import as_float64
from service.engine.errors import Refusal
from service.engine.positions import Values, as_positions, consecutive
from service.engine.quantities import Offset
from service.engine.scheme import Input, Inputs, Params
from service.engine.vectors import Placed, Rows, placed_rows, positions_of

FROM_POSITIONS = Input(
    "from_positions",
    "direction=shift: the positions that the vectors stand at already, as `positions` has those they go to.",
    required=False,
)
ShiftDirection = Annotated[
    Literal["forward", "inverse", "shift"],
    Field(
        description="`forward` turns by p w_k, times A; `inverse` undoes it; `shift` takes vectors that are turned "
        "already (cached keys) from where they stand to where they go: by the difference, without A."
    ),
]


class Directed(Params):
    """Parameters that say which way vectors turn."""

    direction: ShiftDirection = "forward"


class Shifted(Directed, Placed):
    """Parameters that say where vectors go, and where from."""

    from_offset: Annotated[
        Offset, Field(description="direction=shift: the position that the first row stands at already.")
    ] = 0


def distances_of(params: Shifted, inputs: Inputs, rows: Mapping[str, Rows]) -> tuple[Values, int]:
    """By how many positions the rows of every array turn, and how many leading axes have their own.

    >>> cached = {"k": Rows((3, 8), length_axis=0)}
    >>> distances_of(Shifted(direction="shift", from_offset=7), {}, cached)
    (array([-7., -7., -7.]), 0)
    """
    to, batches = positions_of(params, inputs, rows)
    if params.direction != "shift":
        _refuse_origins(params, inputs)
        return to, batches
    start, own = _origins(params, inputs, rows)
    if batches and own and batches != own:
        detail = f"positions are for {batches} leading axes and from_positions for {own}; they must agree"
        raise Refusal("/tensors/from_positions", "shape", detail)
    length = next(iter(rows.values())).length
    difference = as_float64(to).reshape(-1, length) - start.reshape(-1, length)
    return as_positions(difference.reshape(-1), "positions"), max(batches, own)


def _origins(params: Shifted, inputs: Inputs, rows: Mapping[str, Rows]) -> tuple[NDArray[np.float64], int]:
    if "from_positions" not in inputs:
        length = next(iter(rows.values())).length
        return as_float64(consecutive(params.from_offset, length).values), 0
    if params.from_offset:
        raise Refusal("from_offset", "conflict", "from_offset and from_positions exclude each other; give one of them")
    return placed_rows(inputs["from_positions"], "/tensors/from_positions", rows)


def _refuse_origins(params: Shifted, inputs: Inputs) -> None:
    for name, given, pointer in (
        ("from_offset", bool(params.from_offset), "from_offset"),
        ("from_positions", "from_positions" in inputs, "/tensors/from_positions"),
    ):
        if given:
            detail = f"{name} is where a shift begins, and direction is {params.direction}: direction=shift would do"
            raise Refusal(pointer, "conflict", detail)


def distances_on_axes(params: Directed, inputs: Inputs) -> Inputs:
    """The arrays with the positions on several axes that vectors turn by: where they go, less where they stand."""
    if params.direction != "shift":
        if "from_positions" in inputs:
            detail = f"from_positions is where a shift begins, and direction is {params.direction}: shift would do"
            raise Refusal("/tensors/from_positions", "conflict", detail)
        return inputs
    for name, pointer in (("positions", "/positions"), ("from_positions", "/tensors/from_positions")):
        if name not in inputs:
            raise Refusal(pointer, "missing", f"{name} is missing: direction=shift needs positions and from_positions")
    to = as_positions(inputs["positions"], "/positions")
    start = as_positions(inputs["from_positions"], "/tensors/from_positions")
    if to.shape != start.shape:
        detail = f"from_positions have the shape {start.shape} and positions {to.shape}; they must be equal"
        raise Refusal("/tensors/from_positions", "shape", detail)
    return {**inputs, "positions": as_positions(to - start, "/positions")}
