"""Timestep embeddings against loops at a hundred digits, and the steps of their float32 code."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS, ulps_apart
from tests.oracles.oracle_sinusoidal import encoding

TIMESTEP = "encodings/timestep"
TIMES = (0.0, 0.5, 10.0, 981.0, 999.25, -3.0, 2.0**40 + 1)


def steps(times: tuple[float, ...], dim: int, shift: float, scale: float, base: float) -> Array:
    """The library's own steps in float32, exponentials in float64 and rounded: sines, then cosines."""
    half = dim // 2
    exponents = np.float32(-np.log(base)) * np.arange(half, dtype=np.float32) / np.float32(half - shift)
    w = np.exp(exponents.astype(np.float64)).astype(np.float32)
    angles = np.float32(scale) * (np.array(times, np.float32)[:, None] * w)
    wide = angles.astype(np.float64)
    return np.concatenate([np.sin(wide), np.cos(wide)], axis=1).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("layout", ["sin-cos", "cos-sin"])
@pytest.mark.parametrize(("dim", "shift", "scale"), [(8, 1, 1), (9, 0, 1000), (5, 0.5, 0.3), (34, 1, 1e-3)])
def test_every_value_is_rounded_once(dtype: str, layout: str, dim: int, shift: float, scale: float) -> None:
    got = only(TIMESTEP, positions=TIMES, dim=dim, layout=layout, frequency_shift=shift, scale=scale, dtype=dtype)
    exact = [
        encoding(Fraction(time) * Fraction(scale), dim, 10000, layout, odd_width="zero-column", frequency_shift=shift)
        for time in TIMES
    ]
    assert_rounded_once(got, exact, dtype)


def test_a10_shift_and_order() -> None:
    sines_first = [-0.54402111, 0.44767083, 0.02154268, 0.001, -0.83907153, 0.89419843, 0.99976793, 0.9999995]
    close(only(TIMESTEP, positions=(10,), dim=8, dtype="float64")[0], sines_first)
    flipped = [-0.83907153, 0.54030231, 0.99500417, 0.99995, -0.54402111, 0.84147098, 0.09983342, 0.00999983]
    got = only(TIMESTEP, positions=(10,), dim=8, dtype="float64", layout="cos-sin", frequency_shift=0)
    close(got[0], flipped)


def test_a13_exact_and_as_the_library_prints_it() -> None:
    asked = {"positions": (981,), "dim": 320, "layout": "cos-sin", "frequency_shift": 0}
    columns = [0, 1, 2, 159, 160, 161, 162, 319]
    exact = [0.67995719, -0.79843003, 0.57808815, 0.99460592, 0.73325181, 0.6020876, 0.81597432, 0.10372589]
    close(only(TIMESTEP, dtype="float64", **asked)[0, columns], exact)
    # The library's exponential is one ulp off there, which is one ulp of an angle of 874: 6.1e-5.
    close(only(TIMESTEP, arithmetic="float32", **asked)[0, 2], 0.57806414, 6.2e-5)


@pytest.mark.parametrize(("dim", "shift", "scale", "base"), [(8, 1, 1, 1e4), (320, 0, 1000, 1e4), (66, 0.5, 0.3, 500)])
def test_float32_takes_the_librarys_steps(dim: int, shift: float, scale: float, base: float) -> None:
    times = (0.0, 0.5, 981.0, 12.0)
    got = only(TIMESTEP, positions=times, dim=dim, frequency_shift=shift, scale=scale, base=base, arithmetic="float32")
    assert ulps_apart(got, steps(times, dim, shift, scale, base)).max() <= 1
    counted = only(TIMESTEP, length=13, dim=dim, frequency_shift=shift, scale=scale, base=base, arithmetic="float32")
    np.testing.assert_array_equal(counted[12], got[3])


