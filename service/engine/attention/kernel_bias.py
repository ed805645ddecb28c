"""KERPLE's bias, for tables and for sums: kernels of the distance with two learned numbers a head."""

from math import log1p
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.relative import write_faithfully
from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.logarithms import exact, log1p_product, power
from service.engine.numbers.pairs import Floats, Pair, multiply
from service.engine.quantities import PerHead
from service.engine.scheme import Array, Inputs, Params

LEAST_LOGARITHMIC = 1e-6


class Kernel(Params):
    """Parameters of the bias, apart from its sizes."""

    form: Annotated[
        Literal["log", "power"],
        Field(description="`log`: -r1 ln(1 + r2 |i - j|); `power`: -r1 |i - j|^r2, r2 at most 2."),
    ] = "log"
    r1: Annotated[PerHead, Field(description="The learned factor, one a head, comma-separated (p in GPT-NeoX's log).")]
    r2: Annotated[PerHead, Field(description="The learned scale, or the exponent, one a head (a in GPT-NeoX's log).")]


def _refuse_numbers(params: Kernel, heads: int) -> None:
    if len(params.r1) != heads:
        raise Refusal(
            "r1",
            "shape",
            f"r1 has {len(params.r1)} entries, and the scores have {heads} heads; each head needs one",
            limit=heads,
            requested=len(params.r1),
        )
    if len(params.r2) != heads:
        raise Refusal(
            "r2", "shape", f"r2 has {len(params.r2)} entries and r1 has {heads}; each head needs one of either"
        )
    if params.form == "power" and max(params.r2) > 2:
        raise Refusal(
            "r2",
            "out_of_range",
            f"r2 holds {max(params.r2):g}; form=power is a kernel for exponents up to 2",
            limit=2,
            requested=max(params.r2),
        )
    if params.form == "log" and min(params.r2) < LEAST_LOGARITHMIC:
        raise Refusal(
            "r2",
            "out_of_range",
            f"r2 holds {min(params.r2):g}; form=log takes {LEAST_LOGARITHMIC:g} or more",
            limit=LEAST_LOGARITHMIC,
            requested=min(params.r2),
        )


def _check(params: Kernel, _inputs: Inputs, place: Place) -> None:
    _refuse_numbers(params, place.heads)
    farthest = float(place.size.largest_distance)
    falls = (log1p(b * farthest) if params.form == "log" else farthest**b for b in params.r2)
    refuse_overflow(max(a * fall for a, fall in zip(params.r1, falls, strict=True)), place.dtype, "the bias")


def _bias(params: Kernel, heads: slice, distances: Floats) -> Pair:
    r1, r2 = (np.array(of[heads], np.float64)[:, None] for of in (params.r1, params.r2))
    if params.form == "log":
        fall = log1p_product(r2, distances[None])
    else:
        fall = power(*np.broadcast_arrays(np.maximum(distances, 1.0)[None], r2))
    return multiply(exact(-r1), fall)


def _prepare(params: Kernel, _inputs: Inputs, place: Place) -> Write:
    def write(start: int, out: Array) -> None:
        write_faithfully(lambda *at: _bias(params, *at), place.heads, place.size, start, out)

    return write


BIAS: Bias[Kernel] = Bias(check=_check, prepare=_prepare)
