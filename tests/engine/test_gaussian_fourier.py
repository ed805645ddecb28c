"""Gaussian Fourier features: exact for their weights, drawn or brought."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine import by_key
from service.engine.encodings import gaussian_fourier
from service.engine.numbers.random_numbers import normal
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, real
from tests.oracles.oracle_sinusoidal import arranged

GAUSSIAN = "encodings/gaussian-fourier"
POINTS = np.array([[0.1, -0.2, 3.0], [1.0, -1.0, 0.5], [0.0, 0.0, 0.0], [1e3, 1e-3, 7.0]])


def features(points: Array, weights: Array, scale: float, layout: str, per_half_turn: int) -> list[Any]:
    rows = []
    with mpmath.workprec(PRECISION_BITS):
        for point in points.tolist():
            dots = [
                sum(Fraction(x) * Fraction(w) for x, w in zip(point, column, strict=True))
                for column in weights.T.tolist()
            ]
            halves = [real(dot * Fraction(scale) * per_half_turn) for dot in dots]
            rows.append(arranged([mpmath.sinpi(h) for h in halves], [mpmath.cospi(h) for h in halves], layout))
    return rows


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("layout", ["sin-cos", "cos-sin", "interleaved"])
def test_points_are_rounded_once(dtype: str, layout: str) -> None:
    asked = {"dim": 10, "seed": 5, "scale": 10.5, "coordinates": "last-axis", "layout": layout, "dtype": dtype}
    got = only(GAUSSIAN, {"positions": POINTS}, **asked)
    assert_rounded_once(got, features(POINTS, normal(5, range(3), 5), 10.5, layout, 2), dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_times_are_rounded_once(dtype: str) -> None:
    got = only(GAUSSIAN, offset=-3, length=9, dim=6, seed=8, angle_factor="pi", dtype=dtype)
    times = np.arange(-3, 6, dtype=np.float64)[:, None]
    assert_rounded_once(got, features(times, normal(8, range(1), 3), 1, "sin-cos", 1), dtype)


def test_weights_of_the_body() -> None:
    weights = normal(5, range(3), 5)
    drawn = only(GAUSSIAN, {"positions": POINTS}, dim=10, seed=5, coordinates="last-axis")
    brought = only(GAUSSIAN, {"positions": POINTS, "weights": weights}, dim=10, coordinates="last-axis")
    np.testing.assert_array_equal(brought, drawn)
    line = only(GAUSSIAN, {"positions": POINTS, "weights": weights[0]}, dim=10)
    assert line.shape == (4, 3, 10)
    np.testing.assert_array_equal(line, only(GAUSSIAN, {"positions": POINTS}, dim=10, seed=5))


def test_the_weights_themselves() -> None:
    got = only(GAUSSIAN, dim=10, seed=5, output="weights", dtype="float64")
    np.testing.assert_array_equal(got, normal(5, range(1), 5))
    points = {"coordinates": "last-axis", "output": "weights", "dtype": "float64"}
    np.testing.assert_array_equal(
        only(GAUSSIAN, {"positions": POINTS}, dim=10, seed=5, **points), normal(5, range(3), 5)
    )


@pytest.mark.parametrize(
    ("parameters", "arrays", "named", "code"),
    [
        ({"dim": 7, "seed": 1}, {}, "dim", "odd"),
        ({"dim": 4}, {}, "seed", "missing"),
        ({"dim": 4, "seed": 1}, {"weights": np.ones(2)}, "seed", "conflict"),
        ({"dim": 4}, {"weights": np.ones(3)}, "/tensors/weights", "shape"),
        ({"dim": 4}, {"weights": np.ones((1, 2))}, "/tensors/weights", "shape"),
        ({"dim": 4}, {"weights": np.array([True, False])}, "/tensors/weights", "type"),
        ({"dim": 4}, {"weights": np.array([1.0, np.inf])}, "/tensors/weights", "out_of_range"),
        ({"dim": 4}, {"weights": np.array([1.0, np.nan])}, "/tensors/weights", "out_of_range"),
        ({"dim": 4}, {"weights": np.array([1.0, 1e-200])}, "/tensors/weights", "out_of_range"),
        ({"dim": 4, "scale": 1e9}, {"weights": np.array([1.0, 2.0**50])}, "scale", "out_of_range"),
        ({"dim": 4, "output": "weights", "dtype": "float16"}, {"weights": np.array([1, 1e6])}, "dtype", "out_of_range"),
        ({"dim": 4, "seed": 1, "coordinates": "last-axis"}, {}, "coordinates", "shape"),
    ],
)
def test_refusals_name_the_parameter(
    parameters: dict[str, object], arrays: dict[str, Array], named: str, code: str
) -> None:
    fault = refused(GAUSSIAN, {"positions": np.array([1.0]), **arrays}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize(
    ("coordinates", "dim", "said"),
    [
        (4096, 65536, "points of 4096 coordinates have 134217728 weights then, of 262144 at most: dim=128 or fewer"),
        (64, 8194, "points of 64 coordinates have 262208 weights then, of 262144 at most: dim=8192 or fewer"),
        (262145, 2, "points of 262145 coordinates have 262145 weights then, of 262144 at most: fewer coord"),
    ],
)
@pytest.mark.parametrize("brought", [False, True])
def test_more_weights_than_are_prepared_are_refused_before_one_is_drawn(
    coordinates: int, dim: int, said: str, brought: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaussian_fourier, "normal", None)
    points = {"positions": np.zeros((2, coordinates))}
    given: dict[str, Any] = {"dim": dim, "coordinates": "last-axis"} | ({} if brought else {"seed": 1})
    weights = {"weights": np.zeros((1, 1))} if brought else {}
    fault = refused(GAUSSIAN, points | weights, **given)
    assert (fault.parameter, fault.code, fault.limit) == ("dim", "too_large", 2**18)
    assert said in fault.detail


def test_the_memory_of_prepared_weights_grows_with_the_coordinates() -> None:
    scheme = by_key("encodings", "gaussian-fourier")
    params = scheme.params(dim=8192, seed=1, coordinates="last-axis")
    assert scheme.state_bytes(params, {"positions": np.zeros((1, 64))}) == 64 * 4096 * 512
    assert scheme.state_bytes(params, {"positions": np.zeros((1, 1))}) == 4096 * 24576
