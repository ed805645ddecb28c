"""Biases on attention scores, each told once: as a table of its own, and added to the caller's scores.

A `Bias` says how to write any rows of the (…, head, query, key) bias. `table_scheme` makes the record that answers with
it, `sum_scheme` the record that answers with scores plus bias, where every value is rounded twice and in this order:
the bias once to the number format, then the sum once more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from service.engine.attention.attending import ATTENTION_MASK, flags
from service.engine.attention.relative import QueryKey, QueryOffset, Sizes, sizes
from service.engine.attention.scores import refuse_uncountable
from service.engine.errors import Refusal
from service.engine.quantities import DType
from service.engine.rounding import DTYPES
from service.engine.scheme import (
    ITEMSIZE,
    Array,
    Example,
    Facts,
    Input,
    Inputs,
    Params,
    Rounding,
    Scheme,
    Tensor,
    Tensors,
    Usage,
    own_table,
)
from service.engine.vectors import SameDType, answer_dtype, block, refuse_odd_shapes, refuse_overflow, vector_axes

Write = Callable[[int, Array], None]  # rows start, start + 1, ... in C order into an array (rows, keys)


class BiasTable(QueryKey):
    """Parameters of a bias by itself."""

    dtype: DType = "float32"


class Summed(Params):
    """Parameters of a sum with the caller's scores; the last query meets the last key."""

    dtype: SameDType = None

    def first_query(self) -> int | None:
        """The position of the first query; None where the last query meets the last key."""
        return None


class BiasedScores(Summed):
    """Parameters of a bias, which is defined wherever the queries stand, added to the caller's scores."""

    offset: QueryOffset | None = None

    def first_query(self) -> int | None:
        return self.offset


class Place(NamedTuple):
    """What a bias is asked for: so many heads, queries and keys, in a number format."""

    heads: int
    size: Sizes
    dtype: str


