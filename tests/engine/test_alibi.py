"""ALiBi slopes, biases and their sum with scores against the paper's recursion at a hundred digits."""

from math import sqrt
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.attention.relative import PIECE
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, rounded
from tests.oracles.oracle_alibi import bias, distance, slopes

ALIBI, SLOPES, APPLY = "biases/alibi", "biases/alibi-slopes", "apply/alibi"
HEADS = (1, 2, 3, 6, 7, 12, 40, 71, 112)
FORMS = ("relative", "symmetric", "key-only", "last-key")
ONE_ROW = FORMS[2:]


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
            rows = exact[head][:1] if form in ONE_ROW else exact[head]
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
    relative, key_only = (
        only(ALIBI, heads=7, length=9, form=form, dtype="float64") for form in ("relative", "key-only")
    )
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
    of_form = {"relative": j - i, "symmetric": -np.abs(j - i), "key-only": j[None], "last-key": j[None] - keys + 1}
    distances = of_form[form]
    np.testing.assert_array_equal(got, distances * np.array([2.0**-4, 2.0**-8])[:, None, None])


def test_many_heads_of_few_rows() -> None:
    got = only(ALIBI, heads=65_536, length=1, form="key-only")
    assert got.shape == (65_536, 1, 1)
    several = only(ALIBI, heads=4096, queries=2, keys=20, dtype="float64")
    np.testing.assert_array_equal(several[[0, 4095], 0, 0], -18 * only(SLOPES, heads=4096, dtype="float64")[[0, 4095]])


def test_facts_and_notes() -> None:
    scheme = by_key("biases", "alibi")
    params = scheme.params(heads=2, queries=1, keys=4)
    placed = {"heads": 2, "queries": 1, "keys": 4, "offset": 3}
    assert scheme.facts(params, {}) == {**placed, "bias_bytes_per_head": 16}
    one_row = scheme.params(heads=2, length=4, form="key-only", dtype="float64")
    assert scheme.facts(one_row, {})["bias_bytes_per_head"] == 32
    assert [bool(scheme.notes(scheme.params(heads=2, length=1, form=form), {})) for form in FORMS] == [
        True,
        False,
        True,
        True,
    ]
    rounded_on_the_way = scheme.notes(scheme.params(heads=2, length=1, form="symmetric", arithmetic="float32"), {})
    assert "arithmetic=float32" in rounded_on_the_way[0]


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
        ({"length": 3, "alibi_num_heads": 9}, "alibi_num_heads", "out_of_range"),
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


ARITHMETICS = ("float32", "float32-powers", "float32-reciprocals", "bfloat16")


