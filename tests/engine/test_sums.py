"""Sines of sums of products, and lines, against a hundred digits."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine.numbers.reals import Reals, angle_factor
from service.engine.numbers.sums import Sums, write_line
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once
from tests.oracles.exact import PRECISION_BITS, real, rounded

RANDOM = np.random.default_rng(23)
VARIABLES = np.concatenate(
    [
        RANDOM.standard_normal((40, 3)),
        RANDOM.standard_normal((6, 3)) * 1e-25,
        RANDOM.standard_normal((6, 3)) * [2.0**50, 1, 1e-9],
        [[0, 0, 0], [1, -0.5, 0], [2, -1, 0], [3, 1, 3.5], [2.0**53, -(2.0**52), 0], [1, -0.5, 1e-30]],
    ]
)
WEIGHTS = [[1.0, 0.3, -7.25, 1e-12], [2.0, -1.5, 100.0, 1.0], [0.0, 0.25, 1e5, 3.0]]


def waves(weights: list[list[float]], variables: Any, factor: str) -> tuple[list[Any], list[Any]]:
    rows: tuple[list[Any], list[Any]] = ([], [])
    with mpmath.workprec(PRECISION_BITS):
        for row in variables.tolist():
            sums = [sum(Fraction(x) * Fraction(w[k]) for x, w in zip(row, weights, strict=True)) for k in range(4)]
            for out, sine in zip(rows, (True, False), strict=True):
                if factor == "pi":
                    out.append([(mpmath.sinpi if sine else mpmath.cospi)(real(total)) for total in sums])
                else:
                    out.append([(mpmath.sin if sine else mpmath.cos)(real(total)) for total in sums])
    return rows


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("factor", ["one", "pi"])
def test_every_value_is_rounded_once(dtype: str, factor: str) -> None:
    sums = Sums([Reals.of(row) * angle_factor(factor) for row in WEIGHTS])
    sines, cosines = (np.empty((len(VARIABLES), 4), DTYPES[dtype]) for _ in range(2))
    sums.write(VARIABLES, sines, cosines)
    for got, exact in zip((sines, cosines), waves(WEIGHTS, VARIABLES, factor), strict=True):
        assert_rounded_once(got, exact, dtype)


def test_terms_that_cancel_leave_zero() -> None:
    sums = Sums([Reals.of([2.0, 0.1]) * angle_factor("pi"), Reals.of([1.0, 0.2]) * angle_factor("pi")])
    sines = np.empty((1, 2), np.float64)
    sums.write(np.array([[0.7, -1.4]]), sines, None)
    assert sines[0, 0] == 0
    only_cosines = np.empty((1, 2), np.float64)
    sums.write(np.array([[0.7, -1.4]]), None, only_cosines)
    assert only_cosines[0, 0] == 1


@pytest.mark.parametrize(
    ("weights", "factor", "variables", "dtype", "right"),
    [
        ([1.0, -1.0, 1.0], 1, [1.0, 1.0, 1e-80], "float64", 1e-80),
        ([2.0**50, -(2.0**50), 1.0], 1, [2.0**53, 2.0**53, 2.0**-147], "float32", 2.0**-147),
        ([2.0**30, -(2.0**30), 1.0], 1e9, [2.0**53, 2.0**53, 1e-52], "float32", 1e-43),
        ([1.0, -1.0, 1.0], "two-pi", [1.0, 1.0, 1e-80], "float64", 6.283185307179586e-80),
        ([0.1, -0.1, 0.0], "two-pi", [3.0, 3.0, 1.0], "float64", 0.0),
    ],
)
def test_what_is_left_of_terms_that_cancel_is_no_noise(
    weights: list[float], factor: Any, variables: list[float], dtype: str, right: float
) -> None:
    scale = angle_factor(factor) if isinstance(factor, str) else factor
    terms = [Reals.of([weight]) * scale for weight in weights]
    sines = np.empty((1, 1), DTYPES[dtype])
    Sums(terms).write(np.array([variables]), sines, None)
    assert sines[0, 0] == DTYPES[dtype].type(right)


def test_terms_of_numbers_without_an_end_cancel_to_0() -> None:
    thirds = [Reals.of([Fraction(sign, 3)]) for sign in (1, -1)]
    sines = np.empty((1, 1))
    Sums(thirds).write(np.array([[7.0, 7.0]]), sines, None)
    assert sines[0, 0] == 0.0


def test_long_tables_are_written_in_blocks() -> None:
    sums = Sums([Reals.of([0.5] * 9000), Reals.of([0.25] * 9000)])
    variables = RANDOM.standard_normal((5, 2))
    whole, alone = np.empty((5, 9000), np.float32), np.empty((1, 9000), np.float32)
    sums.write(variables, whole, None)
    sums.write(variables[3:4], alone, None)
    np.testing.assert_array_equal(whole[3:4], alone)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_line_is_rounded_once(dtype: str) -> None:
    at = np.concatenate([RANDOM.standard_normal(500), [0.0, 1.0, 2.0**53, 3.0, -0.1, 1e-300, 1 + 2.0**-20]])
    for slope, height in [
        (0.1, 0.2),
        (0.5, 0.25),
        (-3.0, 9.0),
        (1e-290, 0.0),
        (0.0, -1.5),
        (1.0, -1.0),
        (1.0, 2.0**-30),
    ]:
        out = np.empty(len(at), DTYPES[dtype])
        write_line(at, slope, height, out)
        sums = [Fraction(x) * Fraction(slope) + Fraction(height) for x in at.tolist()]
        exact = np.array([rounded(total, dtype) for total in sums])
        keep = np.abs(exact) <= 60000
        np.testing.assert_array_equal(out.astype(np.float64)[keep], exact[keep])
        zero = np.array([total == 0 for total in sums])
        assert not np.signbit(out.astype(np.float64)[zero]).any()
