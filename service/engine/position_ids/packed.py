"""Position ids of packed sequences: each begins anew."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.attending import MOST_KEYS, Integers, integers
from service.engine.errors import Refusal
from service.engine.numbers.counting import FirstPosition, PositionIds, id_rows, refuse_uncountable
from service.engine.quantities import ExactInteger
from service.engine.scheme import Array, Example, Input, Inputs, Scheme, Tensor, Tensors, Usage


class Packed(PositionIds):
    """Parameters of `positions/packed`."""

    offset: FirstPosition = 0
    padding_segment: Annotated[
        ExactInteger | None,
        Field(description="The id in `segment_ids` that marks padding, whose positions are 0 (JAX packing: 0)."),
    ] = None


def _segments(params: Packed, inputs: Inputs) -> tuple[str, Integers]:
    """What the body says, and under which name: lengths, bounds or ids."""
    name, *others = inputs
    if others:
        detail = f"{others[0]} and {name} say the same thing twice; send one of them"
        raise Refusal(f"/tensors/{others[0]}", "conflict", detail)
    if params.padding_segment is not None and name != "segment_ids":
        detail = f"padding_segment is about segment_ids; the body has {name}"
        raise Refusal("padding_segment", "conflict", detail)
    return name, integers(name, inputs, 2 if name == "segment_ids" else 1)


def _lengths(name: str, given: Integers) -> Integers:
    """The lengths that are given, or that lie between the bounds; refuses what is no packing."""
    if name == "cu_seqlens" and (given[0] != 0 or given.size < 2):
        detail = (
            f"cu_seqlens begins with {given[0]} and has {given.size} entries; it is 0, then where each segment ends"
        )
        raise Refusal(f"/tensors/{name}", "value", detail)
    lengths = given if name == "segment_lengths" else np.diff(given)
    # Before any sum: a negative length, or sums beyond int64, would hide in it.
    proper = (lengths >= 0) & (lengths <= MOST_KEYS)
    if not proper.all():
        at = int(np.argmin(proper))
        place = at if name == "segment_lengths" else at + 1
        detail = f"this makes a segment of {lengths[at]} tokens; 0 to {MOST_KEYS} will do"
        raise Refusal(f"/tensors/{name}/{place}", "out_of_range", detail, limit=MOST_KEYS)
    total = int(lengths.sum())
    if not 1 <= total <= MOST_KEYS:
        detail = f"the segments of {name} have {total} tokens together; 1 to {MOST_KEYS} will do"
        raise Refusal(f"/tensors/{name}", "out_of_range", detail, limit=MOST_KEYS, requested=total)
    return lengths


def _tensors(params: Packed, inputs: Inputs) -> Tensors:
    name, given = _segments(params, inputs)
    shape = given.shape if name == "segment_ids" else (int(_lengths(name, given).sum()),)
    refuse_uncountable(params.dtype, "offset", params.offset, shape[-1])
    return {"positions": Tensor(("batch", "token")[-len(shape) :], shape, params.dtype)}


def _prepare(params: Packed, inputs: Inputs) -> Integers:
    name, given = _segments(params, inputs)
    if name == "segment_ids":
        return given
    lengths = _lengths(name, given)
    return np.repeat(np.arange(lengths.size), lengths)


def _rows(params: Packed, _inputs: Inputs, state: Integers, _tensor: str, start: int, stop: int) -> Array:
    segments = id_rows(state, start, stop)
    positions = np.stack([_ranks(row) for row in segments]) + params.offset
    if params.padding_segment is not None:
        positions[segments == params.padding_segment] = 0
    return positions.astype(params.dtype)


def _ranks(segments: Integers) -> Integers:
    """How many tokens of its own segment stand before each token.

    >>> _ranks(np.array([4, 4, 9, 4, 9])).tolist()
    [0, 1, 0, 2, 1]
    """
    order = np.argsort(segments, kind="stable")
    places = np.arange(segments.size)
    begins = np.concatenate(([True], np.diff(segments[order]) != 0))
    ranks = np.empty_like(places)
    ranks[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return ranks


DESCRIPTION = """\
Several sequences share a row, and the position of a token is `offset` plus the number of tokens of its own sequence
before it.

The body says which token belongs to which sequence in one of three ways: `segment_lengths`; `cu_seqlens`,
FlashAttention's bounds (0, then where each sequence ends); or `segment_ids`, a number for each token, with which
batches have several rows and padding may be marked. Axes: (token), or (batch, token) where `segment_ids` has rows."""

SCHEME: Scheme[Packed, Integers] = Scheme(
    family="positions",
    name="packed",
    title="Position ids of packed sequences",
    explanation="When several texts share a row, each begins again at position 0. These are the positions for them.",
    description=DESCRIPTION,
    reference="Krell et al., Efficient Sequence Packing without Cross-contamination, 2021",
    params=Packed,
    rounding="integer",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    inputs=(
        Input("segment_lengths", "How many tokens each sequence has.", required=False),
        Input("cu_seqlens", "0, then where each sequence ends, as FlashAttention takes them.", required=False),
        Input("segment_ids", "The sequence of each token, any integers: (tokens), or (batch, tokens).", required=False),
    ),
    alternatives=True,
    examples=(
        Example("Three tokens, then two", {}, {"tensors": {"segment_lengths": [3, 2]}}),
        Example("FlashAttention's bounds", {}, {"tensors": {"cu_seqlens": [0, 3, 5]}}),
        Example(
            "Segments of a batch, the first of them padding",
            {"padding_segment": "0"},
            {"tensors": {"segment_ids": [[1, 1, 2, 2, 0], [5, 5, 5, 5, 6]]}},
        ),
    ),
    used_by=(
        Usage(
            "transformers DataCollatorWithFlattening; its FlashAttention bounds", {"offset": "0"}, preset="transformers"
        ),
    ),
    properties={"learned parameters": "none", "extrapolates": "positions grow with the longest sequence"},
)
