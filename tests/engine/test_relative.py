"""Relative indices, coordinates and sinusoids against loops over whole numbers, and what each refuses."""

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from service.engine import by_key
from service.engine.attention.buckets import bounds
from service.engine.attention.relative import PIECE
from service.engine.scheme import Sequence
from tests.engine.answers import DTYPE_NAMES, answer, assert_rounded_once, close, only, refused
from tests.oracles.oracle_relative import (
    deberta_buckets,
    log_coordinate,
    t5_bucket,
    t5_buckets,
    window_index,
)

T5, SHAW, DEBERTA = "biases/t5-buckets", "biases/shaw", "biases/deberta-buckets"
INDEX, COORDINATES, SINUSOIDS = "biases/swin-index", "biases/swin-v2-coordinates", "biases/transformer-xl"
INDICES = (T5, SHAW, DEBERTA)
CONFIGURATIONS = [
    (32, 128),
    (32, 129),
    (64, 256),
    (128, 256),
    (320, 800),
    (40, 320),
    (20, 320),
    (8, 5),
    (4, 3),
    (4, 1000),
]


def facts(address: str, **parameters: object) -> dict[str, Any]:
    scheme = by_key(*address.split("/"))
    return scheme.facts(scheme.params(**parameters), {})


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [*CONFIGURATIONS, (512, 2048)])
def test_t5_buckets_of_every_distance(num_buckets: int, max_distance: int, direction: str) -> None:
    reach = 10 * max_distance
    chosen = {"direction": direction, "num_buckets": num_buckets, "max_distance": max_distance}
    got = only(T5, queries=1, keys=2 * reach + 1, offset=reach, **chosen)[0]
    one_way = t5_buckets(reach, num_buckets if direction == "causal" else num_buckets // 2, max_distance)
    assert got.tolist() == [t5_bucket(r, direction, num_buckets, one_way) for r in range(-reach, reach + 1)]


def test_t5_causal_with_an_odd_number_and_the_fewest_buckets() -> None:
    for num_buckets, max_distance in ((2, 2), (3, 9), (33, 128)):
        got = only(T5, queries=1, keys=1281, direction="causal", num_buckets=num_buckets, max_distance=max_distance)
        assert got[0, ::-1].tolist() == t5_buckets(1280, num_buckets, max_distance)


@settings(deadline=None, max_examples=60)
@given(
    low=st.integers(1, 60),
    more=st.integers(1, 2000),
    steps=st.integers(1, 40),
    count=st.integers(0, 50),
)
def test_bounds_are_the_integers_beside_the_real_ones(low: int, more: int, steps: int, count: int) -> None:
    ratio = Fraction(low + more, low)
    firsts, lasts = (bounds(low, low + more, steps, count, side).tolist() for side in ("first", "last"))
    for j, (first, last) in enumerate(zip(firsts, lasts, strict=True), 1):
        if last > 2**53:
            assert first == last == 2**53 + 1
            break
        power = ratio**j
        assert Fraction(last, low) ** steps <= power < Fraction(last + 1, low) ** steps
        if first <= 2**53:
            assert Fraction(first - 1, low) ** steps < power <= Fraction(first, low) ** steps


def test_bounds_that_are_integers_are_known_to_be() -> None:
    assert bounds(20, 320, 4, 4, "first").tolist() == bounds(20, 320, 4, 4, "last").tolist() == [40, 80, 160, 320]
    assert bounds(2, 2**53, 52, 51, "first").tolist() == [2 ** (j + 1) for j in range(1, 52)]


@pytest.mark.parametrize(("position_buckets", "max_relative_positions"), [(256, 512), (32, 128), (8, 40), (4, 8)])
def test_deberta_buckets_of_every_distance(position_buckets: int, max_relative_positions: int) -> None:
    reach = 10 * max_relative_positions
    one_way = deberta_buckets(reach, position_buckets, max_relative_positions)
    chosen = {"position_buckets": position_buckets, "max_relative_positions": max_relative_positions}
    placed = {"queries": 1, "keys": 2 * reach + 1, "offset": reach}
    ahead = [-bucket for bucket in one_way[1:]]
    assert only(DEBERTA, **placed, **chosen)[0].tolist() == one_way[::-1] + ahead
    assert one_way[max_relative_positions - 1] == position_buckets - 1
    expected = np.clip(np.array(one_way[::-1] + ahead) + position_buckets, 0, 2 * position_buckets - 1)
    assert only(DEBERTA, output="index", **placed, **chosen)[0].tolist() == expected.tolist()


def test_deberta_within_the_exact_distances_and_just_beyond() -> None:
    for length in (128, 129, 130, 131):
        got = only(DEBERTA, length=length)
        i = np.arange(length)
        one_way = np.array(deberta_buckets(length, 256, 512))
        assert (got == np.sign(i[:, None] - i) * one_way[np.abs(i[:, None] - i)]).all()


@pytest.mark.parametrize("sizes", [{"queries": 4, "keys": 9}, {"queries": 7, "keys": 3, "offset": -2}, {"length": 6}])
@pytest.mark.parametrize(
    ("chosen", "left", "right", "sign"),
    [
        ({"max_relative_position": 2}, 2, 2, 1),
        ({"left": 4, "right": 1}, 4, 1, 1),
        ({"sign": "query-key", "left": 3, "right": 2}, 3, 2, -1),
        ({"max_relative_position": 3, "right": 0}, 3, 0, 1),
        ({}, 16, 16, 1),
    ],
)
def test_clipped_indices(sizes: dict[str, int], chosen: dict[str, object], left: int, right: int, sign: int) -> None:
    got = only(SHAW, **sizes, **chosen)
    queries, keys = got.shape
    offset = sizes.get("offset", keys - queries)
    expected = [[min(max(sign * (j - i - offset), -left), right) + left for j in range(keys)] for i in range(queries)]
    assert got.tolist() == expected
    stated = facts(SHAW, **sizes, **chosen)
    assert stated["table_rows"] == left + right + 1
    assert stated["rows_used"] == len({index for row in expected for index in row})
    assert stated["table_bytes_per_channel"] == 4 * (left + right + 1)


@pytest.mark.parametrize("sizes", [{"length": 9}, {"queries": 2, "keys": 3, "offset": 40}, {"queries": 3, "keys": 8}])
@pytest.mark.parametrize(("left", "right", "sign"), [(4, 4, "key-query"), (3, 1, "query-key"), (0, 2, "key-query")])
def test_indices_with_a_row_of_zeros_beyond(sizes: dict[str, int], left: int, right: int, sign: str) -> None:
    asked = {"left": left, "right": right, "sign": sign, **sizes}
    got = only(SHAW, beyond="zero-row", **asked)
    offset = sizes.get("offset", got.shape[1] - got.shape[0])
    distances = (np.arange(got.shape[1]) - np.arange(got.shape[0])[:, None] - offset) * (
        1 if sign == "key-query" else -1
    )
    within = (distances >= -left) & (distances <= right)
    np.testing.assert_array_equal(got, np.where(within, distances + left, left + right + 1))
    stated = facts(SHAW, beyond="zero-row", **asked)
    assert stated["table_rows"] == left + right + 1
    assert stated["rows_used"] == len(set(got[within].tolist()))


def first_seen(window: tuple[int, ...]) -> list[list[int]]:
    """LeViT's numbering: unsigned distances in the order in which they are met."""
    patches = list(np.ndindex(*window))
    numbers: dict[tuple[int, ...], int] = {}
    rows = []
    for query in patches:
        apart = [tuple(abs(q - k) for q, k in zip(query, key, strict=True)) for key in patches]
        rows.append([numbers.setdefault(distance, len(numbers)) for distance in apart])
    return rows


@pytest.mark.parametrize("window", [(2, 2), (2, 3), (5, 2), (1, 4), (1, 1), (2, 3, 2)])
def test_unsigned_distances_in_a_window(window: tuple[int, ...]) -> None:
    got = only(INDEX, window=window, distances="absolute")
    assert got.tolist() == first_seen(window)
    assert facts(INDEX, window=window, distances="absolute")["table_rows"] == got.max() + 1
    with_class = only(INDEX, window=window, distances="absolute", class_token="first")
    rows = facts(INDEX, window=window, distances="absolute", class_token="first")["table_rows"]
    np.testing.assert_array_equal(with_class[1:, 1:], got)
    assert (with_class[0, 0], with_class[0, -1], with_class[-1, 0]) == (rows - 1, rows - 3, rows - 2)


AXIS = "biases/decomposed-index"


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (8, 6), (6, 8), (1, 7), (7, 1), (14, 62), (33, 12)])
def test_indices_along_an_axis(queries: int, keys: int) -> None:
    got = only(AXIS, queries=queries, keys=keys)
    wider, taller = Fraction(max(keys, queries), queries), Fraction(max(keys, queries), keys)
    expected = [[floor(i * wider - j * taller + (keys - 1) * taller) for j in range(keys)] for i in range(queries)]
    assert got.tolist() == expected
    stated = facts(AXIS, queries=queries, keys=keys)
    rows = 2 * max(queries, keys) - 1
    assert stated == {"queries": queries, "keys": keys, "table_rows": rows, "table_bytes_per_channel": 4 * rows}
    assert 0 <= got.min() <= got.max() < stated["table_rows"]
    if queries == keys:
        np.testing.assert_array_equal(only(AXIS, length=keys, dtype="int32"), got)
        i = np.arange(keys)
        np.testing.assert_array_equal(got, i[:, None] - i + keys - 1)


