"""RoPE with mixed axes: tables against sums in real numbers, turned vectors against tables, laws and refusals."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine import by_key
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, assert_rounded_once, refused
from tests.oracles.exact import PRECISION_BITS

TABLE, TURN = "encodings/rope-mixed", "apply/rope-mixed"
RANDOM = np.random.default_rng(21)
SHARED = RANDOM.uniform(-2, 2, (3, 5))
OF_HEADS = RANDOM.uniform(-2, 2, (3, 4, 5))
POINTS = np.concatenate([RANDOM.uniform(-300, 300, (6, 3)), [[0, 0, 0], [131071, -7, 0.5]]])


def waves_of(frequencies: Array, wave: Callable[[Any], Any]) -> list[list[Any]]:
    """cos or sin of every sum, to a hundred digits."""
    with mpmath.workprec(PRECISION_BITS):
        return [
            [wave(mpmath.fdot(zip(point, column, strict=True))) for column in frequencies.T.tolist()]
            for point in POINTS.tolist()
        ]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_value_is_the_real_number_rounded_once(dtype: str) -> None:
    table = answer(TABLE, {"frequencies": SHARED, "positions": POINTS}, columns="half", dtype=dtype)
    for name, wave in (("cos", mpmath.cos), ("sin", mpmath.sin)):
        assert_rounded_once(table[name], waves_of(SHARED, wave), dtype)


def test_each_head_has_its_own_and_columns_are_in_the_order_of_the_pairing() -> None:
    whole = answer(TABLE, {"frequencies": OF_HEADS, "positions": POINTS.reshape(2, 4, 3)}, columns="half")
    assert whole["cos"].shape == (4, 2, 4, 5)
    for head in range(4):
        alone = answer(TABLE, {"frequencies": OF_HEADS[:, head], "positions": POINTS.reshape(2, 4, 3)}, columns="half")
        assert np.array_equal(whole["sin"][head], alone["sin"])
    neighbours, half = (
        answer(TABLE, {"frequencies": SHARED, "positions": POINTS}, pairing=pairing)["cos"]
        for pairing in ("interleaved", "half")
    )
    assert np.array_equal(neighbours[:, ::2], half[:, :5])
    assert np.array_equal(neighbours[:, 1::2], half[:, 5:])


def test_float32_products_are_rounded_and_added_axis_by_axis() -> None:
    table = answer(TABLE, {"frequencies": SHARED, "positions": POINTS}, columns="half", arithmetic="float32")
    at, w = POINTS.astype(np.float32), SHARED.astype(np.float32)
    angles = (at[:, 0, None] * w[0] + at[:, 1, None] * w[1]) + at[:, 2, None] * w[2]
    assert angles.dtype == np.float32
    assert np.abs(table["cos"] - np.cos(angles.astype(np.float64))).max() <= 2.0**-25 * 1.01


def test_frequencies_on_one_axis_are_those_of_rope() -> None:
    one = np.zeros((2, 4))
    one[1] = 10_000.0 ** (-np.arange(4) / 4)
    points = np.array([[9, 0], [-3, 7], [5, 4095]])
    mixed = answer(TABLE, {"frequencies": one, "positions": points})
    plain = answer(
        "encodings/rope", {"positions": points[:, 1]}, dim=8, pairing="interleaved", rope_type="frequencies",
        frequencies=tuple(one[1].tolist()),
    )  # fmt: skip
    assert {name: table.tobytes() for name, table in mixed.items()} == {n: t.tobytes() for n, t in plain.items()}


def vectors(heads: int, dtype: str, dim: int = 12) -> Array:
    drawn: Array = RANDOM.standard_normal((2, heads, len(POINTS), dim)).astype(DTYPES[dtype])
    return drawn


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("axes", ["heads-length", "length-heads"])
@pytest.mark.parametrize("frequencies", [SHARED, OF_HEADS], ids=["shared", "of heads"])
def test_vectors_turn_by_the_tables(frequencies: Array, axes: str, dtype: str) -> None:
    q, k = vectors(4, dtype), vectors(4, dtype)
    given = {"q": q, "k": k} if axes == "heads-length" else {"q": q.swapaxes(1, 2), "k": k.swapaxes(1, 2)}
    own = {"frequencies": frequencies, "positions": POINTS}
    turned = answer(TURN, {**given, **own}, axes=axes, pairing="half")
    table = answer(TABLE, own, pairing="half", dtype=dtype)
    for name, x in (("q", q), ("k", k)):
        turning = x[..., :10]
        partner = np.concatenate([-turning[..., 5:], turning[..., :5]], axis=-1)
        expected = turning * table["cos"] + partner * table["sin"]
        got = turned[name] if axes == "heads-length" else turned[name].swapaxes(1, 2)
        assert np.array_equal(got[..., :10], expected)
        assert np.array_equal(got[..., 10:], x[..., 10:])


def test_norms_stay_and_scores_see_differences_only() -> None:
    q, k = vectors(4, "float64", 10), vectors(4, "float64", 10)

    def scores(by: float) -> Array:
        inputs = {"q": q, "k": k, "frequencies": OF_HEADS, "positions": POINTS / 64 + by}
        turned = answer(TURN, inputs)
        assert np.abs(np.linalg.norm(turned["q"], axis=-1) - np.linalg.norm(q, axis=-1)).max() < 1e-13
        products: Array = turned["q"] @ turned["k"].swapaxes(-1, -2)
        return products

    assert np.abs(scores(0) - scores(2.5)).max() < 1e-11


def test_back_again_and_from_one_place_to_another() -> None:
    inputs = {"q": vectors(4, "float64"), "frequencies": OF_HEADS, "positions": POINTS / 64}
    there = answer(TURN, inputs)["q"]
    back = answer(TURN, {**inputs, "q": there}, direction="inverse")["q"]
    assert np.abs(back - inputs["q"]).max() < 1e-13
    moved = {**inputs, "q": there, "from_positions": POINTS / 64, "positions": POINTS / 64 + 1.5}
    direct = answer(TURN, {**inputs, "positions": POINTS / 64 + 1.5})["q"]
    assert np.abs(answer(TURN, moved, direction="shift")["q"] - direct).max() < 1e-12


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_chunk_a_step_and_the_whole_are_the_same_bytes(dtype: str) -> None:
    q = vectors(4, dtype)
    whole = answer(TURN, {"q": q, "frequencies": OF_HEADS, "positions": POINTS}, arithmetic="float32")["q"]
    for start, stop in pairwise((0, 5, 6, len(POINTS))):
        part = {"q": q[:, :, start:stop], "frequencies": OF_HEADS, "positions": POINTS[None, start:stop]}
        assert answer(TURN, part, arithmetic="float32")["q"].tobytes() == whole[:, :, start:stop].tobytes()


def test_what_is_stated() -> None:
    scheme = by_key(*TURN.split("/"))
    inputs = {"q": vectors(4, "float32"), "frequencies": OF_HEADS, "positions": POINTS}
    params = scheme.params(arithmetic="float32")
    assert scheme.facts(params, inputs) == {"rotary_dim": 10}
    assert "float32" in scheme.notes(params, inputs)[0]
    assert scheme.state_bytes(params, inputs) > 4 * 8 * 4 * 10 * len(POINTS)
    table = by_key(*TABLE.split("/"))
    assert table.facts(table.params(), inputs) == {"rotary_dim": 10}
    idle = table.notes(table.params(columns="half", pairing="half"), inputs)
    assert idle == ["pairing has no effect with columns=half"]
    assert table.state_bytes(table.params(), inputs) > 0


Q = np.ones((4, 3, 10), np.float32)
GIVEN: dict[str, Any] = {"q": Q, "frequencies": OF_HEADS, "positions": POINTS[:3]}


@pytest.mark.parametrize(
    ("address", "changed", "parameters", "named", "said"),
    [
        (TABLE, {"frequencies": np.ones(3)}, {}, "/tensors/frequencies", "(axes, pairs) is needed"),
        (TABLE, {"frequencies": np.ones((5, 3))}, {}, "/tensors/frequencies", "5 axes; 4 is the most"),
        (TABLE, {"frequencies": np.ones((1, 2**19))}, {}, "/tensors/frequencies", "262144 is the most"),
        (TABLE, {"frequencies": np.full((3, 2), 1e300)}, {}, "/tensors/frequencies", "2^50"),
        (TABLE, {"positions": np.ones((3, 2))}, {}, "/positions", "(…, 3) is needed"),
        (TABLE, {"positions": np.ones(3)}, {}, "/positions", "(…, 3) is needed"),
        (TURN, {"q": Q[0]}, {}, "/tensors/q", "is needed"),
        (TURN, {"q": Q[:2]}, {}, "/tensors/frequencies", "are for 4 heads; q (2, 3, 10) has 2"),
        (TURN, {"k": Q[:2]}, {}, "/tensors/frequencies", "are for 4 heads; k (2, 3, 10) has 2"),
        (TURN, {"k": np.ones((4, 3, 12))}, {}, "/tensors/k", "make them equal"),
        (TURN, {"q": Q[..., :8]}, {}, "/tensors/frequencies", "heads of 8 channels have 4"),
        (TURN, {"positions": POINTS[:4]}, {}, "/positions", "positions for (4,)"),
        (TURN, {"positions": np.ones((3, 1, 3))}, {}, "/positions", "positions for (3, 1)"),
        (TURN, {"q": np.full((4, 3, 10), 1e30)}, {"dtype": "float16"}, "/tensors/q/0/0/0", "beyond float16"),
        (TURN, {}, {"direction": "shift"}, "/tensors/from_positions", "missing"),
    ],
)
def test_refusals(address: str, changed: dict[str, Any], parameters: dict[str, Any], named: str, said: str) -> None:
    fault = refused(address, {**GIVEN, **changed}, **parameters)
    assert fault.parameter == named
    assert said in fault.detail
