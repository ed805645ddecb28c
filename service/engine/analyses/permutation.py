"""Why encodings exist at all: attention over vectors in order and shuffled, without and with positions."""

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats
from service.engine.numbers.softmax import attended, scores_of
from service.engine.quantities import LONGEST_LIST, Base, listed_integers
from service.engine.rounding import nearest
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, fastest, table_angles, write_table
from service.engine.vectors import refuse_odd_shapes

MOST_VECTORS = LONGEST_LIST
MOST_TERMS = 1 << 20
LARGEST = 2.0**10
NAMES = ("plain", "plain_shuffled", "encoded", "encoded_shuffled")
QUANTITIES = {
    **dict.fromkeys(NAMES[:2], "output without positions"),
    **dict.fromkeys(NAMES[2:], "output with positions"),
    "difference": "largest change",
}

Order = Annotated[
    tuple[int, ...],
    BeforeValidator(listed_integers("places", "2,0,1")),
    Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description="The shuffled sequence: which vector stands at each place (default: the last first).",
    ),
]


class Permutation(Params):
    """Parameters of `analyses/permutation`."""

    order: Order | None = None
    base: Base = 10_000.0


def _vectors(params: Permutation, inputs: Inputs) -> Array:
    """The caller's vectors, once it is known that they can be attended to."""
    x = inputs["x"]
    refuse_odd_shapes("x", x, 2, "(length, dim)")
    if x.ndim != 2 or len(x) > MOST_VECTORS or len(x) ** 2 * x.shape[1] > MOST_TERMS:
        detail = (
            f"x has the shape {x.shape}; (length, dim) is needed, with length^2 dim up to 2^20 and length up to 512"
        )
        raise Refusal("/tensors/x", "shape", detail)
    if not (np.abs(x) <= LARGEST).all():
        raise Refusal("/tensors/x", "out_of_range", "x holds numbers beyond 1024; attention would see one key alone")
    fastest(SinusoidalTable(base=params.base), x.shape[1])
    if params.order is not None and sorted(params.order) != list(range(len(x))):
        detail = f"order must name each of the places 0 to {len(x) - 1} once"
        raise Refusal("order", "shape", detail)
    return x


def _order(params: Permutation, length: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    return np.array(params.order or range(length)[::-1], np.intp)


def _tensors(params: Permutation, inputs: Inputs) -> Tensors:
    shape = _vectors(params, inputs).shape
    outputs = {name: Tensor(("position", "channel"), shape, "float32") for name in NAMES}
    return outputs | {"difference": Tensor(("kind",), (2,), "float32")}


def _prepare(params: Permutation, inputs: Inputs) -> dict[str, Array]:
    """The four outputs; those of the shuffled sequence are put back where their vectors stood."""
    x = _vectors(params, inputs).astype(np.float64)
    table, order = SinusoidalTable(base=params.base), _order(params, len(x))
    encoding = np.empty(x.shape)
    write_table(table, table_angles(table, x.shape[1]), range(len(x)), encoding)
    found = {}
    for name, added in (("plain", np.zeros(x.shape)), ("encoded", encoding)):
        found[name] = _attended(x + added)
        back = np.empty(x.shape)
        back[order] = _attended(x[order] + added)
        found[f"{name}_shuffled"] = back
    state = {name: nearest(found[name], np.float32) for name in NAMES}
    return state | {"difference": np.array([[_difference(state, "plain"), _difference(state, "encoded")]])}


def _difference(state: dict[str, Array], name: str) -> np.float32:
    """The largest change that the order makes, of the rounded outputs."""
    most: np.float32 = np.abs(state[name] - state[f"{name}_shuffled"]).max()
    return most


def _attended(vectors: Floats) -> Floats:
    return attended(scores_of(vectors), vectors)


def _facts(params: Permutation, inputs: Inputs) -> Facts:
    return {"order": [float(place) for place in _order(params, len(inputs["x"]))]}


DESCRIPTION = """\
Self-attention without weights, `softmax(x x^T / sqrt(dim)) x`, of your vectors in their order and in another:

- `plain`: without positions; `plain_shuffled`: of the shuffled sequence, each output put back where its vector stood.
  Both are equal, bit for bit: attention alone cannot tell one order from another.
- `encoded`, `encoded_shuffled`: the same after the sinusoidal encoding (`base`) was added to the vectors at the places
  where they stand. Now they differ: a word's output depends on where it is.

`difference` is the largest of the first two and of the last two. The answer is float32.

**Axes**: (position, channel), as x; `difference` (kind): plain, encoded."""

SCHEME: Scheme[Permutation, dict[str, Array]] = Scheme(
    family="analyses",
    name="permutation",
    title="Permutation: attention without and with positions",
    explanation=(
        "Why there are positional encodings at all: without them attention gives each token the same answer in "
        "whatever order the sequence stands. Here your vectors are shuffled, without and with positions, and compared."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.5; Lee et al., Set Transformer, 2019",
    params=Permutation,
    named=lambda _params: {"kind": ("plain", "encoded")},
    quantities=QUANTITIES,
    telling=lambda _params: ("base",),
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=lambda _params, _inputs, state, tensor, start, stop: state[tensor][start:stop],
    facts=_facts,
    state_bytes=lambda _params, inputs: 64 * inputs["x"].size,
    inputs=(Input("x", "The vectors of a sequence: (length, dim)."),),
    examples=(
        Example(
            "Three words, the last first", {}, {"tensors": {"x": [[1, 0, 0.5, 0], [0, 1, 0, 0.5], [0.5, 0.5, 1, 1]]}}
        ),
        Example("An order of your own", {"order": "1,2,0"}, {"tensors": {"x": [[1, 0], [0, 1], [0.5, 0.5]]}}),
    ),
    used_by=(Usage("Attention with and without the sinusoidal encoding of the paper", {}),),
    properties={"learned parameters": "none"},
)