def test_an_axis_in_the_models_arithmetic() -> None:
    """8 i / 6 of a row of eight in float32: 4 (8 / 6) - 2 (8 / 6) falls below 8 / 3 and so on."""
    exact, single = (only(AXIS, queries=8, keys=6, arithmetic=name) for name in ("exact", "float32"))
    assert set((exact - single).ravel().tolist()) == {0, 1}
    square = [only(AXIS, length=14, arithmetic=name).tolist() for name in ("exact", "float32")]
    assert square[0] == square[1]
    scheme = by_key("biases", "decomposed-index")
    assert scheme.resolve(scheme.params(length=4), {}) == scheme.params(queries=4, keys=4)
    assert refused(AXIS).code == "missing"
    assert refused(AXIS, length=3, keys=4).parameter == "keys"


@pytest.mark.parametrize("class_token", ["none", "first"])
@pytest.mark.parametrize("window", [(2, 2), (2, 3), (5, 2), (1, 4), (1, 1), (2, 3, 2), (1, 2, 4)])
def test_window_indices_by_brute_force(window: tuple[int, ...], class_token: str) -> None:
    expected = window_index(window, class_token == "first")
    assert only(INDEX, window=window, class_token=class_token).tolist() == expected
    stated = facts(INDEX, window=window, class_token=class_token)
    assert stated["tokens"] == len(expected)
    assert stated["table_rows"] == max(map(max, expected)) + 1
    assert stated["table_bytes_per_head"] == 4 * stated["table_rows"]
    assert {index for row in expected for index in row} == set(range(stated["table_rows"]))  # no row is unused


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("window", "pretrained", "mode"),
    [
        ((2, 3), None, "swin"),
        ((1, 8), None, "swin"),
        ((4, 6), (8, 5), "swin"),
        ((2, 3, 4), None, "swin"),
        ((5, 7), None, "cr"),
    ],
)
def test_log_coordinates_are_rounded_once(
    window: tuple[int, ...], pretrained: tuple[int, ...] | None, mode: str, dtype: str
) -> None:
    got = only(COORDINATES, window=window, mode=mode, dtype=dtype, pretrained_window=pretrained)
    assert got.shape == (*(2 * size - 1 for size in window), len(window))
    for axis, (size, trained) in enumerate(zip(window, pretrained or window, strict=True)):
        along = np.moveaxis(got[..., axis], axis, -1)
        exact = [log_coordinate(r, trained, mode) for r in range(1 - size, size)]
        for line in along.reshape(-1, 2 * size - 1):
            assert_rounded_once(line[None], [exact], dtype)
    assert not np.signbit(got[got == 0].astype(np.float64)).any()


