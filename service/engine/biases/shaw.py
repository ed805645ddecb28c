"""Clipped relative indices (Shaw et al., 2018): distances up to a limit, each with a learned vector of its own."""

from service.engine.attention.clipped import USED_BY, Clipped, reach, reach_notes, row_of, table_rows
from service.engine.attention.relative import IndexDType, QueryKey, index_rows, index_tensors, resolved, sizes
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Tensors, Usage, no_state, own_table


class Shaw(QueryKey, Clipped):
    """Parameters of `biases/shaw`."""

    dtype: IndexDType = "int64"


def _tensors(params: Shaw, _inputs: Inputs) -> Tensors:
    return index_tensors(params, table_rows(params) + (params.beyond == "zero-row"), params.dtype)


def _rows(params: Shaw, _inputs: Inputs, _state: None, _tensor: str, start: int, stop: int) -> Array:
    return index_rows(params, lambda distances: row_of(params, distances), params.dtype, start, stop)


def _facts(params: Shaw, _inputs: Inputs) -> Facts:
    (left, right), size = reach(params), sizes(params)
    ends = (size.nearest, size.farthest) if params.sign == "key-query" else (-size.farthest, -size.nearest)
    if params.beyond == "clip":
        lowest, highest = (min(max(end, -left), right) for end in ends)
    else:
        lowest, highest = max(ends[0], -left), min(ends[1], right)
    rows = table_rows(params)
    used = max(highest - lowest + 1, 0)
    return {**size._asdict(), "table_rows": rows, "table_bytes_per_channel": 4 * rows, "rows_used": used}


DESCRIPTION = """\
`index = clip(key - query, -left, right) + left`, with `sign=query-key` of query - key; `left` and `right` are K =
`max_relative_position` unless given. It is the row of a learned table of left + right + 1 vectors, as wide as a head,
which are added to the keys (and, in the paper, other ones to the values). With `beyond=zero-row` distances outside
have the index left + right + 1 instead of being clipped: append a row of zeros. Query row r stands at position r +
`offset`, by default keys - queries.

**Axes**: (query, key), the same for every head."""

SCHEME: Scheme[Shaw, None] = Scheme(
    family="biases",
    name="shaw",
    title="Clipped relative indices",
    explanation=(
        "The first relative encoding of transformers: a learned vector for each distance, added to the keys. Distances "
        "beyond a limit are clipped to it, and this matrix says which vector each pair of positions uses."
    ),
    description=DESCRIPTION,
    reference="Shaw et al., Self-Attention with Relative Position Representations, 2018",
    params=Shaw,
    rounding="integer",
    tensors=_tensors,
    sequence=own_table,
    prepare=no_state,
    rows=_rows,
    resolve=lambda params, _inputs: resolved(params),
    facts=_facts,
    notes=lambda params, _inputs: reach_notes(params),
    examples=(
        Example("Distances clipped at two", {"length": "6", "max_relative_position": "2"}),
        Example("One decoding step, farther back than ahead", {"queries": "1", "keys": "9", "left": "4", "right": "1"}),
    ),
    used_by=(
        *USED_BY,
        Usage(
            "DeBERTa v1 (max_relative_positions 512)",
            {"sign": "query-key", "left": "512", "right": "511"},
            "deberta-v1",
        ),
        Usage(
            "BERT relative_key and relative_key_query (512 positions; transformers 4)",
            {"sign": "query-key", "max_relative_position": "511"},
            "bert-relative-key",
        ),
    ),
    properties={
        "distance": "each clipped distance has a vector of its own",
        "caching": "keys are kept as they are, and meet a vector for each distance",
        "implementation": "vectors for distances in every layer, multiplied with queries",
        "learned parameters": "left + right + 1 vectors as wide as a head, often shared by the heads",
        "memory per head": "left + right + 1 vectors as wide as the head, unless the heads share them: "
        "table_bytes_per_channel in the facts (float32), times that width",
        "extrapolates": "yes: farther distances share the last row",
    },
)