def stepped_slopes(arithmetic: str, heads: int, factor: float) -> list[float]:
    """What fairseq, BLOOM, MPT and Falcon make of the slopes, step by step."""
    lower = 1 << (heads.bit_length() - 1)
    terms = [(lower, j) for j in range(1, lower + 1)] + [(2 * lower, j) for j in range(1, 2 * (heads - lower), 2)]
    found = []
    with mpmath.workprec(PRECISION_BITS):
        for n, j in terms:
            if arithmetic == "float32":
                slope = rounded(mpf(2) ** (mpf(-8 * j) / n), "float32")
            elif arithmetic == "float32-reciprocals":
                slope = rounded(1 / mpf(rounded(mpf(2) ** rounded(mpf(8 * j) / n, "float32"), "float32")), "float32")
            else:
                slope = rounded(mpf(rounded(mpf(2) ** (mpf(-8) / n), "float32")) ** j, "float32")
            if factor != 1:
                slope = rounded(mpf(slope) * rounded(1 / factor, "float32"), "float32")
            found.append(rounded(slope, "bfloat16") if arithmetic == "bfloat16" else slope)
    return found


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize(("factor", "head_dim"), [(1, None), (3, None), (1, 80), (2.5, 64)])
def test_slopes_products_and_quotients_are_rounded_on_the_way(
    factor: float, head_dim: int | None, arithmetic: str, dtype: str
) -> None:
    heads, length = 7, 400
    step, wide = "bfloat16" if arithmetic == "bfloat16" else "float32", "float64" if dtype == "float64" else "float32"
    expected = np.empty((heads, length))
    for h, slope in enumerate(stepped_slopes(arithmetic, heads, factor)):
        for j in range(length):
            value = rounded(rounded(mpf(slope) * rounded(j, step), step), dtype)
            if head_dim is not None:
                value = rounded(rounded(mpf(value) / rounded(sqrt(head_dim), wide), wide), dtype)
            expected[h, j] = value
    chosen = {"arithmetic": arithmetic, "interpolation_factor": factor, "head_dim": head_dim, "dtype": dtype}
    got = only(ALIBI, heads=heads, length=length, form="key-only", **chosen)[:, 0]
    assert got.dtype == DTYPES[dtype]
    np.testing.assert_array_equal(got.astype(np.float64), expected)
    assert not np.signbit(got.astype(np.float64)).any()
    listed = only(SLOPES, heads=heads, arithmetic=arithmetic, interpolation_factor=factor, dtype=dtype)
    expected = np.array([rounded(slope, dtype) for slope in stepped_slopes(arithmetic, heads, factor)])
    np.testing.assert_array_equal(listed.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_real_numbers_are_divided_before_they_are_rounded(dtype: str) -> None:
    got = only(ALIBI, heads=6, length=5, dtype=dtype, interpolation_factor=0.3, head_dim=80, form="symmetric")
    with mpmath.workprec(PRECISION_BITS):
        for head, rows in enumerate(bias(6, 5, 5, form="symmetric")):
            divided = [[value / mpf(0.3) / mpmath.sqrt(80) for value in row] for row in rows]
            assert_rounded_once(got[head], divided, dtype)


@pytest.mark.parametrize("arithmetic", ["exact", *ARITHMETICS])
def test_heads_without_a_slope(arithmetic: str) -> None:
    chosen = {"length": 4, "arithmetic": arithmetic, "form": "symmetric"}
    got = only(ALIBI, heads=9, alibi_num_heads=6, **chosen)
    np.testing.assert_array_equal(got[:6], only(ALIBI, heads=6, **chosen))
    assert got[6:].tobytes() == bytes(3 * 16 * 4)


def test_geometric_slopes_of_any_head_count() -> None:
    got = only(SLOPES, heads=12, slope_rule="geometric", dtype="float64")
    with mpmath.workprec(PRECISION_BITS):
        assert_rounded_once(got[None], [[mpf(2) ** (mpf(-8 * j) / 12) for j in range(1, 13)]], "float64")
    assert got[0] == pytest.approx(0.629960525)
    assert only(SLOPES, heads=8, slope_rule="geometric").tolist() == only(SLOPES, heads=8).tolist()
    # The steepest slope decides what a number format holds.
    fault = refused(ALIBI, heads=12, slope_rule="geometric", queries=1, keys=104_200, dtype="float16")
    assert fault.parameter == "dtype"
    assert np.isfinite(only(ALIBI, heads=12, slope_rule="geometric", queries=1, keys=103_900, dtype="float16")).all()


MASK = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0]])


def counted(mask: Array) -> list[list[int]]:
    """Token positions by counting one by one."""
    found = []
    for row in mask.tolist():
        count, positions = 0, []
        for token in row:
            positions.append(count if token else 0)
            count += token
        found.append(positions)
    return found


def counted_bias(positions: list[int], form: str, slope: Any, first: int, queries: int) -> list[list[Any]]:
    if form == "last-key":
        return [[slope * (p - positions[-1]) for p in positions]] * queries
    queries_at = [0 if form == "key-only" else positions[first + query] for query in range(queries)]
    return [[slope * distance(i, p, form) for p in positions] for i in queries_at]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [{}, {"queries": 2}, {"queries": 3, "keys": 6, "offset": 1}, {"length": 6}])
def test_tokens_stand_where_the_mask_counts_them(sizes: dict[str, int], form: str, dtype: str) -> None:
    got = only(ALIBI, {"attention_mask": MASK}, heads=3, form=form, dtype=dtype, **sizes)
    queries = sizes.get("queries", 6)
    shown = 1 if form in ONE_ROW else queries
    assert got.shape == (4, 3, shown, 6)
    with mpmath.workprec(PRECISION_BITS):
        for entry, positions in enumerate(counted(MASK)):
            for head, slope in enumerate(slopes(3)):
                exact = counted_bias(positions, form, slope, sizes.get("offset", 6 - queries), shown)
                assert_rounded_once(got[entry, head], exact, dtype)
    alone = only(ALIBI, {"attention_mask": MASK[1].astype(bool)}, heads=3, form=form, dtype=dtype, **sizes)
    assert alone.tobytes() == got[1].tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_a_full_mask_changes_nothing(form: str) -> None:
    whole = only(ALIBI, {"attention_mask": np.ones(9, int)}, heads=5, form=form, queries=4)
    np.testing.assert_array_equal(whole, only(ALIBI, heads=5, form=form, queries=4, keys=9))


