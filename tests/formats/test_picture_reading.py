"""What is compared in a picture can be compared, what is small is seen, and what it shows is said."""

import numpy as np
import pytest
from numpy.typing import NDArray

from service.formats.format import Captions, PictureWidth
from service.formats.pictures.palette import BACKGROUND, DIVERGING, RAMP, SEQUENTIAL
from service.formats.pictures.scales import Scale, scale, spread
from tests.formats.drawn import drawn, faults, panels, words

MIDDLE = DIVERGING + RAMP // 2
PLUS_MINUS, MINUS = "\N{PLUS-MINUS SIGN}", "\N{MINUS SIGN}"
TABLE = np.sin(np.arange(35.0)).astype(np.float32).reshape(5, 7)
BIAS = ("head", "query", "key")


def test_heads_that_differ_by_far_are_all_seen() -> None:
    """One scale that is even has no colour for a head that reaches a hundredth of another's values."""
    ramp = np.arange(-8.0, 9)[None]
    bias = np.stack([ramp, ramp / 20, ramp / 100])
    drawing = drawn({"bias": bias}, axes=BIAS)
    steep, _, flat = (image.colours[0].astype(int) for image in panels(drawing))
    assert (steep[0], steep[8], steep[16]) == (DIVERGING, MIDDLE, DIVERGING + RAMP - 1)
    assert (np.diff(flat) > 0).all()
    assert flat[16] - MIDDLE > 15
    assert (flat[::-1] - MIDDLE == MIDDLE - flat).all()
    told = f"colours are by the logarithm beyond {PLUS_MINUS}0.01, so that small values show"
    assert told in words(drawing)
    ticks = {text.replace(MINUS, "-") for text in words(drawing)}
    assert {"-1", "-0.1", "0", "0.1", "1"} <= ticks
    # A mark on the bar is where its colour is that of its value.
    bar = next(image for image in drawing.images if image.cell == (14, 1))
    for text in drawing.texts:
        if text.text in ("1", "0.1") and text.x > bar.x:
            (due,) = scale_of(bias).colours(np.array([float(text.text)]))
            assert abs(int(bar.colours[text.y - 4 - bar.y, 0]) - int(due)) <= 1
    # Twenty times is not so far, and nothing is said where one head has no bias at all.
    for near in (bias[:2], np.stack([ramp, 0 * ramp])):
        image = panels(drawn({"bias": near}, axes=BIAS))[0]
        assert image.colours[0, 12] == DIVERGING + 86
    rows = drawn({"score": bias[:, 0]}, axes=("head", "distance"))
    assert (panels(rows)[0].colours[2] == flat).all()
    tiny = drawn({"bias": np.stack([ramp, ramp * 1e-30])}, axes=BIAS)
    assert f"beyond {PLUS_MINUS}8e-6" in " ".join(words(tiny)).replace(MINUS, "-")


def scale_of(bias: NDArray[np.float64]) -> Scale:
    return spread(scale(list(bias), "float64", "colours"), [float(np.abs(each).max()) for each in bias])


def test_a_channel_that_is_larger_than_all_others_leaves_them_their_colours() -> None:
    waves = np.sin(np.arange(48 * 15.0)).reshape(48, 15)
    drawing = drawn({"encoding": np.column_stack([np.arange(48.0), waves])}, axes=("position", "channel"))
    shown = panels(drawing)[0].colours[:, 1:].astype(int)
    assert shown.max() - MIDDLE > 15
    assert ((shown > MIDDLE) == (waves > waves[shown > MIDDLE].min() - 1e-9)).all()
    # Slow waves are as small, and are not made to look larger.
    slow = np.sin(np.arange(16.0)[:, None] * 500_000.0 ** -np.linspace(0, 1, 32))
    assert "logarithm" not in " ".join(words(drawn({"sin": slow}, axes=("position", "channel"))))


