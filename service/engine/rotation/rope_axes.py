"""Rotary position embedding on several axes: the frequencies of every axis, the positions of rows, and their waves.

All is computed axis by axis, from one `Angles` each; `rope_sections` says which columns they go to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import log2

import numpy as np
from numpy.typing import NDArray

from service.engine.arithmetics import (
    NARROW_NOTE,
    Angles,
    Exact,
    Float32,
    Ggml,
    Mirrored,
    Narrow,
    refuse_base_of_no_model,
)
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, LARGEST_FINITE, SLOWEST_BITS
from service.engine.grids import per_axis
from service.engine.numbers.reals import Reals, angle_factor, geometric
from service.engine.numbers.single import float32_frequencies, narrow_frequencies
from service.engine.positions import Where, as_positions
from service.engine.rotation.patches import OF_GRIDS, Axis, grid_axes, numerators, patch_count, scales_of
from service.engine.rotation.rope_axes_conflicts import SHARED, refuse_conflicts
from service.engine.rotation.rope_sections import (
    Column,
    Indices,
    RopeAxes,
    on_one_axis,
    pair_axes,
    rotated,
    sections_of,
)
from service.engine.rotation.rotary import amplitude, fastest, resolved, rotary_facts, rotary_notes, single_angles
from service.engine.rotation.scaling import completed
from service.engine.rotation.scaling_exact import scaled_frequencies
from service.engine.rotation.scaling_parameters import ScalingRule
from service.engine.rotation.scaling_single import ggml_scaling
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Facts, Inputs, unused
from service.engine.waves import Waves


@dataclass(frozen=True, slots=True)
class AxisWaves:
    """What turns the columns of one axis: `columns` of the table show `picked` columns of `angles`."""

    axis: int
    angles: Angles
    count: int
    columns: Indices
    picked: Indices


def waves_of(
    params: RopeAxes, columns: Column, grid: tuple[Axis, ...] | None, factor: Decimal, dtype: str
) -> tuple[AxisWaves, ...]:
    """The waves of every axis that turns something; `factor` multiplies their cosines and sines, of that dtype."""
    turning = [axis for axis in range(len(sections_of(params))) if (columns.axis == axis).any()]
    return tuple(_signed(params, _axis_waves(params, columns, axis, grid, factor, dtype)) for axis in turning)


def amplitude_of(params: RopeAxes, direction: str = "forward") -> Decimal:
    """A; 1/A to undo it, and 1 to shift what has it."""
    return amplitude(on_one_axis(params), rotated(params), direction)


def _signed(params: RopeAxes, waves: AxisWaves) -> AxisWaves:
    return waves if params.angle_sign == "positive" else replace(waves, angles=Mirrored(waves.angles))


def _axis_waves(
    params: RopeAxes, columns: Column, axis: int, grid: tuple[Axis, ...] | None, factor: Decimal, dtype: str
) -> AxisWaves:
    at = np.flatnonzero(columns.axis == axis)
    places, picked = np.unique(columns.place[at], return_inverse=True)
    if params.arithmetic == "ggml":
        width = 2 * _pairs_of(params, axis)
        scaling = ggml_scaling(completed(on_one_axis(params), width), width)._replace(amplitude=float(factor))
        return AxisWaves(axis, Ggml(params.base, width, scaling), width // 2, at, columns.place[at])
    steps = dtype if params.arithmetic == "table-dtype" else params.arithmetic
    if steps == "float32":
        series = _float32(params, axis, float(factor))
        return AxisWaves(axis, replace(series, inv_freq=series.inv_freq[places]), len(places), at, picked)
    if steps in ("float16", "bfloat16"):
        narrow = narrow_frequencies(params.base, _pairs_of(params, axis), DTYPES[dtype])
        return AxisWaves(axis, Narrow(narrow[places]), len(places), at, picked)
    waves = Waves(_reals(params, axis, places, grid), factor)
    return AxisWaves(axis, Exact(waves), len(places), at, picked)


def _pairs_of(params: RopeAxes, axis: int) -> int:
    """How many frequencies the series of an axis has."""
    pairs = rotated(params) // 2
    if params.frequencies in SHARED:
        return pairs
    return int(np.count_nonzero(pair_axes(params, pairs) == axis))


def _float32(params: RopeAxes, axis: int, factor: float) -> Float32:
    """The whole series of an axis: scaled where the axes share it, else of the axis' own base."""
    if params.frequencies in SHARED:
        return single_angles(on_one_axis(params), rotated(params), factor)
    pairs = _pairs_of(params, axis)
    return Float32(float32_frequencies(_stretched_base(params, axis, pairs), 2 * pairs, pairs), factor)


