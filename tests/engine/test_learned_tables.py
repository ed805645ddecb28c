"""T5's bias and Shaw's vectors: learned tables of the caller's own, or drawn, gathered by distance."""

from typing import Any

import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.random_numbers import normal
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, only, refused
from tests.oracles.exact import rounded, ulps_apart
from tests.oracles.oracle_relative import t5_bucket, t5_buckets

T5, VECTORS = "biases/t5", "biases/shaw-vectors"
RANDOM = np.random.default_rng(31)


def facts(address: str, inputs: dict[str, Array], **parameters: object) -> dict[str, Any]:
    scheme = by_key(*address.split("/"))
    return scheme.facts(scheme.params(**parameters), inputs)


def assert_scaled(got: Array, table: Array, scale: float, dtype: str) -> None:
    """Table times scale, the real product rounded once."""
    assert got.dtype == DTYPES[dtype]
    exact = [mpf(value) * mpf(scale) for value in table.astype(np.float64).ravel().tolist()]
    expected = np.array([rounded(value, dtype) for value in exact]).reshape(table.shape)
    if dtype == "float64":
        assert ulps_apart(got, expected, "float64").max() == 0
    np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize(
    "chosen",
    [
        {"queries": 5, "keys": 90},
        {"queries": 3, "keys": 4, "offset": 300},
        {"queries": 4, "keys": 300, "offset": -200},
        {"length": 40, "direction": "causal"},
        {"length": 9, "direction": "causal", "num_buckets": 7, "max_distance": 5},
        {"length": 21, "num_buckets": 6, "max_distance": 4},
    ],
)
def test_t5_takes_each_bucket_from_the_table(chosen: dict[str, Any], scale: float, dtype: str) -> None:
    buckets, direction = chosen.get("num_buckets", 32), chosen.get("direction", "bidirectional")
    table = RANDOM.standard_normal((buckets, 3))
    got = only(T5, {"table": table}, dtype=dtype, scale=scale, **chosen)
    heads, queries, keys = got.shape
    assert heads == 3
    first = chosen.get("offset", keys - queries)
    each_way = buckets if direction == "causal" else buckets // 2
    one_way = t5_buckets(600, each_way, chosen.get("max_distance", 128))
    distances = np.arange(keys) - np.arange(queries)[:, None] - first
    index = [[t5_bucket(distance, direction, buckets, one_way) for distance in row] for row in distances.tolist()]
    assert_scaled(got, table.T[:, np.array(index)], scale, dtype)
    np.testing.assert_array_equal(
        only("biases/t5-buckets", **{name: value for name, value in chosen.items() if name != "scale"}), index
    )


def test_t5_cases() -> None:
    table = np.arange(32.0)[:, None]
    got = only(T5, {"table": table}, queries=3, keys=5, offset=0)[0]
    assert got.tolist() == [[0, 17, 18, 19, 20], [1, 0, 17, 18, 19], [2, 1, 0, 17, 18]]
    causal = only(T5, {"table": table}, queries=3, keys=5, offset=0, direction="causal")[0]
    assert causal.tolist() == [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [2, 1, 0, 0, 0]]
    row = only(T5, {"table": table}, queries=1, keys=200, direction="causal")[0, 0, ::-1].tolist()
    firsts = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert [row.index(bucket) for bucket in range(32)] == firsts


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_t5_draws_its_table(dtype: str) -> None:
    got = only(T5, heads=4, queries=2, keys=300, offset=150, seed=9, scale=512**-0.5, dtype=dtype)
    index = only("biases/t5-buckets", queries=2, keys=300, offset=150)
    assert_scaled(got, normal(9, range(32), 4).T[:, index], 512**-0.5, dtype)
    assert got.tobytes() != only(T5, heads=4, queries=2, keys=300, offset=150, seed=8, dtype=dtype).tobytes()
    # More heads or buckets leave the others as they were.
    wider = only(T5, heads=6, queries=2, keys=300, offset=150, seed=9, scale=512**-0.5, dtype=dtype)
    assert wider[:4].tobytes() == got.tobytes()