def test_log_coordinates_of_whole_powers_are_exact() -> None:
    assert only(COORDINATES, window=(9, 9), dtype="float64")[8, 8:, 1].tolist()[7] == 1  # log2(8) / log2(8)
    assert facts(COORDINATES, window=(3, 4)) == {"table_rows": 35, "table_bytes_per_head": 140}


@pytest.mark.parametrize(
    ("span", "first", "last"),
    [("both", 6, -3), ("legacy", 6, 0), ("xlnet-bi", 7, -3), ("xlnet-uni", 7, 0)],
)
@pytest.mark.parametrize("clamp_len", [None, 2])
def test_sinusoids_are_rows_of_the_absolute_ones(span: str, first: int, last: int, clamp_len: int | None) -> None:
    for chosen in ({"dim": 7}, {"dim": 8, "layout": "sin-cos", "base": 500.0, "dtype": "bfloat16"}):
        got = only(SINUSOIDS, queries=4, keys=7, span=span, clamp_len=clamp_len, **chosen)
        positions = np.clip(np.arange(first, last - 1, -1.0), -(clamp_len or 99), clamp_len or 99)
        assert got.tobytes() == only("encodings/sinusoidal", positions=positions.tolist(), **chosen).tobytes()
    stated = facts(SINUSOIDS, queries=4, keys=7, span=span, dim=8)
    rows = first - last + 1
    assert stated == {"first_position": first, "last_position": last, "rows": rows, "table_bytes_per_channel": 4 * rows}


