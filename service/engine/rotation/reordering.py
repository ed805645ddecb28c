"""The order of a head's channels, and of a projection's rows, under another pairing of RoPE."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.quantities import HeadDim, Heads, Pairing
from service.engine.rotation.rotary import pair_members
from service.engine.rotation.rotary_width import RotaryChannels, RotaryWidth, rotary_width

Indices = NDArray[np.intp]


class Reordered(RotaryWidth):
    """Parameters of a change of pairings in a projection's rows."""

    dim: HeadDim
    pairing: Pairing = "interleaved"
    output_pairing: Pairing = "half"
    rotary_channels: RotaryChannels = "first"
    projection: Annotated[
        Literal["separate", "q-k-v", "grouped"],
        Field(
            description="What the rows are: `separate` heads of queries or of keys; `q-k-v` all heads of queries, then "
            "of keys, then of values (Phi-3, GLM); `grouped` for each head of keys its queries, itself and its values "
            "(GPT-NeoX, Falcon, InternLM2). Values stay."
        ),
    ] = "separate"
    kv_heads: Annotated[
        Heads | None, Field(description="Heads of keys, and of values, where the projection holds them too (heads).")
    ] = None


def order_of_head(params: Reordered) -> Indices:
    """Where each channel of a head lies in what is given.

    >>> order_of_head(Reordered(dim=6, rotary_dim=4, rotary_channels="last")).tolist()
    [0, 1, 2, 4, 3, 5]
    """
    width, order = rotary_width(params, params.dim), np.arange(params.dim)
    start = params.dim - width if params.rotary_channels == "last" else 0
    turning = order[start : start + width]
    source = turning.copy()
    given, wanted = pair_members(params.pairing, width), pair_members(params.output_pairing, width)
    turning[wanted[0]], turning[wanted[1]] = source[given[0]], source[given[1]]
    return order


def turning_heads(params: Reordered, heads: int, kv_heads: int) -> NDArray[np.bool_]:
    """Which heads of a projection turn, in their order: those of queries and keys, not those of values.

    >>> turning_heads(Reordered(dim=2, projection="grouped"), 4, 2).tolist()
    [True, True, True, False, True, True, True, False]
    """
    if params.projection == "separate":
        return np.ones(heads, np.bool_)
    if params.projection == "q-k-v":
        return np.arange(heads + 2 * kv_heads) < heads + kv_heads
    group = heads // kv_heads + 2
    return np.arange(group * kv_heads) % group < group - 1


def order_of_rows(params: Reordered, turning: NDArray[np.bool_]) -> Indices:
    """Where each row of a projection lies in what is given, head by head."""
    order: Indices = np.where(turning[:, None], order_of_head(params), np.arange(params.dim))
    order += np.arange(len(turning))[:, None] * params.dim
    return order.reshape(-1)
