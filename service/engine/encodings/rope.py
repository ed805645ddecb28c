"""Rotary position embedding: the cos and sin tables (Su et al., RoFormer, 2021)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import Angles
from service.engine.frequencies import WAVE_BYTES, refuse_overflow
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import Columns, DType, HeadDim
from service.engine.rotation.rope_block import ROPE_BLOCK
from service.engine.rotation.rope_formulas import FORMULAS
from service.engine.rotation.rope_usages import ON_ONE_AXIS
from service.engine.rotation.rotary import (
    Rotary,
    divisors,
    fastest,
    resolved,
    rotary_angles,
    rotary_facts,
    rotary_notes,
    table_width,
    write_columns,
)
from service.engine.rotation.rotary_xpos import centred, refuse_far_xpos
from service.engine.rotation.xpos import Role
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage, unused

Output = Annotated[
    Literal["cos-sin", "complex", "angles", "frequencies", "divisors"],
    Field(
        description="`cos-sin`: both tables; `complex`: A e^(i p w_k), the real part and the imaginary part on a last "
        "axis (freqs_cis); `angles`: position * frequency; `frequencies`: one a pair (inv_freq); `divisors`: what the "
        "scaling divides each frequency by (GGUF rope_freqs)."
    ),
]


XPOS = ("xpos_scale_base", "xpos_center", "xpos_role")
PER_PAIR = ("frequencies", "divisors")  # outputs that have no positions


class Rope(Rotary, Positioned):
    """Parameters of `encodings/rope`."""

    dim: HeadDim
    columns: Columns = "full"
    output: Output = "cos-sin"
    xpos_role: Annotated[
        Role, Field(description="xPos: whose tables these are; those of keys have the inverse amplitude.")
    ] = "query"
    dtype: DType = "float32"


def _tensors(params: Rope, inputs: Inputs) -> Tensors:
    width = table_width(params, params.dim)
    fast = fastest(params, width)
    if params.output == "frequencies":
        refuse_overflow(fast, params.dtype, "the largest frequency")
        return {"frequencies": Tensor(("frequency",), (width // 2,), params.dtype)}
    if params.output == "divisors":
        largest = float(divisors(params, width, DTYPES["float64"]).max())
        refuse_overflow(largest, params.dtype, "the largest divisor")
        return {"divisors": Tensor(("frequency",), (width // 2,), params.dtype)}
    places = where(params, inputs)
    if params.output == "angles":
        refuse_overflow(fast * places.farthest, params.dtype, "the largest angle")
        return {"angles": Tensor((*places.axes, "frequency"), (*places.shape, width // 2), params.dtype)}
    middle = centred(params, places.shape[-1])
    refuse_far_xpos(middle, width, places.values, params.dtype, params.xpos_role)
    if params.output == "complex":
        return {"complex": Tensor((*places.axes, "frequency", "part"), (*places.shape, width // 2, 2), params.dtype)}
    columns = width if params.columns == "full" else width // 2
    table = Tensor((*places.axes, "channel"), (*places.shape, columns), params.dtype)
    return {"cos": table, "sin": table}


def _centred(params: Rope, inputs: Inputs) -> Rope:
    """The parameters with the centre of xPos; outputs without positions have none."""
    return centred(params, 0 if params.output in PER_PAIR else where(params, inputs).shape[-1])


def _prepare(params: Rope, inputs: Inputs) -> Angles:
    whole = _centred(params, inputs)
    return rotary_angles(whole, table_width(whole, whole.dim), role=whole.xpos_role)


def _rows(params: Rope, inputs: Inputs, state: Angles, tensor: str, start: int, stop: int) -> Array:
    dtype = DTYPES[params.dtype]
    if tensor == "frequencies":
        return state.frequencies(dtype)[None, :]
    if tensor == "divisors":
        return divisors(params, table_width(params, params.dim), dtype)[None, :]
    width = table_width(params, params.dim)
    if tensor == "complex":
        return _parts(params, inputs, state, width // 2, start, stop)
    if tensor == "angles":
        out = np.empty((stop - start, width // 2), dtype)
        state.angles(part(params, inputs, start, stop), out)
        return out
    return _tables(params, inputs, state, (tensor,), start, stop)[tensor]


def _together(params: Rope, inputs: Inputs, state: Angles, start: int, stop: int) -> dict[str, Array]:
    """A cosine takes little more where its sine is computed: both are parts of one complex number."""
    return _tables(params, inputs, state, ("cos", "sin"), start, stop)


def _tables(
    params: Rope, inputs: Inputs, state: Angles, names: tuple[str, ...], start: int, stop: int
) -> dict[str, Array]:
    width = table_width(params, params.dim)
    shape = (stop - start, width if params.columns == "full" else width // 2)
    outs = {name: np.empty(shape, DTYPES[params.dtype]) for name in names}
    write_columns(state, part(params, inputs, start, stop), params, params.columns, outs)
    return outs


def _parts(params: Rope, inputs: Inputs, state: Angles, pairs: int, start: int, stop: int) -> Array:
    """Complex numbers `start` to `stop`: those of the positions that have some of them, cut."""
    first, last = start // pairs, -(-stop // pairs)
    out = np.empty((last - first, pairs, 2), DTYPES[params.dtype])
    state.write(part(params, inputs, first, last), out[..., 0], out[..., 1])
    return out.reshape(-1, 2)[start - first * pairs : stop - first * pairs]


def _sequence(params: Rope, inputs: Inputs) -> Sequence | None:
    found = None if params.output in PER_PAIR else sequence(_centred(params, inputs), inputs)
    if found is None or params.output != "complex":
        return found
    return Sequence(found.key, found.start * table_width(params, params.dim) // 2)


def _facts(params: Rope, _inputs: Inputs) -> Facts:
    return rotary_facts(params, params.dim)


def _notes(params: Rope, _inputs: Inputs) -> list[str]:
    without = {
        "cos-sin": (),
        "complex": ("columns", "pairing"),
        "angles": ("columns", "pairing", *XPOS),
        "frequencies": ("length", "offset", "positions", "columns", "pairing", "angle_sign", *XPOS),
        "divisors": ("length", "offset", "positions", "columns", "pairing", "angle_sign", "arithmetic", *XPOS),
    }
    return rotary_notes(params) + unused(params, without[params.output], f"output={params.output}")


def _resolve(params: Rope, inputs: Inputs) -> Rope:
    return resolved(_centred(params, inputs), params.dim)


DESCRIPTION = f"""\
Pair k of a head turns by the angle `p * w_k` at position p, `w_k = base^(-2k/rotary_dim)`. The tables hold
`A cos(p w_k)` and `A sin(p w_k)`.

