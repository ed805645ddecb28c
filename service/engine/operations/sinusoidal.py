"""The sinusoidal encoding added to the caller's embeddings (Vaswani et al., 2017)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import float32_notes
from service.engine.errors import Refusal
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, fastest, table_angles, write_table
from service.engine.vectors import (
    VECTOR_POSITIONS,
    Placed,
    Rows,
    aligned,
    answer_dtype,
    block,
    positions_of,
    refuse_odd_shapes,
    refuse_overflow,
    refuse_wide,
    vector_axes,
)

AxesBefore = Annotated[
    Literal["batch-length", "length-batch"],
    Field(description="Order of the axes before the channels: (…, length, dim), or (length, batch, dim)."),
]


class ApplySinusoidal(SinusoidalTable, Placed):
    """Parameters of `apply/sinusoidal`."""

    embedding_scale: Annotated[
        Literal["none", "sqrt-dim"],
        Field(description="What the embeddings are multiplied by first: `none`, or `sqrt-dim` as in the paper."),
    ] = "none"
    axes: AxesBefore = "batch-length"


@dataclass(frozen=True, slots=True)
class Table:
    """The encoding of every position, in the number format of the answer."""

    encoding: Array
    batches: int


def _rows_of(params: ApplySinusoidal, shape: tuple[int, ...], batches: int = 0) -> Rows:
    if len(shape) == 1:
        return Rows((1, *shape), 0, batches)
    if params.axes == "length-batch":
        return Rows(shape, 0, 0)
    return Rows(shape, len(shape) - 2, batches)


def _check(params: ApplySinusoidal, inputs: Inputs) -> int:
    """The width of the embeddings, once it is known that they can be encoded."""
    x = inputs["x"]
    refuse_odd_shapes("x", x, 1, "(…, length, dim) or (dim)")
    refuse_wide("x", x)
    refuse_overflow("x", x, answer_dtype(params.dtype, x))
    if params.axes == "length-batch" and x.ndim != 3:
        raise Refusal("axes", "conflict", f"axes=length-batch means (length, batch, dim); x has the shape {x.shape}")
    fastest(params, x.shape[-1])
    return int(x.shape[-1])


def _tensors(params: ApplySinusoidal, inputs: Inputs) -> Tensors:
    _check(params, inputs)
    x = inputs["x"]
    positions_of(params, inputs, {"x": _rows_of(params, x.shape)})
    axes = vector_axes(x.ndim, ("position", "channel"))
    if params.axes == "length-batch":
        axes = ("position", "batch", "channel")
    return {"x": Tensor(axes, x.shape, answer_dtype(params.dtype, x))}


def _prepare(params: ApplySinusoidal, inputs: Inputs) -> Table:
    dim = _check(params, inputs)
    at, batches = positions_of(params, inputs, {"x": _rows_of(params, inputs["x"].shape)})
    encoding = np.empty((len(at), dim), DTYPES[answer_dtype(params.dtype, inputs["x"])])
    write_table(params, table_angles(params, dim), at, encoding)
    return Table(encoding, batches)


def _rows(params: ApplySinusoidal, inputs: Inputs, state: Table, tensor: str, start: int, stop: int) -> Array:
    x = inputs[tensor]
    dtype = answer_dtype(params.dtype, x)
    rows = block(x, start, stop, dtype)
    out = np.empty(rows.shape, rows.dtype)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if params.embedding_scale == "sqrt-dim":
            rows = rows * nearest(np.sqrt(np.array([float(x.shape[-1])])), DTYPES[dtype])
        for run in _rows_of(params, x.shape, state.batches).runs(start, stop, len(rows)):
            np.add(aligned(rows, run), state.encoding[run.table, None], out=aligned(out, run))
    return out


def _state_bytes(params: ApplySinusoidal, inputs: Inputs) -> int:
    """The encoding of every position in the widest number format."""
    x = inputs["x"]
    rows = inputs["positions"].size if "positions" in inputs else _rows_of(params, x.shape).length
    return int(8 * rows * x.shape[-1])


DESCRIPTION = """\
Answers `x + encoding(p)`, or with `embedding_scale=sqrt-dim` `sqrt(dim) x + encoding(p)`, for embeddings x of shape
(…, length, dim). The encoding is that of `encodings/sinusoidal` with the same parameters and **channel order**: sin
w_0, cos w_0, sin w_1, ... for `layout=interleaved`. It is rounded once to the number format of x; the product and the
sum are rounded each.

The body is JSON, one `.npy` or a safetensors file with `x` and, if you like, `positions`."""

SCHEME: Scheme[ApplySinusoidal, Table] = Scheme(
    family="apply",
    name="sinusoidal",
    title="Sinusoidal encoding added to embeddings",
    explanation=(
        "What a model does first: the encoding of each position added to the embedding that stands there. Some models "
        "multiply the embedding first, so that it is not drowned."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, sections 3.4 and 3.5",
    params=ApplySinusoidal,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    notes=lambda params, _inputs: float32_notes(params.arithmetic),
    state_bytes=_state_bytes,
    inputs=(Input("x", "Embeddings: (…, length, dim), (length, dim) or (dim)."), VECTOR_POSITIONS),
    examples=(
        Example("The first token of every introduction", {}, {"tensors": {"x": [0.51, -0.22, 0.88, 0.14]}}),
        Example(
            "Scaled by sqrt(dim), two positions",
            {"embedding_scale": "sqrt-dim"},
            {"tensors": {"x": [[0.5, -0.25, 1, 0], [0, 1, 0.5, 0.25]]}},
        ),
    ),
    used_by=(
        Usage("Vaswani et al. 2017", {"embedding_scale": "sqrt-dim"}, "vaswani"),
        Usage(
            "CTRL; Marian and Pegasus with scale_embedding",
            {"embedding_scale": "sqrt-dim", "layout": "sin-cos"},
            "marian",
        ),
        Usage(
            "fairseq, M2M100, NLLB with scale_embedding (without padding, whose index is 1)",
            {
                "embedding_scale": "sqrt-dim",
                "layout": "sin-cos",
                "frequency_shift": "1",
                "odd_width": "zero-column",
                "offset": "2",
            },
            "fairseq",
        ),
    ),
    properties={"learned parameters": "none", "norm": "changed"},
)
