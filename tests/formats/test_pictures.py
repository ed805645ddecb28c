"""Pictures: each cell has the colour of its value, what is left out is said, and nothing of the machine shows."""

import base64
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image as Pillow

from service.formats import FORMATS
from service.formats.errors import CannotHold
from service.formats.format import Answer, Captions, PictureWidth, Theme, type_of
from service.formats.pictures.compose import compose
from service.formats.pictures.lettering import UNITS, Lettering
from service.formats.pictures.palette import (
    BACKGROUND,
    DIVERGING,
    FALSE,
    INK,
    NEGATIVE_INFINITY,
    NOT_A_NUMBER,
    POSITIVE_INFINITY,
    RAMP,
    SEQUENTIAL,
    TRUE,
    ZERO,
    palette,
)
from service.formats.pictures.plan import MOST_GROUPS, plan
from service.formats.pictures.png import canvas
from service.formats.pictures.scales import log2, scale, spoken
from service.formats.pictures.sheet import WIDE
from tests.formats.drawn import drawn, faults, panels, picture, words
from tests.formats.holding import PICTURES
from tests.formats.samples import Spec, arrays_of, rows_of, shapes, specs

MIDDLE = DIVERGING + RAMP // 2
MOST_PANELS = 40
TABLE = np.sin(np.arange(35.0)).astype(np.float32).reshape(5, 7)


def test_a_cell_has_the_colour_that_matplotlib_gives_its_value() -> None:
    import matplotlib as mpl  # noqa: PLC0415

    drawing = drawn({"x": TABLE})
    (image,) = panels(drawing)
    pixels = np.asarray(Pillow.open(io.BytesIO(picture("png", {"x": TABLE}))).convert("RGB"), np.int64)
    most = float(np.abs(TABLE).max())
    for row, column in np.ndindex(TABLE.shape):
        x, y = image.x + column * image.cell[0], image.y + row * image.cell[1]
        cell = pixels[y : y + image.cell[1], x : x + image.cell[0]]
        assert (cell == cell[0, 0]).all()
        due = np.array(mpl.colormaps["RdBu_r"](0.5 + TABLE[row, column] / most / 2)[:3]) * 255
        assert np.abs(cell[0, 0] - due).max() < 6  # one of 115 colours


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_zero_is_in_the_middle_however_the_values_lie(dtype: str) -> None:
    array = np.array([[-1, 0, 3], [2, 0, 0.5]]).astype(type_of[dtype])
    (image,) = panels(drawn({"x": array}))
    assert image.colours[0, 1] == image.colours[1, 1] == MIDDLE
    assert image.colours[0, 2] == DIVERGING + RAMP - 1
    assert image.colours[0, 0] == DIVERGING + round((RAMP - 1) * (0.5 - 1 / 6))
    light = palette("light")[MIDDLE]
    assert min(light) > 240
    assert max(palette("dark")[MIDDLE]) < 40


def test_a_table_of_one_value_and_of_zeros_has_colours_too() -> None:
    for value, colour in ((0.0, MIDDLE), (7.0, SEQUENTIAL + RAMP - 1), (-7.0, DIVERGING)):
        (image,) = panels(drawn({"x": np.full((2, 3), value)}))
        assert (image.colours == colour).all()
    (image,) = panels(drawn({"x": np.full((2, 3), 5)}))
    assert (image.colours == SEQUENTIAL).all()


def test_the_widest_values_do_not_overflow() -> None:
    for dtype in ("float64", "float32"):
        most = float(np.finfo(dtype).max)
        drawing = drawn({"x": np.array([[-most, 0, most]], dtype)})
        (image,) = panels(drawing)
        assert image.colours.tolist() == [[DIVERGING, MIDDLE, DIVERGING + RAMP - 1]]
        assert "0" in words(drawing)


