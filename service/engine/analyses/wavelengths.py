"""How many positions each pair of a rotary embedding needs for one turn."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.reals import Reals, pi
from service.engine.quantities import DType, ExactInteger, HeadDim
from service.engine.rotation.rope_block import ROPE_BLOCK
from service.engine.rotation.rotary import Rotary, fastest, resolved, table_width
from service.engine.rotation.scaling_exact import scaled_frequencies
from service.engine.rotation.scaling_notes import scaling_notes
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.waves import values

TrainedLength = Annotated[
    ExactInteger | None,
    Field(ge=1, description="Positions that a model was trained on; `facts` count what turns within them."),
]


class Wavelengths(Scaling):
    """Parameters of `analyses/wavelengths`."""

    dim: HeadDim
    trained_length: TrainedLength = None
    dtype: DType = "float64"


def _exact(params: Wavelengths) -> Reals:
    """2 pi / w_k; refuses scalings under which a pair stands still."""
    width = table_width(params, params.dim)
    fastest(Rotary(**params.model_dump(include=set(Scaling.model_fields))), width)
    frequencies = scaled_frequencies(resolved(params, params.dim), width)
    if not all(frequencies):
        detail = f"rope_type={params.rope_type} has pairs that do not turn; a wave needs a frequency above 0"
        raise Refusal("rope_type", "conflict", detail)
    return frequencies.reciprocal() * (2 * pi())


def _tensors(params: Wavelengths, _inputs: Inputs) -> Tensors:
    waves = _exact(params).rounded()
    refuse_overflow(float(waves.max()), params.dtype, "the longest wavelength")
    return {"wavelengths": Tensor(("frequency",), waves.shape, params.dtype)}


def _rows(params: Wavelengths, _inputs: Inputs, state: Reals, _tensor: str, _start: int, _stop: int) -> Array:
    return values(state, DTYPES[params.dtype])[None]


def _facts(params: Wavelengths, _inputs: Inputs) -> Facts:
    waves = _exact(params).rounded()
    facts: Facts = {"shortest": float(waves.min()), "longest": float(waves.max())}
    if params.trained_length is not None:
        within = _turned(params, params.trained_length)
        facts["longer_than_trained"] = len(waves) - within
        facts["pairs_turned_within_trained"] = within
        facts["channels_turned_within_trained"] = 2 * within
    return facts


def _turned(params: Wavelengths, length: int) -> int:
    """How many pairs complete a turn within so many positions."""
    return int((_exact(params).rounded() <= length).sum())


def _lines(params: Wavelengths) -> Mapping[str, float]:
    length = params.trained_length
    if length is None:
        return {}
    within, pairs = _turned(params, length), table_width(params, params.dim) // 2
    told = f"{within} of {pairs} pairs ({2 * within} of {2 * pairs} channels) complete a turn"
    return {f"trained_length={length}: {told}": float(length)}


DESCRIPTION = """\
`2 pi / w_k` for each frequency w_k, in positions: `w_k = base^(-2k/rotary_dim)`, or scaled as `encodings/rope` has it.
Pairs whose wave is longer than `trained_length` never made a whole turn in training: position interpolation, YaRN and
Llama 3 differ in what they do to those; `facts` count them, and the pairs and channels that did, and a picture marks
the length. The waves of `encodings/sinusoidal` with its default frequencies are the same.

**Axes**: (frequency), the fastest first unless a scaling orders them otherwise."""

SCHEME: Scheme[Wavelengths, Reals] = Scheme(
    family="analyses",
    name="wavelengths",
    title="Wavelengths of a rotary embedding",
    explanation=(
        "How many positions each pair of channels takes for one full turn, from a few to tens of thousands. Pairs that "
        "never complete a turn in training meet new angles in longer texts, which is what context extension has to "
        "solve."
    ),
    description=DESCRIPTION,
    reference="Peng et al., YaRN: Efficient Context Window Extension of Large Language Models, 2023, section 3.1",
    params=Wavelengths,
    rounding="correct",
    tensors=_tensors,
    prepare=lambda params, _inputs: _exact(params),
    rows=_rows,
    resolve=lambda params, _inputs: resolved(params, params.dim),
    facts=_facts,
    notes=lambda params, _inputs: scaling_notes(params),
    lines=_lines,
    quantities={"wavelengths": "positions a turn"},
    pasted=ROPE_BLOCK,
    examples=(
        Example("A head of 128 channels", {"dim": "128"}),
        Example("Llama 2, trained on 4096 positions", {"dim": "128", "trained_length": "4096"}),
    ),
    used_by=(Usage("Sinusoidal tables of the paper and RoPE with base 10000", {}),),
    properties={"learned parameters": "none", "grows": "geometrically, with the base as the ratio of the ends"},
)
