"""Float32 arithmetic step by step: PyTorch model code's (`arithmetic=float32`) and llama.cpp's (`ggml`).

Here rounding on the way is the point. Each step is a real operation rounded once to float32, so the steps
have the same bits on every processor, where PyTorch's own `pow` differs by up to 2 ulp between them.
"""

from decimal import localcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.engine.pairs import Floats
from service.engine.reals import MANY_DIGITS, Reals, real
from service.engine.rounding import nearest
from service.engine.waves import Waves, values

Singles = NDArray[np.float32]


def float32_frequencies(
    base: float, dim: int, count: int | None = None, *, form: Literal["power", "exp-log"] = "power"
) -> Singles:
    """Inverse frequencies base ** (-2k / dim), k = 0 .. count - 1 (dim / 2 by default), in float32 steps.

    form="power", as RoPE code has it: exponent = f32(2k) / f32(dim); power = base ** exponent; 1 / power.
    form="exp-log", as the usual sinusoidal module has it: exp(f32(2k) * f32(-ln(base) / dim)).
    """
    doubled = np.arange(0, 2 * (dim // 2 if count is None else count), 2, dtype=np.float32)
    if form == "power":
        return np.float32(1.0) / _powers(base, doubled / np.float32(dim))
    with localcontext(MANY_DIGITS):
        slope = float(-(real(base).ln() / dim))
    exponents = doubled * np.float32(slope)
    with localcontext(MANY_DIGITS):
        exact = Reals(tuple(real(float(exponent)).exp() for exponent in exponents))
    return values(exact, np.float32)


def _powers(base: float, exponents: Singles) -> Singles:
    """base ** exponent, each rounded once to float32."""
    with localcontext(MANY_DIGITS):
        logarithm = real(base).ln()
        exact = Reals(tuple((logarithm * real(float(exponent))).exp() for exponent in exponents))
    return values(exact, np.float32)


def ggml_angles(base: float, dim: int, positions: Floats) -> Singles:
    """Angles (n, dim / 2) as llama.cpp has them: the position, then times base ** (-2 / dim) each time."""
    with localcontext(MANY_DIGITS):
        ratio = values(Reals(((-real(base).ln() * 2 / dim).exp(),)), np.float32)[0]
    angles = np.empty((len(positions), dim // 2), np.float32)
    angle = nearest(positions, np.float32)
    for k in range(dim // 2):
        angles[:, k] = angle
        angle = angle * ratio
    return angles


def write_float32(angles: Singles, sin: NDArray[Any] | None, cos: NDArray[Any] | None) -> None:
    """sin and cos of float32 angles: correctly rounded to float32, then cast to the dtype of the array.

    The two roundings are meant: PyTorch has a float32 table first, and then `.to(dtype)`.
    """
    one = Waves(Reals.of([1]))
    flat = angles.reshape(-1).astype(np.float64)
    for out, kind in ((sin, 0), (cos, 1)):
        if out is None:
            continue
        table = np.empty((flat.size, 1), np.float32)
        one.write(flat, table if kind == 0 else None, table if kind == 1 else None)
        out[...] = nearest(table.reshape(angles.shape).astype(np.float64), out.dtype)
