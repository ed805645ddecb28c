"""Learned tables: as they are initialised, looked up by each model's rule, and joined from two factors."""

from fractions import Fraction
from math import sqrt
from statistics import NormalDist
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine import by_key
from service.engine.numbers.random_numbers import chance_below, normal, truncated_normal, uniform
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, only, refused
from tests.oracles.exact import rounded

LEARNED, LOOKUP, FACTORISED = "encodings/learned", "learned/lookup", "learned/factorised"
RANDOM = np.random.default_rng(31)
TABLE = RANDOM.standard_normal((9, 4)).astype(np.float32)


def rounded_products(numbers: Array, factor: float, dtype: str) -> Array:
    """numbers * factor + 0, each worked out as a fraction and rounded once."""
    exact = [[rounded(Fraction(x) * Fraction(factor), dtype) for x in row] for row in numbers.tolist()]
    return np.array(exact)


# Initialisation


def test_h11_one_seed_is_one_table() -> None:
    asked: dict[str, Any] = {"rows": 512, "dim": 8, "std": 0.02, "seed": 7}
    table = only(LEARNED, **asked)
    assert table.shape == (512, 8)
    assert table.tobytes() == only(LEARNED, **asked).tobytes()
    assert abs(table.std() / 0.02 - 1) < 0.02
    assert np.isfinite(table).all()
    assert table.tobytes() != only(LEARNED, **{**asked, "seed": 8}).tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("std", [0.02, 1.0, 0.0134])
def test_numbers_times_std_are_rounded_once(std: float, dtype: str) -> None:
    got = only(LEARNED, rows=9, dim=5, seed=3, std=std, dtype=dtype)
    assert got.dtype == DTYPES[dtype]
    np.testing.assert_array_equal(got.astype(np.float64), rounded_products(normal(3, range(9), 5), std, dtype))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_uniform_numbers_are_rounded_once(dtype: str) -> None:
    got = only(LEARNED, rows=9, dim=5, seed=3, distribution="uniform", low=-0.3, high=0.7, dtype=dtype)
    width = Fraction(0.7 - -0.3)
    drawn = uniform(3, range(9), 5).tolist()
    exact = [[rounded(Fraction(u) * width + Fraction(-0.3), dtype) for u in row] for row in drawn]
    np.testing.assert_array_equal(got.astype(np.float64), exact)
    unit = only(LEARNED, rows=9, dim=5, seed=3, distribution="uniform", dtype="float64")
    np.testing.assert_array_equal(unit, drawn)


def test_rows_do_not_depend_on_the_others() -> None:
    whole = only(LEARNED, rows=700, dim=40, seed=5)
    np.testing.assert_array_equal(only(LEARNED, rows=2048, dim=40, seed=5)[:700], whole)
    np.testing.assert_array_equal(only(LEARNED, rows=700, dim=40, seed=5, offset=650, length=50), whole[650:])
    at = RANDOM.integers(0, 700, (30, 25))
    got = only(LEARNED, {"positions": at}, rows=700, dim=40, seed=5)
    np.testing.assert_array_equal(got, whole[at])


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ({}, 0),
        ({"offset_rule": "opt"}, 2),
        ({"offset_rule": "roberta"}, 2),
        ({"offset_rule": "roberta", "padding_idx": 0}, 1),
    ],
)
def test_positions_have_the_rows_of_their_rule(asked: dict[str, Any], first: int) -> None:
    plain = only(LEARNED, rows=20, dim=6, seed=5).copy()
    whole = only(LEARNED, rows=20, dim=6, seed=5, **asked)
    if asked.get("offset_rule") == "roberta":
        plain[first - 1] = 0
    np.testing.assert_array_equal(whole, plain)
    np.testing.assert_array_equal(only(LEARNED, rows=20, dim=6, seed=5, length=3, **asked), plain[first : first + 3])
    last = 19 - first
    listed = only(LEARNED, rows=20, dim=6, seed=5, positions=(last, 0.0, -first), **asked)
    np.testing.assert_array_equal(listed, plain[[19, first, 0]])
    scheme = by_key("encodings", "learned")
    facts = scheme.facts(scheme.params(rows=20, dim=6, **asked), {})
    assert facts == {"first_row": first, "last_position": last}


