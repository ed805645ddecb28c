"""xPos (Sun et al. 2022): rotary tables whose amplitude falls, or grows, with the position.

    zeta_k = (2k + 0.4 d) / (1.4 d),    queries times zeta_k^((p - center) / scale_base),    keys times its inverse

so that a score has the factor zeta_k^((m - n) / scale_base), whatever the center is.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import copysign, log
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.engine.arithmetics import Exact, Float32, as_float64
from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.logarithms import exact, exponential, natural
from service.engine.numbers.pairs import Floats, Pair, divide, multiply, negative, two_sum
from service.engine.numbers.reals import MANY_DIGITS, TINY, Reals, pair, real
from service.engine.numbers.sines import Angles, sine_cosine_of_turn
from service.engine.numbers.single import Singles
from service.engine.positions import Values
from service.engine.rounding import decide, nearest_of_sum
from service.engine.scheme import Array

Role = Literal["query", "key"]

STEEPEST = log(3.5)  # -ln zeta_0, the largest of all
FARTHEST = 300.0  # the largest exponent of e: beyond, products would leave the range of double-double
SMALLEST = 2.0**-900  # below, the product's error term may be lost
BLOCK_VALUES = 16384
DIGITS_OF_ANY = 1200  # a float64 has 767 at the most, and beside 1 its square begins at the 647th
SMALLEST_FLOAT = 5e-324


@dataclass(frozen=True, slots=True)
class Decay:
    """How the amplitude of `width` channels depends on the position."""

    width: int
    scale_base: float
    center: float
    role: Role

    @property
    def zeta(self) -> Reals:
        """zeta_k for every pair."""
        return Reals.of(Fraction(10 * pair + 2 * self.width, 7 * self.width) for pair in range(self.width // 2))

    def reversed(self) -> "Decay":
        """What undoes it: the other's factor."""
        return Decay(self.width, self.scale_base, self.center, "key" if self.role == "query" else "query")


def refuse_far(decay: Decay, ends: tuple[float, float], amplitude: float, dtype: str) -> None:
    """Refuse positions where the factor leaves what can be computed, or what a number format holds.

    >>> refuse_far(Decay(64, 512.0, 0.0, "key"), (0.0, 40_000.0), 1.0, "float32")
    Traceback (most recent call last):
    service.engine.errors.Refusal: xPos reaches about 3.2e+42; float32 holds 3.40282e+38 at most: use float64
    """
    powers = [(end - decay.center) / decay.scale_base * STEEPEST for end in ends]
    if max(map(abs, powers)) > FARTHEST:
        reach = FARTHEST * decay.scale_base / STEEPEST
        raise Refusal(
            "xpos_center",
            "out_of_range",
            f"xPos has factors beyond e^{FARTHEST:g} there: positions within {reach:.6g} of xpos_center would do",
            limit=reach,
        )
    largest = max(powers) if decay.role == "key" else -min(powers)
    refuse_overflow(amplitude * float(np.exp(max(largest, 0.0))), dtype, "xPos")