def _stretched_base(params: RopeAxes, axis: int, pairs: int) -> float:
    """base * ntk_factor^(n/(n - 2)) for an axis of n = 2 pairs channels."""
    factor = per_axis(params.ntk_factor, len(sections_of(params)), "ntk_factor")[axis]
    if factor == 1 or pairs < 2:
        return params.base
    stretch = geometric(factor, [Fraction(pairs, pairs - 1)]) * params.base
    return float(stretch.rounded()[0])


def _reals(params: RopeAxes, axis: int, places: Indices, grid: tuple[Axis, ...] | None) -> Reals:
    """The frequencies at some places of an axis' series, in radians per numerator of a position."""
    pairs = _pairs_of(params, axis)
    at = places.tolist()
    if params.frequencies == "linear":
        last = Fraction(params.max_frequency or 1)
        frequencies = Reals.of([1 + (last - 1) * Fraction(place, max(1, pairs - 1)) for place in at])
    elif params.frequencies in SHARED and params.rope_type != "default":
        width = rotated(params)
        scaled = scaled_frequencies(completed(on_one_axis(params), width), width)
        frequencies = Reals(tuple(scaled.numbers[place] for place in at))
    else:
        frequencies = geometric(params.base, [_exponent(params, place, pairs) for place in at])
    factor = per_axis(params.ntk_factor, len(sections_of(params)), "ntk_factor")[axis]
    if factor != 1 and pairs > 1:
        frequencies = frequencies * geometric(factor, [Fraction(-place, pairs - 1) for place in at])
    return frequencies * _ratio(params, grid, axis) * angle_factor(params.angle_factor)


def _ratio(params: RopeAxes, grid: tuple[Axis, ...] | None, axis: int) -> Fraction:
    """What a numerator of a position on an axis is worth."""
    if grid is not None:
        return grid[axis].ratio
    return Fraction(1) if params.coordinates == "share" else 1 / scales_of(params, len(sections_of(params)))[axis]


def _exponent(params: RopeAxes, place: int, pairs: int) -> Fraction:
    return Fraction(place, max(1, pairs - 1)) if params.frequencies == "rising" else Fraction(-place, pairs)


def fastest_of(params: RopeAxes, grid: tuple[Axis, ...] | None) -> float:
    """A bound of the frequencies of all axes; refuses what cannot be computed, and arithmetics without a meaning."""
    refuse_base_of_no_model(params.base, params.arithmetic)
    refuse_conflicts(params)
    axes = len(sections_of(params))
    factors = per_axis(params.ntk_factor, axes, "ntk_factor")
    stretch = 2 * max(abs(log2(factor)) for factor in factors)
    more = [log2(_ratio(params, grid, axis)) for axis in range(axes)]
    ends = _ends(params)
    slowest, quickest = min(ends) + min(more) - stretch, max(ends) + max(more) + stretch + 3
    if slowest < SLOWEST_BITS or quickest > FASTEST_BITS:
        detail = (
            f"the frequencies reach from about 2^{slowest:.0f} to 2^{quickest:.0f} radians per position; "
            f"2^{SLOWEST_BITS} to 2^{FASTEST_BITS} will do"
        )
        raise Refusal("base", "out_of_range", detail)
    return float(2.0**quickest)


def _ends(params: RopeAxes) -> tuple[float, float]:
    """The logarithms between which those of the frequencies lie; refuses scalings without a meaning."""
    if params.frequencies == "linear":
        return 0.0, log2(params.max_frequency or 1)
    steepest = log2(params.base) * (1 if params.frequencies == "rising" else -1)
    scaled = fastest(on_one_axis(params), rotated(params)) if params.frequencies in SHARED else 1.0
    return min(0.0, steepest), max(0.0, steepest, log2(max(1.0, scaled)))


