"""ALiBi slopes, biases and their sum with scores against the paper's recursion at a hundred digits."""

import ml_dtypes
import numpy as np
import pytest

from service.engine import by_key
from service.engine.relative import PIECE
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, assert_rounded_once, only, refused
from tests.oracles.oracle_alibi import bias, slopes

ALIBI, SLOPES, APPLY = "biases/alibi", "biases/alibi-slopes", "apply/alibi"
HEADS = (1, 2, 3, 6, 7, 12, 40, 71, 112)
FORMS = ("relative", "symmetric", "key-only")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("heads", HEADS)
def test_slopes_are_rounded_once(heads: int, dtype: str) -> None:
    for bias_max in (8, 5.5, 16):
        got = only(SLOPES, heads=heads, alibi_bias_max=bias_max, dtype=dtype)
        assert_rounded_once(got[None], [slopes(heads, bias_max)], dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3, 12])
def test_biases_are_rounded_once(heads: int, form: str, dtype: str) -> None:
    for sizes in ({"queries": 3, "keys": 5}, {"queries": 4, "keys": 2, "offset": -3}, {"queries": 2, "offset": 300}):
        got = only(ALIBI, heads=heads, form=form, dtype=dtype, **sizes)
        queries, keys = sizes["queries"], sizes.get("keys", sizes["queries"])
        exact = bias(heads, queries, keys, sizes.get("offset"), form=form)
        for head in range(heads):
            rows = exact[head][:1] if form == "key-only" else exact[head]
            assert_rounded_once(got[head], rows, dtype)


@pytest.mark.parametrize("heads", [40, 71, 112])
def test_many_heads(heads: int) -> None:
    got = only(ALIBI, heads=heads, queries=2, keys=3)
    for head, rows in enumerate(bias(heads, 2, 3)):
        assert_rounded_once(got[head], rows, "float32")


def test_distance_zero_is_plus_zero() -> None:
    for form in FORMS:
        got = only(ALIBI, heads=3, length=4, form=form)
        assert not np.signbit(got[got == 0]).any()


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def test_key_only_equals_relative_under_softmax() -> None:
    scores = np.random.default_rng(5).standard_normal((7, 9, 9)) + np.triu(np.full((9, 9), -np.inf), 1)
    relative, key_only = (only(ALIBI, heads=7, length=9, form=form, dtype="float64") for form in FORMS[::2])
    np.testing.assert_allclose(softmax(scores + relative), softmax(scores + key_only), rtol=1e-12)


def test_length_means_both() -> None:
    lined = only(ALIBI, heads=3, length=5)
    np.testing.assert_array_equal(lined, only(ALIBI, heads=3, queries=5, keys=5))
    np.testing.assert_array_equal(lined, only(ALIBI, heads=3, queries=5))
    np.testing.assert_array_equal(lined[:, 3:], only(ALIBI, heads=3, queries=2, keys=5))


@pytest.mark.parametrize("form", FORMS)
def test_any_block_of_rows_stands_alone(form: str) -> None:
    scheme = by_key("biases", "alibi")
    params = scheme.params(heads=3, queries=4, keys=5, form=form)
    state, total = scheme.prepare(params, {}), scheme.tensors(params, {})["bias"].rows
    table = only(ALIBI, heads=3, queries=4, keys=5, form=form).reshape(-1, 5)
    for start in range(total):
        for stop in range(start + 1, total + 1):
            assert scheme.rows(params, {}, state, "bias", start, stop).tobytes() == table[start:stop].tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_rows_wider_than_a_piece(form: str) -> None:
    keys = 2 * PIECE + 7
    got = only(ALIBI, heads=2, queries=2, keys=keys, form=form, dtype="float64")
    j, i = np.arange(keys), np.arange(keys - 2, keys)[: got.shape[1], None]
    distances = {"relative": j - i, "symmetric": -np.abs(j - i), "key-only": j[None]}[form]
    np.testing.assert_array_equal(got, distances * np.array([2.0**-4, 2.0**-8])[:, None, None])


def test_many_heads_of_few_rows() -> None:
    got = only(ALIBI, heads=65_536, length=1, form="key-only")
    assert got.shape == (65_536, 1, 1)
    several = only(ALIBI, heads=4096, queries=2, keys=20, dtype="float64")
    np.testing.assert_array_equal(several[[0, 4095], 0, 0], -18 * only(SLOPES, heads=4096, dtype="float64")[[0, 4095]])


