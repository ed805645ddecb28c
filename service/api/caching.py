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

_TAG = re.compile(r'[\s,]*(W/)?("[^"]*")\s*(?:,|$)')
_RANGE = re.compile(r"bytes=(\d{0,4000})-(\d{0,4000})", re.ASCII | re.IGNORECASE)


def canonical(parts: dict[str, Any]) -> bytes:
    """The one spelling of a request: sorted keys, defaults filled in, numbers normalised."""
    # A copy, for orjson's own bytes keep the 8 KB that it began with, and this is a key that is kept.
    return memoryview(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).tobytes()


def etag(request: bytes, format_revision: str) -> str:
    """A strong tag of (algorithm revision, canonical request, format revision)."""
    digest = blake2b(request, digest_size=16, person=b"posenc")
    digest.update(f"|{ALGORITHM_REVISION}|{format_revision}".encode())
    return f'"{digest.hexdigest()}"'


def if_none_match(headers: RawHeaders) -> str | None:
    """The If-None-Match of a request; several fields are one list (RFC 9110, 5.3)."""
    given = [value for name, value in headers if name == b"if-none-match"]
    return b", ".join(given).decode("latin-1") if given else None


def none_match(header: str | None, tag: str) -> Literal["modified", "unmodified"]:
    """If-None-Match by the weak comparison of RFC 9110, 13.1.2."""
    if header is None:
        return "modified"
    if header.strip() == "*":
        return "unmodified"
    position = 0
    while match := _TAG.match(header, position):
        if match[2] == tag:
            return "unmodified"
        position = match.end()
    return "modified"


def byte_range(
    header: str | None, if_range: str | None, tag: str, size: int
) -> tuple[int, int] | Literal["whole", "outside"]:
    """The half-open window that a Range header asks for; `whole` where it is to be ignored (RFC 9110, 14.2)."""
    if header is None or (if_range is not None and if_range.strip() != tag):
        return "whole"
    match = _RANGE.fullmatch(header.strip().replace(" ", ""))
    if match is None or not (match[1] or match[2]):
        return "whole"
    if not match[1]:
        length = min(int(match[2]), size)
        return (size - length, size) if length else "outside"
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < start:
        return "whole"
    return (start, stop) if start < size else "outside"


def encoded(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
