"""Resized tables: within one ulp of fractions worked out by loops, whatever cancels."""

from fractions import Fraction
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine import by_key
from service.engine.numbers.weighted import largest_values, write_sums
from service.engine.resampling import Resizing, Taps, align_corners, crossed, half_pixel, plus_tenth
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, close, only, refused
from tests.oracles import oracle_resample
from tests.oracles.exact import spacing

RESAMPLE = "learned/resample"
RANDOM = np.random.default_rng(29)
SIZES = [(4, 8), (8, 4), (5, 7), (7, 5), (1, 3), (3, 1), (12, 2), (2, 13), (6, 6)]
CONVENTIONS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    ({"sampling": "align-corners"}, {"sampling": "align-corners"}),
    ({"antialias": "antialias"}, {"antialias": True}),
    ({"ratio": "plus-tenth"}, {"tenth": True}),
    ({"ratio": "plus-tenth", "antialias": "antialias"}, {"tenth": True, "antialias": True}),
    ({"bicubic_coefficient": "-0.5"}, {"a": Fraction(-1, 2)}),
    ({"bicubic_coefficient": "-0.5", "edges": "renormalise"}, {"a": Fraction(-1, 2), "renormalise": True}),
    ({"sampling": "align-corners", "edges": "renormalise"}, {"sampling": "align-corners", "renormalise": True}),
]


def assert_within_an_ulp(got: Array, exact: list[list[Fraction]], dtype: str) -> None:
    """Each number is less than one step of its format from the real one (rows of fractions)."""
    assert got.dtype == DTYPES[dtype]
    assert got.shape == (len(exact), len(exact[0]))
    for ours, theirs in zip(got.astype(np.float64).ravel().tolist(), chain.from_iterable(exact), strict=True):
        assert abs(Fraction(ours) - theirs) <= spacing(abs(theirs), dtype), (ours, float(theirs))


def fractions(table: Array) -> list[list[Fraction]]:
    return [[Fraction(number) for number in row] for row in table.astype(np.float64).tolist()]