def test_facts_and_notes() -> None:
    scheme = by_key("biases", "alibi")
    params = scheme.params(heads=2, queries=1, keys=4)
    assert scheme.facts(params, {}) == {"queries": 1, "keys": 4, "offset": 3}
    assert [bool(scheme.notes(scheme.params(heads=2, length=1, form=form), {})) for form in FORMS] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({}, "length", "missing"),
        ({"keys": 3}, "length", "missing"),
        ({"length": 3, "queries": 3}, "queries", "conflict"),
        ({"length": 3, "keys": 3}, "keys", "conflict"),
        ({"length": 3, "offset": 2**53 - 5}, "offset", "out_of_range"),
        ({"queries": 2**53, "keys": 1}, "offset", "out_of_range"),
        ({"queries": 1, "keys": 200_000, "dtype": "float16"}, "dtype", "out_of_range"),
        ({"queries": 1, "keys": 200_000, "dtype": "float16", "form": "key-only"}, "dtype", "out_of_range"),
        ({"queries": 1, "keys": 2, "offset": -200_000, "dtype": "float16"}, "dtype", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(ALIBI, **{"heads": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_what_a_number_format_just_holds_is_answered() -> None:
    got = only(ALIBI, heads=8, queries=1, keys=100_001, dtype="float16")
    assert got[0, 0, 0] == -50_000 + 0  # 2^-1 times 100,000
    assert np.isfinite(got.astype(np.float32)).all()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leading", [(), (2,), (2, 1)])
def test_scores_get_the_bias_and_one_rounding_more(leading: tuple[int, ...], form: str, dtype: str) -> None:
    scores = np.random.default_rng(3).standard_normal((*leading, 3, 4, 5)).astype(DTYPES[dtype])
    got = only(APPLY, {"x": scores}, form=form)
    added = only(ALIBI, heads=3, queries=4, keys=5, form=form, dtype=dtype)
    assert got.dtype == scores.dtype
    assert got.tobytes() == (scores + added).tobytes()


def test_scores_in_blocks_across_batches_and_heads() -> None:
    scheme = by_key("apply", "alibi")
    x = np.random.default_rng(4).standard_normal((2, 3, 4, 5)).astype(np.float32)
    for form in FORMS:
        params, inputs = scheme.params(form=form, offset=-1), {"x": x}
        state, table = scheme.prepare(params, inputs), only(APPLY, inputs, form=form, offset=-1).reshape(-1, 5)
        for start in range(0, 24, 5):
            for stop in range(start + 1, 25, 3):
                assert scheme.rows(params, inputs, state, "x", start, stop).tobytes() == table[start:stop].tobytes()


def test_masked_scores_stay_masked() -> None:
    got = only(APPLY, {"x": np.full((1, 2, 2), -np.inf, np.float32)})
    assert (got == -np.inf).all()


def test_scores_become_the_number_format_asked_for() -> None:
    scores = np.ones((2, 1, 3), np.int64)
    assert only(APPLY, {"x": scores}).dtype == np.float32
    assert only(APPLY, {"x": scores}, dtype="bfloat16").dtype == ml_dtypes.bfloat16
    scheme = by_key("apply", "alibi")
    params, inputs = scheme.params(), {"x": np.zeros((6, 2, 1, 3))}
    assert scheme.facts(params, inputs) == {"heads": 2, "queries": 1, "keys": 3, "offset": 2}
    assert scheme.tensors(params, inputs)["x"].axes == ("batch", "head", "query", "key")
    assert "causal" in scheme.notes(params, inputs)[0]


@pytest.mark.parametrize(
    ("x", "parameters", "named", "code"),
    [
        (np.zeros((2, 3)), {}, "/tensors/x", "shape"),
        (np.zeros((2, 0, 3)), {}, "/tensors/x", "shape"),
        (np.zeros((1, 1, 1), bool), {}, "/tensors/x", "type"),
        (np.zeros((1, 1, 1), complex), {}, "/tensors/x", "type"),
        (np.array([[[0, 2**53 + 1]]]), {}, "/tensors/x/0/0/1", "out_of_range"),
        (np.zeros((1, 1, 2)), {"offset": 2**53}, "offset", "out_of_range"),
        (np.zeros((1, 1, 2), np.float16), {"offset": 2**40}, "dtype", "out_of_range"),
    ],
)
def test_apply_refusals(x: Array, parameters: dict[str, int], named: str, code: str) -> None:
    fault = refused(APPLY, {"x": x}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_both_biases_agree() -> None:
    zeros = np.zeros((7, 3, 8), np.float32)
    assert answer(APPLY, {"x": zeros})["x"].tobytes() == only(ALIBI, heads=7, queries=3, keys=8).tobytes()
