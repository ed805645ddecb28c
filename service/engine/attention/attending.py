"""What every mask shares: which keys a query may attend to, and how the answer says so.

In every mask here the keys of a query at position p are one run, low(p) ... high(p) - 1, narrowed by what the caller
brings: padded keys fall out, and so do keys of another segment. So a row is a few comparisons with its index, and the
number of its keys is a difference that needs no row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from service.engine.attention.relative import QueryOffset
from service.engine.attention.scores import Extent, extent, refuse_uncountable
from service.engine.errors import Refusal
from service.engine.frequencies import LARGEST_FINITE
from service.engine.quantities import Keys, Length, Queries, Real
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Params, Scheme, Sequence, Tensor, Tensors, Usage

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_REAL: TypeAdapter[float] = TypeAdapter(Real)


def _fill(value: object) -> object:
    if value is None or value in ("min", "-inf"):
        return value
    try:
        number = _REAL.validate_python(value)
    except ValidationError:
        number = inf
    if not -inf < number < 0:
        raise PydanticCustomError("fill", "min, -inf or a finite negative number is needed, such as -10000")
    return repr(number)


Alignment = Annotated[
    Literal["bottom-right", "top-left"],
    Field(
        description="Where the queries stand when there are fewer (or more) than keys and no `offset` is given: "
        "`bottom-right` the last query meets the last key (the default; decoding with a cache, FlashAttention 2.1 and "
        "later); `top-left` the first query meets the first key (PyTorch's `is_causal`)."
    ),
]
MaskDType = Annotated[
    Literal["bool", "float16", "bfloat16", "float32", "float64"],
    Field(
        description="`bool`: True where a query may attend to a key; a number format: 0 there and `fill` elsewhere, to "
        "be added to the scores."
    ),
]
Fill = Annotated[
    str,
    BeforeValidator(_fill),
    Field(
        json_schema_extra={"pattern": r"^(min|-inf|-([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)$"},
        description="What masked cells hold, with a number format: `min` its most negative finite number (the "
        "default), `-inf`, or a negative number that it holds, such as -10000.",
    ),
]
EmptyRows = Annotated[
    Literal["keep", "attend-all"],
    Field(
        description="Queries that may attend to no key at all: `keep` them masked (softmax gives NaN with fill=-inf, "
        "equal weights with fill=min); `attend-all` lets them attend to every key."
    ),
]


Direction = Annotated[
    Literal["causal", "bidirectional"],
    Field(description="`causal`: no key beyond the query's own position; `bidirectional`: both ways."),
]


class Answered(Params):
    """Parameters that say how a mask is written."""

    dtype: MaskDType = "bool"
    fill: Fill | None = None
    empty_rows: EmptyRows = "keep"


A = TypeVar("A", bound=Answered)


def with_fill(params: A, _inputs: Inputs) -> A:
    """The parameters with the fill that is used where none is given."""
    return params if params.dtype == "bool" or params.fill else params.model_copy(update={"fill": "min"})


class Sized(Answered):
    """Parameters of a mask of so many queries by so many keys."""

    length: Length | None = None
    queries: Queries | None = None
    keys: Keys | None = None

    def implied_keys(self) -> tuple[str, int] | None:
        """The parameter that says how many keys there are, and how many, if one does."""
        return None

    def first_query(self) -> int | None:
        """The position of the first query; None where the last query meets the last key."""
        return None


class Mask(Sized):
    """Parameters of a mask that depends on where the queries stand."""

    offset: QueryOffset | None = None
    alignment: Alignment | None = None

    def first_query(self) -> int | None:
        if self.offset is not None and self.alignment is not None:
            raise Refusal(
                "alignment", "conflict", "offset says where the queries stand: leave alignment out, or give no offset"
            )
        return 0 if self.alignment == "top-left" else self.offset


P = TypeVar("P", bound=Sized)

ATTENTION_MASK = Input(
    "attention_mask",
    "1 (or true) for a token and 0 (or false) for padding, as tokenizers return it: (keys), or (batch, keys).",
    required=False,
    values="flags",
)

PIECE = 1 << 18  # cells at a time, so that what they take beside the answer stays small
MOST_KEYS = 1 << 23  # that a caller can say something of
KEY_BYTES = 32  # about what each of them takes while the mask is made
MOST_COUNTED = 1 << 16  # rows whose keys are counted before anything is computed
MOST_CELLS = 1 << 22  # cells that are made only to be counted
MOST_LISTED = 64


class Run(NamedTuple):
    """Keys low ... high - 1 of each query; empty where high <= low."""

    low: Integers
    high: Integers


# The keys of queries at some positions; `first` is the position of each one's first token that is no padding.
Runs = Callable[[P, Integers, Integers], Run]


@dataclass(frozen=True, slots=True)
class Brought:
    """What the caller brings about the keys, (batch, keys): which are tokens, and the segment of each (0, 1, ...).

    `places` are the tokens in order: (entry of the batch * segments + segment) * keys + position. `first` is the
    position of each entry's first token (0 where there is none).
    """

    tokens: Booleans
    segments: Integers | None
    places: Integers
    first: Integers

    def segment_of(self, entries: Integers, positions: Integers) -> Integers:
        """The segments of queries; -1 outside the keys, where there are segments."""
        if self.segments is None:
            return positions * 0
        keys = self.segments.shape[1]
        inside = (positions >= 0) & (positions < keys)
        return np.where(inside, self.segments[entries, np.clip(positions, 0, keys - 1)], -1)

    def count(self, entries: Integers, segments: Integers, run: Run) -> Integers:
        """How many tokens of its segment each query's run holds; none for segment -1."""
        start = _places(entries, segments, self.tokens.shape[1], self.segments)
        found = np.searchsorted(self.places, start + run.high) - np.searchsorted(self.places, start + run.low)
        return np.where(segments < 0, 0, found)


