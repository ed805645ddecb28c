"""Two widths of a picture: a narrow one is read on a phone, and both say the same of the same values."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from service.formats.format import Captions, PictureWidth
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import DIVERGING, RAMP
from service.formats.pictures.wrapping import Face
from tests.formats.drawn import drawn, faults, panels, picture, words

PHONE = 333  # the room for a picture on a screen of 375
LONG = Captions(
    "Rotary position embedding: cos and sin tables of a model with a long name",
    "encodings/rope: length=64, original_max_position_embeddings=4096, positions=" + ",".join(map(str, range(99))),
    {"position": 130_000},
)
NAMED = Captions(
    named={"method": ("none", "linear", "yarn"), "arithmetic": ("exact", "bfloat16-positions"), "kind": ("a", "b")}
)


def wave(*shape: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.sin(np.arange(float(np.prod(shape))))
    return values.reshape(shape)


CASES: Mapping[str, tuple[dict[str, NDArray[Any]], tuple[str, ...], Captions]] = {
    "classic": ({"encoding": wave(50, 128)}, ("position", "channel"), LONG),
    "large": ({"encoding": wave(4096, 512)}, ("position", "channel"), LONG),
    "one row": ({"encoding": wave(1, 512)}, ("position", "channel"), LONG),
    "one column": ({"encoding": wave(600, 2)}, ("position", "channel"), LONG),
    "two tables": ({"cos": wave(64, 64), "sin": wave(64, 64)}, ("position", "channel"), LONG),
    "forty heads": ({"bias": wave(40, 20, 2048)}, ("head", "query", "key"), LONG),
    "twelve heads": ({"bias": wave(12, 48, 48)}, ("head", "query", "key"), LONG),
    "flat heads": ({"bias": wave(71, 3, 300) * 1e-5}, ("head", "query", "key"), LONG),
    "batches of heads": ({"bias": wave(2, 9, 40, 40)}, ("batch", "head", "query", "key"), LONG),
    "a plane": ({"x": wave(24, 24, 30)}, ("height", "width", "channel"), LONG),
    "long numbers": ({"x": wave(4, 4) * 1.2345e-3}, ("query", "key"), LONG),
    "decades": ({"x": np.exp(wave(40, 40) * 9)}, ("layer", "position"), LONG),
    "halves of float32": ({"mask": np.tri(40, 40) * -3.4e38}, ("query", "key"), LONG),
    "no numbers": ({"x": np.array([[1, -np.inf, 0], [np.nan, np.inf, -1]])}, ("query", "key"), LONG),
    "heights": ({"x": np.abs(wave(300)), "bound": wave(300)}, ("distance",), LONG),
    "five short profiles": ({f"sinusoidal_{name}": wave(2) for name in "abcde"}, ("position",), LONG),
    "rows with names": ({"x": wave(3, 64)}, ("method", "frequency"), NAMED),
    "rows with long names": ({"x": wave(2, 64)}, ("arithmetic", "kind"), NAMED),
}
narrow_and_wide = pytest.mark.parametrize("width", ["narrow", "wide"])


def of(case: str, width: PictureWidth) -> Any:
    arrays, axes, captions = CASES[case]
    told = (captions.title, captions.parameters, captions.first, captions.named)
    return drawn(arrays, Captions(*told, width=width), axes)


@narrow_and_wide
@pytest.mark.parametrize("case", CASES)
def test_no_text_is_cut_off_or_lies_over_anything(case: str, width: PictureWidth) -> None:
    assert list(faults(of(case, width))) == []


@pytest.mark.parametrize("case", CASES)
def test_the_letters_of_a_narrow_picture_are_read_on_a_phone(case: str) -> None:
    drawing = of(case, "narrow")
    assert 340 <= drawing.width <= 360
    assert min(text.size for text in drawing.texts) * min(1, PHONE / drawing.width) >= 11
    assert drawing.height < 1600


@narrow_and_wide
def test_a_cell_is_a_value_at_either_width(width: PictureWidth) -> None:
    table = wave(50, 128)
    drawing = drawn({"x": table}, Captions(width=width), ("position", "channel"))
    (image,) = panels(drawing)
    most = float(np.abs(table).max())
    assert (image.colours == DIVERGING + np.rint((table / most / 2 + 0.5) * (RAMP - 1))).all()
    assert image.cell == ((8, 8) if width == "wide" else (2, 4))


def test_a_narrow_picture_leaves_out_more_and_says_so() -> None:
    table = wave(4096, 512)
    drawing = of("large", "narrow")
    (image,) = panels(drawing)
    said = "shown: every 9th position (456 of 4096), every 3rd channel (171 of 512); no values are blended"
    assert image.colours.shape == table[::9, ::3].shape
    assert said in drawing.description
    assert said in " ".join(words(drawing))


def test_the_colour_bar_lies_beneath_and_goes_from_left_to_right() -> None:
    drawing = of("classic", "narrow")
    (bar,) = [image for image in drawing.images if image not in panels(drawing)]
    (panel,) = panels(drawing)
    assert bar.y > panel.y + 200
    assert bar.colours.shape == (1, 256)
    assert bar.colours[0, [0, -1]].tolist() == [DIVERGING, DIVERGING + RAMP - 1]
    assert (np.diff(bar.colours[0].astype(int)) >= 0).all()
    marks = {text.text: text.x - bar.x for text in drawing.texts if text.y > bar.y}
    assert [marks[told] for told in ("\N{MINUS SIGN}0.5", "0", "0.5")] == [64, 128, 191]


def test_swatches_follow_each_other_beneath() -> None:
    drawing = of("no numbers", "narrow")
    told = [next(text for text in drawing.texts if text.text == name) for name in ("inf", "-inf", "NaN")]
    assert len({text.y for text in told}) == 1
    assert [text.x for text in told] == sorted(text.x for text in told)
    only = drawn({"mask": np.tri(4, 4, dtype=bool)}, Captions(width="narrow"))
    assert {"true", "false"} <= set(words(only))
    assert len(only.images) == 1


def test_rows_are_called_where_there_is_room_and_else_told() -> None:
    assert {"none 0", "linear 1", "yarn 2"} <= set(words(of("rows with names", "narrow")))
    assert {"exact 0", "bfloat16-positions 1"} <= set(words(of("rows with long names", "wide")))
    narrow = of("rows with long names", "narrow")
    assert {"0", "1"} <= set(words(narrow))
    assert "arithmetic: 0 exact, 1 bfloat16-positions; kind: 0 a, 1 b" in narrow.description


def test_heights_are_named_in_half_of_their_width() -> None:
    told = "trained_length=4096: 46 of 64 pairs (92 of 128 channels) complete a turn"
    drawing = drawn({"wavelengths": 2.0 ** np.arange(0, 20, 0.3)}, Captions(lines={told: 4096.0}, width="narrow"))
    lines = [text for text in drawing.texts if text.text in told and len(text.text) > 9]
    assert " ".join(text.text for text in lines) == told
    assert len(lines) > 2
    assert list(faults(drawing)) == []


def test_bytes_are_those_of_the_width_that_is_asked_for() -> None:
    arrays = {"x": wave(5, 7)}
    assert picture("png", arrays) == picture("png", arrays, width="wide")
    narrow = Pillow.open(io.BytesIO(picture("png", arrays, width="narrow")))
    assert narrow.width == 350
    assert b'width="350"' in picture("svg", arrays, width="narrow")


def test_a_list_that_is_longer_than_a_line_is_broken_after_its_commas() -> None:
    face = Face(Lettering(), 12)
    lines = face.wrapped("positions=" + ",".join(map(str, range(100, 140))), 200, 9)
    assert "".join(lines) == "positions=" + ",".join(map(str, range(100, 140)))
    assert all(line.endswith(",") for line in lines[:-1])
    assert all(face.fits(line, 200) for line in lines)
    assert face.wrapped("", 200, 3) == []
    assert face.wrapped("a,,b c", 200, 3) == ["a,,b c"]
    (cut,) = face.wrapped("x" * 99, 200, 3)
    assert cut.endswith("…")


def test_an_axis_that_has_room_for_one_number_more_ends_with_its_last() -> None:
    drawing = drawn({"bias": wave(32, 48, 48)}, Captions(width="narrow"), ("head", "query", "key"))
    assert [text for text in words(drawing) if text.isdigit()].count("47") == 8 + 4
    alone = drawn({"x": wave(1, 1)}, Captions(width="narrow"), ("query", "key"))
    assert words(alone)[:4] == ["0", "0", "key", "query"]


@pytest.mark.parametrize(("width", "across"), [("wide", 5), ("narrow", 3)])
def test_short_profiles_stand_side_by_side(width: PictureWidth, across: int) -> None:
    assert len({image.x for image in panels(of("five short profiles", width))}) == across
