"""HTTP caching: strong ETags made before any work, conditional and range requests, the cache of finished replies."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
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

# What one entry costs besides its body and keys: headers, their lines and Python objects; about 3 KB measured.
ENTRY_BYTES = 4096
MOST_ALIASES = 8


def canonical(parts: dict[str, Any]) -> bytes:
    """The one spelling of a request: sorted keys, defaults filled in, numbers normalised."""
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


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


@dataclass(frozen=True, slots=True)
class Head:
    """Status and header of an answer, and the same as the lines that go onto the wire."""

    status: int
    headers: RawHeaders
    lines: bytes


def head(status: int, headers: RawHeaders) -> Head:
    """Join the header lines once, rather than for every request."""
    return Head(status, headers, b"".join(b"%s: %s\r\n" % pair for pair in headers))


@dataclass(slots=True)
class Reply:
    """A finished answer: what a GET, a HEAD and a 304 begin with, and the bytes."""

    tag: str
    whole: Head
    bodiless: Head
    unmodified: Head
    body: bytes
    cost: int = 0

    def to(self, method: str, if_none_match: bytes | None) -> tuple[Head, bytes]:
        """What a repeated request is answered with."""
        if if_none_match is not None and none_match(if_none_match.decode("latin-1"), self.tag) == "unmodified":
            return self.unmodified, b""
        return (self.whole, self.body) if method == "GET" else (self.bodiless, b"")


class ReplyCache:
    """Finished replies by canonical request and by raw address, bounded by bytes, least recently used first out."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._replies: OrderedDict[bytes, Reply] = OrderedDict()
        self._aliases: dict[tuple[str, bytes], tuple[bytes, Reply]] = {}
        self._aliases_of: dict[bytes, list[tuple[str, bytes]]] = {}

    def by_address(self, address: tuple[str, bytes]) -> Reply | None:
        """The reply to a raw path and query that were answered before."""
        found = self._aliases.get(address)
        if found is None:
            return None
        self._replies.move_to_end(found[0])
        return found[1]

    def by_request(self, request: bytes) -> Reply | None:
        reply = self._replies.get(request)
        if reply is not None:
            self._replies.move_to_end(request)
        return reply

    @property
    def largest(self) -> int:
        """No single reply may take more than an eighth of the cache."""
        return self.limit_bytes // 8

    def keep(self, request: bytes, reply: Reply) -> None:
        reply.cost = len(reply.body) + len(request) + ENTRY_BYTES
        if reply.cost > self.largest or request in self._replies:
            return
        self._replies[request] = reply
        self._aliases_of[request] = []
        self.held_bytes += reply.cost
        self._shrink()

    def alias(self, request: bytes, address: tuple[str, bytes]) -> None:
        """Let a raw address find this reply before any parsing, a few spellings a reply."""
        reply = self._replies.get(request)
        if reply is None or address in self._aliases or len(self._aliases_of[request]) >= MOST_ALIASES:
            return
        self._aliases[address] = (request, reply)
        self._aliases_of[request].append(address)
        grown = len(address[0]) + len(address[1])
        reply.cost += grown
        self.held_bytes += grown
        self._shrink()

    def _shrink(self) -> None:
        while self.held_bytes > self.limit_bytes:
            request, reply = self._replies.popitem(last=False)
            self.held_bytes -= reply.cost
            for address in self._aliases_of.pop(request):
                del self._aliases[address]


def encoded(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
