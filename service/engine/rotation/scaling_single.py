"""RoPE's scaled frequencies in float32 steps, as PyTorch model code has them, one function a `rope_type`.

Each step is one operation rounded once to float32, in the order of transformers 5.24's `ROPE_INIT_FUNCTIONS` (`ntk`:
vLLM's; `dynamic_rule=uniform`: keras-hub's). Python numbers of that code are float64 until they meet an array, which
takes them as float32.
"""

from collections.abc import Callable, Mapping
from decimal import localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from service.engine.numbers.reals import MANY_DIGITS, Reals, geometric, pi
from service.engine.numbers.single import (
    UNSCALED,
    GgmlScaling,
    Singles,
    float32_exponentials,
    float32_frequencies,
    float32_periods,
    float32_powers,
)
from service.engine.rotation.scaling import list_used
from service.engine.rotation.scaling_exact import (
    attention_factor,
    given,
    plain,
    ramp_ends,
    scaled_frequencies,
    turning_pairs,
)
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rounding import nearest
from service.engine.scheme import Array
from service.engine.waves import values

ONE = np.float32(1.0)


def _plain(params: Scaling, width: int) -> Singles:
    return float32_frequencies(params.base, width, width // 2)


def _linear(params: Scaling, width: int) -> Singles:
    return _plain(params, width) / np.float32(given(params.factor))


def _power(base: float, exponent: float) -> float:
    """A power of Python numbers, rounded to float64."""
    return float(geometric(base, [Fraction(exponent)]).rounded()[0])


def _growth(params: Scaling) -> float:
    """What `scaling_exact.growth` has exactly, in float64 steps."""
    if params.rope_type == "ntk_alpha":
        return given(params.alpha)
    factor = given(params.factor)
    if params.rope_type == "ntk_aware":
        return factor
    largest = given(params.max_position_embeddings)
    return factor * max(given(params.seq_len), largest) / largest - (factor - 1)


def _stretched(params: Scaling, width: int) -> Singles:
    base = params.base * _power(_growth(params), width / (width - 2))
    return float32_frequencies(base, width, width // 2)


def _dynamic(params: Scaling, width: int) -> Singles:
    if params.dynamic_rule == "base":
        return _stretched(params, width)
    exponent = np.float32(width) / np.float32(width - 2)
    return _plain(params, width) / np.float32(_power(given(params.factor), float(exponent)))


def _ntk(params: Scaling, width: int) -> Singles:
    factor = given(params.factor)
    if params.mixed_b is None:
        stretched = float32_frequencies(params.base * factor, width, width // 2)
        return stretched / np.float32(_power(factor, 2 / width))
    slope = _logarithm(np.float32(factor)) / np.float32(_power(width / 2, params.mixed_b))
    powers = float32_powers(np.arange(1, width // 2 + 1, dtype=np.float32), params.mixed_b)
    return _plain(params, width) / float32_exponentials(slope * powers)


def _logarithm(number: np.float32) -> np.float32:
    rounded: np.float32 = values(Reals.of([float(number)]).logarithm(), np.float32)[0]
    return rounded


def _by_channels(params: Scaling, width: int) -> Singles:
    """How much of each pair is kept, with the double complement 1 - (1 - kept) that the code has."""
    low, high = (float(end) for end in ramp_ends(params, width))
    if low == high:
        high += 0.001
    ramp = (np.arange(width // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low)
    clamped: Singles = np.clip(ramp, np.float32(0), ONE)
    return clamped if params.ramp == "inverted" else ONE - clamped


def _by_parts(params: Scaling, width: int) -> Singles:
    if params.ramp == "rotations":
        ends = Band(given(params.beta_slow), given(params.beta_fast))
        return _by_turns(params, _plain(params, width), ends)
    periods = float32_periods(params.base, width, width // 2)
    divided = ONE / (np.float32(given(params.factor)) * periods)
    kept = _by_channels(params, width)
    blended: Singles = divided * (ONE - kept) + ONE / periods * kept
    return blended


class Band(NamedTuple):
    """Turns within the trained length between which pairs are blended."""

    low: float
    high: float


def _by_turns(params: Scaling, inv_freq: Singles, band: Band) -> Singles:
    """Llama 3's steps: wavelengths in positions, two masks, and the blend where neither holds.

    PyTorch divides a number by an array in two steps: the reciprocal, then the product.
    """
    trained = given(params.original_max_position_embeddings)
    factor = np.float32(given(params.factor))
    with localcontext(MANY_DIGITS):
        tau = np.float32(float(2 * pi()))
    wavelength = ONE / inv_freq * tau
    slow = wavelength > np.float32(trained / band.low)
    fast = wavelength < np.float32(trained / band.high)
    scaled: Singles = np.where(slow, inv_freq / factor, inv_freq)
    between = ~slow & ~fast
    if band.low < band.high and between.any():
        share = (ONE / wavelength * np.float32(trained) - np.float32(band.low)) / np.float32(band.high - band.low)
        smooth = (ONE - share) * scaled / factor + share * scaled
        scaled = np.where(between, smooth, scaled)
    return scaled


def _longrope(params: Scaling, width: int) -> Singles:
    divisors = params.long_factor if list_used(params) == "long" else params.short_factor
    return ONE / (_singles(given(divisors)) * float32_periods(params.base, width, width // 2))


def _llama3(params: Scaling, width: int) -> Singles:
    ends = Band(given(params.low_freq_factor), given(params.high_freq_factor))
    return _by_turns(params, _plain(params, width), ends)


def _proportional(params: Scaling, width: int) -> Singles:
    count = turning_pairs(params, width)
    inv_freq = np.zeros(width // 2, np.float32)
    inv_freq[:count] = float32_frequencies(params.base, width, count)
    scaled: Singles = inv_freq / np.float32(given(params.factor))
    return scaled


def _given_frequencies(params: Scaling, _width: int) -> Singles:
    return _singles(given(params.frequencies))


def _divided(params: Scaling, width: int) -> Singles:
    return _plain(params, width) / _singles(given(params.divisors))


def _singles(numbers: tuple[float, ...]) -> Singles:
    return np.asarray(numbers, np.float64).astype(np.float32)


RULES: Mapping[str, Callable[[Scaling, int], Singles]] = {
    "default": _plain,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "ntk_aware": _stretched,
    "ntk_alpha": _stretched,
    "ntk_by_parts": _by_parts,
    "yarn": _by_parts,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "frequencies": _given_frequencies,
    "divisors": _divided,
}


def scaled_float32_frequencies(params: Scaling, width: int) -> Singles:
    """The inverse frequencies of a completed scaling, in float32 steps.

    >>> scaled_float32_frequencies(Scaling(rope_type="linear", factor=4), 4).tolist()
    [0.25, 0.0024999999441206455]
    """
    return RULES[params.rope_type](params, width)


def attention_in_steps(params: Scaling, dtype: np.dtype[np.generic]) -> Array:
    """A of a completed scaling in a number format: YaRN's 0.1 ln s + 1 with every step rounded to it, as keras-hub has
    it; any other rounded once.

    >>> attention_in_steps(Scaling(rope_type="yarn", factor=16.0), np.dtype(np.float16)).tolist()
    [1.27734375]
    """

    def rounded(number: float) -> Array:
        return nearest(np.array([number]), dtype)

    stated = {params.attention_factor, params.mscale, params.mscale_all_dim}
    if params.rope_type != "yarn" or (params.mscale_rule != "neither" and stated != {None}):
        return rounded(float(attention_factor(params)))
    logarithm = values(Reals.of([rounded(given(params.factor)).item()]).logarithm(), dtype).item()
    product = rounded(rounded(0.1).item() * logarithm).item()
    return rounded(product + 1.0)


GGML_TYPES = ("default", "linear", "yarn", "longrope", "llama3", "divisors")


def ggml_scaling(params: Scaling, width: int) -> GgmlScaling:
    """What llama.cpp makes of a completed scaling: divisors for each pair, or a scale and a ramp.

    >>> ggml_scaling(Scaling(rope_type="linear", factor=4), 4).scale
    0.25
    """
    kind, amplitude = params.rope_type, float(attention_factor(params))
    if kind in ("longrope", "llama3", "divisors"):
        divisors = values(plain(params, width) / scaled_frequencies(params, width), np.float32)
        return GgmlScaling(divisors, amplitude=amplitude)
    if kind == "default":
        return UNSCALED
    scale = float(ONE / np.float32(given(params.factor)))
    return GgmlScaling(scale=scale, kept=_ggml_kept(params, width) if kind == "yarn" else None, amplitude=amplitude)


def _ggml_kept(params: Scaling, width: int) -> Singles:
    """The ramp of llama.cpp, whose ends are always whole pairs."""
    low, high = (float(end) for end in ramp_ends(params.model_copy(update={"truncate": True}), width))
    length = np.maximum(np.float32(0.001), np.float32(high - low))
    ramp = (np.arange(width // 2, dtype=np.float32) - np.float32(low)) / length
    kept: Singles = ONE - np.clip(ramp, np.float32(0), ONE)
    return kept
