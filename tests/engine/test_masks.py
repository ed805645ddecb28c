"""Masks against their definitions, asked cell by cell, for every scheme, parameter and alignment."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from pydantic import ValidationError

from service.engine import by_key
from service.engine.attention import attending
from service.engine.errors import Fault
from service.engine.rounding import DTYPES
from service.engine.scheme import Facts, whole
from tests.engine.answers import DTYPE_NAMES, Array, answer, only, refused
from tests.oracles import oracle_masks

RANDOM = np.random.default_rng(9)
NAMES = ("causal", "sliding", "chunked", "prefix", "block", "packed")
SIZES = [(1, 1), (5, 5), (3, 8), (8, 3), (1, 32), (32, 32)]
LOWEST = {"float16": 0xFBFF, "bfloat16": 0xFF7F, "float32": 0xFF7FFFFF, "float64": 0xFFEFFFFFFFFFFFFF}


def choices(name: str, keys: int) -> Iterator[dict[str, Any]]:
    """Parameters of a scheme, small and large."""
    counts = (1, 2, 3, 7, 40)
    directions = ("causal", "bidirectional")
    if name == "sliding":
        for window, counting, direction in product(counts, ("total-including-self", "flash-left"), directions):
            if direction == "causal" or counting == "flash-left" or window % 2:
                yield {"window": window, "counting": counting, "direction": direction}
    elif name == "chunked":
        yield from ({"chunk_size": size} for size in counts)
    elif name == "prefix":
        yield from ({"prefix": count} for count in {0, 1, keys // 2, keys})
    elif name == "block":
        yield from ({"block_size": size, "reach": reach} for size in counts for reach in ("diagonal", "causal"))
    elif name == "packed":
        for direction in directions:
            yield {"segment_lengths": (keys,), "direction": direction}
            yield {"segment_lengths": (1,) * keys, "direction": direction}
            yield {"segment_lengths": tuple(filter(None, (keys // 3, keys - keys // 3))), "direction": direction}
    else:
        yield {}


def facts(name: str, inputs: dict[str, Array] | None = None, /, **parameters: object) -> Facts:
    scheme = by_key("masks", name)
    return scheme.facts(scheme.params(**parameters), inputs or {})


def same(got: Array, expected: list[list[bool]] | list[list[list[bool]]]) -> None:
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, np.array(expected))


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_the_definitions(name: str, queries: int, keys: int) -> None:
    places = [({}, keys - queries), ({"alignment": "top-left"}, 0), ({"offset": 3}, 3), ({"offset": -2}, -2)]
    for chosen, (place, offset) in product(choices(name, keys), places):
        got = only(f"masks/{name}", queries=queries, keys=keys, **chosen, **place)
        expected = oracle_masks.mask(name, queries, keys, offset, **chosen)
        same(got, expected)
        counted = facts(name, queries=queries, keys=keys, **chosen, **place)
        assert counted["keys_per_query"] == np.sum(expected, axis=1).tolist()
        assert counted["attended"] == np.sum(expected)
        assert counted["fully_masked_rows"] == [row for row, cells in enumerate(expected) if not any(cells)]
        assert (counted["queries"], counted["keys"], counted["offset"]) == (queries, keys, offset)


@pytest.mark.parametrize("queries", [1, 7, 12])
@pytest.mark.parametrize("name", NAMES)
def test_padding_removes_keys(name: str, queries: int) -> None:
    keys = 7
    tokens = RANDOM.integers(0, 2, (4, keys))
    tokens[0], tokens[1] = [0, 0, 1, 1, 1, 1, 1], 0
    for chosen in choices(name, keys):
        inputs = {"attention_mask": tokens}
        got = only(f"masks/{name}", inputs, queries=queries, **chosen)
        expected = [_padded(name, queries, row.tolist(), chosen) for row in tokens]
        same(got, expected)
        alone = only(f"masks/{name}", {"attention_mask": tokens[2].astype(bool)}, queries=queries, **chosen)
        same(alone, expected[2])
        counted = facts(name, inputs, queries=queries, **chosen)
        assert counted["keys_per_query"] == np.sum(expected, axis=2).ravel().tolist()
        assert counted["fully_masked"] == int((~np.array(expected).any(axis=2)).sum())


def _padded(name: str, queries: int, tokens: list[int], chosen: dict[str, Any]) -> list[list[bool]]:
    origin = {"origin": tokens.index(1) if 1 in tokens else 0} if name == "chunked" else {}
    return oracle_masks.mask(name, queries, len(tokens), len(tokens) - queries, tokens, **chosen, **origin)


def test_chunks_from_position_zero() -> None:
    got = only("masks/chunked", {"attention_mask": np.array([0, 1, 1, 1, 1])}, chunk_size=2, chunk_origin="zero")
    same(got, oracle_masks.mask("chunked", 5, 5, 0, [0, 1, 1, 1, 1], chunk_size=2))


@pytest.mark.parametrize("direction", ["causal", "bidirectional"])
def test_segments_by_their_ids(direction: str) -> None:
    ids = RANDOM.integers(-2, 3, (3, 9))
    tokens = RANDOM.integers(0, 2, (3, 9))
    places: list[tuple[int, dict[str, Any], int]] = [
        (9, {}, 0),
        (4, {}, 5),
        (14, {"alignment": "top-left"}, 0),
        (3, {"offset": -1}, -1),
    ]
    for queries, place, offset in places:
        plain = only("masks/segments", {"segment_ids": ids}, queries=queries, direction=direction, **place)
        both = {"segment_ids": ids, "attention_mask": tokens}
        padded = only("masks/segments", both, queries=queries, direction=direction, **place)
        for entry, row in enumerate(ids.tolist()):
            asked: dict[str, Any] = {"segment_ids": row, "direction": direction}
            same(plain[entry], oracle_masks.mask("segments", queries, 9, offset, **asked))
            same(padded[entry], oracle_masks.mask("segments", queries, 9, offset, tokens[entry].tolist(), **asked))
        counted = facts("segments", both, queries=queries, direction=direction, **place)
        assert counted["keys_per_query"] == padded.sum(axis=2).ravel().tolist()


def test_padding_alone_is_the_same_for_every_query() -> None:
    got = only("masks/padding", {"attention_mask": np.array([[1, 1, 0], [0, 1, 1]])}, queries=5)
    same(got, [oracle_masks.mask("padding", 5, 3, 0, tokens) for tokens in ([1, 1, 0], [0, 1, 1])])


def test_length_means_both_and_keys_are_the_bodys() -> None:
    tokens = {"attention_mask": np.array([1, 1, 1, 0])}
    for given in ({}, {"length": 4}, {"keys": 4}, {"queries": 4}, {"queries": 4, "keys": 4}):
        same(only("masks/causal", tokens, **given), oracle_masks.mask("causal", 4, 4, 0, [1, 1, 1, 0]))
    same(only("masks/packed", segment_lengths="1,2", queries=2), [[False, True, False], [False, True, True]])


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_additive_cells_are_exactly_zero_or_the_lowest_number(dtype: str) -> None:
    got = only("masks/causal", {"attention_mask": np.array([0, 1, 1])}, dtype=dtype)
    allowed = only("masks/causal", {"attention_mask": np.array([0, 1, 1])})
    assert got.dtype == DTYPES[dtype]
    bits = got.view(f"u{got.itemsize}")
    np.testing.assert_array_equal(bits, np.where(allowed, 0, LOWEST[dtype]).astype(bits.dtype))
    same(got == 0, allowed.tolist())
    assert only("masks/causal", length=3, dtype=dtype, fill="min").tobytes() == (
        only("masks/causal", length=3, dtype=dtype).tobytes()
    )


@pytest.mark.parametrize(
    ("dtype", "fill", "value"),
    [
        ("float16", "-inf", -np.inf),
        ("bfloat16", "-inf", -np.inf),
        ("float32", "-1e9", -1e9),
        ("bfloat16", "-1e9", -998244352.0),
        ("float16", "-65504", -65504.0),
        ("float16", "-.1", float(np.float16(-0.1))),
        ("float64", -10000, -10000.0),
    ],
)
def test_other_fills_are_rounded_once(dtype: str, fill: object, value: float) -> None:
    got = only("masks/causal", length=2, dtype=dtype, fill=fill).astype(np.float64)
    assert got.tolist() == [[0, value], [0, 0]]
    stated = facts("causal", length=2, dtype=dtype, fill=fill)["fill"]
    assert stated == ("-inf" if value == -np.inf else value)


@pytest.mark.parametrize("dtype", ["bool", "float16"])
def test_queries_without_keys_can_attend_to_all(dtype: str) -> None:
    tokens = {"attention_mask": np.array([0, 1])}
    got = only("masks/causal", tokens, dtype=dtype, empty_rows="attend-all")
    allowed = got if dtype == "bool" else got == 0
    assert allowed.tolist() == [[True, True], [False, True]]
    assert facts("causal", tokens, empty_rows="attend-all")["fully_masked_rows"] == [0]
    above = only("masks/causal", queries=3, keys=2, empty_rows="attend-all")
    assert above.tolist() == [[True, True], [True, False], [True, True]]
    joined = only("masks/combined", {"a": np.eye(2, dtype=int), "b": np.array([0, 1])}, empty_rows="attend-all")
    assert joined.tolist() == [[True, True], [False, True]]


@pytest.mark.parametrize("operator", ["and", "or"])
@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 4), (3, 4)), ((4,), (3, 4)), ((2, 3, 4), (1, 4)), ((3, 1), (2, 1, 1, 4)), ((4,), (4,))],
)
def test_two_masks_joined(operator: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = RANDOM.integers(0, 2, first), RANDOM.integers(0, 2, second).astype(bool)
    got = only("masks/combined", {"a": a, "b": b}, operator=operator)
    expected = np.atleast_2d(a.astype(bool) & b if operator == "and" else a.astype(bool) | b)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    stated = facts("combined", {"a": a, "b": b}, operator=operator)
    assert stated["keys_per_query"] == expected.sum(axis=-1).ravel().tolist()
    assert stated["attended"] == expected.sum()


def test_a_union_of_the_services_own_masks() -> None:
    images = only("masks/segments", {"segment_ids": np.array([0, 1, 1, 2])}, direction="bidirectional")
    joined = only("masks/combined", {"a": only("masks/causal", length=4), "b": images}, operator="or", dtype="float16")
    assert (joined == 0).tolist() == [[j <= i or (i, j) == (1, 2) for j in range(4)] for i in range(4)]


def test_wide_rows_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {"segment_ids": RANDOM.integers(0, 3, 50), "attention_mask": RANDOM.integers(0, 2, 50)}
    expected = only("masks/segments", ids), only("masks/sliding", length=50, window=20)
    monkeypatch.setattr(attending, "PIECE", 7)
    for before, now in zip(
        expected, (only("masks/segments", ids), only("masks/sliding", length=50, window=20)), strict=True
    ):
        np.testing.assert_array_equal(before, now)


def test_far_positions_are_exact() -> None:
    far = 2**53 - 10
    got = only("masks/sliding", queries=2, keys=4, offset=far, window=far - 1)
    same(got, [[False, False, True, True], [False, False, False, True]])
    assert only("masks/causal", queries=1, keys=3, offset=-far).tolist() == [[False] * 3]


def test_a_long_list_of_rows_is_cut_and_a_longer_one_not_counted() -> None:
    stated = facts("causal", queries=200, keys=100)
    assert (stated["fully_masked"], stated["fully_masked_rows"]) == (100, list(range(64)))
    assert stated["keys_per_query"] == [0] * 64
    most = attending.MOST_COUNTED
    assert facts("causal", queries=most, keys=1)["attended"] == 1
    assert set(facts("causal", queries=most + 1, keys=1)) == {"queries", "keys", "offset", "counted"}
    wide = {"a": np.ones((1, 2048), int), "b": np.ones((2049, 1), int)}
    assert attending.MOST_CELLS < 2048 * 2049
    assert "counted" in facts("combined", wide)


def test_a_body_of_too_many_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "MOST_KEYS", 6)
    assert only("masks/causal", {"attention_mask": np.ones((2, 3), int)}).shape == (2, 3, 3)
    fault = refused("masks/causal", {"attention_mask": np.ones((2, 4), int)})
    assert (fault.parameter, fault.code, fault.limit, fault.requested) == ("/tensors/attention_mask", "too_large", 6, 8)


def test_notes_state_the_convention() -> None:
    def notes(name: str, **parameters: object) -> list[str]:
        scheme = by_key("masks", name)
        return scheme.notes(scheme.params(**parameters), {})

    assert notes("causal") == ["True: the query may attend to the key"]
    assert notes("causal", dtype="float16", fill="-inf")[0].startswith("0: the query may attend to the key; -inf:")
    assert notes("causal", dtype="float16")[0].startswith("0: the query may attend to the key; min:")
    assert "before that" in notes("combined", empty_rows="attend-all")[1]
    both = {"counting": "flash-left", "direction": "bidirectional"}
    assert "3 keys at most: its own and 2 before it" in notes("sliding", window=3)[0]
    assert "4 keys at most: its own and 3 before it" in notes("sliding", window=3, counting="flash-left")[0]
    assert "7 keys at most: its own and 3 on either side" in notes("sliding", window=3, **both)[0]
    assert "3 keys at most: its own and 1 on either side" in notes("sliding", window=3, direction="bidirectional")[0]


def test_the_fill_that_is_used_is_stated() -> None:
    for name in ("causal", "combined"):
        scheme = by_key("masks", name)
        chosen = [{}, {"dtype": "float16"}, {"dtype": "float16", "fill": "-inf"}]
        sized = {"length": 3} if name == "causal" else {}
        stated = [scheme.resolve(scheme.params(**sized, **each), {}).fill for each in chosen]
        assert stated == [None, "min", "-inf"]
        assert scheme.state_bytes(scheme.params(), {"attention_mask": np.ones((2, 3), int)}) >= 6


@pytest.mark.parametrize(
    ("name", "given", "brought", "stated"),
    [
        ("causal", {"length": 3}, None, (3, 3, 0)),
        ("causal", {"queries": 2}, None, (2, 2, 0)),
        ("causal", {"queries": 2, "keys": 5}, None, (2, 5, 3)),
        ("causal", {"queries": 2, "keys": 5, "alignment": "bottom-right"}, None, (2, 5, 3)),
        ("causal", {"queries": 2, "keys": 5, "alignment": "top-left"}, None, (2, 5, 0)),
        ("causal", {"queries": 2, "keys": 5, "offset": 1}, None, (2, 5, 1)),
        ("causal", {}, [1, 1, 0], (3, 3, 0)),
        ("sliding", {"window": 2, "queries": 1}, [1, 1, 0], (1, 3, 2)),
        ("packed", {"segment_lengths": (3, 2)}, None, (5, 5, 0)),
        ("packed", {"segment_lengths": (3, 2), "queries": 2}, None, (2, 5, 3)),
        ("padding", {"queries": 2}, [1, 1, 0], (2, 3, None)),
    ],
)
def test_the_sizes_that_are_used_are_stated(
    name: str, given: dict[str, Any], brought: list[int] | None, stated: tuple[int, int, int | None]
) -> None:
    scheme = by_key("masks", name)
    inputs = {} if brought is None else {"attention_mask": np.array(brought)}
    params = scheme.resolve(scheme.params(**given), inputs)
    assert (params.length, params.queries, params.keys, getattr(params, "offset", None)) == (None, *stated)
    assert getattr(params, "alignment", None) is None
    assert scheme.resolve(params, inputs) == params
    told = whole(scheme, params, inputs)["mask"]
    np.testing.assert_array_equal(only(f"masks/{name}", inputs, **given), told)


def test_axes_and_no_shared_table_with_a_body() -> None:
    scheme = by_key("masks", "causal")
    params, batch = scheme.params(), {"attention_mask": np.ones((2, 3), int)}
    assert scheme.tensors(params, batch)["mask"].axes == ("batch", "query", "key")
    assert scheme.tensors(scheme.params(length=3), {})["mask"].axes == ("query", "key")
    assert scheme.sequence(params, batch) is None
    rows = scheme.sequence(scheme.params(queries=2, keys=5), {})
    later = scheme.sequence(scheme.params(queries=3, keys=5, alignment="top-left"), {})
    assert rows is not None
    assert later is not None
    assert (rows.key, rows.start, later.start) == (later.key, 3, 0)
    four = by_key("masks", "combined")
    ones = {"a": np.ones((2, 2, 3, 4), int), "b": np.ones(4, int)}
    assert four.tensors(four.params(), ones)["mask"].axes == ("batch_0", "batch_1", "query", "key")


WRONG: list[tuple[str, dict[str, Any], dict[str, Array], str, str]] = [
    ("causal", {}, {}, "length", "missing"),
    ("causal", {"keys": 3}, {}, "length", "missing"),
    ("causal", {"length": 3, "queries": 3}, {}, "queries", "conflict"),
    ("causal", {"length": 3, "keys": 3}, {}, "keys", "conflict"),
    ("causal", {"length": 3, "offset": 1, "alignment": "top-left"}, {}, "alignment", "conflict"),
    ("causal", {"length": 3, "offset": 0, "alignment": "bottom-right"}, {}, "alignment", "conflict"),
    ("causal", {"length": 3, "offset": 2**53 - 5}, {}, "offset", "out_of_range"),
    ("causal", {"length": 3, "dtype": "float16", "fill": "-1e9"}, {}, "fill", "out_of_range"),
    ("causal", {"length": 3, "dtype": "float16", "fill": "-1e-9"}, {}, "fill", "out_of_range"),
    ("causal", {"length": 3, "dtype": "float32", "fill": "-1e300"}, {}, "fill", "out_of_range"),
    ("causal", {"length": 3, "fill": "min"}, {}, "fill", "conflict"),
    ("causal", {"length": 4}, {"attention_mask": np.ones(3, int)}, "/tensors/attention_mask", "shape"),
    ("causal", {"keys": 4}, {"attention_mask": np.ones(3, int)}, "/tensors/attention_mask", "shape"),
    ("causal", {}, {"attention_mask": np.ones((1, 1, 3), int)}, "/tensors/attention_mask", "shape"),
    ("causal", {}, {"attention_mask": np.ones((2, 0), int)}, "/tensors/attention_mask", "shape"),
    ("causal", {}, {"attention_mask": np.array(1)}, "/tensors/attention_mask", "shape"),
    ("causal", {}, {"attention_mask": np.ones(3)}, "/tensors/attention_mask", "type"),
    ("causal", {}, {"attention_mask": np.array([[0, 1], [1, 2]])}, "/tensors/attention_mask/1/1", "value"),
    ("sliding", {"length": 3, "window": 4, "direction": "bidirectional"}, {}, "window", "even"),
    ("prefix", {"length": 3, "prefix": 4}, {}, "prefix", "out_of_range"),
    ("packed", {"length": 6, "segment_lengths": (3, 2)}, {}, "segment_lengths", "shape"),
    ("packed", {"segment_lengths": (2**53, 2**53)}, {}, "offset", "out_of_range"),
    ("packed", {"segment_lengths": (3,)}, {"attention_mask": np.ones(2, int)}, "segment_lengths", "shape"),
    ("segments", {}, {"segment_ids": np.zeros(3)}, "/tensors/segment_ids", "type"),
    ("segments", {}, {"segment_ids": np.zeros((0, 3), int)}, "/tensors/segment_ids", "shape"),
    (
        "segments",
        {},
        {"segment_ids": np.zeros((2, 3), int), "attention_mask": np.ones(3, int)},
        "/tensors/segment_ids",
        "shape",
    ),
    ("combined", {}, {"a": np.ones((2, 3), int), "b": np.ones((3, 2), int)}, "/tensors/b", "shape"),
    ("combined", {}, {"a": np.ones((1,) * 5, int), "b": np.ones((3, 2), int)}, "/tensors/a", "shape"),
    ("combined", {}, {"a": np.ones((2, 3), int), "b": np.full((2, 3), 7)}, "/tensors/b/0/0", "value"),
    ("combined", {"fill": "-inf"}, {"a": np.ones((2, 3), int), "b": np.ones(3, int)}, "fill", "conflict"),
]


@pytest.mark.parametrize(("name", "parameters", "inputs", "named", "code"), WRONG)
def test_refusals_name_the_parameter(
    name: str, parameters: dict[str, Any], inputs: dict[str, Array], named: str, code: str
) -> None:
    fault = refused(f"masks/{name}", inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_refusals_say_what_was_given_and_what_would_do() -> None:
    fault = refused("masks/causal", length=3, dtype="float16", fill="-1e9")
    assert fault == Fault("fill", "out_of_range", fault.detail, -65504.0, -1e9)
    for said in ("-1000000000.0", "float16", "-65504", "fill=min", "dtype=bfloat16"):
        assert said in fault.detail
    even = refused("masks/sliding", length=3, window=4, direction="bidirectional").detail
    assert "4" in even
    assert "such as 5" in even
    assert "5 keys, where there are 6" in refused("masks/packed", length=6, segment_lengths=(3, 2)).detail


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sliding", {"window": "0"}),
        ("sliding", {"window": "-3"}),
        ("sliding", {"window": "2.5"}),
        ("sliding", {}),
        ("chunked", {"chunk_size": "0"}),
        ("block", {"block_size": "0"}),
        ("prefix", {"prefix": "-1"}),
        ("packed", {}),
        ("packed", {"segment_lengths": "3,0"}),
        ("packed", {"segment_lengths": "3,,2"}),
        ("packed", {"segment_lengths": "3,x"}),
        ("causal", {"fill": "inf"}),
        ("causal", {"fill": "nan"}),
        ("causal", {"fill": "max"}),
        ("causal", {"fill": "0"}),
        ("causal", {"fill": "1e9"}),
        ("causal", {"fill": "-1e400"}),
        ("causal", {"dtype": "int32"}),
        ("causal", {"alignment": "left"}),
    ],
)
def test_values_that_no_request_can_have(name: str, parameters: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        by_key("masks", name).params(**parameters)
    assert caught.value.errors()[0]["loc"][0] in (parameters or {"window", "segment_lengths"})


def test_fill_is_stated_as_a_number() -> None:
    params = by_key("masks", "causal").params
    assert [params(fill=fill).fill for fill in (None, "min", "-inf", "-1e4", -10_000)] == [
        None,
        "min",
        "-inf",
        "-10000.0",
        "-10000.0",
    ]


# The handed cases.


def test_case_j01() -> None:
    assert only("masks/causal", length=3, dtype="float16", fill="min")[0, 1] == -65504
    assert only("masks/causal", length=3, dtype="float16", fill="-inf")[0, 1] == -np.inf
    assert refused("masks/causal", length=3, dtype="float16", fill="-1e9").parameter == "fill"
    lowest = only("masks/causal", length=3, dtype="bfloat16", fill="min")
    assert lowest.dtype == ml_dtypes.bfloat16
    assert lowest.view(np.uint16)[0, 1] == 0xFF7F


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_case_j02(dtype: str) -> None:
    got = only("masks/causal", {"attention_mask": np.array([0, 1, 1])}, dtype=dtype, fill="min")
    masked = [[True, True, True], [True, False, True], [True, False, False]]
    assert (got.view(np.uint16) == LOWEST[dtype]).tolist() == masked
    assert (got == 0).tolist() == (~np.array(masked)).tolist()


def test_case_j03() -> None:
    tokens = {"attention_mask": np.array([0, 1])}
    assert answer("masks/causal", tokens)["mask"].tolist() == [[False, False], [False, True]]
    assert facts("causal", tokens)["fully_masked_rows"] == [0]


def test_case_j04() -> None:
    assert facts("sliding", length=6, window=3)["keys_per_query"] == [1, 2, 3, 3, 3, 3]
    assert facts("sliding", length=6, window=3, counting="flash-left")["keys_per_query"] == [1, 2, 3, 4, 4, 4]