def test_the_normal_distribution_cut_at_two_sigmas() -> None:
    got = only(
        LEARNED, rows=500, dim=200, distribution="truncated-normal", truncation="sigmas", std=0.5, dtype="float64"
    )
    assert 0.999 < np.abs(got).max() <= 1
    # The standard deviation of a normal distribution within two of its own.
    assert abs(got.std() / 0.5 - 0.879626) < 0.005
    share = (np.abs(got) < 0.5).mean()
    assert abs(share - (0.6826895 / 0.9544997)) < 0.005


def test_the_normal_distribution_cut_at_two() -> None:
    wide = only(LEARNED, rows=300, dim=100, distribution="truncated-normal", std=1.7, dtype="float64")
    assert 1.999 < np.abs(wide).max() <= 2
    theirs = NormalDist(0, 1.7)
    inside = theirs.cdf(2) - theirs.cdf(-2)
    for edge in (-1.5, -0.5, 0.2, 1.1):
        assert abs((wide < edge).mean() - (theirs.cdf(edge) - theirs.cdf(-2)) / inside) < 0.01
    # -2 and 2 are a hundred sigmas away: the same numbers as if nothing were cut.
    narrow = only(LEARNED, rows=30, dim=10, distribution="truncated-normal", std=0.02)
    np.testing.assert_array_equal(narrow, only(LEARNED, rows=30, dim=10, std=0.02))


@pytest.mark.parametrize("bound", [0.001, 0.5, 1.0, 2.0, 4.5, 8.99])
def test_the_chance_of_lying_below(bound: float) -> None:
    with mpmath.workdps(60):
        assert chance_below(-bound) == float(mpmath.ncdf(-mpmath.mpf(bound)))


def test_chances_too_small_to_be_drawn_are_none() -> None:
    assert chance_below(-9.0) == 0
    np.testing.assert_array_equal(truncated_normal(3, range(9), 9, 100.0), normal(3, range(9), 9))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, {"std": 0.02, "low": None, "high": None}),
        ({"spread": "inverse-sqrt-dim"}, {"std": 1 / sqrt(96)}),
        ({"spread": "glorot"}, {"std": sqrt(2 / 128)}),
        ({"distribution": "uniform"}, {"std": None, "low": 0.0, "high": 1.0}),
        ({"distribution": "uniform", "spread": "glorot"}, {"low": -sqrt(6 / 128), "high": sqrt(6 / 128)}),
        ({"distribution": "uniform", "low": -1.5}, {"low": -1.5, "high": 1.0}),
        ({"offset_rule": "roberta"}, {"padding_idx": 1}),
    ],
)
def test_the_spread_is_told(asked: dict[str, Any], told: dict[str, float | None]) -> None:
    scheme = by_key("encodings", "learned")
    params = scheme.resolve(scheme.params(rows=32, dim=96, **asked), {})
    for name, value in told.items():
        given = getattr(params, name)
        assert given is None if value is None else given == pytest.approx(value, rel=1e-15)
    assert scheme.resolve(params, {}) == params
    assert scheme.tensors(params, {})["encoding"].shape == (32, 96)


def test_a_cut_that_cuts_nothing_is_told() -> None:
    scheme = by_key("encodings", "learned")

    def notes(**asked: Any) -> list[str]:
        return scheme.notes(scheme.params(rows=32, dim=96, **asked), {})

    assert notes(distribution="truncated-normal") == ["-2 and 2 are 100 standard deviations away: no number is cut off"]
    assert notes(distribution="truncated-normal", std=1.0) == []
    assert notes(distribution="truncated-normal", truncation="sigmas") == []
    assert notes() == []
    assert notes(truncation="sigmas") == ["truncation has no effect with distribution=normal"]


