"""Attention temperature by its formulas: floors of whole numbers, logarithms at a hundred digits."""

from typing import Any

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS

DEFAULTS: dict[str, dict[str, Any]] = {
    "llama4": {"floor_scale": 8192, "attn_scale": 0.1},
    "ministral3": {"floor_scale": 16384, "attn_scale": 0.1},
    "inkling2": {"floor_scale": 128_000, "attn_scale": 0.1},
    "beam": {"floor_scale": 2048, "attn_scale": 0.1},
    "log-n": {"floor_scale": 2048, "attn_scale": None},
    "ssmax": {"floor_scale": None, "attn_scale": 0.43},
}


def factor(schedule: str, position: int, **knobs: Any) -> mpf:
    """What the query at a position is multiplied with.

    >>> float(factor("llama4", 8191, attn_scale=1.0))
    1.6931471805599454
    """
    length, scale = (DEFAULTS[schedule] | knobs).values()
    with mpmath.workprec(PRECISION_BITS):
        if schedule == "log-n":
            return mpmath.log(position + 1) / mpmath.log(length) if position + 1 > length else mpf(1)
        if schedule == "inkling2":
            return 1 + mpf(scale) * mpmath.log(max(mpf(position + 1) / length, mpf(1)))
        if schedule == "beam":
            return (1 + mpf(position + 1) / length) ** mpf(scale)
        if schedule == "ssmax":
            return mpf(scale) * mpmath.log(position + 1)
        steps = (position + 1) // length if schedule == "llama4" else position // length
        return 1 + mpf(scale) * mpmath.log(1 + steps)
