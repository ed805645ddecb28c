"""Reads a JSON body strictly (RFC 8259, UTF-8), whatever its bytes are."""

import gc
import json
from collections.abc import Collection
from typing import Any

import orjson

from service.formats.declared import Body
from service.formats.errors import Unreadable, echo
from service.formats.long_lists import LONG, STEP, put_back, without_long_lists
from service.formats.seen import seen

DUPLICATES_BYTES = 1 << 20
# What is read in one piece, while no other thread runs: values, of which a list or an object counts twice and a name
# five times, for so much longer they take.
MOST_PARTS = 600_000
MOST_CONTAINERS = 200_000
# How much memory JSON takes as Python objects at most while it is read: so many times its bytes, and so much for each
# list or object, and each quote, besides.
OBJECT_FACTOR = 15
CONTAINER_BYTES = 160
QUOTE_BYTES = 24


def read_json(body: Body, arrays: Collection[str] = ()) -> object:
    """The value of a JSON body.

    `NaN`, `Infinity` and numbers beyond float64, bad UTF-8 and lone surrogates, other encodings and byte
    order marks, nesting beyond what the parser takes, and (up to 1 MiB) names that come twice in an object
    raise `Unreadable`; so does what would hold up everybody while it is read (`MOST_PARTS`). Below the names `arrays`
    long lists of numbers, of one shape, are read apart, and are arrays; there may be any number of them.

    >>> read_json(b'{"positions": [0, 1.5]}')
    {'positions': [0, 1.5]}
    >>> read_json(b"[1e999]")
    Traceback (most recent call last):
    service.formats.errors.Unreadable: not JSON: number is infinity when parsed as double, line 1 column 2
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    _encoded(text)
    if not arrays or len(text) < LONG:
        return _parse(text)
    shortened, found = without_long_lists(bytes(text), arrays)
    value = _parse(shortened)
    put_back(value, found)
    return value


def object_bytes(body: Body) -> int:
    """The memory that reading such a body takes at most, itself not counted.

    >>> object_bytes(b'{"positions": [0, 1.5]}')
    690
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    containers, quotes = _count(text, b"[") + _count(text, b"{"), _count(text, b'"')
    return (OBJECT_FACTOR - 1) * len(body) + CONTAINER_BYTES * min(containers, MOST_CONTAINERS) + QUOTE_BYTES * quotes


def _count(text: bytes | bytearray, what: bytes) -> int:
    """How often that byte comes; other threads may run meanwhile."""
    return sum(text.count(what, at, at + STEP) for at in range(0, len(text), STEP))


def read_object(body: bytes, what: str) -> dict[str, Any]:
    """The same for a body that must be one object; `what` names it in messages."""
    _encoded(body)
    value = _parse(body)
    if not isinstance(value, dict):
        raise Unreadable("json_type", f"{what} must be a JSON object")
    return value


def _parse(body: bytes | bytearray) -> object:
    _bounded(body)
    collects = gc.isenabled()
    # Each few hundred new lists the collector would look at all of them again: that took five times as long as reading.
    gc.disable()
    try:
        value: object = orjson.loads(body)
        if len(body) <= DUPLICATES_BYTES:
            _refuse_duplicates(body)
    except orjson.JSONDecodeError as error:
        raise _fault(str(error), body) from None
    finally:
        if collects:
            gc.enable()
    return value


def _bounded(body: bytes | bytearray) -> None:
    if len(body) < MOST_CONTAINERS:
        return
    containers = _count(body, b"[") + _count(body, b"{")
    parts = _count(body, b",") + containers
    if parts <= MOST_PARTS:
        parts += 4 * body.translate(None, b" \t\r\n").count(b'":')
    if containers > MOST_CONTAINERS or parts > MOST_PARTS:
        raise Unreadable(
            "json_size",
            f"this JSON counts as {parts} values, in {containers} lists and objects; at most {MOST_PARTS}, in "
            f"{MOST_CONTAINERS}, are read. Tensors of any size are if they hold numbers, in lists of one length",
        )


def _encoded(body: bytes | bytearray) -> None:
    if not body.strip(b" \t\r\n"):
        raise Unreadable("json_empty", "JSON was due, and the body is empty")
    if body.startswith(b"\xef\xbb\xbf"):
        raise Unreadable("json_encoding", "JSON must not begin with a byte order mark")
    if body.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\0" in body[:2] and body.strip(b"\0").isascii()):
        raise Unreadable("json_encoding", "JSON must be UTF-8; this looks like UTF-16 or UTF-32")


def _fault(message: str, body: bytes | bytearray) -> Unreadable:
    """The parser's complaint in our words; it never repeats the input."""
    reason, _, where = message.removesuffix(")").partition(": ")
    where = where.partition(" (char")[0]
    kind = seen(body)
    if not kind.startswith(("JSON", "text", "unknown")):
        return Unreadable("json_syntax", f"JSON was due, and this is {kind}")
    if "depth" in reason:
        return Unreadable("json_depth", f"the JSON is nested too deep, {where}")
    if "UTF-8" in reason or "surrogate" in reason:
        return Unreadable("json_encoding", f"not UTF-8 text without lone surrogates, {where}")
    if "allocate" in reason:
        # What orjson says of a long run of brackets that the body ends in.
        reason = "unexpected end of data"
    return Unreadable("json_syntax", f"not JSON: {reason}, {where}")


def _refuse_duplicates(body: bytes | bytearray) -> None:
    try:
        # Integers of more digits than Python would read are infinite, and were refused.
        json.loads(body, object_pairs_hook=_distinct)
    except RecursionError:
        raise Unreadable("json_depth", "the JSON is nested too deep") from None


def _distinct(pairs: list[tuple[str, object]]) -> None:
    met: set[str] = set()
    for name, _ in pairs:
        if name in met:
            raise Unreadable("json_duplicate", f"the name {echo(name)} comes twice in one object")
        met.add(name)