@pytest.mark.parametrize(
    ("asked", "named", "code", "said"),
    [
        ({"positions": (2048.0,)}, "positions", "out_of_range", "row 2048, and the table has 2048 rows"),
        ({"length": 2049}, "length", "out_of_range", "position 2048 would need row 2048"),
        ({"length": 1, "offset": 2048}, "offset", "out_of_range", "positions from 0 to 2047"),
        ({"length": 1, "offset": -1}, "offset", "out_of_range", "position -1 would need row -1"),
        ({"length": 2, "offset": 2046, "offset_rule": "opt"}, "offset", "out_of_range", "positions from -2 to 2045"),
        ({"positions": (0.5,)}, "positions", "type", "between two rows"),
        ({"offset": 5}, "offset", "conflict", "length="),
        ({"padding_idx": 1}, "padding_idx", "conflict", "offset_rule=roberta"),
        ({"rows": 2, "offset_rule": "opt"}, "rows", "out_of_range", "3 rows or more would do"),
        ({"distribution": "uniform", "low": 1.0}, "high", "out_of_range", "high must be larger"),
        ({"distribution": "uniform", "std": 1.0}, "std", "conflict", "decides nothing"),
        ({"low": 1.0}, "low", "conflict", "decides nothing"),
        ({"spread": "glorot", "std": 0.02}, "std", "conflict", "decides nothing"),
        ({"std": 1e9, "dtype": "float16"}, "dtype", "out_of_range", "use bfloat16, float32, float64"),
        ({"std": 8e3, "dtype": "float16"}, "dtype", "out_of_range", "7.2e+04"),
        ({"distribution": "truncated-normal", "truncation": "sigmas", "std": 4e4, "dtype": "float16"}, "dtype",
         "out_of_range", "8e+04"),
        ({"distribution": "uniform", "low": -7e4, "dtype": "float16"}, "dtype", "out_of_range", "7e+04"),
        ({"distribution": "uniform", "high": 7e4, "dtype": "float16"}, "dtype", "out_of_range", "7e+04"),
    ],
)  # fmt: skip
def test_refusals_of_the_initial_table(asked: dict[str, Any], named: str, code: str, said: str) -> None:
    fault = refused(LEARNED, **{"rows": 2048, "dim": 4, **asked})
    assert (fault.parameter, fault.code) == (named, code)
    assert said in fault.detail


@pytest.mark.parametrize(
    "asked",
    [
        {"std": 7e3},
        {"distribution": "truncated-normal", "std": 1e9},
        {"distribution": "truncated-normal", "truncation": "sigmas", "std": 3e4},
        {"distribution": "uniform", "low": -65504.0, "high": 65504.0},
    ],
)
def test_wide_tables_are_finite_in_float16(asked: dict[str, Any]) -> None:
    table = only(LEARNED, rows=4096, dim=8, dtype="float16", **asked).astype(np.float64)
    assert np.isfinite(table).all()
    assert table.std() > 1


# Lookup


def test_a18_a_position_past_the_table_is_refused_with_all_there_is_to_know() -> None:
    fault = refused(LOOKUP, {"x": np.zeros((512, 4)), "positions": np.array([[0, 1], [512, 3]])})
    assert (fault.parameter, fault.code) == ("/positions/1/0", "out_of_range")
    assert (fault.limit, fault.requested) == (511, 512)
    assert "position 512" in fault.detail
    assert "512 rows" in fault.detail
    assert "to 511" in fault.detail


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ({}, 0),
        ({"offset_rule": "opt"}, 2),
        ({"offset_rule": "roberta"}, 2),
        ({"offset_rule": "roberta", "padding_idx": 4}, 5),
    ],
)
def test_rows_are_those_of_the_table(asked: dict[str, Any], first: int, dtype: str) -> None:
    table = TABLE.astype(DTYPES[dtype])
    at = RANDOM.integers(-first, 9 - first, (3, 2, 5))
    got = only(LOOKUP, {"x": table, "positions": at}, **asked)
    assert got.dtype == DTYPES[dtype]
    assert got.tobytes() == table[at + first].tobytes()
    listed = only(LOOKUP, {"x": table[None]}, positions=(2.0, 0.0), **asked)
    assert listed.tobytes() == table[[2 + first, first]].tobytes()
    counted = only(LOOKUP, {"x": table}, length=2, offset=1, **asked)
    assert counted.tobytes() == table[first + 1 : first + 3].tobytes()


