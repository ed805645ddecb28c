"""JSON bodies: whatever comes, a value or a refusal."""

import gc
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formats.errors import Unreadable
from service.formats.json_reader import DUPLICATES_BYTES, read_json
from tests.formats.samples import strict


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", "json_empty", "the body is empty"),
        (b" \r\n\t", "json_empty", "the body is empty"),
        (b"[", "json_syntax", "not JSON: .*, line 1 column"),
        (b"[1,]", "json_syntax", "trailing comma is not allowed, line 1 column 3"),
        (b'{"a":1}\n{"a":1}', "json_syntax", "line 2 column 1"),
        (b"[NaN]", "json_syntax", "line 1 column 2"),
        (b'{"base":Infinity}', "json_syntax", "line 1 column 9"),
        (b"[-Infinity]", "json_syntax", "not JSON"),
        (b"[1e999]", "json_syntax", "number is infinity"),
        (b"-1e400", "json_syntax", "number is infinity"),
        (b"[01]", "json_syntax", "not JSON"),
        (b"[1_0]", "json_syntax", "not JSON"),
        (b"'a'", "json_syntax", "not JSON"),
        (b'"\\ud800"', "json_encoding", "lone surrogates"),
        (b'"\xed\xa0\x80"', "json_encoding", "not UTF-8"),
        (b'"\xff"', "json_encoding", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "json_encoding", "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "json_encoding", "UTF-16"),
        ('{"a": 1}'.encode("utf-16-le"), "json_encoding", "UTF-16"),
        ('{"a": 1}'.encode("utf-16-be"), "json_encoding", "UTF-16"),
        ('{"a": 1}'.encode("utf-32-le"), "json_encoding", "UTF-32"),
        (b"[" * 100_000, "json_depth", "nested too deep"),
        (b"[" * 100_000 + b"]" * 100_000, "json_depth", "nested too deep"),
        (b'{"a":' * 100_000, "json_depth", "nested too deep"),
        (b"[" * 1010 + b"]" * 1010, "json_depth", "nested too deep"),
        (b"[" * 1000, "json_syntax", "unexpected end of data"),
        (b'{"a":1,"a":2}', "json_duplicate", "the name a comes twice in one object"),
        (b'{"x":[{"b":1,"\\u0062":2}]}', "json_duplicate", "the name b comes twice"),
        (b"\x93NUMPY\1\0", "json_syntax", "JSON was due, and this is an npy file"),
        (b"\x1f\x8b\x08\0", "json_syntax", "this is gzip-compressed data"),
        (b"version https://git-lfs", "json_syntax", "a Git LFS pointer"),
    ],
)
def test_refuses(body: bytes, code: str, said: str) -> None:
    for form in (body, bytearray(body), memoryview(body)):
        with pytest.raises(Unreadable, match=said) as caught:
            read_json(form)
        assert (caught.value.code, caught.value.pointer) == (code, None)
        assert len(caught.value.detail) < 160


def test_a_name_that_comes_twice_is_cut_and_made_printable() -> None:
    name = b"k\\n" * 1000
    with pytest.raises(Unreadable) as caught:
        read_json(b'{"' + name + b'":1,"' + name + b'":2}')
    assert "k?k?" in caught.value.detail
    assert caught.value.detail.count("k?") <= 32


def test_takes_what_is_json() -> None:
    body = b' {"a": [1, -0.0, 1e5, true, null, "\\u00e9", 18446744073709551615], "b": {"a": 1}}\n'
    assert read_json(memoryview(body)) == strict(body)
    assert read_json(b"null") is None
    assert read_json(b"0") == 0


def test_long_integers_are_no_trouble() -> None:
    # Python refuses to convert more than 4300 digits; the JSON parser reads a float, or says it is too large.
    assert read_json(b"1" * 300) == float("1" * 300)
    with pytest.raises(Unreadable):
        read_json(b"[" + b"1" * 5000 + b"]")
    assert read_json(b"0." + b"1" * 5000) == pytest.approx(1 / 9)


def test_many_names_take_a_moment() -> None:
    names = ",".join(f'"{number}":1' for number in range(70_000))
    begin = time.process_time()
    with pytest.raises(Unreadable, match="the name 69999 comes twice"):
        read_json(f'{{{names},"69999":2}}'.encode())
    assert time.process_time() - begin < 1


def test_large_bodies_are_not_searched_for_duplicates() -> None:
    body = b'{"a":1,"a":2,"b":"' + b"x" * DUPLICATES_BYTES + b'"}'
    assert isinstance(read_json(body), dict)


@pytest.mark.parametrize("body", [b"[1]", b"[", b'{"a":1,"a":1}'])
def test_the_collector_is_left_as_it_was(body: bytes) -> None:
    for change, was in ((gc.disable, False), (gc.enable, True)):
        change()
        with suppress(Unreadable):
            read_json(body)
        assert gc.isenabled() == was


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value = read_json(body)
    except Unreadable:
        return
    assert value == strict(body)