def test_what_is_no_number_has_colours_and_words_of_its_own() -> None:
    drawing = drawn({"x": np.array([[1, -np.inf], [np.nan, np.inf]])})
    (image,) = panels(drawing)
    assert image.colours[0, 1] == NEGATIVE_INFINITY
    assert image.colours[1].tolist() == [NOT_A_NUMBER, POSITIVE_INFINITY]
    assert {"-inf", "inf", "NaN"} <= set(words(drawing))
    assert {NEGATIVE_INFINITY, NOT_A_NUMBER, POSITIVE_INFINITY} <= {box.colour for box in drawing.boxes}
    finite = drawn({"x": TABLE})
    assert not {"-inf", "inf", "NaN"} & set(words(finite))


def test_masks_have_two_colours() -> None:
    truth = drawn({"mask": np.tri(3, 4, dtype=bool)})
    assert panels(truth)[0].colours.tolist()[0] == [TRUE, FALSE, FALSE, FALSE]
    assert {"true", "false"} <= set(words(truth))
    added = drawn({"mask": np.where(np.tri(3, 4, dtype=bool), 0, -np.inf).astype(np.float32)})
    assert panels(added)[0].colours.tolist()[1] == [TRUE, TRUE, NEGATIVE_INFINITY, NEGATIVE_INFINITY]
    assert {"0", "-inf"} <= set(words(added))
    for far in (float(np.finfo(np.float32).min), -65504.0, -1e4):
        filled = drawn({"mask": np.where(np.tri(3, 4, dtype=bool), 0, far)})
        assert panels(filled)[0].colours.tolist()[1] == [TRUE, TRUE, FALSE, FALSE]
        assert {"0", spoken(far)} <= set(words(filled))
        assert len(filled.images) == 1
    # A bias that is far below zero in places is no mask.
    assert len(drawn({"bias": np.array([[0, -1e4, -1.0]])}).images) == 2
    assert len(drawn({"bias": np.array([[0, -50.0]])}).images) == 2
    nothing = drawn({"mask": np.full((2, 2), -np.inf)})
    assert (panels(nothing)[0].colours == NEGATIVE_INFINITY).all()
    one_row = drawn({"mask": np.array([True, False])})
    assert panels(one_row)[0].colours.tolist() == [[TRUE, FALSE]]
    # Two colours need no ramp beside them.
    assert len(truth.images) == len(added.images) == 1


def test_indices_go_from_the_least_to_the_largest() -> None:
    (image,) = panels(drawn({"index": np.array([[3, 5], [7, 4]], np.int64)}))
    assert image.colours.tolist() == [
        [SEQUENTIAL, SEQUENTIAL + 57],
        [SEQUENTIAL + 114, SEQUENTIAL + 28],
    ]
    (signed,) = panels(drawn({"index": np.array([[-2, 0, 1]], np.int32)}))
    assert signed.colours.tolist() == [[DIVERGING, MIDDLE, DIVERGING + 86]]


def test_values_over_decades_are_shown_by_their_logarithm() -> None:
    values = np.array([1.0, 10, 100, 1e3, 1e4, 1e5])
    made = scale([values[None]], "float64", "colours")
    assert made.kind == "logarithmic"
    assert made.colours(values[None]).tolist() == [[SEQUENTIAL + round(k * 114 / 5) for k in range(6)]]
    assert made.ticks(6) == [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]
    drawing = drawn({"wavelengths": values})
    assert "wavelengths (log scale)" in words(drawing)


def test_zeros_beside_values_over_decades_have_a_colour_of_their_own() -> None:
    """Of no difference at all, 1.5e-4 and 2, the first two would be one colour on a scale that is even."""
    drawing = drawn({"difference": np.array([[0, 1.5e-4], [2e-3, 2]])})
    (image,) = panels(drawing)
    assert image.colours[0].tolist() == [ZERO, SEQUENTIAL]
    assert image.colours[1, 0] > SEQUENTIAL + 20
    assert image.colours[1, 1] == SEQUENTIAL + RAMP - 1
    assert "0" in words(drawing)
    # Heights that are never negative begin at zero, and have no such place.
    assert scale([np.array([[0, 1.5e-4, 2]])], "float64", "heights").kind == "sequential"


