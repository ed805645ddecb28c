"""Which channels turn, which way, in which number formats, and from where: what `apply/rope` adds to one rotation."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rotation.rotary import Rotary, amplitude
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, close, only, refused

TURN, ROPE = "apply/rope", "encodings/rope"
PAIRINGS = ("half", "interleaved")


def random(*shape: int, dtype: str = "float64", seed: int = 7) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def channels(pairing: str, width: int) -> tuple[list[int], list[int]]:
    """The first and the second channels of the pairs, by the definition."""
    pairs = range(width // 2)
    if pairing == "half":
        return list(pairs), [pair + width // 2 for pair in pairs]
    return [2 * pair for pair in pairs], [2 * pair + 1 for pair in pairs]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("given", PAIRINGS)
@pytest.mark.parametrize("wanted", PAIRINGS)
def test_pairs_go_where_the_output_pairing_has_them(given: str, wanted: str, dtype: str) -> None:
    x = random(2, 5, 14, dtype=dtype)
    plain = only(TURN, {"q": x}, offset=3, rotary_dim=10, pairing=given)
    moved = only(TURN, {"q": x}, offset=3, rotary_dim=10, pairing=given, output_pairing=wanted)
    for source, target in zip(channels(given, 10), channels(wanted, 10), strict=True):
        np.testing.assert_array_equal(moved[..., target], plain[..., source])
    np.testing.assert_array_equal(moved[..., 10:], x[..., 10:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_way_back_has_the_pairings_exchanged(dtype: str) -> None:
    x = random(5, 12, dtype=dtype)
    there = only(TURN, {"q": x}, offset=3, pairing="interleaved", output_pairing="half")
    back = only(TURN, {"q": there}, offset=3, pairing="half", output_pairing="interleaved", direction="inverse")
    np.testing.assert_allclose(back, x, rtol=0, atol=1e-6 if dtype == "float32" else 1e-15)


def test_scores_do_not_see_the_output_pairing() -> None:
    q, k = random(5, 12, seed=1), random(5, 12, seed=2)
    plain, moved = (
        answer(TURN, {"q": q, "k": k}, offset=3, pairing="interleaved", **more)
        for more in ({}, {"output_pairing": "half"})
    )
    np.testing.assert_allclose(moved["q"] @ moved["k"].T, plain["q"] @ plain["k"].T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_the_last_channels(pairing: str, dtype: str) -> None:
    x = random(3, 4, 14, dtype=dtype)
    got = only(TURN, {"q": x}, offset=2, rotary_dim=6, rotary_channels="last", pairing=pairing)
    alone = only(TURN, {"q": np.ascontiguousarray(x[..., 8:])}, offset=2, pairing=pairing)
    np.testing.assert_array_equal(got[..., :8], x[..., :8])
    np.testing.assert_array_equal(got[..., 8:], alone)
    assert (got[..., 8:] != x[..., 8:]).any()


@pytest.mark.parametrize("arithmetic", ["exact", "float32", "ggml"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_negative_angle_is_the_way_back(dtype: str, pairing: str, arithmetic: str) -> None:
    x = random(4, 10, dtype=dtype)
    given: dict[str, Any] = {"offset": 5, "pairing": pairing, "arithmetic": arithmetic}
    negative = only(TURN, {"q": x}, angle_sign="negative", **given)
    assert negative.tobytes() == only(TURN, {"q": x}, direction="inverse", **given).tobytes()
    back = only(TURN, {"q": x}, angle_sign="negative", direction="inverse", **given)
    assert back.tobytes() == only(TURN, {"q": x}, **given).tobytes()


def test_negative_angles_in_tables() -> None:
    given: dict[str, Any] = {"length": 3, "dim": 6, "columns": "half"}
    plain, negative = (answer(ROPE, angle_sign=sign, **given) for sign in ("positive", "negative"))
    np.testing.assert_array_equal(negative["cos"], plain["cos"])
    np.testing.assert_array_equal(negative["sin"], -plain["sin"])
    assert not np.signbit(negative["sin"][0]).any()
    angles = only(ROPE, angle_sign="negative", output="angles", positions=(0, 3), dim=4, dtype="float64")
    close(angles, np.array([[0, 0], [-3, -0.03]]), 1e-16)
    assert not np.signbit(angles[0]).any()
    frequencies = only(ROPE, angle_sign="negative", output="frequencies", dim=4, dtype="float64")
    close(frequencies, [1, 0.01], 1e-17)


def test_negative_angles_of_nanochat_by_hand() -> None:
    got = only(TURN, {"q": np.array([1.0, 2.0, 3.0, 4.0])}, offset=1, angle_sign="negative")
    c, s, c1, s1 = np.cos(1), np.sin(1), np.cos(0.01), np.sin(0.01)
    close(got, [c + 3 * s, 2 * c1 + 4 * s1, 3 * c - s, 4 * c1 - 2 * s1], 1e-15)


# Number formats


def by_hand(x: Array, table: str, compute: str) -> Array:
    """Halves turned at positions 6, 7, ...: each step in the number format it is said to be in."""
    tables = answer(ROPE, length=x.shape[-2], dim=x.shape[-1], offset=6, columns="half", dtype=table)
    cos, sin = (tables[name].astype(DTYPES[compute]) for name in ("cos", "sin"))
    one, two = np.split(x.astype(DTYPES[compute]), 2, axis=-1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1).astype(x.dtype)


@pytest.mark.parametrize(
    ("given", "asked", "table", "compute"),
    [
        ("bfloat16", {}, "bfloat16", "bfloat16"),
        ("bfloat16", {"compute_dtype": "float32"}, "bfloat16", "float32"),
        ("bfloat16", {"table_dtype": "float32"}, "float32", "float32"),
        ("float16", {"table_dtype": "bfloat16"}, "bfloat16", "float32"),
        ("float16", {"table_dtype": "float64"}, "float64", "float64"),
        ("float32", {"table_dtype": "bfloat16"}, "bfloat16", "float32"),
        ("float32", {"table_dtype": "float32", "compute_dtype": "float64"}, "float32", "float64"),
        ("float64", {"compute_dtype": "float32"}, "float64", "float32"),
    ],
)
def test_every_step_has_its_number_format(given: str, asked: dict[str, str], table: str, compute: str) -> None:
    x = random(3, 50, 16, dtype=given)
    got = only(TURN, {"q": x}, offset=6, **asked)
    assert got.dtype == x.dtype
    assert got.tobytes() == by_hand(x, table, compute).tobytes()


def test_the_order_of_roundings_shows() -> None:
    x = random(3, 50, 16, dtype="bfloat16")
    answers = {
        only(TURN, {"q": x}, offset=6, **asked).tobytes()
        for asked in ({}, {"compute_dtype": "float32"}, {"table_dtype": "float32"})
    }
    assert len(answers) == 3


def test_what_does_not_turn_is_copied_whatever_the_format_of_sums() -> None:
    x = random(3, 4, 10)
    got = only(TURN, {"q": x}, offset=1, rotary_dim=4, rotary_channels="last", compute_dtype="bfloat16")
    np.testing.assert_array_equal(got[..., :6], x[..., :6])
    np.testing.assert_allclose(got[..., 6:], only(TURN, {"q": x[..., 6:]}, offset=1), atol=0.1)
    wide = only(TURN, {"q": x}, offset=1, rotary_dim=4, compute_dtype="float32", dtype="float16")
    np.testing.assert_array_equal(wide[..., 4:], x[..., 4:].astype(np.float16))


def test_numbers_beyond_the_format_of_sums_are_refused() -> None:
    fault = refused(TURN, {"q": np.array([1.0, 1e6])}, compute_dtype="float16")
    assert (fault.parameter, fault.code) == ("/tensors/q/1", "out_of_range")
    given = {"q": np.array([[1.0, 1e6]]), "positions": np.array([[0]])}
    assert refused("apply/rope-axes", given, sections=(1,), compute_dtype="float16").parameter == "/tensors/q/0/1"


def test_sums_beyond_the_answers_format_are_infinite() -> None:
    x = np.array([60000.0, -60000.0], np.float16)
    got = only(TURN, {"q": x}, positions=(1,), compute_dtype="float32")
    wide = only(TURN, {"q": x}, positions=(1,), table_dtype="float16", dtype="float32")
    assert wide[0] > 65520
    assert got.tolist() == [np.inf, float(wide[1].astype(np.float16))]


# Context shift


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_shift_turns_by_the_difference(pairing: str, dtype: str) -> None:
    x = random(2, 3, 5, 12, dtype=dtype)
    got = only(TURN, {"q": x}, direction="shift", from_offset=100, offset=36, pairing=pairing)
    assert got.tobytes() == only(TURN, {"q": x}, positions=(-64,) * 5, pairing=pairing).tobytes()


SCALINGS: list[dict[str, Any]] = [
    {},
    {"rope_type": "linear", "factor": 4},
    {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2048},
    {"xpos_scale_base": 512, "xpos_center": 50},
    {"angle_sign": "negative"},
    {"pairing": "interleaved", "rotary_dim": 8},
]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_shifted_key_is_the_key_at_its_new_position(scaling: dict[str, Any]) -> None:
    q, k = random(4, 12, seed=1), random(4, 12, seed=2)
    cached = answer(TURN, {"q": q, "k": k}, offset=900, **scaling)
    shifted = answer(TURN, cached, direction="shift", from_offset=900, offset=3, **scaling)
    fresh = answer(TURN, {"q": q, "k": k}, offset=3, **scaling)
    for name in ("q", "k"):
        np.testing.assert_allclose(shifted[name], fresh[name], rtol=0, atol=1e-13)
        assert np.abs(cached[name] - fresh[name]).max() > 0.1


def test_every_key_from_a_position_of_its_own() -> None:
    x = random(2, 3, 4, 8)
    to = np.array([[0, 1, 2, 3], [7, 5, 6, 9]])
    from_ = np.array([[10, 1, 12, 13], [0, 5.5, -6, 9]])
    got = only(TURN, {"q": x, "positions": to, "from_positions": from_}, direction="shift")
    np.testing.assert_array_equal(got, only(TURN, {"q": x, "positions": to - from_}))
    shared = only(TURN, {"q": x, "positions": to[0], "from_positions": from_}, direction="shift")
    np.testing.assert_array_equal(shared, only(TURN, {"q": x, "positions": to[0] - from_}))
    at_once = only(TURN, {"q": x, "from_positions": from_[1]}, direction="shift", offset=2)
    np.testing.assert_array_equal(at_once, only(TURN, {"q": x, "positions": np.arange(2, 6) - from_[1]}))


def test_a_shift_has_no_attention_factor() -> None:
    scheme = by_key("apply", "rope")
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2048}
    x = random(4, 12)
    moved = only(TURN, {"q": x}, direction="shift", from_offset=70, **yarn)
    np.testing.assert_allclose(np.linalg.norm(moved), np.linalg.norm(x), rtol=1e-14)
    assert scheme.facts(scheme.params(**yarn), {"q": x})["attention_factor"] == pytest.approx(1.138629436)
    assert amplitude(Rotary(**yarn), 12, "shift") == Decimal(1)


def test_memory_is_counted_for_the_positions_of_every_key() -> None:
    scheme = by_key("apply", "rope")
    inputs = {"q": np.zeros((2, 3, 4, 8)), "from_positions": np.zeros((2, 4))}
    assert scheme.state_bytes(scheme.params(direction="shift"), inputs) == 2 * 8 * 8 * 8


Q = np.zeros((2, 3, 4, 8))


@pytest.mark.parametrize(
    ("inputs", "parameters", "named", "said"),
    [
        ({}, {"from_offset": 3}, "from_offset", "direction=shift"),
        ({"from_positions": np.zeros(4)}, {}, "/tensors/from_positions", "direction=shift"),
        ({"from_positions": np.zeros(4)}, {"direction": "shift", "from_offset": 3}, "from_offset", "exclude"),
        ({"from_positions": np.zeros(5)}, {"direction": "shift"}, "/tensors/from_positions", "(4,)"),
        ({"from_positions": np.array([0, np.nan, 1, 2])}, {"direction": "shift"}, "/tensors/from_positions/1", "nan"),
        ({}, {"direction": "shift", "from_offset": 2**53}, "offset", "2^53"),
        ({}, {"direction": "shift", "from_offset": -(2**53), "offset": 3}, "positions", "2^53"),
        (
            {"from_positions": np.zeros((2, 4)), "positions": np.zeros((2, 3, 4))},
            {"direction": "shift"},
            "/tensors/from_positions",
            "leading axes",
        ),
    ],
)
def test_refusals_of_shifts(inputs: dict[str, Array], parameters: dict[str, Any], named: str, said: str) -> None:
    fault = refused(TURN, {"q": Q, **inputs}, **parameters)
    assert fault.parameter == named
    assert said in fault.detail


# Complex tables


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("arithmetic", ["exact", "float32", "ggml"])
def test_complex_tables_hold_cosines_and_sines(arithmetic: str, dtype: str) -> None:
    given: dict[str, Any] = {"dim": 14, "rotary_dim": 10, "dtype": dtype, "arithmetic": arithmetic}
    both = answer(ROPE, length=6, offset=3, columns="half", **given)
    got = only(ROPE, length=6, offset=3, output="complex", **given)
    assert got.shape == (6, 5, 2)
    np.testing.assert_array_equal(got[..., 0], both["cos"])
    np.testing.assert_array_equal(got[..., 1], both["sin"])
    gathered = only(ROPE, {"positions": np.array([[3, 8], [5, 3]])}, output="complex", **given)
    np.testing.assert_array_equal(gathered, got[[[0, 5], [2, 0]]])


def test_a_complex_product_is_the_rotation() -> None:
    x = random(7, 8, dtype="float32")
    table = only(ROPE, length=7, dim=8, offset=5, output="complex")
    product = x.view(np.complex64) * table.view(np.complex64)[..., 0]
    turned = only(TURN, {"q": x}, offset=5, pairing="interleaved")
    np.testing.assert_allclose(product.view(np.float32), turned, rtol=0, atol=1e-6)


def test_any_block_of_complex_numbers_stands_alone() -> None:
    scheme = by_key("encodings", "rope")
    params = scheme.params(length=4, offset=9, dim=6, output="complex")
    state, table = scheme.prepare(params, {}), only(ROPE, length=4, offset=9, dim=6, output="complex").reshape(-1, 2)
    for start in range(13):
        for stop in range(start, 13):
            block = scheme.rows(params, {}, state, "complex", start, stop)
            assert block.tobytes() == table[start:stop].tobytes()
    sequence = scheme.sequence(params, {})
    assert sequence is not None
    assert sequence.start == 27
    assert scheme.sequence(scheme.params(positions=(1,), dim=6, output="complex"), {}) is None
    assert scheme.notes(scheme.params(length=1, dim=6, output="complex", columns="half"), {}) == [
        "columns has no effect with output=complex"
    ]


# Laws


@pytest.mark.parametrize("scaling", [scaling for scaling in SCALINGS if scaling.get("rope_type") != "yarn"][:2])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("output_pairing", [None, *PAIRINGS])
@pytest.mark.parametrize("angle_sign", ["positive", "negative"])
def test_norms_stay_and_scores_see_distances_only(
    pairing: str, output_pairing: str | None, angle_sign: str, scaling: dict[str, Any]
) -> None:
    q, k = random(12, seed=1), random(12, seed=2)
    given = {"pairing": pairing, "output_pairing": output_pairing, "angle_sign": angle_sign, **scaling}

    def at(x: Array, position: int) -> Array:
        return only(TURN, {"q": x}, offset=position, **given)

    for position in (1, -7, 100_003):
        np.testing.assert_allclose(np.linalg.norm(at(q, position)), np.linalg.norm(q), rtol=1e-14)
    products = [at(q, m) @ at(k, m + 5) for m in (0, 1, 77, -4000)]
    np.testing.assert_allclose(products, products[0], rtol=0, atol=1e-12)
    assert abs(at(q, 0) @ at(k, 6) - products[0]) > 1e-3


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"pairing": "interleaved", "output_pairing": "half", "arithmetic": "float32"},
        {"compute_dtype": "float32", "rotary_dim": 6, "rotary_channels": "last"},
        {"rope_type": "dynamic", "factor": 2, "max_position_embeddings": 8, "seq_len": 11},
        {"arithmetic": "ggml", "angle_sign": "negative"},
    ],
)
def test_a_chunked_prefill_a_decode_step_and_one_call_give_the_same_bytes(given: dict[str, Any], dtype: str) -> None:
    q, k = random(6, 11, 10, dtype=dtype, seed=1), random(2, 11, 10, dtype=dtype, seed=2)
    whole = answer(TURN, {"q": q, "k": k}, **given)
    parts = [
        answer(TURN, {"q": q[:, start:stop], "k": k[:, start:stop]}, offset=start, **given)
        for start, stop in ((0, 3), (3, 10), (10, 11))
    ]
    for name in ("q", "k"):
        assert np.concatenate([part[name] for part in parts], axis=1).tobytes() == whole[name].tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("where", ["first", "last"])
def test_pairings_agree_after_the_permutation_is_applied(where: str, dtype: str) -> None:
    x = random(5, 3 * 14, dtype=dtype)
    chosen: dict[str, Any] = {"rotary_dim": 10, "rotary_channels": where}
    permuted = only("apply/permutation", {"x": x}, dim=14, axis="last", **chosen)

    def turned(vectors: Array, pairing: str) -> Array:
        heads = np.ascontiguousarray(vectors.reshape(5, 3, 14))
        return only(TURN, {"q": heads}, axes="length-heads", offset=4, pairing=pairing, **chosen)

    there = only("apply/permutation", {"x": turned(x, "interleaved").reshape(5, -1)}, dim=14, axis="last", **chosen)
    assert turned(permuted, "half").reshape(5, -1).tobytes() == there.tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("direction", ["forward", "inverse", "shift"])
def test_an_attention_factor_on_rounded_tables_is_rounded_with_them(direction: str, dtype: str) -> None:
    """cos and sin of q = 1, 0 and 0, 1: what is answered is the tables themselves, of one pair."""
    given: dict[str, Any] = {"rope_type": "divisors", "divisors": (3.0,), "attention_factor": 1.3}
    eye = np.eye(2).astype(DTYPES[dtype])[:, None]
    moved: dict[str, Any] = {"direction": direction, "offset": 7}
    ours = only(TURN, {"q": eye}, **given, **moved, attention_on="rounded-tables")
    plain = only(TURN, {"q": eye}, **{**given, "attention_factor": 1}, **moved)
    once = float(np.array([1.3]).astype(DTYPES[dtype])[0])
    factor = {"forward": once, "inverse": 1 / once, "shift": 1.0}[direction]
    assert np.array_equal(ours, plain * np.array([factor]).astype(DTYPES[dtype]))
    several: dict[str, Array] = {"q": eye, "positions": np.array([[7]])}
    if direction == "shift":
        several["from_positions"] = np.array([[0]])
    chosen = {**given, "sections": (1,), "direction": direction, "attention_on": "rounded-tables"}
    assert only("apply/rope-axes", several, **chosen).tobytes() == ours.tobytes()


def test_yarns_factor_on_rounded_tables_is_made_in_their_format() -> None:
    """0.1 ln 16 + 1 in bfloat16: 0.10009765625 * 2.765625 is 0.27734375 there, and with 1 a tie, which goes up."""
    eye, scaling = np.eye(2).astype(DTYPES["bfloat16"])[:, None], {"rope_type": "yarn", "factor": 16.0}
    given: dict[str, Any] = {**scaling, "original_max_position_embeddings": 4096, "attention_on": "rounded-tables"}
    assert float(only(TURN, {"q": eye}, **given)[0, 0, 0]) == 1.28125
    assert float(only(TURN, {"q": eye}, **given, mscale=1, mscale_all_dim=0)[0, 0, 0]) == 1.2734375
    assert float(only(TURN, {"q": eye}, **given, attention_factor=1.0)[0, 0, 0]) == 1.0
