"""Eighty digits are eighty digits."""

import time
from decimal import localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from service.engine.numbers.reals import MANY_DIGITS, Reals, geometric, pair, pi, powers, sine_cosine

mpmath.mp.prec = 420
AGREED = mpf(2) ** -200


def apart(mine: object, theirs: object) -> mpf:
    """Relative difference."""
    return abs(mpf(str(mine)) / theirs - 1)


@pytest.mark.parametrize("base", [1.0001, 1.5, 2.0, 10000.0, 500000.0, 1e9, 1e-3, 1.7e300])
@pytest.mark.parametrize("dim", [2, 6, 34, 80, 96, 128])
def test_powers_have_200_bits(base: float, dim: int) -> None:
    found = geometric(base, [Fraction(-2 * k, dim) for k in range(dim // 2)])
    assert len(found) == dim // 2
    for k, power in enumerate(found):
        assert apart(power, mpf(base) ** (mpf(-2 * k) / dim)) < AGREED


def test_long_rows_lose_nothing() -> None:
    found = geometric(10000.0, [Fraction(-k, 4096) for k in range(4096)])
    assert apart(found.numbers[-1], mpf(10000) ** (mpf(-4095) / 4096)) < AGREED


def test_exponents_may_jump() -> None:
    exponents = [Fraction(3), Fraction(-1, 7), Fraction(22, 7), Fraction(0)]
    for power, exponent in zip(geometric(3.0, exponents), exponents, strict=True):
        assert apart(power, mpf(3) ** (mpf(exponent.numerator) / exponent.denominator)) < AGREED


@pytest.mark.parametrize("base", [0.0, -2.0, float("inf"), float("nan")])
def test_a_base_must_be_positive_and_finite(base: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        geometric(base, [Fraction(1)])


def test_64_frequencies_take_about_a_millisecond() -> None:
    exponents = [Fraction(-k, 64) for k in range(64)]
    elapsed = []
    for _ in range(5):
        began = time.perf_counter()
        geometric(10000.0, exponents)
        elapsed.append(time.perf_counter() - began)
    assert min(elapsed) < 0.01  # ten times what it takes, so as to fail for a change of kind only


@settings(deadline=None)
@given(a=st.floats(0.01, 100), b=st.floats(0.01, 100), c=st.fractions(Fraction(1, 50), 50))
def test_arithmetic_is_that_of_the_real_numbers(a: float, b: float, c: Fraction) -> None:
    left, right, fraction = Reals.of([a]), Reals.of([b]), mpf(c.numerator) / c.denominator
    for mine, theirs in [
        (left * right, mpf(a) * mpf(b)),
        (left / right, mpf(a) / mpf(b)),
        (left + right, mpf(a) + mpf(b)),
        (left * c, mpf(a) * fraction),
        (left / 3, mpf(a) / 3),
        (left.reciprocal(), 1 / mpf(a)),
        (left.blend(right, Fraction(1, 3)), mpf(a) * 2 / 3 + mpf(b) / 3),
    ]:
        assert apart(mine.numbers[0], theirs) < AGREED
    assert (left - right - left + right).rounded()[0] == pytest.approx(0, abs=1e-70)


def test_blend_goes_from_self_to_other() -> None:
    shares = Reals.of([0, 0.25, 1])
    assert Reals.of([1, 1, 1]).blend(Reals.of([5, 5, 5]), shares).rounded().tolist() == [1, 2, 5]


def test_rows_of_unlike_length_do_not_mix() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Reals.of([1, 2]) * Reals.of([1])


def test_a_part_of_a_row_is_a_row() -> None:
    assert Reals.of([1, 2, 3])[1:].rounded().tolist() == [2, 3]


@settings(deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_number_it_stands_for(value: float) -> None:
    assert Reals.of([value]).rounded().tolist() == [value]


def test_pairs_have_twice_the_digits() -> None:
    (high,), (low,) = Reals.of([Fraction(1, 3)]).pairs()
    assert high == 1 / 3
    assert abs((mpf(high) + mpf(low)) * 3 - 1) < mpf(2) ** -105
    assert Reals.of([]).pairs()[0].shape == (0,)


def test_a_root_that_is_a_float_is_that_float() -> None:
    high, low = geometric(16.0, [Fraction(1, 4), Fraction(-3, 4)]).pairs()
    assert (high.tolist(), low.tolist()) == ([2.0, 0.125], [0.0, 0.0])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64])
@pytest.mark.parametrize("step", [Fraction(-1, 64), Fraction(2, 7), Fraction(-6, 128), Fraction(3)])
def test_powers_at_equal_steps_are_the_same_digits(step: Fraction, count: int) -> None:
    assert powers(10000.5, step, count) == geometric(10000.5, [step * k for k in range(count)])


def test_pi() -> None:
    assert apart(pi(), mpmath.pi) < mpf(10) ** -79


@pytest.mark.parametrize("angle", ["0", "1e-200", "-0.1", "0.5", "1.6", "3"])
def test_sine_and_cosine_have_their_digits(angle: str) -> None:
    with localcontext(MANY_DIGITS) as context:
        sine, cosine = sine_cosine(context.create_decimal(angle))
        assert pair(cosine)[0] == float(mpmath.cos(mpf(angle)))
    assert abs(mpf(str(cosine)) - mpmath.cos(mpf(angle))) < mpf(10) ** -75
    assert abs(mpf(str(sine)) - mpmath.sin(mpf(angle))) <= abs(mpf(angle)) * mpf(10) ** -75


def test_doctest_forms() -> None:
    assert np.array_equal(geometric(16.0, [Fraction(1, 2)]).rounded(), [4.0])
