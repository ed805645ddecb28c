"""The arithmetics that tables are computed in: what turns positions into cosines and sines."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.engine.errors import Refusal
from service.engine.frequencies import LARGEST_FINITE
from service.engine.numbers.pairs import Floats
from service.engine.numbers.single import UNSCALED, GgmlScaling, Singles, ggml_angles, write_float32
from service.engine.positions import Values
from service.engine.rounding import nearest
from service.engine.scheme import Array
from service.engine.waves import Waves, products, values

LARGEST_FLOAT32 = LARGEST_FINITE["float32"]
FLOAT32_NOTE = "arithmetic=float32 rounds frequencies and angles to float32 step by step, as PyTorch model code does"
NARROW_NOTE = "arithmetic=table-dtype rounds frequencies and angles to the table's number format step by step"
GGML_NOTE = "arithmetic=ggml multiplies the angle from pair to pair in float32, as llama.cpp does"


def float32_notes(arithmetic: str) -> list[str]:
    """What deserves saying of arithmetic=float32.

    >>> float32_notes("exact")
    []
    """
    return [FLOAT32_NOTE] if arithmetic == "float32" else []


class Angles(Protocol):
    """The frequencies of a scheme in one arithmetic."""

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None: ...

    def angles(self, at: Values, out: Array) -> None: ...

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array: ...


def refuse_base_of_no_model(base: float, arithmetic: str) -> None:
    """Refuse bases that an arithmetic cannot work with.

    >>> refuse_base_of_no_model(0.5, "float32")
    Traceback (most recent call last):
    service.engine.errors.Refusal: base is 0.5; arithmetic=float32 follows model code, whose bases are 1 or more
    """
    if arithmetic != "exact" and base < 1:
        detail = f"base is {base:g}; arithmetic={arithmetic} follows model code, whose bases are 1 or more"
        raise Refusal("base", "out_of_range", detail, limit=1)
    if arithmetic != "exact" and base > LARGEST_FLOAT32:
        detail = f"base is {base:g}; arithmetic={arithmetic} has it in float32: {LARGEST_FLOAT32:g} is the largest"
        raise Refusal("base", "out_of_range", detail, limit=LARGEST_FLOAT32)


@dataclass(frozen=True, slots=True)
class Exact:
    """The real numbers, rounded once."""

    waves: Waves

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        self.waves.write(at, sin, cos)

    def angles(self, at: Values, out: Array) -> None:
        products(as_float64(at), self.waves.frequencies, out)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return values(self.waves.frequencies, dtype)


@dataclass(frozen=True, slots=True)
class Float32:
    """Float32 step by step, as PyTorch model code: frequency, position, their product, its cosine, the amplitude.

    Positions are divided first, where they and not the frequencies are scaled.
    """

    inv_freq: Singles
    amplitude: float = 1.0
    position_divisor: float = 1.0

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        write_float32(self._angles(at), sin, cos, self.amplitude)

    def angles(self, at: Values, out: Array) -> None:
        out[...] = self._angles(at).astype(out.dtype)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return self.inv_freq.astype(dtype)

    def _angles(self, at: Values) -> Singles:
        places = as_float64(at).astype(np.float32)
        if self.position_divisor != 1:
            places /= np.float32(self.position_divisor)
        angles: Singles = places[:, None] * self.inv_freq
        return angles


@dataclass(frozen=True, slots=True)
class Narrow:
    """The same where every step is rounded to a number format of 16 bits: position, angle, cosine."""

    inv_freq: Array

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        write_float32(self._angles(at).astype(np.float32), sin, cos)

    def angles(self, at: Values, out: Array) -> None:
        out[...] = self._angles(at)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return self.inv_freq.astype(dtype)

    def _angles(self, at: Values) -> Array:
        places = nearest(as_float64(at), self.inv_freq.dtype).astype(np.float64)
        return nearest(places[:, None] * self.inv_freq.astype(np.float64), self.inv_freq.dtype)


@dataclass(frozen=True, slots=True)
class Divided:
    """Float32 as DETR code has it: the position divided by a power of the base, not multiplied by its inverse."""

    periods: Singles

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        write_float32(as_float64(at).astype(np.float32)[:, None] / self.periods, sin, cos)


@dataclass(frozen=True, slots=True)
class Ggml:
    """The running float32 product of llama.cpp."""

    base: float
    width: int
    scaling: GgmlScaling = UNSCALED

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        write_float32(self._angles(as_float64(at)), sin, cos, self.scaling.amplitude)

    def angles(self, at: Values, out: Array) -> None:
        out[...] = self._angles(as_float64(at)).astype(out.dtype)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        inv_freq: Array = self._angles(np.ones(1))[0].astype(dtype)
        return inv_freq

    def _angles(self, at: Floats) -> Singles:
        return ggml_angles(self.base, self.width, at, self.scaling)


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The same angles with the other sign: cosines stay, sines and angles are negated, and 0 stays 0."""

    plain: Angles

    def write(self, at: Values, cos: Array | None, sin: Array | None) -> None:
        self.plain.write(at, cos, sin)
        if sin is not None:
            np.subtract(sin.dtype.type(0), sin, out=sin)

    def angles(self, at: Values, out: Array) -> None:
        self.plain.angles(at, out)
        np.subtract(out.dtype.type(0), out, out=out)

    def frequencies(self, dtype: np.dtype[np.generic]) -> Array:
        return self.plain.frequencies(dtype)


def as_float64(at: Values) -> Floats:
    """Positions as an array."""
    if isinstance(at, range):
        return np.arange(at.start, at.stop, dtype=np.float64)
    return at
