"""What every sinusoidal scheme shares: the five choices that decide a table, and the writing of its rows."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import FLOAT32_NOTE, Angles, Exact, Float32, refuse_base_of_no_model
from service.engine.errors import Refusal
from service.engine.frequencies import fastest_frequency
from service.engine.positions import Values
from service.engine.quantities import Base, Integer, Layout, OddWidth, Real
from service.engine.reals import Reals, geometric
from service.engine.scheme import Array, Params
from service.engine.single import float32_frequencies
from service.engine.waves import Waves


class SinusoidalTable(Params):
    """What decides a sinusoidal table, apart from its width."""

    base: Base = 10_000.0
    layout: Layout = "interleaved"
    odd_width: OddWidth = "extra-sine"
    frequency_shift: Annotated[
        Real,
        Field(
            ge=0,
            le=32_768,
            description="w_k = base^(-k / (dim/2 - frequency_shift)): 0 as published, 1 as fairseq.",
        ),
    ] = 0.0
    arithmetic: Annotated[
        Literal["exact", "float32"],
        Field(
            description="`exact`: the real-number formula, rounded once; `float32`: step by step as PyTorch model code."
        ),
    ] = "exact"
    frequency_form: Annotated[
        Literal["exp-log", "power"],
        Field(
            description="How `arithmetic=float32` has its frequencies: `exp-log` exp(k * -ln(base) / half), the usual "
            "PyTorch module, fairseq and Whisper; `power` 1 / base^(k / half), as RoPE code."
        ),
    ] = "exp-log"
    padding_idx: Annotated[
        Integer | None,
        Field(ge=0, le=2**53, description="The row at this position is all zeros (fairseq's padding row)."),
    ] = None


@dataclass(frozen=True, slots=True)
class Channels:
    """Where the sines and cosines of a row go: slices of its channels, and how many of each there are."""

    sines: slice
    cosines: slice
    sine_count: int
    cosine_count: int


def channels(dim: int, layout: str, odd_width: str) -> Channels:
    """The channel order. With `extra-sine` an odd width has one cosine fewer; with `zero-column` its last channel
    belongs to neither.

    >>> channels(5, "sin-cos", "extra-sine")
    Channels(sines=slice(0, 3, 1), cosines=slice(3, 5, 1), sine_count=3, cosine_count=2)
    """
    cosines = dim // 2
    sines = dim - cosines if odd_width == "extra-sine" else cosines
    if layout == "interleaved":
        return Channels(slice(0, 2 * sines, 2), slice(1, 2 * cosines, 2), sines, cosines)
    if layout == "sin-cos":
        return Channels(slice(0, sines, 1), slice(sines, sines + cosines, 1), sines, cosines)
    return Channels(slice(cosines, cosines + sines, 1), slice(0, cosines, 1), sines, cosines)


def spread(params: SinusoidalTable, dim: int) -> Fraction:
    """The denominator of the exponents, half - frequency_shift; refuses where the formula has no meaning.

    >>> spread(SinusoidalTable(frequency_shift=1), 8)
    Fraction(3, 1)
    """
    if dim % 2 and params.odd_width == "refuse":
        raise Refusal("dim", "odd", f"dim is {dim}; odd_width=refuse takes even widths, such as {dim + 1}")
    half = Fraction(dim, 2) if params.odd_width == "extra-sine" else Fraction(dim // 2)
    if half < Fraction(1, 2):
        raise Refusal("dim", "out_of_range", "dim is 1; odd_width=zero-column leaves it no channel: 2 or more would do")
    if params.frequency_shift and half <= Fraction(params.frequency_shift):
        raise Refusal(
            "frequency_shift",
            "out_of_range",
            f"frequency_shift is {params.frequency_shift:g}; for this dim it must be below {float(half):g}",
            limit=float(half),
        )
    return half - Fraction(params.frequency_shift)


def fastest(params: SinusoidalTable, dim: int) -> float:
    """About the largest frequency; refuses widths and series that cannot be computed."""
    refuse_base_of_no_model(params.base, params.arithmetic)
    if params.arithmetic == "exact" and params.frequency_form != "exp-log":
        detail = f"frequency_form={params.frequency_form} says how float32 arithmetic rounds: add arithmetic=float32"
        raise Refusal("frequency_form", "conflict", detail)
    steepest = float((channels(dim, params.layout, params.odd_width).sine_count - 1) / spread(params, dim))
    return fastest_frequency(params.base, steepest, "frequency_shift" if steepest > 1 else "base")


def frequencies(params: SinusoidalTable, dim: int) -> Reals:
    """w_k = base^(-k / (half - frequency_shift)), half = dim/2, or floor(dim/2) with `zero-column`.

    >>> frequencies(SinusoidalTable(), 8).rounded().round(12).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    count = channels(dim, params.layout, params.odd_width).sine_count
    denominator = spread(params, dim)
    return geometric(params.base, [-k / denominator for k in range(count)])


def table_angles(params: SinusoidalTable, dim: int) -> Angles:
    """The angles of a table of that width in the arithmetic asked for."""
    if params.arithmetic == "exact":
        return Exact(Waves(frequencies(params, dim)))
    count = channels(dim, params.layout, params.odd_width).sine_count
    return Float32(float32_frequencies(params.base, float(2 * spread(params, dim)), count, form=params.frequency_form))


def arithmetic_note(params: SinusoidalTable) -> list[str]:
    """What deserves saying about an arithmetic that is not exact."""
    return [FLOAT32_NOTE] if params.arithmetic == "float32" else []


def write_table(params: SinusoidalTable, angles: Angles, at: Values, out: Array) -> None:
    """The rows of the table at those positions into `out` (rows, dim)."""
    order = channels(out.shape[1], params.layout, params.odd_width)
    sines = out[:, order.sines]
    if order.sine_count == order.cosine_count:
        angles.write(at, out[:, order.cosines], sines)
    else:
        cosines = np.empty_like(sines)
        angles.write(at, cosines, sines)
        out[:, order.cosines] = cosines[:, : order.cosine_count]
    out[:, order.sine_count + order.cosine_count :] = 0
    _zero_padding_row(params, at, out)


def _zero_padding_row(params: SinusoidalTable, at: Values, out: Array) -> None:
    if params.padding_idx is None:
        return
    if isinstance(at, range):
        if params.padding_idx in at:
            out[params.padding_idx - at.start] = 0
    else:
        out[at == params.padding_idx] = 0