def test_parts_of_a_whole_are_percent_from_none_to_all() -> None:
    """0.018 percent is next to none, and looks so."""
    unseen = np.array([[0, 0, 0.3], [0, 1.8e-4, 0.75]])
    drawing = drawn({"unseen": unseen}, Captions(shares=("unseen",)), ("method", "frequency"))
    (image,) = panels(drawing)
    assert (image.colours - SEQUENTIAL == np.rint(unseen * 114)).all()
    assert {"0 %", "100 %"} <= set(words(drawing))


def test_tensors_of_one_quantity_are_compared_side_by_side() -> None:
    arrays = {"norm": np.full(12, 2.0), "a_cosine": np.full(12, 0.5), "a_norm": np.full(12, 20.0)}
    arrays |= {"b_norm": np.full(12, 1.0)}
    said = Captions(quantities={name: name.rpartition("_")[2] for name in arrays})
    drawing = drawn(arrays, said, ("position",))
    first, second, third, cosine = panels(drawing)
    assert first.y == second.y == third.y < cosine.y
    heights = [int((image.colours[:, 0] != BACKGROUND).sum()) for image in (first, second, third)]
    assert heights == [21, 200, 11]
    assert [text for text in words(drawing) if text in ("norm", "cosine", "value")].count("cosine") == 1
    assert words(drawing).count("10") >= 3  # numbers at the left of each
    assert list(faults(drawing)) == []
    # Pairs whose sizes differ stand one pair below the other.
    pairs = {"plain": TABLE, "plain_shuffled": TABLE / 2, "encoded": TABLE * 9, "encoded_shuffled": TABLE * 5}
    drawing = drawn(pairs, Captions(quantities={name: name.partition("_")[0] for name in pairs}))
    places = [(image.x, image.y) for image in panels(drawing)]
    assert len({x for x, _ in places}) == len({y for _, y in places}) == 2
    assert places[0][1] == places[1][1] < places[2][1] == places[3][1]
    assert list(faults(drawing)) == []


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_columns_that_have_names_are_called_by_them(width: PictureWidth) -> None:
    names = ("hour-of-day", "day-of-week", "day-of-month")
    captions = Captions(named={"feature": names}, width=width)
    drawing = drawn({"x": TABLE[:, :3]}, captions, ("position", "feature"))
    assert set(names) <= set(words(drawing))
    assert "hour-of-day" not in drawing.description
    (image,) = panels(drawing)
    for number, name in enumerate(names):
        (text,) = [text for text in drawing.texts if text.text == name]
        assert 0 < text.x - image.x - number * image.cell[0] < image.cell[0]
    assert list(faults(drawing)) == []
    # For names there is no room under narrow columns, nor for those that are very long.
    many = tuple(f"name-{number}" for number in range(100))
    for each in (many, ("x" * 99, "y", "z")):
        told = drawn({"x": np.ones((4, len(each)))}, Captions(named={"feature": each}, width=width), ("row", "feature"))
        assert f"feature: 0 {each[0]}, 1 {each[1]}" in told.description


def test_one_column_is_a_profile_too() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    drawing = drawn({"age": values}, axes=("position", "channel"))
    (image,) = panels(drawing)
    assert (image.colours != BACKGROUND).sum(axis=0).tolist() == [51, 101, 200]
    assert {"age", "position", "2"} <= set(words(drawing))
    assert "channel" not in words(drawing)
    # Cells of truth values stay cells, and what is longer than the picture is sampled.
    assert panels(drawn({"mask": values > 1}, axes=("query", "key")))[0].colours.shape == (3, 1)
    long = drawn({"age": np.arange(5000.0)[:, None]}, axes=("position", "channel"))
    assert "every 5th position (1000 of 5000)" in long.description
    assert panels(long)[0].colours.shape[1] == 1000


def test_notes_stand_below_the_parameters() -> None:
    drawing = drawn({"x": TABLE}, Captions("t", "p", notes=("use it under a causal mask", "and so on")))
    assert words(drawing)[1:3] == ["p", "use it under a causal mask; and so on"]
    assert drawing.description == "p; use it under a causal mask; and so on"


def test_heights_that_have_no_short_name_are_values() -> None:
    names = {f"a_tensor_of_a_long_name_{letter}": np.ones(3) for letter in "ab"}
    assert "value" in words(drawn(names, axes=("position",)))