**Channel order** with `columns=full`: `pairing=half` (GPT-NeoX, Llama in Hugging Face form) is c_0 ... c_h-1 and the
same again, for channel k turning with k + h, h = rotary_dim/2; `pairing=interleaved` (GPT-J, Meta's Llama) is c_0, c_0,
c_1, c_1, ..., for channel 2k turning with 2k + 1. `columns=half` is c_0 ... c_h-1 once, the ONNX cache.
Axes: (position, channel). `.npy` stacks cos and sin in that order. `output=complex` has the axes (position, frequency,
part): `torch.view_as_complex` and `numpy`'s `.view("complex64")[..., 0]` read it. `angle_sign=negative` negates the
sines and the angles.

{FORMULAS}"""

SCHEME: Scheme[Rope, Angles] = Scheme(
    pasted=ROPE_BLOCK,
    family="encodings",
    name="rope",
    title="Rotary position embedding: cos and sin tables",
    explanation=(
        "Instead of adding something to a token, RoPE turns its query and key: each pair of channels by an angle that "
        "grows with the position, quickly for the first pairs and slowly for the last. A score then depends on how far "
        "apart two tokens are, not on where they stand. The tables hold the cosines and sines of those angles; most "
        "language models of today use them."
    ),
    description=DESCRIPTION,
    reference="Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, section 3.2",
    params=Rope,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    together=_together,
    facts=_facts,
    notes=_notes,
    resolve=_resolve,
    sequence=_sequence,
    state_bytes=lambda params, _inputs: WAVE_BYTES * params.dim // 2,
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Four positions of an eight-channel head", {"length": "4", "dim": "8"}),
        Example(
            "Llama 3.1, as its PyTorch code computes it",
            {"length": "4", "dim": "128", "base": "500000", "arithmetic": "float32"},
        ),
        Example(
            "YaRN: four times the trained length, from spelled-out parameters",
            {
                "length": "2",
                "dim": "8",
                "base": "1e6",
                "rope_type": "yarn",
                "factor": "4",
                "original_max_position_embeddings": "32768",
            },
        ),
        Example(
            "Divisors for a GGUF rope_freqs tensor",
            {
                "dim": "32",
                "base": "500000",
                "rope_type": "llama3",
                "factor": "8",
                "low_freq_factor": "1",
                "high_freq_factor": "4",
                "original_max_position_embeddings": "8192",
                "output": "divisors",
            },
        ),
        Example(
            "Complex numbers, as Meta's Llama and torchtune keep them", {"length": "3", "dim": "8", "output": "complex"}
        ),
        Example("Inverse frequencies only", {"dim": "64", "output": "frequencies"}),
        Example(
            "Positions of a batch, in the body",
            {"dim": "8", "columns": "half"},
            {"positions": [[0, 1, 2], [7, 8, 9]]},
        ),
        Example(
            "A pasted Llama 3.1 block",
            {"dim": "8", "base": "500000"},
            {
                "positions": [0, 1, 9000],
                "rope_parameters": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                },
            },
        ),
    ),
    used_by=(
        Usage("Llama, Mistral, Qwen, Gemma, GPT-NeoX and most models in Hugging Face form", {"pairing": "half"}),
        Usage("GPT-J, CodeGen, Cohere, GLM; Meta's own Llama code; torchtune", {"pairing": "interleaved"}),
        Usage("Phi-2 (32 of 80 channels)", {"dim": "80", "partial_rotary_factor": "0.4"}),
        Usage("ONNX RotaryEmbedding caches", {"columns": "half"}),
        Usage(
            "Llama 4 (freqs_cis), the layout of torchtune's cache",
            {"output": "complex", "base": "500000", "arithmetic": "float32"},
            preset="llama-4",
        ),
        *ON_ONE_AXIS,
    ),
    properties={
        "distance": "scores depend on differences of positions alone",
        "caching": "keys are turned once, and kept so",
        "implementation": "queries and keys turned in every layer: two products and a sum",
        "memory per head": "none: one table of length * width values serves all heads",
        "learned parameters": "none",
        "extrapolates": "defined at any position; models need scaling beyond training",
    },
)
