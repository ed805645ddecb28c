"""Relative position indices inside an attention window: Swin's, Video Swin's, and BEiT's with a class token."""

from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.relative import IndexDType, Integers, refuse_large_index
from service.engine.quantities import Window
from service.engine.scheme import Array, Example, Facts, Inputs, Params, Scheme, Tensor, Tensors, Usage, own_table


class SwinIndex(Params):
    """Parameters of `biases/swin-index`."""

    window: Window
    class_token: Annotated[
        Literal["none", "first"],
        Field(description="`first`: a class token before the patches, with three rows of its own in the table (BEiT)."),
    ] = "none"
    distances: Annotated[
        Literal["signed", "absolute"],
        Field(
            description="`signed`: query - key, each axis with 2 size - 1 values; `absolute`: |query - key|, with size "
            "values (LeViT, TinyViT)."
        ),
    ] = "signed"
    dtype: IndexDType = "int64"


def _table_rows(params: SwinIndex) -> int:
    signed = params.distances == "signed"
    rows = prod(2 * size - 1 if signed else size for size in params.window)
    return rows + (3 if params.class_token == "first" else 0)


def _tokens(params: SwinIndex) -> int:
    return prod(params.window) + (params.class_token == "first")


def _codes(window: tuple[int, ...]) -> Integers:
    """One number a patch, so that the index of a query and a key is the difference of theirs, plus the middle's.

    With the strides s of the grid of distances: sum s (q - k + size - 1) = code(q) - code(k) + code(last patch).

    >>> _codes((2, 3)).tolist()
    [0, 1, 2, 5, 6, 7]
    """
    strides = [prod(2 * size - 1 for size in window[axis + 1 :]) for axis in range(len(window))]
    axes = [stride * np.arange(size) for stride, size in zip(strides, window, strict=True)]
    codes = axes[0]
    for axis in axes[1:]:
        codes = (codes[:, None] + axis).reshape(-1)
    return codes


def _tensors(params: SwinIndex, _inputs: Inputs) -> Tensors:
    tokens = _tokens(params)
    refuse_large_index(_table_rows(params) - 1, params.dtype)
    return {"index": Tensor(("query", "key"), (tokens, tokens), params.dtype)}


def _rows(params: SwinIndex, _inputs: Inputs, state: Integers, _tensor: str, start: int, stop: int) -> Array:
    tokens, first = _tokens(params), int(params.class_token == "first")
    out = np.empty((stop - start, tokens), params.dtype)
    own = slice(max(start - first, 0), stop - first)
    patches = state[own]
    among = out[len(out) - len(patches) :, first:]
    if params.distances == "signed":
        np.subtract(patches[:, None] + state[-1], state, out=among, casting="same_kind")
    else:
        among[...] = _absolute(params.window, own)
    if first:
        _write_class_token(_table_rows(params), start, out)
    return out


def _absolute(window: tuple[int, ...], own: slice) -> Integers:
    """Distances without their sign, numbered in row order, from some patches to all."""
    places = np.unravel_index(np.arange(prod(window)), window)
    total = np.zeros((1, 1), np.int64)
    for size, place in zip(window, places, strict=True):
        total = total * size + np.abs(place[own, None] - place)
    return total


def _write_class_token(table_rows: int, start: int, out: Array) -> None:
    """The class token's own row and column: it to others, others to it, and it to itself."""
    out[:, 0] = table_rows - 2
    if start == 0:
        out[0] = table_rows - 3
        out[0, 0] = table_rows - 1


def _facts(params: SwinIndex, _inputs: Inputs) -> Facts:
    rows = _table_rows(params)
    return {"tokens": _tokens(params), "table_rows": rows, "table_bytes_per_head": 4 * rows}


DESCRIPTION = """\
Patches of a window of H x W lie in row order. With dh and dw = query - key in rows and columns, the index is
`(dh + H - 1) (2 W - 1) + (dw + W - 1)`: a row of a learned table of (2 H - 1)(2 W - 1) rows a head. With three sizes
T, H, W the frames come first: `((dt + T - 1) (2 H - 1) + dh + H - 1) (2 W - 1) + dw + W - 1`.

`distances=absolute` numbers |dh| and |dw| instead, `|dh| W + |dw|`, H W rows; queries on a coarser grid (LeViT between
its stages) are the rows of every second patch.

`class_token=first` puts a class token before the patches and three rows at the end of the table of then N rows: N - 3
where the class token is the query, N - 2 where it is the key, N - 1 where it is both. For another window resize the
rows before those three as a grid of 2 H - 1 by 2 W - 1 (`learned/resample?method=bilinear`, as BEiT in transformers).

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[SwinIndex, Integers] = Scheme(
    family="biases",
    name="swin-index",
    title="Relative position indices in a window",
    explanation=(
        "Inside a window of an image every pair of patches has a distance in rows and one in columns. Each combination "
        "has a learned number a head, and this matrix says which one a pair uses."
    ),
    description=DESCRIPTION,
    reference="Liu et al., Swin Transformer, 2021; Bao et al., BEiT, 2022; Liu et al., Video Swin Transformer, 2022; "
    "Graham et al., LeViT, 2021",
    params=SwinIndex,
    rounding="integer",
    tensors=_tensors,
    sequence=own_table,
    prepare=lambda params, _inputs: _codes(params.window),
    rows=_rows,
    facts=_facts,
    state_bytes=lambda params, _inputs: 8 * prod(params.window),
    examples=(
        Example("A window of 2 x 3 patches", {"window": "2,3"}),
        Example("With a class token, as BEiT", {"window": "2,2", "class_token": "first", "dtype": "int32"}),
        Example("Two frames of 2 x 2 patches", {"window": "2,2,2"}),
        Example("Distances without their sign, as LeViT", {"window": "2,3", "distances": "absolute"}),
    ),
    used_by=(
        Usage("Swin (window 7), Swin v2 (its index into the table of coordinates)", {"window": "7,7"}, "swin"),
        Usage("BEiT, Data2VecVision (224 pixels, patches of 16)", {"window": "14,14", "class_token": "first"}, "beit"),
        Usage("Video Swin (window 8, 7, 7)", {"window": "8,7,7"}, "video-swin"),
        Usage("LeViT's first stage; TinyViT with its window", {"window": "14,14", "distances": "absolute"}, "levit"),
    ),
    properties={
        "distance": "each shift within a window has a number of its own",
        "caching": "images are encoded whole: none is needed",
        "implementation": "an index into a table, for windows of one size",
        "learned parameters": "one number a head for each row of the table",
        "memory per head": "(2 H - 1)(2 W - 1) numbers (times 2 T - 1 for video; 3 more with a class token)",
        "extrapolates": "no: another window needs its table resized",
    },
)
