"""Rotated vectors against loops over exact rationals, the laws of rotations, and every shape of q and k."""

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from service.engine import by_key
from service.engine.numbers.single import float32_frequencies
from service.engine.rotation.rotary import pair_members
from service.engine.rotation.turning import Channels, moved, turn
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, only, refused
from tests.oracles.exact import rounded
from tests.oracles.oracle_rope import cos_sin
from tests.oracles.oracle_rope import partners as paired

ROPE = "apply/rope"
PAIRINGS = ("half", "interleaved")


def random(*shape: int, dtype: str = "float64", seed: int = 7) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def rotated(x: Array, position: float, *, width: int, pairing: str, dtype: str, sign: int = 1) -> list[float]:
    """One vector turned: cos and sin rounded once, then each product and each sum, all on exact rationals."""
    cos, sin = cos_sin(position, width)
    values = [Fraction(float(value)) for value in x]
    y = [float(value) for value in values]

    def once(value: Fraction) -> Fraction:
        return Fraction(rounded(value, dtype))

    for k in range(width // 2):
        c, s = Fraction(rounded(cos[k], dtype)), sign * Fraction(rounded(sin[k], dtype))
        one, two = paired(k, width, pairing)
        y[one] = float(once(once(values[one] * c) - once(values[two] * s)))
        y[two] = float(once(once(values[two] * c) + once(values[one] * s)))
    return y


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("width", [2, 6, 34])
def test_every_product_and_sum_is_rounded_once(width: int, pairing: str, dtype: str) -> None:
    positions = (0.0, -3.0, 0.5, 131071.0)
    x = random(4, 36, dtype=dtype)
    for direction, sign in (("forward", 1), ("inverse", -1)):
        choices = {"pairing": pairing, "rotary_dim": width, "positions": positions}
        got = only(ROPE, {"q": x}, direction=direction, **choices)
        expected = [
            rotated(row, position, width=width, pairing=pairing, dtype=dtype, sign=sign)
            for row, position in zip(x, positions, strict=True)
        ]
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dim", [80, 96, 128])
def test_float64(dim: int, pairing: str) -> None:
    x = random(3, dim)
    got = only(ROPE, {"q": x}, pairing=pairing, offset=1000)
    expected = [rotated(row, 1000 + i, width=dim, pairing=pairing, dtype="float64") for i, row in enumerate(x)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=4e-15)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_table_and_numpy_give_the_same_bytes(pairing: str, dtype: str) -> None:
    x = random(2, 3, 700, 40, dtype=dtype)
    table = answer("encodings/rope", length=700, dim=40, offset=-5, dtype=dtype, columns="half")
    cos, sin = table["cos"], table["sin"]
    one, two = (x[..., :20], x[..., 20:]) if pairing == "half" else (x[..., ::2], x[..., 1::2])
    first, second = one * cos - two * sin, two * cos + one * sin
    expected = (
        np.concatenate([first, second], -1) if pairing == "half" else np.stack([first, second], -1).reshape(x.shape)
    )
    assert only(ROPE, {"q": x}, pairing=pairing, offset=-5).tobytes() == expected.tobytes()


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_rotation_keeps_norms_and_inner_products_see_distances_only(pairing: str) -> None:
    q, k = random(12, seed=1), random(12, seed=2)

    def at(x: Array, position: int) -> Array:
        return only(ROPE, {"q": x}, pairing=pairing, offset=position)

    for position in (1, -7, 100_003):
        np.testing.assert_allclose(np.linalg.norm(at(q, position)), np.linalg.norm(q), rtol=1e-14)
    products = [at(q, m) @ at(k, m + 5) for m in (0, 1, 77, -4000)]
    np.testing.assert_allclose(products, products[0], rtol=0, atol=1e-12)
    assert abs(at(q, 0) @ at(k, 6) - products[0]) > 1e-3


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_inverse_undoes(pairing: str) -> None:
    x = random(2, 9, 16)
    there = only(ROPE, {"q": x}, pairing=pairing, offset=900, partial_rotary_factor=0.5)
    back = only(ROPE, {"q": there}, pairing=pairing, offset=900, partial_rotary_factor=0.5, direction="inverse")
    np.testing.assert_allclose(back, x, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(there[..., 8:], x[..., 8:])
    assert (there[:, 1:, :8] != x[:, 1:, :8]).all()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_pairings_are_equal_after_the_permutation(dtype: str) -> None:
    x, order = random(5, 12, dtype=dtype), [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    half = only(ROPE, {"q": np.ascontiguousarray(x[:, order])}, pairing="half", offset=3)
    interleaved = only(ROPE, {"q": x}, pairing="interleaved", offset=3)
    assert half.tobytes() == interleaved[:, order].tobytes()


def test_chunks_are_the_whole() -> None:
    x = random(3, 10, 8, dtype="float32")
    whole = only(ROPE, {"q": x}, offset=5)
    parts = [only(ROPE, {"q": x[:, start : start + 4]}, offset=5 + start) for start in (0, 4, 8)]
    assert np.concatenate(parts, axis=1).tobytes() == whole.tobytes()


@pytest.mark.parametrize("shape", [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 1, 3, 5, 8)])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_every_rank_in_both_orders_of_axes(shape: tuple[int, ...], pairing: str) -> None:
    x = random(*shape, dtype="float32")
    length = shape[-2] if len(shape) > 1 else 1
    heads_length = only(ROPE, {"q": x}, offset=2, pairing=pairing)
    assert heads_length.shape == shape
    by_position = np.broadcast_to(np.arange(2, 2 + length), shape[:-1] or (1,)).reshape(-1)
    alone = [
        only(ROPE, {"q": row}, offset=int(position), pairing=pairing)
        for row, position in zip(x.reshape(-1, 8), by_position, strict=True)
    ]
    np.testing.assert_array_equal(heads_length.reshape(-1, 8), alone)
    swapped = np.swapaxes(x, -3, -2) if len(shape) > 2 else x
    length_heads = only(ROPE, {"q": swapped}, offset=2, pairing=pairing, axes="length-heads")
    again = np.swapaxes(length_heads, -3, -2) if len(shape) > 2 else length_heads
    np.testing.assert_array_equal(again, heads_length)


@pytest.mark.parametrize("axes", ["heads-length", "length-heads"])
def test_grouped_heads_and_positions_of_a_batch(axes: str) -> None:
    q, k = random(2, 6, 4, 8, seed=1), random(2, 2, 4, 8, seed=2)
    positions = np.array([[0, 1, 2, 3], [7.5, 9, 9, -1]])
    given = {"q": q, "k": k} if axes == "heads-length" else {"q": q.swapaxes(1, 2), "k": k.swapaxes(1, 2)}
    got = answer(ROPE, {**given, "positions": positions}, axes=axes)
    assert list(got) == ["q", "k"]
    for name, heads in (("q", q), ("k", k)):
        turned = got[name] if axes == "heads-length" else got[name].swapaxes(1, 2)
        for b in range(2):
            for h in range(heads.shape[1]):
                expected = only(ROPE, {"q": heads[b, h]}, positions=tuple(positions[b]))
                np.testing.assert_array_equal(turned[b, h], expected)


def test_positions_for_every_head() -> None:
    q = random(2, 3, 4, 8)
    positions = np.random.default_rng(3).integers(-5, 50, (2, 3, 4))
    got = only(ROPE, {"q": q, "positions": positions})
    for index in np.ndindex(2, 3):
        np.testing.assert_array_equal(got[index], only(ROPE, {"q": q[index], "positions": positions[index]}))


@pytest.mark.parametrize("axes", ["heads-length", "length-heads"])
@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 3, 5, 8), (5, 8), (2, 300, 3, 8)])
def test_any_block_of_rows_stands_alone(axes: str, shape: tuple[int, ...]) -> None:
    scheme, inputs = by_key("apply", "rope"), {"q": random(*shape, dtype="float32")}
    if len(shape) == 4:
        length = shape[1] if axes == "length-heads" else shape[2]
        inputs["positions"] = np.arange(2 * length).reshape(2, length) * 3
    params = scheme.params(axes=axes)
    state, rows = scheme.prepare(params, inputs), int(np.prod(shape[:-1]))
    table = only(ROPE, inputs, axes=axes).reshape(-1, 8)
    bounds = sorted({0, 1, 2, 3, 4, 7, 9, 11, 14, 15, 29, 30, rows // 2, rows - 1, rows} & set(range(rows + 1)))
    for start in bounds:
        for stop in (stop for stop in bounds if stop > start):
            assert scheme.rows(params, inputs, state, "q", start, stop).tobytes() == table[start:stop].tobytes()


def test_long_runs_of_heads_are_split() -> None:
    x = random(2, 5000, 8, dtype="float32")  # more rows at a position than a run holds
    got = only(ROPE, {"q": x}, axes="length-heads", offset=1)
    for position in range(2):
        np.testing.assert_array_equal(
            got[position, ::999], only(ROPE, {"q": x[position, ::999, None]}, offset=1 + position)[:, 0]
        )


@pytest.mark.parametrize("given", ["int8", "int64", "uint16", "float16", "bfloat16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("dtype", [None, *DTYPE_NAMES])
def test_number_formats_in_and_out(given: str, dtype: str | None) -> None:
    small = np.arange(1, 17).reshape(2, 8) % 5
    x = small.astype(ml_dtypes.bfloat16 if given == "bfloat16" else given)
    got = only(ROPE, {"q": x}, dtype=dtype, offset=3)
    expected_dtype = dtype or (given if given in DTYPES else "float32")
    assert got.dtype.name == expected_dtype
    same = only(ROPE, {"q": small.astype(DTYPES[expected_dtype])}, offset=3)
    assert got.tobytes() == same.tobytes()


def test_q_and_k_of_different_number_formats() -> None:
    got = answer(ROPE, {"q": random(3, 8, dtype="float16"), "k": random(3, 8, dtype="bfloat16")})
    assert [tensor.dtype.name for tensor in got.values()] == ["float16", "bfloat16"]


def test_views_of_other_arrays() -> None:
    big = random(10, 6, 16, dtype="float32")
    for view in (big[::-2, 1:, 3:11], big.T[:8].T, big[:, :, ::2], np.asfortranarray(big), big[:, 1:2, :]):
        for pairing in PAIRINGS:
            copied = np.ascontiguousarray(view)
            assert (
                only(ROPE, {"q": view}, pairing=pairing).tobytes()
                == only(ROPE, {"q": copied}, pairing=pairing).tobytes()
            )
    unaligned = np.frombuffer(b"x" + copied.tobytes(), np.float32, offset=1, count=copied.size).reshape(copied.shape)
    assert (
        only(ROPE, {"q": unaligned}, pairing="interleaved").tobytes()
        == only(ROPE, {"q": copied}, pairing="interleaved").tobytes()
    )


def test_the_callers_arrays_are_left_alone() -> None:
    x = random(3, 8, dtype="float32")
    before = x.copy()
    x.flags.writeable = False
    only(ROPE, {"q": x}, offset=9, pairing="interleaved")
    np.testing.assert_array_equal(x, before)


def test_infinities_follow_ieee_arithmetic() -> None:
    got = only(ROPE, {"q": np.array([np.inf, 0, 1, 2], np.float32)}, offset=1)
    assert np.isinf(got[[0, 2]]).all()
    assert np.isfinite(got[[1, 3]]).all()


@pytest.mark.parametrize("arithmetic", ["float32", "ggml"])
def test_other_arithmetic_turns_by_its_own_table(arithmetic: str) -> None:
    x = random(2, 8, dtype="float32")
    table = answer("encodings/rope", positions=(131071, 5), dim=8, arithmetic=arithmetic)
    got = only(ROPE, {"q": x, "positions": np.array([131071, 5])}, arithmetic=arithmetic)
    other = np.roll(x, 4, axis=-1) * np.array([-1] * 4 + [1] * 4, np.float32)
    np.testing.assert_array_equal(got, x * table["cos"] + other * table["sin"])
    assert float32_frequencies(10000.0, 8, 4)[0] == 1


MEMBERS = [pair_members(pairing, 6) for pairing in PAIRINGS]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_partners_change_places(dtype: str) -> None:
    x = np.arange(12).reshape(2, 6).astype(DTYPES[dtype])
    half, neighbours = (moved(x, members, members[::-1]).astype(int) for members in MEMBERS)
    assert half.tolist() == [[3, 4, 5, 0, 1, 2], [9, 10, 11, 6, 7, 8]]
    assert neighbours.tolist() == [[1, 0, 3, 2, 5, 4], [7, 6, 9, 8, 11, 10]]


def test_a_quarter_turn() -> None:
    x, out = np.array([[[1.0, 2.0, 9.0]]]), np.empty((1, 1, 3))
    pair = pair_members("interleaved", 2)
    turn(x, np.zeros((1, 1, 2)), np.array([[[-1.0, 1.0]]]), Channels(pair, pair), out)
    assert out.tolist() == [[[-2.0, 1.0, 9.0]]]


def test_axes_facts_and_notes() -> None:
    scheme = by_key("apply", "rope")
    inputs = {"q": np.zeros((2, 6, 4, 8)), "k": np.zeros((4, 8))}
    tensors = scheme.tensors(scheme.params(), inputs)
    assert tensors["q"].axes == ("batch", "head", "position", "channel")
    assert tensors["k"].axes == ("position", "channel")
    swapped = scheme.tensors(scheme.params(axes="length-heads"), {"q": np.zeros((4, 6, 8))})
    assert swapped["q"].axes == ("position", "head", "channel")
    assert scheme.tensors(scheme.params(), {"q": np.zeros(8)})["q"].axes == ("channel",)
    assert scheme.facts(scheme.params(rotary_dim=4), inputs) == {"rotary_dim": 4, "attention_factor": 1.0}
    assert "degenerate" in scheme.notes(scheme.params(base=1), inputs)[0]


Q = np.zeros((2, 4, 8))


@pytest.mark.parametrize(
    ("inputs", "parameters", "named", "code"),
    [
        ({"q": np.zeros(())}, {}, "/tensors/q", "shape"),
        ({"q": np.zeros((0, 8))}, {}, "/tensors/q", "shape"),
        ({"q": np.zeros((1, 8), bool)}, {}, "/tensors/q", "type"),
        ({"q": np.zeros(7)}, {}, "/tensors/q", "odd"),
        ({"q": np.zeros(1)}, {"rope_type": "proportional"}, "/tensors/q", "odd"),
        ({"q": np.zeros(8)}, {"rotary_dim": 5}, "rotary_dim", "odd"),
        ({"q": Q}, {"rotary_dim": 10}, "rotary_dim", "out_of_range"),
        ({"q": Q}, {"base": 0.5, "arithmetic": "ggml"}, "base", "out_of_range"),
        ({"q": Q, "k": np.zeros((2, 4, 6))}, {}, "/tensors/k", "shape"),
        ({"q": Q, "k": np.zeros((2, 3, 8))}, {}, "/tensors/k", "shape"),
        ({"q": Q, "k": np.zeros((2, 4, 8), complex)}, {}, "/tensors/k", "type"),
        ({"q": Q}, {"positions": (1, 2, 3)}, "positions", "shape"),
        ({"q": Q, "positions": np.zeros((3, 4))}, {}, "/positions", "shape"),
        ({"q": Q, "positions": np.zeros((1, 2, 4))}, {}, "/positions", "shape"),
        ({"q": Q, "positions": np.zeros((2, 4)), "k": np.zeros((4, 8))}, {}, "/positions", "shape"),
        ({"q": Q, "positions": np.zeros(4)}, {"positions": (1, 2, 3, 4)}, "positions", "repeated"),
        ({"q": Q, "positions": np.zeros(4)}, {"offset": 1}, "offset", "conflict"),
        ({"q": Q}, {"positions": (1, 2, 3, 4), "offset": 1}, "offset", "conflict"),
        ({"q": Q, "positions": np.array([0, 1, np.nan, 2])}, {}, "/positions/2", "out_of_range"),
        ({"q": Q}, {"offset": 2**53 - 2}, "offset", "out_of_range"),
        ({"q": np.array([0, 2**60])}, {}, "/tensors/q/1", "out_of_range"),
    ],
)
def test_refusals_name_what_is_wrong(inputs: dict[str, Any], parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ROPE, inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_refusals_say_what_would_do() -> None:
    assert "(4,) or (2, 4)" in refused(ROPE, {"q": Q, "positions": np.zeros(5)}).detail
    assert "k has 3 positions and q has 4" in refused(ROPE, {"q": Q, "k": np.zeros((3, 8))}).detail
