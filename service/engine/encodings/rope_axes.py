"""Rotary position embedding on several axes: the cos and sin tables of M-RoPE, vision towers and video models."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, refuse_overflow
from service.engine.quantities import Columns, DType
from service.engine.rotation.rope_axes import (
    AxisWaves,
    fastest_of,
    notes_of,
    placed,
    positions_along,
    waves_of,
    write_axis,
)
from service.engine.rotation.rope_sections import Column, RopeAxes, channel_columns, letters_of, pair_columns, rotated
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage, unused

Waves = tuple[AxisWaves, ...]


class RopeAxesTable(RopeAxes):
    """Parameters of `encodings/rope-axes`."""

    columns: Columns = "full"
    rest: Annotated[
        Literal["left-out", "first", "last"],
        Field(
            description="Columns of channels that do not turn, where rotary_dim is less than dim: none, or cos 1 and "
            "sin 0 before the others (LTX) or after them."
        ),
    ] = "left-out"
    output: Annotated[
        Literal["cos-sin", "angles", "frequencies"],
        Field(description="`cos-sin`: both tables; `angles`: one a pair; `frequencies`: of each pair."),
    ] = "cos-sin"
    dtype: DType = "float32"


def _columns(params: RopeAxesTable) -> Column:
    """What each column shows that turns."""
    full = params.output == "cos-sin" and params.columns == "full"
    return channel_columns(params) if full else pair_columns(params)


def _beside(params: RopeAxesTable) -> int:
    """How many columns stand beside those that turn."""
    if params.rest == "left-out":
        return 0
    if params.output != "cos-sin" or params.columns == "half":
        raise Refusal("rest", "conflict", f"rest={params.rest} is for cos and sin with columns=full")
    return params.dim - rotated(params)


def _tensors(params: RopeAxesTable, inputs: Inputs) -> Tensors:
    columns, beside = _columns(params), _beside(params)
    if params.output == "frequencies":
        fast = fastest_of(params, None)
        refuse_overflow(fast, params.dtype, "the largest frequency")
        return {"frequencies": Tensor(("frequency",), (len(columns.axis),), params.dtype)}
    places = placed(params, inputs)
    fast = fastest_of(params, places.grid)
    if params.output == "angles":
        refuse_overflow(fast * _farthest(params, inputs), params.dtype, "the largest angle")
        return {
            "angles": Tensor((*places.where.axes, "frequency"), (*places.where.shape, len(columns.axis)), params.dtype)
        }
    table = Tensor((*places.where.axes, "channel"), (*places.where.shape, len(columns.axis) + beside), params.dtype)
    return {"cos": table, "sin": table}


def _farthest(params: RopeAxesTable, inputs: Inputs) -> float:
    """About the largest position, for no more than a bound."""
    if "positions" in inputs:
        return placed(params, inputs).where.farthest
    return float(2 * max(*params.grid or (), *params.base_size or (), 1) + abs(params.offset))


def _prepare(params: RopeAxesTable, inputs: Inputs) -> Waves:
    grid = None if params.output == "frequencies" else placed(params, inputs).grid
    return waves_of(params, _columns(params), grid)


def _rows(params: RopeAxesTable, inputs: Inputs, state: Waves, tensor: str, start: int, stop: int) -> Array:
    dtype = DTYPES[params.dtype]
    width = sum(len(waves.columns) for waves in state)
    if tensor == "frequencies":
        row = np.empty((1, width), dtype)
        for waves in state:
            row[0, waves.columns] = waves.angles.frequencies(dtype)[waves.picked]
        return row
    beside = _beside(params)
    out = np.full((stop - start, width + beside), 1 if tensor == "cos" else 0, dtype)
    turned = out[:, beside:] if params.rest == "first" else out[:, :width]
    for waves in state:
        write_axis(waves, positions_along(params, inputs, waves.axis, start, stop), tensor, turned)
    return out


def _facts(params: RopeAxesTable, _inputs: Inputs) -> Facts:
    axes = letters_of(_columns(params), len(params.sections))
    return {"rotary_dim": rotated(params), "attention_factor": 1.0, "axes_of_columns": axes}


def _notes(params: RopeAxesTable, inputs: Inputs) -> list[str]:
    without = {"cos-sin": (), "angles": ("columns", "pairing"), "frequencies": ("columns", "pairing", "grid", "offset")}
    return notes_of(params, inputs) + unused(params, without[params.output], f"output={params.output}")


def _resolve(params: RopeAxesTable, _inputs: Inputs) -> RopeAxesTable:
    return params.model_copy(update={"rotary_dim": rotated(params)})


DESCRIPTION = """\
Positions have several coordinates (time, height, width; height, width; up to four axes), and each pair of channels is
turned by one of them: pair k by `p_a w_k`, where `section_rule` says which axis a, and `frequencies` which w_k. The
tables hold the cosines and sines of these angles. Where all coordinates are equal and frequencies are shared, this is
the RoPE of `encodings/rope`.