def test_drawn_tables_are_normal() -> None:
    drawn = only(T5, heads=4000, queries=1, keys=513, offset=256, seed=3, scale=2.0, dtype="float64")
    numbers = np.unique(drawn)
    assert numbers.size == 31 * 4000  # bucket 16 is that of keys ahead at distance 0: of none
    assert abs(numbers.mean()) < 0.03
    assert numbers.std() == pytest.approx(2, rel=0.01)


def test_t5_facts() -> None:
    assert facts(T5, {}, heads=2, queries=1, keys=4, seed=0, dtype="float16") == {
        "heads": 2,
        "queries": 1,
        "keys": 4,
        "offset": 3,
        "bias_bytes_per_head": 8,
        "first_distances": [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91],
        "table_rows": 32,
        "table_bytes_per_head": 128,
    }
    scheme = by_key("biases", "t5")
    assert scheme.state_bytes(scheme.params(heads=2, length=4, seed=0, dtype="float16"), {}) == 32 * (8 + 4)


@pytest.mark.parametrize(
    ("table", "parameters", "place", "code", "words"),
    [
        (None, {"heads": 2}, "seed", "missing", "seed=0"),
        (None, {"seed": 1}, "heads", "missing", "heads="),
        ((32, 2), {"heads": 3}, "/tensors/table", "shape", "(num_buckets 32, heads 3) is needed"),
        ((2, 32), {}, "/tensors/table", "shape", "(num_buckets 32, heads 32) is needed"),
        ((64, 2), {}, "/tensors/table", "shape", "(64, 2)"),
        ((32,), {}, "/tensors/table", "shape", "(num_buckets 32, heads) is needed"),
        ((32, 0), {}, "/tensors/table", "shape", "not empty"),
        ((31, 2), {"num_buckets": 31}, "num_buckets", "odd", "such as 32"),
        ((2, 2), {"num_buckets": 2}, "num_buckets", "out_of_range", "4 or more"),
        ((32, 2), {"max_distance": 8}, "max_distance", "out_of_range", "9 or more"),
        ((32, 2), {"max_distance": 16, "direction": "causal"}, "max_distance", "out_of_range", "17 or more"),
        ((32, 2), {"offset": 2**53}, "offset", "out_of_range", "2^53"),
        (None, {"seed": 1, "heads": 65_536, "num_buckets": 128}, "heads", "out_of_range", "table in the body"),
        (None, {"seed": 1, "heads": 1, "scale": 1e6, "dtype": "float16"}, "dtype", "out_of_range", "the table"),
    ],
)
def test_t5_refusals(
    table: tuple[int, ...] | None, parameters: dict[str, Any], place: str, code: str, words: str
) -> None:
    inputs = {} if table is None else {"table": np.ones(table)}
    fault = refused(T5, inputs, **{"length": 3, **parameters})
    assert (fault.parameter, fault.code) == (place, code)
    assert words in fault.detail


def test_a_table_in_the_body_goes_before_a_seed() -> None:
    for address, chosen in [(T5, {"num_buckets": 8}), (VECTORS, {"max_relative_position": 2})]:
        scheme, inputs = by_key(*address.split("/")), {"table": RANDOM.standard_normal((8 if address == T5 else 5, 3))}
        got = only(address, inputs, length=4, seed=5, **chosen)
        assert got.tobytes() == only(address, inputs, length=4, **chosen).tobytes()
        assert scheme.notes(scheme.params(length=4, **chosen), inputs) == []
        note = "seed has no effect with a table in the body"
        assert scheme.notes(scheme.params(length=4, seed=5, **chosen), inputs) == [note]


