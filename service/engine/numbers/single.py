"""Float32 arithmetic step by step: PyTorch model code's (`arithmetic=float32`) and llama.cpp's (`ggml`).

Here rounding on the way is the point. Each step is a real operation rounded once to float32, so the steps
have the same bits on every processor, where PyTorch's own `pow` differs by up to 2 ulp between them.
"""

from decimal import Decimal, localcontext
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import MANY_DIGITS, Reals, real
from service.engine.rounding import nearest
from service.engine.waves import FARTHEST, Waves, values

Singles = NDArray[np.float32]

# numpy keeps its float64 sine and cosine within 4 ulp, for results up to 1 that is 2^-51; a test measures less.
GUESS_ERROR = 2.0**-49


def float32_frequencies(base: float, dim: float, count: int, *, form: Literal["power", "exp-log"] = "power") -> Singles:
    """Inverse frequencies base ** (-2k / dim), k = 0 .. count - 1, in float32 steps.

    form="power", as RoPE code has it: exponent = f32(2k) / f32(dim); power = f32(base) ** exponent; 1 / power.
    form="exp-log", as the usual sinusoidal module has it: exp(f32(2k) * f32(-ln(base) / dim)).
    """
    if form == "power":
        return np.float32(1.0) / float32_periods(base, dim, count)
    with localcontext(MANY_DIGITS):
        slope = -float(real(base).ln()) / dim
    return _exponentials(Decimal(1), np.arange(0, 2 * count, 2, dtype=np.float32) * np.float32(slope))


def float32_periods(base: float, dim: float, count: int) -> Singles:
    """base ** (2k / dim), k = 0 .. count - 1, in float32 steps: PyTorch takes the base as float32 as well."""
    exponents = np.arange(0, 2 * count, 2, dtype=np.float32) / np.float32(dim)
    return _powers(float(np.float32(base)), exponents)


