"""How far apart the arithmetics are that rotary tables are computed in: the largest difference, and where it occurs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.engine.arithmetics import Angles
from service.engine.errors import Refusal
from service.engine.positions import Positioned, Values, part, where
from service.engine.quantities import Arithmetic, HeadDim
from service.engine.rotation.rope_block import ROPE_BLOCK
from service.engine.rotation.rotary import Rotary, fastest, resolved, rotary_angles, rotary_facts, table_width
from service.engine.rotation.scaling_notes import scaling_notes
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import BFLOAT16, DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage

ARITHMETICS = ("exact", "float32", "ggml", "bfloat16", "bfloat16-positions")
COMPUTED: tuple[Arithmetic, ...] = ("exact", "float32", "ggml")
MOST_ANGLES = 1 << 23  # computed in every arithmetic before the first byte: some three seconds
BLOCK_ANGLES = 1 << 16
LEAST_ROWS = 64
WIDEST = 8192  # of the heads of models, none is a twentieth as wide


class Precision(Scaling, Positioned):
    """Parameters of `analyses/precision`."""

    dim: HeadDim


@dataclass(frozen=True, slots=True)
class Differences:
    """For each two arithmetics the largest difference of a cosine or sine, and the first position that has it."""

    difference: NDArray[np.float64]
    position: NDArray[np.float64]


def _rotary(params: Precision, arithmetic: Arithmetic) -> Rotary:
    return Rotary(arithmetic=arithmetic, **{name: getattr(params, name) for name in Scaling.model_fields})


def _width(params: Precision) -> int:
    return table_width(_rotary(params, "exact"), params.dim)


def _tensors(params: Precision, inputs: Inputs) -> Tensors:
    width = _width(params)
    for arithmetic in COMPUTED:
        fastest(_rotary(params, arithmetic), width)
    if width > WIDEST:
        detail = f"dim is {params.dim}, of which {width} channels turn; arithmetics are compared of {WIDEST} at most"
        raise Refusal("dim", "out_of_range", detail, limit=WIDEST, requested=width)
    (count,) = where(params, inputs).shape
    if count * (width // 2) > MOST_ANGLES:
        raise Refusal(
            "length",
            "out_of_range",
            f"{count} positions of {width // 2} pairs are asked for; 2^23 angles are compared at most: "
            f"ask for {MOST_ANGLES // (width // 2)} positions, from an offset",
            limit=MOST_ANGLES // (width // 2),
            requested=count,
        )
    table = Tensor(("arithmetic", "other"), (len(ARITHMETICS), len(ARITHMETICS)), "float64")
    return {"difference": table, "position": table}


def _prepare(params: Precision, inputs: Inputs) -> Differences:
    width = _width(params)
    angles: dict[str, Angles] = {name: rotary_angles(_rotary(params, name), width) for name in COMPUTED}
    (count,) = where(params, inputs).shape
    found = Differences(*np.zeros((2, len(ARITHMETICS), len(ARITHMETICS))))
    found.position[...] = float(part(params, inputs, 0, 1)[0])
    # Fewer rows at a time would be computed one by one.
    step = max(LEAST_ROWS, BLOCK_ANGLES // width)
    for start in range(0, count, step):
        at = part(params, inputs, start, min(start + step, count))
        _compare([_tables(name, angles, at, width // 2) for name in ARITHMETICS], at, found)
    return found


def _tables(arithmetic: str, angles: dict[str, Angles], at: Values, pairs: int) -> NDArray[np.float64]:
    """cos and sin side by side, as float64 (positions, 2 pairs)."""
    dtype = DTYPES[{"exact": "float64", "float32": "float32", "ggml": "float32"}.get(arithmetic, "bfloat16")]
    if arithmetic == "bfloat16-positions":
        at = nearest(np.asarray(at, np.float64), BFLOAT16).astype(np.float64)
    out = np.empty((len(at), 2 * pairs), dtype)
    angles.get(arithmetic, angles["exact"]).write(at, out[:, :pairs], out[:, pairs:])
    return out.astype(np.float64)


def _compare(tables: list[NDArray[np.float64]], at: Values, found: Differences) -> None:
    """Note every difference that is larger than those of the positions before."""
    for i, own in enumerate(tables):
        for j, other in enumerate(tables[:i]):
            each = np.abs(own - other).max(axis=1)
            row = int(each.argmax())
            if each[row] > found.difference[i, j]:
                found.difference[i, j] = found.difference[j, i] = each[row]
                found.position[i, j] = found.position[j, i] = at[row]


def _rows(_params: Precision, _inputs: Inputs, state: Differences, tensor: str, start: int, stop: int) -> Array:
    table: Array = getattr(state, tensor)[start:stop].copy()
    return table


def _facts(params: Precision, _inputs: Inputs) -> Facts:
    facts: Facts = {"arithmetics": ", ".join(ARITHMETICS), "pairs": _width(params) // 2}
    return facts | rotary_facts(_rotary(params, "exact"), params.dim)


DESCRIPTION = """\
The largest `|difference|` of any `cos(p * w_k)` or `sin(p * w_k)`, `w_k = base^(-2k/dim)` or scaled as `encodings/rope`
has it, over the positions asked for, between each two of

1. `exact`: the real numbers (float64 to the last place)
2. `float32`: frequencies, angles, cos and sin in float32 steps, as PyTorch model code (`arithmetic=float32`)
3. `ggml`: the running float32 product of llama.cpp (`arithmetic=ggml`)
4. `bfloat16`: the exact tables, rounded once to bfloat16
5. `bfloat16-positions`: the same at positions that were rounded to bfloat16 first, as models do that count in it:
   beyond 256 neighbours become one

`difference` is symmetric, and `position` is the first position that has the difference. Both stand in that order.
**Axes**: (arithmetic, other)."""

SCHEME: Scheme[Precision, Differences] = Scheme(
    family="analyses",
    name="precision",
    title="Precision: how far the arithmetics of rotary tables differ",
    explanation=(
        "Programs compute the same angles in different steps, and at large positions the results drift apart. The "
        "table says how far, between each two of five ways, and the second picture where."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer, 2021, in the arithmetics of PyTorch model code and of llama.cpp",
    params=Precision,
    named=lambda _params: {"arithmetic": ARITHMETICS, "other": ARITHMETICS},
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, _inputs: resolved(params, params.dim),
    facts=_facts,
    notes=lambda params, _inputs: scaling_notes(params),
    pasted=ROPE_BLOCK,
    examples=(
        Example("Up to 4096 positions of a head of 128 channels", {"length": "4096", "dim": "128"}),
        Example("The last position before 131072", {"positions": "131071", "dim": "128"}),
        Example(
            "YaRN, four times as far",
            {
                "length": "1000",
                "offset": "131072",
                "dim": "128",
                "base": "1e6",
                "rope_type": "yarn",
                "factor": "4",
                "original_max_position_embeddings": "32768",
            },
        ),
        Example("A base of long contexts", {"length": "1000", "offset": "130072", "dim": "128", "base": "500000"}),
    ),
    used_by=(
        Usage("Llama 2, Mistral 7B v0.1, GPT-NeoX (base 10000)", {}),
        Usage("Llama 3 (base 500000)", {"base": "500000"}),
    ),
    properties={"learned parameters": "none", "grows": "with position times frequency"},
)
