"""Scaled RoPE frequencies and attention factors in the papers' and configurations' own terms, to a hundred digits.

Written from the published formulas, pair by pair: each function answers for one pair k of a rotary width d.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS, Real, real

Rule = Callable[[int, int, mpf], mpf]


def plain(k: int, d: int, base: mpf) -> mpf:
    """Su et al. 2021: base^(-2k/d)."""
    return base ** (-mpf(2 * k) / d)


def frequencies(rule: Rule, d: int, base: Real) -> list[mpf]:
    """A rule for every pair.

    >>> [mpmath.nstr(w, 6) for w in frequencies(linear(4), 4, 10000)]
    ['0.25', '0.0025']
    """
    with mpmath.workprec(PRECISION_BITS):
        return [rule(k, d, real(base)) for k in range(d // 2)]


def linear(factor: Real) -> Rule:
    """Chen et al. 2023: positions, or frequencies, over the factor."""
    return lambda k, d, base: plain(k, d, base) / real(factor)


def rebased(growth: Real) -> Rule:
    """NTK-aware: the base times growth^(d / (d - 2))."""
    return lambda k, d, base: plain(k, d, base * real(growth) ** (mpf(d) / (d - 2)))


def dynamic(factor: Real, largest: int, seq_len: int) -> Rule:
    """The NTK-aware base for the present length, once that is beyond the trained one."""
    exact = Fraction(factor)
    return rebased(exact * Fraction(max(seq_len, largest), largest) - exact + 1)


def uniform(factor: Real) -> Rule:
    """keras-hub's `dynamic`."""
    return lambda k, d, base: plain(k, d, base) / real(factor) ** (mpf(d) / (d - 2))


def ntk_fixed(factor: Real) -> Rule:
    """vLLM's NTKScalingRotaryEmbedding without mixed_b: a base times s, and all over s^(2/d)."""
    return lambda k, d, base: plain(k, d, base * real(factor)) / real(factor) ** (mpf(2) / d)


def ntk_mixed(factor: Real, b: Real) -> Rule:
    """The same with mixed_b: each pair over exp(a m^b), a = ln s / (d/2)^b, m from 1."""

    def rule(k: int, d: int, base: mpf) -> mpf:
        a = mpmath.log(real(factor)) / (mpf(d) / 2) ** real(b)
        return plain(k, d, base) / mpmath.exp(a * mpf(k + 1) ** real(b))

    return rule


def blend(kept: mpf, frequency: mpf, factor: Real) -> mpf:
    """The share `kept` of a frequency as it is, and the rest of it over the factor."""
    return kept * frequency + (1 - kept) * frequency / real(factor)


def by_turns(factor: Real, trained: int, low: Real, high: Real) -> Rule:
    """Llama 3.1's rule, and NTK-by-parts (Peng et al. 2023, 3.2): what counts is turns in the trained length."""

    def rule(k: int, d: int, base: mpf) -> mpf:
        frequency = plain(k, d, base)
        turns = trained * frequency / (2 * mpmath.pi)
        if turns < low:
            return frequency / real(factor)
        if turns > high:
            return frequency
        return blend((turns - real(low)) / (real(high) - real(low)), frequency, factor)

    return rule


def ramp_ends(d: int, base: mpf, trained: int, fast: Real, slow: Real, truncate: bool) -> tuple[mpf, mpf]:
    """The pairs that make `fast` and `slow` turns in the trained length, outwards to whole ones if told so."""
    ends = [d * mpmath.log(trained / (2 * mpmath.pi * real(turns))) / (2 * mpmath.log(base)) for turns in (fast, slow)]
    if truncate:
        ends = [mpmath.floor(ends[0]), mpmath.ceil(ends[1])]
    return max(ends[0], mpf(0)), min(ends[1], mpf(d - 1))


def yarn(factor: Real, trained: int, fast: Real = 32, slow: Real = 1, *, truncate: bool = True) -> Rule:
    """YaRN as all its implementations have it: the blend runs along the pairs."""

    def rule(k: int, d: int, base: mpf) -> mpf:
        low, high = ramp_ends(d, base, trained, fast, slow, truncate)
        length = high - low if high != low else mpf(1) / 1000
        scaled = min(max((k - low) / length, mpf(0)), mpf(1))
        return blend(1 - scaled, plain(k, d, base), factor)

    return rule


def divided(divisors: Sequence[Real]) -> Rule:
    """LongRoPE (Ding et al. 2024) and GGUF's rope_freqs: each pair over its own."""
    return lambda k, d, base: plain(k, d, base) / real(divisors[k])


def proportional(share: Real, factor: Real = 1) -> Rule:
    """Gemma 4: exponents over the whole head; pairs beyond the share stand still."""
    return lambda k, d, base: plain(k, d, base) / real(factor) if k < int(share * d // 2) else mpf(0)


def magnitude(factor: Real, strength: Real = 1) -> mpf:
    """YaRN's 0.1 c ln s + 1."""
    with mpmath.workprec(PRECISION_BITS):
        return 1 + real(strength) * mpmath.log(real(factor)) / 10 if factor > 1 else mpf(1)


def longrope_attention(factor: Real, trained: int) -> mpf:
    """sqrt(1 + ln s / ln L0)."""
    with mpmath.workprec(PRECISION_BITS):
        return mpmath.sqrt(1 + mpmath.log(real(factor)) / mpmath.log(trained)) if factor > 1 else mpf(1)
