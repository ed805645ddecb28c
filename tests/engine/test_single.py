"""Float32 step by step: each step against the real operation rounded once."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine.numbers.reals import Reals
from service.engine.numbers.single import GUESS_ERROR, float32_frequencies, ggml_angles, write_float32
from service.engine.rounding import DTYPES
from service.engine.waves import Waves
from tests.oracles.exactness import rounded_once

f32 = np.float32


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1.5])
@pytest.mark.parametrize("dim", [2, 34, 80, 128])
def test_power_form_frequencies(base: float, dim: int) -> None:
    got = float32_frequencies(base, dim, dim // 2)
    assert got.dtype == np.float32
    assert got.shape == (dim // 2,)
    for k, frequency in enumerate(got):
        exponent = f32(2 * k) / f32(dim)
        power = f32(rounded_once(mpf(base) ** mpf(float(exponent)), "float32"))
        assert frequency == f32(1) / power


@pytest.mark.parametrize("dim", [34, 128])
def test_exp_log_form_frequencies(dim: int) -> None:
    slope = f32(-rounded_once(mpmath.log(10000), "float64") / dim)
    for k, frequency in enumerate(float32_frequencies(10000.0, dim, dim // 2, form="exp-log")):
        exponent = f32(2 * k) * slope
        assert frequency == rounded_once(mpmath.exp(mpf(float(exponent))), "float32")


def test_the_forms_differ_by_a_few_ulp() -> None:
    power, exp_log = (float32_frequencies(10000.0, 128, 64, form=form) for form in ("power", "exp-log"))
    ulps = np.abs(power.view(np.int32) - exp_log.view(np.int32))
    assert 1 <= ulps.max() <= 16


def test_count_asks_for_more_or_fewer() -> None:
    assert np.array_equal(float32_frequencies(10000.0, 7, 4)[:3], float32_frequencies(10000.0, 7, 3))
    assert float32_frequencies(10000.0, 7, 4).shape == (4,)


@pytest.mark.parametrize("dim", [34, 128])
def test_ggml_angles_are_a_running_product(dim: int) -> None:
    positions = np.array([0.0, 1.0, 131071.0, 2.0**24 + 1])
    exponent = f32(-2) / f32(dim)
    ratio = f32(rounded_once(mpf(10000) ** mpf(float(exponent)), "float32"))
    angles = ggml_angles(10000.0, dim, positions)
    assert angles.dtype == np.float32
    for i, position in enumerate(positions):
        theta = f32(position)
        for k in range(dim // 2):
            assert angles[i, k] == theta
            theta = f32(theta * ratio)


@pytest.mark.parametrize("dtype", DTYPES)
def test_float32_angles_are_rounded_to_float32_and_then_cast(dtype: str) -> None:
    angles = np.random.default_rng(2).uniform(-131072, 131072, (40, 6)).astype(np.float32)
    sin, cos = (np.empty((40, 6), DTYPES[dtype]) for _ in range(2))
    write_float32(angles, sin, cos)
    for index in np.ndindex(40, 6):
        cosine, sine = mpmath.cos_sin(mpf(float(angles[index])))
        for got, exact in ((sin, sine), (cos, cosine)):
            assert float(got[index]) == rounded_once(mpf(rounded_once(exact, "float32")), dtype)


def test_either_wave_may_be_left_out() -> None:
    angles = np.linspace(0, 9, 12, dtype=np.float32).reshape(4, 3)
    both = np.empty((2, 4, 3), np.float32)
    alone = np.empty((2, 4, 3), np.float32)
    write_float32(angles, both[0], both[1])
    write_float32(angles, alone[0], None)
    write_float32(angles, None, alone[1])
    assert np.array_equal(both, alone)


def test_numpys_sines_are_near_enough_to_serve_as_guesses() -> None:
    """The bound that `write_float32` relies on, with a factor of 4 to spare, for angles of every size."""
    random = np.random.default_rng(11)
    magnitudes = 2.0 ** random.uniform(-30, 53, 40_000)
    angles = (magnitudes * random.choice([-1.0, 1.0], magnitudes.size)).astype(np.float32).astype(np.float64)
    near_zeros = (np.arange(1, 20_001) * (np.pi / 2)).astype(np.float32).astype(np.float64)
    angles = np.concatenate([angles, near_zeros])
    exact = np.empty((2, angles.size, 1))
    Waves(Reals.of([1])).write(angles, exact[0], exact[1])
    assert np.abs(np.sin(angles) - exact[0, :, 0]).max() < GUESS_ERROR / 4
    assert np.abs(np.cos(angles) - exact[1, :, 0]).max() < GUESS_ERROR / 4


def test_numpys_sines_of_angles_beyond_every_position() -> None:
    random = np.random.default_rng(12)
    angles = (2.0 ** random.uniform(53, 116, 2_000)).astype(np.float32).astype(np.float64)
    exact = np.empty((2, angles.size, 1))
    Waves(Reals.of([2.0**64])).write(angles / 2.0**64, exact[0], exact[1])
    assert np.abs(np.sin(angles) - exact[0, :, 0]).max() < GUESS_ERROR / 4
    assert np.abs(np.cos(angles) - exact[1, :, 0]).max() < GUESS_ERROR / 4


def test_every_float32_sine_is_rounded_once_whatever_the_guess() -> None:
    angles = np.random.default_rng(12).uniform(-1e5, 1e5, (300, 7)).astype(np.float32)
    exact = np.empty((2, angles.size, 1), np.float32)
    Waves(Reals.of([1])).write(angles.reshape(-1).astype(np.float64), exact[0], exact[1])
    sin, cos = np.empty_like(angles), np.empty_like(angles)
    write_float32(angles, sin, cos)
    assert np.array_equal(sin.reshape(-1), exact[0, :, 0])
    assert np.array_equal(cos.reshape(-1), exact[1, :, 0])


@pytest.mark.parametrize("largest", [2.0**53, 2.0**90, 2.0**116])
def test_angles_that_numpys_sine_leaves_undecided(monkeypatch: pytest.MonkeyPatch, largest: float) -> None:
    """All of them, if its error were that large."""
    monkeypatch.setattr("service.engine.numbers.single.GUESS_ERROR", 0.5)
    angles = np.array([[largest, 3.0, largest / 3, -largest / 7, 1e-3, 0.0]], np.float32)
    sin, cos = np.empty((2, 1, 6), np.float32)
    write_float32(angles, sin, cos)
    with mpmath.workprec(400):
        waves = [mpmath.cos_sin(mpf(float(angle))) for angle in angles[0]]
    assert sin[0].tolist() == [rounded_once(sine, "float32") for _, sine in waves]
    assert cos[0].tolist() == [rounded_once(cosine, "float32") for cosine, _ in waves]
