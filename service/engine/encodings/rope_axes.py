"""Rotary position embedding on several axes: the cos and sin tables of M-RoPE, vision towers and video models."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, refuse_overflow
from service.engine.quantities import Columns, DType
from service.engine.rotation.rope_axes import (
    AxisWaves,
    amplitude_of,
    facts_of,
    fastest_of,
    filled_in,
    notes_of,
    placed,
    positions_along,
    refuse_format,
    waves_of,
    write_axis,
)
from service.engine.rotation.rope_axes_usages import TABLES
from service.engine.rotation.rope_block import AXES_BLOCK
from service.engine.rotation.rope_formulas import SCALING
from service.engine.rotation.rope_sections import (
    Column,
    RopeAxes,
    channel_columns,
    letters_of,
    pair_columns,
    rotated,
    sections_of,
)
from service.engine.rotation.rope_usages import IMPLEMENTATIONS
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, unused

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
        refuse_format(params, {}, params.dtype)
        refuse_overflow(fast, params.dtype, "the largest frequency")
        return {"frequencies": Tensor(("frequency",), (len(columns.axis),), params.dtype)}
    places = placed(params, inputs)
    fast = fastest_of(params, places.grid)
    refuse_format(params, inputs, params.dtype)
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
    return waves_of(params, _columns(params), grid, amplitude_of(params), params.dtype)


def _rows(params: RopeAxesTable, inputs: Inputs, state: Waves, tensor: str, start: int, stop: int) -> Array:
    if tensor == "frequencies":
        dtype = DTYPES[params.dtype]
        row = np.empty((1, sum(len(waves.columns) for waves in state)), dtype)
        for waves in state:
            row[0, waves.columns] = waves.angles.frequencies(dtype)[waves.picked]
        return row
    return _tables(params, inputs, state, (tensor,), start, stop)[tensor]


def _together(params: RopeAxesTable, inputs: Inputs, state: Waves, start: int, stop: int) -> dict[str, Array]:
    """A cosine takes little more where its sine is computed: both are parts of one complex number."""
    return _tables(params, inputs, state, ("cos", "sin"), start, stop)


def _tables(
    params: RopeAxesTable, inputs: Inputs, state: Waves, names: tuple[str, ...], start: int, stop: int
) -> dict[str, Array]:
    dtype, width, beside = DTYPES[params.dtype], sum(len(waves.columns) for waves in state), _beside(params)
    outs = {name: np.full((stop - start, width + beside), 1 if name == "cos" else 0, dtype) for name in names}
    turned = {name: out[:, beside:] if params.rest == "first" else out[:, :width] for name, out in outs.items()}
    for waves in state:
        write_axis(waves, positions_along(params, inputs, waves.axis, start, stop), turned)
    return outs


def _facts(params: RopeAxesTable, _inputs: Inputs) -> Facts:
    return {**facts_of(params), "axes_of_columns": letters_of(_columns(params), len(sections_of(params)))}


def _notes(params: RopeAxesTable, inputs: Inputs) -> list[str]:
    without = {"cos-sin": (), "angles": ("columns", "pairing"), "frequencies": ("columns", "pairing", "grid", "offset")}
    return notes_of(params, inputs) + unused(params, without[params.output], f"output={params.output}")


def _resolve(params: RopeAxesTable, _inputs: Inputs) -> RopeAxesTable:
    return params.model_copy(update=filled_in(params))


DESCRIPTION = f"""\
Positions have several coordinates (time, height, width; height, width; up to four axes), and each pair of channels is
turned by one of them: pair k by `p_a w_k`, where `section_rule` says which axis a, and `frequencies` which w_k. The
tables hold the cosines and sines of these angles, times A. Where all coordinates are equal and frequencies are shared,
this is the RoPE of `encodings/rope`, with every scaling of it.

The positions are a `grid` of patches, row by row (frames, rows, columns), or they are in the body of a POST,
(…, axes). The **channel order** with `columns=full` is that of the `pairing`; `half` has one column a pair. The fact
`axes_of_columns` names the axis of every column. Axes: (position, channel). `.npy` stacks cos and sin in that order.

{SCALING}"""

SCHEME: Scheme[RopeAxesTable, Waves] = Scheme(
    pasted=AXES_BLOCK,
    family="encodings",
    name="rope-axes",
    title="Rotary position embedding on several axes: cos and sin tables",
    explanation=(
        "RoPE for tokens that lie on a grid: some pairs of channels turn with the row, others with the column or with "
        "time. Models that read text with images or video use it, and each deals the pairs out to the axes in its own "
        "way."
    ),
    description=DESCRIPTION,
    reference="Wang et al., Qwen2-VL, 2024 (M-RoPE); Heo et al., Rotary Position Embedding for ViT, 2024",
    params=RopeAxesTable,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    together=_together,
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
        Example("A grid of 2 x 3 patches", {"dim": "8", "sections": "2,2", "grid": "2,3"}),
        Example(
            "The same with frequencies of its own on each axis",
            {"dim": "8", "sections": "2,2", "frequencies": "per-axis", "grid": "2,3"},
        ),
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
            "Scaled by YaRN, as a pasted block says",
            {"dim": "8", "sections": "2,2"},
            {
                "positions": [[9, 9], [10, 11]],
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32768,
                    "rope_theta": 1000000.0,
                },
            },
        ),
        Example(
            "Frequencies of a video model's axes",
            {"dim": "24", "sections": "4,4,4", "frequencies": "per-axis", "output": "frequencies"},
        ),
    ),
    used_by=(*TABLES, *IMPLEMENTATIONS),
    properties={
        "distance": "scores depend on differences along each axis",
        "caching": "keys are turned once, and kept so",
        "implementation": "queries and keys turned in every layer, along several axes",
        "memory per head": "none: one table of length * width values serves all heads",
        "learned parameters": "none",
        "extrapolates": "defined at any position; unit and floor coordinates stay within those of training",
    },
)