def test_an_odd_width_ends_in_zeros() -> None:
    got = only(TIMESTEP, length=3, dim=7, arithmetic="float32", layout="cos-sin", dtype="bfloat16")
    even = only(TIMESTEP, length=3, dim=6, arithmetic="float32", layout="cos-sin", dtype="bfloat16")
    np.testing.assert_array_equal(got, np.pad(even, ((0, 0), (0, 1))))


def test_the_float32_steps_are_announced() -> None:
    scheme = by_key("encodings", "timestep")
    assert scheme.notes(scheme.params(dim=4, length=1), {}) == []
    assert "float32" in scheme.notes(scheme.params(dim=4, length=1, arithmetic="float32"), {})[0]


@pytest.mark.parametrize(
    ("parameters", "named", "says"),
    [
        ({"dim": 8, "frequency_shift": 4}, "frequency_shift", "below 4"),
        ({"dim": 2}, "frequency_shift", "frequency_shift is 1, and dim 2: it must be below 1, or dim 4 or more"),
        ({"dim": 3, "frequency_shift": 2.5}, "frequency_shift", "below 1, or dim 6 or more"),
        ({"dim": 1, "frequency_shift": 0}, "dim", "2 or more"),
        ({"dim": 8, "base": 1e-19, "scale": 1e9, "frequency_shift": 0}, "scale", "2^63"),
        ({"dim": 8, "base": 0.5, "arithmetic": "float32"}, "base", "1 or more"),
        ({"dim": 8, "scale": 1e9, "offset": 2**40, "arithmetic": "float32"}, "scale", "2^53 at most"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, says: str) -> None:
    fault = refused(TIMESTEP, **{"length": 2, **parameters})
    assert (fault.parameter, fault.code) == (named, "out_of_range")
    assert says in fault.detail


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("dim", "shortest", "longest", "scale"), [(8, 4e-3, 4.0, 1), (7, 3.0, 1e4, 0.3), (2, 9.0, 0.5, 1)]
)
def test_periods_are_rounded_once(dtype: str, dim: int, shortest: float, longest: float, scale: float) -> None:
    asked = {"dim": dim, "min_period": shortest, "max_period": longest, "scale": scale, "dtype": dtype}
    got = only(TIMESTEP, positions=TIMES, **asked)
    half = dim // 2
    with mpmath.workprec(PRECISION_BITS):
        ratio = mpf(longest) / mpf(shortest)
        periods = [mpf(shortest) * ratio ** (mpf(k) / max(half - 1, 1)) for k in range(half)]
        rows = []
        for time in TIMES:
            halves = [mpf(scale) * mpf(time) * 2 / period for period in periods]
            rows.append([*map(mpmath.sinpi, halves), *map(mpmath.cospi, halves), *[mpf(0)] * (dim % 2)])
        assert_rounded_once(got, rows, dtype)


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"min_period": 1.0}, "max_period", "missing"),
        ({"max_period": 1.0}, "min_period", "missing"),
        ({"min_period": 1.0, "max_period": 4.0, "arithmetic": "float32"}, "arithmetic", "conflict"),
        ({"min_period": 1.0, "max_period": 4.0, "dim": 1}, "dim", "out_of_range"),
    ],
)
def test_periods_refuse(parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(TIMESTEP, **{"length": 3, "dim": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_diffusers_longest_period_is_a_base() -> None:
    fault = refused(TIMESTEP, length=3, dim=8, max_period=5000.0)
    assert fault.detail.endswith("; diffusers' max_period alone is base=5000 here")
    assert "diffusers" not in refused(TIMESTEP, length=3, dim=8, min_period=1.0).detail


def test_periods_leave_no_base() -> None:
    scheme = by_key("encodings", "timestep")
    asked = {"length": 3, "dim": 8, "min_period": 1.0, "max_period": 4.0}
    assert scheme.notes(scheme.params(**asked), {}) == []
    said = scheme.notes(scheme.params(**asked, base=500.0, frequency_shift=0.0), {})
    assert [note.split()[0] for note in said] == ["base", "frequency_shift"]
