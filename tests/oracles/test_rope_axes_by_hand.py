"""Rotary tables on several axes by their definitions: to a hundred digits, and as llama.cpp multiplies them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine.scheme import Usage
from tests.clients import Client
from tests.oracles.answers import Array, asked, posted
from tests.oracles.exact import PRECISION_BITS, Real, real, rounded, rounded_rows, ulps_apart
from tests.oracles.usages import proves

ROPE_AXES = "/v1/encodings/rope-axes"
DTYPES = ("float16", "bfloat16", "float32", "float64")


class Definition(NamedTuple):
    """A rule by its definition: for pair k the axis that turns it, and its frequency."""

    parameters: dict[str, Any]
    axis: Callable[[int], int]
    frequency: Callable[[int], mpf]


def power(base: Real, exponent: Fraction) -> mpf:
    return real(base) ** real(exponent)


DEFINITIONS = {
    "chunked": Definition(
        {"dim": 20, "sections": [2, 3, 5], "base": 1e6},
        lambda k: 0 if k < 2 else 1 if k < 5 else 2,
        lambda k: power(1e6, Fraction(-2 * k, 20)),
    ),
    "interleaved": Definition(
        {"dim": 20, "sections": [5, 3, 2], "section_rule": "interleaved"},
        lambda k: k % 3 if k < 3 * [10, 3, 2][k % 3] else 0,
        lambda k: power(10000, Fraction(-2 * k, 20)),
    ),
    "spatial-first": Definition(
        {"dim": 22, "sections": [4, 4, 3], "section_rule": "spatial-first", "section_order": [1, 2, 0], "base": 5e5},
        lambda k: 0 if k >= 8 else 1 + k % 2,
        lambda k: power(5e5, Fraction(-2 * k, 22)),
    ),
    "interleaved-ggml": Definition(
        {"dim": 24, "sections": [5, 4, 3, 0], "section_rule": "interleaved-ggml"},
        lambda k: k % 3 if k < 3 * [5, 4, 3][k % 3] else 3,
        lambda k: power(10000, Fraction(-2 * k, 24)),
    ),
    "per-axis": Definition(
        {"dim": 20, "sections": [4, 3, 3], "frequencies": "per-axis", "base": 256, "ntk_factor": [2, 1, 1.5]},
        lambda k: 0 if k < 4 else 1 if k < 7 else 2,
        lambda k: power(
            real(256) * power([2, 1, 1.5][(k > 3) + (k > 6)], Fraction(8 if k < 4 else 6, 6 if k < 4 else 4)),
            Fraction(-k, 4) if k < 4 else Fraction(-((k - 4) % 3), 3),
        ),
    ),
    "strided": Definition(
        {"dim": 20, "sections": [5, 5], "frequencies": "strided"},
        lambda k: k // 5,
        lambda k: power(10000, Fraction(-2 * (2 * (k % 5) + k // 5), 20)),
    ),
    "alternating and per-axis": Definition(
        {"dim": 20, "sections": [5, 5], "section_rule": "alternating", "frequencies": "per-axis",
         "section_order": [1, 0]},
        lambda k: 1 - k % 2,
        lambda k: power(10000, Fraction(-(k // 2), 5)),
    ),
    "rising": Definition(
        {"dim": 24, "sections": [4, 4, 4], "section_rule": "alternating", "frequencies": "rising", "base": 500,
         "angle_factor": "pi"},
        lambda k: k % 3,
        lambda k: power(500, Fraction(k // 3, 3)) * mpmath.pi,
    ),
    "linear": Definition(
        {"dim": 20, "sections": [5, 5], "frequencies": "linear", "max_frequency": 112, "angle_factor": "two-pi",
         "interpolation_scale": [2.5, 1]},
        lambda k: k // 5,
        lambda k: (1 + real(Fraction(111, 4)) * (k % 5)) * 2 * mpmath.pi / (real(2.5) if k < 5 else 1),
    ),
}  # fmt: skip


def places(axes: int) -> Array:
    random = np.random.default_rng(axes)
    near, real_numbers = random.integers(-50, 5000, (3, axes)), random.standard_normal((2, axes)) * 100
    return np.concatenate([near, real_numbers, np.full((1, axes), 2.0**40 + 1)])


def exact_zeros(values: Array) -> Array:
    """What is 0 for a hundred digits is 0: mpmath's pi ends somewhere, so that its sin(pi) is not."""
    return np.where(np.abs(values) < 1e-60, 0, values)


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    return {name: [float(n) for n in value] if name == "ntk_factor" else value for name, value in given.items()}


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_value_is_the_real_number_rounded_once(direct: Client, name: str, dtype: str) -> None:
    definition = DEFINITIONS[name]
    given = parameters(definition.parameters)
    pairs, axes = given["dim"] // 2, len(given["sections"])
    at = places(axes)
    got = posted(direct, ROPE_AXES, {"positions": at}, **given, columns="half", dtype=dtype)
    with mpmath.workprec(PRECISION_BITS):
        angles = [[real(float(row[definition.axis(k)])) * definition.frequency(k) for k in range(pairs)] for row in at]
        waves = {"cos": [[mpmath.cos(angle) for angle in row] for row in angles],
                 "sin": [[mpmath.sin(angle) for angle in row] for row in angles]}  # fmt: skip
        for wave, exact in waves.items():
            expected = exact_zeros(rounded_rows(exact, dtype))
            apart = ulps_apart(got[wave], expected, "float64") if dtype == "float64" else got[wave] != expected
            assert apart.max() <= (1 if dtype == "float64" else 0)