def test_tables_beyond_the_number_format() -> None:
    table = np.full((32, 1), 300.0)
    assert np.isfinite(only(T5, {"table": table}, length=2, dtype="float16", scale=200.0)).all()
    fault = refused(T5, {"table": table}, length=2, dtype="float16", scale=300.0)
    assert (fault.parameter, fault.code) == ("dtype", "out_of_range")
    fault = refused(T5, {"table": np.full((32, 1), np.nan)}, length=2)
    assert (fault.parameter, fault.code) == ("/tensors/table", "out_of_range")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("sizes", [{"queries": 3, "keys": 8}, {"queries": 4, "keys": 2, "offset": -5}, {"length": 5}])
@pytest.mark.parametrize(
    ("chosen", "left", "right", "sign"),
    [
        ({"max_relative_position": 2}, 2, 2, 1),
        ({"left": 3, "right": 1, "beyond": "zero-row"}, 3, 1, 1),
        ({"left": 1, "right": 3, "sign": "query-key", "beyond": "zero-row"}, 1, 3, -1),
    ],
)
def test_vectors_of_each_pair(
    chosen: dict[str, Any], left: int, right: int, sign: int, sizes: dict[str, int], dtype: str
) -> None:
    table = RANDOM.standard_normal((left + right + 1, 3))
    got = only(VECTORS, {"table": table}, dtype=dtype, scale=0.7, **chosen, **sizes)
    queries, keys, _ = got.shape
    first = sizes.get("offset", keys - queries)
    expected = np.zeros(got.shape)
    for i in range(queries):
        for j in range(keys):
            distance = sign * (j - i - first)
            if chosen.get("beyond") != "zero-row" or -left <= distance <= right:
                expected[i, j] = table[min(max(distance, -left), right) + left]
    assert_scaled(got, expected, 0.7, dtype)


def test_vectors_are_drawn() -> None:
    got = only(VECTORS, length=4, max_relative_position=2, dim=5, seed=7, scale=0.5, dtype="float64")
    index = only("biases/shaw", length=4, max_relative_position=2)
    np.testing.assert_array_equal(got, (normal(7, range(5), 5) * 0.5)[index])
    stated = facts(VECTORS, {}, length=4, max_relative_position=2, dim=5, seed=7)
    assert stated == {"queries": 4, "keys": 4, "offset": 0, "table_rows": 5, "table_bytes_per_head": 100}
    scheme = by_key("biases", "shaw-vectors")
    params = scheme.params(length=4, left=2, right=2, max_relative_position=3, dim=5, seed=7)
    assert "max_relative_position has no effect" in scheme.notes(params, {})[0]
    assert scheme.state_bytes(params, {}) == 200


@pytest.mark.parametrize(
    ("table", "parameters", "place", "code", "words"),
    [
        (None, {"dim": 2}, "seed", "missing", "seed=0"),
        (None, {"seed": 2}, "dim", "missing", "dim="),
        ((33, 2), {"dim": 3}, "/tensors/table", "shape", "(rows 33, dim 3) is needed"),
        ((32, 2), {}, "/tensors/table", "shape", "(rows 33, dim 2) is needed"),
        ((33,), {}, "/tensors/table", "shape", "(rows 33, dim) is needed"),
        ((1, 2), {"left": 0, "right": 0}, "left", "out_of_range", "1 or more"),
        (None, {"seed": 1, "dim": 1, "max_relative_position": 2**40}, "dim", "out_of_range", "fewer dim or rows"),
        ((33, 2), {"length": None}, "length", "missing", "queries="),
        ((33, 2), {"offset": 2**53}, "offset", "out_of_range", "2^53"),
    ],
)
def test_vector_refusals(
    table: tuple[int, ...] | None, parameters: dict[str, Any], place: str, code: str, words: str
) -> None:
    inputs = {} if table is None else {"table": np.ones(table)}
    fault = refused(VECTORS, inputs, **{"length": 3, **parameters})
    assert (fault.parameter, fault.code) == (place, code)
    assert words in fault.detail