def narrow_frequencies(base: float, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """base ** (-k / count), k = 0 .. count - 1, in steps that are each rounded to a number format of 16 bits.

    PyTorch takes every step of such numbers in float32 and rounds it: the power twice, for quotients that is once.

    >>> narrow_frequencies(10_000.0, 4, np.dtype(np.float16)).tolist()
    [1.0, 0.0999755859375, 0.01000213623046875, 0.0010004043579101562]
    """
    pairs = nearest(np.arange(count, dtype=np.float64), dtype).astype(np.float64)
    exponents = nearest(pairs / count, dtype).astype(np.float32)
    powers = _powers(float(nearest(np.array([base]), dtype)[0]), exponents)
    return nearest(1 / nearest(powers.astype(np.float64), dtype).astype(np.float64), dtype)


def float32_powers(numbers: Singles, exponent: float) -> Singles:
    """Each number to a float32 exponent, rounded once to float32."""
    with localcontext(MANY_DIGITS):
        power = real(float(np.float32(exponent)))
        exact = Reals(tuple(real(number) ** power for number in numbers.tolist()))
    return values(exact, np.float32)


def float32_exponentials(numbers: Singles) -> Singles:
    """e to each number, rounded once to float32."""
    return _exponentials(Decimal(1), numbers)


def float32_frequencies_between(low: float, high: float, count: int) -> Singles:
    """exp(f32(1 - k / (count - 1)) * f32(ln(high) - ln(low)) + f32(ln(low))) in float32 steps, as MLX has it."""
    gaps = np.float32(max(count - 1, 1))
    shares = np.float32(1) - np.arange(count, dtype=np.float32) / gaps
    with localcontext(MANY_DIGITS):
        least, most = float(real(low).ln()), float(real(high).ln())
    return _exponentials(Decimal(1), shares * np.float32(most - least) + np.float32(least))


def divided_float32_frequencies(base: float, divisor: float, count: int) -> Singles:
    """exp(f32(f32(-ln(base)) * f32(k)) / f32(divisor)), k = 0 .. count - 1: how diffusers has its timesteps."""
    with localcontext(MANY_DIGITS):
        slope = -float(real(base).ln())
    exponents = np.arange(count, dtype=np.float32) * np.float32(slope) / np.float32(divisor)
    return _exponentials(Decimal(1), exponents)


def _powers(base: float, exponents: Singles) -> Singles:
    """base ** exponent, each rounded once to float32."""
    with localcontext(MANY_DIGITS):
        return _exponentials(real(base).ln(), exponents)


def _exponentials(scale: Decimal, factors: Singles) -> Singles:
    """exp(scale * factor), each rounded once to float32."""
    with localcontext(MANY_DIGITS):
        exact = Reals(tuple((scale * real(factor)).exp() for factor in factors.tolist()))
    return values(exact, np.float32)


class GgmlScaling(NamedTuple):
    """How llama.cpp scales an angle: over `divisors`, times `scale` but for the share `kept`; and `amplitude`."""

    divisors: Singles | None = None
    scale: float = 1.0
    kept: Singles | None = None
    amplitude: float = 1.0


UNSCALED = GgmlScaling()


def ggml_angles(base: float, dim: int, positions: Floats, scaling: GgmlScaling = UNSCALED) -> Singles:
    """Angles (n, dim / 2) as llama.cpp has them: the position, then times the same float32 ratio each time.

    ratio = f32(f32(base) ** (f32(-2) / f32(dim))), the power rounded once where llama.cpp has C's powf.
    """
    exponent = np.array([-2.0], np.float32) / np.float32(dim)
    ratio = _powers(float(np.float32(base)), exponent)[0]
    angles = np.empty((len(positions), dim // 2), np.float32)
    angle = nearest(positions, np.float32)
    for k in range(dim // 2):
        angles[:, k] = angle
        angle = angle * ratio
    return _ggml_scaled(angles, scaling)


def _ggml_scaled(angles: Singles, scaling: GgmlScaling) -> Singles:
    if scaling.divisors is not None:
        angles /= scaling.divisors
    if scaling.scale == 1:
        return angles
    scaled = np.float32(scaling.scale) * angles
    if scaling.kept is None:
        return scaled
    blended: Singles = scaled * (np.float32(1) - scaling.kept) + angles * scaling.kept
    return blended


def write_float32(angles: Singles, sin: NDArray[Any] | None, cos: NDArray[Any] | None, amplitude: float = 1.0) -> None:
    """sin and cos of float32 angles: rounded correctly to float32, times the amplitude in float32, then cast.

    The two roundings are meant: PyTorch has a float32 table first, and then `.to(dtype)`.

    numpy's float64 sine differs between processors. It serves as a guess: where guess - 2^-49 and guess + 2^-49
    round to one float32, so does the real value. The others are computed exactly.
    """
    wide = np.ascontiguousarray(angles, np.float64)
    factor = np.float32(amplitude)
    if sin is not None:
        _write_cast(factor * _decided(np.sin(wide), wide, sin=True), sin)
    if cos is not None:
        _write_cast(factor * _decided(np.cos(wide), wide, sin=False), cos)


def _decided(guess: Floats, angles: Floats, *, sin: bool) -> Singles:
    """The guesses rounded to float32, with the undecided ones computed by `Waves`."""
    table = (guess + GUESS_ERROR).astype(np.float32)
    undecided = np.flatnonzero(table != (guess - GUESS_ERROR).astype(np.float32))
    if undecided.size:
        exact = np.empty((undecided.size, 1), np.float32)
        # An angle beyond the positions that `Waves` takes is a smaller one times a power of two.
        unit = 1.0 if np.abs(angles).max() <= FARTHEST else 2.0**64
        at = angles.reshape(-1)[undecided] / unit
        Waves(Reals.of([unit])).write(at, exact if sin else None, None if sin else exact)
        table.reshape(-1)[undecided] = exact[:, 0]
    return table


def _write_cast(table: Singles, out: NDArray[Any]) -> None:
    out[...] = table if out.dtype == np.float32 else nearest(table.astype(np.float64), out.dtype)
