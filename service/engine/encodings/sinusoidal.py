"""Sinusoidal encoding: sines and cosines of geometrically spaced frequencies (Vaswani et al., 2017)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import Angles, float32_notes
from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow, wave_bytes
from service.engine.positions import POSITIONS_INPUT, Positioned, Values, Where, part, sequence, where
from service.engine.quantities import BatchAxis, Dim, DType
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage, unused
from service.engine.sinusoids import (
    SinusoidalTable,
    channels,
    fastest,
    frequencies,
    refuse_slow,
    table_angles,
    write_table,
)
from service.engine.standardised import Standardised

MOST_SUMMED = 8192  # channels, half a second of work

Output = Annotated[
    Literal["encoding", "angles", "frequencies"],
    Field(description="`encoding`: the table; `angles`: position * frequency; `frequencies`: one a sine."),
]
Normalisation = Annotated[
    Literal["none", "unit"],
    Field(description="`unit`: every position is divided by length - 1, so that a table runs from 0 to 1."),
]


class Sinusoidal(SinusoidalTable, Positioned):
    """Parameters of `encodings/sinusoidal`."""

    dim: Dim
    order: Annotated[
        Literal["ascending", "descending"],
        Field(description="`descending`: the positions offset + length - 1 ... offset, as Transformer-XL has them."),
    ] = "ascending"
    normalisation: Normalisation = "none"
    standardisation: Annotated[
        Literal["none", "tenth"],
        Field(
            description="`tenth`: the mean of all values of the table is taken from each, which is then divided by ten "
            "times their (unbiased) standard deviation, as PatchTST; exact, of a length and not of positions."
        ),
    ] = "none"
    dtype: DType = "float32"
    batch_axis: BatchAxis = "none"
    output: Output = "encoding"


def _tensors(params: Sinusoidal, inputs: Inputs) -> Tensors:
    fast = fastest(params, params.dim)
    count = channels(params.dim, params.layout, params.odd_width).pairs
    if params.output == "frequencies":
        refuse_overflow(fast, params.dtype, "the largest frequency")
        return {"frequencies": Tensor(("frequency",), (count,), params.dtype)}
    places = where(params, inputs)
    _refuse_position_rules(params)
    _refuse_to_standardise(params)
    last, width = ("channel", params.dim) if params.output == "encoding" else ("frequency", count)
    if params.output == "angles":
        refuse_overflow(fast * places.farthest, params.dtype, "the largest angle")
    axes, shape = _with_batch_axis(params.batch_axis, places)
    return {params.output: Tensor((*axes, last), (*shape, width), params.dtype)}


def _refuse_position_rules(params: Sinusoidal) -> None:
    for name, plain in (("order", "ascending"), ("normalisation", "none"), ("standardisation", "none")):
        if params.length is None and getattr(params, name) != plain:
            raise Refusal(name, "conflict", f"{name} and positions exclude each other; positions say everything")
    if params.normalisation == "unit":
        if params.length == 1:
            detail = "length is 1; normalisation=unit divides by length - 1: 2 or more would do"
            raise Refusal("length", "out_of_range", detail, limit=2, requested=1)
        if params.arithmetic != "exact":
            detail = "normalisation=unit is exact; no model code is known whose steps in float32 it could follow"
            raise Refusal("normalisation", "conflict", detail)
        refuse_slow(params, params.dim, (params.length or 2) - 1)


def _refuse_to_standardise(params: Sinusoidal) -> None:
    """Refuse tables whose mean and deviation would be of something else than their sines and cosines."""
    if params.standardisation == "none":
        return
    for name in ("length", "dim"):
        if getattr(params, name) == 1:
            detail = f"{name} is 1; standardisation=tenth needs several positions of several channels: 2 or more"
            raise Refusal(name, "out_of_range", detail, limit=2, requested=1)
    if params.dim > MOST_SUMMED:
        detail = f"dim is {params.dim}; standardisation=tenth sums up to {MOST_SUMMED} channels to 80 digits"
        raise Refusal("dim", "out_of_range", detail, limit=MOST_SUMMED, requested=params.dim)
    partial = params.padding_idx is not None or (params.dim % 2 == 1 and params.odd_width != "extra-sine")
    if params.arithmetic != "exact" or partial:
        detail = (
            "standardisation=tenth is exact and of all values: no float32 steps, padding row, column of zeros or "
            "truncated width"
        )
        raise Refusal("standardisation", "conflict", detail)


def _with_batch_axis(batch_axis: str, places: Where) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if batch_axis == "none":
        return places.axes, places.shape
    if len(places.shape) > 1:
        raise Refusal("batch_axis", "conflict", "the positions bring their own axes: leave batch_axis at none")
    if batch_axis == "first":
        return ("batch", *places.axes), (1, *places.shape)
    return (*places.axes, "batch"), (*places.shape, 1)


def _prepare(params: Sinusoidal, _inputs: Inputs) -> Angles:
    length = params.length or 2
    normalised = params.normalisation == "unit" and params.output != "frequencies"
    divisor = length - 1 if normalised else 1
    if params.standardisation == "none" or params.output != "encoding":
        return table_angles(params, params.dim, divisor)
    cosines = channels(params.dim, params.layout, params.odd_width).cosine_count
    return Standardised(frequencies(params, params.dim) / divisor, cosines, params.offset, length)


def _rows(params: Sinusoidal, inputs: Inputs, state: Angles, tensor: str, start: int, stop: int) -> Array:
    dtype = DTYPES[params.dtype]
    if tensor == "frequencies":
        return state.frequencies(dtype)[None, :]
    at, backwards = _positions(params, inputs, start, stop)
    if tensor == "angles":
        count = channels(params.dim, params.layout, params.odd_width).pairs
        angles = np.empty((stop - start, count), dtype)
        state.angles(at, angles[::backwards])
        return angles
    out = np.empty((stop - start, params.dim), dtype)
    write_table(params, state, at, out[::backwards])
    return out


def _positions(params: Sinusoidal, inputs: Inputs, start: int, stop: int) -> tuple[Values, int]:
    """Where the rows lie, and the step, 1 or -1, in which they are written."""
    if params.order == "ascending" or params.length is None:
        return part(params, inputs, start, stop), 1
    return part(params, inputs, params.length - stop, params.length - start), -1


def _sequence(params: Sinusoidal, inputs: Inputs) -> Sequence | None:
    of_the_whole = params.normalisation == "unit" or params.standardisation == "tenth"
    alone = of_the_whole or params.output == "frequencies" or params.order == "descending"
    return None if alone else sequence(params, inputs)


def _facts(params: Sinusoidal, _inputs: Inputs) -> Facts:
    order = channels(params.dim, params.layout, params.odd_width)
    return {"sines": order.sine_count, "cosines": order.cosine_count}


def _notes(params: Sinusoidal, _inputs: Inputs) -> list[str]:
    of_values = ("layout", "padding_idx", "encoding_scale", "amplitude", "standardisation")
    of_positions = ("length", "offset", "positions", "order", "normalisation", "batch_axis")
    without = {"encoding": (), "angles": of_values, "frequencies": (*of_positions, *of_values)}
    notes = float32_notes(params.arithmetic) + unused(params, without[params.output], f"output={params.output}")
    if params.standardisation == "tenth" and params.output == "encoding":
        notes += unused(params, ("encoding_scale", "amplitude"), "standardisation=tenth")
    return notes


DESCRIPTION = """\
For position p and frequency k the angle is `p * w_k`, `w_k = base^(-2k/dim)` (with `frequency_shift` s:
`base^(-k/(dim/2 - s))`). Each frequency gives one sine and one cosine. Instead of `base`, two timescales or two
frequencies may be given, between which n frequencies lie (n = 1: the first): `w_k = min_timescale *
(max_timescale/min_timescale)^(-k/(n - 1))`, or `w_k = max_frequency * (min_frequency/max_frequency)^(k/(n - 1))`.
`angle_factor` multiplies each; `encoding_scale` and `amplitude` multiply the sines and cosines.