def _places(entries: Integers, segments: Integers, keys: int, all_segments: Integers | None) -> Integers:
    count = 1 if all_segments is None else int(all_segments.max()) + 1
    return (entries * count + segments) * keys


@dataclass(frozen=True, slots=True)
class Attention(Generic[P]):
    """A mask's rows: the run of keys of each query, and what the caller brings."""

    params: P
    runs: Runs[P]
    size: Extent
    brought: Brought | None

    @property
    def rows(self) -> int:
        return self.size.queries * (len(self.brought.tokens) if self.brought else 1)

    def _queries(self, start: int, stop: int) -> tuple[Integers, Integers, Run]:
        """Those rows: their entries of the batch, positions, and runs of keys."""
        entries, queries = np.zeros(stop - start, np.int64), np.arange(start, stop, dtype=np.int64)
        first = entries
        if self.brought is not None:
            entries, queries = np.divmod(queries, self.size.queries)
            first = self.brought.first[entries]
        positions = queries + self.size.offset
        low, high = self.runs(self.params, positions, first)
        low = np.clip(low, 0, self.size.keys)
        return entries, positions, Run(low, np.clip(high, low, self.size.keys))

    def counts(self, start: int, stop: int) -> Integers:
        """How many keys each of those rows may attend to."""
        entries, positions, run = self._queries(start, stop)
        if self.brought is None:
            return run.high - run.low
        return self.brought.count(entries, self.brought.segment_of(entries, positions), run)

    def allowed(self, start: int, stop: int) -> Booleans:
        """Those rows: True where the query may attend to the key."""
        out = np.empty((stop - start, self.size.keys), np.bool_)
        most = max(1, PIECE // self.size.keys)
        for row in range(0, stop - start, most):
            part = out[row : row + most]
            self._fill(start + row, part)
        if self.params.empty_rows == "attend-all":
            out[self.counts(start, stop) == 0] = True
        return out

    def _fill(self, start: int, out: Booleans) -> None:
        entries, positions, run = self._queries(start, start + len(out))
        for key in range(0, self.size.keys, PIECE):
            part = out[:, key : key + PIECE]
            keys = np.arange(key, key + part.shape[1], dtype=np.int64)
            np.greater_equal(keys, run.low[:, None], out=part)
            part &= keys < run.high[:, None]
            if self.brought is not None:
                part &= self.brought.tokens[entries, key : key + PIECE]
                if self.brought.segments is not None:
                    own = self.brought.segment_of(entries, positions)
                    part &= self.brought.segments[entries, key : key + PIECE] == own[:, None]


def written(allowed: Booleans, dtype: str, fill: str | None) -> Array:
    """A mask as it was asked for: as it is, or 0 where True and the fill where False.

    >>> written(np.array([True, False]), "float16", None).tolist()
    [0.0, -65504.0]
    """
    if dtype == "bool":
        return allowed
    zero, masked = nearest(np.array([0.0, fill_value(dtype, fill)]), DTYPES[dtype])
    rows: Array = np.where(allowed, zero, masked)
    return rows


def fill_value(dtype: str, fill: str | None) -> float:
    """What masked cells hold; refuses what the number format cannot hold.

    >>> fill_value("float16", None), fill_value("float32", "-10000.0")
    (-65504.0, -10000.0)
    >>> fill_value("float16", "-1e9")
    Traceback (most recent call last):
    service.engine.errors.Refusal: fill is -1e9; float16 ends at -65504: use fill=min, -inf or dtype=bfloat16
    """
    if fill in (None, "min"):
        return -LARGEST_FINITE[dtype]
    number = float(str(fill))
    if number == -inf or _holds(dtype, number):
        return number
    able = next(name for name in LARGEST_FINITE if _holds(name, number))
    limit = f"ends at -{LARGEST_FINITE[dtype]:.6g}" if number < -1 else "holds no number so near 0"
    raise Refusal(
        "fill",
        "out_of_range",
        f"fill is {fill}; {dtype} {limit}: use fill=min, -inf or dtype={able}",
        limit=-LARGEST_FINITE[dtype],
        requested=number,
    )


def _holds(dtype: str, number: float) -> bool:
    """Whether a number is in the range of a number format, and does not vanish in it."""
    return abs(number) <= LARGEST_FINITE[dtype] and nearest(np.array([number]), DTYPES[dtype])[0] != 0


def refuse_unwritable(params: Answered) -> None:
    """Refuse a fill that the answer cannot hold or has no use for."""
    if params.dtype != "bool":
        fill_value(params.dtype, params.fill)
    elif params.fill is not None:
        raise Refusal(
            "fill", "conflict", "fill is for masks that are added to scores: give dtype=float32, or leave fill out"
        )


def flags(name: str, inputs: Inputs, most_axes: int) -> Booleans:
    """A caller's mask of zeros and ones; refuses other numbers, and an axis too many or empty."""
    refuse_shape(name, inputs[name], most_axes)
    return truths(name, inputs)


def truths(name: str, inputs: Inputs) -> Booleans:
    """A caller's zeros and ones, of any shape; refuses other numbers.

    >>> truths("mask", {"mask": np.array([1, 0])}).tolist()
    [True, False]
    """
    array, pointer = inputs[name], f"/tensors/{name}"
    if array.dtype.kind not in "biu":
        raise Refusal(
            pointer, "type", f"{name} holds {array.dtype.name}; integers 0 and 1, or truth values, are needed"
        )
    proper = (array == 0) | (array == 1)
    if not proper.all():
        place = [int(axis) for axis in np.unravel_index(int(np.argmin(proper)), array.shape)]
        raise Refusal(
            "/".join([pointer, *map(str, place)]), "value", f"this is {array[tuple(place)]}; 0 or 1 is needed"
        )
    return array.astype(np.bool_)


def refuse_shape(name: str, array: Array, most_axes: int) -> None:
    """Refuse axes that are too many or empty, and more keys than the service goes through."""
    if not 1 <= array.ndim <= most_axes or array.size == 0:
        wanted = {1: "one list", 2: "(keys) or (batch, keys)"}.get(most_axes, "(…, queries, keys)")
        raise Refusal(
            f"/tensors/{name}",
            "shape",
            f"{name} has the shape {array.shape}; {wanted} is needed, with no empty axis",
        )
    if most_axes <= 2 and array.size > MOST_KEYS:
        raise Refusal(
            f"/tensors/{name}",
            "too_large",
            f"{name} has {array.size} entries; {MOST_KEYS} will do: send the batch in parts",
            limit=MOST_KEYS,
            requested=array.size,
        )


def integers(name: str, inputs: Inputs, most_axes: int = 2) -> Integers:
    """A caller's integers; refuses other numbers, and an axis too many or empty."""
    array = inputs[name]
    if array.dtype.kind not in "iu":
        raise Refusal(f"/tensors/{name}", "type", f"{name} holds {array.dtype.name}; integers are needed")
    refuse_shape(name, array, most_axes)
    return array.astype(np.int64)


def _segments(inputs: Inputs) -> Integers:
    """The segment of each key, renumbered from 0."""
    array = integers("segment_ids", inputs)
    return np.unique(array, return_inverse=True)[1].reshape(array.shape).astype(np.int64)


def _arrays(inputs: Inputs) -> tuple[tuple[int, ...], Booleans, Integers | None] | None:
    """The shape of what the caller brings, the tokens, and any segments; None where that is nothing."""
    if not inputs:
        return None
    found: dict[str, Array] = {}
    if "attention_mask" in inputs:
        found["attention_mask"] = flags("attention_mask", inputs, 2)
    if "segment_ids" in inputs:
        found["segment_ids"] = _segments(inputs)
    name, first = next(iter(found.items()))
    for other, array in found.items():
        if array.shape != first.shape:
            raise Refusal(
                f"/tensors/{other}",
                "shape",
                f"{other} has the shape {array.shape} and {name} has {first.shape}; they must be equal",
            )
    tokens = found.get("attention_mask", np.ones(first.shape, np.bool_))
    return first.shape, tokens, found.get("segment_ids")


def _size(params: Sized, inputs: Inputs) -> Extent:
    """Queries and keys, and where the queries stand; what the caller brings says how many keys there are."""
    queries, keys = params.queries, params.keys
    implied = [(f"/tensors/{name}", int(array.shape[-1]) if array.ndim else 0) for name, array in inputs.items()]
    if (own := params.implied_keys()) is not None:
        implied.append(own)
    for place, count in implied:
        given = params.length or keys or count
        if given != count:
            raise Refusal(
                place,
                "shape",
                f"{place} speaks of {count} keys, where there are {given}; one entry for each key is needed",
                limit=given,
                requested=count,
            )
        if params.length is None:
            queries, keys = queries or count, count
    size = extent(params.length, queries, keys, params.first_query())
    refuse_uncountable(size)
    return size


def _resolved(params: P, inputs: Inputs) -> P:
    """The same request with every size in its place, so that all its spellings are one."""
    size = _size(params, inputs)
    place = {"length": None, "queries": size.queries, "keys": size.keys, "offset": size.offset, "alignment": None}
    known = {name: value for name, value in place.items() if name in type(params).model_fields}
    return with_fill(params, inputs).model_copy(update=known)


def _brought(inputs: Inputs) -> Brought | None:
    arrays = _arrays(inputs)
    if arrays is None:
        return None
    shape, tokens, segments = arrays
    keys = shape[-1]
    tokens = tokens.reshape(-1, keys)
    segments = None if segments is None else segments.reshape(-1, keys)
    entries = np.arange(len(tokens), dtype=np.int64)[:, None]
    own = entries * 0 if segments is None else segments
    places = np.broadcast_to(_places(entries, own, keys, segments) + np.arange(keys), tokens.shape)
    return Brought(tokens, segments, np.sort(places[tokens]), tokens.argmax(axis=1))


def rows_of(view: Booleans, start: int, stop: int) -> Booleans:
    """Rows of a mask (…, query, key) that may be a view of a smaller one."""
    part: Booleans = view[np.unravel_index(np.arange(start, stop), view.shape[:-1])]
    return part


def _no_check(_params: Any, _size: Extent, _inputs: Inputs) -> None:
    return None


def mask_scheme(
    *,
    name: str,
    title: str,
    explanation: str,
    description: str,
    reference: str,
    params: type[P],
    runs: Runs[P],
    examples: tuple[Example, ...],
    used_by: tuple[Usage, ...],
    inputs: tuple[Input, ...] = (ATTENTION_MASK,),
    check: Callable[[P, Extent, Inputs], None] = _no_check,
    notes: Callable[[P], list[str]] = lambda _params: [],
) -> Scheme[P, Brought | None]:
    """The record of a mask whose queries attend to the keys that `runs` says."""

    def tensors(params: P, inputs: Inputs) -> Tensors:
        arrays, size = _arrays(inputs), _size(params, inputs)
        refuse_unwritable(params)
        check(params, size, inputs)
        batch = arrays[0][:-1] if arrays else ()
        axes = ("batch", "query", "key")[-2 - len(batch) :]
        return {"mask": Tensor(axes, (*batch, size.queries, size.keys), params.dtype)}

    def prepare(_params: P, inputs: Inputs) -> Brought | None:
        return _brought(inputs)

    def attention(params: P, inputs: Inputs, state: Brought | None) -> Attention[P]:
        # Where the queries stand is the request's own: the state may be that of another one over the same keys.
        return Attention(params, runs, _size(params, inputs), state)

    def rows(params: P, inputs: Inputs, state: Brought | None, _tensor: str, start: int, stop: int) -> Array:
        return written(attention(params, inputs, state).allowed(start, stop), params.dtype, params.fill)

    def facts(params: P, inputs: Inputs) -> Facts:
        mask = attention(params, inputs, prepare(params, inputs))
        size: Facts = {"queries": mask.size.queries, "keys": mask.size.keys, "offset": mask.size.offset}
        counts = mask.counts(0, mask.rows) if mask.rows <= MOST_COUNTED else None
        return size | fill_fact(params.dtype, params.fill) | count_facts(counts)

    def sequence(params: P, inputs: Inputs) -> Sequence | None:
        if inputs:
            return None
        size = _size(params, inputs)
        place = {"length": None, "queries": None, "keys": size.keys, "offset": None, "alignment": None}
        return Sequence(params.model_copy(update=place), size.offset)

    return Scheme(
        family="masks",
        name=name,
        title=title,
        explanation=explanation,
        description=f"{description}\n\n{CONVENTIONS}",
        reference=reference,
        params=params,
        rounding="correct",
        tensors=tensors,
        sequence=sequence,
        prepare=prepare,
        rows=rows,
        resolve=_resolved,
        facts=facts,
        notes=lambda params, _inputs: [*notes(params), *answer_notes(params)],
        state_bytes=lambda _params, inputs: KEY_BYTES * sum(array.size for array in inputs.values()),
        inputs=inputs,
        examples=examples,
        used_by=used_by,
        properties={"learned parameters": "none", "extrapolates": "yes: defined at any length"},
        infinite=True,
    )


ANSWERED = """\
with a number format the answer is added to the scores: exactly 0 where True and exactly `fill` elsewhere, however many
reasons a cell is masked for. The reply counts the keys of each query and lists the queries without any (number =
entry of the batch * queries + query)."""
CONVENTIONS = f"""\
**True means may attend**, and so does 1 in `attention_mask`, which is joined by AND and removes keys, not queries;
{ANSWERED}

Key j stands at position j, query row r at r + `offset`: by default keys - queries, the last query at the
last key, or 0 with `alignment=top-left`.

**Axes**: (query, key), or (batch, query, key) where the arrays in the body have a batch axis."""


def fill_fact(dtype: str, fill: str | None) -> Facts:
    """The number that masked cells hold, in the answer's format; -inf as text, for JSON has no infinity."""
    if dtype == "bool":
        return {}
    number = fill_value(dtype, fill)
    return {"fill": "-inf" if number == -inf else float(nearest(np.array([number]), DTYPES[dtype])[0])}


def counted(shape: tuple[int, ...], allowed: Callable[[int, int], Booleans]) -> Facts:
    """The counts of a mask (…, query, key) whose rows must be made to be counted; not of one that is large."""
    rows, cells = prod(shape[:-1]), prod(shape)
    few = rows <= MOST_COUNTED and cells <= MOST_CELLS
    return count_facts(allowed(0, rows).sum(axis=1, dtype=np.int64) if few else None)


def count_facts(counts: Integers | None) -> Facts:
    """How many keys each row may attend to, and which rows attend to none (the first ones, where there are many)."""
    if counts is None:
        return {"counted": f"no: at most {MOST_COUNTED} rows are, and {MOST_CELLS} cells of the body's own masks"}
    empty = np.flatnonzero(counts == 0)
    return {
        "keys_per_query": [int(count) for count in counts[:MOST_LISTED]],
        "attended": int(counts.sum()),
        "fully_masked": len(empty),
        "fully_masked_rows": [int(row) for row in empty[:MOST_LISTED]],
    }


def answer_notes(params: Answered) -> list[str]:
    """What a mask's values mean."""
    said = ["True: the query may attend to the key"]
    if params.dtype != "bool":
        said = [f"0: the query may attend to the key; {params.fill or 'min'}: it may not; add the mask to the scores"]
    if params.empty_rows == "attend-all":
        said.append("queries that could attend to no key attend to every key; facts count their keys before that")
    return said
