"""Biases added to the caller's scores: each is its table and scores with one rounding more, or a formula in loops."""

from itertools import product
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.rounding import DTYPES
from service.engine.scheme import Usage
from tests.engine.answers import DTYPE_NAMES, Array, only, refused
from tests.oracles.exact import PRECISION_BITS, rounded
from tests.oracles.usages import proves

RANDOM = np.random.default_rng(23)
HEADS, QUERIES, KEYS = 3, 4, 6
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "t5": ({"num_buckets": 8, "max_distance": 5, "seed": 4}, {"heads": HEADS}),
    "kerple": ({"r1": (1.0, 0.5, 2.0), "r2": (0.1, 1.0, 7.0)}, {}),
    "sandwich": ({"dim": 10}, {"heads": HEADS}),
    "alibi": ({"interpolation_factor": 2.0, "head_dim": 9}, {"heads": HEADS}),
}


def scores(dtype: str, *leading: int) -> Array:
    return (4 * RANDOM.standard_normal((*leading, HEADS, QUERIES, KEYS))).astype(DTYPES[dtype])


@pytest.mark.parametrize("offset", [None, 0, 40, -9])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("name", TABLES)
def test_scores_get_the_table_and_one_rounding_more(name: str, dtype: str, offset: int | None) -> None:
    chosen, placed = TABLES[name]
    table = only(f"biases/{name}", dtype=dtype, queries=QUERIES, keys=KEYS, offset=offset, **chosen, **placed)
    for leading in [(), (2,), (2, 2)]:
        x = scores(dtype, *leading)
        got = only(f"apply/{name}", {"x": x}, offset=offset, **chosen)
        assert got.dtype == x.dtype
        assert got.tobytes() == (x + table).tobytes()


@proves(
    "apply/kerple",
    {
        "KERPLE-log in GPT-NeoX, with its p as r1 and a as r2": 2,
        "KERPLE-power in GPT-NeoX, with its a as r1 and p as r2": 2,
    },
)
def test_a_usage_of_kerple_is_that_of_its_table(usage: Usage, oracle: int) -> None:
    """Which `tests/oracles/test_published_sources.py` compares with its authors' code."""
    x = RANDOM.standard_normal((2, oracle, QUERIES, KEYS)).astype(np.float32)
    table = only("biases/kerple", queries=QUERIES, keys=KEYS, **usage.parameters)
    assert only("apply/kerple", {"x": x}, **usage.parameters).tobytes() == (x + table).tobytes()


@proves("apply/sandwich", {"nemo": HEADS, "Inner products of the encodings as encodings/sinusoidal gives them": HEADS})
def test_a_usage_of_sandwich_is_that_of_its_table(usage: Usage, oracle: int) -> None:
    x = scores("float32", 2)
    table = only("biases/sandwich", heads=oracle, queries=QUERIES, keys=KEYS, **usage.parameters)
    assert only("apply/sandwich", {"x": x}, **usage.parameters).tobytes() == (x + table).tobytes()


@proves("apply/fire", {"FIRE as published": 5, "the authors' code at the start of training": 5})
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_usage_of_fire_is_that_of_its_table(dtype: str, usage: Usage, oracle: int) -> None:
    x, network = scores(dtype, 2), fire_network(oracle)
    placed = {"queries": QUERIES, "keys": KEYS, "output": "bias", "dtype": dtype}
    table = only("biases/fire", network, **placed, **usage.parameters)
    assert only("apply/fire", {"x": x, **network}, **usage.parameters).tobytes() == (x + table).tobytes()


@pytest.mark.parametrize("name", TABLES)
def test_the_bias_is_rounded_before_the_sum(name: str) -> None:
    """Scores of 0 show the bias itself; large scores show a sum that is rounded once more, and not from more digits."""
    chosen, _ = TABLES[name]
    bias = only(f"apply/{name}", {"x": np.zeros((HEADS, QUERIES, KEYS), ml_dtypes.bfloat16)}, **chosen)
    x = np.full((HEADS, QUERIES, KEYS), 100, ml_dtypes.bfloat16)
    got = only(f"apply/{name}", {"x": x}, **chosen).astype(np.float64)
    twice = [rounded(100 + value, "bfloat16") for value in bias.astype(np.float64).ravel().tolist()]
    assert got.ravel().tolist() == twice


@pytest.mark.parametrize("name", TABLES)
def test_integers_become_float32_and_other_formats_as_asked(name: str) -> None:
    chosen, _ = TABLES[name]
    x = np.zeros((HEADS, QUERIES, KEYS), np.int64)
    assert only(f"apply/{name}", {"x": x}, **chosen).dtype == np.float32
    assert only(f"apply/{name}", {"x": x}, dtype="float16", **chosen).dtype == np.float16