@pytest.mark.parametrize("span", ["both", "legacy", "xlnet-bi", "xlnet-uni"])
@pytest.mark.parametrize("clamp_len", [None, 2])
def test_backward_rows_stand_at_the_negated_positions(span: str, clamp_len: int | None) -> None:
    asked = {"queries": 4, "keys": 7, "span": span, "clamp_len": clamp_len, "dim": 6, "dtype": "float64"}
    forward, backward = (only(SINUSOIDS, direction=direction, **asked) for direction in ("forward", "backward"))
    np.testing.assert_array_equal(backward, forward * np.tile([-1, 1], 3))
    stated = [facts(SINUSOIDS, direction=direction, **asked) for direction in ("forward", "backward")]
    assert stated[1] == {
        "first_position": -stated[0]["first_position"],
        "last_position": -stated[0]["last_position"],
        "rows": stated[0]["rows"],
        "table_bytes_per_channel": 8 * stated[0]["rows"],
    }


def test_g01_first_distances() -> None:
    assert facts(T5, length=200)["first_distances"] == [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]
    causal = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert facts(T5, length=200, direction="causal")["first_distances"] == causal


def test_g02_keys_ahead() -> None:
    placed = {"queries": 3, "keys": 5, "offset": 0}
    assert only(T5, **placed).tolist() == [[0, 17, 18, 19, 20], [1, 0, 17, 18, 19], [2, 1, 0, 17, 18]]
    assert only(T5, direction="causal", **placed).tolist() == [[0] * 5, [1, 0, 0, 0, 0], [2, 1, 0, 0, 0]]


def test_g06_window_indices() -> None:
    assert only(INDEX, window=(2, 2)).tolist() == [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]]
    got = only(INDEX, window=(2, 3))
    assert got[0].tolist() == [7, 6, 5, 2, 1, 0]
    assert got[5].tolist() == [14, 13, 12, 9, 8, 7]
    assert facts(INDEX, window=(2, 3))["table_rows"] == 15


def test_g08_relative_sinusoids() -> None:
    got = only(SINUSOIDS, length=3, dim=4, dtype="float64")
    assert got.shape == (5, 4)
    close(got[1], [0.84147098, 0.54030231, 0.00999983, 0.99995])
    close(got[2], [0, 1, 0, 1], 0)
    np.testing.assert_array_equal(got[3], got[1] * [-1, 1, -1, 1])
    np.testing.assert_array_equal(only(SINUSOIDS, length=3, dim=4, dtype="float64", span="legacy"), got[:3])


def test_a_decoding_step_is_the_last_row() -> None:
    for address in INDICES:
        whole, step = only(address, length=40), only(address, queries=1, keys=40)
        np.testing.assert_array_equal(step, whole[-1:])
        np.testing.assert_array_equal(only(address, queries=3, keys=40, offset=20), whole[20:23])


def test_number_formats_of_indices() -> None:
    for address in INDICES:
        wide, narrow = only(address, length=30), only(address, length=30, dtype="int32")
        assert (wide.dtype.name, narrow.dtype.name) == ("int64", "int32")
        np.testing.assert_array_equal(wide, narrow)
    assert only(INDEX, window=(2, 2), class_token="first", dtype="int32").dtype == np.int32


