"""How an encoding lowers the score of far positions: the mean score of a query and a key, distance by distance."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.bucket_bias import BucketBias, bucket_of, first_distances
from service.engine.attention.slopes import Slopes, factors
from service.engine.attention.weights import refuse_table, table
from service.engine.errors import Refusal
from service.engine.numbers.dots import root, running_sums, sums
from service.engine.numbers.pairs import Pair, add, divide, multiply
from service.engine.numbers.reals import Reals
from service.engine.numbers.sines import Angles
from service.engine.quantities import DType, HeadDim, Heads, Length
from service.engine.rotation.rotary import Rotary, fastest, resolved, table_width
from service.engine.rotation.scaling_exact import plain, scaled_frequencies
from service.engine.rotation.scaling_notes import scaling_notes
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage, unused

MOST_ANGLES = 1 << 20
MOST_VALUES = 1 << 24
BLOCK_ANGLES = 1 << 14
OF_WAVES = ("rope", "sinusoidal")


class Decay(BucketBias, Scaling):
    """Parameters of `analyses/decay`."""

    of: Annotated[
        Literal["rope", "sinusoidal", "alibi", "t5"],
        Field(description="The encoding: of channels (`dim`) for the first two, of heads (`heads`) for the others."),
    ] = "rope"
    length: Annotated[Length, Field(description="Distances: 0 to length - 1, the key behind the query.")]
    dim: HeadDim | None = None
    heads: Heads | None = None
    dtype: DType = "float32"


_IDLE: Mapping[str, tuple[str, ...]] = {
    "rope": ("heads", *BucketBias.model_fields),
    "sinusoidal": ("heads", *BucketBias.model_fields, *(name for name in Scaling.model_fields if name != "base")),
    "alibi": ("dim", *BucketBias.model_fields, *Scaling.model_fields),
    "t5": ("dim", *Scaling.model_fields),
}


def _given(params: Decay, name: Literal["dim", "heads"]) -> int:
    value: int | None = getattr(params, name)
    if value is None:
        raise Refusal(name, "missing", f"{name} is missing: of={params.of} needs it")
    return value


def _width(params: Decay) -> int:
    """Twice as many channels as frequencies."""
    dim = _given(params, "dim")
    if params.of == "rope":
        width = table_width(params, dim)
        fastest(Rotary(**params.model_dump(include=set(Scaling.model_fields))), width)
        return width
    if dim % 2:
        raise Refusal("dim", "odd", f"dim is {dim}; a sine needs its cosine: {dim + 1} would do")
    fastest(Rotary(base=params.base), dim)
    return dim


def _frequencies(params: Decay) -> Reals:
    width = _width(params)
    if params.of == "rope":
        return scaled_frequencies(resolved(params, _given(params, "dim")), width)
    return plain(Scaling(base=params.base), width)


def _refuse_many(params: Decay, each: int, limit: int, what: str) -> None:
    if params.length * each > limit:
        most = max(1, limit // each)
        detail = f"{params.length} distances of {each} {what} are asked for: length={most} would do"
        raise Refusal("length", "out_of_range", detail, limit=most, requested=params.length)


def _tensors(params: Decay, inputs: Inputs) -> Tensors:
    if params.of in OF_WAVES:
        _refuse_many(params, _width(params) // 2, MOST_ANGLES, "pairs")
        line = Tensor(("distance",), (params.length,), params.dtype)
        return {"score": line, "bound": line} if params.of == "rope" else {"score": line}
    heads = _given(params, "heads")
    _refuse_many(params, heads, MOST_VALUES, "heads")
    if params.of == "t5":
        first_distances(params)
        refuse_table(params, inputs, ("num_buckets", "heads"), (params.num_buckets, heads), params.dtype)
    return {"score": Tensor(("head", "distance"), (heads, params.length), params.dtype)}


def _of_waves(params: Decay, _inputs: Inputs) -> dict[str, Array]:
    """The mean of cos(d w_k) over the pairs, and that of the partial sums' sizes."""
    frequencies = _frequencies(params)
    angles, pairs = Angles(frequencies), len(frequencies)
    count = Pair(np.array(float(pairs)), np.array(0.0))
    mean, bound = np.empty((2, params.length))
    step = max(1, BLOCK_ANGLES // pairs)
    for start in range(0, params.length, step):
        stop = min(start + step, params.length)
        sines, cosines = angles.at(np.arange(start, stop, dtype=np.float64)[:, None], slice(None))
        mean[start:stop] = divide(sums(cosines), count).high
        if params.of == "rope":
            bound[start:stop] = divide(_partial_sums(cosines, sines), count).high
    return {name: nearest(value[None], DTYPES[params.dtype]) for name, value in (("score", mean), ("bound", bound))}


def _partial_sums(cosines: Pair, sines: Pair) -> Pair:
    """The sum of |S_j|, S_j the sum of the first j of e^(i d w_k)."""
    real, imaginary = running_sums(cosines), running_sums(sines)
    return sums(root(add(multiply(real, real), multiply(imaginary, imaginary))))


def _of_alibi(params: Decay, _inputs: Inputs) -> dict[str, Array]:
    heads = _given(params, "heads")
    return {"score": factors(Slopes(), heads).times(slice(None), -np.arange(params.length), params.dtype)}


def _of_t5(params: Decay, inputs: Inputs) -> dict[str, Array]:
    rows = table(params, inputs, ("num_buckets", "heads"), (params.num_buckets, _given(params, "heads")), params.dtype)
    buckets = bucket_of(params, first_distances(params), -np.arange(params.length))
    return {"score": np.ascontiguousarray(rows[buckets].T)}


_SCORES: Mapping[str, Callable[[Decay, Inputs], dict[str, Array]]] = {
    "rope": _of_waves,
    "sinusoidal": _of_waves,
    "alibi": _of_alibi,
    "t5": _of_t5,
}


def _rows(_params: Decay, _inputs: Inputs, state: dict[str, Array], tensor: str, start: int, stop: int) -> Array:
    return state[tensor][start:stop]


def _resolve(params: Decay, _inputs: Inputs) -> Decay:
    return resolved(params, _given(params, "dim")) if params.of == "rope" else params


def _facts(params: Decay, _inputs: Inputs) -> Facts:
    return {"pairs": _width(params) // 2} if params.of in OF_WAVES else {"heads": _given(params, "heads")}


def _notes(params: Decay, inputs: Inputs) -> list[str]:
    notes = scaling_notes(params) if params.of == "rope" else []
    if "table" in inputs and params.of != "t5":
        notes.append(f"the table in the body has no effect with of={params.of}")
    return notes + unused(params, _IDLE[params.of], f"of={params.of}")


DESCRIPTION = """\
The mean score of a query and a key that lies d positions behind, as far as the encoding decides it.

- `of=rope`: for vectors whose channels agree on average, `score` is `1/K sum_k cos(d w_k)` over the K pairs, 1 at
  distance 0. `bound` is RoFormer's `1/K sum_j |S_j|`, S_j the sum of the first j of `e^(i d w_k)`: however the channels
  are chosen, the score is at most K times that times the largest step between neighbouring pairs. Scaled frequencies,
  as `encodings/rope` has them, decay later.
- `of=sinusoidal`: `PE(p) . PE(p - d)` divided by dim/2, which is the same sum with its own frequencies.
- `of=alibi`: the bias `-m_h d` of each head.
- `of=t5`: the bias of the bucket of each distance, from your table in the
  body (num_buckets, heads) or from one that `seed` draws: learned, so no decay is built in.

**Axes**: (distance), or (head, distance)."""

SCHEME: Scheme[Decay, dict[str, Array]] = Scheme(
    family="analyses",
    name="decay",
    title="Decay of scores with distance",
    explanation=(
        "How much a score falls as a key lies farther back, by the encoding alone. RoPE falls in waves, ALiBi in a "
        "straight line, T5 in steps."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer, 2021, section 3.4.3 and equation 37; Press et al., 2022; Raffel et al., 2020",
    params=Decay,
    rounding="faithful",
    tensors=_tensors,
    prepare=lambda params, inputs: _SCORES[params.of](params, inputs),
    rows=_rows,
    resolve=_resolve,
    facts=_facts,
    notes=_notes,
    telling=lambda _params: ("of",),
    inputs=(Input("table", "of=t5: the learned table (num_buckets, heads).", required=False),),
    state_bytes=lambda params, _inputs: 16 * params.length * (params.heads or 1),
    examples=(
        Example("RoPE, a head of 128 channels", {"length": "256", "dim": "128"}),
        Example("A base of long contexts", {"length": "256", "dim": "128", "base": "500000"}),
        Example("Sinusoidal", {"of": "sinusoidal", "length": "64", "dim": "32"}),
        Example("ALiBi, six heads", {"of": "alibi", "length": "16", "heads": "6"}),
        Example(
            "T5, a table of your own",
            {"of": "t5", "length": "6", "heads": "2", "num_buckets": "4", "max_distance": "8", "direction": "causal"},
            {"tensors": {"table": [[0.5, -1], [0.25, -2], [0.125, -3], [0, -4]]}},
        ),
        Example("T5, drawn", {"of": "t5", "length": "64", "heads": "3", "seed": "7", "direction": "causal"}),
    ),
    used_by=(
        Usage("RoFormer, Llama 2, GPT-NeoX (base 10000)", {"base": "10000"}),
        Usage("Llama 3 (base 500000)", {"base": "500000"}),
        Usage("ALiBi, as BLOOM and MPT have it", {"of": "alibi"}),
    ),
    properties={"learned parameters": "none, but for T5's table"},
)
