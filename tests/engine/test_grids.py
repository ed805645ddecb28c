"""Tables on 2-D and 3-D grids: every convention against loops at a hundred digits, and the laws between them."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from pydantic import ValidationError

from service.engine import by_key
from service.engine.grids import Axis, GridCoordinates, along, axes_of, per_axis
from service.engine.scheme import Scheme
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, close, only, refused
from tests.oracles.exact import ulps_apart
from tests.oracles.oracle_sinusoidal import encoding

ARITHMETICS = ("exact", "float32", "float32-coordinates")
IMAGE, VIDEO = "encodings/sinusoidal-2d", "encodings/sinusoidal-3d"
Rows = list[list[mpf]]


def loops(
    grid: tuple[int, ...],
    widths: Mapping[int, int],
    *,
    layout: str = "sin-cos",
    base: float = 10000,
    shift: float = 0,
    first: Fraction = Fraction(0),
    ratios: tuple[Fraction, ...] = (Fraction(1),) * 3,
) -> Rows:
    """Cell by cell in C order; `widths` says the channels of each axis, by its place in the grid, in channel order."""
    rows = []
    for cell in product(*map(range, grid)):
        parts = [
            encoding((cell[axis] + first) * ratios[axis], width, base, layout, frequency_shift=shift)
            for axis, width in widths.items()
        ]
        rows.append([value for part in parts for value in part])
    return rows


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("layout", ["sin-cos", "cos-sin", "interleaved"])
@pytest.mark.parametrize(("base", "shift"), [(10000, 0), (7.5, 1), (100, 0.25)])
def test_every_value_is_rounded_once(dtype: str, layout: str, base: float, shift: float) -> None:
    given = {"dim": 20, "base": base, "layout": layout, "frequency_shift": shift, "dtype": dtype}
    for order, widths in {"h-first": {0: 10, 1: 10}, "w-first": {1: 10, 0: 10}}.items():
        got = only(IMAGE, grid=(3, 5), axis_order=order, **given)
        assert_rounded_once(got, loops((3, 5), widths, layout=layout, base=base, shift=shift), dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("split", "dim", "widths"),
    [
        ("equal", 18, (6, 6, 6)),
        ("time-quarter", 16, (4, 6, 6)),
        ("time-half", 24, (12, 6, 6)),
    ],
)
@pytest.mark.parametrize("order", ["t-h-w", "t-w-h", "w-h-t"])
def test_every_value_of_a_video_is_rounded_once(
    dtype: str, split: str, dim: int, widths: tuple[int, ...], order: str
) -> None:
    got = only(VIDEO, grid=(2, 3, 4), dim=dim, channel_split=split, axis_order=order, dtype=dtype)
    places = {place: widths[place] for place in ("thw".index(letter) for letter in order.split("-"))}
    assert_rounded_once(got, loops((2, 3, 4), places), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coordinates_are_scaled_in_real_numbers(dtype: str) -> None:
    scaled = {"base_size": (14, 9), "interpolation_scale": (1.3, 0.7), "coordinates": "half-pixel"}
    ratios = (Fraction(14, 3) / Fraction(1.3), Fraction(9, 5) / Fraction(0.7))
    got = only(IMAGE, grid=(3, 5), dim=12, dtype=dtype, **scaled)
    assert_rounded_once(got, loops((3, 5), {0: 6, 1: 6}, first=Fraction(1, 2), ratios=ratios), dtype)


def test_a_window_has_the_coordinates_of_the_larger_grid() -> None:
    window = only(IMAGE, grid=(2, 3), dim=12, max_grid=(7, 8), base_size=(5,), grid_axes="kept")
    whole = only(IMAGE, grid=(7, 8), dim=12, base_size=(5,), grid_axes="kept")
    np.testing.assert_array_equal(window, whole[2:4, 2:5])


def test_sines_first_is_an_order_of_the_same_channels() -> None:
    blocks = only(VIDEO, grid=(2, 3, 4), dim=32, channel_split="time-quarter")
    mixed = only(VIDEO, grid=(2, 3, 4), dim=32, channel_split="time-quarter", layout="sines-first")
    sines = [*range(4), *range(8, 14), *range(20, 26)]
    cosines = [channel for channel in range(32) if channel not in sines]
    np.testing.assert_array_equal(mixed, blocks[:, sines + cosines])


def test_shares_rounded_up_are_cut_off_and_rounded_down_leave_zeros() -> None:
    for layout, kept in {"interleaved": 5, "sin-cos": 5}.items():
        full = only(IMAGE, grid=(3, 4), dim=12, layout=layout)
        cut = only(IMAGE, grid=(3, 4), dim=11, layout=layout, channel_split="rounded-up")
        np.testing.assert_array_equal(cut, full[:, : 6 + kept])
        left = only(IMAGE, grid=(3, 4), dim=15, layout=layout, channel_split="rounded-down")
        np.testing.assert_array_equal(left, np.pad(full, ((0, 0), (0, 3))))
    # So narrow that the last axes have no channel at all.
    assert only(VIDEO, grid=(2, 3, 4), dim=1, channel_split="rounded-up")[:, 0].tolist() == pytest.approx(
        [0.0] * 12 + [0.84147098] * 12
    )


def test_orders_of_cells_and_axes() -> None:
    flat = only(IMAGE, grid=(2, 5), dim=8)
    kept = only(IMAGE, grid=(2, 5), dim=8, grid_axes="kept")
    np.testing.assert_array_equal(kept, flat.reshape(2, 5, 8))
    columns = only(IMAGE, grid=(2, 5), dim=8, token_order="column-major")
    np.testing.assert_array_equal(columns, kept.transpose(1, 0, 2).reshape(10, 8))
    np.testing.assert_array_equal(
        only(IMAGE, grid=(2, 5), dim=8, token_order="column-major", grid_axes="kept"), kept.transpose(1, 0, 2)
    )
    scaled: dict[str, Any] = {"base_size": (14, 9), "max_grid": (3, 11), "grid_axes": "kept"}
    np.testing.assert_array_equal(
        only(IMAGE, grid=(2, 5), dim=8, token_order="column-major", **scaled),
        only(IMAGE, grid=(2, 5), dim=8, **scaled).transpose(1, 0, 2),
    )
    tokens = only(IMAGE, grid=(2, 5), dim=8, class_tokens=3)
    np.testing.assert_array_equal(tokens, np.concatenate([np.zeros((3, 8)), flat]))
    frames = only(VIDEO, grid=(3, 2, 5), dim=24, grid_axes="kept")
    assert frames.shape == (3, 2, 5, 24)
    np.testing.assert_array_equal(frames[0, :, :, 8:], only(IMAGE, grid=(2, 5), dim=16, grid_axes="kept"))


def test_h01_the_column_comes_first_in_mae() -> None:
    got = only(IMAGE, grid=(2, 3), dim=8, axis_order="w-first", dtype="float64")
    close(got[1], [0.841470985, 0.009999833, 0.540302306, 0.99995, 0, 0, 1, 1], 1e-9)
    close(got[3], [0, 0, 1, 1, 0.841470985, 0.009999833, 0.540302306, 0.99995], 1e-9)
    np.testing.assert_array_equal(only(IMAGE, grid=(2, 3), dim=8, dtype="float64"), got[:, [4, 5, 6, 7, 0, 1, 2, 3]])


def test_h02_cells_run_along_the_rows() -> None:
    got = only(IMAGE, grid=(3, 4), dim=4, dtype="float64")
    close(np.arctan2(got[:, 2], got[:, 3]) % 6.3, [0, 1, 2, 3] * 3, 1e-12)
    close(np.arctan2(got[:, 0], got[:, 1]) % 6.3, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], 1e-12)


def test_h03_a_class_token_is_a_row_of_zeros() -> None:
    got = only(IMAGE, grid=(2, 3), dim=8, axis_order="w-first", class_tokens=1)
    assert got.shape == (7, 8)
    assert got[0].tolist() == [0] * 8
    np.testing.assert_array_equal(got[1:], only(IMAGE, grid=(2, 3), dim=8, axis_order="w-first"))
    tokens = block(by_key("encodings", "sinusoidal-2d"), 1, 3, grid=(2, 3), dim=8, class_tokens=5)
    np.testing.assert_array_equal(tokens, np.zeros((2, 8)))


@pytest.mark.parametrize("dim", [10, 5, 2])
def test_h04_a_width_is_kept_or_refused(dim: int) -> None:
    fault = refused(IMAGE, grid=(6, 2), dim=dim)
    assert (fault.parameter, fault.code) == ("dim", "indivisible")
    assert f"dim is {dim}" in fault.detail
    assert "a multiple of 4" in fault.detail
    assert only(IMAGE, grid=(6, 2), dim=dim, channel_split="rounded-up").shape == (12, dim)


def test_h04_one_number_is_a_square() -> None:
    np.testing.assert_array_equal(only(IMAGE, grid=(4,), dim=8), only(IMAGE, grid=(4, 4), dim=8))
    np.testing.assert_array_equal(only(VIDEO, grid=(3,), dim=12), only(VIDEO, grid=(3, 3, 3), dim=12))


FIRST = {
    "flat": (IMAGE, {"grid": (3, 5), "dim": 8}),
    "interleaved": (
        IMAGE,
        {"grid": (3, 5), "dim": 12, "layout": "interleaved", "grid_axes": "kept", "dtype": "float16"},
    ),
    "float32": (
        IMAGE,
        {"grid": (7, 4), "dim": 8, "layout": "sines-first", "arithmetic": "float32", "grid_axes": "kept"},
    ),
    "scaled": (IMAGE, {"grid": (7, 4), "dim": 8, "base_size": (9,), "token_order": "column-major", "dtype": "float64"}),
    "cut": (VIDEO, {"grid": (2, 3, 4), "dim": 11, "channel_split": "rounded-up", "grid_axes": "kept"}),
    "left over": (VIDEO, {"grid": (2, 3, 4), "dim": 16, "channel_split": "rounded-down", "layout": "cos-sin"}),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_channel_may_come_first(name: str) -> None:
    address, given = FIRST[name]
    last, first = (only(address, channel_axis=axis, **given) for axis in ("last", "first"))
    np.testing.assert_array_equal(first, np.moveaxis(last, -1, 0))
    scheme = by_key(*address.split("/"))
    rows = first.reshape(-1, first.shape[-1])
    for start in range(len(rows)):
        for stop in range(start + 1, len(rows) + 1, 3):
            np.testing.assert_array_equal(block(scheme, start, stop, channel_axis="first", **given), rows[start:stop])


def test_a_plane_of_a_vast_grid() -> None:
    """A line of cells is computed for its own channel alone."""
    grid = {"grid": (2**40, 1000), "dim": 4096, "grid_axes": "kept", "channel_axis": "first", "layout": "interleaved"}
    scheme = by_key("encodings", "sinusoidal-2d")
    end = (2048 << 40) - 1  # the last line of the last channel of the row; then the first of one of the column
    got = block(scheme, end, end + 2, **grid)
    row, column = encoding(2**40 - 1, 2048), encoding(7, 2048)
    assert_rounded_once(got[:, 7:8], [[row[2047]], [column[0]]], "float32")
    end = (2051 << 40) - 1
    assert_rounded_once(block(scheme, end, end + 2, **grid)[:, 7:8], [[column[2]], [column[3]]], "float32")


def steps(coordinates: Array, width: int, base: float, shift: float = 0) -> Array:
    """The float32 steps of model code: the power in float64, rounded; sines, then cosines."""
    exponents = np.arange(width // 2, dtype=np.float32) / np.float32(width // 2 - shift)
    w = np.float32(1) / np.power(base, exponents.astype(np.float64)).astype(np.float32)
    angles = (coordinates.astype(np.float32)[:, None] * w).astype(np.float64)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


@pytest.mark.parametrize(("base", "shift"), [(10000, 0), (10000, 1), (100, 0.5)])
@pytest.mark.parametrize("coordinates", ["integer", "half-pixel"])
def test_float32_takes_the_steps_of_model_code(base: float, shift: float, coordinates: str) -> None:
    scaled = {"base_size": (9,), "interpolation_scale": (1.3,), "coordinates": coordinates, "max_grid": (40, 43)}
    got = only(IMAGE, grid=(30, 7), dim=68, base=base, frequency_shift=shift, arithmetic="float32", **scaled)
    half = np.float32(0.5 if coordinates == "half-pixel" else 0)
    along_axes = []
    for side, full in ((30, 40), (7, 43)):
        index = np.arange((full - side) // 2, (full - side) // 2 + side, dtype=np.float32) + half
        along_axes.append(steps(index / np.float32(full / 9) / np.float32(1.3), 34, base, shift))
    expected = np.concatenate([np.repeat(along_axes[0], 7, axis=0), np.tile(along_axes[1], (30, 1))], axis=1)
    assert ulps_apart(got, expected).max() <= 1
    exact = only(IMAGE, grid=(30, 7), dim=68, base=base, frequency_shift=shift, dtype="float64", **scaled)
    assert 0 < np.abs(got - exact).max() < 1e-5


def test_float32_coordinates_round_nothing_else() -> None:
    got = only(IMAGE, grid=(5, 3), dim=8, base_size=(16,), arithmetic="float32-coordinates", dtype="float64")
    columns = [Fraction(float(np.float32(x) / np.float32(3 / 16))) for x in range(3)]
    rows = [Fraction(float(np.float32(y) / np.float32(5 / 16))) for y in range(5)]
    exact = [encoding(y, 4, layout="sin-cos") + encoding(x, 4, layout="sin-cos") for y in rows for x in columns]
    assert_rounded_once(got, exact, "float64")


@given(st.data())
def test_indices_along_an_axis(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    cells = np.array(list(np.ndindex(*shape)))
    start = data.draw(st.integers(0, len(cells) - 1))
    stop = data.draw(st.integers(start + 1, len(cells)))
    for axis in range(len(shape)):
        indices, places = along(shape, axis, start, stop)
        assert np.array_equal(np.array(indices)[places], cells[start:stop, axis])
        assert len(indices) <= stop - start
        assert len(set(indices)) == len(indices)


def block(scheme: Scheme[Any, Any], start: int, stop: int, **parameters: object) -> Array:
    params = scheme.params(**parameters)
    return np.asarray(scheme.rows(params, {}, scheme.prepare(params, {}), "encoding", start, stop))


@pytest.mark.parametrize("grid", [(2, 2**40), (2**40, 2), (2**30, 2**30)], ids=str)
def test_rows_far_inside_a_vast_grid(grid: tuple[int, int]) -> None:
    start = grid[0] * grid[1] // 2 - 2  # across the end of a line
    got = block(by_key("encodings", "sinusoidal-2d"), start, start + 4, grid=grid, dim=4, dtype="float64")
    cells = [divmod(row, grid[1]) for row in range(start, start + 4)]
    assert_rounded_once(got, [encoding(y, 2) + encoding(x, 2) for y, x in cells], "float64")


def test_the_parameters_say_every_axis() -> None:
    scheme = by_key("encodings", "sinusoidal-3d")
    params = scheme.params(grid="2", dim=18, base_size="4", max_grid="3,4,5")
    used = scheme.resolve(params, {})
    assert (used.grid, used.base_size, used.max_grid) == ((2, 2, 2), (4, 4, 4), (3, 4, 5))
    assert used.interpolation_scale == (1.0, 1.0, 1.0)
    assert scheme.resolve(scheme.params(grid="2", dim=18), {}).base_size is None
    assert scheme.facts(params, {}) == {"frames_channels": 6, "height_channels": 6, "width_channels": 6}
    assert scheme.state_bytes(params, {}) > 0


def test_the_answer_says_which_arithmetic_it_was() -> None:
    scheme = by_key("encodings", "sinusoidal-2d")
    said = {name: scheme.notes(scheme.params(grid="2", dim=8, arithmetic=name), {}) for name in ARITHMETICS}
    assert said["exact"] == []
    assert "frequencies and angles" in said["float32"][0]
    assert "coordinates to float32" in said["float32-coordinates"][0]


@pytest.mark.parametrize(
    ("address", "parameters", "named", "code"),
    [
        (VIDEO, {"grid": (2, 3), "dim": 12}, "grid", "shape"),
        (VIDEO, {"grid": (2, 3, 4), "dim": 14}, "dim", "indivisible"),
        (VIDEO, {"grid": (2, 3, 4), "dim": 24, "channel_split": "time-quarter"}, "dim", "indivisible"),
        (VIDEO, {"grid": (2, 3, 4), "dim": 12, "channel_split": "time-half"}, "dim", "indivisible"),
        (VIDEO, {"grid": (2, 3, 4), "dim": 5, "channel_split": "rounded-down"}, "dim", "out_of_range"),
        (VIDEO, {"grid": (2, 3, 4), "dim": 12, "base_size": (2, 3)}, "base_size", "shape"),
        (IMAGE, {"interpolation_scale": (1, 2, 3)}, "interpolation_scale", "shape"),
        (IMAGE, {"max_grid": (2, 2, 3)}, "max_grid", "shape"),
        (IMAGE, {"max_grid": (9, 2)}, "max_grid", "out_of_range"),
        (IMAGE, {"class_tokens": 1, "grid_axes": "kept"}, "class_tokens", "conflict"),
        (IMAGE, {"class_tokens": 1, "channel_axis": "first"}, "class_tokens", "conflict"),
        (IMAGE, {"dim": 4, "frequency_shift": 1}, "frequency_shift", "out_of_range"),
        (IMAGE, {"base": 1e-19, "dim": 64, "interpolation_scale": (1e-6,)}, "interpolation_scale", "out_of_range"),
        (IMAGE, {"base": 0.5, "arithmetic": "float32"}, "base", "out_of_range"),
        (
            IMAGE,
            {"base_size": (2**40,), "interpolation_scale": (1e-6,), "arithmetic": "float32"},
            "base_size",
            "out_of_range",
        ),
        (
            IMAGE,
            {"base_size": (2**40,), "interpolation_scale": (1e-6,), "arithmetic": "float32-coordinates"},
            "base_size",
            "out_of_range",
        ),
    ],
)
def test_refusals_name_the_parameter(address: str, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(address, **{"grid": (2, 3), "dim": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize("grid", ["0,4", "4,0", "", "4,", "4,6,", "2.0,3", "-1", "1,2,3,4", "1099511627777"])
def test_grids_that_are_none(grid: str) -> None:
    for name in ("sinusoidal-2d", "sinusoidal-3d", "detr"):
        with pytest.raises(ValidationError):
            by_key("encodings", name).params(grid=grid, dim=48)


def test_two_axes_take_no_third() -> None:
    with pytest.raises(ValidationError):
        by_key("encodings", "sinusoidal-2d").params(grid="1,2,3", dim=8)


def test_a_far_scaling_is_exact_where_it_can_be() -> None:
    got = only(IMAGE, grid=(2, 3), dim=4, base_size=(2**40,), interpolation_scale=(1e-6,), dtype="float64")
    ratios = tuple(Fraction(2**40, side) / Fraction(1e-6) for side in (2, 3))
    assert_rounded_once(got, loops((2, 3), {0: 2, 1: 2}, ratios=ratios), "float64")


def test_rules_of_axes() -> None:
    first, second = axes_of(GridCoordinates(max_grid=(9, 6), base_size=(3,), interpolation_scale=(2.0, 0.5)), (4, 6))
    assert first == Axis(Fraction(2), (3.0, 2.0), Fraction(1, 6))
    assert second == Axis(Fraction(0), (2.0, 0.5), Fraction(1))
    assert first.cells(range(2, 4)) == range(4, 6)
    assert per_axis((2.5,), 3, "x") == (2.5, 2.5, 2.5)


def test_timescales_of_a_grid_are_a_base_and_a_scale() -> None:
    """min (max / min)^(-k / (n - 1)) for min 0.5 and max 200, as `left_out` says it of tensor2tensor."""
    chosen = {"frequency_shift": 1, "channel_split": "rounded-down", "base": 400, "interpolation_scale": (2,)}
    got = only("encodings/sinusoidal-2d", grid=(3, 5), dim=16, dtype="float64", **chosen)
    rows, columns = (axis.ravel()[:, None] for axis in np.indices((3, 5)))
    frequencies = 0.5 * 400 ** (-np.arange(4) / 3)
    angles = [at * frequencies for at in (rows, columns)]
    expected = np.concatenate([form(angle) for angle in angles for form in (np.sin, np.cos)], axis=1)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)