def test_rows_wider_than_a_piece() -> None:
    keys = 2 * PIECE + 7
    got = only(SHAW, queries=2, keys=keys, max_relative_position=2 * keys, dtype="int32")
    np.testing.assert_array_equal(got, np.arange(keys) - np.arange(keys - 2, keys)[:, None] + 2 * keys)


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_t5_buckets_at_positions_of_any_order(direction: str) -> None:
    chosen = {"direction": direction, "num_buckets": 64, "max_distance": 256}
    one_way = t5_buckets(2000, 32 if direction == "bidirectional" else 64, 256)
    batch = np.array([[100, 40, 900, 40], [0, 1000, -3, 7]])
    expected = [
        [[t5_bucket(int(key - query), direction, 64, one_way) for key in row] for query in row] for row in batch
    ]
    assert only(T5, {"positions": batch}, **chosen).tolist() == expected
    assert only(T5, {"positions": batch[0].astype(np.float64)}, dtype="int32", **chosen).tolist() == expected[0]
    assert only(T5, positions=(100.0, 40.0, 900.0, 40.0), **chosen).tolist() == expected[0]
    scheme = by_key("biases", "t5-buckets")
    params = scheme.params(**chosen)
    assert scheme.tensors(params, {"positions": batch})["index"].axes == ("batch", "query", "key")
    assert "buckets_used" not in scheme.facts(params, {"positions": batch})
    assert (scheme.sequence(params, {"positions": batch}), scheme.sequence(params, {})) == (None, Sequence(params, 0))