def test_cells_that_are_never_negative_use_the_whole_ramp() -> None:
    (image,) = panels(drawn({"position": np.array([[0.0, 1000], [4000, 4000]])}))
    assert image.colours.tolist() == [[SEQUENTIAL, SEQUENTIAL + 28], [SEQUENTIAL + 114, SEQUENTIAL + 114]]
    (image,) = panels(drawn({"temperature": np.array([[2.0, 3, 4]])}))
    assert image.colours.tolist() == [[SEQUENTIAL, SEQUENTIAL + 57, SEQUENTIAL + 114]]
    # What differs by its rounding alone looks alike.
    (image,) = panels(drawn({"norm": np.array([[1.0, 1 + 1e-7]])}))
    assert set(image.colours.ravel().tolist()) == {SEQUENTIAL + RAMP - 1}


@given(st.floats(1e-300, 1e300))
def test_logarithms_are_right(value: float) -> None:
    assert float(log2(np.array([value]))[0]) == pytest.approx(np.log2(value), abs=2e-9)


def test_one_axis_is_a_profile_of_heights() -> None:
    drawing = drawn({"slopes": np.array([0.5, 0.25, 1.0])}, axes=("head",))
    (image,) = panels(drawing)
    heights = (image.colours != BACKGROUND).sum(axis=0)
    assert heights.tolist() == [101, 51, 200]
    assert {"slopes", "head", "0.2", "1"} <= set(words(drawing))
    # The larger a value, the further it is along the ramp; and columns stand on the ground.
    assert (image.colours[-1] >= SEQUENTIAL).all()
    signed = panels(drawn({"x": np.array([-2.0, 1.0, 0.0])}))[0].colours
    assert (signed[:, 0] != BACKGROUND).nonzero()[0].tolist() == list(range(99, 200))
    assert (signed[:, 1] != BACKGROUND).sum() == 50
    assert (signed[:, 2] != BACKGROUND).sum() == 1
    unending = drawn({"x": np.array([1.0, np.inf])})
    assert (panels(unending)[0].colours[:, 1] == POSITIVE_INFINITY).all()
    assert "inf" in words(unending)
    assert len(unending.images) == 1  # heights have an axis, and no ramp
    row = drawn({"mask": np.array([0.0, -np.inf])})
    assert panels(row)[0].colours[[0, -1]].tolist() == [[TRUE, NEGATIVE_INFINITY]] * 2
    assert {"0", "-inf"} <= set(words(row))


def test_heights_are_compared_with_lines_that_are_named() -> None:
    captions = Captions(lines={"trained": 100.0, "near the top": 9e4, "beyond": 1e6})
    drawing = drawn({"wavelengths": np.array([1.0, 10, 100, 1e3, 1e4, 1e5])}, captions)
    (panel,) = panels(drawing)
    assert {"trained", "near the top"} <= set(words(drawing))
    assert "beyond" not in words(drawing)
    lines = [box for box in drawing.boxes if box.colour == INK]
    # 100 is two of five decades above the least.
    assert [line.y - panel.y for line in lines] == [199 - round(199 * 2 / 5), 199 - round(199 * 0.99085)]
    (high,) = [text for text in drawing.texts if text.text == "near the top"]
    assert panel.y < high.y - high.size
    assert panels(drawn({"x": TABLE}, captions))
    assert "trained" not in words(drawn({"x": TABLE}, captions))


def test_a_single_number_is_shown() -> None:
    (image,) = panels(drawn({"x": np.array(3.0)}))
    assert (image.colours == SEQUENTIAL + RAMP - 1).all()


