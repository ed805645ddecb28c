"""Sandwich's bias, for tables and for sums: inner products of sinusoidal encodings, steeper for the first heads."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.relative import Sizes, write_by_distance
from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, fastest_frequency, refuse_overflow
from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import geometric
from service.engine.quantities import Base, Integer
from service.engine.rounding import nearest
from service.engine.scheme import Array, Facts, Inputs, Params, Usage
from service.engine.waves import Waves

MOST_SINES = 1 << 26  # distances times frequencies: some two seconds of work
TOGETHER = 1 << 18


class InnerProducts(Params):
    """Parameters of the bias, apart from its sizes."""

    dim: Annotated[
        Integer, Field(ge=2, le=65_536, description="Width of the encodings multiplied (even): 128 as published.")
    ] = 128
    base: Base = 10_000.0
    first_index: Annotated[
        Integer,
        Field(ge=0, le=1, description="The first i in the frequencies base^(-2i/dim): 1 as published, 0 as encodings."),
    ] = 1


def _exponents(params: InnerProducts) -> list[Fraction]:
    return [Fraction(-2 * (params.first_index + k), params.dim) for k in range(params.dim // 2)]


def _nearest(size: Sizes) -> int:
    """The smallest distance of a matrix, either way."""
    return max(size.nearest, -size.farthest, 0)


def _check(params: InnerProducts, _inputs: Inputs, place: Place) -> None:
    if params.dim % 2:
        raise Refusal(
            "dim", "odd", f"dim is {params.dim}; frequencies come in pairs of channels, such as {params.dim + 1}"
        )
    frequencies = params.dim // 2
    fastest_frequency(params.base, 2 * (params.first_index + frequencies - 1) / params.dim, "base")
    distances = place.size.largest_distance - _nearest(place.size) + 1
    if distances * frequencies > MOST_SINES:
        raise Refusal(
            "dim",
            "out_of_range",
            f"{distances} distances of {params.dim} channels take {distances * frequencies} sines; {MOST_SINES} are "
            "computed at most: ask for fewer keys, or a smaller dim",
            limit=MOST_SINES,
            requested=distances * frequencies,
        )
    refuse_overflow(place.heads * frequencies / 4, place.dtype, "the bias")


def _prepare(params: InnerProducts, _inputs: Inputs, place: Place) -> Write:
    """The sum of sin^2(D w / 2) over the frequencies, for every distance D from the smallest to the largest.

    cos(x) - 1 = -2 sin^2(x / 2): so nothing cancels near distance 0.
    """
    waves = Waves(geometric(params.base, _exponents(params)) / 2)
    least = _nearest(place.size)
    distances = range(least, place.size.largest_distance + 1)
    sums = np.concatenate([_sums(waves, some) for some in _runs(distances, max(1, TOGETHER // waves.count))])
    heads = np.arange(1.0, place.heads + 1)[:, None]

    def write(start: int, out: Array) -> None:
        def lines(some: slice, distances: Array) -> Array:
            line = sums[np.abs(distances) - least]
            return nearest(line * place.heads / (-4 * heads[some]) + 0.0, out.dtype)

        write_by_distance(lines, place.heads, place.size, start, out)

    return write


def _runs(distances: range, most: int) -> Iterator[range]:
    return (distances[start : start + most] for start in range(0, len(distances), most))


def _sums(waves: Waves, distances: range) -> Floats:
    """Added up frequency by frequency, always in that order: numpy's own sums need not be."""
    sines = np.empty((len(distances), waves.count))
    waves.write(distances, sines, None)
    total = np.zeros(len(distances))
    for sine in (sines * sines).T:
        total += sine
    return total


def _facts(params: InnerProducts, _inputs: Inputs) -> Facts:
    return {"frequencies": params.dim // 2}


def _state_bytes(_params: InnerProducts, _inputs: Inputs, place: Place) -> int:
    return 8 * (place.size.queries + place.size.keys) + WAVE_BYTES


BIAS: Bias[InnerProducts] = Bias(check=_check, prepare=_prepare, facts=_facts, state_bytes=_state_bytes)

USED_BY = (
    Usage("Sandwich in NeMo", {}, "nemo"),
    Usage("Inner products of the encodings as encodings/sinusoidal gives them", {"first_index": "0"}),
)
