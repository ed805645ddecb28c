"""DETR's sine encoding of points and boxes against loops at a hundred digits, and the steps of its float32 code."""

from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine import by_key
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, ulps_apart
from tests.oracles.oracle_grids import boxes

ADDRESS = "encodings/detr-boxes"
SHARES: Array = np.concatenate([np.random.default_rng(2).random((5, 4)), [[0, 1, -0.5, 3.25]]])


def two_pi() -> Any:
    with mpmath.workprec(PRECISION_BITS):
        return 2 * mpmath.pi()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("coordinates", [1, 2, 4])
def test_every_value_is_rounded_once(dtype: str, coordinates: int) -> None:
    shares = SHARES[:, :coordinates]
    given = shares.tolist() if coordinates > 1 else [[own, own] for own in shares[:, 0].tolist()]
    exact = boxes(given, 6, two_pi())
    got = only(ADDRESS, {"positions": shares}, dim=6, dtype=dtype)
    assert_rounded_once(got, exact if coordinates > 1 else [row[:6] for row in exact], dtype)
    scaled = boxes(given, 6, 0.3, y_first=False)
    got = only(ADDRESS, {"positions": shares}, dim=6, dtype=dtype, scale=0.3, coordinate_order="as-given")
    assert_rounded_once(got, scaled if coordinates > 1 else [row[:6] for row in scaled], dtype)


def test_orders_and_shapes() -> None:
    got = only(ADDRESS, {"positions": SHARES}, dim=4)
    assert got.shape == (6, 16)
    np.testing.assert_array_equal(only(ADDRESS, {"positions": SHARES.reshape(2, 3, 4)}, dim=4), got.reshape(2, 3, 16))
    np.testing.assert_array_equal(only(ADDRESS, {"positions": SHARES[3]}, dim=4), got[3])
    as_given = only(ADDRESS, {"positions": SHARES}, dim=4, coordinate_order="as-given")
    np.testing.assert_array_equal(got, as_given[:, [*range(4, 8), *range(4), *range(8, 16)]])
    halves = only(ADDRESS, {"positions": SHARES}, dim=4, layout="cos-sin")
    np.testing.assert_array_equal(halves[:, :4], got[:, [1, 3, 0, 2]])


@pytest.mark.parametrize(("dim", "base", "scale"), [(128, 10000, None), (68, 20, 1.5)])
def test_float32_takes_the_steps_of_model_code(dim: int, base: float, scale: float | None) -> None:
    got = only(ADDRESS, {"positions": SHARES}, dim=dim, base=base, scale=scale, arithmetic="float32")
    powers = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    periods = np.power(base, powers.astype(np.float64)).astype(np.float32)
    scaled = SHARES.astype(np.float32)[:, [1, 0, 2, 3], None] * np.float32(scale or 6.283185307179586)
    angles = (scaled / periods).astype(np.float64)
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32).reshape(6, -1)
    assert ulps_apart(got, expected).max() <= 1


@pytest.mark.parametrize(
    ("positions", "parameters", "named", "code"),
    [
        (SHARES, {"dim": 7}, "dim", "indivisible"),
        (SHARES, {"base": 1e-19, "dim": 512, "scale": 1000.0}, "scale", "out_of_range"),
        (SHARES, {"base": 1e-19, "dim": 512}, "scale", "out_of_range"),
        (SHARES, {"base": 0.5, "arithmetic": "float32"}, "base", "out_of_range"),
        (np.array([[2.0**51, 0]]), {"arithmetic": "float32"}, "/positions", "out_of_range"),
        (np.zeros((2, 257)), {}, "/positions", "shape"),
        (np.zeros((0, 2)), {}, "/positions", "empty"),
        (np.array(0.5), {}, "/positions", "shape"),
        (np.array([[0.5, np.inf]]), {}, "/positions/0/1", "out_of_range"),
    ],
    ids=str,
)
def test_refusals_name_what_is_wrong(positions: Array, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ADDRESS, {"positions": positions}, **{"dim": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_what_is_said() -> None:
    scheme = by_key("encodings", "detr-boxes")
    assert scheme.notes(scheme.params(dim=8), {}) == []
    assert "float32" in scheme.notes(scheme.params(dim=8, arithmetic="float32"), {})[0]
    assert scheme.state_bytes(scheme.params(dim=8), {}) > 0