The positions are a `grid` of patches, row by row (frames, rows, columns), or they are in the body of a POST,
(…, axes). The **channel order** with `columns=full` is that of the `pairing`; `half` has one column a pair. The fact
`axes_of_columns` names the axis of every column. Axes: (position, channel). `.npy` stacks cos and sin in that order."""

SCHEME: Scheme[RopeAxesTable, Waves] = Scheme(
    family="encodings",
    name="rope-axes",
    title="Rotary position embedding on several axes: cos and sin tables",
    description=DESCRIPTION,
    reference="Wang et al., Qwen2-VL, 2024 (M-RoPE); Heo et al., Rotary Position Embedding for ViT, 2024",
    params=RopeAxesTable,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    resolve=_resolve,
    state_bytes=lambda params, _inputs: WAVE_BYTES * params.dim,
    inputs=(
        Input(
            "positions",
            "Positions, one for each axis along the last of (…, axes): integers or real numbers, negative too.",
            required=False,
        ),
    ),
    examples=(
        Example("A grid of 2 x 3 patches", {"dim": "8", "sections": "2,2", "frequencies": "per-axis", "grid": "2,3"}),
        Example(
            "Two frames of 2 x 2 patches, the axes of pairs in turn",
            {"dim": "16", "sections": "4,2,2", "section_rule": "interleaved", "columns": "half", "grid": "2,2,2"},
        ),
        Example(
            "Positions of a batch, in the body",
            {"dim": "8", "sections": "2,2", "columns": "half"},
            {"positions": [[[5, 6], [8, 8]], [[0, 0], [0, 1]]]},
        ),
        Example(
            "Frequencies of a video model's axes",
            {"dim": "24", "sections": "4,4,4", "frequencies": "per-axis", "output": "frequencies"},
        ),
    ),
    used_by=(
        Usage(
            "Qwen2-VL, Qwen2.5-VL, Qwen2.5-Omni: text",
            {"dim": "128", "sections": "16,24,24", "base": "1000000"},
            "qwen2-vl",
        ),
        Usage(
            "Qwen3-VL, Qwen3-Omni: text",
            {"dim": "128", "sections": "24,20,20", "section_rule": "interleaved", "base": "5000000"},
            "qwen3-vl",
        ),
        Usage(
            "Qwen3.5: text",
            {
                "dim": "256",
                "rotary_dim": "64",
                "sections": "11,11,10",
                "section_rule": "interleaved",
                "base": "10000000",
            },
            "qwen3-5",
        ),
        Usage(
            "GLM-4V, GLM-OCR: text",
            {"dim": "128", "rotary_dim": "64", "sections": "8,12,12", "pairing": "interleaved"},
            "glm-4v",
        ),
        Usage(
            "ERNIE-4.5-VL: text",
            {
                "dim": "128",
                "sections": "22,22,20",
                "section_order": "1,2,0",
                "section_rule": "spatial-first",
                "pairing": "interleaved",
                "base": "500000",
            },
            "ernie-4-5-vl",
        ),
        Usage(
            "HunYuan-VL: text (no rotation)",
            {"dim": "128", "sections": "16,16,16,16", "section_rule": "doubled"},
            "hunyuan-vl",
        ),
        Usage(
            "llama.cpp IMROPE (Qwen3-VL)",
            {
                "dim": "128",
                "sections": "24,20,20,0",
                "section_rule": "interleaved-ggml",
                "base": "5000000",
                "arithmetic": "ggml",
            },
            "ggml-imrope",
        ),
        Usage(
            "llama.cpp MROPE (Qwen2-VL)",
            {"dim": "128", "sections": "16,24,24", "base": "1000000", "arithmetic": "ggml"},
            "ggml-mrope",
        ),
        Usage(
            "llama.cpp VISION (Qwen2-VL)",
            {"dim": "80", "sections": "20,20", "frequencies": "per-axis", "arithmetic": "ggml"},
            "ggml-vision",
        ),
        Usage(
            "NeoMME",
            {"dim": "64", "sections": "16,16", "section_rule": "alternating"},
            "neomme",
        ),
        Usage(
            "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, GLM-4V, PaddleOCR-VL: vision (patches in blocks of 2 x 2)",
            {"dim": "80", "sections": "20,20", "frequencies": "per-axis", "spatial_merge_size": "2"},
            "qwen2-vl-vision",
        ),
        Usage("Pixtral", {"dim": "64", "sections": "16,16", "frequencies": "strided"}, "pixtral"),
        Usage(
            "Llama 4: vision",
            {
                "dim": "88",
                "sections": "22,22",
                "section_order": "1,0",
                "frequencies": "per-axis",
                "pairing": "interleaved",
                "offset": "1",
                "class_token": "last",
            },
            "llama-4-vision",
        ),
        Usage(
            "Gemma 4: vision",
            {
                "dim": "64",
                "sections": "16,16",
                "section_order": "1,0",
                "frequencies": "per-axis",
                "pairing": "half-per-axis",
                "base": "100",
            },
            "gemma-4-vision",
        ),
        Usage(
            "Kimi K2.5: vision",
            {
                "dim": "72",
                "sections": "18,18",
                "section_order": "1,0",
                "section_rule": "alternating",
                "frequencies": "per-axis",
            },
            "kimi-k2-5",
        ),
        Usage(
            "MiniMax-M3-VL: vision",
            {"dim": "80", "rotary_dim": "78", "sections": "13,13,13", "frequencies": "per-axis"},
            "minimax-m3-vl",
        ),
        Usage(
            "SAM 2, SAM 3, EdgeTAM: memory attention",
            {
                "dim": "256",
                "sections": "64,64",
                "section_order": "1,0",
                "frequencies": "per-axis",
                "pairing": "interleaved",
            },
            "sam-2",
        ),
        Usage(
            "DINOv3",
            {
                "dim": "64",
                "sections": "16,16",
                "frequencies": "per-axis",
                "base": "100",
                "angle_factor": "two-pi",
                "coordinates": "unit-centres",
            },
            "dinov3",
        ),
        Usage(
            "EVA-02 (timm, 16 x 16 reference)",
            {
                "dim": "64",
                "sections": "16,16",
                "frequencies": "per-axis",
                "pairing": "interleaved",
                "base_size": "16,16",
            },
            "eva-02",
        ),
        Usage(
            "timm RotaryEmbeddingCat, in pixels (max_res 224)",
            {
                "dim": "64",
                "sections": "16,16",
                "frequencies": "rising",
                "base": "112",
                "angle_factor": "pi",
                "pairing": "interleaved",
                "coordinates": "unit-ends",
            },
            "timm-pixels",
        ),
        Usage(
            "timm RotaryEmbeddingCat, in pixels with linear_bands",
            {
                "dim": "64",
                "sections": "16,16",
                "frequencies": "linear",
                "max_frequency": "112",
                "angle_factor": "pi",
                "pairing": "interleaved",
                "coordinates": "unit-ends",
            },
            "timm-pixels-linear",
        ),
        Usage(
            "Wan",
            {"dim": "128", "sections": "22,21,21", "frequencies": "per-axis", "pairing": "interleaved"},
            "wan",
        ),
        Usage(
            "Flux",
            {"dim": "128", "sections": "8,28,28", "frequencies": "per-axis", "pairing": "interleaved"},
            "flux",
        ),
        Usage(
            "Flux 2",
            {
                "dim": "128",
                "sections": "16,16,16,16",
                "frequencies": "per-axis",
                "pairing": "interleaved",
                "base": "2000",
            },
            "flux-2",
        ),
        Usage(
            "Qwen-Image (complex: one column a pair)",
            {
                "dim": "128",
                "sections": "8,28,28",
                "frequencies": "per-axis",
                "pairing": "interleaved",
                "coordinates": "centred",
                "columns": "half",
            },
            "qwen-image",
        ),
        Usage(
            "HunyuanVideo",
            {
                "dim": "128",
                "sections": "8,28,28",
                "frequencies": "per-axis",
                "pairing": "interleaved",
                "base": "256",
            },
            "hunyuan-video",
        ),
        Usage(
            "CogVideoX",
            {"dim": "64", "sections": "8,12,12", "frequencies": "per-axis", "pairing": "interleaved"},
            "cogvideox",
        ),
        Usage(
            "Allegro",
            {"dim": "96", "sections": "16,16,16", "frequencies": "per-axis", "pairing": "half-per-axis"},
            "allegro",
        ),
        Usage(
            "CogView4",
            {
                "dim": "64",
                "sections": "16,16",
                "frequencies": "per-axis",
                "coordinates": "floor",
                "base_size": "256,256",
            },
            "cogview4",
        ),
        Usage(
            "Cosmos",
            {"dim": "128", "sections": "22,21,21", "frequencies": "per-axis", "ntk_factor": "2,1,1"},
            "cosmos",
        ),
        Usage(
            "LTX-Video (positions x - 1/2, x in units of the base size)",
            {
                "dim": "2048",
                "rotary_dim": "2046",
                "sections": "341,341,341",
                "section_rule": "alternating",
                "frequencies": "rising",
                "angle_factor": "pi",
                "pairing": "interleaved",
                "rest": "first",
            },
            "ltx-video",
        ),
    ),
    properties={
        "distance": "scores depend on differences along each axis",
        "caching": "keys are turned once, and kept so",
        "implementation": "queries and keys turned in every layer, along several axes",
        "memory per head": "none: one table of length * width values serves all heads",
        "learned parameters": "none",
        "extrapolates": "defined at any position; unit and floor coordinates stay within those of training",
    },
)
