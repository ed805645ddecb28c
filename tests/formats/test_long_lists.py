"""Long lists of numbers, read apart: what is read so is what the parser would have read; the rest is its own."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from service.formats import json_reader, long_lists
from service.formats.errors import Unreadable
from service.formats.json_reader import read_json
from service.formats.lists import array_from_lists, flags_from_lists

NAMES = ("x", "q")
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.lists(numbers, min_size=1, max_size=5) | st.lists(st.booleans(), min_size=1, max_size=5)
shapes = st.lists(st.integers(1, 3), max_size=3)


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    """Lists of a few bytes are long, and are read a few bytes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (json_reader, long_lists):
            patch.setattr(module, "LONG", 3)
        patch.setattr(long_lists, "PIECE", 4)
        yield


def plain(value: Any) -> Any:
    """The same with lists for arrays, and as text: 1, 1.0 and true differ, and so do 0.0 and -0.0."""
    return json.dumps(value, default=lambda array: array.tolist())


def read(body: bytes, *names: str) -> Any:
    """What was read, or the code of the refusal."""
    try:
        return plain(read_json(body, names))
    except Unreadable as fault:
        return fault.code


def nested(leaf: list[Any], lengths: list[int]) -> Any:
    value: Any = leaf
    for length in lengths:
        value = [value] * length
    return value


@given(leaves, shapes, st.sampled_from([None, 0, 1]), st.booleans())
def test_tensors_are_arrays(leaf: list[Any], lengths: list[int], indent: int | None, beside: bool) -> None:
    value = nested(leaf, lengths)
    body = json.dumps({"tensors": {"x": value, "s": "x"}, **({"q": value} if beside else {})}, indent=indent).encode()
    found: Any = read_json(body, NAMES)
    expected = flags_from_lists(value, "")
    for array in (found["tensors"]["x"], found.get("q")):
        if array is None:
            continue
        assert isinstance(array, np.ndarray)
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        assert array.tobytes() == expected.tobytes()
        assert flags_from_lists(array, "") is array


TEXTS = st.text('[[[]]],,,0011 \n-.e"x:{}', max_size=24)


@settings(max_examples=2000)
@given(
    TEXTS,
    st.sampled_from(['{"x":', '{"x" :\n[', '{"q":{"x":[[', '["x",', '"x":']),
    st.sampled_from(["}", "]}", "]]}}", ""]),
)
@example("[1[,2],[3,4]]", '{"x":', "}")
@example("[[1],2,[3,4]]", '{"x":', "}")
@example("[1 2,3]", '{"x":', "}")
@example("[1,2],", '{"x":', "}")
@example("[[[],[1]]]", '{"x":', "}")
@example("[1,2,3]:1", '{"x":', "}")
@example('[1,2,3]"', '{"x":', "}")
@example("[-0,-0,-0]", '{"x":', "}")
@example("[[1,2],[3]]", '{"x":', "}")
@example('"\\"x":[1,1,1]', "{", "}")
def test_nothing_is_read_that_the_parser_would_not_read_so(text: str, before: str, behind: str) -> None:
    body = (before + text + behind).encode()
    plainly, apart = read(body), read(body, *NAMES)
    assume(plainly != "json_size")
    # An array of whole numbers and others has others alone.
    assert apart == plainly or plain(_widened(json.loads(plainly))) == plain(_widened(json.loads(apart)))


def _widened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _widened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_widened(each) for each in value]
    return float(value) if type(value) is int else value


NO_TENSORS = [
    "[1,true]", "[1,null]", "[9007199254740993,1]", "[[1,2],[3]]", "[1,[2]]", '["a","b"]', "[[[1]],[[]]]", "[1,1e999]",
    "[]", "[" * 33 + "1" + "]" * 33,
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TENSORS)
def test_what_is_no_tensor_is_left_to_the_parser(text: str) -> None:
    body = f'{{"x":{text}}}'.encode()
    assert read(body, *NAMES) == read(body)


def test_a_fault_behind_a_list_is_told_where_it_is() -> None:
    with pytest.raises(Unreadable, match="line 2 column 4"):
        read_json(b'{"x":[' + b"1," * 50 + b"\n9],nothing}", NAMES)


def test_names_are_looked_for_in_no_more_than_so_many_places() -> None:
    body = b'{"q":[' + b'{"x":1},' * 1100 + b'{"x":[1,2,3]}]}'
    assert '"x": [1, 2, 3]' in read(body, *NAMES)


def test_truth_values_are_no_numbers() -> None:
    found: Any = read_json(b'{"x":[[true,false]]}', NAMES)
    with pytest.raises(Unreadable) as caught:
        array_from_lists(found["x"], "/tensors/x")
    assert (caught.value.code, caught.value.pointer) == ("type", "/tensors/x/0/0")