@pytest.mark.parametrize(
    ("positions", "parameters", "named", "code"),
    [
        ([1, 2.5], {}, "/positions", "type"),
        ([1, 2], {"length": 2}, "length", "conflict"),
        ([1, 2], {"offset": 0}, "offset", "conflict"),
        ([1, 2], {"positions": (1.0,)}, "positions", "repeated"),
        ([1, 2.0**60], {}, "/positions/1", "out_of_range"),
        (7, {}, "/positions", "shape"),
    ],
)
def test_positions_that_are_refused(positions: Any, parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(T5, {"positions": np.asarray(positions)}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def notes(address: str, **parameters: object) -> list[str]:
    scheme = by_key(*address.split("/"))
    return scheme.notes(scheme.params(**parameters), {})


def test_notes_say_what_has_no_effect() -> None:
    assert notes(SHAW, length=3, left=2, max_relative_position=4) == []
    assert notes(SHAW, length=3, left=2, right=1) == []
    assert "max_relative_position" in notes(SHAW, length=3, left=2, right=1, max_relative_position=4)[0]
    assert notes(SINUSOIDS, dim=4, queries=3, span="legacy") == notes(SINUSOIDS, dim=4, queries=3, keys=5) == []
    assert "queries" in notes(SINUSOIDS, dim=4, queries=3, keys=5, span="xlnet-uni")[0]


def test_more_rows_than_a_piece() -> None:
    queries = 2 * PIECE + 7
    got = only(SHAW, queries=queries, keys=2, offset=0, max_relative_position=queries)
    np.testing.assert_array_equal(got, np.arange(2) - np.arange(queries)[:, None] + queries)
    several = only("biases/alibi", heads=2, queries=queries, keys=1, offset=0, dtype="float64")
    np.testing.assert_array_equal(several[1, :, 0], np.arange(queries) / -256)


def test_facts_count_what_is_used() -> None:
    for address, chosen in (
        (T5, {"direction": "causal"}),
        (T5, {"num_buckets": 64, "max_distance": 34}),  # some buckets hold no integer
        (DEBERTA, {}),
        (DEBERTA, {"position_buckets": 32, "max_relative_positions": 19, "output": "index"}),
    ):
        for sizes in ({"length": 1}, {"length": 90}, {"queries": 2, "keys": 9, "offset": 300}):
            assert facts(address, **sizes, **chosen)["buckets_used"] == np.unique(only(address, **sizes, **chosen)).size
    assert facts(T5, length=3)["table_bytes_per_head"] == 4 * facts(T5, length=3)["table_rows"] == 128
    assert facts(DEBERTA, length=3)["table_rows"] == 512
    assert facts(DEBERTA, length=3)["table_bytes_per_channel"] == 2048


@pytest.mark.parametrize(
    ("address", "parameters", "named", "code", "words"),
    [
        (T5, {}, "length", "missing", "queries="),
        (SHAW, {"length": 3, "keys": 4}, "keys", "conflict", "not both"),
        (DEBERTA, {"length": 3, "queries": 4}, "queries", "conflict", "not both"),
        (SINUSOIDS, {"dim": 4}, "length", "missing", "queries="),
        (SHAW, {"length": 3, "offset": 2**53}, "offset", "out_of_range", "2^53"),
        (DEBERTA, {"length": 3, "offset": -(2**53)}, "offset", "out_of_range", "2^53"),
        (T5, {"length": 3, "num_buckets": 33}, "num_buckets", "odd", "33; direction=bidirectional"),
        (T5, {"length": 3, "num_buckets": 2}, "num_buckets", "out_of_range", "4 or more"),
        (T5, {"length": 3, "max_distance": 8}, "max_distance", "out_of_range", "is 8; .* must be 9 or more"),
        (T5, {"length": 3, "direction": "causal", "max_distance": 16}, "max_distance", "out_of_range", "17 or more"),
        (SHAW, {"length": 3, "left": 0, "right": 0}, "left", "out_of_range", "1 or more"),
        (SHAW, {"length": 3, "left": 2**31 - 1, "dtype": "int32"}, "dtype", "out_of_range", "use int64"),
        (DEBERTA, {"length": 3, "position_buckets": 255}, "position_buckets", "odd", "such as 256"),
        (
            DEBERTA,
            {"length": 3, "max_relative_positions": 129},
            "max_relative_positions",
            "out_of_range",
            "is 129; .* 130 or more",
        ),
        (
            DEBERTA,
            {"queries": 1, "keys": 2**40, "max_relative_positions": 130},
            "max_relative_positions",
            "out_of_range",
            "use output=index",
        ),
        (INDEX, {"window": (65536, 65536), "dtype": "int32"}, "dtype", "out_of_range", "use int64"),
        (COORDINATES, {"window": (2, 5000)}, "window", "out_of_range", "5000; 4096"),
        (
            COORDINATES,
            {"window": (2, 3), "pretrained_window": (1, 8)},
            "pretrained_window",
            "out_of_range",
            "1,8; 2 sizes of 2 or more",
        ),
        (COORDINATES, {"window": (2, 3), "pretrained_window": (2, 2, 2)}, "pretrained_window", "out_of_range", "2,2,2"),
        (
            COORDINATES,
            {"window": (2, 3), "pretrained_window": (8, 8), "mode": "cr"},
            "pretrained_window",
            "conflict",
            "cr",
        ),
        (SINUSOIDS, {"length": 3, "dim": 5, "odd_width": "refuse"}, "dim", "odd", "such as 6"),
    ],
)
def test_refusals(address: str, parameters: dict[str, object], named: str, code: str, words: str) -> None:
    fault = refused(address, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
    assert np.all([part in fault.detail for part in words.split(" .* ")]), fault.detail


@pytest.mark.parametrize(
    ("address", "parameters", "named"),
    [
        (INDEX, {"window": "0,7"}, "window"),
        (INDEX, {"window": "7"}, "window"),
        (INDEX, {"window": "1,2,3,4"}, "window"),
        (COORDINATES, {"window": "2,0"}, "window"),
        (T5, {"length": "3", "num_buckets": "0"}, "num_buckets"),
        (T5, {"length": "3", "max_distance": "0"}, "max_distance"),
        (SHAW, {"length": "3", "max_relative_position": "0"}, "max_relative_position"),
        (SHAW, {"length": "3", "left": "-1"}, "left"),
        (DEBERTA, {"length": "3", "position_buckets": "2"}, "position_buckets"),
        (SINUSOIDS, {"length": "3", "dim": "4", "clamp_len": "0"}, "clamp_len"),
    ],
)
def test_numbers_out_of_range(address: str, parameters: dict[str, str], named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        answer(address, **parameters)
    assert {str(error["loc"][0]) for error in caught.value.errors()} == {named}


def test_deberta_answers_beyond_its_last_bucket_where_asked_for_rows() -> None:
    got = only(DEBERTA, queries=1, keys=3, offset=2**50, max_relative_positions=130, output="index")
    assert got.tolist() == [[511, 511, 511]]
    far = only(DEBERTA, queries=1, keys=1, offset=2**52, position_buckets=4, max_relative_positions=2**53)
    assert far.tolist() == [[3]]
