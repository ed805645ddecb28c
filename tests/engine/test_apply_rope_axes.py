"""RoPE on several axes applied: the rotation of the tables, norms, positions of batches, and refusals."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, answer, close, only, refused

APPLY = "apply/rope-axes"
RANDOM = np.random.default_rng(5)
Q, K = RANDOM.standard_normal((2, 6, 5, 16)), RANDOM.standard_normal((2, 3, 5, 16))
AT = RANDOM.integers(0, 60, (5, 3))
RULE: dict[str, Any] = {"sections": (4, 2, 2), "section_rule": "interleaved", "dtype": "float64"}


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_pairs_turn_by_their_tables(pairing: str) -> None:
    turned = answer(APPLY, {"q": Q, "k": K, "positions": AT}, **RULE, pairing=pairing)
    tables = answer("encodings/rope-axes", {"positions": AT}, dim=16, **RULE, columns="half")
    first = slice(0, 8) if pairing == "half" else slice(0, 16, 2)
    second = slice(8, 16) if pairing == "half" else slice(1, 16, 2)
    for name, x in (("q", Q), ("k", K)):
        expected = np.empty(x.shape)
        expected[..., first] = x[..., first] * tables["cos"] - x[..., second] * tables["sin"]
        expected[..., second] = x[..., second] * tables["cos"] + x[..., first] * tables["sin"]
        close(turned[name], expected, 1e-15)


def test_equal_axes_are_rope_on_one_axis_to_the_bit() -> None:
    positions = np.array([0, 1, 7, 257, 4095])
    several = only(APPLY, {"q": Q, "positions": np.repeat(positions[:, None], 3, axis=1)}, **RULE)
    one = only("apply/rope", {"q": Q, "positions": positions}, dtype="float64")
    assert several.tobytes() == one.tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_back_again(dtype: str) -> None:
    rule = RULE | {"dtype": dtype}
    there = only(APPLY, {"q": Q, "positions": AT}, **rule)
    back = only(APPLY, {"q": there, "positions": AT}, **rule, direction="inverse")
    within = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-5, "float64": 1e-14}[dtype]
    close(back, Q, within)
    assert there.dtype.name == dtype


def test_a_shift_is_a_turn_by_the_difference() -> None:
    positions, moves = RANDOM.integers(0, 99, (2, 5, 3))
    there = only("apply/rope-axes", {"q": Q, "positions": positions}, **RULE)
    moved = only("apply/rope-axes", {"q": there, "positions": moves - positions}, **RULE)
    fresh = only("apply/rope-axes", {"q": Q, "positions": moves}, **RULE)
    np.testing.assert_allclose(moved, fresh, rtol=0, atol=1e-13)


@pytest.mark.parametrize("given", ["float16", "bfloat16"])
def test_tables_and_sums_in_float32(given: str) -> None:
    x = Q.astype(DTYPES[given])
    positions = RANDOM.integers(0, 99, (5, 3))
    rule = {**RULE, "dtype": None}
    got = only("apply/rope-axes", {"q": x, "positions": positions}, table_dtype="float32", **rule)
    wide = only("apply/rope-axes", {"q": x.astype(np.float32), "positions": positions}, **rule)
    assert got.tobytes() == wide.astype(DTYPES[given]).tobytes()
    assert got.tobytes() != only("apply/rope-axes", {"q": x, "positions": positions}, **rule).tobytes()


def test_norms_are_kept_but_for_the_two_that_are_no_rotations() -> None:
    def norm_change(**parameters: object) -> float:
        x = Q[..., :16]
        got = only(APPLY, {"q": x, "positions": AT}, **{"dtype": "float64", **parameters})
        return float(np.abs(np.linalg.norm(got, axis=-1) - np.linalg.norm(x, axis=-1)).max())

    per_axis: dict[str, Any] = {"rotary_dim": 12, "sections": (2, 2, 2), "frequencies": "per-axis"}
    assert norm_change(**RULE) < 1e-14
    assert norm_change(**per_axis, pairing="half-per-axis") < 1e-14
    assert norm_change(**per_axis, pairing="half-per-axis", turning="neighbours") > 0.1
    assert norm_change(sections=(2, 4, 2), section_rule="doubled") > 0.1


def test_each_entry_of_a_batch_may_have_positions_of_its_own() -> None:
    at = RANDOM.integers(0, 60, (2, 5, 3))
    both = only(APPLY, {"q": Q, "positions": at}, **RULE)
    for index in (0, 1):
        one = only(APPLY, {"q": Q[index], "positions": at[index]}, **RULE)
        assert np.array_equal(both[index], one)
    same = only(APPLY, {"q": Q, "positions": at[:1]}, **RULE)
    assert np.array_equal(same, only(APPLY, {"q": Q, "positions": at[0]}, **RULE))


def test_a_grid_in_the_query_and_heads_after_the_length() -> None:
    rule: dict[str, Any] = {"sections": (4, 4), "frequencies": "per-axis", "class_token": "last"}
    x = RANDOM.standard_normal((7, 4, 16))
    cells = np.concatenate([np.indices((2, 3)).reshape(2, -1).T, [[0, 0]]])
    on_grid = only(APPLY, {"q": x}, **rule, grid=(2, 3), axes="length-heads")
    listed = only(APPLY, {"q": x, "positions": cells}, **rule, axes="length-heads")
    assert np.array_equal(on_grid, listed)
    assert np.array_equal(on_grid[-1], x[-1])


def test_channels_beyond_the_rotated_pass_through() -> None:
    got = only(APPLY, {"q": Q, "positions": AT}, sections=(2, 2, 2), rotary_dim=12)
    assert np.array_equal(got[..., 12:], Q[..., 12:])
    assert not np.array_equal(got[..., :12], Q[..., :12])


def test_facts_notes_and_axes() -> None:
    scheme = by_key("apply", "rope-axes")
    inputs = {"q": Q, "positions": AT}
    params = scheme.params(sections=(4, 2, 2), turning="neighbours", pairing="interleaved")
    assert scheme.facts(params, inputs)["axes_of_channels"] == "t" * 8 + "h" * 4 + "w" * 4
    assert scheme.notes(params, inputs) == ["turning=neighbours is no rotation unless neighbours share an angle"]
    assert scheme.notes(scheme.params(sections=(4, 2, 2)), inputs) == []
    assert scheme.resolve(params, inputs).rotary_dim == 16
    assert scheme.state_bytes(params, inputs) == 4 * 8 * 5 * 16
    assert scheme.tensors(params, inputs)["q"].axes == ("batch", "head", "position", "channel")
    assert scheme.tensors(params, {"q": Q[0, 0], "positions": AT})["q"].axes == ("position", "channel")


@pytest.mark.parametrize(
    ("arrays", "parameters", "named"),
    [
        ({}, {}, "grid"),
        ({"positions": AT[:4]}, {}, "/positions"),
        ({"positions": AT[:, :2]}, {}, "/positions"),
        ({"positions": np.zeros((3, 5, 3))}, {}, "/positions"),
        ({"positions": np.zeros((2, 6, 2, 5, 3))}, {}, "/positions"),
        ({}, {"grid": (1, 2, 2)}, "grid"),
        ({"k": K[..., :8], "positions": AT}, {}, "/tensors/k"),
        ({"k": K[..., :4, :], "positions": AT}, {}, "/positions"),
        ({"q": Q[..., :1], "positions": AT}, {}, "/tensors/q"),
        ({"q": np.zeros((1, 65_538)), "positions": AT[:1]}, {}, "/tensors/q"),
        ({"q": Q[0, 0, 0], "positions": AT}, {}, "/tensors/q"),
        ({"positions": AT}, {"sections": (4, 2, 1)}, "sections"),
        ({"positions": AT}, {"base": 0.5, "arithmetic": "ggml"}, "base"),
    ],
)
def test_refusals(arrays: dict[str, Any], parameters: dict[str, Any], named: str) -> None:
    fault = refused(APPLY, {"q": Q, **arrays}, **{"sections": (4, 2, 2), **parameters})
    assert fault.parameter == named