@pytest.mark.parametrize("name", TABLES)
def test_infinite_scores_stay(name: str) -> None:
    chosen, _ = TABLES[name]
    x = np.full((HEADS, QUERIES, KEYS), -np.inf, np.float32)
    assert (only(f"apply/{name}", {"x": x}, **chosen) == -np.inf).all()


@pytest.mark.parametrize("name", [*TABLES, "fire", "shaw", "transformer-xl"])
def test_what_cannot_be_scores_is_refused(name: str) -> None:
    chosen, brought = TABLES.get(name, ({}, {}))[0], {"q": np.zeros((1, 1, 2)), "relative": np.zeros((1, 1, 2))}
    for x, place, code in [
        (np.zeros((2, 3)), "/tensors/x", "shape"),
        (np.zeros((HEADS, 0, 3)), "/tensors/x", "shape"),
        (np.zeros((HEADS, 1, 1), bool), "/tensors/x", "type"),
    ]:
        fault = refused(f"apply/{name}", {"x": x, **brought}, **chosen)
        assert (fault.parameter, fault.code) == (place, code)
        assert "(…, heads, queries, keys)" in fault.detail or code == "type"


def test_numbers_beyond_the_format_are_refused() -> None:
    fault = refused("apply/t5", {"x": np.full((1, 1, 2), 1e6)}, seed=1, dtype="float16")
    assert (fault.parameter, fault.code) == ("/tensors/x/0/0/0", "out_of_range")
    fault = refused("apply/t5", {"x": np.zeros((1, 1, 2))}, seed=1, offset=2**53)
    assert fault.parameter == "offset"


def test_heads_that_do_not_match() -> None:
    x = np.zeros((2, HEADS, QUERIES, KEYS))
    fault = refused("apply/kerple", {"x": x}, r1=(1.0, 2.0), r2=(1.0, 2.0))
    assert (fault.parameter, fault.code, fault.limit, fault.requested) == ("r1", "shape", 3, 2)
    fault = refused("apply/t5", {"x": x, "table": np.zeros((32, 4))})
    assert (fault.parameter, fault.code) == ("/tensors/table", "shape")
    assert "(32, 4)" in fault.detail
    assert "(num_buckets 32, heads 3) is needed" in fault.detail


@pytest.mark.parametrize("name", TABLES)
def test_facts_say_where_the_queries_stand(name: str) -> None:
    scheme, (chosen, _) = by_key("apply", name), TABLES[name]
    params, inputs = scheme.params(**chosen), {"x": np.zeros((2, HEADS, QUERIES, KEYS))}
    facts = scheme.facts(params, inputs)
    assert [facts[key] for key in ("heads", "queries", "keys", "offset")] == [HEADS, QUERIES, KEYS, KEYS - QUERIES]
    assert scheme.tensors(params, inputs)["x"].axes == ("batch", "head", "query", "key")


