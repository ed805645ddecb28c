"""Fourier features in loops at a hundred digits."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS, real

FOURIER = "encodings/fourier"
POINTS = np.array([[0.3, -0.7], [1.0, 0.25], [0.0, 1e-20], [12.5, -1e6]])


def frequency(k: int, bands: int, spacing: str, parameter: float) -> mpf:
    if spacing == "octave":
        return mpf(2) ** k
    if spacing == "geometric":
        return real(parameter) ** (mpf(k) / bands)
    return mpf(1) if bands == 1 else 1 + k * (real(parameter) / 2 - 1) / (bands - 1)


def features(
    point: list[float], bands: int, layout: str, factor: str, spacing: str = "octave", parameter: float = 0
) -> list[Any]:
    """The row of one point."""
    with mpmath.workprec(PRECISION_BITS):
        times = {"one": mpf(1), "pi": mpmath.pi(), "two-pi": 2 * mpmath.pi()}[factor]

        # half a turn at a time where pi is a factor, so that zeros are zeros
        def wave(function: str, x: float, k: int) -> mpf:
            angle = real(x) * frequency(k, bands, spacing, parameter)
            if factor == "one":
                return getattr(mpmath, function)(angle)
            return getattr(mpmath, f"{function}pi")(angle * (1 if factor == "pi" else 2))

        assert times > 0
        if layout == "interleaved":
            return [wave(f, x, k) for k in range(bands) for f in ("sin", "cos") for x in point]
        order = ("sin", "cos") if layout == "sin-cos" else ("cos", "sin")
        return [wave(f, x, k) for f in order for x in point for k in range(bands)]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("layout", ["interleaved", "sin-cos", "cos-sin"])
@pytest.mark.parametrize("factor", ["one", "pi", "two-pi"])
def test_points_are_rounded_once(dtype: str, layout: str, factor: str) -> None:
    got = only(
        FOURIER,
        {"positions": POINTS},
        bands=3,
        coordinates="last-axis",
        layout=layout,
        angle_factor=factor,
        dtype=dtype,
    )
    assert_rounded_once(got, [features(point, 3, layout, factor) for point in POINTS.tolist()], dtype)


@pytest.mark.parametrize("bands", [1, 2, 7])
@pytest.mark.parametrize(
    ("spacing", "named"),
    [("linear", {"resolution": 224.0}), ("linear", {"resolution": 1.3}), ("geometric", {"base": 100.0})],
)
def test_spacings(bands: int, spacing: str, named: dict[str, float]) -> None:
    at = (0.3, -0.7, 1.0, 12.5)
    got = only(FOURIER, positions=at, bands=bands, spacing=spacing, layout="sin-cos", **named)
    (parameter,) = named.values()
    assert_rounded_once(got, [features([x], bands, "sin-cos", "pi", spacing, parameter) for x in at], "float32")


def test_h09_the_factor_and_the_input() -> None:
    with_pi = [0.809016994, 0.587785252, 0.951056516, -0.309016994, -0.587785252, -0.809016994]
    without = [0.295520207, 0.955336489, 0.564642473, 0.825335615, 0.932039086, 0.362357754]
    asked = {"positions": (0.3,), "bands": 3, "dtype": "float64"}
    close(only(FOURIER, **asked)[0], with_pi, 1e-9)
    close(only(FOURIER, angle_factor="one", **asked)[0], without, 1e-9)
    close(only(FOURIER, include_input="first", **asked)[0], [0.3, *with_pi], 1e-9)


def test_the_input_comes_first_rounded_once() -> None:
    bands = {"bands": 2, "include_input": "first", "dtype": "bfloat16"}
    points = only(FOURIER, {"positions": POINTS}, coordinates="last-axis", **bands)
    assert points.shape == (4, 2 + 8)
    plain = only(FOURIER, {"positions": POINTS}, coordinates="last-axis", bands=2, dtype="bfloat16")
    np.testing.assert_array_equal(points[:, 2:], plain)
    assert_rounded_once(points[:, :2], [[mpf(x) for x in point] for point in POINTS.tolist()], "bfloat16")
    counted = only(FOURIER, offset=-1, length=3, **bands)
    assert counted[:, 0].tolist() == [-1, 0, 1]
    assert counted[:, 1:].tolist() == [[0, -1, 0, 1], [0, 1, 0, 1], [0, -1, 0, 1]]


def test_axes() -> None:
    batch = np.zeros((2, 3, 4))
    assert only(FOURIER, {"positions": batch}, bands=1, coordinates="last-axis").shape == (2, 3, 8)
    assert only(FOURIER, {"positions": batch}, bands=1).shape == (2, 3, 4, 2)


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"spacing": "linear"}, "resolution", "missing"),
        ({"spacing": "geometric"}, "base", "missing"),
        ({"resolution": 8.0}, "resolution", "conflict"),
        ({"base": 8.0}, "base", "conflict"),
        ({"spacing": "linear", "resolution": 8.0, "base": 8.0}, "base", "conflict"),
        ({"bands": 62}, "bands", "out_of_range"),
        ({"bands": 4096}, "bands", "out_of_range"),
        ({"spacing": "geometric", "base": 1e30}, "base", "out_of_range"),
        ({"coordinates": "last-axis"}, "coordinates", "shape"),
        ({"include_input": "first", "dtype": "float16", "offset": 70000}, "dtype", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(FOURIER, **{"bands": 3, "length": 2, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_as_many_octaves_as_there_are() -> None:
    got = only(FOURIER, positions=(2.0**-61,), bands=61, dtype="float64")
    close(got[0, -2:], [1, 0], 0)
    assert Fraction(float(got[0, 0])) < Fraction(22, 7) / 2**61
