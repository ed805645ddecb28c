"""FIRE: distances on a logarithmic scale, divided by how far the query has come (Li et al., 2024)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.interpolated import USED_BY, Interpolated, refuse_large, share_parts
from service.engine.attention.relative import QueryKey, resolved, sizes
from service.engine.attention.scores import refuse_uncountable
from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.networks import HIDDEN, MOST_WEIGHTS, NETWORK, WEIGHTS, Bent, Network, bent, network
from service.engine.quantities import DType, Heads, Integer, Seed
from service.engine.rounding import DTYPES, nearest, nearest_of_sum
from service.engine.scheme import (
    ITEMSIZE,
    Array,
    Example,
    Facts,
    Inputs,
    Scheme,
    Sequence,
    Tensor,
    Tensors,
    unused,
)

NETWORKS_OWN = ("heads", "hidden", "seed")


class Fire(QueryKey, Interpolated):
    """Parameters of `biases/fire`."""

    output: Annotated[
        Literal["distance", "bias", "weights"] | None,
        Field(
            description="`distance`: the normalised distance alone; `bias`: what the network makes of it for each "
            "head; `weights`: the network's weights. Unless given, `bias` where there is a network."
        ),
    ] = None
    heads: Annotated[Heads | None, Field(description="Heads of a network that `seed` draws.")] = None
    hidden: Annotated[
        Integer, Field(ge=1, le=1024, description="Hidden units of a network that `seed` draws: 32 as published.")
    ] = 32
    seed: Seed | None = None
    dtype: DType = "float32"


def _output(params: Fire, inputs: Inputs) -> str:
    return params.output or ("bias" if inputs or params.seed is not None else "distance")


def _network(params: Fire, inputs: Inputs) -> Network:
    return network(params.seed, params.heads, params.hidden, inputs)


def _tensors(params: Fire, inputs: Inputs) -> Tensors:
    output = _output(params, inputs)
    if output == "weights":
        weights = _network(params, inputs)
        refuse_overflow(weights.largest, params.dtype, "the largest weight")
        return {name: Tensor(NETWORK[name], array.shape, params.dtype) for name, array in weights.named().items()}
    size = sizes(params)
    refuse_uncountable(size)
    plane = (size.queries, size.keys)
    if output == "distance":
        if inputs:
            detail = "the body brings a network, and output=distance has no use for it: give output=bias"
            raise Refusal("output", "conflict", detail)
        return {"distance": Tensor(("query", "key"), plane, params.dtype)}
    if params.dtype == "float64":
        raise Refusal("dtype", "conflict", "dtype is float64; output=bias is answered in float32, float16 or bfloat16")
    weights = _network(params, inputs)
    refuse_large(params, weights, size, params.dtype)
    return {"bias": Tensor(("head", "query", "key"), (weights.heads, *plane), params.dtype)}


def _prepare(params: Fire, inputs: Inputs) -> Bent | Network | None:
    output = _output(params, inputs)
    if output == "distance":
        return None
    weights = _network(params, inputs)
    return bent(weights) if output == "bias" else weights


def _rows(params: Fire, _inputs: Inputs, state: Bent | Network | None, tensor: str, start: int, stop: int) -> Array:
    if isinstance(state, Network):
        whole = np.atleast_2d(state.named()[tensor])
        return nearest(whole[start:stop], DTYPES[params.dtype])
    size = sizes(params)
    out = np.empty((stop - start, size.keys), DTYPES[params.dtype])
    for some, share, part in share_parts(params, 1 if state is None else state.heads, size, start, out):
        if state is None:
            part[...] = nearest_of_sum(*share, part.dtype)
        else:
            state.write(share, some, part)
    return out


def _facts(params: Fire, inputs: Inputs) -> Facts:
    output = _output(params, inputs)
    size: Facts = {} if output == "weights" else dict(sizes(params)._asdict())
    if output == "distance":
        return size | {"distance_bytes": sizes(params).queries * sizes(params).keys * ITEMSIZE[params.dtype]}
    weights = _network(params, inputs)
    facts = size | {
        "heads": weights.heads,
        "hidden": weights.hidden,
        "network_bytes_per_head": 4 * (weights.hidden + 1),
    }
    if output == "bias":
        plane = sizes(params)
        facts["bias_bytes_per_head"] = plane.queries * plane.keys * ITEMSIZE[params.dtype]
    return facts


def _notes(params: Fire, inputs: Inputs) -> list[str]:
    if _output(params, inputs) == "distance":
        return unused(params, NETWORKS_OWN, "output=distance")
    return unused(params, NETWORKS_OWN[:2], "weights of your own") if params.seed is None else []


def _resolve(params: Fire, inputs: Inputs) -> Fire:
    output = _output(params, inputs)
    return params if output == "weights" else resolved(params).model_copy(update={"output": output})


DESCRIPTION = f"""\
For the query at position i and the key at j: `x = psi(|i - j|) / (psi(max(i, threshold)) + eps)`, `psi(x) = ln(1 + c
x)`. Keys behind lie in 0 ... 1; those ahead are to be masked. Query row r stands at position r + `offset`, by default
keys - queries.

`output=bias` is what the network of one hidden layer makes of it for head h: `sum_k V_hk max(W_k x + b_k, 0) + d_h`.
{HIDDEN} `output=weights` answers with them. At most {MOST_WEIGHTS} weights V.

**Axes**: (query, key), the same for every head; bias: (head, query, key)."""

SCHEME: Scheme[Fire, Bent | Network | None] = Scheme(
    family="biases",
    name="fire",
    title="FIRE normalised distances, and the bias made of them",
    explanation=(
        "A small network learns how a score depends on distance, and the distance is measured as a share of the text "
        "so far. A longer text therefore shows it little that it has not seen."
    ),
    description=DESCRIPTION,
    reference="Li et al., Functional Interpolation for Relative Positions Improves Long Context Transformers, 2024",
    params=Fire,
    rounding="faithful",
    tensors=_tensors,
    sequence=lambda params, inputs: None if inputs or params.output == "weights" else Sequence(params, 0),
    prepare=_prepare,
    rows=_rows,
    resolve=_resolve,
    facts=_facts,
    notes=_notes,
    state_bytes=lambda params, inputs: 0 if _output(params, inputs) == "distance" else 64 * MOST_WEIGHTS,
    inputs=WEIGHTS,
    examples=(
        Example("Four positions, a threshold of two", {"length": "4", "threshold": "2"}),
        Example("One decoding step", {"queries": "1", "keys": "6", "c": "0.5", "dtype": "float64"}),
        Example("A network's bias, its weights drawn", {"length": "4", "heads": "3", "seed": "7", "dtype": "float16"}),
        Example(
            "The bias of trained weights: two heads, three hidden units",
            {"length": "3", "threshold": "2", "dtype": "float32"},
            {
                "tensors": {
                    "weight_in": [1.5, -0.5, 0.25],
                    "bias_in": [0, 0.25, -0.125],
                    "weight_out": [[-2, 1, 0.5], [-1, 0.5, 1]],
                    "bias_out": [0.5, -0.25],
                }
            },
        ),
    ),
    used_by=USED_BY,
    properties={
        "distance": "a network of the share that a distance is of the length so far",
        "caching": "keys are kept as they are; the bias is of the query at hand",
        "implementation": "a small network run on every distance",
        "learned parameters": "c, threshold and the network, shared by the heads",
        "memory per head": "33 numbers of the network's last layer, and queries * keys values of the bias",
        "extrapolates": "yes: distances are shares of the length so far",
    },
)
