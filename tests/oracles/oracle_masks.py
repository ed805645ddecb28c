"""Masks by their definitions: one question for each query and key, answered from their two positions.

Positions are counted from the first key. `may_attend(name, i, j, **parameters)` is the definition of a scheme.
"""

from collections.abc import Callable, Mapping, Sequence

Question = Callable[..., bool]


def causal(i: int, j: int) -> bool:
    return j <= i


def sliding(i: int, j: int, *, window: int, counting: str = "total-including-self", direction: str = "causal") -> bool:
    """total-including-self: `window` keys with the query's own; flash-left: `window` keys beside it."""
    if direction == "bidirectional":
        return abs(i - j) <= window if counting == "flash-left" else 2 * abs(i - j) + 1 <= window
    before = i - j
    return 0 <= before <= window if counting == "flash-left" else 0 <= before < window


def chunked(i: int, j: int, *, chunk_size: int, origin: int = 0) -> bool:
    return j <= i and (j - origin) // chunk_size == (i - origin) // chunk_size


def prefix(i: int, j: int, *, prefix: int) -> bool:
    return j < prefix or j <= i


def block(i: int, j: int, *, block_size: int, reach: str = "diagonal") -> bool:
    mine, its = i // block_size, j // block_size
    return its == mine if reach == "diagonal" else its <= mine


def packed(i: int, j: int, *, segment_lengths: Sequence[int], direction: str = "causal") -> bool:
    owners = [number for number, length in enumerate(segment_lengths) for _ in range(length)]
    return segments(i, j, segment_ids=owners, direction=direction)


def segments(i: int, j: int, *, segment_ids: Sequence[int], direction: str = "causal") -> bool:
    if not 0 <= i < len(segment_ids):
        return False
    return segment_ids[i] == segment_ids[j] and (direction == "bidirectional" or j <= i)


def padding(_i: int, _j: int) -> bool:
    return True


QUESTIONS: Mapping[str, Question] = {
    "causal": causal,
    "sliding": sliding,
    "chunked": chunked,
    "prefix": prefix,
    "block": block,
    "packed": packed,
    "segments": segments,
    "padding": padding,
}


def mask(
    name: str,
    queries: int,
    keys: int,
    offset: int,
    tokens: Sequence[int] | None = None,
    **parameters: object,
) -> list[list[bool]]:
    """Every query against every key; `tokens` has 0 where a key is padding.

    >>> mask("causal", 2, 3, 1, [0, 1, 1])
    [[False, True, False], [False, True, True]]
    """
    ask, real = QUESTIONS[name], tokens or [1] * keys
    return [[bool(real[j]) and ask(row + offset, j, **parameters) for j in range(keys)] for row in range(queries)]
