"""RoPE's scaled frequencies as real numbers, one function a `rope_type`, and the attention factor.

Parameters are completed ones (`scaling.completed`), d is the rotary width, w_k = base^(-2k/d) the plain frequencies.
A parameter is the float64 that it is; everything that follows from it has 80 digits.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeVar

from service.engine.numbers.reals import MANY_DIGITS, Reals, geometric, pi, powers, real
from service.engine.rotation.scaling import list_used, takes_long_list
from service.engine.rotation.scaling_parameters import Scaling

ONE_TENTH = Fraction(1, 10)
RAMP_OF_ONE_POINT = Fraction(1, 1000)  # the length of a ramp whose ends meet, in pairs

T = TypeVar("T", int, float, tuple[float, ...])


def given(value: T | None) -> T:
    """A parameter that completing has filled in."""
    assert value is not None
    return value


def plain(params: Scaling, width: int) -> Reals:
    """w_k = base^(-2k/d)."""
    return powers(params.base, Fraction(-2, width), width // 2)


def _linear(params: Scaling, width: int) -> Reals:
    """w_k / s: position interpolation (Chen et al. 2023)."""
    return plain(params, width) / given(params.factor)


def growth(params: Scaling) -> Fraction:
    """By what the base is multiplied before the exponent d / (d - 2): s n / Lmax - (s - 1) for `dynamic`, n >= Lmax."""
    if params.rope_type == "ntk_alpha":
        return Fraction(given(params.alpha))
    factor = Fraction(given(params.factor))
    if params.rope_type == "ntk_aware" or params.dynamic_rule == "uniform":
        return factor
    largest = given(params.max_position_embeddings)
    return factor * max(given(params.seq_len), largest) / largest - (factor - 1)


def _stretched(params: Scaling, width: int) -> Reals:
    """base' = base g^(d / (d - 2)), so w_k g^(-2k / (d - 2)): w_0 stays, and the last is divided by g."""
    return plain(params, width) * geometric(growth(params), [Fraction(-2 * k, width - 2) for k in range(width // 2)])


def _dynamic(params: Scaling, width: int) -> Reals:
    """A base that grows with the length; or keras-hub's w_k / s^(d / (d - 2)) at any length."""
    if params.dynamic_rule == "base":
        return _stretched(params, width)
    return plain(params, width) / geometric(growth(params), [Fraction(width, width - 2)]).numbers[0]


def _ntk(params: Scaling, width: int) -> Reals:
    """vLLM's: w_k s^(-2 (k + 1) / d) fixed, w_k s^(-((k + 1) / (d / 2))^b) mixed."""
    half = width // 2
    exponents = [Fraction(-pair, half) for pair in range(1, half + 1)]
    if params.mixed_b is not None:
        with localcontext(MANY_DIGITS):
            exponents = [-Fraction((-real(exponent)) ** real(params.mixed_b)) for exponent in exponents]
    return plain(params, width) * geometric(given(params.factor), exponents)


def turns(params: Scaling, width: int) -> Reals:
    """How many turns each pair makes in the trained length: L0 w_k / 2 pi."""
    with localcontext(MANY_DIGITS):
        tau = 2 * pi()
    return plain(params, width) * given(params.original_max_position_embeddings) / tau


def ramp_ends(params: Scaling, width: int) -> tuple[Decimal, Decimal]:
    """The pairs between which `ramp=channels` blends: D(beta_fast) and D(beta_slow), within 0 and d - 1.

    D(r) = d ln(L0 / (2 pi r)) / (2 ln base) is the pair that makes r turns; `truncate` rounds the ends outwards.
    """
    largest = width // 2 - 1 if params.ramp == "inverted" else width - 1
    with localcontext(MANY_DIGITS):
        logarithm = 2 * real(params.base).ln()

        def pair_of(rotations: float) -> Decimal:
            length = given(params.original_max_position_embeddings) / (2 * pi() * real(rotations))
            return width * length.ln() / logarithm

        low, high = pair_of(given(params.beta_fast)), pair_of(given(params.beta_slow))
        if params.truncate or params.truncate_rule == "always":
            low, high = low.to_integral_value("ROUND_FLOOR"), high.to_integral_value("ROUND_CEILING")
        return max(low, Decimal(0)), min(high, Decimal(largest))


def _clamped(numbers: Reals) -> Reals:
    return Reals(tuple(min(max(number, Decimal(0)), Decimal(1)) for number in numbers))


def _kept_by_channels(params: Scaling, width: int) -> Reals:
    """1 up to the low end of the ramp, 0 from its high end on; litgpt's runs the other way."""
    low, high = ramp_ends(params, width)
    with localcontext(MANY_DIGITS):
        length = high - low or real(RAMP_OF_ONE_POINT)
    ramp = _clamped((Reals.of(range(width // 2)) - low) / length)
    return ramp if params.ramp == "inverted" else Reals.of([1] * len(ramp)) - ramp


def _kept_by_turns(params: Scaling, width: int, low: float, high: float) -> Reals:
    """0 up to `low` turns, 1 from `high` turns on; where these are equal there is nothing between."""
    made = turns(params, width)
    if low == high:
        return Reals.of([int(number > low) for number in made])
    return _clamped((made - low) / (Fraction(high) - Fraction(low)))


def _blended(params: Scaling, width: int, kept: Reals) -> Reals:
    """(1 - kept) w_k / s + kept w_k."""
    frequencies = plain(params, width)
    return (frequencies / given(params.factor)).blend(frequencies, kept)


def _by_parts(params: Scaling, width: int) -> Reals:
    """NTK-by-parts and YaRN (Peng et al. 2023): fast pairs stay, slow ones are divided, between them a ramp."""
    if params.ramp == "rotations":
        kept = _kept_by_turns(params, width, given(params.beta_slow), given(params.beta_fast))
    else:
        kept = _kept_by_channels(params, width)
    return _blended(params, width, kept)


def _longrope(params: Scaling, width: int) -> Reals:
    """w_k / f_k, with the long list beyond L0 (Ding et al. 2024)."""
    divisors = params.long_factor if list_used(params) == "long" else params.short_factor
    return plain(params, width) / Reals.of(given(divisors))


def _llama3(params: Scaling, width: int) -> Reals:
    """The same blend by the turns of each pair, between low_freq_factor and high_freq_factor."""
    kept = _kept_by_turns(params, width, given(params.low_freq_factor), given(params.high_freq_factor))
    return _blended(params, width, kept)


def turning_pairs(params: Scaling, width: int) -> int:
    """How many pairs of a `proportional` head turn: the product is rounded to float64 first, as Python has it.

    >>> turning_pairs(Scaling(base=1e6, partial_rotary_factor=0.25), 512)
    64
    """
    share = 1.0 if params.partial_rotary_factor is None else params.partial_rotary_factor
    return int(share * width // 2)


def _proportional(params: Scaling, width: int) -> Reals:
    """Exponents over the whole head, and frequency 0 for the pairs beyond the share that turns (Gemma 4)."""
    count = turning_pairs(params, width)
    turning = plain(params, width)[:count] / given(params.factor)
    return Reals((*turning, *[Decimal(0)] * (width // 2 - count)))


def _given_frequencies(params: Scaling, _width: int) -> Reals:
    """The caller's own."""
    return Reals.of(given(params.frequencies))


def _divided(params: Scaling, width: int) -> Reals:
    """w_k / divisor_k, as llama.cpp with a `rope_freqs` tensor."""
    return plain(params, width) / Reals.of(given(params.divisors))


RULES: Mapping[str, Callable[[Scaling, int], Reals]] = {
    "default": plain,
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


def scaled_frequencies(params: Scaling, width: int) -> Reals:
    """The frequencies of a completed scaling.

    >>> scaled_frequencies(Scaling(rope_type="linear", factor=4), 4).rounded().tolist()
    [0.25, 0.0025]
    """
    return RULES[params.rope_type](params, width)


def magnitude(factor: float, strength: float) -> Decimal:
    """YaRN's m(s, c) = 1 + 0.1 c ln s, and 1 for s <= 1.

    >>> round(float(magnitude(4.0, 1.0)), 9)
    1.138629436
    """
    with localcontext(MANY_DIGITS):
        return 1 + real(ONE_TENTH) * real(strength) * real(factor).ln() if factor > 1 else Decimal(1)


def _yarn_attention(params: Scaling) -> Decimal:
    """m(s, mscale) / m(s, mscale_all_dim), where both are given; m(s, 1) otherwise."""
    factor, numerator, denominator = given(params.factor), params.mscale, params.mscale_all_dim
    if params.mscale_rule == "neither":
        numerator, denominator = 1.0, 0.0
    elif params.mscale_rule == "each":
        numerator = 1.0 if numerator is None else numerator
        denominator = denominator or 0.0
    elif not (numerator and denominator):
        numerator, denominator = 1.0, 0.0
    with localcontext(MANY_DIGITS):
        return magnitude(factor, given(numerator)) / magnitude(factor, given(denominator))


def _longrope_attention(params: Scaling) -> Decimal:
    """sqrt(1 + ln s / ln L0); a model's own factor for the list's side of L0 comes first."""
    long = takes_long_list(params) or params.longrope_list == "long"
    own = params.long_mscale if long else params.short_mscale
    if own is not None:
        return real(own)
    trained = given(params.original_max_position_embeddings)
    if params.attention_factor is not None and params.longrope_attention != "ratio":
        return real(params.attention_factor)
    by_factor = params.longrope_attention == "factor"
    factor = given(params.factor) if by_factor else given(params.max_position_embeddings) / trained
    with localcontext(MANY_DIGITS):
        return (1 + real(factor).ln() / real(trained).ln()).sqrt() if factor > 1 else Decimal(1)


def attention_factor(params: Scaling) -> Decimal:
    """A, which multiplies cos and sin.

    >>> round(float(attention_factor(Scaling(rope_type="yarn", factor=32.0, mscale_rule="both"))), 9)
    1.34657359
    """
    if params.rope_type == "longrope":
        return _longrope_attention(params)
    if params.rope_type == "yarn" and params.mscale_rule == "neither":
        return _yarn_attention(params)
    if params.rope_type in ("yarn", "ntk_by_parts", "frequencies", "divisors") and params.attention_factor is not None:
        return real(params.attention_factor)
    return _yarn_attention(params) if params.rope_type == "yarn" else Decimal(1)


def effective_base(params: Scaling, width: int) -> Decimal | None:
    """The base that a type amounts to, if it amounts to one."""
    if params.rope_type == "ntk" and params.mixed_b is None:
        with localcontext(MANY_DIGITS):
            return real(params.base) * real(given(params.factor))
    if params.rope_type not in ("dynamic", "ntk_aware", "ntk_alpha") or params.dynamic_rule == "uniform":
        return None
    with localcontext(MANY_DIGITS):
        return real(params.base) * geometric(growth(params), [Fraction(width, width - 2)]).numbers[0]
