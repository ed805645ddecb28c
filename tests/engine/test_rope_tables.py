"""RoPE tables against the paper's loops at a hundred digits, and step by step in float32."""

import numpy as np
import pytest

from service.engine import by_key
from service.engine.numbers.single import float32_frequencies, ggml_angles
from tests.engine.answers import DTYPE_NAMES, answer, assert_rounded_once, only, refused
from tests.oracles.oracle_rope import cos_sin, frequencies, full_width

ROPE = "encodings/rope"
POSITIONS = (0.0, 1.0, -3.0, 0.5, 131071.0, 9007199254740992.0)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("dim", [2, 6, 34, 80, 96, 128])
def test_every_value_is_rounded_once(dim: int, dtype: str) -> None:
    got = answer(ROPE, positions=POSITIONS, dim=dim, dtype=dtype, columns="half")
    rows = [cos_sin(position, dim) for position in POSITIONS]
    assert list(got) == ["cos", "sin"]
    assert_rounded_once(got["cos"], [cos for cos, _ in rows], dtype)
    assert_rounded_once(got["sin"], [sin for _, sin in rows], dtype)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("parameters", [{"dim": 8}, {"dim": 12, "rotary_dim": 8}, {"dim": 11, "rotary_dim": 8}])
def test_columns(pairing: str, parameters: dict[str, int]) -> None:
    got = answer(ROPE, length=5, offset=-2, base=500000, pairing=pairing, **parameters)
    rows = [cos_sin(position, 8, 500000) for position in range(-2, 3)]
    assert_rounded_once(got["cos"], [full_width(cos, pairing) for cos, _ in rows], "float32")
    assert_rounded_once(got["sin"], [full_width(sin, pairing) for _, sin in rows], "float32")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_frequencies_and_angles(dtype: str) -> None:
    exact = frequencies(34)
    got = only(ROPE, dim=34, output="frequencies", dtype=dtype)
    assert_rounded_once(got[None], [exact], dtype)
    positions = (-1.0, 0.5, 60000.0)
    angles = only(ROPE, dim=34, output="angles", dtype=dtype, positions=positions)
    assert_rounded_once(angles, [[position * w for w in exact] for position in positions], dtype)


@pytest.mark.parametrize(
    ("dim", "factor", "width"), [(80, 0.4, 32), (192, 0.334, 64), (36, 0.9, 32), (128, 1, 128), (8, 0.25, 2)]
)
def test_the_partial_factor_truncates(dim: int, factor: float, width: int) -> None:
    scheme = by_key("encodings", "rope")
    params = scheme.params(length=1, dim=dim, partial_rotary_factor=factor)
    assert scheme.facts(params, {}) == {"rotary_dim": width, "attention_factor": 1.0}
    assert scheme.tensors(params, {})["cos"].shape == (1, width)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_float32_arithmetic_rounds_step_by_step(dtype: str) -> None:
    positions = np.array([0, 7, 131071], np.float64)
    inv_freq = float32_frequencies(10000.0, 80, 40)
    angles = positions.astype(np.float32)[:, None] * inv_freq
    single = {"arithmetic": "float32", "dim": 80, "positions": tuple(positions), "dtype": dtype}
    got = answer(ROPE, columns="half", **single)
    expected = np.cos(angles.astype(np.float64)).astype(np.float32)
    spacing = {"float16": 2**-10, "bfloat16": 2**-7}.get(dtype, 2**-23)
    np.testing.assert_allclose(got["cos"].astype(np.float64), expected, rtol=0, atol=spacing)
    if dtype == "float32":
        np.testing.assert_array_equal(only(ROPE, output="angles", **single), angles)
        np.testing.assert_array_equal(only(ROPE, **single | {"output": "frequencies"}), inv_freq)


def test_float32_and_exact_differ_as_they_should_far_out() -> None:
    far = {"positions": (131071.0,), "dim": 128, "columns": "half"}
    exact, single, ggml = (
        answer(ROPE, arithmetic=arithmetic, **far)["cos"].astype(np.float64)
        for arithmetic in ("exact", "float32", "ggml")
    )
    assert 1e-3 < np.abs(exact - single).max() < 1e-2
    assert 1e-3 < np.abs(exact - ggml).max() < 2e-2
    assert np.abs(single - ggml).max() > 1e-3


def test_ggml_arithmetic_is_the_running_product() -> None:
    running = {"arithmetic": "ggml", "dim": 34, "positions": (-2.0, 0.0, 4095.0)}
    angles = ggml_angles(10000.0, 34, np.array([-2.0, 0.0, 4095.0]))
    np.testing.assert_array_equal(only(ROPE, output="angles", **running), angles)
    cos = answer(ROPE, columns="half", **running)["cos"]
    np.testing.assert_allclose(cos, np.cos(angles.astype(np.float64)), rtol=0, atol=2**-24)
    np.testing.assert_array_equal(
        only(ROPE, **running | {"output": "frequencies"}), ggml_angles(10000.0, 34, np.ones(1))[0]
    )


def test_consecutive_positions_are_those_positions_in_every_arithmetic() -> None:
    for arithmetic in ("exact", "float32", "ggml"):
        for output in ("cos-sin", "angles"):
            lined = answer(ROPE, dim=6, offset=-1, length=3, arithmetic=arithmetic, output=output)
            listed = answer(ROPE, dim=6, positions=(-1, 0, 1), arithmetic=arithmetic, output=output)
            for name, table in lined.items():
                assert table.tobytes() == listed[name].tobytes()


def test_notes_say_what_deserves_saying() -> None:
    scheme = by_key("encodings", "rope")

    def notes(**parameters: object) -> str:
        return " ".join(scheme.notes(scheme.params(dim=4, length=1, **parameters), {}))

    assert notes() == ""
    assert "PyTorch" in notes(arithmetic="float32")
    assert "llama.cpp" in notes(arithmetic="ggml")
    assert "degenerate" in notes(base=1)


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"dim": 9}, "dim", "odd"),
        ({"rotary_dim": 7}, "rotary_dim", "odd"),
        ({"rotary_dim": 10}, "rotary_dim", "out_of_range"),
        ({"partial_rotary_factor": 0.4}, "partial_rotary_factor", "odd"),
        ({"partial_rotary_factor": 0.1}, "partial_rotary_factor", "out_of_range"),
        ({"rotary_dim": 4, "partial_rotary_factor": 0.5}, "partial_rotary_factor", "conflict"),
        ({"base": 0.5, "arithmetic": "float32"}, "base", "out_of_range"),
        ({"base": 0.5, "arithmetic": "ggml"}, "base", "out_of_range"),
        ({"base": 1e-19, "dim": 4096}, "base", "out_of_range"),
        ({"output": "angles", "dtype": "float16", "offset": 70_000}, "dtype", "out_of_range"),
        ({"output": "frequencies", "dtype": "float16", "base": 1e-10}, "dtype", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(ROPE, **{"length": 2, "dim": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
