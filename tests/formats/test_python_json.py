"""JSON with the infinities and the NaN that Python's own module writes."""

import json
from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formats.errors import Unreadable
from service.formats.json_reader import MOST_PARTS
from service.formats.python_json import MOST_WORDS, SEARCHED_BYTES, read_python_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_python_writes_is_read(value: object) -> None:
    written = json.dumps({"value": value})
    assert repr(read_python_json(written.encode())) == repr(json.loads(written))


def test_strings_stay_strings() -> None:
    body = (
        r'{"a": "Infinity", "b": "\u0000Infinity", "NaN": [NaN, -Infinity], "c\"Infinity": "x\\", "\u0000\u0000NaN": 1}'
    )
    found = read_python_json(body.encode())
    assert isinstance(found, dict)
    assert isnan(found["NaN"][0])
    assert repr(found) == repr(json.loads(body))


@pytest.mark.parametrize(
    "body",
    [
        b"[Infinity", b"[infinity]", b"[nan]", b"[-NaN]", b"[Infinityx]", b"[1Infinity]", b"[+Infinity]", b"[1, 2",
        b"{NaN: 1}", b'{"a": {NaN: 1}}', b"[" * 1000 + b"NaN" + b"]" * 1000,
        b'["Infinity]', b'"' + b'\\"' * 100_000, b"[1e999]", b"[1, NaN,]", b"[- Infinity]", b"", b"[NaN]\0",
    ],
)  # fmt: skip
def test_what_is_no_json_either(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_python_json(body)


def test_nesting_beyond_python_is_refused() -> None:
    """In a text too long to be looked through for names that come twice: its words got long marks."""
    marks = b'"' + b"\\u0000" * 3000 + b'", '
    with pytest.raises(Unreadable, match="nested too deep"):
        read_python_json(b"[" * 1000 + marks + b"NaN, " * 100 + b"1" + b"]" * 1000)


def test_words_are_not_looked_for_in_what_is_no_configuration() -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        read_python_json(b"[NaN]" + b" " * SEARCHED_BYTES)


def test_the_vocabulary_of_a_header_counts_for_nothing() -> None:
    scores = b"-1.5," * (MOST_PARTS + 1) + b"0"
    header: Any = read_python_json(b'{"general.architecture": "llama", "tokenizer.ggml.scores": [' + scores + b"]}")
    assert header["general.architecture"] == "llama"
    assert header["tokenizer.ggml.scores"].shape == (MOST_PARTS + 2,)


def test_an_object_whose_name_is_a_word_in_quotes() -> None:
    read = read_python_json(b'{"NaN": NaN, "x": null}')
    assert isinstance(read, dict)
    assert set(read) == {"NaN", "x"}


def test_too_many_words_are_refused() -> None:
    few, many = ("[" + "NaN," * count + "1]" for count in (10, MOST_WORDS + 1))
    assert len(read_python_json(few.encode())) == 11  # type: ignore[arg-type]  # a list, as the text says
    with pytest.raises(Unreadable, match="not JSON"):
        read_python_json(many.encode())


def test_names_that_come_twice_are_refused_with_words_too() -> None:
    with pytest.raises(Unreadable, match="twice"):
        read_python_json(b'{"a": NaN, "a": 1}')
