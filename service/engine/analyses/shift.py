"""A sinusoidal encoding some positions on is a rotation of what it was: the matrix, and what rounding leaves."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats, Pair, add, two_product
from service.engine.quantities import Base, Dim, DType, ExactInteger, FrequencyShift, Layout, Length, Offset
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Inputs, Params, Scheme, Tensor, Tensors, Usage
from service.engine.sinusoids import SinusoidalTable, channels, fastest, frequencies, table_angles, write_table
from service.engine.waves import FARTHEST, Waves

WIDEST = 4096  # a matrix of 64 MiB
MOST_VALUES = 1 << 21  # of the table that is compared with itself
BLOCK_VALUES = 1 << 14


class Shift(Params):
    """Parameters of `analyses/shift`."""

    length: Length = 50
    dim: Dim
    shift: Annotated[ExactInteger, Field(description="k: how many positions on; negative leads back.")] = 1
    offset: Offset = 0
    base: Base = 10_000.0
    frequency_shift: Annotated[
        FrequencyShift, Field(description="w_k = base^(-k / (dim/2 - frequency_shift)), as encodings/sinusoidal.")
    ] = 0.0
    layout: Layout = "interleaved"
    dtype: DType = "float32"


def _table(params: Shift) -> SinusoidalTable:
    shared = {name: getattr(params, name) for name in ("base", "frequency_shift", "layout")}
    return SinusoidalTable(odd_width="refuse", **shared)


def _tensors(params: Shift, _inputs: Inputs) -> Tensors:
    if params.dim % 2:
        detail = f"dim is {params.dim}; the last sine has no cosine to turn with: {params.dim + 1} would do"
        raise Refusal("dim", "odd", detail)
    if params.dim > WIDEST:
        detail = f"dim is {params.dim}; the matrix has dim^2 values, and dim={WIDEST} would do"
        raise Refusal("dim", "out_of_range", detail, limit=WIDEST, requested=params.dim)
    fastest(_table(params), params.dim)
    if params.length * params.dim > MOST_VALUES:
        most = MOST_VALUES // params.dim
        detail = f"{params.length} rows of {params.dim} channels are compared; length={most} would do"
        raise Refusal("length", "out_of_range", detail, limit=most, requested=params.length)
    ends = [params.offset + along + by for along in (0, params.length) for by in (0, params.shift)]
    if max(map(abs, ends)) > FARTHEST:
        raise Refusal("shift", "out_of_range", f"shift is {params.shift}; positions end 2^53 from 0", limit=FARTHEST)
    return {
        "matrix": Tensor(("channel", "from"), (params.dim, params.dim), params.dtype),
        "residual": Tensor(("position",), (params.length,), params.dtype),
    }


def _matrix(params: Shift) -> NDArray[np.generic]:
    """Blocks [[cos, sin], [-sin, cos]] of the angles k w, rows and columns in the order of the channels."""
    pairs = params.dim // 2
    sines, cosines = np.empty((2, 2, pairs), DTYPES[params.dtype])
    ahead_and_back = np.array([float(params.shift), -float(params.shift)])
    Waves(frequencies(_table(params), params.dim)).write(ahead_and_back, sines, cosines)
    order = channels(params.dim, params.layout, "refuse")
    sine, cosine = np.arange(params.dim)[order.sines], np.arange(params.dim)[order.cosines]
    matrix = np.zeros((params.dim, params.dim), DTYPES[params.dtype])
    matrix[sine, sine] = matrix[cosine, cosine] = cosines[0]
    matrix[sine, cosine], matrix[cosine, sine] = sines
    return matrix


def _residual(params: Shift) -> Floats:
    """The largest |PE(p + k) - M PE(p)| of each position, of tables and a matrix that are rounded."""
    angles, order, matrix = (
        table_angles(_table(params), params.dim),
        channels(params.dim, params.layout, "refuse"),
        _matrix(params),
    )
    sine, cosine = np.arange(params.dim)[order.sines], np.arange(params.dim)[order.cosines]
    cos, sin = matrix[sine, sine].astype(np.float64), matrix[sine, cosine].astype(np.float64)
    found = np.empty(params.length)
    step = max(1, BLOCK_VALUES // params.dim)
    for start in range(0, params.length, step):
        stop = min(start + step, params.length)
        here, there = np.empty((2, stop - start, params.dim), DTYPES[params.dtype])
        for out, origin in ((here, params.offset), (there, params.offset + params.shift)):
            write_table(_table(params), angles, range(origin + start, origin + stop), out)
        s, c = here[:, order.sines].astype(np.float64), here[:, order.cosines].astype(np.float64)
        turned_s = add(two_product(s, cos), two_product(c, sin))
        turned_c = add(two_product(c, cos), two_product(-s, sin))
        found[start:stop] = np.maximum(_most(turned_s, there[:, order.sines]), _most(turned_c, there[:, order.cosines]))
    return found


def _most(turned: Pair, there: Array) -> Floats:
    off = add(turned, Pair(-there.astype(np.float64), np.zeros(there.shape)))
    most: Floats = np.abs(off.high).max(axis=1)
    return most


def _rows(params: Shift, _inputs: Inputs, state: Array, tensor: str, start: int, stop: int) -> Array:
    if tensor == "matrix":
        return state[start:stop]
    return nearest(_residual(params), DTYPES[params.dtype])[None]


def _facts(params: Shift, _inputs: Inputs) -> Facts:
    return {"blocks": params.dim // 2}


DESCRIPTION = """\
`PE(p + k) = M_k PE(p)` with one matrix M_k for all positions p: each pair of channels turns by the angle `k w`,

    [sin((p + k) w)]   [ cos(k w)  sin(k w)] [sin(p w)]
    [cos((p + k) w)] = [-sin(k w)  cos(k w)] [cos(p w)]

which is why a linear layer can attend by relative position, and what RoPE makes a part of attention itself.
`matrix` is M_k, each value rounded once, with rows and columns in the channel order of `layout`. `residual` is the
largest `|PE(p + k) - M_k PE(p)|` over the channels of each position, of the table and the matrix as rounded to `dtype`:
some units in the last place, and 0 in real numbers.

**Axes**: `matrix` (channel, from), `residual` (position)."""

SCHEME: Scheme[Shift, Array] = Scheme(
    family="analyses",
    name="shift",
    title="Shift: the matrix that leads from one position to another",
    explanation=(
        "One matrix leads from the encoding of any position to that of the position k farther on, and it does not "
        "depend on where you start. That is the reason why sines and cosines come in pairs; the residual shows that "
        "only rounding is left over."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.5",
    params=Shift,
    rounding="faithful",
    tensors=_tensors,
    prepare=lambda params, _inputs: _matrix(params),
    rows=_rows,
    facts=_facts,
    state_bytes=lambda params, _inputs: 8 * params.dim**2,
    examples=(
        Example("One position on", {"dim": "8"}),
        Example("Three back, all sines first", {"dim": "6", "shift": "-3", "layout": "sin-cos", "length": "10"}),
    ),
    used_by=(
        Usage("Sinusoidal tables of the paper", {}),
        Usage("tensor2tensor, fairseq and Marian: all sines, then all cosines", {"layout": "sin-cos"}),
    ),
    properties={"learned parameters": "none", "norm": "kept: the matrix is a rotation"},
)
