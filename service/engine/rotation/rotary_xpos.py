"""xPos of a rotary table: where its centre lies, and the positions that it cannot reach."""

from typing import TypeVar

from service.engine.errors import Refusal
from service.engine.positions import Values, Where
from service.engine.rotation.rotary import Rotary, amplitude, decay_of
from service.engine.rotation.xpos import Role, refuse_far
from service.engine.scheme import altered

Q = TypeVar("Q", bound=Rotary)


def centred(params: Q, length: int) -> Q:
    """The parameters with the centre of xPos filled in, for so many positions.

    >>> centred(Rotary(xpos_scale_base=512, xpos_centering="middle"), 9).xpos_center
    4.0
    """
    middles = {"middle": length // 2, "middle-up": (length + 1) // 2}
    known = params.xpos_center
    if known is None and params.xpos_scale_base is not None:
        known = float(middles.get(params.xpos_centering or "zero", 0))
    return altered(params, {"xpos_center": known, "xpos_centering": None})


def refuse_far_xpos(params: Rotary, width: int, at: Values, dtype: str, role: Role, direction: str = "forward") -> None:
    """Refuse positions where the factors of xPos leave the range, and arithmetics that have none."""
    decay = decay_of(params, width, role, direction)
    if decay is None:
        return
    if params.arithmetic == "ggml":
        raise Refusal("xpos_scale_base", "conflict", "llama.cpp has no xPos: arithmetic=exact or float32 would do")
    refuse_far(decay, Where((len(at),), at).ends, float(amplitude(params, width, direction)), dtype)
