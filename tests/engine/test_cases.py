"""Inputs known to break naive implementations, with their right answers (float64, to the digits stated)."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from tests.engine.answers import Array, answer, close, only, refused

SINUSOIDAL, ROPE, ALIBI, SLOPES = "encodings/sinusoidal", "encodings/rope", "biases/alibi", "biases/alibi-slopes"
TURN, ADD, PERMUTE = "apply/rope", "apply/sinusoidal", "apply/permutation"


def table(**parameters: object) -> Array:
    return only(SINUSOIDAL, dtype="float64", **parameters)


def frequencies(**parameters: object) -> Array:
    return only(SINUSOIDAL, dtype="float64", output="frequencies", **parameters)


def test_a01_odd_widths_have_one_more_sine() -> None:
    got = table(length=4, dim=5)
    assert got.shape == (4, 5)
    close(got[1], [0.841470985, 0.540302306, 0.0251162229, 0.999684538, 0.000630957303], 1e-9)
    close(table(length=2, dim=3)[1], [0.841470985, 0.540302306, 0.00215443], 1e-8)
    close(table(length=2, dim=1)[1], [0.841470985], 1e-9)


def test_a02_layouts_are_permutations() -> None:
    alternating, halves = table(length=3, dim=6), table(length=3, dim=6, layout="sin-cos")
    close(alternating[2], [0.90929743, -0.41614684, 0.0926985, 0.99569422, 0.00430886, 0.99999072])
    close(halves[2], [0.90929743, 0.0926985, 0.00430886, -0.41614684, 0.99569422, 0.99999072])
    np.testing.assert_array_equal(halves, alternating[:, [0, 2, 4, 1, 3, 5]])
    np.testing.assert_array_equal(table(length=3, dim=6, layout="cos-sin"), halves[:, [3, 4, 5, 0, 1, 2]])


def test_a03_sine_and_cosine_share_an_exponent() -> None:
    row = table(length=2, dim=8)[1]
    close(row, [0.84147098, 0.54030231, 0.09983342, 0.99500417, 0.00999983, 0.99995, 0.001, 0.9999995])


def test_a04_frequencies_are_real_numbers() -> None:
    close(frequencies(dim=128)[[0, 1, 2, 63]], [1, 0.865964323, 0.749894209, 1.15478198e-4], 1e-9)
    close(table(length=2, dim=128)[1, :4], [0.84147098, 0.54030231, 0.76172041, 0.64790587])


def test_a05_base() -> None:
    close(frequencies(dim=8, base=1000), [1, 0.17782794, 0.03162278, 0.00562341])
    close(frequencies(dim=8), frequencies(dim=8, base=10000), 0)


def test_a06_position_times_frequency() -> None:
    close(table(length=2, dim=4)[1], [0.84147098, 0.54030231, 0.00999983, 0.99995])


def test_a08_whisper() -> None:
    whisper = {"layout": "sin-cos", "frequency_shift": 1}
    close(frequencies(dim=8, **whisper), [1, 0.0464158883, 0.00215443469, 1e-4], 1e-10)
    close(frequencies(dim=384, **whisper)[[1, 191]], [0.95292252, 1e-4])
    close(frequencies(dim=384)[[1, 191]], [0.95316188, 1.04913973e-4])
    last = table(length=1500, dim=384, **whisper)[1499, [0, 1, 191, 192, 193, 383]]
    close(last, [-0.4442207, 0.838103, 0.14933925, -0.89591739, -0.54551202, 0.98878602])


def test_a14_padding_row_is_zero() -> None:
    got = table(length=6, dim=8, layout="sin-cos", frequency_shift=1, padding_idx=1)
    np.testing.assert_array_equal(got[1], np.zeros(8))
    close(
        got[2],
        [0.909297427, 0.0926985008, 0.00430885605, 2e-4, -0.416146837, 0.995694224, 0.999990717, 0.99999998],
    )


def test_a15_batch_axes_hold_the_same_numbers() -> None:
    plain = table(length=10, dim=16)
    first, second = (table(length=10, dim=16, batch_axis=axis) for axis in ("first", "second"))
    assert (plain.shape, first.shape, second.shape) == ((10, 16), (1, 10, 16), (10, 1, 16))
    np.testing.assert_array_equal(first[0], plain)
    np.testing.assert_array_equal(second[:, 0], plain)
    assert (plain[0] != plain[1]).any()


def test_a16_positions_keep_their_shape() -> None:
    got = only(SINUSOIDAL, {"positions": np.array([[0, 1, 2], [5, 6, 7]])}, dim=4, dtype="float64")
    assert got.shape == (2, 3, 4)
    np.testing.assert_array_equal(got[1, 0], table(length=6, dim=4)[5])


def test_a18_any_position_will_do() -> None:
    close(table(positions=(100_000,), dim=2)[0], [math.sin(100_000), math.cos(100_000)], 1e-12)


@pytest.mark.parametrize(
    ("pairing", "expected"),
    [
        ("half", [-1.984110649, 1.959900667, 2.462377902, 4.019799668]),
        ("interleaved", [-1.142639664, 1.922075597, 2.959850668, 4.029799502]),
    ],
)
def test_b01_pairing(pairing: str, expected: list[float]) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    close(only(TURN, {"q": x}, offset=1, pairing=pairing), expected, 1e-9)
    np.testing.assert_array_equal(only(TURN, {"q": x}, offset=0, pairing=pairing), x)


def test_b02_pairings_differ_by_the_permutation_of_the_weights() -> None:
    to_half = [0, 2, 4, 6, 1, 3, 5, 7]
    x = np.random.default_rng(2).standard_normal((3, 8))
    half = only(TURN, {"q": x[:, to_half]}, offset=5, pairing="half")
    interleaved = only(TURN, {"q": x}, offset=5, pairing="interleaved")
    np.testing.assert_array_equal(half, interleaved[:, to_half])


def test_b02_weights_of_heads_each_in_itself() -> None:
    one, two = {"dim": 8}, {"dim": 4}
    np.testing.assert_array_equal(only(PERMUTE, {"x": np.arange(8)}, **one), [0, 2, 4, 6, 1, 3, 5, 7])
    np.testing.assert_array_equal(only(PERMUTE, {"x": np.arange(8)}, **two), [0, 2, 1, 3, 4, 6, 5, 7])
    back: dict[str, object] = {"pairing": "half", "output_pairing": "interleaved"}
    np.testing.assert_array_equal(only(PERMUTE, {"x": np.arange(8)}, **one, **back), [0, 4, 1, 5, 2, 6, 3, 7])
    weights = np.random.default_rng(2).standard_normal((8, 5))
    for given in (one, two):
        there = only(PERMUTE, {"x": weights}, **given)
        np.testing.assert_array_equal(only(PERMUTE, {"x": there}, **given, **back), weights)


def test_b03_columns_of_each_pairing_and_the_norm() -> None:
    half = answer(ROPE, length=2, dim=4, dtype="float64")
    pairs = answer(ROPE, length=2, dim=4, dtype="float64", pairing="interleaved")
    c0, c1 = math.cos(1), math.cos(0.01)
    close(half["cos"][1], [c0, c1, c0, c1], 1e-15)
    close(pairs["cos"][1], [c0, c0, c1, c1], 1e-15)
    x = np.array([1.0, 2.0, 3.0, 4.0])
    rotated = np.array([-3.0, -4.0, 1.0, 2.0])  # the half rotation's partners
    right = x * half["cos"][1] + rotated * half["sin"][1]
    mixed = x * pairs["cos"][1] + rotated * pairs["sin"][1]
    close(np.linalg.norm(right), 5.477225575, 1e-9)
    close(np.linalg.norm(mixed), 5.863205784, 1e-9)


def test_b05_exponents_over_the_rotary_width() -> None:
    partial = {"partial_rotary_factor": 0.5}
    close(only(ROPE, dim=8, output="frequencies", dtype="float64", **partial), [1, 0.01], 1e-16)
    got = only(TURN, {"q": np.arange(1.0, 9.0)}, offset=1, **partial)
    close(got, [-1.984110649, 1.959900667, 2.462377902, 4.019799668, 5, 6, 7, 8], 1e-9)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [({"dim": 7}, "dim"), ({"dim": 64, "rotary_dim": 63}, "rotary_dim"), ({"dim": 64, "rotary_dim": 66}, "rotary_dim")],
)
def test_b08_widths_that_cannot_turn(parameters: dict[str, int], named: str) -> None:
    fault = refused(ROPE, length=4, **parameters)
    assert fault.parameter == named
    assert str(parameters[named]) in fault.detail


@pytest.mark.parametrize("base", [0, -1])
def test_b08_a_base_is_positive(base: int) -> None:
    with pytest.raises(ValidationError) as caught:
        answer(ROPE, length=4, dim=64, base=base)
    assert [fault["loc"] for fault in caught.value.errors()] == [("base",)]


def test_b08_base_one_is_answered_and_said_to_be_degenerate() -> None:
    np.testing.assert_array_equal(only(ROPE, dim=8, base=1, output="frequencies"), np.ones(4))


def test_b08_base_one_has_no_ramp() -> None:
    fault = refused(ROPE, length=1, dim=8, base=1, rope_type="yarn", factor=4, original_max_position_embeddings=2048)
    assert fault.parameter == "base"
    assert "ln(base)" in fault.detail


def test_b09_cache_shapes() -> None:
    cache = {"dim": 64, "rotary_dim": 32}
    half, full = (answer(ROPE, length=16, columns=columns, **cache)["cos"] for columns in ("half", "full"))
    assert (half.shape, full.shape) == ((16, 16), (16, 32))
    np.testing.assert_array_equal(full, np.concatenate([half, half], axis=1))
    pairs = answer(ROPE, length=16, pairing="interleaved", **cache)["cos"]
    np.testing.assert_array_equal(pairs, np.repeat(half, 2, axis=1))
    positions = np.array([[0, 3, 15, 2, 2], [1, 1, 7, 9, 0]])
    gathered = answer(ROPE, {"positions": positions}, columns="half", **cache)["cos"]
    assert gathered.shape == (2, 5, 16)
    np.testing.assert_array_equal(gathered, half[positions])


def test_b10_offset() -> None:
    got = answer(ROPE, offset=7, length=1, dim=4, columns="half", dtype="float64")
    close(got["cos"][0], [0.75390225, 0.997551])
    close(got["sin"][0], [0.6569866, 0.06994285])
    whole = answer(ROPE, length=8, dim=4)["sin"]
    chunks = [answer(ROPE, offset=offset, length=4, dim=4)["sin"] for offset in (0, 4)]
    assert np.concatenate(chunks).tobytes() == whole.tobytes()


def test_c01_positions_are_not_rounded_first() -> None:
    got = answer(ROPE, positions=(257, 15962), dim=128, dtype="bfloat16", columns="half")["cos"]
    assert got.view(np.uint16)[1, 0] == 0xBF68
    exact = answer(ROPE, positions=(257, 15962, 4095), dim=128, dtype="float64", columns="half")["cos"]
    close(exact[1, 0], -0.908015901, 1e-9)
    close(exact[2, 1], -0.742365818, 1e-9)
    assert got.astype(float)[1, 0] == -0.90625


def test_c02_bfloat16_is_rounded_to_nearest_even() -> None:
    bits = only(SINUSOIDAL, positions=(1, 2, 3), dim=4, dtype="bfloat16").view(np.uint16)
    assert bits[0, 2:].tolist() == [0x3C24, 0x3F80]
    assert bits[1:, 0].tolist() == [0x3F69, 0x3E11]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (12, [*(2.0**-j for j in range(1, 9)), 0.707106781, 0.353553391, 0.176776695, 0.088388348]),
        (8, [2.0**-j for j in range(1, 9)]),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (3, [0.0625, 0.00390625, 0.25]),
        (1, [0.00390625]),
    ],
)
def test_f01_f02_slopes(heads: int, expected: list[float]) -> None:
    close(only(SLOPES, heads=heads, dtype="float64"), expected, 1e-9)


def test_f01_forty_heads() -> None:
    close(only(SLOPES, heads=40, dtype="float64")[[31, 32, 39]], [0.00390625, 0.917004043, 0.272626933], 1e-9)


def test_f04_a_decoding_step() -> None:
    np.testing.assert_array_equal(only(ALIBI, heads=2, queries=1, keys=4)[0], [[-0.1875, -0.125, -0.0625, 0]])
    key_only = only(ALIBI, heads=2, queries=1, keys=4, form="key-only")
    np.testing.assert_array_equal(key_only[0], [[0, 0.0625, 0.125, 0.1875]])
    symmetric = only(ALIBI, heads=3, length=3, form="symmetric")
    np.testing.assert_array_equal(symmetric[0, 0], [0, -0.0625, -0.125])


def test_the_worked_example_of_every_introduction() -> None:
    x = np.array([0.51, -0.22, 0.88, 0.14], np.float32)
    np.testing.assert_array_equal(only(ADD, {"x": x}), np.array([0.51, 0.78, 0.88, 1.14], np.float32))
