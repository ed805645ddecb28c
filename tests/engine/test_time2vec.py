"""Time2Vec: a line and sines, exact for their weights and phases."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine.numbers.random_numbers import normal, uniform
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, real

TIME2VEC = "encodings/time2vec"
TIMES = np.array([0.0, 1.0, -2.5, 0.1, 1e5, 1e-9])


def channels(times: Array, weights: Array, phases: Array, line: int, function: str = "sin") -> list[Any]:
    rows = []
    with mpmath.workprec(PRECISION_BITS):
        wave = getattr(mpmath, function)
        for t in times.tolist():
            pairs = zip(weights.tolist(), phases.tolist(), strict=True)
            angles = [real(Fraction(t) * Fraction(w) + Fraction(phi)) for w, phi in pairs]
            rows.append([angle if k == line else wave(angle) for k, angle in enumerate(angles)])
    return rows


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("linear", "line"), [("first", 0), ("last", 5)])
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_weights_of_the_body(dtype: str, linear: str, line: int, function: str) -> None:
    weights, phases = np.array([0.5, -1.25, 3.0, 0.0, 1e-12, 100.0]), np.array([0.25, 0.0, -3.0, 1.5, 0.0, -7.0])
    body = {"positions": TIMES, "weights": weights, "phases": phases}
    got = only(TIME2VEC, body, dim=6, linear=linear, function=function, dtype=dtype)
    assert_rounded_once(got, channels(TIMES, weights, phases, line, function), dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("distribution", "draw"), [("normal", normal), ("uniform", uniform)])
def test_weights_of_a_seed(dtype: str, distribution: str, draw: Any) -> None:
    weights, phases = draw(4, range(2), 5)
    got = only(TIME2VEC, offset=-3, length=8, dim=5, seed=4, distribution=distribution, dtype=dtype)
    assert_rounded_once(got, channels(np.arange(-3.0, 5.0), weights, phases, 0), dtype)
    drawn = only(TIME2VEC, dim=5, seed=4, distribution=distribution, output="weights", dtype="float64")
    np.testing.assert_array_equal(drawn, [weights, phases])


def test_the_origin_is_subtracted_first() -> None:
    year = 1704067200.0
    got = only(TIME2VEC, positions=tuple(year + TIMES[:3]), dim=5, seed=4, origin=year)
    np.testing.assert_array_equal(got, only(TIME2VEC, positions=tuple(TIMES[:3]), dim=5, seed=4))


def test_one_channel_is_the_line() -> None:
    body = {"positions": np.array([0, 1, 2]), "weights": np.array([3]), "phases": np.array([-1])}
    assert only(TIME2VEC, body, dim=1).tolist() == [[-1], [2], [5]]


@pytest.mark.parametrize(
    ("parameters", "arrays", "named", "code"),
    [
        ({"dim": 2}, {}, "seed", "missing"),
        ({"dim": 2, "seed": 1}, {"phases": np.ones(2)}, "seed", "conflict"),
        ({"dim": 2}, {"phases": np.ones(2)}, "/tensors/weights", "missing"),
        ({"dim": 2}, {"weights": np.ones(2)}, "/tensors/phases", "missing"),
        ({"dim": 2}, {"weights": np.ones(3), "phases": np.ones(2)}, "/tensors/weights", "shape"),
        ({"dim": 2}, {"weights": np.ones(2), "phases": np.ones((2, 1))}, "/tensors/phases", "shape"),
        ({"dim": 2, "seed": 1, "origin": 2.0**53}, {"positions": np.array([-4])}, "origin", "out_of_range"),
        (
            {"dim": 2, "dtype": "float16"},
            {"weights": np.array([1e6, 1]), "phases": np.ones(2)},
            "dtype",
            "out_of_range",
        ),
        (
            {"dim": 2, "dtype": "float16", "output": "weights"},
            {"weights": np.array([1, 1e6]), "phases": np.ones(2)},
            "dtype",
            "out_of_range",
        ),
    ],
)
def test_refusals_name_the_parameter(
    parameters: dict[str, object], arrays: dict[str, Array], named: str, code: str
) -> None:
    fault = refused(TIME2VEC, {"positions": np.array([1.0]), **arrays}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
