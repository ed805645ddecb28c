"""HTTP caching: strong ETags made before any work, conditional and range requests."""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Literal

import orjson

RawHeaders = list[tuple[bytes, bytes]]

FRESH = "public, max-age=3600"
IMMUTABLE = "public, max-age=31536000, immutable"
# Changes whenever the bytes of any answer would, for reasons outside schemes and formats.
ALGORITHM_REVISION = "1"

# One entity tag of a list, and what parts it from the next (RFC 9110, 5.6.1 and 8.8.3).
_TAG = re.compile(r'[ \t,]*(W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,[ \t,]*|\Z)')
# One range; a list of one may have empty members.
_RANGE = re.compile(r"bytes=[ \t,]*([0-9]*)-([0-9]*)[ \t,]*", re.IGNORECASE)
# Positions with more digits lie beyond every answer.
_MOST_DIGITS = 18


def canonical(parts: dict[str, Any]) -> bytes:
    """The one spelling of a request: sorted keys, defaults filled in, numbers normalised."""
    # A copy, for orjson's own bytes keep the 8 KB that it began with, and this is a key that is kept.
    return memoryview(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).tobytes()


def etag(request: bytes, format_revision: str) -> str:
    """A strong tag of (algorithm revision, canonical request, format revision)."""
    digest = blake2b(request, digest_size=16, person=b"posenc")
    digest.update(f"|{ALGORITHM_REVISION}|{format_revision}".encode())
    return f'"{digest.hexdigest()}"'


def joined(headers: RawHeaders, wanted: bytes) -> str | None:
    """The value of a field; several lines of it are one list (RFC 9110, 5.3)."""
    given = [value for name, value in headers if name == wanted]
    return b", ".join(given).decode("latin-1") if given else None


def condition(headers: RawHeaders, tag: str) -> Literal["failed", "unmodified", "holds"]:
    """If-Match and If-None-Match, in the order of RFC 9110, 13.2.2."""
    if_match = joined(headers, b"if-match")
    if if_match is not None and if_match.strip(" \t") != "*" and (False, tag) not in _tags(if_match):
        return "failed"
    return "unmodified" if none_match(joined(headers, b"if-none-match"), tag) == "unmodified" else "holds"


def none_match(header: str | None, tag: str) -> Literal["modified", "unmodified"]:
    """If-None-Match by the weak comparison of RFC 9110, 13.1.2."""
    if header is None:
        return "modified"
    # A tag alone, the usual case, is told from the others without reading the list.
    if header == tag or header.strip(" \t") == "*":
        return "unmodified"
    return "unmodified" if any(each == tag for _, each in _tags(header)) else "modified"


def _tags(header: str) -> list[tuple[bool, str]]:
    """The entity tags of a list, each with whether it is weak; none of what is no list of tags."""
    found, position = [], 0
    while match := _TAG.match(header, position):
        found.append((match[1] is not None, match[2]))
        position = match.end()
    return found if position == len(header) else []


def byte_range(
    header: str | None, if_range: str | None, tag: str, size: int
) -> tuple[int, int] | Literal["whole", "outside"]:
    """The half-open window that a Range header asks for; `whole` where it is to be ignored (RFC 9110, 14.2)."""
    if header is None or (if_range is not None and if_range.strip(" \t") != tag):
        return "whole"
    match = _RANGE.fullmatch(header.strip(" \t"))
    if match is None or not (match[1] or match[2]):
        return "whole"
    first, last = (digits.lstrip("0") for digits in match.groups())
    if not match[1]:
        length = min(_number(last), size)
        return (size - length, size) if length else "outside"
    if match[2] and (len(last), last) < (len(first), first):
        return "whole"
    start = _number(first)
    return (start, min(_number(last) + 1, size) if match[2] else size) if start < size else "outside"


def _number(digits: str) -> int:
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def encoded(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