def test_another_format_is_rounded_to_once() -> None:
    got = only(LOOKUP, {"x": np.array([[1 + 2**-8 + 2**-40]])}, length=1, dtype="bfloat16")
    assert got[0, 0] == 1.0078125


def test_infinities_and_nan_pass_through() -> None:
    table = np.array([[np.nan, -np.inf], [1.0, np.inf]], np.float32)
    assert only(LOOKUP, {"x": table}, positions=(1.0, 0.0)).tobytes() == table[::-1].tobytes()


@pytest.mark.parametrize(
    ("asked", "padded"), [({"offset_rule": "opt"}, 1), ({"offset_rule": "roberta", "padding_idx": 3}, 3)]
)
def test_padding_has_a_row_of_its_own(asked: dict[str, Any], padded: int) -> None:
    mask = np.array([[1, 1, 1, 0], [0, 0, 1, 1]])
    got = only(LOOKUP, {"x": TABLE, "attention_mask": mask}, **asked)
    first = padded + 1
    rows = np.array([[first, first + 1, first + 2, padded], [padded, padded, first, first + 1]])
    np.testing.assert_array_equal(got, TABLE[rows])
    line = only(LOOKUP, {"x": TABLE, "attention_mask": mask[1].astype(bool)}, **asked)
    np.testing.assert_array_equal(line, TABLE[rows[1]])


def test_a_mask_without_padding_counts_in_any_table() -> None:
    np.testing.assert_array_equal(only(LOOKUP, {"x": TABLE, "attention_mask": np.ones((1, 9), int)}), TABLE[None])


def test_facts_of_a_lookup() -> None:
    scheme = by_key("learned", "lookup")
    params = scheme.resolve(scheme.params(offset_rule="roberta", length=1), {"x": TABLE})
    assert params.padding_idx == 1
    assert scheme.facts(params, {"x": TABLE}) == {"rows": 9, "first_row": 2, "last_position": 6}
    assert scheme.state_bytes(params, {"x": TABLE, "attention_mask": np.ones(5)}) == 40


@pytest.mark.parametrize(
    ("arrays", "asked", "named", "code", "said"),
    [
        ({}, {}, "length", "missing", "length"),
        ({"x": np.ones(4)}, {"length": 1}, "/tensors/x", "shape", "(rows, channels)"),
        ({"x": np.ones((2, 3, 4))}, {"length": 1}, "/tensors/x", "shape", "(rows, channels)"),
        ({"x": np.ones((3, 0))}, {"length": 1}, "/tensors/x", "shape", "no empty axis"),
        ({"x": np.ones((3, 2), bool)}, {"length": 1}, "/tensors/x", "type", "bool"),
        ({"x": np.full((3, 2), 2**53 + 1)}, {"length": 1}, "/tensors/x/0/0", "out_of_range", "2^53"),
        ({"x": np.full((3, 2), 1e6)}, {"length": 1, "dtype": "float16"}, "/tensors/x/0/0", "out_of_range", "float16"),
        ({}, {"length": 10}, "length", "out_of_range", "positions from 0 to 8"),
        ({}, {"length": 8, "offset_rule": "opt"}, "length", "out_of_range", "positions from -2 to 6"),
        ({"positions": np.array([-1])}, {}, "/positions/0", "out_of_range", "row -1"),
        ({"positions": np.array([[0.5]])}, {}, "/positions/0/0", "type", "0.5"),
        ({"attention_mask": np.array([1, 0])}, {}, "offset_rule", "conflict", "opt and roberta"),
        ({"attention_mask": np.ones(10, int)}, {}, "/tensors/attention_mask", "out_of_range", "10 ones"),
        ({"attention_mask": np.ones(2, int)}, {"length": 2}, "length", "conflict", "exclude"),
        ({"attention_mask": np.ones(2, int)}, {"offset": 2}, "offset", "conflict", "exclude"),
        ({"attention_mask": np.ones(2, int), "positions": np.ones(2)}, {}, "positions", "conflict", "exclude"),
        ({"attention_mask": np.array([2])}, {"offset_rule": "opt"}, "/tensors/attention_mask/0", "value", "0 or 1"),
    ],
)
def test_refusals_of_a_lookup(
    arrays: dict[str, Array], asked: dict[str, Any], named: str, code: str, said: str
) -> None:
    fault = refused(LOOKUP, {"x": TABLE, **arrays}, **asked)
    assert (fault.parameter, fault.code) == (named, code)
    assert said in fault.detail