P_contra = TypeVar("P_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias(Generic[P_contra]):
    """The mathematics of a bias, whoever asks.

    `check`    refuses what parameters and arrays say wrongly, before anything is computed
    `prepare`  what writes its rows, (…, head, query, key)
    `one_row`  whether all queries of a head have one row in common, which is all that a table then shows
    """

    check: Callable[[P_contra, Inputs, Place], None]
    prepare: Callable[[P_contra, Inputs, Place], Write]
    one_row: Callable[[P_contra], bool] = lambda _params: False
    inputs: tuple[Input, ...] = ()
    facts: Callable[[P_contra, Inputs], Facts] = lambda _params, _inputs: {}
    notes: Callable[[P_contra, Inputs], list[str]] = lambda _params, _inputs: []
    state_bytes: Callable[[P_contra, Inputs, Place], int] = lambda _params, _inputs, _place: 0


T = TypeVar("T", bound=BiasTable)
S = TypeVar("S", bound=Summed)


def table_sizes(params: BiasTable, inputs: Inputs) -> Sizes:
    """Queries and keys of a table; an attention mask in the body says how many keys there are.

    >>> table_sizes(BiasTable(queries=1), {"attention_mask": np.array([[0, 1, 1]])})
    Sizes(queries=1, keys=3, offset=2)
    """
    if "attention_mask" not in inputs:
        return sizes(params)
    count = flags("attention_mask", inputs, 2).shape[-1]
    given = params.length or params.keys or count
    if given != count:
        raise _mismatched_keys(count, given)
    if params.length is not None:
        return sizes(params)
    return sizes(params.model_copy(update={"queries": params.queries or count, "keys": count}))


def _mismatched_keys(count: int, given: int) -> Refusal:
    return Refusal(
        "/tensors/attention_mask",
        "shape",
        f"attention_mask has {count} keys, where there are {given}; one entry for each key is needed",
        limit=given,
        requested=count,
    )


def table_scheme(
    bias: Bias[T],
    *,
    name: str,
    title: str,
    explanation: str,
    description: str,
    reference: str,
    params: type[T],
    heads: Callable[[T, Inputs], int],
    rounding: Rounding,
    examples: tuple[Example, ...],
    used_by: tuple[Usage, ...],
    properties: dict[str, str],
    instead: str = "",
) -> Scheme[T, Write]:
    """The record of a bias by itself: (head, query, key), after (batch) where an attention mask has one."""

    def place(params: T, inputs: Inputs) -> Place:
        size = table_sizes(params, inputs)
        rows = 1 if bias.one_row(params) else size.queries
        return Place(heads(params, inputs), size._replace(queries=rows), params.dtype)

    def tensors(params: T, inputs: Inputs) -> Tensors:
        refuse_uncountable(table_sizes(params, inputs))
        where = place(params, inputs)
        bias.check(params, inputs, where)
        batch = inputs["attention_mask"].shape[:-1] if "attention_mask" in inputs else ()
        shape = (*batch, where.heads, where.size.queries, where.size.keys)
        return {"bias": Tensor(("batch", "head", "query", "key")[-len(shape) :], shape, params.dtype)}

    def rows(params: T, inputs: Inputs, write: Write, _tensor: str, start: int, stop: int) -> Array:
        out = np.empty((stop - start, table_sizes(params, inputs).keys), DTYPES[params.dtype])
        write(start, out)
        return out

    def facts(params: T, inputs: Inputs) -> Facts:
        where = place(params, inputs)
        shown = where.size.queries * where.size.keys
        return {
            "heads": where.heads,
            **table_sizes(params, inputs)._asdict(),
            "bias_bytes_per_head": shown * ITEMSIZE[params.dtype],
            **bias.facts(params, inputs),
        }

    return Scheme(
        family="biases",
        name=name,
        title=title,
        explanation=explanation,
        description=description,
        reference=reference,
        params=params,
        rounding=rounding,
        tensors=tensors,
        sequence=own_table,
        prepare=lambda params, inputs: bias.prepare(params, inputs, place(params, inputs)),
        rows=rows,
        resolve=lambda params, inputs: params.model_copy(
            update={"length": None, **table_sizes(params, inputs)._asdict()}
        ),
        facts=facts,
        notes=bias.notes,
        state_bytes=lambda params, inputs: bias.state_bytes(params, inputs, place(params, inputs)),
        inputs=bias.inputs,
        instead=instead,
        examples=examples,
        used_by=used_by,
        properties=properties,
    )


def score_sizes(params: Summed, x: Array) -> Sizes:
    """Queries and keys of the caller's scores (…, queries, keys).

    >>> score_sizes(BiasedScores(), np.zeros((2, 3, 5)))
    Sizes(queries=3, keys=5, offset=2)
    """
    queries, keys = x.shape[-2:]
    first = params.first_query()
    return Sizes(queries, keys, keys - queries if first is None else first)


def check_scores(params: Summed, x: Array) -> Place:
    """Refuse what cannot be scores (…, heads, queries, keys); what a bias is asked for there."""
    refuse_odd_shapes("x", x, 3, "(…, heads, queries, keys)")
    dtype = answer_dtype(params.dtype, x)
    refuse_overflow("x", x, dtype)
    size = score_sizes(params, x)
    refuse_uncountable(size)
    return Place(x.shape[-3], size, dtype)


def score_tensor(x: Array, dtype: str) -> Tensors:
    """The answer to scores: more of them."""
    return {"x": Tensor(vector_axes(x.ndim, ("head", "query", "key")), x.shape, dtype)}


def added(x: Array, start: int, bias: Array) -> Array:
    """Rows `start`, ... of scores x plus a bias (rows, keys) of the number format of the answer, rounded once.

    >>> added(np.array([[[2048.0, 2048.0]]]), 0, np.array([[0.5, 1.5]], np.float16)).tolist()
    [[2048.0, 2050.0]]
    """
    # The caller's infinities and overflows follow IEEE arithmetic; they are not the service's to warn of.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add(block(x, start, start + len(bias), bias.dtype.name), bias, out=bias)


def sum_scheme(
    bias: Bias[S],
    *,
    name: str,
    title: str,
    explanation: str,
    description: str,
    reference: str,
    params: type[S],
    examples: tuple[Example, ...],
    used_by: tuple[Usage, ...],
    properties: dict[str, str],
) -> Scheme[S, Write]:
    """The record of a bias added to the caller's scores (…, heads, queries, keys)."""

    def place(params: S, inputs: Inputs) -> Place:
        x = inputs["x"]
        return Place(x.shape[-3], score_sizes(params, x), answer_dtype(params.dtype, x))

    def tensors(params: S, inputs: Inputs) -> Tensors:
        where = check_scores(params, inputs["x"])
        if "attention_mask" in inputs:
            _refuse_unlike_mask(inputs)
        bias.check(params, inputs, where)
        return score_tensor(inputs["x"], where.dtype)

    def rows(params: S, inputs: Inputs, write: Write, tensor: str, start: int, stop: int) -> Array:
        x = inputs[tensor]
        out = np.empty((stop - start, x.shape[-1]), DTYPES[answer_dtype(params.dtype, x)])
        write(start, out)
        return added(x, start, out)

    def facts(params: S, inputs: Inputs) -> Facts:
        where = place(params, inputs)
        return {"heads": where.heads, **where.size._asdict(), **bias.facts(params, inputs)}

    return Scheme(
        family="apply",
        name=name,
        title=title,
        explanation=explanation,
        description="\n\n".join([description, *([PLACED] if "offset" in params.model_fields else []), SUMMED]),
        reference=reference,
        params=params,
        rounding="faithful",
        tensors=tensors,
        prepare=lambda params, inputs: bias.prepare(params, inputs, place(params, inputs)),
        rows=rows,
        facts=facts,
        notes=bias.notes,
        state_bytes=lambda params, inputs: bias.state_bytes(params, inputs, place(params, inputs)),
        inputs=(SCORES, *bias.inputs),
        examples=examples,
        used_by=used_by,
        properties=properties,
    )


SCORES = Input("x", "Attention scores: (…, heads, queries, keys).")
PLACED = "Query row r stands at position r + `offset`, by default keys - queries."
SUMMED = """\
The bias is rounded once to the number format of the scores, then the sum once more. Infinite scores stay infinite.
**Axes** stay as they came: (…, head, query, key).

The body is JSON, a safetensors file with the arrays by name, or one `.npy` of scores where nothing else is needed."""


def _refuse_unlike_mask(inputs: Inputs) -> None:
    """A mask is of the keys alone, or has the batch axis of the scores too."""
    x, mask = inputs["x"], flags("attention_mask", inputs, 2)
    if mask.shape[-1] != x.shape[-1]:
        raise _mismatched_keys(mask.shape[-1], x.shape[-1])
    if mask.ndim == 2 and x.shape[:-3] != mask.shape[:-1]:
        raise Refusal(
            "/tensors/attention_mask",
            "shape",
            f"attention_mask has the shape {mask.shape} and x has {x.shape}; (keys), or (batch, keys) for x (batch, "
            "heads, queries, keys), is needed",
        )


def token_positions(inputs: Inputs) -> Array | None:
    """The positions (batch, keys) that an attention mask gives tokens: 0, 1, ... where it is 1, and 0 where it is not.

    >>> token_positions({"attention_mask": np.array([0, 1, 0, 1, 1])}).tolist()
    [[0, 0, 0, 1, 2]]
    """
    if "attention_mask" not in inputs:
        return None
    tokens = np.atleast_2d(flags("attention_mask", inputs, 2))
    counted: Array = np.where(tokens, tokens.cumsum(axis=1, dtype=np.int64) - 1, 0)
    return counted


KEY_TOKENS = Input(
    ATTENTION_MASK.name,
    "1 for a token and 0 for padding, (keys) or (batch, keys): tokens then stand at 0, 1, ... and padding at 0.",
    required=False,
    values="flags",
)
