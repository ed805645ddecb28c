"""JSON as Python's own module writes and reads it: with bare `Infinity`, `-Infinity` and `NaN`.

The strict reader reads everything. Only where it refuses the syntax of a body that has such words outside its strings
are they put into strings that the body has nowhere else, and made numbers again in what was read.
"""

import re
from math import inf, nan
from typing import Any

from service.formats.errors import Unreadable
from service.formats.json_reader import read_json

# A whole string, closed or not (so that each byte is looked at once), or a word.
WORDS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|-?Infinity|NaN', re.DOTALL)
NUMBERS = {"Infinity": inf, "-Infinity": -inf, "NaN": nan}
MOST_WORDS = 65_536
# While one word is looked for no other thread runs; a configuration has some kilobytes.
SEARCHED_BYTES = 1 << 18
# The long lists of a GGUF header, which nobody needs here.
VOCABULARY = ("tokenizer.ggml.scores", "tokenizer.ggml.token_type")


def read_python_json(body: bytes | bytearray) -> object:
    """The value of a JSON body, in which numbers may be infinite.

    >>> read_python_json(b'{"time_step_limit": [0.0, Infinity], "text": "NaN"}')
    {'time_step_limit': [0.0, inf], 'text': 'NaN'}
    """
    try:
        return read_json(body, VOCABULARY)
    except Unreadable as fault:
        found = _quoted(body) if fault.code == "json_syntax" and len(body) <= SEARCHED_BYTES else None
        if found is None:
            raise
    text, mark = found
    try:
        return _numbers(read_json(text), mark)
    except RecursionError:
        raise Unreadable("json_depth", "the JSON is nested too deep") from None


def _quoted(body: bytes | bytearray) -> tuple[bytes, str] | None:
    """(the body with its bare words in strings, what these strings begin with); None where it has none, or too many."""
    mark = "\x00"
    while _escaped(mark) in body:
        mark += "\x00"
    count = 0

    def quoted(match: re.Match[bytes]) -> bytes:
        nonlocal count
        word = match.group()
        if word.startswith(b'"'):
            return word
        count += 1
        return b'"' + _escaped(mark) + word + b'"' if count <= MOST_WORDS else word

    text = WORDS.sub(quoted, body)
    return (text, mark) if 0 < count <= MOST_WORDS else None


def _escaped(mark: str) -> bytes:
    return b"\\u0000" * len(mark)


def _numbers(value: Any, mark: str) -> Any:
    """What was read, with numbers for the marked strings."""
    if isinstance(value, dict):
        if any(key.startswith(mark) for key in value):
            raise Unreadable("json_syntax", "not JSON: a name is no string")
        return {key: _numbers(each, mark) for key, each in value.items()}
    if isinstance(value, list):
        return [_numbers(each, mark) for each in value]
    if isinstance(value, str) and value.startswith(mark):
        return NUMBERS[value.removeprefix(mark)]
    return value