def test_a_large_table_is_sampled_and_that_is_said() -> None:
    array = np.sin(np.arange(4096 * 512.0) * 0.37).reshape(4096, 512)
    drawing = drawn({"x": array}, axes=("position", "channel"))
    (image,) = panels(drawing)
    expected = scale([array[::9]], "float64", "colours").colours(array[::9])
    assert (image.colours == expected).all()
    assert image.cell == (1, 1)
    said = "shown: every 9th position (456 of 4096); no values are blended"
    alias = "fast waves alias at these steps: fans are no structure"
    assert f"{said}; {alias}" in " ".join(words(drawing))
    assert f"{said}; {alias}" in drawing.description
    assert {"position", "channel", "4000", "500"} <= set(words(drawing))


def test_reading_many_rows_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that computes a thousand short rows in a row keeps every other one waiting, event loops included."""
    paused: list[float] = []
    monkeypatch.setattr("service.formats.pictures.cells.time.sleep", paused.append)
    drawn({"x": np.zeros((9000, 600))})  # every 19th row, one by one
    assert len(paused) == 474 // 8
    assert set(paused) == {1e-4}
    paused.clear()
    drawn({"x": np.zeros((60, 40, 3))}, axes=("height", "width", "channel"))
    assert paused


def test_steps_are_odd_so_that_sines_and_cosines_stay_mixed() -> None:
    wide = np.tile([0.25, -1.0], 2500)[None].repeat(2, axis=0)
    (image,) = panels(drawn({"x": wide}))
    assert image.colours.shape == (2, 1000)
    assert len(set(image.colours[0].tolist())) == 2
    assert (image.colours[0, ::2] != image.colours[0, 1::2]).all()
    rising = np.linspace(-1, 1, 5000)[None].repeat(2, axis=0)
    (image,) = panels(drawn({"x": rising}))
    assert (image.colours == scale([rising[:, ::5]], "float64", "colours").colours(rising[:, ::5])).all()


@pytest.mark.parametrize("width", ["wide", "narrow"])
@pytest.mark.parametrize(("heads", "step"), [(1, 1), (12, 1), (32, 1), (40, 1), (41, 2), (64, 2), (99, 3)])
def test_every_head_has_a_panel_and_what_is_left_out_is_said(heads: int, step: int, width: PictureWidth) -> None:
    array = (np.arange(heads, dtype=np.float64)[:, None, None] + 1) * np.ones((heads, 48, 48))
    captions = Captions("A table", "encodings/none: length=5", width=width)
    drawing = drawn({"bias": array}, captions, ("head", "query", "key"))
    shown = panels(drawing)
    of = range(0, heads, step)
    assert [text for text in words(drawing) if text.startswith("head")] == [f"head {head}" for head in of]
    last = of[-1] + 1
    if heads > 1:
        assert [int(image.colours[0, 0]) for image in shown] == [
            SEQUENTIAL + round(114 * head / (last - 1)) for head in of
        ]
    said = f"every {step}{'nd' if step == 2 else 'rd'} head ({len(of)} of {heads})"
    assert (said in drawing.description) == (step > 1)
    assert list(faults(drawing)) == []
    assert drawing.height < 1200
    # Panels do not lie over each other, and there are several in a row.
    assert len({(image.x, image.y) for image in shown}) == len(shown)
    assert heads < 12 or len({image.x for image in shown}) >= 2


@pytest.mark.parametrize(
    ("heads", "queries", "keys"), [(12, 512, 512), (11, 512, 512), (3, 4096, 1500), (1, 700, 2000)]
)
def test_a_diagonal_stays_one_however_many_heads_there_are(heads: int, queries: int, keys: int) -> None:
    """As many queries are left out as keys, so that what depends on their distance alone looks so."""
    axes = ("head", "query", "key")
    (group,) = plan({"bias": Spec(axes, (heads, queries, keys), "float32")}, WIDE).groups
    assert group.panels.rows.stride == group.panels.columns.stride
    assert group.panels.cell[0] == group.panels.cell[1]
    # A few queries with many keys are all shown, and channels are no positions.
    (group,) = plan({"bias": Spec(axes, (heads, 8, 4096), "float32")}, WIDE).groups
    assert group.panels.rows.stride == 1
    (group,) = plan({"table": Spec(("position", "channel"), (4096, 1024), "float32")}, WIDE).groups
    assert (group.panels.rows.stride, group.panels.columns.stride) == (9, 1)


def test_several_outer_axes_are_named_together() -> None:
    array = np.zeros((2, 3, 2, 2))
    drawing = drawn({"x": array}, axes=("batch", "head", "query", "key"))
    assert {"batch 0, head 0", "batch 1, head 2"} <= set(words(drawing))
    assert len(panels(drawing)) == 6


@pytest.mark.parametrize("plane", [("height", "width", "channel"), ("query", "key", "channel")])
def test_a_plane_is_shown_for_each_channel(plane: tuple[str, ...]) -> None:
    array = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    drawing = drawn({"x": array}, axes=plane)
    assert [text for text in words(drawing) if text.startswith("channel")] == [f"channel {k}" for k in range(4)]
    made = scale([array], "float64", "colours")
    for channel, image in enumerate(panels(drawing)):
        assert (image.colours == made.colours(array[:, :, channel])).all()
    batched = np.arange(2 * 2 * 3 * 30.0).reshape(2, 2, 3, 30)
    drawing = drawn({"x": batched}, axes=("batch", *plane))
    assert "batch 1, channel 27" in words(drawing)
    assert "shown: every 3rd channel (10 of 30); no values are blended" in words(drawing)
    made = scale([batched[..., ::3]], "float64", "colours")
    assert (panels(drawing)[-1].colours == made.colours(batched[1, :, :, 27])).all()
    # As sines and cosines take turns, half of the channels are never of one kind.
    turns = drawn({"x": np.tile([0.25, -1.0], 30)[None, None].repeat(2, 0).repeat(2, 1)}, axes=plane)
    assert len({int(image.colours[0, 0]) for image in panels(turns)}) == 2


def test_tensors_of_one_kind_share_a_scale() -> None:
    drawing = drawn({"cos": TABLE, "sin": TABLE / 2})
    assert len(drawing.images) == 3
    first, second = panels(drawing)
    assert first.y == second.y
    assert {"cos", "sin"} <= set(words(drawing))
    assert int(second.colours.max()) < int(first.colours.max())


def test_tensors_of_different_sizes_have_scales_of_their_own() -> None:
    drawing = drawn({"difference": TABLE / 1e6, "position": TABLE * 4000, "heads": np.arange(3.0)})
    first, second, third = panels(drawing)
    assert first.y < second.y < third.y
    assert (first.colours == second.colours).all()
    assert {"difference", "position", "heads"} <= set(words(drawing))


def test_more_tensors_than_there_is_room_for_are_named() -> None:
    many = {f"t{number}": np.ones((number + 1, 2)) for number in range(MOST_GROUPS + 2)}
    assert plan(specs(many), WIDE).left_out == ("t6", "t7")
    assert "not shown: t6, t7 (tensor=NAME shows one)" in words(drawn(many))
    alike = {f"t{number}": np.ones((2, 2)) for number in range(MOST_PANELS + 1)}
    assert plan(specs(alike), WIDE).left_out == ("t40",)


def test_nothing_to_show_is_refused() -> None:
    empty = specs({"x": np.zeros((0, 4), np.float32)})
    for extension in PICTURES:
        for refused in (FORMATS[extension].check, lambda each, form=FORMATS[extension]: form.bound({}, each)):
            with pytest.raises(CannotHold, match="nothing to show without values; npz, safetensors"):
                refused(empty)
    assert FORMATS["png"].size({}, specs({"x": TABLE})) is None
    partly = drawn({"x": TABLE, "none": np.zeros((0, 4))})
    assert "not shown: none (tensor=NAME shows one)" in words(partly)


def test_indices_that_have_names_are_called_by_them() -> None:
    captions = Captions(named={"method": ("none", "linear", "yarn")})
    told = words(drawn({"x": np.zeros((3, 2))}, captions, ("method", "frequency")))
    assert {"none 0", "linear 1", "yarn 2", "method", "0", "1"} <= set(told)
    assert "2" not in told
    # Names for which there is no room are left out, as are those of another number of indices.
    beneath = words(
        drawn({"difference": np.array([0.0, 0.9])}, Captions(named={"kind": ("plain", "encoded")}), ("kind",))
    )
    assert {"plain", "encoded"} <= set(beneath)
    assert not {"0 plain", "1", "kind: 0 plain, 1 encoded"} & set(beneath)
    assert "none 0" not in words(drawn({"x": np.zeros((30, 2))}, captions, ("method", "frequency")))


def test_positions_are_numbered_as_the_caller_counts_them() -> None:
    axes = ("position", "channel")
    drawing = drawn({"x": np.zeros((5, 2))}, Captions(first={"position": 130_000}), axes)
    assert {"130000", "130004", "position"} <= set(words(drawing))
    below = drawn({"x": np.zeros((5, 2))}, Captions(first={"position": -3}), axes)
    assert {"-3", "0", "1"} & set(words(below)) >= {"0"}
    own = drawn({"x": np.zeros((5, 2))}, Captions(first={"position": None}), axes)
    assert {"position (index)", "0", "4"} <= set(words(own))


def test_long_texts_are_cut_where_the_picture_ends() -> None:
    long = Captions("word " * 60, ", ".join(f"name{number}={number}" for number in range(200)) + " " + "x" * 500)
    drawing = drawn({"x": TABLE}, long)
    lettering = Lettering()
    heads = [text for text in drawing.texts if text.x == 16 and text.direction == "across"]
    titles, lines = heads[:3], heads[3:]
    assert [text.bold for text in heads] == [True] * 3 + [False] * 3
    assert [text.text.endswith("…") for text in heads] == [False, False, True] * 2
    assert all(low.y - high.y > high.size for high, low in zip(titles, [*titles[1:], lines[0]], strict=True))
    assert all(16 + lettering.width(text.text, text.size, text.bold) <= drawing.width for text in heads)
    single = drawn({"x": TABLE}, Captions("t", "y" * 500))
    assert [text.text[-1] for text in single.texts if text.text.startswith("yyy")] == ["…"]


def test_letters_that_are_not_there_are_question_marks() -> None:
    drawing = drawn({"x": TABLE}, Captions("a\x00b\n漢é☃"))
    assert drawing.title == "a b ?é☃"
    assert b"a b ?" in picture("svg", {"x": TABLE}) or drawing.texts[0].text == "a b ?é☃"


def test_the_picture_is_described_for_who_cannot_see_it() -> None:
    data = picture("png", {"x": TABLE})
    told = Pillow.open(io.BytesIO(data)).info
    assert (told["Title"], told["Description"]) == ("t", "p")
    root = ElementTree.fromstring(picture("svg", {"x": TABLE}))
    names = {child.get("id"): child.text for child in root if child.get("id")}
    assert names == {"title": "t", "description": "p"}
    assert root.get("role") == "img"


def test_text_in_an_svg_cannot_become_markup() -> None:
    captions = Captions("<script>&", '"</title><b>')
    chunks = FORMATS["svg"].stream({}, specs({"x": TABLE}), rows_of({"x": TABLE}), captions=captions)
    root = ElementTree.fromstring(b"".join(chunks))
    assert {child.tag.rpartition("}")[2] for child in root.iter()} == {
        *("svg", "title", "desc", "defs", "path", "rect", "image", "g", "use")
    }


def test_an_svg_shows_what_the_png_shows() -> None:
    arrays = {"x": TABLE}
    drawing = compose(Answer({}, specs(arrays), rows_of(arrays), captions=Captions("t", "p")), Lettering())
    root = ElementTree.fromstring(picture("svg", arrays))
    assert (root.get("width"), root.get("height")) == (str(drawing.width), str(drawing.height))
    images = root.findall("{*}image")
    assert len(images) == len(drawing.images) == 2
    for element, image in zip(images, drawing.images, strict=True):
        source = str(element.get("{http://www.w3.org/1999/xlink}href"))
        cells = np.asarray(Pillow.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))))
        assert (cells == image.colours).all()
        assert int(str(element.get("width"))) == image.colours.shape[1] * image.cell[0]
    used = {
        element.get("{http://www.w3.org/1999/xlink}href") for element in root.iter("{http://www.w3.org/2000/svg}use")
    }
    defined = {f"#{element.get('id')}" for element in root.iter("{http://www.w3.org/2000/svg}path")}
    assert used == defined
    written = [text for text in drawing.texts if text.text.strip()]
    assert len([group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("transform")]) == len(
        written
    )


def test_outlines_are_those_of_the_font() -> None:
    """Against the same letter in pixels: the em is 2048 units, and an l is a bar."""
    lettering = Lettering()
    outline, advance = lettering.outline("l", False)
    assert outline == "M193 1556 L377 1556 L377 0 L193 0 L193 1556 Z"
    assert advance == 569
    assert lettering.width("ll", 64) == -(-2 * 569 * 64 // UNITS)
    shades, below = lettering.pixels("l", 64, False)
    assert below == 0
    assert abs(shades.shape[0] - 1556 * 64 / UNITS) < 4
    assert lettering.outline("o", False)[0].count("Q") == 16
    assert lettering.outline(" ", True)[0] == ""


def test_themes_differ_in_their_colours_alone() -> None:
    light, dark = (Pillow.open(io.BytesIO(picture("png", {"x": TABLE}, theme))) for theme in ("light", "dark"))
    assert (np.asarray(light) == np.asarray(dark)).all()
    for theme, image in (("light", light), ("dark", dark)):
        shown = image.convert("RGB").getpixel((0, 0))
        assert shown == palette(theme)[BACKGROUND]
    assert picture("svg", {"x": TABLE}, "light") != picture("svg", {"x": TABLE}, "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_can_be_read(theme: Theme) -> None:
    """WCAG's contrast of ink and paper is at least 7, and a frame is told from either."""

    def luminance(colour: tuple[int, int, int]) -> float:
        parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    paper, ink = (luminance(palette(theme)[number]) for number in (0, 16))
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) > 7
    assert len(palette(theme)) == 256


