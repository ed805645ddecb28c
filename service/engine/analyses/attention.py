"""Where an encoding makes attention look by itself: the weights of the last query, layer upon layer."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.dots import mean_cosines
from service.engine.numbers.logarithms import exact, exponential
from service.engine.numbers.pairs import Floats
from service.engine.numbers.sines import Angles
from service.engine.quantities import Base, HeadDim, Integer, Real
from service.engine.rotation.rotary import Rotary, fastest
from service.engine.rotation.scaling_exact import plain
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import nearest
from service.engine.scheme import Array, Example, Inputs, Params, Scheme, Tensor, Tensors, Usage, unused

MOST_ANGLES = 1 << 20
MOST_WEIGHTS = 1 << 26  # of all layers: about half a second
LOWEST = -600.0


class Attention(Params):
    """Parameters of `analyses/attention`."""

    of: Annotated[
        Literal["none", "alibi", "rope"],
        Field(
            description="The encoding: `none` the causal mask alone; `alibi` scores of -slope * distance; `rope` the "
            "mean score of `analyses/decay`, times sharpness."
        ),
    ] = "none"
    length: Annotated[Integer, Field(ge=1, le=8192, description="Positions of the context; the last one asks.")]
    depth: Annotated[
        Integer, Field(ge=1, le=64, description="Layers, each attending to the outputs of the one before.")
    ] = 1
    residual: Annotated[
        Real,
        Field(ge=0, lt=1, description="The share of each position's own stream that passes a layer by (0: none does)."),
    ] = 0.5
    slope: Annotated[Real, Field(gt=0, le=100, description="ALiBi: the slope of a head.")] = 0.0625
    dim: Annotated[HeadDim, Field(description="RoPE: the width of a head.")] = 128
    base: Base = 10_000.0
    sharpness: Annotated[
        Real,
        Field(gt=0, le=256, description="RoPE: the score at distance 0, sqrt(dim) for vectors of ones."),
    ] = 8.0


_USED: Mapping[str, tuple[str, ...]] = {"none": (), "alibi": ("slope",), "rope": ("dim", "base", "sharpness")}
_OF_ONE = ("slope", "dim", "base", "sharpness")


def _tensors(params: Attention, _inputs: Inputs) -> Tensors:
    if params.length**2 * params.depth > MOST_WEIGHTS:
        most = MOST_WEIGHTS // params.length**2
        asked = f"{params.depth} layers of {params.length} positions are asked for"
        detail = f"{asked}; depth={most} would do, or a shorter context"
        raise Refusal("depth", "out_of_range", detail, limit=most, requested=params.depth)
    if params.of == "rope":
        if params.dim % 2:
            raise Refusal("dim", "odd", f"dim is {params.dim}; channels turn in pairs: {params.dim + 1} would do")
        fastest(Rotary(base=params.base), params.dim)
        pairs = params.dim // 2
        if params.length * pairs > MOST_ANGLES:
            most = MOST_ANGLES // pairs
            detail = f"{params.length} positions of {pairs} pairs are asked for; length={most} would do"
            raise Refusal("length", "out_of_range", detail, limit=most, requested=params.length)
    return {"profile": Tensor(("layer", "position"), (params.depth, params.length), "float32")}


def _unnormalised(params: Attention) -> Floats:
    """e^(score - score at distance 0) for each distance."""
    distances = np.arange(params.length, dtype=np.float64)
    if params.of == "none":
        return np.ones(params.length)
    if params.of == "alibi":
        scores = -params.slope * distances
    else:
        frequencies = plain(Scaling(base=params.base), params.dim)
        scores = params.sharpness * (mean_cosines(Angles(frequencies), params.length).high - 1)
    return exponential(exact(np.maximum(scores, LOWEST))).high


def _prepare(params: Attention, _inputs: Inputs) -> Array:
    """Row by row: what the last query draws from each position through one layer, two, ...

    Each layer spreads the weight of a position over those before it, in proportion to `weights` of their distance: all
    terms are positive, so float64 loses some length * depth * 2^-53 of a value.
    """
    weights = _unnormalised(params)
    sums = np.add.accumulate(weights)
    profile = np.empty((params.depth, params.length), np.float32)
    drawn = np.zeros(params.length)
    drawn[-1] = 1.0
    for layer in range(params.depth):
        spread = np.zeros(params.length)
        for position in np.flatnonzero(drawn).tolist():
            spread[: position + 1] += drawn[position] / sums[position] * weights[position::-1]
        drawn = params.residual * drawn + (1 - params.residual) * spread
        profile[layer] = nearest(drawn, np.float32)
    return profile


def _notes(params: Attention, _inputs: Inputs) -> list[str]:
    idle = tuple(name for name in _OF_ONE if name not in _USED[params.of])
    return unused(params, idle, f"of={params.of}")


DESCRIPTION = """\
Causal softmax attention whose scores say nothing of the content: position i gives the position j <= i the weight

    A_ij = f(i - j) / sum of f(d) for d = 0 ... i,   f(d) = e^(score at distance d)

Row t of `profile` is what the last position draws from each position through t layers, of which each passes the share
r = `residual` of the stream by: the last row of `(r I + (1 - r) A)^t`, an attention rollout. Two pulls meet. The causal
mask favours the beginning, the more the deeper; an encoding that decays favours the end. Between them lies a hollow,
and what stands in the middle of a long context is found least: lost in the middle, without a word of content. The
answer is float32; each row sums to 1.

Its picture compares with a uniform share, 1 / length, on a logarithmic scale: blue is less, red is more, and what is
beyond the ends of the scale has their colours. Beneath stand the columns of the last layer, with the least marked; the
last position is high for its own stream passes by.

**Axes**: (layer, position)."""

SCHEME: Scheme[Attention, Array] = Scheme(
    family="analyses",
    name="attention",
    title="Attention over a long context, by the encoding alone",
    explanation=(
        "Where attention looks in a long text when all tokens say the same: the start gains from layer to layer, the "
        "end from encodings that decay. What lies between is what models get lost in: the "
        "blue hollow of the picture, where a position has less than a uniform share."
    ),
    description=DESCRIPTION,
    reference="Liu et al., Lost in the Middle, 2024; Abnar and Zuidema, Quantifying Attention Flow, 2020; Wu et al., "
    "On the Emergence of Position Bias in Transformers, 2025",
    params=Attention,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=lambda _params, _inputs, state, _tensor, start, stop: state[start:stop],
    notes=_notes,
    uniform=lambda params: {"profile": 1 / params.length},
    telling=lambda params: ("of", "residual", *_USED[params.of]),
    state_bytes=lambda params, _inputs: 4 * params.depth * params.length + 64 * params.length,
    examples=(
        Example("Eight positions, two layers", {"length": "8", "depth": "2"}),
        Example("The causal mask alone, four layers", {"length": "64", "depth": "4"}),
        Example(
            "ALiBi: a hollow in the middle",
            {"of": "alibi", "length": "256", "depth": "14", "residual": "0.9", "slope": "0.0078125"},
        ),
        Example("RoPE", {"of": "rope", "length": "64", "depth": "2", "dim": "64"}),
    ),
    used_by=(
        Usage("The causal mask alone: NoPE", {}),
        Usage("The fourth of eight heads with ALiBi", {"of": "alibi", "slope": "0.0625"}),
        Usage("RoPE of a head of 128 channels", {"of": "rope", "sharpness": "11.313708498984761"}),
    ),
    properties={"learned parameters": "none"},
)
