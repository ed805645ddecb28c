"""Reads a JSON body strictly (RFC 8259, UTF-8), whatever its bytes are."""

import json
from typing import Any

import orjson

from service.formats.declared import Body
from service.formats.errors import Unreadable, echo
from service.formats.seen import seen

DUPLICATES_BYTES = 1 << 20
MOST_CONTAINERS = 4_000_000


def read_json(body: Body) -> object:
    """The value of a JSON body.

    `NaN`, `Infinity` and numbers beyond float64, bad UTF-8 and lone surrogates, other encodings and byte
    order marks, nesting beyond what the parser takes, and (up to 1 MiB) names that come twice in an object
    raise `Unreadable`. A body of brackets or strings alone would need twenty times its size as Python
    objects: more than `MOST_CONTAINERS` of them are refused before parsing.

    >>> read_json(b'{"positions": [0, 1.5]}')
    {'positions': [0, 1.5]}
    >>> read_json(b"[1e999]")
    Traceback (most recent call last):
    service.formats.errors.Unreadable: not JSON: number is infinity when parsed as double, line 1 column 2
    """
    return _parse(bytes(body) if isinstance(body, memoryview) else body)


def read_object(body: bytes, what: str) -> dict[str, Any]:
    """The same for a body that must be one object; `what` names it in messages."""
    value = _parse(body)
    if not isinstance(value, dict):
        raise Unreadable("json_type", f"{what} must be a JSON object")
    return value


def _parse(body: bytes | bytearray) -> object:
    _encoded(body)
    if body.count(b"[") + body.count(b"{") + body.count(b'"') // 2 > MOST_CONTAINERS:
        raise Unreadable("json_size", f"more than {MOST_CONTAINERS} lists, objects and strings")
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _fault(str(error), body) from None
    if len(body) <= DUPLICATES_BYTES:
        _refuse_duplicates(body)
    return value


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
        # float, because Python refuses to make integers of more than 4300 digits.
        json.loads(body, object_pairs_hook=_distinct, parse_int=float)
    except RecursionError:
        raise Unreadable("json_depth", "the JSON is nested too deep") from None


def _distinct(pairs: list[tuple[str, object]]) -> None:
    met: set[str] = set()
    for name, _ in pairs:
        if name in met:
            raise Unreadable("json_duplicate", f"the name {echo(name)} comes twice in one object")
        met.add(name)
