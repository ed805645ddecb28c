"""Relative position vectors (Shaw et al., 2018): a learned vector for each pair of query and key, by their distance."""

import numpy as np

from service.engine.attention.clipped import USED_BY, Clipped, reach_notes, row_of, table_rows, with_zero_row
from service.engine.attention.relative import QueryKey, resolved, sizes
from service.engine.attention.scores import refuse_uncountable
from service.engine.attention.weights import Drawn, refuse_table, table, table_notes
from service.engine.errors import Refusal
from service.engine.quantities import Dim, DType
from service.engine.scheme import ITEMSIZE, Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, own_table


class ShawVectors(Drawn, QueryKey, Clipped):
    """Parameters of `biases/shaw-vectors`."""

    dim: Dim | None = None
    dtype: DType = "float32"


AXES = ("rows", "dim")


def _shape(params: ShawVectors, inputs: Inputs) -> tuple[int, int]:
    """Of the table: rows, and as many channels as were asked for, or as the body's has."""
    given = inputs.get("table")
    if params.dim is None and given is None:
        raise Refusal("dim", "missing", "dim is missing: give dim=, or in the body the table, which has it")
    return table_rows(params), params.dim or (given.shape[1] if given is not None and given.ndim == 2 else 0)


def _tensors(params: ShawVectors, inputs: Inputs) -> Tensors:
    size, shape = sizes(params), _shape(params, inputs)
    refuse_uncountable(size)
    refuse_table(params, inputs, AXES, shape, params.dtype)
    return {"vectors": Tensor(("query", "key", "channel"), (size.queries, size.keys, shape[1]), params.dtype)}


def _prepare(params: ShawVectors, inputs: Inputs) -> Array:
    return with_zero_row(params, table(params, inputs, AXES, _shape(params, inputs), params.dtype))


def _rows(params: ShawVectors, _inputs: Inputs, state: Array, _tensor: str, start: int, stop: int) -> Array:
    size = sizes(params)
    queries, keys = np.divmod(np.arange(start, stop), size.keys)
    vectors: Array = state[row_of(params, keys - queries - size.offset)]
    return vectors


def _facts(params: ShawVectors, inputs: Inputs) -> Facts:
    rows, dim = _shape(params, inputs)
    return {**sizes(params)._asdict(), "table_rows": rows, "table_bytes_per_head": rows * dim * ITEMSIZE[params.dtype]}


DESCRIPTION = """\
`a_ij = table[index]` for the index of `biases/shaw` with the same parameters, clip(j - i, -left, right) + left for
query i and key j (with `beyond=zero-row` zeros where it clips): the vector that is added to the key (or, from another
table, to the value). The table comes in the body, (left + right + 1, dim), or `seed` draws one from the normal
distribution; `scale` multiplies either. Query row r stands at position r + `offset`, by default keys - queries.
`apply/shaw` adds their products with queries to scores.

**Axes**: (query, key, channel), the same for every head that shares the table."""

SCHEME: Scheme[ShawVectors, Array] = Scheme(
    family="biases",
    name="shaw-vectors",
    title="Relative position vectors",
    explanation=(
        "The vectors that those indices point to, for every pair of positions: of your trained table, or of a drawn "
        "one. Models add them to keys, or to values."
    ),
    description=DESCRIPTION,
    reference="Shaw et al., Self-Attention with Relative Position Representations, 2018",
    params=ShawVectors,
    rounding="correct",
    tensors=_tensors,
    sequence=own_table,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, _inputs: resolved(params),
    facts=_facts,
    notes=lambda params, inputs: reach_notes(params) + table_notes(params, inputs),
    state_bytes=lambda params, inputs: 8 * table_rows(params) * _shape(params, inputs)[1],
    instead="biases/shaw has the index of each vector: one number instead of dim",
    inputs=(
        Input("table", "The learned vectors: (left + right + 1, dim). Without it, seed draws one.", required=False),
    ),
    examples=(
        Example(
            "Drawn vectors, clipped at two",
            {"length": "4", "max_relative_position": "2", "dim": "2", "seed": "7", "scale": "0.5"},
        ),
        Example(
            "Vectors of your own, clipped at two",
            {"length": "4", "max_relative_position": "2"},
            {"tensors": {"table": [[1, 0.5], [0.5, 0.25], [0, 0], [-0.5, 0.25], [-1, 0.5]]}},
        ),
    ),
    used_by=USED_BY,
    properties={
        "learned parameters": "left + right + 1 vectors as wide as a head, often shared by the heads",
        "memory per head": "left + right + 1 vectors, and queries * keys vectors where they are written out",
        "extrapolates": "yes: farther distances share the last row",
    },
)
