"""What every sinusoidal scheme shares: the five choices that decide a table, and the writing of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import log2
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import Angles, Exact, Float32, refuse_base_of_no_model
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, SLOWEST_BITS, fastest_frequency
from service.engine.numbers.reals import MANY_DIGITS, Reals, angle_factor, powers
from service.engine.numbers.single import Singles, float32_frequencies, float32_frequencies_between
from service.engine.positions import Values
from service.engine.quantities import AngleFactor, Base, ExactOrFloat32, FrequencyShift, Integer, Layout, OddWidth, Real
from service.engine.scheme import Array, Params
from service.engine.waves import Waves

Timescale = Annotated[
    Real,
    Field(
        ge=1e-15,
        le=1e15,
        description="With max_timescale: w_k = min (max / min)^(-k / (n - 1)), n the number of sines (tensor2tensor). "
        "1 and P are base=P with frequency_shift=1.",
    ),
]
Frequency = Annotated[
    Real,
    Field(
        ge=1e-15,
        le=1e15,
        description="With max_frequency: w_k = max (min / max)^(k / (n - 1)), n the number of sines, as MLX.",
    ),
]


class SinusoidalTable(Params):
    """What decides a sinusoidal table, apart from its width."""

    base: Base = 10_000.0
    layout: Layout = "interleaved"
    odd_width: OddWidth = "extra-sine"
    frequency_shift: Annotated[
        FrequencyShift,
        Field(description="w_k = base^(-k / (dim/2 - frequency_shift)): 0 as published, 1 as fairseq."),
    ] = 0.0
    min_timescale: Timescale | None = None
    max_timescale: Annotated[
        Real | None, Field(ge=1e-15, le=1e15, description="See min_timescale: the last wavelength, in units of 2 pi.")
    ] = None
    min_frequency: Frequency | None = None
    max_frequency: Annotated[
        Real | None, Field(ge=1e-15, le=1e15, description="See min_frequency: the frequency of the first sine.")
    ] = None
    angle_factor: AngleFactor = "one"
    encoding_scale: Annotated[
        Literal["none", "inverse-sqrt-dim", "sqrt-2-over-dim"],
        Field(
            description="What sines and cosines are multiplied by: `none` 1, `inverse-sqrt-dim` 1 / sqrt(dim), "
            "`sqrt-2-over-dim` sqrt(2 / dim), with which every row has norm 1."
        ),
    ] = "none"
    amplitude: Annotated[
        Real, Field(ge=1e-3, le=1e4, description="Multiplies sines and cosines too: a number that a model has trained.")
    ] = 1.0
    arithmetic: ExactOrFloat32 = "exact"
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

    @property
    def pairs(self) -> int:
        """How many frequencies there are."""
        return max(self.sine_count, self.cosine_count)


def channels(dim: int, layout: str, odd_width: str) -> Channels:
    """The channel order. With `extra-sine` an odd width has one cosine fewer; with `truncate` the last channel's wave
    is missing, be it a cosine or a sine; with `zero-column` its last channel belongs to neither.

    >>> channels(5, "sin-cos", "extra-sine")
    Channels(sines=slice(0, 3, 1), cosines=slice(3, 5, 1), sine_count=3, cosine_count=2)
    """
    cosines = sines = dim // 2
    if odd_width == "truncate" and layout == "cos-sin":
        cosines = dim - sines
    elif odd_width in ("extra-sine", "truncate"):
        sines = dim - cosines
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
    widths = {"extra-sine": dim, "truncate": dim + dim % 2}
    half = Fraction(widths.get(params.odd_width, dim - dim % 2), 2)
    if half < Fraction(1, 2):
        raise Refusal("dim", "out_of_range", "dim is 1; odd_width=zero-column leaves it no channel: 2 or more would do")
    if params.frequency_shift and half <= Fraction(params.frequency_shift):
        raise Refusal(
            "frequency_shift",
            "out_of_range",
            f"frequency_shift is {params.frequency_shift:g}, and dim {dim}: it must be below {float(half):g}, or dim "
            f"{2 * int(params.frequency_shift) + 2} or more",
            limit=float(half),
        )
    return half - Fraction(params.frequency_shift)


@dataclass(frozen=True, slots=True)
class Series:
    """Frequencies first * (numerator / denominator)^(-k / gaps), k = 0 ... count - 1; `named` says whose they are."""

    first: float
    numerator: float
    denominator: float
    gaps: Fraction
    count: int
    named: str

    @property
    def steepest(self) -> float:
        """The exponent of the last."""
        return float((self.count - 1) / self.gaps)

    @property
    def bits(self) -> tuple[float, float]:
        """The logarithms to base 2 of the first and the last, about."""
        first = log2(self.first)
        return first, first - self.steepest * (log2(self.numerator) - log2(self.denominator))


def series(params: SinusoidalTable, dim: int) -> Series:
    """The frequencies by their rule: from a base, between two timescales, or between two frequencies.

    >>> series(SinusoidalTable(min_timescale=1, max_timescale=10_000), 8)
    Series(first=1.0, numerator=10000.0, denominator=1.0, gaps=Fraction(3, 1), count=4, named='max_timescale')
    """
    count = channels(dim, params.layout, params.odd_width).pairs
    denominator = spread(params, dim)
    ends = _ends(params)
    if ends is None:
        return Series(1.0, params.base, 1.0, denominator, count, "base")
    name, low, high = ends
    first = low if name == "max_timescale" else high
    return Series(first, high, low, Fraction(max(count - 1, 1)), count, name)


def _ends(params: SinusoidalTable) -> tuple[str, float, float] | None:
    """The two numbers that frequencies lie between; refuses one alone, and two rules at once."""
    given = {name: getattr(params, name) for pair in _PAIRS for name in pair if getattr(params, name) is not None}
    if not given:
        return None
    first = next(iter(given))
    low, high = next(pair for pair in _PAIRS if first in pair)
    for name in (low, high):
        if name not in given:
            raise Refusal(
                name, "missing", f"{name} is missing: {first} is given, and the frequencies lie between the two"
            )
    others: Mapping[str, object] = {"base": 10_000.0, "frequency_shift": 0.0}
    for name in (*(name for name in given if name not in (low, high)), *others):
        if name in given or getattr(params, name) != others[name]:
            raise Refusal(name, "conflict", f"{name} and {high} exclude each other: each is a rule for all frequencies")
    return high, given[low], given[high]


_PAIRS = (("min_timescale", "max_timescale"), ("min_frequency", "max_frequency"))


def fastest(params: SinusoidalTable, dim: int) -> float:
    """About the largest frequency; refuses widths and series that cannot be computed."""
    refuse_base_of_no_model(params.base, params.arithmetic)
    if params.arithmetic == "exact" and params.frequency_form != "exp-log":
        detail = f"frequency_form={params.frequency_form} says how float32 arithmetic rounds: add arithmetic=float32"
        raise Refusal("frequency_form", "conflict", detail)
    chosen = series(params, dim)
    if chosen.named == "max_frequency" and params.frequency_form != "exp-log":
        detail = (
            "frequency_form=power is a step of base and timescales; between frequencies MLX's exponentials are taken"
        )
        raise Refusal("frequency_form", "conflict", detail)
    if chosen.named == "base":
        named = "frequency_shift" if chosen.steepest > 1 else "base"
        fast, factor = fastest_frequency(params.base, chosen.steepest, named), float(angle_factor(params.angle_factor))
        if fast * factor > 2.0**FASTEST_BITS:
            _refuse_bits("angle_factor", log2(fast * factor))
        return fast * factor
    if params.arithmetic == "float32" and chosen.numerator < chosen.denominator:
        detail = f"{chosen.named} is {chosen.numerator:g}, less than its minimum; arithmetic=float32 follows model code"
        raise Refusal(chosen.named, "out_of_range", detail, limit=chosen.denominator)
    return _fastest_between(chosen, float(angle_factor(params.angle_factor)))


def _fastest_between(chosen: Series, factor: float) -> float:
    ends = [bits + log2(factor) for bits in chosen.bits]
    for bits in ends:
        if not SLOWEST_BITS <= bits <= FASTEST_BITS:
            _refuse_bits(chosen.named, bits)
    return float(2.0 ** max(ends))


def refuse_slow(params: SinusoidalTable, dim: int, divisor: int) -> None:
    """Refuse positions that are divided until the slowest frequency is too slow to be computed with."""
    bits = min(series(params, dim).bits) - log2(divisor)
    if bits < SLOWEST_BITS:
        _refuse_bits("normalisation", bits)


def _refuse_bits(named: str, bits: float) -> None:
    raise Refusal(
        named,
        "out_of_range",
        f"{named} makes frequencies of about 2^{bits:.0f} radians per position; 2^{SLOWEST_BITS} to 2^{FASTEST_BITS} "
        "will do",
    )


def amplitude(params: SinusoidalTable, dim: int) -> Decimal:
    """What the sines and cosines are multiplied by.

    >>> amplitude(SinusoidalTable(encoding_scale="sqrt-2-over-dim"), 8)
    Decimal('0.5')
    """
    squares = {"none": Fraction(1), "inverse-sqrt-dim": Fraction(1, dim), "sqrt-2-over-dim": Fraction(2, dim)}
    square = squares[params.encoding_scale]
    with localcontext(MANY_DIGITS):
        return (Decimal(square.numerator) / square.denominator).sqrt() * Decimal(params.amplitude)


def frequencies(params: SinusoidalTable, dim: int) -> Reals:
    """w_k = base^(-k / (half - frequency_shift)), or another series.

    half is dim/2, rounded down with `zero-column` and up with `truncate`.

    >>> frequencies(SinusoidalTable(), 8).rounded().round(12).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    chosen = series(params, dim)
    step = 1 / chosen.gaps
    found = powers(chosen.numerator, -step, chosen.count)
    if chosen.named != "base":
        rises = powers(chosen.denominator, step, chosen.count)
        found = found * rises * chosen.first
    return found if params.angle_factor == "one" else found * angle_factor(params.angle_factor)