def test_patch_centres_are_not_rounded_before_their_cosines(direct: Client) -> None:
    """DINOv3 at 3 patches: (2i + 1)/3 - 1 is no binary fraction, and 2 pi times it has exact zeros and ones."""
    got = asked(direct, ROPE_AXES, dim=8, sections=[2, 2], frequencies="per-axis", base=100, grid=[3, 8],
                coordinates="unit-centres", angle_factor="two-pi", columns="half")  # fmt: skip
    with mpmath.workprec(PRECISION_BITS):
        rows = []
        for row in range(3):
            for column in range(8):
                coordinates = real(Fraction(2 * row + 1, 3) - 1), real(Fraction(2 * column + 1, 8) - 1)
                turns = [coordinates[k // 2] * power(100, Fraction(-(k % 2), 2)) for k in range(4)]
                rows.append([mpmath.cos(2 * mpmath.pi * turn) for turn in turns])
        expected = exact_zeros(rounded_rows(rows, "float32"))
    assert np.array_equal(got["cos"], expected)


# llama.cpp: every axis has a running float32 product, and each pair takes the one of its sector


def ratio(base: float, width: int) -> np.float32:
    with mpmath.workprec(PRECISION_BITS):
        exponent = real(float(np.float32(-2) / np.float32(width)))
        return np.float32(rounded(real(base) ** exponent, "float32"))


def running(start: Sequence[int], base: float, width: int, pairs: int, restart: int) -> Array:
    """theta of each axis at each pair, (pairs, axes); with `restart` it begins anew at every so many pairs."""
    scale, rows = ratio(base, width), []
    theta = np.array(start, np.float32)
    for pair in range(pairs):
        if restart and pair % restart == 0:
            theta = np.array(start, np.float32)
        rows.append(theta)
        theta = theta * scale
    return np.array(rows)


def mrope(pair: int) -> int:
    return 0 if pair < 16 else 1 if pair < 40 else 2


def imrope(pair: int) -> int:
    for axis, section in enumerate((24, 20, 20)):
        if pair % 3 == axis and pair < 3 * section:
            return axis
    return 3


GGML: dict[str, tuple[Callable[[int], int], int, float, int, int]] = {
    # axis of a pair, number of axes, base, n_dims, pairs of a section where the angle begins anew
    "ggml-mrope": (mrope, 3, 1e6, 128, 0),
    "ggml-imrope": (imrope, 4, 5e6, 128, 0),
    "ggml-vision": (lambda pair: pair // 20, 2, 1e4, 40, 20),
}


@proves("encodings/rope-axes", GGML)
def test_ggml(direct: Client, usage: Usage, oracle: tuple[Callable[[int], int], int, float, int, int]) -> None:
    axis, axes, base, width, restart = oracle
    pairs = int(usage.parameters["dim"]) // 2
    at = np.random.default_rng(1).integers(0, 5000, (6, axes))
    got = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset, columns="half")
    angles = np.array(
        [[running(row, base, width, pairs, restart)[k, axis(k)] for k in range(pairs)] for row in at.tolist()]
    )
    for name, wave in {"cos": np.cos, "sin": np.sin}.items():
        assert ulps_apart(got[name], wave(angles.astype(np.float64)).astype(np.float32)).max() <= 1


def test_imrope_gives_its_last_pairs_to_the_fourth_axis(direct: Client) -> None:
    """Where transformers gives pairs 61 and 62 to time, llama.cpp gives them to an axis that callers leave at 0."""
    at = np.array([[9, 5, 7, 0]])
    theirs = posted(direct, ROPE_AXES, {"positions": at}, preset="ggml-imrope", arithmetic="exact", output="angles")
    ours = posted(direct, ROPE_AXES, {"positions": at[:, :3]}, preset="qwen3-vl", output="angles")
    assert np.flatnonzero(theirs["angles"][0] != ours["angles"][0]).tolist() == [61, 62]
    assert theirs["angles"][0, [61, 62]].tolist() == [0, 0]
