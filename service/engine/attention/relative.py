"""What every scheme over queries and keys shares: how many there are, where they stand, and blocks of what depends on
their distance alone."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field

from service.engine.attention.scores import Extent, extent, refuse_uncountable
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats, Pair
from service.engine.positions import as_positions, given_positions
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer, Keys, Length, Positions, Queries
from service.engine.rounding import nearest_of_sum
from service.engine.scheme import Array, Inputs, Params, Tensor, Tensors

QueryOffset = Annotated[
    Integer,
    Field(
        ge=-LARGEST_EXACT_INTEGER,
        le=LARGEST_EXACT_INTEGER,
        description="Position of the first query; keys - queries unless given: the last query meets the last key.",
    ),
]
IndexDType = Annotated[
    Literal["int32", "int64"],
    Field(description="Number format of the indices: int64 is what PyTorch's embeddings and gathers take."),
]
Integers = NDArray[np.int64]
Lines = Callable[[slice, Integers], Array]  # some heads and distances j - i -> (heads, distances)
PIECE = 1 << 16  # numbers at a time: what a wide row or many heads take beside the answer stays small


class QueryKey(Params):
    """Parameters that say how many queries and keys there are, and where the queries stand."""

    length: Length | None = None
    queries: Queries | None = None
    keys: Keys | None = None
    offset: QueryOffset | None = None


Sized = TypeVar("Sized", bound=QueryKey)


def resolved(params: Sized) -> Sized:
    """The same request with every size in its place, so that all its spellings are one."""
    queries, keys, offset = extent(params.length, params.queries, params.keys, params.offset)
    return params.model_copy(update={"length": None, "queries": queries, "keys": keys, "offset": offset})


class QueryKeyPositions(QueryKey):
    """The same, or positions of any order that queries and keys share."""

    positions: Positions | None = None


def whole_positions(params: QueryKeyPositions, inputs: Inputs) -> Integers | None:
    """The positions given, if any: whole numbers, which stand in for all sizes."""
    if "positions" not in inputs and params.positions is None:
        return None
    for name in QueryKey.model_fields:
        if getattr(params, name) is not None:
            raise Refusal(name, "conflict", f"{name} and positions exclude each other; positions say everything")
    given, pointer = given_positions(params.positions, inputs)
    values = as_positions(given, pointer)
    whole = values.astype(np.int64)
    if (whole != values).any():
        raise Refusal(pointer, "type", f"positions hold {values[whole != values][0]:g}; whole numbers are needed")
    return whole


def position_rows(positions: Integers, of: Callable[[Integers], Integers], dtype: str, start: int, stop: int) -> Array:
    """Rows `start` to `stop` of the (…, query, key) matrix of(key - query), in C order.

    >>> position_rows(np.array([[0, 5], [7, 9]]), lambda distances: distances, "int64", 1, 3).tolist()
    [[-5, 0], [0, 2]]
    """
    lists = positions.reshape(-1, positions.shape[-1])
    keys = lists[np.arange(start, stop) // positions.shape[-1]]
    return of(keys - positions.reshape(-1)[start:stop, None]).astype(dtype)


class Sizes(Extent):
    """Queries, keys and the position of the first query; keys stand at 0, 1, ..."""

    __slots__ = ()

    @property
    def largest_distance(self) -> int:
        """The largest |key - query|."""
        return max(abs(self.nearest), abs(self.farthest))

    @property
    def nearest(self) -> int:
        """The smallest key - query."""
        return 1 - self.offset - self.queries

    @property
    def farthest(self) -> int:
        """The largest key - query."""
        return self.keys - 1 - self.offset


def sizes(params: QueryKey) -> Sizes:
    """The sizes a request means; `length` is both numbers, keys are as many as queries unless given.

    >>> sizes(QueryKey(queries=1, keys=4))
    Sizes(queries=1, keys=4, offset=3)
    """
    return Sizes(*extent(params.length, params.queries, params.keys, params.offset))


def index_tensors(params: QueryKey, table_rows: int, dtype: str) -> Tensors:
    """One matrix of indices into a table of so many rows, for every query and key."""
    size = sizes(params)
    refuse_uncountable(size)
    refuse_large_index(table_rows - 1, dtype)
    return {"index": Tensor(("query", "key"), (size.queries, size.keys), dtype)}


def refuse_large_index(largest: int, dtype: str) -> None:
    """Refuse indices that the number format cannot hold."""
    limit = int(np.iinfo(dtype).max)
    if largest > limit:
        raise Refusal(
            "dtype",
            "out_of_range",
            f"the indices reach {largest}; {dtype} holds {limit} at most: use int64",
            limit=limit,
            requested=largest,
        )


def index_rows(params: QueryKey, of: Callable[[Integers], Integers], dtype: str, start: int, stop: int) -> Array:
    """Rows `start` to `stop` of the matrix of(key - query)."""
    size = sizes(params)
    out = np.empty((stop - start, size.keys), dtype)
    write_by_distance(lambda _heads, distances: of(distances)[None], 1, size, start, out)
    return out


def write_faithfully(of: Callable[[slice, Floats], Pair], heads: int, size: Sizes, start: int, out: Array) -> None:
    """Rows `start`, ... of the (head, query, key) bias of(heads, |key - query|) into `out`, +0 at distance 0."""

    def lines(some: slice, distances: Integers) -> Array:
        high, low = of(some, np.abs(distances).astype(np.float64))
        apart = distances != 0
        return nearest_of_sum(np.where(apart, high, 0.0), np.where(apart, low, 0.0), out.dtype)

    write_by_distance(lines, heads, size, start, out)


def distinct(of: Callable[[Integers], Integers], size: Sizes, steps: Integers) -> int:
    """How many values `of` takes at the distances of a matrix; it changes only from one step to the next.

    `steps` are the distances, both signs, at which a new value begins (seen from either side).
    """
    lowest, highest = size.nearest, size.farthest
    beside = np.concatenate([steps - 1, steps, steps + 1, np.array([lowest, highest, 0, 1, -1])])
    return int(np.unique(of(np.clip(beside, lowest, highest))).size)


def write_by_distance(lines: Lines, heads: int, size: Sizes, start: int, out: Array) -> None:
    """Rows `start`, `start + 1`, ... of the (…, head, query, key) matrix, in C order, into `out` (rows, keys).

    What depends on the distance alone is a window that slides along one line of values for each head.

    >>> out = np.empty((2, 3), np.int64)
    >>> write_by_distance(lambda heads, distances: distances[None], 1, Sizes(2, 3, 1), 0, out)
    >>> out.tolist()
    [[-1, 0, 1], [-2, -1, 0]]
    """
    for some, query, key, part in parts(heads, size.queries, start, out):
        part[...] = windows(lines(some, line(size, query, key, part)), part)


def line(size: Sizes, query: int, key: int, part: Array) -> Integers:
    """All distances in a part (…, queries, keys) whose first query and key these are, in ascending order."""
    rows, keys = part.shape[-2:]
    first = key - (size.offset + query) - rows + 1  # of the last query and the first key
    return np.arange(first, first + rows + keys - 1)


def windows(values: Array, part: Array) -> Array:
    """The values of a line of distances (…, distances) at the queries and keys of the part, a view."""
    return sliding_window_view(values, part.shape[-1], axis=-1)[..., ::-1, :]


def parts(heads: int, queries: int, start: int, out: Array) -> Iterator[tuple[slice, int, int, NDArray[Any]]]:
    """The rows `start`, ... of a (…, head, query, key) answer as (some heads, first query, first key, their part of
    `out` (heads, queries, keys)).

    Whole heads go together as far as the rows reach, a part of a head alone; wide rows go in pieces.
    """
    row, stop, keys = start, start + len(out), out.shape[1]
    while row < stop:
        head, query = divmod(row, queries)
        head %= heads
        count = min((stop - row) // queries, heads - head, max(1, PIECE // (queries + keys)))
        alone = query > 0 or count == 0 or queries > PIECE
        count, height = (1, min(queries - query, stop - row, PIECE)) if alone else (count, queries)
        rows = out[row - start : row - start + count * height].reshape(count, height, keys)
        for key in range(0, keys, PIECE):
            yield slice(head, head + count), query, key, rows[:, :, key : key + PIECE]
        row += count * height