def test_letters_are_within_the_picture_and_upright_and_turned() -> None:
    lettering = Lettering()
    drawing = drawn({"x": TABLE}, axes=("position", "channel"))
    pixels = canvas(drawing, lettering)
    assert pixels.shape == (drawing.height, drawing.width)
    turned = next(text for text in drawing.texts if text.direction == "up")
    assert turned.text == "position"
    shades, _ = lettering.pixels("position", turned.size, False)
    place = pixels[:, 12 : turned.x + 4]
    rows = np.flatnonzero(place.any(axis=1))
    rows = rows[rows > 60]
    assert abs((rows[-1] - rows[0] + 1) - shades.shape[1]) <= 2


@hypothesis_settings(max_examples=25)
@pytest.mark.parametrize("extension", PICTURES)
@given(data=st.data(), dtype=st.sampled_from(["float16", "bfloat16", "float32", "float64"]))
def test_anything_can_be_pictured_within_the_bound(extension: str, data: st.DataObject, dtype: str) -> None:
    shape = shapes().filter(lambda lengths: 0 not in lengths)
    array = data.draw(arrays_of(dtype, shape, finite=False))
    length = len(picture(extension, {"x": array, "y": array}))
    assert length <= FORMATS[extension].bound({}, specs({"x": array, "y": array}))


