"""Nested lists into arrays, and the place of the first fault."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from service.formats import lists
from service.formats.errors import Unreadable
from service.formats.lists import array_from_lists, flags_from_lists
from tests.formats.samples import same


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_floats_keep_their_bits_and_shape(array: Any) -> None:
    lists = array.tolist()
    shape = np.array(lists).shape
    assert same(array_from_lists(lists, "/x"), array.reshape(shape))


@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=3), elements=st.integers(-(2**53), 2**53)))
def test_whole_numbers_stay_whole(array: Any) -> None:
    assert same(array_from_lists(array.tolist(), "/x"), array)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], np.zeros(0)),
        ([[], []], np.zeros((2, 0))),
        ([[[]]], np.zeros((1, 1, 0))),
        (3, np.int64(3)),
        (0.5, np.float64(0.5)),
        ([1, 0.5], np.array([1, 0.5])),
        ([1e300, 1], np.array([1e300, 1])),
        ([2**53, 0.5], np.array([2.0**53, 0.5])),
        ([1e300, 2**53], np.array([1e300, 2.0**53])),
        ([-0.0, 5e-324], np.array([-0.0, 5e-324])),
    ],
)
def test_reads(value: Any, expected: Any) -> None:
    assert same(np.asarray(array_from_lists(value, "/x")), np.asarray(expected))


@pytest.mark.parametrize(
    ("value", "pointer", "code"),
    [
        ([1, True], "/q/1", "type"),
        (True, "/q", "type"),
        ("1", "/q", "type"),
        ({}, "/q", "type"),
        (None, "/q", "type"),
        ([False, True], "/q/0", "type"),
        ([1.5, "2"], "/q/1", "type"),
        ([[1, 2], [3, None]], "/q/1/1", "type"),
        ([[1, 2], [{"a": 1}, 3]], "/q/1/0", "type"),
        ([[1, 2], {"a": 1, "b": 2}], "/q/1", "type"),
        ([[1, 2], "ab"], "/q/1", "type"),
        ([[1, 2], [3]], "/q/1", "ragged"),
        ([[1], [2], [3, 4], [5]], "/q/2", "ragged"),
        ([[[1], [2]], [[3], [4, 5]]], "/q/1/1", "ragged"),
        ([1, 2, 3, [4]], "/q/3", "ragged"),
        ([[1], 2], "/q/1", "ragged"),
        ([[], [1]], "/q/1", "ragged"),
        (["a", [1]], "/q/1", "ragged"),
        ([[1.0, float("nan")]], "/q/0/1", "nonfinite"),
        ([float("-inf")], "/q/0", "nonfinite"),
        ([2**53 + 1], "/q/0", "integer"),
        ([0, -(2**53) - 1], "/q/1", "integer"),
        ([[0.5, 0], [1e300, 2**53 + 1]], "/q/1/1", "integer"),
        ([2**64], "/q/0", "integer"),
        ([0.5, 10**400], "/q/1", "integer"),
        ([float("nan"), 10**400], "/q/1", "integer"),
    ],
)
def test_refuses_with_the_place(value: Any, pointer: str, code: str) -> None:
    with pytest.raises(Unreadable) as caught:
        array_from_lists(value, "/q")
    assert (caught.value.pointer, caught.value.code) == (pointer, code)


def test_masks_may_hold_truth_values_or_numbers() -> None:
    assert same(flags_from_lists([[True, False, True]], "/m"), np.array([[True, False, True]]))
    assert same(flags_from_lists(False, "/m"), np.array(False))
    assert same(flags_from_lists([[1, 0]], "/m"), np.array([[1, 0]]))
    assert same(flags_from_lists([1, 0.5], "/m"), np.array([1, 0.5]))
    assert same(flags_from_lists([[], []], "/m"), np.zeros((2, 0)))


@pytest.mark.parametrize(
    ("value", "pointer", "said"),
    [
        ([[1, 0], [0, True]], "/m/1/1", "this is a boolean, where its neighbours are none"),
        ([[True, False], [1, True]], "/m/1/0", "this is a number, where its neighbours are booleans"),
        ([True, 0.5], "/m/1", "this is a number, where its neighbours are booleans"),
        ([True, "1"], "/m/1", "this is a string, where its neighbours are booleans"),
        ([None, True], "/m/1", "this is a boolean, where its neighbours are none"),
        ([True, [True]], "/m/1", "this is a list, where its neighbours are none"),
        ([1, None], "/m/1", "this is null; numbers are read"),
    ],
)
def test_one_mask_holds_one_kind(value: Any, pointer: str, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        flags_from_lists(value, "/m")
    assert caught.value.pointer == pointer
    assert caught.value.detail.startswith(said)


def test_says_what_is_wrong() -> None:
    for value, said in (
        ([True], "this is a boolean; numbers are read"),
        (["x" * 1000], "this is a string; numbers are read"),
        ([object()], "this is no JSON value; numbers are read"),
        ([[1, 2], [3]], "this list has 1 items, where those before it have 2"),
        ([1, [2]], "this is a list, where its neighbours are none"),
    ):
        with pytest.raises(Unreadable) as caught:
            array_from_lists(value, "/q")
        assert caught.value.detail == said


def test_nesting_has_an_end() -> None:
    value: Any = 1
    for _ in range(32):
        value = [value]
    assert array_from_lists(value, "").shape == (1,) * 32
    for _ in range(5000):
        value = [value]
    with pytest.raises(Unreadable, match="nested deeper than 32") as caught:
        array_from_lists(value, "/q")
    assert caught.value.pointer == "/q"


def test_a_million_numbers_take_a_moment() -> None:
    rows = np.random.default_rng(1).standard_normal((10_000, 100)).tolist()
    begin = time.process_time()
    array_from_lists(rows, "/q")
    assert time.process_time() - begin < 1
    rows[-1][-1] = "1"
    with pytest.raises(Unreadable) as caught:
        array_from_lists(rows, "/q")
    assert caught.value.pointer == "/q/9999/99"
    # One long string among numbers must not make an array of long strings.
    rows[0][0] = "1" * 10_000_000
    with pytest.raises(Unreadable):
        array_from_lists(rows, "/q")


@pytest.mark.parametrize("rows", [[[1, 2]] * 5, [[n, -n, 2**53] for n in range(7)], [[0.5] * 100, [1] * 100], [[7]]])
def test_what_is_looked_at_in_slices_is_whole(rows: list[list[float]], monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other threads get to run meanwhile."""
    monkeypatch.setattr(lists, "SLICE", 3)
    array = array_from_lists(rows, "")
    assert array.tolist() == rows
    assert array.dtype == np.array(rows).dtype
    for wrong, code in ((2**53 + 1, "integer"), (True, "type"), (1e999, "nonfinite"), ([], "ragged")):
        faulty = [*rows, [*rows[0][:-1], wrong]]
        with pytest.raises(Unreadable) as met:
            array_from_lists(faulty, "")
        assert (met.value.code, met.value.pointer) == (code, f"/{len(rows)}/{len(rows[0]) - 1}")
    with pytest.raises(Unreadable, match="items, where those before"):
        array_from_lists([*rows, [*rows[0], 1]], "")
