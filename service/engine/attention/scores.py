"""How many queries and keys attention scores have, and at which position the queries begin."""

from typing import NamedTuple

from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER


class Extent(NamedTuple):
    """Scores of `queries` rows by `keys` columns; query row r stands at key position r + `offset`."""

    queries: int
    keys: int
    offset: int


def extent(length: int | None, queries: int | None, keys: int | None, offset: int | None) -> Extent:
    """`length` means both; keys are as many as queries unless given; the last query meets the last key.

    >>> extent(None, 1, 4, None)
    Extent(queries=1, keys=4, offset=3)
    """
    if length is not None:
        for name, given in (("queries", queries), ("keys", keys)):
            if given is not None:
                raise Refusal(name, "conflict", f"length means both queries and keys; give length, or {name}, not both")
    rows = length or queries
    if rows is None:
        raise Refusal("length", "missing", "length is missing: give length=, or queries= and keys=")
    columns = length or keys or rows
    return Extent(rows, columns, columns - rows if offset is None else offset)


def refuse_uncountable(size: Extent) -> None:
    """Refuse distances that float64 does not count."""
    if abs(size.offset) + size.queries + size.keys > LARGEST_EXACT_INTEGER:
        raise Refusal(
            "offset",
            "out_of_range",
            "offset, queries and keys together reach beyond 2^53, where distances stop being exact",
            limit=LARGEST_EXACT_INTEGER,
        )
