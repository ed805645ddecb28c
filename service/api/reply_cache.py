"""The cache of finished replies: bounded by bytes, found by raw address, and not emptied by one scan.

    new      replies that were asked for once: the longest unused goes first
    again    replies that were asked for again, the larger the more often, up to three quarters of the bytes; what no
             longer fits there becomes a new one

A scan of addresses that nobody repeats passes through the new ones and leaves the others alone; so do a few large ones
that are asked for twice. A reply without a body
holds what HEAD and 304 say of an answer that is too large to keep, or was not computed yet.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

from service.api.caching import FRESH, IMMUTABLE, RawHeaders, none_match
from service.api.codings import Coding
from service.engine.tables import Lookups

# What one entry costs besides its body and keys: header lines, dictionaries and Python objects; 1.8 KB measured.
ENTRY_BYTES = 2048
MOST_ALIASES = 8
# A reply that takes no more than such a part of the cache has to be used once to stay; one four times as large, four
# times.
SMALL_PART = 32

# A target as it was sent; with the coding that is taken where the answer depends on that.
Address = bytes | tuple[bytes, Coding]
Body = tuple[bytes, ...]
Kind = Literal["whole", "bodiless", "unmodified"]


@dataclass(slots=True)
class Head:
    """Status and header of an answer, as the lines that go onto the wire.

    >>> Head(200, b"etag: \\"x\\"\\r\\nvary: Accept\\r\\n").headers
    [(b'etag', b'"x"'), (b'vary', b'Accept')]
    """

    status: int
    lines: bytes

    @property
    def headers(self) -> RawHeaders:
        """The same as ASGI wants it."""
        return headers_of(self.lines)


def headers_of(lines: bytes) -> RawHeaders:
    pairs = (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])
    return [(name, value) for name, _, value in pairs]


def lines_of(headers: RawHeaders) -> bytes:
    return b"".join(b"%s: %s\r\n" % pair for pair in headers)


@dataclass(slots=True)
class Reply:
    """A finished answer: its tag, the header lines of every answer, of a GET and of a HEAD, the body, and the route
    that leads to it.

    A pinned address is cacheable for longer: the same tag and bytes under another header.
    """

    tag: str
    shared: bytes
    whole: bytes
    bodiless: bytes
    body: Body | None
    route: str = ""
    cost: int = 0
    again: bool = False
    uses: int = 0
    addresses: dict[Address, None] = field(default_factory=dict)
    last: tuple[Kind, bool, Head] | None = None

    def to(self, method: str, if_none_match: bytes | None, pinned: bool) -> tuple[Head, Body] | None:
        """What a repeated request is answered with; None where that is a body that is not here."""
        if if_none_match is not None and none_match(if_none_match.decode("latin-1"), self.tag) == "unmodified":
            return self._head("unmodified", pinned), ()
        if method == "HEAD":
            return self._head("bodiless", pinned), ()
        return None if self.body is None else (self._head("whole", pinned), self.body)

    def get(self, pinned: bool) -> Head:
        """What a GET begins with."""
        return self._head("whole", pinned)

    def _head(self, kind: Kind, pinned: bool) -> Head:
        """That of the last answer, if this one is of its kind: most replies are asked for in one way only."""
        last = self.last
        if last is not None and last[0] == kind and last[1] == pinned:
            return last[2]
        rest = {"whole": self.whole, "bodiless": self.bodiless, "unmodified": b""}[kind]
        lines = b"etag: " + self.tag.encode() + (_PINNED if pinned else _FRESH) + self.shared + rest
        head = Head(304 if kind == "unmodified" else 200, lines)
        self.last = kind, pinned, head
        return head


_FRESH, _PINNED = (f"\r\ncache-control: {each}\r\n".encode() for each in (FRESH, IMMUTABLE))


class ReplyCache:
    """Used from the event loop only, so it needs no lock; with a limit of 0 nothing is kept."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.lookups = Lookups()
        self._again_bytes = 0
        self._new: OrderedDict[bytes, Reply] = OrderedDict()
        self._again: OrderedDict[bytes, Reply] = OrderedDict()
        self._requests: dict[Address, tuple[bytes, Reply, bool]] = {}

    @property
    def largest(self) -> int:
        """No single reply may take more than an eighth of the cache."""
        return self.limit_bytes // 8

    def has_place(self, size: int) -> bool:
        """Whether a body of that size would be kept."""
        return size + ENTRY_BYTES <= self.largest - ENTRY_BYTES

    def by_address(self, address: Address) -> tuple[Reply, bool] | None:
        """The reply to a target that was answered before, and whether they pin the revision."""
        found = self._requests.get(address)
        if found is None:
            return None
        request, reply, pinned = found
        spellings = reply.addresses
        if len(spellings) > 1:
            spellings[address] = spellings.pop(address)
        self._use(request, reply)
        return reply, pinned

    def by_request(self, request: bytes) -> Reply | None:
        reply = self._peek(request)
        if reply is not None:
            self._use(request, reply)
        return reply

    def keep(self, request: bytes, reply: Reply) -> None:
        """Keep a reply; one with a body takes the place of one without."""
        reply.cost = sum(map(len, reply.body or ())) + len(request) + ENTRY_BYTES
        before = self._peek(request)
        if reply.cost > self.largest or (before is not None and (before.body is not None or reply.body is None)):
            return
        if before is not None:
            self._drop(request, before)
        self._new[request] = reply
        self.held_bytes += reply.cost
        self._shrink()

    def alias(self, request: bytes, address: Address, pinned: bool) -> None:
        """Let a target, as it was sent, find this reply before any parsing: a few spellings a reply, and the longest
        unused of them goes first."""
        reply = self._peek(request)
        if reply is None or address in self._requests:
            return
        grown = _length(address)
        if len(reply.addresses) == MOST_ALIASES:
            oldest = next(iter(reply.addresses))
            del reply.addresses[oldest], self._requests[oldest]
            grown -= _length(oldest)
        self._requests[address] = (request, reply, pinned)
        reply.addresses[address] = None
        reply.cost += grown
        self.held_bytes += grown
        self._again_bytes += grown if reply.again else 0
        self._shrink()

    def _peek(self, request: bytes) -> Reply | None:
        return self._again.get(request) or self._new.get(request)

    def _use(self, request: bytes, reply: Reply) -> None:
        if reply.again:
            self._again.move_to_end(request)
            return
        reply.uses += 1
        if reply.uses * self.limit_bytes < SMALL_PART * reply.cost:
            self._new.move_to_end(request)
            return
        self._again[request] = self._new.pop(request)
        reply.again = True
        self._again_bytes += reply.cost
        self._shrink()

    def _shrink(self) -> None:
        while self._again_bytes > self.limit_bytes * 3 // 4:
            oldest, other = self._again.popitem(last=False)
            self._again_bytes -= other.cost
            other.again = False
            self._new[oldest] = other
        while self.held_bytes > self.limit_bytes:
            queue = self._new or self._again
            request = next(iter(queue))
            self._drop(request, queue[request])
            self.lookups.evictions += 1

    def _drop(self, request: bytes, reply: Reply) -> None:
        del (self._again if reply.again else self._new)[request]
        self.held_bytes -= reply.cost
        self._again_bytes -= reply.cost if reply.again else 0
        for address in reply.addresses:
            del self._requests[address]


def _length(address: Address) -> int:
    return len(address if isinstance(address, bytes) else address[0])