def fire_network(hidden: int, heads: int = HEADS) -> dict[str, Array]:
    shapes = {"weight_in": (hidden,), "bias_in": (hidden,), "weight_out": (heads, hidden), "bias_out": (heads,)}
    return {name: RANDOM.standard_normal(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("hidden", [1, 32])
def test_fire_hidden_unit_by_hidden_unit(hidden: int, dtype: str) -> None:
    x, network = scores(dtype, 2), fire_network(hidden)
    got = only("apply/fire", {"x": x, **network}, threshold=4, c=0.7)
    distance = only("biases/fire", queries=QUERIES, keys=KEYS, threshold=4, c=0.7, dtype="float64")
    with mpmath.workprec(PRECISION_BITS):
        weights = {name: [mpf(value) for value in array.ravel().tolist()] for name, array in network.items()}
        bias = np.empty((HEADS, QUERIES, KEYS))
        for h, i, j in product(range(HEADS), range(QUERIES), range(KEYS)):
            total = weights["bias_out"][h]
            for u in range(hidden):
                inner = weights["weight_in"][u] * mpf(float(distance[i, j])) + weights["bias_in"][u]
                total += weights["weight_out"][h * hidden + u] * max(inner, mpf(0))
            bias[h, i, j] = rounded(total, dtype)
    if dtype == "float64":  # the distance has more digits than a float64 shows
        np.testing.assert_allclose(got, x + bias, rtol=0, atol=1e-13)
    else:
        assert got.tobytes() == (x + bias.astype(x.dtype)).tobytes()


def test_fire_facts_and_state() -> None:
    scheme, inputs = by_key("apply", "fire"), {"x": scores("float32"), **fire_network(5)}
    facts = scheme.facts(scheme.params(), inputs)
    assert (facts["hidden"], facts["network_bytes_per_head"]) == (5, 24)
    assert scheme.state_bytes(scheme.params(), inputs) == 64 * 16_384
    fault = refused("apply/fire", {**inputs, "weight_out": np.full((3, 5), 1e6)}, dtype="float16")
    assert (fault.parameter, fault.code) == ("dtype", "out_of_range")


def test_fire_over_many_keys() -> None:
    network, x = fire_network(4, 2), np.zeros((2, 3, 70_000), np.float32)
    got = only("apply/fire", {"x": x, **network})
    few = only("apply/fire", {"x": x[:, :, :100], **network}, offset=69_997)
    assert got[:, :, :100].tobytes() == few.tobytes()


@pytest.mark.parametrize(
    ("name", "shape", "wanted"),
    [
        ("weight_in", (2, 1), "(hidden 2)"),
        ("bias_in", (3,), "(hidden 2)"),
        ("weight_out", (2, 3), "(head 3, hidden)"),
        ("bias_out", (2,), "(head 3)"),
    ],
)
def test_networks_that_do_not_fit(name: str, shape: tuple[int, ...], wanted: str) -> None:
    fault = refused("apply/fire", {"x": scores("float32"), **fire_network(2), name: np.zeros(shape)})
    assert (fault.parameter, fault.code) == (f"/tensors/{name}", "shape")
    assert wanted in fault.detail


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("own", ["shared", "own"])
@pytest.mark.parametrize(
    ("chosen", "left", "right", "sign"),
    [
        ({"max_relative_position": 2}, 2, 2, 1),
        ({"left": 3, "right": 0, "beyond": "zero-row", "scaling": "none"}, 3, 0, 1),
        ({"left": 1, "right": 2, "sign": "query-key", "beyond": "zero-row"}, 1, 2, -1),
        ({"left": 9, "right": 7, "sign": "query-key", "offset": 50}, 9, 7, -1),
        ({"left": 9, "right": 7, "offset": -3}, 9, 7, 1),
    ],
)
def test_shaw_pair_by_pair(chosen: dict[str, Any], left: int, right: int, sign: int, own: str, dtype: str) -> None:
    x, dim = scores(dtype, 2), 5
    q = RANDOM.standard_normal((*x.shape[:-1], dim)).astype(np.float32)
    table = RANDOM.standard_normal((*((HEADS,) if own == "own" else ()), left + right + 1, dim)).astype(np.float32)
    got = only("apply/shaw", {"x": x, "q": q, "table": table}, **chosen)
    first = chosen.get("offset", KEYS - QUERIES)
    bias = np.zeros(x.shape)
    for b, h, i, j in product(range(2), range(HEADS), range(QUERIES), range(KEYS)):
        distance = sign * (j - i - first)
        if chosen.get("beyond") == "zero-row" and not -left <= distance <= right:
            continue
        vectors = table[h] if own == "own" else table
        total = 0.0
        for a, w in zip(q[b, h, i].tolist(), vectors[min(max(distance, -left), right) + left].tolist(), strict=True):
            total += a * w
        divisor = 1.0 if chosen.get("scaling") == "none" else float(np.sqrt(dim))
        bias[b, h, i, j] = rounded(total / divisor, dtype)
    np.testing.assert_array_equal(got, x + bias.astype(x.dtype))


@pytest.mark.parametrize("shape", [(2, 300, 2), (1, 70, 700), (3, 200, 200), (2, 3, 70_000)])
def test_shaw_of_many_queries_or_keys(shape: tuple[int, ...]) -> None:
    x, q = np.zeros(shape), RANDOM.standard_normal((*shape[:-1], 3))
    table = RANDOM.standard_normal((41, 3))
    got = only("apply/shaw", {"x": x, "q": q, "table": table}, max_relative_position=20)
    i, j = np.arange(shape[1])[:, None] + shape[2] - shape[1], np.arange(shape[2])
    rows = np.clip(j - i, -20, 20) + 20
    products = (q[:, :, None, :] * table).sum(axis=-1) / np.sqrt(3)
    expected = np.take_along_axis(products, np.broadcast_to(rows, shape), axis=-1)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_shaw_by_hand() -> None:
    x, table = np.array([[[0, 1], [2, 3]]]), np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])
    q = np.array([[[1, 2, 3, 4], [0, 1, 0, -1]]])
    got = only("apply/shaw", {"x": x, "q": q, "table": table}, max_relative_position=1)
    # Query 0: itself 2 / 2, the key ahead 7 / 2; query 1: the key behind 0, itself 1 / 2.
    assert got.tolist() == [[[1, 4.5], [2, 3.5]]]
    scheme = by_key("apply", "shaw")
    params, inputs = scheme.params(left=1, right=1, max_relative_position=3), {"x": x, "q": q, "table": table}
    facts = scheme.facts(params, inputs)
    assert (facts["table_rows"], facts["table_bytes_per_head"]) == (3, 48)
    assert "max_relative_position has no effect" in scheme.notes(params, inputs)[0]
    assert scheme.state_bytes(params, inputs) == 96