def refuse_format(params: RopeAxes, inputs: Inputs, dtype: str) -> None:
    """Refuse bases and positions that the steps of arithmetic=table-dtype cannot hold."""
    if params.arithmetic != "table-dtype":
        return
    most = LARGEST_FINITE[dtype]
    if params.base > most:
        detail = f"base is {params.base:g}; arithmetic=table-dtype has it in {dtype}: {most:g} is the largest"
        raise Refusal("base", "out_of_range", detail, limit=most)
    farthest = placed(params, inputs).where.farthest if "positions" in inputs else max(params.grid or (0,))
    if farthest + abs(params.offset) > most:
        detail = (
            f"positions reach {farthest + abs(params.offset):g}; {dtype}, in which arithmetic=table-dtype has them, "
        )
        raise Refusal("arithmetic", "out_of_range", f"{detail}ends at {most:g}", limit=most)


def facts_of(params: RopeAxes) -> Facts:
    """What follows from the scaling."""
    return rotary_facts(on_one_axis(params), params.dim)


def filled_in(params: RopeAxes) -> dict[str, object]:
    """The parameters that follow from others: the width that turns, and all that the scaling assumes."""
    whole = resolved(on_one_axis(params), params.dim)
    return {name: getattr(whole, name) for name in ScalingRule.model_fields}


def notes_of(params: RopeAxes, inputs: Inputs) -> list[str]:
    """What deserves saying of a scaling and an arithmetic, of what has no effect, and of what is no rotation."""
    notes = rotary_notes(on_one_axis(params)) + ([NARROW_NOTE] if params.arithmetic == "table-dtype" else [])
    if "positions" in inputs:
        shares = ("interpolation_scale",) if params.coordinates == "share" else ()
        notes = notes + unused(params, (*OF_GRIDS, *shares), "positions in the body")
    if params.section_rule == "doubled":
        notes = [*notes, "section_rule=doubled is no rotation where positions differ: the members of a pair turn apart"]
    return notes


# Positions


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the rows are: on a grid, or at positions of the caller's, (..., axes) in C order."""

    where: Where
    grid: tuple[Axis, ...] | None


def placed(params: RopeAxes, inputs: Inputs) -> Placed:
    """The positions that a request means; refuses none, both ways at once, and another number of axes."""
    axes = len(sections_of(params))
    if "positions" in inputs:
        if params.grid is not None:
            raise Refusal("grid", "conflict", "grid and positions exclude each other; positions say everything")
        values = as_positions(inputs["positions"], "/positions")
        if values.ndim < 2 or values.shape[-1] != axes:
            detail = f"positions have the shape {values.shape}; (…, {axes}) is needed, a position for each axis"
            raise Refusal("/positions", "shape", detail, limit=axes, requested=values.shape[-1])
        return Placed(Where(values.shape[:-1], values.reshape(-1)), None)
    if params.grid is None:
        raise Refusal("grid", "missing", "grid is missing: give grid=, or positions in the body of a POST")
    if len(params.grid) != axes:
        detail = f"grid has {len(params.grid)} axes and sections has {axes}; they must be equal"
        raise Refusal("grid", "shape", detail, limit=axes, requested=len(params.grid))
    count = patch_count(params, params.grid)
    return Placed(Where((count,), range(count)), grid_axes(params, params.grid))


def positions_along(params: RopeAxes, inputs: Inputs, axis: int, start: int, stop: int) -> NDArray[np.float64]:
    """The numerators of the positions on one axis of rows `start` to `stop`."""
    if "positions" in inputs:
        rows = inputs["positions"].reshape(-1, len(sections_of(params)))[start:stop, axis]
        return np.asarray(rows.astype(np.float64)) + 0.0
    assert params.grid is not None  # `placed` has refused its absence
    return numerators(params, params.grid, axis, start, stop).astype(np.float64)


def write_axis(waves: AxisWaves, at: NDArray[np.float64], outs: Mapping[str, Array]) -> None:
    """The columns of one axis of cos and sin, or of angles, into `outs`: every position once, then copied to its
    rows."""
    positions, places = np.unique(at, return_inverse=True)
    tables = {name: np.empty((len(positions), waves.count), out.dtype) for name, out in outs.items()}
    if "angles" in tables:
        waves.angles.angles(positions, tables["angles"])
    else:
        waves.angles.write(positions, tables.get("cos"), tables.get("sin"))
    for name, out in outs.items():
        out[:, waves.columns] = tables[name][np.ix_(places.reshape(-1), waves.picked)]