@pytest.mark.parametrize("extension", PICTURES)
@pytest.mark.parametrize("shape", [(1, 9001), (9001, 1), (1500, 1500), (12, 64, 64), (13, 2, 5000), (2, 2, 2, 2, 700)])
def test_the_bound_holds_for_noise(extension: str, shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(0).standard_normal(shape)
    form = FORMATS[extension]
    bound = form.bound({}, specs({"x": noise}))
    assert len(picture(extension, {"x": noise})) <= bound < 8 << 20
    assert form.working(specs({"x": noise})) < 200 << 20


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1 << 22, 512), ("position", "channel")),
        ((32, 8192, 8192), ("head", "query", "key")),
        ((4096, 4096, 128), ("query", "key", "channel")),
        ((1 << 31,), ("position",)),
    ],
)
def test_eight_gibibytes_are_pictured_without_being_computed(shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    asked = 0
    largest = 0

    def rows(_name: str, start: int, stop: int) -> NDArray[Any]:
        nonlocal asked, largest
        asked += (stop - start) * shape[-1] * 4
        largest = max(largest, (stop - start) * shape[-1] * 4)
        return np.broadcast_to(np.float32(0.5), (stop - start, shape[-1]))

    if len(shape) == 1:
        # One row is what a block cannot be less than: whoever admits the work counts it.
        rows_of_one = FORMATS["png"].bound({}, {"x": Spec(axes, shape, "float32")})
        assert rows_of_one < 4 << 20
        return
    data = b"".join(FORMATS["png"].stream({}, {"x": Spec(axes, shape, "float32")}, rows))
    assert Pillow.open(io.BytesIO(data)).width < 1400
    assert largest <= 1 << 20
    assert asked < 1 << 30


ALONE = """\
import hashlib, logging, sys
logging.basicConfig(level="WARNING")
import numpy as np
from service.formats import FORMATS
from service.main import create_app
from service.settings import Settings
from tests.formats.samples import rows_of, specs
create_app(Settings())
table = {"x": np.sin(np.arange(35.0)).astype(np.float32).reshape(5, 7)}
assert not [name for name in sys.modules if name.startswith(("matplotlib", "PIL"))]
for extension in ("png", "svg"):
    data = b"".join(FORMATS[extension].stream({}, specs(table), rows_of(table)))
    print(hashlib.sha256(data).hexdigest())
assert "matplotlib" in sys.modules
assert not {"matplotlib.pyplot", "matplotlib.font_manager", "matplotlib.figure"} & set(sys.modules)
"""


def alone(folder: Path, variables: dict[str, str]) -> list[str]:
    """Pictures from a process of its own, in a folder it cannot write to; nothing is said on the way."""
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", ALONE],
        cwd=folder,
        env={"PYTHONPATH": ":".join(path for path in (str(Path(__file__).parents[2]), *sys.path) if path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_nothing_of_the_machine_shows(tmp_path: Path) -> None:
    """No home, no folder to write to, somebody else's settings: the same bytes, without a word."""
    plain = alone(Path("/proc"), {"TMPDIR": "/proc/nowhere"})
    assert len(plain) == 2
    (tmp_path / "matplotlibrc").write_text("font.size: 33\naxes.facecolor: red\nimage.lut: 7\nsvg.hashsalt: x\n")
    theirs = alone(tmp_path, {"HOME": str(tmp_path), "MPLBACKEND": "nonsense", "MPLCONFIGDIR": str(tmp_path / "none")})
    assert theirs == plain
    assert sorted(path.name for path in tmp_path.iterdir()) == ["matplotlibrc"]


def test_two_threads_draw_the_same() -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(picture("png", {"x": TABLE}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {picture("png", {"x": TABLE})}


def test_the_versions_that_make_the_bytes_are_in_the_revision() -> None:
    import matplotlib as mpl  # noqa: PLC0415

    for extension in PICTURES:
        assert re.fullmatch(rf"3-matplotlib-{re.escape(mpl.__version__)}-zlib-[\w.-]+", FORMATS[extension].revision)


def test_the_environment_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATPLOTLIBRC", "/somewhere")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    Lettering()
    assert os.environ["MATPLOTLIBRC"] == "/somewhere"
    assert "MPLBACKEND" not in os.environ
