"""Which positions an encoding takes for neighbours: the dot product of every row with every other."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.dots import dots, mean_cosines, norms
from service.engine.numbers.pairs import Floats, Pair, multiply
from service.engine.numbers.sines import Angles
from service.engine.quantities import Base, Dim, DType, FrequencyShift, Length
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage, unused
from service.engine.sinusoids import SinusoidalTable, fastest, frequencies
from service.engine.vectors import refuse_odd_shapes

MOST_ANGLES = 1 << 21  # of all distances: about a second
MOST_TERMS = 1 << 20  # of the products of rows of the caller's: about as long


class Similarity(Params):
    """Parameters of `analyses/similarity`."""

    length: Length | None = None
    dim: Dim | None = None
    base: Base = 10_000.0
    frequency_shift: Annotated[
        FrequencyShift, Field(description="w_k = base^(-k / (dim/2 - frequency_shift)), as encodings/sinusoidal.")
    ] = 0.0
    measure: Annotated[
        Literal["dot", "cosine"],
        Field(description="`dot`: the dot product; `cosine`: that divided by both norms, 1 for equal directions."),
    ] = "dot"
    dtype: DType = "float32"


def _table(params: Similarity) -> SinusoidalTable:
    return SinusoidalTable(base=params.base, frequency_shift=params.frequency_shift, odd_width="refuse")


def _needed(params: Similarity) -> tuple[int, int]:
    """Length and width of the sinusoidal table."""
    for name in ("length", "dim"):
        if getattr(params, name) is None:
            raise Refusal(name, "missing", f"{name} is missing: give length= and dim=, or a table in the body")
    return params.length or 0, params.dim or 0


def _own(params: Similarity, inputs: Inputs) -> Array:
    """The caller's table, once it is known that it can be compared."""
    table = inputs["x"]
    refuse_odd_shapes("x", table, 2, "a table (rows, channels)")
    if table.ndim != 2:
        raise Refusal("/tensors/x", "shape", f"x has the shape {table.shape}; a table (rows, channels) is needed")
    if not np.isfinite(table).all():
        raise Refusal("/tensors/x", "type", "x holds numbers that are not finite; they have no dot product")
    rows, width = table.shape
    if rows * rows * width > MOST_TERMS:
        detail = f"x has {rows} rows of {width} channels, {rows * rows * width} products; 2^20 are summed at most"
        raise Refusal("/tensors/x", "out_of_range", detail, limit=MOST_TERMS, requested=rows * rows * width)
    if float(np.abs(table).max()) > 2.0**60:
        raise Refusal("/tensors/x", "out_of_range", "x holds numbers beyond 2^60; scaled down they would do")
    if params.measure == "cosine":
        _refuse_zero_rows(table)
    return table


def _refuse_zero_rows(table: Array) -> None:
    zero = ~(table != 0).any(axis=1)
    if zero.any():
        row = int(zero.argmax())
        raise Refusal(f"/tensors/x/{row}", "out_of_range", "a row of zeros has no direction: measure=dot would do")


def _tensors(params: Similarity, inputs: Inputs) -> Tensors:
    if "x" in inputs:
        length = len(_own(params, inputs))
    else:
        length, dim = _needed(params)
        fastest(_table(params), dim)
        most = MOST_ANGLES // (dim // 2)
        if length > most:
            detail = f"{length} distances of {dim // 2} pairs are asked for; length={most} would do"
            raise Refusal("length", "out_of_range", detail, limit=most, requested=length)
    return {"similarity": Tensor(("position", "other"), (length, length), params.dtype)}


def _prepare(params: Similarity, inputs: Inputs) -> Floats:
    """The similarity of every two rows of a table, or of the sinusoidal one that of every distance."""
    if "x" in inputs:
        table = _own(params, inputs).astype(np.float64)
        found = dots(table, table)
        if params.measure == "dot":
            return found
        sizes = norms(Pair(table, np.zeros_like(table)))
        cosines: Floats = found / sizes[:, None] / sizes
        return cosines
    length, dim = _needed(params)
    mean = mean_cosines(Angles(frequencies(_table(params), dim)), length)
    if params.measure == "cosine":
        return mean.high
    return multiply(mean, Pair(np.array(float(dim // 2)), np.array(0.0))).high


def _rows(params: Similarity, inputs: Inputs, state: Floats, _tensor: str, start: int, stop: int) -> Array:
    if "x" in inputs:
        return nearest(state[start:stop], DTYPES[params.dtype])
    by_distance = nearest(state, DTYPES[params.dtype])
    # Row p is the stretch of ..., 2, 1, 0, 1, 2, ... that has its 0 at place p.
    both_ways = np.concatenate((by_distance[:0:-1], by_distance))
    length = len(state)
    stretches = np.lib.stride_tricks.sliding_window_view(both_ways, length)
    return np.ascontiguousarray(stretches[length - stop : length - start][::-1])


def _facts(params: Similarity, inputs: Inputs) -> Facts:
    if "x" in inputs:
        return {"rows": len(inputs["x"]), "channels": int(inputs["x"].shape[1])}
    return {"norm_squared": (params.dim or 0) // 2}


def _notes(params: Similarity, inputs: Inputs) -> list[str]:
    sizes_and_waves = ("length", "dim", "base", "frequency_shift")
    return unused(params, sizes_and_waves, "a table in the body") if "x" in inputs else []


DESCRIPTION = """\
`PE(p) . PE(q)` for every two positions. Of a sinusoidal table that is

    sum over k of cos((p - q) w_k),   w_k = base^(-2k/dim)

a function of the distance alone: dim/2 on the diagonal (every row has the same norm), falling on both sides, with
ripples. `measure=cosine` divides it by dim/2. A table of your own, learned or any that this service answers with, goes
in the body as `x`; then every two of its rows are compared.

**Axes**: (position, other)."""

SCHEME: Scheme[Similarity, Floats] = Scheme(
    family="analyses",
    name="similarity",
    title="Similarity of positions",
    explanation=(
        "How alike the encodings of two positions are: bright along the diagonal, fading with distance. That the "
        "pattern is the same along every diagonal is what lets a model learn relative positions."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.5; Wang et al., On Position Embeddings in "
    "BERT, 2021",
    params=Similarity,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    inputs=(Input("x", "A table (rows, channels) to compare instead of the sinusoidal one.", required=False),),
    state_bytes=lambda params, inputs: 8 * (len(inputs["x"]) ** 2 if "x" in inputs else params.length or 0),
    instead="similarity depends on the distance alone: analyses/decay has one value for each",
    examples=(
        Example("Fifty positions of 128 channels", {"length": "50", "dim": "128"}),
        Example("As cosines", {"length": "8", "dim": "16", "measure": "cosine"}),
        Example("Rows of a table of your own", {}, {"tensors": {"x": [[1, 0, 2], [0, 1, 2], [1, 1, -1]]}}),
    ),
    used_by=(Usage("Sinusoidal tables of the paper", {}),),
    properties={"learned parameters": "none", "depends on": "the distance, where the table is sinusoidal"},
)
