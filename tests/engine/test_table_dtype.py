"""`arithmetic=table-dtype`: frequencies, angles, cosines and sines in steps of the table's own number format."""

import math
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rounding import DTYPES
from service.engine.scheme import whole
from tests.engine.answers import Array, answer, refused

AXES, TURN = "encodings/rope-axes", "apply/rope-axes"
RULE: dict[str, Any] = {"sections": (5, 2), "frequencies": "per-axis", "arithmetic": "table-dtype"}
AT = np.array([[0, 0], [3, 1], [299, 40], [1023, 7]])


def by_steps(position: int, pair: int, pairs: int, dtype: str) -> tuple[Any, Any]:
    """cos and sin of one pair, each step by numpy's or ml_dtypes' own numbers of that format."""
    kind = DTYPES[dtype].type
    exponent = kind(pair) / kind(pairs)
    power = kind(np.float32(math.pow(float(kind(10_000)), float(exponent))))
    angle = kind(position) * (kind(1) / power)
    return kind(np.float32(math.cos(float(angle)))), kind(np.float32(math.sin(float(angle))))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_step_is_rounded(dtype: str) -> None:
    table = answer(AXES, {"positions": AT}, dim=14, columns="half", dtype=dtype, **RULE)
    for row, at in enumerate(AT.tolist()):
        expected = [by_steps(at[axis], pair, pairs, dtype) for axis, pairs in ((0, 5), (1, 2)) for pair in range(pairs)]
        assert table["cos"][row].tolist() == [cos for cos, _ in expected]
        assert table["sin"][row].tolist() == [sin for _, sin in expected]


@pytest.mark.parametrize(("dtype", "arithmetic"), [("float32", "float32"), ("float64", "exact")])
def test_wider_formats_are_the_arithmetics_there_are(dtype: str, arithmetic: str) -> None:
    own, other = (
        answer(AXES, {"positions": AT}, dim=14, dtype=dtype, **{**RULE, "arithmetic": each})
        for each in ("table-dtype", arithmetic)
    )
    assert {name: table.tobytes() for name, table in own.items()} == {n: t.tobytes() for n, t in other.items()}


def test_frequencies_and_angles_have_the_same_steps() -> None:
    frequencies = answer(AXES, dim=14, dtype="bfloat16", output="frequencies", **RULE)["frequencies"]
    angles = answer(AXES, {"positions": AT}, dim=14, dtype="bfloat16", output="angles", **RULE)["angles"]
    assert frequencies[0] == frequencies[5] == 1
    places = np.repeat(AT.astype(DTYPES["bfloat16"]), (5, 2), axis=1)
    assert np.array_equal(angles, places * frequencies)


@pytest.mark.parametrize("given", ["float16", "bfloat16", "float32"])
def test_vectors_turn_by_tables_of_their_own_format(given: str) -> None:
    q: Array = np.random.default_rng(3).standard_normal((4, 14)).astype(DTYPES[given])
    turned = answer(TURN, {"q": q, "positions": AT}, **RULE)["q"]
    table = answer(AXES, {"positions": AT}, dim=14, dtype=given, **RULE)
    partner = np.concatenate([-q[:, 7:], q[:, :7]], axis=1)
    assert turned.tobytes() == (q * table["cos"] + partner * table["sin"]).tobytes()


def test_a_negative_angle_has_the_other_sine() -> None:
    one, other = (answer(AXES, {"positions": AT}, dim=14, dtype="float16", angle_sign=sign, **RULE)["sin"]
                  for sign in ("positive", "negative"))  # fmt: skip
    assert np.array_equal(one, -other)
    assert one.any()


def test_it_is_said() -> None:
    scheme = by_key("encodings", "rope-axes")
    params = scheme.params(dim=14, grid=(2, 2), **RULE)
    assert any("table-dtype" in note for note in scheme.notes(params, {}))
    assert whole(scheme, params)["cos"].shape == (4, 14)


@pytest.mark.parametrize(
    ("more", "named", "said"),
    [
        ({"frequencies": "shared"}, "arithmetic", "frequencies per-axis"),
        ({"ntk_factor": (2.0,)}, "arithmetic", "no factors"),
        ({"base": 1e6, "dtype": "float16"}, "base", "65504 is the largest"),
        ({"base": 1e6, "dtype": "float16", "output": "frequencies"}, "base", "65504 is the largest"),
        ({"grid": (1, 70_000), "dtype": "float16"}, "arithmetic", "positions reach 70000"),
        ({"offset": -70_000, "dtype": "float16"}, "arithmetic", "ends at 65504"),
    ],
)
def test_what_the_format_does_not_hold_is_refused(more: dict[str, Any], named: str, said: str) -> None:
    fault = refused(AXES, **{"dim": 14, "grid": (1, 2), **RULE, **more})
    assert fault.parameter == named
    assert said in fault.detail


def test_positions_beyond_the_format_of_the_vectors_are_refused() -> None:
    inputs = {"q": np.ones((1, 14), np.float16), "positions": np.array([[65_600, 0]])}
    assert "positions reach 65600; float16" in refused(TURN, inputs, **RULE).detail
    assert answer(TURN, inputs | {"q": np.ones((1, 14), np.float32)}, **RULE)["q"].any()
