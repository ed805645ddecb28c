"""Sandwich's bias, for tables and for sums: inner products of sinusoidal encodings, steeper for the first heads."""

from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.biased import Bias, Place, Write
from service.engine.attention.relative import Sizes, write_by_distance
from service.engine.errors import Refusal
from service.engine.frequencies import WAVE_BYTES, fastest_frequency, refuse_overflow
from service.engine.numbers.pairs import Floats, Pair, add, divide, multiply
from service.engine.numbers.reals import Reals, geometric
from service.engine.numbers.sines import Angles
from service.engine.quantities import Base, Integer
from service.engine.rounding import nearest
from service.engine.scheme import Array, Facts, Inputs, Params, Usage
from service.engine.waves import Waves

# Distances times frequencies: some three seconds of work. Sines in double-double take ten times as long.
MOST_SINES, MOST_PAIRS = 1 << 26, 1 << 22
TOGETHER, DISTANCES, FEWER = 128, 2048, 256  # frequencies and distances whose sines are held at once


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
    most = MOST_PAIRS if place.dtype == "float64" else MOST_SINES
    if distances * frequencies > most:
        raise Refusal(
            "dim",
            "out_of_range",
            f"{distances} distances of {params.dim} channels take {distances * frequencies} sines; {most} are "
            f"computed at most in {place.dtype}: ask for fewer keys, or a smaller dim",
            limit=most,
            requested=distances * frequencies,
        )
    refuse_overflow(place.heads * frequencies / 4, place.dtype, "the bias")


def _prepare(params: InnerProducts, _inputs: Inputs, place: Place) -> Write:
    """The sum of sin^2(D w / 2) over the frequencies, for every distance D from the smallest to the largest.

    cos(x) - 1 = -2 sin^2(x / 2): so nothing cancels near distance 0.
    """
    least = _nearest(place.size)
    distances = range(least, place.size.largest_distance + 1)
    halves = geometric(params.base, _exponents(params)) / 2
    sums = _sums_of_pairs(halves, distances) if place.dtype == "float64" else _sums(halves, distances)
    heads = np.arange(1.0, place.heads + 1)[:, None]

    def write(start: int, out: Array) -> None:
        def lines(some: slice, distances: Array) -> Array:
            line = sums.at(np.abs(distances) - least)
            if out.dtype != np.float64:
                return nearest(line.high * place.heads / (-4 * heads[some]) + 0.0, out.dtype)
            value = divide(multiply(line, _alone(np.array(float(place.heads)))), _alone(-4 * heads[some]))
            return value.high + value.low + 0.0

        write_by_distance(lines, place.heads, place.size, start, out)

    return write


def _alone(number: Floats) -> Pair:
    return Pair(number, np.zeros_like(number))


def _sums_of_pairs(halves: Reals, distances: range) -> Pair:
    """The sums in double-double, as float64 needs them."""
    total = _alone(np.zeros(len(distances)))
    for first in range(0, len(halves), TOGETHER):
        angles = Angles(halves[first : first + TOGETHER])
        for start in range(0, len(distances), FEWER):
            some = slice(start, start + FEWER)
            sine, _ = angles.at(np.array(distances[some], np.float64)[:, None], slice(None))
            part, squares = total.at(some), multiply(sine, sine)
            for channel in range(squares.high.shape[1]):
                part = add(part, squares.at(np.s_[:, channel]))
            total.high[some], total.low[some] = part
    return total


def _sums(halves: Reals, distances: range) -> Pair:
    """Added up frequency by frequency, always in that order: numpy's own sums need not be.

    Few frequencies and many distances at a time: that is what `Waves` is quick at, and no others are held.
    """
    total = _alone(np.zeros(len(distances)))
    for first in range(0, len(halves), TOGETHER):
        waves = Waves(halves[first : first + TOGETHER])
        for start in range(0, len(distances), DISTANCES):
            some = slice(start, start + DISTANCES)
            sines = np.empty((len(distances[some]), waves.count))
            waves.write(distances[some], sines, None)
            for sine in (sines * sines).T:
                total.high[some] += sine
    return total


def _facts(params: InnerProducts, _inputs: Inputs) -> Facts:
    return {"frequencies": params.dim // 2}


def _state_bytes(_params: InnerProducts, _inputs: Inputs, place: Place) -> int:
    return 16 * (place.size.queries + place.size.keys) + WAVE_BYTES


BIAS: Bias[InnerProducts] = Bias(check=_check, prepare=_prepare, facts=_facts, state_bytes=_state_bytes)

USED_BY = (
    Usage("Sandwich in NeMo", {}, "nemo"),
    Usage("Inner products of the encodings as encodings/sinusoidal gives them", {"first_index": "0"}),
)
