"""KERPLE: biases that fall with the logarithm, or a power, of the distance (Chi et al., 2022)."""

from math import log1p
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.logarithms import exact, log1p_product, power
from service.engine.pairs import Floats, Pair, multiply
from service.engine.quantities import DType, PerHead
from service.engine.relative import QueryKey, resolved, sizes, write_faithfully
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage
from service.engine.scores import refuse_uncountable

LEAST_LOGARITHMIC = 1e-6


class Kerple(QueryKey):
    """Parameters of `biases/kerple`."""

    form: Annotated[
        Literal["log", "power"],
        Field(description="`log`: -r1 ln(1 + r2 |i - j|); `power`: -r1 |i - j|^r2, r2 at most 2."),
    ] = "log"
    r1: Annotated[PerHead, Field(description="The learned factor, one a head, comma-separated (p in GPT-NeoX's log).")]
    r2: Annotated[PerHead, Field(description="The learned scale, or the exponent, one a head (a in GPT-NeoX's log).")]
    dtype: DType = "float32"


def _check(params: Kerple) -> None:
    heads = len(params.r1)
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


def _tensors(params: Kerple, _inputs: Inputs) -> Tensors:
    _check(params)
    size = sizes(params)
    refuse_uncountable(size)
    farthest = float(size.largest_distance)
    falls = (log1p(b * farthest) if params.form == "log" else farthest**b for b in params.r2)
    refuse_overflow(max(a * fall for a, fall in zip(params.r1, falls, strict=True)), params.dtype, "the bias")
    return {"bias": Tensor(("head", "query", "key"), (len(params.r1), size.queries, size.keys), params.dtype)}


def _bias(params: Kerple, heads: slice, distances: Floats) -> Pair:
    r1, r2 = (np.array(of[heads], np.float64)[:, None] for of in (params.r1, params.r2))
    if params.form == "log":
        fall = log1p_product(r2, distances[None])
    else:
        fall = power(*np.broadcast_arrays(np.maximum(distances, 1.0)[None], r2))
    return multiply(exact(-r1), fall)


def _rows(params: Kerple, _inputs: Inputs, _state: None, _tensor: str, start: int, stop: int) -> Array:
    size = sizes(params)
    out = np.empty((stop - start, size.keys), DTYPES[params.dtype])
    write_faithfully(lambda *at: _bias(params, *at), len(params.r1), size, start, out)
    return out


def _facts(params: Kerple, _inputs: Inputs) -> Facts:
    return {"heads": len(params.r1), **sizes(params)._asdict()}


def _sequence(params: Kerple, _inputs: Inputs) -> Sequence:
    return Sequence(params, 0)


DESCRIPTION = """\
A head adds to the score of query i and key j, with its learned numbers `r1` and `r2`: `form=log`
`-r1 ln(1 + r2 |i - j|)`; `form=power` `-r1 |i - j|^r2`, 0 < r2 <= 2. Both are symmetric: under a causal mask only
keys behind count. Query row r stands at position r + `offset`, by default keys - queries.

**Axes**: (head, query, key), as many heads as `r1` and `r2` have entries."""

SCHEME: Scheme[Kerple, None] = Scheme(
    family="biases",
    name="kerple",
    title="KERPLE attention bias",
    description=DESCRIPTION,
    reference="Chi et al., KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation, 2022",
    params=Kerple,
    rounding="faithful",
    tensors=_tensors,
    prepare=lambda _params, _inputs: None,
    rows=_rows,
    facts=_facts,
    sequence=_sequence,
    resolve=lambda params, _inputs: resolved(params),
    examples=(
        Example("Two heads, four positions", {"r1": "1,0.5", "r2": "1,0.1", "length": "4"}),
        Example(
            "One decoding step, powers of the distance",
            {"form": "power", "r1": "0.5,0.25", "r2": "1,0.5", "queries": "1", "keys": "5"},
        ),
    ),
    used_by=(
        Usage("KERPLE-log in GPT-NeoX, with its p as r1 and a as r2", {"r1": "1,0.5", "r2": "0.5,0.25"}),
        Usage("KERPLE-power in GPT-NeoX, with its a as r1 and p as r2", {"form": "power", "r1": "1", "r2": "0.5"}),
    ),
    properties={
        "learned parameters": "two numbers a head, given in the request",
        "memory per head": "2 numbers",
        "extrapolates": "yes: the bias is defined at any distance",
    },
)
