"""Scores of queries with relative positions, spread over the keys: Shaw's vectors, and Transformer-XL's rows."""

from collections.abc import Iterator
from math import prod
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.clipped import Clipped, reach_notes, row_of, table_rows, with_zero_row
from service.engine.attention.relative import PIECE, Integers, line, windows
from service.engine.attention.weights import trained
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats
from service.engine.rounding import nearest
from service.engine.scheme import Array, Facts, Input, Inputs, Params
from service.engine.vectors import block, refuse_odd_shapes, refuse_overflow

FEW_QUERIES = 64  # a few more products than their keys need cost less than many small steps
MOST_PRODUCTS = 1 << 33  # some ten seconds

Span = Annotated[
    Literal["both", "legacy", "xlnet-bi", "xlnet-uni"],
    Field(
        description="Rows, in this order: `both` keys - 1 ... -(queries - 1) (Conformer); `legacy` keys - 1 ... 0 "
        "(Transformer-XL, the older Conformer); `xlnet-bi` keys ... -(queries - 1); `xlnet-uni` keys ... 0."
    ),
]


class Run(NamedTuple):
    """Consecutive queries of one head: rows of the block, the head, the first query, the distances on the way."""

    rows: slice
    head: int
    distances: Integers


def runs(place: Place, start: int, stop: int) -> Iterator[Run]:
    """Rows `start` to `stop` of (…, head, query) as runs of one head, so few that their distances are no burden."""
    size, row = place.size, start
    most = min(max(1, PIECE // size.keys), max(FEW_QUERIES, size.keys))
    while row < stop:
        head, query = divmod(row, size.queries)
        count = min(stop - row, size.queries - query, most)
        like = np.broadcast_to(np.int8(0), (count, size.keys))
        yield Run(slice(row - start, row - start + count), head % place.heads, line(size, query, 0, like))
        row += count


def spread(scores: Array, columns: Integers, out: Array) -> None:
    """out[i, j] = scores[i, the column of key j for query i], for the columns of a line of distances."""
    out[...] = np.take_along_axis(scores, windows(columns, out), axis=1)


class RelativeVectors(Clipped):
    """Parameters of the scores with Shaw's vectors."""

    scaling: Annotated[
        Literal["sqrt-dim", "none"],
        Field(
            description="What the products with the vectors are divided by: `sqrt-dim` as scores are (the paper), or "
            "`none` where the scores are not yet, or the queries already are (BERT; SpeechT5)."
        ),
    ] = "sqrt-dim"


def _vectors(params: RelativeVectors, inputs: Inputs, heads: int) -> Floats:
    """(heads or 1, rows, dim)."""
    dim = inputs["q"].shape[-1]
    if inputs["table"].ndim == 3:
        return trained(inputs, "table", ("heads", "rows", "dim"), (heads, table_rows(params), dim))
    return trained(inputs, "table", ("rows", "dim"), (table_rows(params), dim))[None]


def _check_vectors(params: RelativeVectors, inputs: Inputs, place: Place) -> None:
    x, q = inputs["x"], inputs["q"]
    refuse_odd_shapes("q", q, 3, "(…, heads, queries, dim)")
    if q.shape[:-1] != x.shape[:-1]:
        raise Refusal(
            "/tensors/q",
            "shape",
            f"q has the shape {q.shape} and x has {x.shape}; all axes but the last must be equal: (…, heads, queries)",
        )
    rows = _vectors(params, inputs, place.heads).shape[1]
    products = prod(q.shape) * min(rows, place.size.keys + FEW_QUERIES)
    if products > MOST_PRODUCTS:
        raise Refusal(
            "/tensors/q",
            "too_large",
            f"q {q.shape} and a table of {rows} rows take {products} products; {MOST_PRODUCTS} are computed at most: "
            "send the heads apart",
            limit=MOST_PRODUCTS,
            requested=products,
        )


def _prepare_vectors(params: RelativeVectors, inputs: Inputs, place: Place) -> Write:
    q, vectors = inputs["q"], with_zero_row(params, _vectors(params, inputs, place.heads))
    divisor = np.sqrt(np.float64(q.shape[-1])) if params.scaling == "sqrt-dim" else np.float64(1)

    def write(start: int, out: Array) -> None:
        queries = block(q, start, start + len(out), "float64")
        for run in runs(place, start, start + len(out)):
            rows = row_of(params, run.distances)
            first, last = int(rows.min()), int(rows.max())
            own = vectors[run.head % len(vectors), first : last + 1]
            scores = _products(queries[run.rows], own) / divisor
            spread(nearest(scores, out.dtype), rows - first, out[run.rows])

    return write


def _products(queries: Floats, vectors: Floats) -> Floats:
    """All dot products, channel by channel in float64, always in that order: a matrix product's need not be."""
    total = np.zeros((len(queries), len(vectors)))
    # The caller's infinities follow IEEE arithmetic.
    with np.errstate(over="ignore", invalid="ignore"):
        for query, vector in zip(queries.T, vectors.T, strict=True):
            total += query[:, None] * vector
    return total


def _vector_facts(params: RelativeVectors, inputs: Inputs) -> Facts:
    rows, dim = table_rows(params), int(inputs["q"].shape[-1])
    return {"table_rows": rows, "table_bytes_per_head": 4 * rows * dim}


VECTORS: Bias[RelativeVectors] = Bias(
    check=_check_vectors,
    prepare=_prepare_vectors,
    inputs=(
        Input("q", "Queries, as they enter the scores: (…, heads, queries, dim)."),
        Input("table", "The learned vectors: (left + right + 1, dim), or (heads, left + right + 1, dim)."),
    ),
    facts=_vector_facts,
    notes=lambda params, _inputs: reach_notes(params),
    state_bytes=lambda _params, inputs, _place: 8 * inputs["table"].size,
)


class RelativeRows(Params):
    """Parameters of scores that come row by row of relative positions."""

    span: Span = "both"


def ends(span: str, queries: int, keys: int) -> tuple[int, int]:
    """The first relative position (query - key) of a span and the last: they descend.

    >>> ends("both", 2, 5), ends("legacy", 2, 5), ends("xlnet-bi", 2, 5)
    ((4, -1), (4, 0), (5, -1))
    """
    first = keys if span.startswith("xlnet") else keys - 1
    return first, 1 - queries if span in ("both", "xlnet-bi") else 0


def _check_rows(params: RelativeRows, inputs: Inputs, place: Place) -> None:
    x, relative = inputs["x"], inputs["relative"]
    refuse_odd_shapes("relative", relative, 3, "(…, heads, queries, relative positions)")
    first, last = ends(params.span, place.size.queries, place.size.keys)
    wanted = (*x.shape[:-1], first - last + 1)
    if relative.shape != wanted:
        raise Refusal(
            "/tensors/relative",
            "shape",
            f"relative has the shape {relative.shape}; for x {x.shape} and span={params.span}, which is the relative "
            f"positions {first} ... {last}, {wanted} is needed",
        )
    refuse_overflow("relative", relative, place.dtype)


def _prepare_rows(params: RelativeRows, inputs: Inputs, place: Place) -> Write:
    size, relative = place.size, inputs["relative"]
    first, last = ends(params.span, size.queries, size.keys)

    def write(start: int, out: Array) -> None:
        for run in runs(place, start, start + len(out)):
            scores = block(relative, start + run.rows.start, start + run.rows.stop, place.dtype)
            columns, part = run.distances + first, out[run.rows]  # of key - query, where rows are of query - key
            spread(scores, np.minimum(columns, first - last), part)
            part[windows(columns > first - last, part)] = 0

    return write


def _row_facts(params: RelativeRows, inputs: Inputs) -> Facts:
    queries, keys = inputs["x"].shape[-2:]
    first, last = ends(params.span, queries, keys)
    return {"first_position": first, "last_position": last}


def _row_notes(params: RelativeRows, _inputs: Inputs) -> list[str]:
    if params.span in ("both", "xlnet-bi"):
        return []
    return [f"span={params.span} has no rows for keys ahead of their query: their scores stay; mask them"]


ROWS: Bias[RelativeRows] = Bias(
    check=_check_rows,
    prepare=_prepare_rows,
    inputs=(
        Input(
            "relative",
            "Scores of each query with each relative position, not shifted yet: (…, heads, queries, positions).",
        ),
    ),
    facts=_row_facts,
    notes=_row_notes,
)