**Channel order**: `layout=interleaved` is sin w_0, cos w_0, sin w_1, cos w_1, ... (the paper);
`sin-cos` is all sines, then all cosines (tensor2tensor, fairseq, Whisper, Marian); `cos-sin` the reverse.
Axes: (position, channel).

A preset is a library's convention in exact arithmetic, unless it says otherwise; `arithmetic=float32` beside it takes
the steps of PyTorch code (CTRL, Transformer-XL, XLNet, x-transformers and positional-encodings have
`frequency_form=power`).

**Elsewhere**: positions in images are `encodings/sinusoidal-2d`, in video `encodings/sinusoidal-3d`; linear and octave
bands `encodings/fourier`, random ones `encodings/gaussian-fourier`. The positions of a padded batch
come from its attention mask or token ids: POST `positions/from-mask` and send its answer as `positions`
(`preset=fairseq` there and here: from padding_idx + 1 on, padding at padding_idx, whose row is zeros). Distances that
end at Transformer-XL's clamp_len are `biases/transformer-xl`."""

SCHEME: Scheme[Sinusoidal, Angles] = Scheme(
    family="encodings",
    name="sinusoidal",
    title="Sinusoidal position encoding",
    explanation=(
        "Every position gets a row of sines and cosines, from fast waves on the left to waves so slow that they hardly "
        "turn, and the row is added to the token's embedding before the first layer. Nearby positions get similar "
        "rows, and no two rows are alike: like the hands of many clocks, they tell the time together."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.5",
    params=Sinusoidal,
    rounding="correct",
    tensors=_tensors,
    sequence=_sequence,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    state_bytes=lambda params, _inputs: wave_bytes(params.dim),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Four positions of eight channels", {"length": "4", "dim": "8"}),
        Example("As the usual PyTorch module computes it", {"length": "4", "dim": "8", "arithmetic": "float32"}),
        Example("Real-valued positions", {"positions": "0,0.5,-3", "dim": "6", "layout": "sin-cos"}),
        Example(
            "Frequencies between two, rows of norm 1",
            {
                "length": "3",
                "dim": "6",
                "layout": "sin-cos",
                "min_frequency": "0.0001",
                "max_frequency": "1",
                "encoding_scale": "sqrt-2-over-dim",
            },
        ),
        Example("Positions of a batch, in the body", {"dim": "4"}, {"positions": [[0, 1, 2], [5, 6, 7]]}),
    ),
    used_by=(
        Usage("Vaswani et al. 2017", {}, "vaswani"),
        Usage(
            "The module of the PyTorch introductions; Informer2020, Autoformer and neuralforecast as their code has it",
            {"arithmetic": "float32"},
            "pytorch-module",
        ),
        Usage("Informer2020, Autoformer (the authors' code), neuralforecast", {"odd_width": "refuse"}, "informer2020"),
        Usage("XLM, Flaubert, DistilBERT, VideoMAE", {}, "xlm"),
        Usage("diffusers SinusoidalPositionalEmbedding", {"odd_width": "refuse"}, "diffusers"),
        Usage("Florence-2 (frames)", {"odd_width": "refuse"}, "florence2"),
        Usage("SpeechT5, whose trained alpha is the amplitude", {"odd_width": "refuse"}, "speecht5"),
        Usage("keras-hub SinePositionEncoding", {}, "keras-hub"),
        Usage("positional-encodings PositionalEncoding1D", {"odd_width": "truncate"}, "positional-encodings"),
        Usage("Marian, Pegasus, RoFormer", {"layout": "sin-cos"}, "marian"),
        Usage("Informer, Autoformer, Time Series Transformer in transformers", {"layout": "sin-cos"}, "informer"),
        Usage("CTRL", {"layout": "sin-cos"}, "ctrl"),
        Usage(
            "tensor2tensor get_timing_signal_1d",
            {"layout": "sin-cos", "odd_width": "zero-column", "min_timescale": "1", "max_timescale": "10000"},
            "tensor2tensor",
        ),
        Usage(
            "TimesFM",
            {"layout": "sin-cos", "min_timescale": "1", "max_timescale": "10000", "odd_width": "refuse"},
            "timesfm",
        ),
        Usage(
            "fairseq, FSMT, M2M100, NLLB-MoE, XGLM, SeamlessM4T, Speech2Text, Kosmos-2, TrOCR (padding index 1; the "
            "positions of a padded batch are those of positions/from-mask with preset=fairseq)",
            {"layout": "sin-cos", "frequency_shift": "1", "odd_width": "zero-column", "padding_idx": "1"},
            "fairseq",
        ),
        Usage("Whisper encoder", {"layout": "sin-cos", "frequency_shift": "1", "odd_width": "refuse"}, "whisper"),
        Usage(
            "Qwen2.5-Omni and Qwen3-Omni audio",
            {"layout": "sin-cos", "frequency_shift": "1", "odd_width": "refuse"},
            "qwen-omni",
        ),
        Usage("Pegasus-X", {"layout": "sin-cos", "frequency_shift": "1", "odd_width": "refuse"}, "pegasus-x"),
        Usage(
            "FunASR, SenseVoice",
            {"layout": "sin-cos", "frequency_shift": "1", "offset": "1", "odd_width": "refuse"},
            "funasr",
        ),
        Usage("Canary", {"layout": "sin-cos", "encoding_scale": "inverse-sqrt-dim", "odd_width": "refuse"}, "canary"),
        Usage(
            "x-transformers ScaledSinusoidalEmbedding, as it is initialised",
            {"layout": "sin-cos", "encoding_scale": "inverse-sqrt-dim", "odd_width": "refuse"},
            "x-transformers",
        ),
        Usage(
            "PatchTST, PatchTSMixer (positional_encoding_type sincos)",
            {"standardisation": "tenth", "odd_width": "refuse"},
            "patchtst",
        ),
        Usage(
            "MusicGen, MusicGen Melody",
            {"layout": "cos-sin", "frequency_shift": "1", "odd_width": "zero-column"},
            "musicgen",
        ),
        Usage("Transformer-XL", {"layout": "sin-cos", "order": "descending", "odd_width": "refuse"}, "transformer-xl"),
        Usage(
            "XLNet, with offset=1 - queries",
            {"layout": "sin-cos", "order": "descending", "odd_width": "refuse"},
            "xlnet",
        ),
        Usage(
            "Gemma 3n and Gemma 4 audio (relative positions)",
            {
                "layout": "sin-cos",
                "min_timescale": "1",
                "max_timescale": "10000",
                "order": "descending",
                "odd_width": "refuse",
            },
            "gemma-audio",
        ),
        Usage(
            "MLX SinusoidalPositionalEncoding (cos_first is layout=cos-sin, full_turns is angle_factor=two-pi)",
            {
                "layout": "sin-cos",
                "min_frequency": "0.0001",
                "max_frequency": "1",
                "encoding_scale": "sqrt-2-over-dim",
                "odd_width": "refuse",
            },
            "mlx",
        ),
        Usage(
            "pi0 (flow times from 0 to 1, min_period 4e-3, max_period 4)",
            {
                "layout": "sin-cos",
                "min_frequency": "0.25",
                "max_frequency": "250",
                "angle_factor": "two-pi",
                "odd_width": "refuse",
            },
            "pi0",
        ),
    ),
    properties={
        "distance": "each row turns into that k positions on by one matrix, which a model may learn to use",
        "caching": "added once, before the first layer: keys are as any others",
        "implementation": "one table, added once",
        "memory per head": "none: one table of length * width values serves all heads",
        "learned parameters": "none",
        "extrapolates": "defined at any position; models rarely generalise",
    },
)
