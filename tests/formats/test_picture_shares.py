"""Rows that are compared with a uniform share: what is less is blue, what is more is red, and the least is marked."""

import numpy as np
import pytest

from service.formats.format import Captions, PictureWidth
from service.formats.pictures.drawing import Drawing
from service.formats.pictures.palette import BACKGROUND, DIVERGING, INK, NOT_A_NUMBER, RAMP
from service.formats.pictures.scales import relative
from tests.formats.drawn import drawn, faults, panels, words

AXES = ("layer", "position")
MIDDLE = DIVERGING + RAMP // 2
HOLLOW = np.array([[0.05] * 9 + [0.55], [0.25, 0.1, 0.08, 0.07, 0.06, 0.07, 0.08, 0.09, 0.1, 0.1]])
widths = pytest.mark.parametrize("width", ["wide", "narrow"])


def compared(rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]], width: PictureWidth = "wide") -> Drawing:
    captions = Captions("t", "p", width=width, uniform={"profile": 1 / rows.shape[1]})
    return drawn({"profile": rows}, captions, AXES)


@pytest.mark.parametrize(
    ("last", "times"), [([1.1, 0.9] * 20, 2), ([3.0, 0.6] * 20, 4), ([7.0, 0.2], 8), ([0.0, 900.0] * 20, 16)]
)
def test_the_last_row_decides_how_far_colours_go(last: list[float], times: int) -> None:
    rows = np.array([[1e-9] * len(last), last]) / 64
    made = relative(rows, 1 / 64)
    assert (made.low * 64, made.high * 64) == (1 / times, times)
    colours = made.colours(np.array([[1 / times, 1, times, 0, 1e-9, 1e9]]) / 64)
    ends = [DIVERGING, MIDDLE, DIVERGING + RAMP - 1]
    assert colours.tolist() == [[*ends, DIVERGING, DIVERGING, DIVERGING + RAMP - 1]]
    # As far to one side as to the other: a half has as much colour as twice.
    half, twice = made.colours(np.array([0.5, 2.0]) / 64).tolist()
    assert MIDDLE - half == twice - MIDDLE > 0


def test_one_value_of_many_does_not_decide() -> None:
    rows = np.full((1, 50), 0.9 / 50)
    rows[0, -1] = 30 / 50
    assert relative(rows, 1 / 50).high == 2 / 50
    rows[0, -2] = np.nan
    assert relative(rows[:, :-2], 1 / 50).states == ()
    assert relative(np.array([[np.nan, 1.0]]), 1.0).states == (("NaN", NOT_A_NUMBER),)


def test_ticks_are_times_the_share_and_say_what_lies_beyond() -> None:
    for times, told in ((2, ["≤0.5", "1", "≥2"]), (4, ["≤0.25", "0.5", "1", "2", "≥4"]), (8, ["≤0.125", "1", "≥8"])):
        made = relative(np.array([[times / 3.0, 1.0 / times] * 9]) * 3 / 7, 3 / 7)
        assert [made.spoken(tick) for tick in made.ticks(6)] == told
    made = relative(np.array([[0.0, 100.0]]), 1.0)
    assert [made.spoken(tick) for tick in made.ticks(6)] == ["≤0.0625", "0.25", "1", "4", "≥16"]


@widths
def test_the_last_row_stands_beneath_as_columns_from_the_share(width: PictureWidth) -> None:
    drawing = compared(HOLLOW, width)
    cells, columns = panels(drawing)
    assert cells.x == columns.x
    assert cells.cell[0] == columns.cell[0]
    assert {"layer 1", "times uniform (log scale)", "≥2", "≤0.5"} <= set(words(drawing))
    ground = 200 - 1 - 100
    filled = columns.colours != BACKGROUND
    for column, value in enumerate(HOLLOW[1] * 10):
        (rows,) = filled[:, column].nonzero()
        end = round((np.log2(min(value, 2)) / 2 + 0.5) * 199)
        assert {199 - int(rows.min()), 199 - int(rows.max())} == {max(end, 100), min(end, 100)}
    lines = [box for box in drawing.boxes if box.colour == INK]
    assert (lines[0].y - columns.y, lines[0].width) == (ground, 10 * columns.cell[0])
    # The mark is at the fifth column.
    assert lines[1].x - columns.x == 4 * columns.cell[0] + columns.cell[0] // 2
    assert "least: 0.6" in words(drawing)
    assert list(faults(drawing)) == []


@widths
def test_what_is_seen_is_said(width: PictureWidth) -> None:
    said = "layer 1: 2.5 at position 0, 1 at position 9, and the least is 0.6 at position 4"
    assert f"1 is a uniform share (1/10); {said}" in compared(HOLLOW, width).description
    long = np.full((3, 4096), 1 / 4096)
    long[2, 901] /= 2  # between two that are shown
    drawing = compared(long)
    assert "and the least of those shown is 1 at position 0" in drawing.description
    assert "every 5th position (820 of 4096)" in drawing.description
    assert drawing.description.count("every 5th position") == 1
    odd = drawn({"profile": HOLLOW}, Captions(uniform={"profile": 0.3}), AXES)
    assert "1 is a uniform share (0.3)" in odd.description


@pytest.mark.parametrize("least", [0, 1, 4, 8, 9])
@widths
def test_the_least_is_told_where_there_is_room(least: int, width: PictureWidth) -> None:
    row = np.full(10, 0.11)
    row[least] = 0.06
    drawing = compared(row[None], width)
    assert "least: 0.6" in words(drawing)
    assert list(faults(drawing)) == []
    crowded = compared(np.array([[0.4 if column % 2 else 0.05 for column in range(10)]]), width)
    assert "least: 0.5" not in words(crowded)
    assert "the least is 0.5 at position 0" in crowded.description