@pytest.mark.parametrize("form", FORMS)
def test_masks_wider_than_a_piece(form: str) -> None:
    keys = PIECE + 9
    mask = np.ones(keys, int)
    mask[:3] = 0
    got = only(ALIBI, {"attention_mask": mask}, heads=1, queries=2, form=form, dtype="float64")
    positions = np.maximum(np.arange(keys) - 3, 0)
    origins = {"key-only": [0], "last-key": [positions[-1]]}.get(form, positions[-2:])
    expected = [(-np.abs(positions - i) if form == "symmetric" else positions - i) * 2.0**-8 for i in origins]
    np.testing.assert_array_equal(got[0], expected)


@pytest.mark.parametrize("form", FORMS)
def test_scores_of_counted_tokens(form: str) -> None:
    x = np.random.default_rng(6).standard_normal((4, 3, 2, 6)).astype(np.float32)
    got = only(APPLY, {"x": x, "attention_mask": MASK}, form=form)
    added = only(ALIBI, {"attention_mask": MASK}, heads=3, queries=2, form=form)
    assert got.tobytes() == (x + added).tobytes()
    # A mask without a batch serves every entry, behind any number of leading axes.
    for leading in [(), (4,), (2, 2)]:
        of_all = only(APPLY, {"x": x.reshape(*leading, -1, 2, 6), "attention_mask": MASK[1]}, form=form)
        heads = of_all.shape[-3]
        own = only(ALIBI, {"attention_mask": MASK[1]}, heads=heads, queries=2, form=form)
        assert of_all.tobytes() == (x.reshape(*leading, -1, 2, 6) + own).tobytes()
    scheme = by_key("apply", "alibi")
    assert scheme.state_bytes(scheme.params(), {"x": x, "attention_mask": MASK}) == 3 * 256 + 8 * 24


@pytest.mark.parametrize(
    ("mask", "parameters", "named", "code"),
    [
        (np.ones((2, 2, 2), int), {}, "/tensors/attention_mask", "shape"),
        (np.array(1), {}, "/tensors/attention_mask", "shape"),
        (np.ones(3), {}, "/tensors/attention_mask", "type"),
        (np.array([0, 2]), {}, "/tensors/attention_mask/1", "value"),
        (np.ones(3, int), {"length": 4}, "/tensors/attention_mask", "shape"),
        (np.ones(3, int), {"keys": 4, "queries": 1}, "/tensors/attention_mask", "shape"),
        (np.ones(3, int), {"queries": 2, "offset": 2}, "offset", "out_of_range"),
        (np.ones(3, int), {"queries": 4}, "offset", "out_of_range"),
        (np.ones(3, int), {"queries": 4, "form": "symmetric"}, "offset", "out_of_range"),
    ],
)
def test_masks_that_are_refused(mask: Array, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ALIBI, {"attention_mask": mask}, heads=2, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
    assert only(ALIBI, {"attention_mask": np.ones(3, int)}, heads=2, queries=9, form="key-only").shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("shape", "mask"), [((2, 3, 4, 5), (2, 4)), ((2, 3, 4, 5), (3, 5)), ((3, 4, 5), (3, 5)), ((2, 2, 3, 4, 5), (4, 5))]
)
def test_masks_unlike_the_scores(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    fault = refused(APPLY, {"x": np.zeros(shape), "attention_mask": np.ones(mask, int)})
    assert (fault.parameter, fault.code) == ("/tensors/attention_mask", "shape")
    assert str(mask[-1]) in fault.detail


def test_spellings_of_one_request_are_resolved_alike() -> None:
    scheme = by_key("biases", "alibi")
    spelled = [{"length": 4}, {"queries": 4}, {"queries": 4, "keys": 4, "offset": 0}]
    assert len({scheme.resolve(scheme.params(heads=2, **sizes), {}) for sizes in spelled}) == 1
    masked = scheme.resolve(scheme.params(heads=2, queries=1), {"attention_mask": MASK})
    assert (masked.queries, masked.keys, masked.offset) == (1, 6, 5)
    assert scheme.sequence(scheme.params(heads=2, queries=1), {"attention_mask": MASK}) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias_max", [5e-324, 8, 512])
@pytest.mark.parametrize("heads", [1, 5])
def test_slopes_too_small_for_float32_are_0(heads: int, bias_max: int, form: str) -> None:
    for arithmetic in ARITHMETICS:
        chosen = {"heads": heads, "length": 3, "form": form, "alibi_bias_max": bias_max}
        exact, got = only(ALIBI, **chosen), only(ALIBI, arithmetic=arithmetic, **chosen)
        np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=0.01, atol=1e-38)