class ExactXPos:
    """The real numbers, rounded once."""

    def __init__(self, plain: Exact, amplitude: Decimal, decay: Decay) -> None:
        self.plain, self.decay = plain, decay
        self.waves = Angles(plain.waves.frequencies, amplitude)
        self.amplitude = amplitude
        self.logarithms = decay.zeta.logarithm()
        self._pairs = Pair(*self.logarithms.pairs())

    def angles(self, at: Values, out: Array) -> None:
        self.plain.angles(at, out)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return self.plain.frequencies(dtype)

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        positions = as_float64(at)
        step = max(1, BLOCK_VALUES // len(self.logarithms))
        for start in range(0, len(positions), step):
            rows = slice(start, start + step)
            self._write(positions[rows, None], *(None if out is None else out[rows] for out in (sin, cos)))

    def _write(self, at: Floats, *outs: Array | None) -> None:
        for form, out in enumerate(outs):
            if out is None:
                continue
            closely = out.dtype == np.float64
            value, error, certain = self._closely(at, form) if closely else self._plainly(at, form)
            out[...], undecided = decide(value.high, value.low, error, out.dtype)
            for row, channel in np.argwhere(undecided | ~certain).tolist():
                out[row, channel] = self._exactly(float(at[row, 0]), channel, form, out.dtype)

    def _plainly(self, at: Floats, form: int) -> tuple[Pair, Floats, NDArray[np.bool_]]:
        """Values in float64, bounds of their errors, and where those hold.

        numpy's exponential differs between processors, by less than the bound: what is rounded is the same. The
        exponent comes of three operations and a rounded logarithm, 4 * 2^-53 of it, for which 2^-49 stands; the
        exponential is good to 4 ulp, 2^-50, and the product to 2^-53, for which 2^-47 stands.
        """
        wave, error = self.waves.plainly(at, slice(None))[form], self.waves.errors(at, slice(None), plain=True)[form]
        exponent = (at - self.decay.center) / self.decay.scale_base * self._signed().high
        factor = np.exp(exponent)
        value = wave * factor
        bound = 1.01 * error * factor + (2.0**-47 + 2.0**-49 * np.abs(exponent)) * np.abs(value)
        return exact(value), bound, (np.abs(value) >= SMALLEST) | (wave == 0)

    def _closely(self, at: Floats, form: int) -> tuple[Pair, Floats, NDArray[np.bool_]]:
        """The same in double-double: the exponent's four operations are good to 2^-98 of it, for which 2^-96 stands;
        the exponential to 2^-88 and the product to 2^-100, for which 2^-84 stands."""
        wave, error = self.waves.at(at, slice(None))[form], self.waves.errors(at, slice(None))[form]
        distance = two_sum(at, np.array(-self.decay.center, np.float64))
        exponent = multiply(divide(distance, exact(np.array(self.decay.scale_base))), self._signed())
        factor = exponential(exponent)
        value = multiply(wave, factor)
        bound = 1.01 * error * factor.high + (2.0**-84 + 2.0**-96 * np.abs(exponent.high)) * np.abs(value.high)
        return value, bound, (np.abs(value.high) >= SMALLEST) | (wave.high == 0)

    def _signed(self) -> Pair:
        """ln zeta, as the role takes it."""
        return self._pairs if self.decay.role == "query" else negative(self._pairs)

    def _exactly(self, position: float, channel: int, form: int, dtype: Any) -> Any:
        with localcontext(MANY_DIGITS):
            wave = sine_cosine_of_turn(real(position) * self.waves.turns[channel])[form]
            distance = (real(position) - real(self.decay.center)) / real(self.decay.scale_base)
            exponent = distance * self.logarithms.numbers[channel] * (1 if self.decay.role == "query" else -1)
            value = pair(wave * self.amplitude * exponent.exp())
        if 0 < abs(exponent) < TINY:
            value = self._beside(position, channel, form, wave, exponent)
        high, low = np.array(value, np.float64)[:, None]
        return nearest_of_sum(high, low, dtype)[0]

    def _beside(
        self, position: float, channel: int, form: int, wave: Decimal, exponent: Decimal
    ) -> tuple[float, float]:
        """A value whose factor is so close to 1 that 80 digits, or the eye for ties, would take it for 1.

        Where the angle is tiny too, sine and cosine are the first terms of their series: those left out are below
        2^-180 of the last one, and the sign of what is left beside the half-way point is all that decides.
        """
        with localcontext(prec=DIGITS_OF_ANY):
            angle = Decimal(position) * self.waves.frequencies.numbers[channel]
            if abs(angle) < TINY:
                square = angle * angle
                wave = (angle - angle * square / 6, 1 - square / 2)[form]
            value = wave * self.amplitude * (1 + exponent)
            high = float(value)
            rest = value - Decimal(high)
            return high, (float(rest) or copysign(SMALLEST_FLOAT, rest)) if rest else 0.0


@dataclass(frozen=True, slots=True)
class Float32XPos:
    """Float32 step by step: the table of PyTorch model code, times the factor, as x-transformers has it."""

    plain: Float32
    decay: Decay

    def angles(self, at: Values, out: Array) -> None:
        self.plain.angles(at, out)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return self.plain.frequencies(dtype)

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        factors = self._factors(as_float64(at))
        for form, out in enumerate((cos, sin)):
            if out is None:
                continue
            single = np.empty(factors.shape, np.float32)
            self.plain.write(at, *((single, None) if form == 0 else (None, single)))
            out[...] = (single * factors).astype(out.dtype)

    def _factors(self, at: Floats) -> Singles:
        """f32((f32(2k) + f32(0.4 d)) / f32(1.4 d)) ** f32(f32(p - c) / f32(B)), each rounded once; keys: 1 / that."""
        width = self.decay.width
        zeta = (np.arange(0, width, 2, dtype=np.float32) + np.float32(0.4 * width)) / np.float32(1.4 * width)
        powers = (at - self.decay.center).astype(np.float32)[:, None] / np.float32(self.decay.scale_base)
        raised = exponential(multiply(natural(zeta.astype(np.float64)), exact(powers.astype(np.float64))))
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            factors: Singles = nearest_of_sum(raised.high, raised.low, np.float32)
            return factors if self.decay.role == "query" else np.float32(1) / factors
