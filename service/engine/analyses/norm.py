"""What an encoding does to the caller's vectors: adding changes norm and direction, turning keeps the norm."""

import numpy as np

from service.engine.errors import Refusal
from service.engine.numbers.dots import norms, totals
from service.engine.numbers.pairs import Floats, Pair, add, multiply, negative
from service.engine.numbers.reals import Reals
from service.engine.numbers.sines import Angles
from service.engine.positions import consecutive
from service.engine.quantities import Base, Offset, Pairing
from service.engine.rotation.scaling_exact import plain
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import nearest
from service.engine.scheme import Array, Example, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, fastest
from service.engine.vectors import refuse_odd_shapes

MOST_VALUES = 1 << 18
LARGEST = 2.0**60
NAMES = ("norm", "sinusoidal_norm", "sinusoidal_cosine", "rope_norm", "rope_cosine")
QUANTITIES = {name: name.rpartition("_")[2] for name in NAMES}


class Norm(Params):
    """Parameters of `analyses/norm`."""

    offset: Offset = 0
    base: Base = 10_000.0
    pairing: Pairing = "half"


def _vectors(params: Norm, inputs: Inputs) -> Array:
    """The caller's vectors, once it is known that they can be encoded."""
    x = inputs["x"]
    refuse_odd_shapes("x", x, 2, "(length, dim)")
    if x.ndim != 2 or x.shape[1] % 2 or x.size > MOST_VALUES:
        detail = f"x has the shape {x.shape}; (length, dim) is needed, dim even, and up to 2^18 numbers"
        raise Refusal("/tensors/x", "shape", detail)
    if not (np.abs(x) <= LARGEST).all():
        raise Refusal("/tensors/x", "out_of_range", "x holds numbers beyond 2^60, or that are none")
    zero = ~(x != 0).any(axis=1)
    if zero.any():
        raise Refusal(f"/tensors/x/{int(zero.argmax())}", "out_of_range", "a vector of zeros has no direction")
    fastest(SinusoidalTable(base=params.base), x.shape[1])
    consecutive(params.offset, len(x))
    return x


def _tensors(params: Norm, inputs: Inputs) -> Tensors:
    return dict.fromkeys(NAMES, Tensor(("position",), (len(_vectors(params, inputs)),), "float32"))


def _prepare(params: Norm, inputs: Inputs) -> dict[str, Array]:
    x = _vectors(params, inputs).astype(np.float64)
    vectors = Pair(x, np.zeros_like(x))
    frequencies: Reals = plain(Scaling(base=params.base), x.shape[1])
    at = np.arange(params.offset, params.offset + len(x), dtype=np.float64)[:, None]
    sines, cosines = Angles(frequencies).at(at, slice(None))
    length, found = norms(vectors), {}
    found["norm"] = length
    for name, encoded in (
        ("sinusoidal", add(vectors, _interleaved(sines, cosines))),
        ("rope", _turned(params, vectors, sines, cosines)),
    ):
        found[f"{name}_norm"] = norms(encoded)
        found[f"{name}_cosine"] = _cosine(vectors, encoded, length, found[f"{name}_norm"])
    return {name: nearest(found[name], np.float32)[None] for name in NAMES}


def _interleaved(first: Pair, second: Pair) -> Pair:
    """first_0, second_0, first_1, ..."""
    rows = len(first.high)
    return Pair(*(np.stack(both, axis=2).reshape(rows, -1) for both in zip(first, second, strict=True)))


def _halves(first: Pair, second: Pair) -> Pair:
    """All of the first, then all of the second."""
    return Pair(*(np.concatenate(both, axis=1) for both in zip(first, second, strict=True)))


def _turned(params: Norm, x: Pair, sines: Pair, cosines: Pair) -> Pair:
    """Each pair of channels (a, b) becomes (a cos - b sin, b cos + a sin)."""
    pairs, half = sines.high.shape[1], params.pairing == "half"
    a, b = (x.at(np.s_[:, :pairs]), x.at(np.s_[:, pairs:])) if half else (x.at(np.s_[:, 0::2]), x.at(np.s_[:, 1::2]))
    turned_a = add(multiply(a, cosines), negative(multiply(b, sines)))
    turned_b = add(multiply(b, cosines), multiply(a, sines))
    return (_halves if half else _interleaved)(turned_a, turned_b)


def _cosine(before: Pair, after: Pair, norm: Floats, other: Floats) -> Floats:
    """The cosine of the angle between two vectors; 0 where the second has no direction left."""
    found: Floats = totals(multiply(before, after)) / np.where(other > 0, norm * other, 1.0)
    return found


DESCRIPTION = """\
Your vectors x at consecutive positions, before and after two encodings in real arithmetic:

- `norm`: the length of x
- `sinusoidal_norm`, `sinusoidal_cosine`: the length of `x + PE(p)`, PE with sines and cosines in turn, and the cosine
  of the angle between both. A sinusoidal row has the norm sqrt(dim/2) whatever x is: small vectors are drowned.
- `rope_norm`, `rope_cosine`: the same of x turned by `p w_k`, pair by pair. A rotation keeps the norm; the direction
  changes with the position, and only differences of positions matter for scores.

The answer is float32.

**Axes**: (position)."""

SCHEME: Scheme[Norm, dict[str, Array]] = Scheme(
    family="analyses",
    name="norm",
    title="Norm: what adding and turning do to vectors",
    explanation=(
        "Adding an encoding makes a vector longer and points it elsewhere; turning it, as RoPE does, leaves its length "
        "alone. Both are done to your vectors here."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer, 2021, section 3; Vaswani et al., 2017, section 3.5",
    params=Norm,
    quantities=QUANTITIES,
    telling=lambda _params: ("base", "pairing"),
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=lambda _params, _inputs, state, tensor, start, stop: state[tensor][start:stop],
    state_bytes=lambda _params, inputs: 64 * inputs["x"].size,
    inputs=(Input("x", "Vectors at consecutive positions: (length, dim), dim even."),),
    examples=(
        Example("Three vectors", {}, {"tensors": {"x": [[1, 0, 2, 0], [0.5, -1, 0.25, 1], [3, 1, -2, 0.125]]}}),
        Example(
            "Far out, neighbouring channels turning together",
            {"offset": "100000", "pairing": "interleaved"},
            {"tensors": {"x": [[0.25, 0.5], [1, -1]]}},
        ),
    ),
    used_by=(
        Usage("The encodings of the paper and of RoFormer, in Hugging Face form", {}),
        Usage("The same with the pairs of GPT-J and of Meta's Llama", {"pairing": "interleaved"}),
    ),
    properties={"learned parameters": "none", "norm": "changed by adding, kept by turning"},
)