def table_angles(params: SinusoidalTable, dim: int, divisor: int = 1) -> Angles:
    """The angles of a table of that width in the arithmetic asked for; positions are divided by `divisor` first."""
    scale = amplitude(params, dim)
    if params.arithmetic == "exact":
        found = frequencies(params, dim)
        return Exact(Waves(found if divisor == 1 else found / divisor, scale))
    return Float32(_float32_frequencies(params, dim) * np.float32(angle_factor(params.angle_factor)), float(scale))


def _float32_frequencies(params: SinusoidalTable, dim: int) -> Singles:
    chosen = series(params, dim)
    if chosen.named == "max_frequency":
        return float32_frequencies_between(chosen.denominator, chosen.numerator, chosen.count)
    ratio, width = chosen.numerator / chosen.denominator, float(2 * chosen.gaps)
    steps = float32_frequencies(ratio, width, chosen.count, form=params.frequency_form)
    return np.float32(chosen.first) * steps


def write_table(params: SinusoidalTable, angles: Angles, at: Values, out: Array) -> None:
    """The rows of the table at those positions into `out` (rows, dim)."""
    order = channels(out.shape[1], params.layout, params.odd_width)
    if order.sine_count == order.cosine_count:
        angles.write(at, out[:, order.cosines], out[:, order.sines])
    else:
        cosines, sines = np.empty((2, len(out), order.pairs), out.dtype)
        angles.write(at, cosines, sines)
        out[:, order.sines] = sines[:, : order.sine_count]
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