def test_infinite_queries_are_the_callers_own() -> None:
    q = np.array([[[np.inf, 1.0]]])
    got = only(
        "apply/shaw", {"x": np.zeros((1, 1, 1)), "q": q, "table": np.array([[0, 1], [1, 0], [0, 0]])}, left=1, right=1
    )
    assert got.tolist() == [[[np.inf]]]


@pytest.mark.parametrize(
    ("q", "table", "parameters", "place", "code", "words"),
    [
        ((3, 4), (33, 4), {}, "/tensors/q", "shape", "dim"),
        ((3, 5, 4), (33, 4), {}, "/tensors/q", "shape", "(3, 4, 6)"),
        ((3, 4, 4), (32, 4), {}, "/tensors/table", "shape", "(rows 33, dim 4) is needed"),
        ((3, 4, 4), (33, 5), {}, "/tensors/table", "shape", "(rows 33, dim 4) is needed"),
        ((3, 4, 4), (2, 33, 4), {}, "/tensors/table", "shape", "(heads 3, rows 33, dim 4) is needed"),
        ((3, 4, 4), (33,), {}, "/tensors/table", "shape", "(rows 33, dim 4) is needed"),
        ((3, 4, 4), (1, 4), {"left": 0, "right": 0}, "left", "out_of_range", "1 or more would do"),
    ],
)
def test_vectors_that_do_not_fit(
    q: tuple[int, ...], table: tuple[int, ...], parameters: dict[str, int], place: str, code: str, words: str
) -> None:
    inputs = {"x": np.zeros((HEADS, QUERIES, KEYS)), "q": np.zeros(q), "table": np.ones(table)}
    fault = refused("apply/shaw", inputs, **parameters)
    assert (fault.parameter, fault.code) == (place, code)
    assert words in fault.detail


def test_more_products_than_are_computed() -> None:
    # Views: nothing of that size is made, and nothing computed.
    one = np.ones(1, np.float32)
    inputs = {name: np.broadcast_to(one, shape) for name, shape in {"x": (1, 4096, 4096), "q": (1, 4096, 4096)}.items()}
    fault = refused("apply/shaw", {**inputs, "table": np.ones((1025, 4096), np.float32)}, max_relative_position=512)
    assert (fault.parameter, fault.code, fault.limit) == ("/tensors/q", "too_large", 1 << 33)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("span", ["both", "legacy", "xlnet-bi", "xlnet-uni"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 6, 4), (2, 1, 1), (1, 1, 5), (1, 5, 1)])
def test_relative_scores_meet_their_pairs(shape: tuple[int, ...], span: str, dtype: str) -> None:
    queries, keys = shape[-2:]
    first = keys if span.startswith("xlnet") else keys - 1
    last = 1 - queries if span in ("both", "xlnet-bi") else 0
    x = RANDOM.standard_normal(shape).astype(DTYPES[dtype])
    relative = RANDOM.standard_normal((*shape[:-1], first - last + 1)).astype(np.float32)
    got = only("apply/transformer-xl", {"x": x, "relative": relative}, span=span)
    expected = x.copy()
    for i, j in product(range(queries), range(keys)):
        distance = i + keys - queries - j
        if last <= distance <= first:
            of_pair = [rounded(float(value), dtype) for value in relative[..., i, first - distance].ravel()]
            expected[..., i, j] = x[..., i, j] + np.array(of_pair).reshape(shape[:-2]).astype(x.dtype)
    assert got.tobytes() == expected.tobytes()


def test_relative_scores_facts_notes_and_refusals() -> None:
    scheme = by_key("apply", "transformer-xl")
    inputs = {"x": np.zeros((2, 3, 5)), "relative": np.zeros((2, 3, 7))}
    facts = scheme.facts(scheme.params(), inputs)
    assert (facts["first_position"], facts["last_position"], facts["offset"]) == (4, -2, 2)
    assert scheme.notes(scheme.params(), inputs) == []
    assert "mask them" in scheme.notes(scheme.params(span="legacy"), inputs)[0]
    assert "offset" not in scheme.params.model_fields
    assert "offset" not in scheme.description
    fault = refused("apply/transformer-xl", inputs, span="legacy")
    assert (fault.parameter, fault.code) == ("/tensors/relative", "shape")
    assert "(2, 3, 5) is needed" in fault.detail
    fault = refused("apply/transformer-xl", {**inputs, "relative": np.zeros(7)})
    assert (fault.parameter, fault.code) == ("/tensors/relative", "shape")
    fault = refused("apply/transformer-xl", {**inputs, "relative": np.full((2, 3, 7), 1e9)}, dtype="float16")
    assert (fault.parameter, fault.code) == ("/tensors/relative/0/0/0", "out_of_range")