# Factors


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("joining", ["columns-rows", "rows-columns", "sum"])
def test_cells_have_the_channels_of_their_row_and_column(joining: str, dtype: str) -> None:
    rows = RANDOM.standard_normal((5, 3)).astype(DTYPES[dtype])
    columns = RANDOM.standard_normal((7, 3 if joining == "sum" else 2)).astype(DTYPES[dtype])
    got = answer(FACTORISED, {"rows": rows, "columns": columns}, grid=(4, 6), joining=joining)["encoding"]
    assert got.dtype == DTYPES[dtype]
    for row in range(4):
        for column in range(6):
            mine, its = rows[row].astype(np.float64), columns[column].astype(np.float64)
            if joining == "sum":
                pairs = zip(mine.tolist(), its.tolist(), strict=True)
                expected = [rounded(Fraction(a) + Fraction(b), dtype) for a, b in pairs]
            else:
                expected = np.concatenate([its, mine] if joining == "columns-rows" else [mine, its]).tolist()
            assert got[row, column].astype(np.float64).tolist() == expected
    flat, first = (
        only(FACTORISED, {"rows": rows, "columns": columns}, grid=(4, 6), joining=joining, axes=axes)
        for axes in ("sequence", "channels-first")
    )
    assert flat.tobytes() == got.tobytes()
    assert flat.shape == (24, got.shape[2])
    assert np.ascontiguousarray(first.transpose(1, 2, 0)).tobytes() == got.tobytes()


def test_the_sum_is_rounded_once() -> None:
    """float32 would lose the last bit first."""
    arrays = {"rows": np.array([[1.0]]), "columns": np.array([[2**-8 + 2**-40]])}
    got = only(FACTORISED, arrays, joining="sum", dtype="float64")
    assert got[0, 0, 0] == 1 + 2**-8 + 2**-40
    small = {"rows": np.array([[256.0]], np.float16), "columns": np.array([[0.125 + 2**-12]], np.float16)}
    assert only(FACTORISED, small, joining="sum")[0, 0, 0] == 256.25


def test_the_whole_grid_unless_one_is_given() -> None:
    scheme = by_key("learned", "factorised")
    arrays = {"rows": np.ones((1, 5, 2)), "columns": np.ones((7, 3))}
    assert scheme.tensors(scheme.params(), arrays)["encoding"].shape == (5, 7, 5)
    assert scheme.resolve(scheme.params(), arrays).grid == (5, 7)
    assert scheme.resolve(scheme.params(grid=(3,)), arrays).grid == (3, 3)


@pytest.mark.parametrize(
    ("arrays", "asked", "named", "code", "said"),
    [
        ({}, {"grid": (6, 1)}, "grid", "out_of_range", "6 rows, and the table of rows has 5: 5 are the most"),
        ({}, {"grid": (1, 8)}, "grid", "out_of_range", "8 columns, and the table of columns has 7"),
        ({}, {"joining": "sum"}, "/tensors/columns", "shape", "as many of both"),
        ({"rows": np.ones((5, 2), np.float16)}, {}, "dtype", "missing", "rows holds float16 and columns float64"),
        ({"rows": np.ones(5)}, {}, "/tensors/rows", "shape", "(rows, channels)"),
        ({"columns": np.ones((2, 7, 3))}, {}, "/tensors/columns", "shape", "(rows, channels)"),
        ({"columns": np.full((7, 3), 1e6)}, {"dtype": "float16"}, "/tensors/columns/0/0", "out_of_range", "float16"),
    ],
)
def test_refusals_of_factors(arrays: dict[str, Array], asked: dict[str, Any], named: str, code: str, said: str) -> None:
    fault = refused(FACTORISED, {"rows": np.ones((5, 2)), "columns": np.ones((7, 3)), **arrays}, **asked)
    assert (fault.parameter, fault.code) == (named, code)
    assert said in fault.detail