def transposed(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    return [list(column) for column in zip(*rows, strict=True)]


def sequence(table: Array, new: int, **convention: Any) -> list[list[Fraction]]:
    """Every column of a table resized by the oracle."""
    columns = transposed(fractions(table))
    return transposed([oracle_resample.line(column, new, **convention) for column in columns])


def on_a_grid(table: Array, old: tuple[int, int], new: tuple[int, int], **convention: Any) -> list[list[Fraction]]:
    """Every channel of the rows of a grid resized by the oracle."""
    channels = []
    for column in transposed(fractions(table)):
        cells = [column[row * old[1] : (row + 1) * old[1]] for row in range(old[0])]
        channels.append(list(chain.from_iterable(oracle_resample.grid(cells, *new, **convention))))
    return transposed(channels)


@pytest.mark.parametrize(("asked", "meant"), CONVENTIONS, ids=str)
@pytest.mark.parametrize("method", ["linear", "bicubic"])
@pytest.mark.parametrize(("old", "new"), SIZES)
def test_a_sequence_is_within_an_ulp(
    old: int, new: int, method: str, asked: dict[str, str], meant: dict[str, Any]
) -> None:
    if old == new and "ratio" in asked:
        return  # a table of the same size is answered as it is
    for dtype in DTYPE_NAMES:
        table = RANDOM.standard_normal((old, 3)).astype(DTYPES[dtype])
        got = only(RESAMPLE, {"x": table}, length=new, method=method, **asked)
        assert_within_an_ulp(got, sequence(table, new, cubic=method == "bicubic", **meant), dtype)


@pytest.mark.parametrize(("asked", "meant"), CONVENTIONS, ids=str)
@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("old", "new"), [((3, 4), (5, 3)), ((2, 5), (2, 8)), ((6, 2), (1, 7)), ((1, 4), (3, 3))])
def test_a_grid_is_within_an_ulp(
    old: tuple[int, int], new: tuple[int, int], method: str, asked: dict[str, str], meant: dict[str, Any]
) -> None:
    for dtype in DTYPE_NAMES:
        table = RANDOM.standard_normal((prod(old), 2)).astype(DTYPES[dtype])
        got = only(RESAMPLE, {"x": table}, old_grid=old, grid=new, method=method, **asked)
        assert_within_an_ulp(got, on_a_grid(table, old, new, cubic=method == "bicubic", **meant), dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_another_format_is_rounded_to_once(dtype: str) -> None:
    table = RANDOM.standard_normal((5, 2))
    got = only(RESAMPLE, {"x": table}, length=8, dtype=dtype)
    assert_within_an_ulp(got, sequence(table, 8, cubic=True), dtype)


def hostile() -> st.SearchStrategy[list[float]]:
    """Numbers that cancel: few magnitudes, far apart, both signs, zeros, and the smallest there are."""
    sizes = st.sampled_from([0.0, 1.0, 3.0, 1 / 3, 2.0**-60, 2.0**-120, 2.0**90, 2.0**149, 5e-324, 1e-310, 2.0**-1000])
    return st.lists(st.builds(lambda size, sign: size * sign, sizes, st.sampled_from([1.0, -1.0])), min_size=1)


@settings(max_examples=300)
@given(
    numbers=hostile().filter(lambda numbers: len(numbers) < 13),
    new=st.integers(1, 13),
    method=st.sampled_from(["linear", "bicubic"]),
    convention=st.sampled_from(CONVENTIONS),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_what_cancels_is_within_an_ulp(
    numbers: list[float], new: int, method: str, convention: tuple[dict[str, str], dict[str, Any]], dtype: str
) -> None:
    table = np.array(numbers)[:, None]
    if dtype == "float32":
        table = table * (np.abs(table) < 2.0**120)
    if len(numbers) != new:
        got = only(RESAMPLE, {"x": table}, length=new, method=method, dtype=dtype, **convention[0])
        assert_within_an_ulp(got, sequence(table, new, cubic=method == "bicubic", **convention[1]), dtype)


@settings(max_examples=200)
@given(
    numbers=st.lists(
        st.sampled_from([0.0, 1.0, -1.0, 2.0**150, -(2.0**150), 2.0**-150, 2.0**-151]), min_size=16, max_size=16
    ),
    new=st.sampled_from([(3, 3), (7, 5), (2, 9)]),
)
def test_what_cancels_on_a_grid_is_within_an_ulp(numbers: list[float], new: tuple[int, int]) -> None:
    table = np.array(numbers)[:, None]
    got = only(RESAMPLE, {"x": table}, old_grid=(4, 4), grid=new)
    assert_within_an_ulp(got, on_a_grid(table, (4, 4), new, cubic=True), "float64")


def test_three_levels_of_cancelling_leave_the_last() -> None:
    """What three float64 a sum cannot hold is worked out with fractions."""
    cells = np.zeros((4, 4))
    cells[0, 0], cells[3, 3], cells[0, 3], cells[3, 0], cells[1, 1] = 2.0**150, -(2.0**150), 1, -1, 2.0**-150 / 3
    table = cells.reshape(16, 1)
    # Three rows of four: the middle one lies half way between two old ones.
    got = only(RESAMPLE, {"x": table}, old_grid=(4, 4), grid=(3, 3)).reshape(3, 3)
    exact = on_a_grid(table, (4, 4), (3, 3), cubic=True)
    assert got[1, 1] == float(exact[4][0]) == float(Fraction(361, 1024) * Fraction(cells[1, 1]))


def test_cancelling_to_nothing_is_zero() -> None:
    table = np.array([[2.0, 0.1], [-1.0, -0.1]], np.float32)
    got = only(RESAMPLE, {"x": table}, length=4, method="linear", sampling="align-corners")
    assert got[2].tolist()[0] == 0.0
    assert not np.signbit(got[2, 0])


@pytest.mark.parametrize(("old", "new", "row", "bits"), [(104729, 104743, 54321, 53), (5, 2**53, 2**52 + 7, 159)])
def test_weights_of_any_size_are_whole_numbers(old: int, new: int, row: int, bits: int) -> None:
    """Numerators beyond 2^53 are split, and lose nothing."""
    axis = Resizing(old, plus_tenth(old, new), "cubic", 3)
    taps = axis.taps(row)
    assert max(taps.numerators) > 2**bits
    values = RANDOM.standard_normal((old, 1))
    for dtype in ("float32", "float64"):
        out = np.empty((1, 1), dtype)
        write_sums(values, largest_values(values), iter([taps]), axis.most, out)
        terms = [Fraction(values[old_row, 0]) * n for old_row, n in zip(taps.rows, taps.numerators, strict=True)]
        assert_within_an_ulp(out, [[sum(terms, Fraction(0)) / taps.denominator]], dtype)


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize("stretch", [False, True])
@pytest.mark.parametrize("edges", ["replicate", "renormalise"])
def test_no_row_has_more_taps_than_said(kernel: Any, stretch: bool, edges: Any) -> None:
    for old, new, step in product(range(1, 14), range(1, 14), (half_pixel, plus_tenth, align_corners)):
        axis = Resizing(old, step(old, new), kernel, 2, stretch, edges)
        for row in range(new):
            taps = axis.taps(row)
            assert 1 <= len(taps.rows) <= axis.most
            assert sum(taps.numerators) == taps.denominator > 0
            assert list(taps.rows) == sorted(taps.rows)
            assert sum(map(abs, taps.numerators)) < 2 * taps.denominator


def test_the_weights_of_a_block_are_counted() -> None:
    scheme = by_key("learned", "resample")

    def counted(**asked: Any) -> int:
        return scheme.state_bytes(scheme.params(**asked), {"x": np.ones((16, 5))})

    assert counted(length=16) == counted(length=20, method="pad") == 0
    assert counted(length=20) == 8 * 5 + 128 * 20 * 4
    assert counted(grid=(5, 6), method="bilinear") == 8 * 5 + 128 * 30 * 4
    assert counted(length=10**9) == 8 * 5 + 128 * 2**18


def test_crossed_taps_are_those_of_the_cell() -> None:
    got = crossed(Taps((1, 3), (1, 2), 3), Taps((0, 2), (3, 1), 4), 5)
    assert got == Taps((5, 7, 15, 17), (3, 1, 6, 2), 12)


@pytest.mark.parametrize("method", ["linear", "bicubic"])
@pytest.mark.parametrize("antialias", ["none", "antialias"])
def test_a_constant_stays(method: str, antialias: str) -> None:
    table = np.full((7, 2), 1 / 3, np.float32)
    got = only(RESAMPLE, {"x": table}, length=19, method=method, antialias=antialias)
    assert (got == np.float32(1 / 3)).all()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "asked", [{}, {"antialias": "antialias"}, {"ratio": "plus-tenth"}, {"sampling": "align-corners"}]
)
def test_h05_the_same_grid_is_the_same_bytes(dtype: str, asked: dict[str, str]) -> None:
    table = RANDOM.standard_normal((13, 5)).astype(DTYPES[dtype])
    table[3] = -0.0
    table[4, 0] = np.inf
    got = only(RESAMPLE, {"x": table}, old_grid=(3, 4), grid=(3, 4), prefix=1, **asked)
    assert got.tobytes() == table.tobytes()


def test_h05_the_same_count_on_another_grid_is_resized() -> None:
    table = (10.0 * np.arange(2)[:, None] + np.arange(8)).reshape(16, 1)
    got = only(RESAMPLE, {"x": table}, old_grid=(2, 8), grid=(4, 4), antialias="antialias").reshape(4, 4)
    expected = [
        [-0.33842, 1.577107, 3.658188, 5.573714],
        [2.615362, 4.530888, 6.611970, 8.527496],
        [8.472504, 10.388031, 12.469112, 14.384640],
        [11.426285, 13.341812, 15.422893, 17.338421],
    ]
    close(got, expected, 2e-6)


def test_h06_half_pixels_corners_and_the_cubic_constant() -> None:
    ramp, impulse = np.arange(4.0)[:, None], np.zeros((8, 1))
    impulse[3] = 8

    def longer(**asked: str) -> Array:
        return only(RESAMPLE, {"x": ramp}, length=8, **asked)[:, 0]

    def shorter(**asked: str) -> Array:
        return only(RESAMPLE, {"x": impulse}, length=4, **asked)[:, 0]

    close(longer(method="linear"), [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3], 0)
    corners = longer(method="linear", sampling="align-corners")
    close(corners[[0, 1, 2, 3, 7]], [0, 0.428571, 0.857143, 1.285714, 3], 1e-6)
    close(longer()[:4], [-0.10546875, 0.19140625, 0.66796875, 1.296875], 0)
    close(longer(antialias="antialias")[:4], [-0.088235294, 0.167883212, 0.709923664, 1.25], 1e-9)
    close(shorter(method="linear"), [0, 4, 0, 0], 0)
    close(shorter(method="linear", antialias="antialias"), [0, 3, 1, 0], 0)
    close(shorter(), [0, 4.75, -0.75, 0], 0)
    close(shorter(antialias="antialias"), [-0.301255, 3.428571, 0.895753, -0.100418], 1e-6)


def test_h11_a_longer_table_begins_with_the_old_rows() -> None:
    table = RANDOM.standard_normal((512, 8)).astype(np.float32)
    repeated = only(RESAMPLE, {"x": table}, length=1024, method="repeat")
    assert repeated.tobytes() == table.tobytes() * 2
    padded = only(RESAMPLE, {"x": table}, length=1024, method="pad")
    assert padded.tobytes() == table.tobytes() + np.zeros_like(table).tobytes()
    last = only(RESAMPLE, {"x": table}, length=515, method="pad", fill="last-row")
    np.testing.assert_array_equal(last, table[[*range(512), 511, 511, 511]])
    assert np.isfinite(only(RESAMPLE, {"x": table}, length=1024)).all()
    np.testing.assert_array_equal(only(RESAMPLE, {"x": table}, length=7, method="repeat"), table[:7])
    np.testing.assert_array_equal(only(RESAMPLE, {"x": table}, length=7, method="pad"), table[:7])


def test_prefix_rows_stay_and_what_follows_begins_anew() -> None:
    table = RANDOM.standard_normal((514, 3)).astype(np.float16)
    got = only(RESAMPLE, {"x": table}, length=1300, method="repeat", prefix=2)
    np.testing.assert_array_equal(got, np.concatenate([table[:2], table[2:], table[2:], table[2:278]]))


@pytest.mark.parametrize(("method", "fill"), [("repeat", "zeros"), ("pad", "zeros"), ("pad", "last-row")])
def test_grids_repeat_and_are_padded_along_both_axes(method: str, fill: str) -> None:
    table = RANDOM.standard_normal((7, 2)).astype(np.float32)
    cells = table[1:].reshape(2, 3, 2)
    got = only(RESAMPLE, {"x": table}, prefix=1, old_grid=(2, 3), grid=(5, 4), method=method, fill=fill)
    np.testing.assert_array_equal(got[0], table[0])
    expected = np.zeros((5, 4, 2), np.float32)
    for row, column in product(range(5), range(4)):
        if method == "repeat":
            expected[row, column] = cells[row % 2, column % 3]
        elif fill == "last-row":
            expected[row, column] = cells[min(row, 1), min(column, 2)]
        elif row < 2 and column < 3:
            expected[row, column] = cells[row, column]
    np.testing.assert_array_equal(got[1:].reshape(5, 4, 2), expected)


@pytest.mark.parametrize(
    ("shape", "asked", "axes", "answered"),
    [
        ((5, 3), {"length": 7}, ("position", "channel"), (7, 3)),
        ((1, 5, 3), {"length": 7}, ("batch", "position", "channel"), (1, 7, 3)),
        ((1, 5, 3), {"grid": (2, 3), "prefix": 1}, ("batch", "position", "channel"), (1, 7, 3)),
        ((2, 4, 3), {"grid": (5,)}, ("row", "column", "channel"), (5, 5, 3)),
        ((1, 2, 4, 3), {"grid": (5, 1)}, ("batch", "row", "column", "channel"), (1, 5, 1, 3)),
        ((2, 4, 3), {"grid": (5, 1), "old_grid": (2, 4)}, ("row", "column", "channel"), (5, 1, 3)),
    ],
)
def test_axes_are_those_of_the_table(
    shape: tuple[int, ...], asked: dict[str, Any], axes: tuple[str, ...], answered: tuple[int, ...]
) -> None:
    scheme = by_key("learned", "resample")
    tensor = scheme.tensors(scheme.params(**asked), {"x": np.ones(shape)})["x"]
    assert (tensor.axes, tensor.shape) == (axes, answered)


def test_a_grid_of_three_axes_is_the_grid_of_its_rows() -> None:
    table = RANDOM.standard_normal((12, 5))
    flat = only(RESAMPLE, {"x": table}, old_grid=(3, 4), grid=(5, 2))
    shaped = only(RESAMPLE, {"x": table.reshape(3, 4, 5)}, grid=(5, 2))
    assert shaped.tobytes() == flat.tobytes()


def test_whole_numbers_become_float32() -> None:
    got = only(RESAMPLE, {"x": np.array([[0], [1]])}, length=3, method="linear")
    assert got.dtype == np.float32
    assert got[:, 0].tolist() == [0, 0.5, 1]


def test_what_was_chosen_is_told() -> None:
    scheme = by_key("learned", "resample")

    def told(**asked: Any) -> tuple[Any, ...]:
        params = scheme.resolve(scheme.params(**asked), inputs)
        assert scheme.resolve(params, inputs) == params
        return params.bicubic_coefficient, params.edges, params.grid, params.old_grid, scheme.notes(params, inputs)

    inputs = {"x": np.ones((9, 2))}
    assert told(length=4) == ("-0.75", "replicate", None, None, [])
    assert told(grid=(2,), antialias="antialias") == ("-0.5", "renormalise", (2, 2), (3, 3), [])
    assert told(grid=(3,))[4] == ["the size is the same: the table is copied"]
    assert "(HY 4) shifts it by the tenth" in told(grid=(3,), ratio="plus-tenth")[4][0]
    copied = told(grid=(3,), ratio="plus-tenth", method="bilinear")[4]
    assert copied == ["the size is the same: the table is copied"]
    assert told(length=4, method="linear", bicubic_coefficient="-0.5", fill="last-row")[4] == [
        "bicubic_coefficient has no effect with method=linear",
        "fill has no effect with method=linear",
    ]
    assert told(length=4, fill="last-row")[4] == ["fill has no effect with method=bicubic"]
    assert told(length=4, method="pad", fill="last-row", ratio="plus-tenth")[4] == [
        "ratio has no effect with method=pad"
    ]
    assert told(length=4, method="repeat", fill="last-row")[4] == ["fill has no effect with method=repeat"]
    assert scheme.facts(scheme.params(grid=(4, 5), prefix=5, old_grid=(4, 1)), inputs) == {
        "old_rows": 9,
        "new_rows": 25,
    }


@pytest.mark.parametrize(
    ("x", "asked", "named", "code", "said"),
    [
        (np.ones((4, 2)), {}, "length", "missing", "give length="),
        (np.ones((4, 2)), {"length": 2, "grid": (2, 2)}, "length", "conflict", "not both"),
        (np.ones(4), {"length": 2}, "/tensors/x", "shape", "(rows, channels)"),
        (np.ones((2, 3, 2)), {"length": 2}, "/tensors/x", "shape", "(rows, channels)"),
        (np.ones((2, 2, 3, 2)), {"grid": (2,)}, "/tensors/x", "shape", "(rows, channels)"),
        (np.ones((0, 2)), {"length": 2}, "/tensors/x", "shape", "no empty axis"),
        (np.ones((4, 2), bool), {"length": 2}, "/tensors/x", "type", "bool"),
        (np.ones((4, 2)), {"length": 2, "prefix": 4}, "prefix", "out_of_range", "at least one must be left"),
        (np.ones((4, 2)), {"length": 2, "old_grid": (2,)}, "old_grid", "conflict", "no meaning"),
        (np.ones((197, 2)), {"grid": (7,)}, "prefix", "shape", "not 14 x 14 + 0 prefix rows; prefix=1 would do"),
        (np.ones((197, 2)), {"grid": (7,), "old_grid": (14,)}, "old_grid", "shape", "prefix=1 would do"),
        (
            np.ones((195, 2)),
            {"grid": (7,)},
            "prefix",
            "shape",
            "not 14 x 14 + 0 prefix rows; old_grid=height,width says",
        ),
        (np.ones((12, 2)), {"grid": (7,), "old_grid": (3, 5)}, "old_grid", "shape", "old_grid=height,width says"),
        (np.ones((2, 3, 2)), {"grid": (7,), "prefix": 1}, "prefix", "conflict", "2 x 3 cells: leave prefix out"),
        (np.ones((2, 3, 2)), {"grid": (7,), "old_grid": (3, 2)}, "old_grid", "conflict", "leave old_grid out"),
        (np.ones((4, 2)), {"length": 2, "method": "bilinear"}, "method", "conflict", "it is linear, or bicubic"),
        (np.ones((4, 2)), {"grid": (3,), "method": "linear"}, "method", "conflict", "it is bilinear, or bicubic"),
        (
            np.ones((4, 2)),
            {"length": 2, "antialias": "antialias", "sampling": "align-corners"},
            "sampling",
            "conflict",
            "half-pixel",
        ),
        (
            np.ones((4, 2)),
            {"length": 2, "antialias": "antialias", "bicubic_coefficient": "-0.75"},
            "bicubic_coefficient",
            "conflict",
            "it is -0.5",
        ),
        (
            np.ones((4, 2)),
            {"length": 2, "antialias": "antialias", "edges": "replicate"},
            "edges",
            "conflict",
            "renormalised",
        ),
        (
            np.ones((4, 2)),
            {"length": 2, "ratio": "plus-tenth", "sampling": "align-corners"},
            "ratio",
            "conflict",
            "corners",
        ),
        (np.array([[1.0], [np.nan]]), {"length": 3}, "/tensors/x", "out_of_range", "NaN"),
        (np.array([[1.0], [-np.inf]]), {"length": 3}, "/tensors/x", "out_of_range", "infinities"),
        (np.array([[1.0], [np.nan]]).astype(DTYPES["bfloat16"]), {"length": 3}, "/tensors/x", "out_of_range", "NaN"),
        (np.array([[1.0], [-1e300]]), {"length": 3}, "/tensors/x", "out_of_range", "2^700"),
        (np.array([[1.0], [4e4]]), {"length": 3, "dtype": "float16"}, "/tensors/x", "out_of_range", "float16"),
        (np.array([[1.0], [1e5]]), {"length": 3, "dtype": "float16"}, "/tensors/x/1/0", "out_of_range", "float16"),
        (np.ones((2**20 + 1, 1)), {"length": 3}, "/tensors/x", "too_large", "1048576"),
        (np.ones((5, 1)), {"length": 2**22 + 1}, "length", "too_large", "4194304"),
        (np.ones((6, 1)), {"old_grid": (2, 3), "grid": (2**12, 2**11)}, "grid", "too_large", "8388608 rows"),
        (np.ones((1100, 1)), {"length": 2, "antialias": "antialias"}, "antialias", "too_large", "in two steps"),
    ],
)
def test_refusals_say_what_would_do(x: Array, asked: dict[str, Any], named: str, code: str, said: str) -> None:
    fault = refused(RESAMPLE, {"x": x}, **asked)
    assert (fault.parameter, fault.code) == (named, code)
    assert said in fault.detail


def test_linear_numbers_may_be_as_large_as_their_format_holds() -> None:
    got = only(RESAMPLE, {"x": np.array([[-65504.0], [65504.0]], np.float16)}, length=4, method="linear")
    assert got[:, 0].tolist() == [-65504, -32752, 32752, 65504]
