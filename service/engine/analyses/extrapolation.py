"""Which angles a model that was trained on n positions has never seen, before and after its context is extended."""

from decimal import localcontext
from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import MANY_DIGITS, Reals, pi, real
from service.engine.quantities import Base, DType, HeadDim, Integer, Length
from service.engine.rotation.rotary import Rotary, fastest
from service.engine.rotation.scaling import completed
from service.engine.rotation.scaling_exact import scaled_frequencies
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Inputs, Params, Scheme, Tensor, Tensors, Usage

METHODS = ("none", "linear", "ntk_aware", "yarn")
MOST_ANGLES = 1 << 23
BLOCK = 1 << 16
EQUAL = 1 + 2.0**-40  # angles that differ by less are one: those that meet in real numbers differ in float64


class Extrapolation(Params):
    """Parameters of `analyses/extrapolation`."""

    dim: HeadDim
    trained_length: Annotated[
        Integer, Field(ge=2, le=1 << 23, description="n: positions that the model was trained on.")
    ]
    length: Annotated[Length, Field(description="Positions that it is to be used at: 0 to length - 1.")]
    base: Base = 10_000.0
    dtype: DType = "float32"


def _scaling(params: Extrapolation, method: str) -> Scaling:
    if method == "none":
        return Scaling(base=params.base)
    factor, chosen = params.length / params.trained_length, {"none": "default"}.get(method, method)
    return Scaling.model_validate(
        {
            "base": params.base,
            "rope_type": chosen,
            "factor": factor,
            "original_max_position_embeddings": params.trained_length,
        }
    )


def _tensors(params: Extrapolation, _inputs: Inputs) -> Tensors:
    if params.dim % 2 or params.dim < 4:
        detail = f"dim is {params.dim}; pairs of channels turn, at least two: {max(4, params.dim + 1)} would do"
        raise Refusal("dim", "odd" if params.dim % 2 else "out_of_range", detail)
    if params.length < params.trained_length:
        detail = (
            f"length is {params.length}, and {params.trained_length} positions were trained: as many or more would do"
        )
        raise Refusal("length", "out_of_range", detail, limit=params.trained_length, requested=params.length)
    pairs, most = params.dim // 2, MOST_ANGLES // (params.dim // 2)
    if params.length > most:
        detail = f"{params.length} positions of {pairs} pairs are asked for; length={most} would do"
        raise Refusal("length", "out_of_range", detail, limit=most, requested=params.length)
    fastest(Rotary(base=params.base), params.dim)
    if params.base <= 1:
        raise Refusal("base", "out_of_range", f"base is {params.base:g}; YaRN's ramp needs one above 1")
    return {
        "turns": Tensor(("method", "frequency"), (len(METHODS), pairs), params.dtype),
        "unseen": Tensor(("method", "frequency"), (len(METHODS), pairs), params.dtype),
    }


def _turns_per_position(params: Extrapolation) -> list[Reals]:
    found = []
    for method in METHODS:
        scaling = completed(_scaling(params, method), params.dim)
        found.append(scaled_frequencies(scaling, params.dim) / (2 * pi()))
    return found


def _prepare(params: Extrapolation, _inputs: Inputs) -> dict[str, Floats]:
    speeds = _turns_per_position(params)
    trained = (speeds[0] * (params.trained_length - 1)).rounded()
    turns = np.stack([(speed * (params.length - 1)).rounded() for speed in speeds])
    unseen = np.stack([_unseen(params, speed.rounded(), trained) for speed in speeds])
    return {"turns": turns, "unseen": unseen}


def _unseen(params: Extrapolation, speed: Floats, trained: Floats) -> Floats:
    """For each pair the share of positions whose angle lies beyond all that training had."""
    open_pairs = np.flatnonzero(trained < 1)
    count = np.zeros(len(speed), np.int64)
    for start in range(0, params.length, BLOCK):
        at = np.arange(start, min(start + BLOCK, params.length), dtype=np.float64)
        for pair in open_pairs:
            turn = at * speed[pair]
            count[pair] += int((turn - np.floor(turn) > trained[pair] * EQUAL).sum())
    return count / params.length


def _rows(
    params: Extrapolation, _inputs: Inputs, state: dict[str, Floats], tensor: str, start: int, stop: int
) -> Array:
    return nearest(state[tensor][start:stop], DTYPES[params.dtype])


def _facts(params: Extrapolation, _inputs: Inputs) -> Facts:
    return {
        "methods": ", ".join(METHODS),
        "factor": params.length / params.trained_length,
        "whole_turns_in_training": _whole_turns(params),
    }


def _whole_turns(params: Extrapolation) -> int:
    """How many pairs k turn once or more in training.

    (n - 1) base^(-2k/d) >= 2 pi means 2k/d <= ln((n - 1) / 2 pi) / ln base.

    >>> _whole_turns(Extrapolation(dim=128, trained_length=4096, length=16384))
    46
    """
    with localcontext(MANY_DIGITS):
        turns = (params.trained_length - 1) / (2 * pi())
        if turns < 1:
            return 0
        most = params.dim * turns.ln() / (2 * real(params.base).ln())
    return min(params.dim // 2, int(most) + 1)


DESCRIPTION = """\
A pair of channels that turns by w radians a position has met the angles from 0 to `(n - 1) w` in training, or all of
them where that is a whole turn. At `length` positions the slow pairs meet others: `unseen` is the share of positions
from 0 to length - 1 whose angle, less whole turns, is beyond. `turns` is how many turns a pair makes there. Rows are

1. `none`: the frequencies as trained, `base^(-2k/dim)`
2. `linear`: position interpolation, every frequency divided by `s = length / trained_length`
3. `ntk_aware`: the base multiplied by `s^(dim / (dim - 2))`
4. `yarn`: fast pairs as trained, slow ones divided by s, a ramp between (beta_fast 32, beta_slow 1)

Interpolation leaves the last s - 1 positions at the most, and crowds neighbours; NTK leaves pairs in the middle; YaRN
crowds the slow pairs only.

**Axes**: (method, frequency), the fastest frequency first."""

SCHEME: Scheme[Extrapolation, dict[str, Floats]] = Scheme(
    family="analyses",
    name="extrapolation",
    title="Extrapolation: angles that training never saw",
    explanation=(
        "A model that was trained on short texts has never seen some angles that a longer text brings. Each row is a "
        "remedy: none, interpolation, NTK and YaRN, and the lower picture shows what share stays unseen."
    ),
    description=DESCRIPTION,
    reference="Chen et al., Extending Context Window via Positional Interpolation, 2023; Peng et al., YaRN, 2023, "
    "sections 3.1 to 3.4; Liu et al., Scaling Laws of RoPE-based Extrapolation, 2023",
    params=Extrapolation,
    named=lambda _params: {"method": METHODS},
    shares=("unseen",),
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    state_bytes=lambda params, _inputs: 64 * params.dim,
    examples=(
        Example("Four pairs, trained on 16 positions", {"dim": "8", "trained_length": "16", "length": "48"}),
        Example("Trained on 4096, used at 16384", {"dim": "128", "trained_length": "4096", "length": "16384"}),
        Example("A large base", {"dim": "64", "trained_length": "2048", "length": "8192", "base": "500000"}),
    ),
    used_by=(
        Usage("Llama 2, GPT-NeoX (base 10000)", {"base": "10000"}),
        Usage("Llama 3 (base 500000)", {"base": "500000"}),
    ),
    properties={"learned parameters": "none"},
)
