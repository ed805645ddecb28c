"""Which channels of a head turn."""

from typing import Annotated, Literal

from pydantic import Field

from service.engine.errors import Refusal
from service.engine.quantities import PartialRotaryFactor, RotaryDim
from service.engine.scheme import Params

RotaryChannels = Annotated[
    Literal["first", "last"],
    Field(description="Which `rotary_dim` channels of a head turn: the `first`, or the `last` (DeepSeek V4, MLA)."),
]


class RotaryWidth(Params):
    """How many channels of a head turn: `rotary_dim`, or a share of them; all unless said otherwise."""

    rotary_dim: RotaryDim | None = None
    partial_rotary_factor: PartialRotaryFactor | None = None


def rotary_width(params: RotaryWidth, dim: int) -> int:
    """How many of the channels turn: all, `rotary_dim`, or int(dim * partial_rotary_factor).

    >>> rotary_width(RotaryWidth(partial_rotary_factor=0.4), 80)
    32
    """
    if params.rotary_dim is not None and params.partial_rotary_factor is not None:
        raise Refusal(
            "partial_rotary_factor",
            "conflict",
            "rotary_dim and partial_rotary_factor say the same thing twice; give one of them",
        )
    name, width = "dim", dim
    if params.rotary_dim is not None:
        name, width = "rotary_dim", params.rotary_dim
    elif params.partial_rotary_factor is not None:
        name, width = "partial_rotary_factor", int(dim * params.partial_rotary_factor)
    if width > dim:
        raise Refusal(name, "out_of_range", f"rotary_dim is {width}; the head has {dim} channels", limit=dim)
    if width < 2 or width % 2:
        detail = f"{name} makes the rotated width {width}; channels turn in pairs, so it must be even and at least 2"
        if name == "partial_rotary_factor" and 1 < width < dim:
            # What transformers makes of it, as `left_out` tells.
            detail += f": rotary_dim={width - 1} or {width + 1} would do (transformers turns {width + 1}, by "
            detail += f"base^(-2k/{width}): give those as rope_type=frequencies)"
        raise Refusal(name, "odd" if width % 2 else "out_of_range", detail)
    return width
