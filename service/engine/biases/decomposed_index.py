"""Relative position indices along one axis of an image, queries and keys of any sizes (MViT v2, ViTDet, SAM)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.relative import IndexDType
from service.engine.attention.scores import Extent, extent
from service.engine.quantities import Integer
from service.engine.scheme import (
    Array,
    Example,
    Facts,
    Inputs,
    Params,
    Scheme,
    Tensor,
    Tensors,
    Usage,
    no_state,
    own_table,
)

Side = Annotated[Integer, Field(ge=1, le=65_536)]


class DecomposedIndex(Params):
    """Parameters of `biases/decomposed-index`."""

    length: Annotated[Side | None, Field(description="Patches of queries and of keys along the axis.")] = None
    queries: Annotated[Side | None, Field(description="Patches of the queries along the axis.")] = None
    keys: Annotated[
        Side | None, Field(description="Patches of the keys along the same axis (default: as many as queries).")
    ] = None
    arithmetic: Annotated[
        Literal["exact", "float32"],
        Field(
            description="`exact`: the floor of the real number; `float32`: step by step as the models' code, whose "
            "index is one lower where rounding falls below a whole number."
        ),
    ] = "exact"
    dtype: IndexDType = "int64"


def _size(params: DecomposedIndex) -> Extent:
    return extent(params.length, params.queries, params.keys, 0)


def _table_rows(size: Extent) -> int:
    return 2 * max(size.queries, size.keys) - 1


def _tensors(params: DecomposedIndex, _inputs: Inputs) -> Tensors:
    size = _size(params)
    return {"index": Tensor(("query", "key"), (size.queries, size.keys), params.dtype)}


def _rows(params: DecomposedIndex, _inputs: Inputs, _state: None, _tensor: str, start: int, stop: int) -> Array:
    size = _size(params)
    query = np.arange(start, stop, dtype=np.int64)[:, None]
    key = np.arange(size.keys, dtype=np.int64)
    of = _exact if params.arithmetic == "exact" else _float32
    return of(size, query, key).astype(params.dtype)


def _exact(size: Extent, query: Array, key: Array) -> Array:
    """The floor of i max(k/q, 1) + (k - 1 - j) max(q/k, 1), as one division of whole numbers."""
    stretched: Array = query * size.keys + (size.keys - 1 - key) * size.queries
    return stretched // min(size.queries, size.keys)


def _float32(size: Extent, query: Array, key: Array) -> Array:
    wider, taller = size.keys / size.queries, size.queries / size.keys
    queries = query.astype(np.float32) * np.float32(max(wider, 1.0))
    keys = key.astype(np.float32) * np.float32(max(taller, 1.0))
    shifted: Array = (queries - keys) + np.float32((size.keys - 1) * max(taller, 1.0))
    return np.trunc(shifted)


def _facts(params: DecomposedIndex, _inputs: Inputs) -> Facts:
    size = _size(params)
    rows = _table_rows(size)
    return {"queries": size.queries, "keys": size.keys, "table_rows": rows, "table_bytes_per_channel": 4 * rows}


def _resolve(params: DecomposedIndex, _inputs: Inputs) -> DecomposedIndex:
    size = _size(params)
    return params.model_copy(update={"length": None, "queries": size.queries, "keys": size.keys})


DESCRIPTION = """\
Along one axis of an image with q patches of queries and k of keys the shorter one is stretched to the longer: `index =
trunc(i max(k/q, 1) - j max(q/k, 1) + (k - 1) max(q/k, 1))` for query i and key j, a row of a table of
2 max(q, k) - 1 vectors as wide as a head. A trained table of another length is first resized to that many rows
(`learned/resample?method=linear&length=...`). The bias of a pair of patches is q · (row of its
height index) + q · (row of its width index): one request an axis.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[DecomposedIndex, None] = Scheme(
    family="biases",
    name="decomposed-index",
    title="Relative indices along one axis of an image",
    explanation=(
        "For large images a number for each pair of patches is too much: rows and columns have tables of their own, "
        "and the two biases are added. This matrix says which row of one of these tables a pair uses."
    ),
    description=DESCRIPTION,
    reference="Li et al., MViTv2, 2022; Li et al., ViTDet, 2022; Kirillov et al., Segment Anything, 2023",
    params=DecomposedIndex,
    rounding="integer",
    tensors=_tensors,
    sequence=own_table,
    prepare=no_state,
    rows=_rows,
    resolve=_resolve,
    facts=_facts,
    examples=(
        Example("Three queries over five keys", {"queries": "3", "keys": "5"}),
        Example("The height of SAM's windows", {"length": "14", "dtype": "int32"}),
        Example("As the models' code rounds it", {"queries": "8", "keys": "6", "arithmetic": "float32"}),
    ),
    used_by=(Usage("SAM, ViTDet, SegGPT, GOT-OCR2, and MViT v2 with pooled keys", {"arithmetic": "float32"}, "sam"),),
    properties={
        "learned parameters": "2 max(q, k) - 1 vectors an axis, as wide as a head, shared by the heads",
        "memory per head": "the vectors of both axes, shared: table_bytes_per_channel in the facts (float32, one "
        "axis), times the width of a head",
        "extrapolates": "the table is resized to any size",
    },
)
