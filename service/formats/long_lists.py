"""Long lists of numbers or truth values in a JSON body, read in pieces, straight into arrays.

The parser lets no other thread run until it has all, and makes an object of every number. So a long list below a known
name, of these alone and in lists of one shape, is cut out of the text, and read by itself. Anything else that stands
there is left to the parser, whose bounds it has to keep.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from service.formats.declared import MOST_AXES
from service.formats.errors import Unreadable
from service.formats.lists import flags_from_lists

# A list shorter than this is no trouble.
LONG = 1 << 16
# What is read at a time.
PIECE = 1 << 16
# No other thread runs while so much is looked through.
STEP = 1 << 20
# How often a name is looked for.
MOST_PLACES = 1024

_VALUE = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*(?=\[)")
_SPACE = b" \t\r\n"
_DIGITS = b"0123456789+-.Etruefals"
# Each byte of a value is a 0.
_KINDS = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))
_FLAT = bytes.maketrans(b"[]", b"  ")
# Line breaks stay, so that a fault behind a list is where it was.
_BLANK = bytes(10 if byte == 10 else 32 for byte in range(256))


def without_long_lists(body: bytes, names: Iterable[str]) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """The body with a mark for each long list below these names, as long as the list was; and the arrays by mark."""
    found: dict[str, NDArray[Any]] = {}
    parts, done, token = [], 0, secrets.token_hex(16)  # a text that no body has
    for start, end in sorted(place for name in names for place in _places(body, b'"' + name.encode() + b'"')):
        array = None if start < done else _array(body[start:end])
        if array is not None:
            mark = f"{token} {len(found)}"
            found[mark] = array
            written = b'"' + mark.encode() + b'"'
            parts += [body[done:start], written, _translated(body[start + len(written) : end], _BLANK)]
            done = end
    return b"".join((*parts, body[done:])) if parts else body, found


def put_back(document: Any, found: dict[str, NDArray[Any]]) -> None:
    """Arrays for their marks, which are values of objects, wherever these are."""
    left = [document] if found else []
    while left:
        each = left.pop()
        if isinstance(each, dict):
            each.update({name: found[value] for name, value in each.items() if type(value) is str and value in found})
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _places(body: bytes, name: bytes) -> Iterator[tuple[int, int]]:
    """Where a list begins below this name that has LONG bytes at least, and where one of values alone would end.

    A quote that is not escaped, or is none of a string, makes a name of something else or the text no JSON: then the
    rest of it says so.
    """
    at = 0
    for _ in range(MOST_PLACES):
        at = body.find(name, at)
        if at < 0:
            return
        at += len(name)
        value = _VALUE.match(body, at)
        if value is None or body.find(b'"', value.end(), value.end() + LONG) >= 0:
            continue
        start = value.end()
        stop = _or(body.find(b'"', start + LONG), len(body))
        end = body.rfind(b"]", start, _or(body.find(b"}", start, stop), stop)) + 1
        if end - start >= LONG:
            yield start, end
        at = stop


def _or(found: int, otherwise: int) -> int:
    return found if found >= 0 else otherwise


def _array(text: bytes) -> NDArray[Any] | None:
    """The array of a text that is lists of values, of one shape; None if it is not."""
    plan = _translated(text, _KINDS, _SPACE)
    if _is_split(plan):
        return None
    shape = _shape(_translated(plan, None, b"0"))
    values = None if shape is None else _values(_translated(text, _FLAT), prod(shape))
    return None if values is None or shape is None else values.reshape(shape)


def _translated(text: bytes, table: bytes | None, without: bytes = b"") -> bytes:
    return b"".join(text[at : at + STEP].translate(table, without) for at in range(0, len(text), STEP))


def _is_split(plan: bytes) -> bool:
    """Whether a value has a bracket where a comma belongs. (To search for two bytes can take ten times as long.)"""
    kinds = np.frombuffer(plan, np.uint8)
    value = kinds == ord("0")
    return bool((value[:-1] & (kinds[1:] == ord("["))).any() or ((kinds[:-1] == ord("]")) & value[1:]).any())


def _shape(marks: bytes) -> tuple[int, ...] | None:
    """The shape of lists of which these are the brackets and commas; None if they have none.

    >>> _shape(b"[[,,],[,,]]"), _shape(b"[[,],[]]")
    ((2, 3), None)
    """
    depth = len(marks) - len(marks.lstrip(b"["))
    if depth > MOST_AXES:
        return None
    count = marks.find(b"]", depth) - depth + 1
    shape, unit = [count], b"[" + b"," * (count - 1) + b"]"
    for level in range(2, depth + 1):
        size = marks.find(b"]" * level) + 2 * level - depth  # of the first list of that level
        count = (size + len(unit) - 1) // (len(unit) + 1)
        if count < 1:
            return None
        shape.append(count)
        unit = b"[" + (unit + b",") * (count - 1) + unit + b"]"
    return tuple(reversed(shape)) if unit == marks else None


def _values(text: bytes, count: int) -> NDArray[Any] | None:
    """So many values with commas between them; None if there are others, or if one is none that is read."""
    array, at, kinds = np.empty(count), 0, set()
    try:
        for piece in _pieces(text):
            part = flags_from_lists(orjson.loads(b"[" + piece + b"]"), "")
            array[at : at + part.size] = part
            at += part.size
            kinds.add(part.dtype.type)
    except (Unreadable, orjson.JSONDecodeError, ValueError):
        return None
    if at != count or (np.bool_ in kinds and len(kinds) > 1):
        return None
    # Whole numbers are exact as floats as far as they are read.
    return array.astype(kinds.pop()) if len(kinds) == 1 else array


def _pieces(text: bytes) -> Iterator[bytes]:
    start = 0
    while start <= len(text):
        stop = _or(text.find(b",", start + PIECE), len(text))
        yield text[start:stop]
        start = stop + 1
