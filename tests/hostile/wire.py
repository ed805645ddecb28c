"""Hostile connections: requests in a row of which some are wrong, and what is no HTTP at all.

Every request that is meant carries an id, and so does what hides in the body of another: an answer bears the id of the
request that it is for, which shows where the server saw that request begin and end.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from service.main import Service, create_app
from tests.clients import settings
from tests.hostile import rfc9112
from tests.hostile.called import GROWTH_BYTES, MOST_BYTES, SMALL, resident, silent
from tests.live import live

AT_ONCE = 64
SECONDS = 60.0
# One client in so many waits for the server's time limits.
PATIENT = 50
LIMITS = {"header_seconds": 3.0, "body_idle_seconds": 3.0, "keep_alive_seconds": 3, "body_bytes": 2**16}
TABLE = b"/v1/encodings/rope.npy?length=3&dim=4"
TARGETS = (
    TABLE, TABLE, TABLE, b"/v1/encodings/rope?length=3&dim=4", b"/health/live", b"/nothing", b"http://x" + TABLE,
    b"http://other:99/health/live", b"*", b"x:443", b"/", b"//", b"http://x", b"http://", b"?", b"/a#b", b"/%00",
    b"/%", b"/\x00",
    b"/\xe9", b"/a b", b"/" + b"y" * 9000, TABLE + b"#part", b"/v1/encodings/rope.npy?length=0", b"/v2/health/live",
    b"../x",
)  # fmt: skip
METHODS = (b"GET",) * 12 + (
    b"HEAD", b"HEAD", b"POST", b"POST", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"DELETE", b"PATCH", b"PRI", b"get",
    b"G\x00T",
    b"M-SEARCH", b"SOURCE", b"X" * 500, b"", b"GE T",
)  # fmt: skip
VERSIONS = (b"HTTP/1.1",) * 16 + (
    b"HTTP/1.0", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.10", b"HTTP/9.9", b"http/1.1",
    b"HTTP/1.1 ", b"",
    b"HTTP/1,1",
)  # fmt: skip
HIDDEN = b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-Request-ID: hidden\r\n\r\n"
LENGTHS = (
    b"0", b"5", b"5", b"05", b"+5", b"-5", b"5 ", b" 5", b"5,5", b"5, 5", b"5;x", b"0x5", b"5.0", b"5e0", b"", b"\xb2",
    b"9" * 30,
    b"18446744073709551621", b"4294967301", b"99999999999999", b"5\x00", b"\x0b5", b"5\n",
)  # fmt: skip
CODINGS = (
    b"chunked", b"chunked", b"chunked", b"Chunked", b"chunked ", b" chunked", b"\tchunked", b"\x0bchunked",
    b"chunked\x00",
    b"xchunked", b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"identity, chunked",
    b"chunked;q=1",
    b"\"chunked\"", b"chunked,", b",chunked", b"", b"\xc4\x8bhunked", b"chunked\r\n ", b"trailers",
)  # fmt: skip
SIZES = (
    b"%x", b"%x", b"%x", b"%x", b"%X", b"0%x", b"%x ", b" %x", b"+%x", b"-%x", b"0x%x", b"%x;a=b", b"%x;a=\"b\"",
    b"%x;a=\"\r\n\"",
    b"%x;\n", b"%x\n", b"%x;" + b"e" * 70_000, b"%x\x00", b"%xg", b"00000000000000000000%x", b"FFFFFFFFFFFFFFF%x",
    b"10000000000000000%x", b"%x,%x",
)  # fmt: skip
FIELDS = (
    b"Host: y", b"Host:", b"host: x", b"Host : x", b"Host\t: x", b" Host: x", b": x", b"X", b"X\x00: y", b"X: \x00",
    b"X: \x7f",
    b"X: a\rb", b"X: a\nb", b"X: a\r\n b", b"X: a\r\n\tb", b"X: \xff\x80", b"X: " + b"y" * 40_000,
    b"X" * 40_000 + b": y",
    b"\r\n".join(b"X-%d: y" % n for n in range(150)), b"Connection: close", b"Connection: keep-alive",
    b"Connection: close, x",
    b"Connection: Upgrade\r\nUpgrade: h2c", b"Connection: Upgrade, close\r\nUpgrade: websocket", b"Upgrade: h2c",
    b"Expect: 100-continue", b"Expect: x", b"Range: bytes=0-0", b"If-None-Match: *", b"If-Match: \"x\"",
    b"TE: trailers",
    b"Trailer: Host", b"Keep-Alive: timeout=9999", b"X-Request-ID: twice", b"Content-Length : 5", b"Content_Length: 5",
    b"Transfer-Encoding : chunked", b"Transfer\x00-Encoding: chunked", b"X:", b"X:\t", b"X-Forwarded-For: 1.1.1.1",
    b"Accept-Encoding: gzip", b"Content-Encoding: gzip", b"Content-Type: application/json", b"Cookie: " + b"a=b;" * 900,
)  # fmt: skip
ENDS = (b"\r\n",) * 30 + (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\x00", b"\x0b\r\n", b"\x85")
# What begins a connection of another kind, or none.
OTHERS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)),
    bytes.fromhex("16030100c6010000c20303") + bytes(range(200)), b"GET /\r\n", b"GET /\r\n\r\n", b"GET / \r\n\r\n",
    b"\r\n" * 40,
    b"\n" * 40, b"\x00" * 4000, b"\xff" * 4000, b"SSH-2.0-OpenSSH_9.9\r\n", b"EHLO x\r\nQUIT\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", b"{\"jsonrpc\":\"2.0\"}", b"\x05\x01\x00",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"GET", b"G", b"", b"GET / HTTP/1.1\r\nHost: x",
    b"GET / HTTP/1.1\r\nX: ",
)  # fmt: skip
LARGE = 8 * 2**20


class Connections:
    """What clients send on a connection, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self._one()

    def _one(self) -> bytes:
        how = self.random.random()
        if how < 0.002:
            return b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * LARGE
        if how < 0.05:
            return self.random.choice(OTHERS)
        data = b"".join(self._request(b"r%d" % number) for number in range(self.random.choice((1, 1, 2, 3))))
        if how < 0.15:
            data = self._damaged(data)
        last = b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-Request-ID: last\r\nConnection: close\r\n\r\n"
        return data + last + (HIDDEN if how > 0.9 else b"")

    def _request(self, number: bytes) -> bytes:
        """Well-formed in most of its parts, so that what is not is reached."""
        wrong = self.random.random
        line = b" ".join((
            self.random.choice(METHODS) if wrong() < 0.3 else b"GET",
            self.random.choice(TARGETS) if wrong() < 0.4 else TABLE,
            self.random.choice(VERSIONS) if wrong() < 0.3 else b"HTTP/1.1",
        ))  # fmt: skip
        fields = [b"Host: x"] if wrong() < 0.97 else []
        fields += [b"X-Request-ID: " + number]
        fields += [self.random.choice(FIELDS) for _ in range(self.random.choice((0, 0, 0, 1, 1, 2)))]
        body = b""
        if wrong() < 0.5:
            more, body = self._body()
            fields += more
        self.random.shuffle(fields)
        lines = (line, *fields, b"")
        return b"".join(each + (self.random.choice(ENDS) if wrong() < 0.1 else b"\r\n") for each in lines) + body

    def _body(self) -> tuple[list[bytes], bytes]:
        """Fields that frame a body, and a body; both may be wrong, and the body may look like a request."""
        content = self.random.choice((b"", b"hello", b"[1]", HIDDEN, b"0\r\n\r\n" + HIDDEN, b"x" * 3000))
        how = self.random.random()
        if how < 0.35:
            return [b"Content-Length: " + self._length(content)], content
        if how < 0.75:
            return [b"Transfer-Encoding: " + self._coding()], self._chunked(content)
        both = [b"Content-Length: " + self._length(content), b"Transfer-Encoding: " + self._coding()]
        twice = [self.random.choice((b"Content-Length: ", b"Transfer-Encoding: ")) + self._coding()]
        return both + (twice if how > 0.95 else []), self._chunked(content)

    def _length(self, content: bytes) -> bytes:
        return self.random.choice(LENGTHS) if self.random.random() < 0.4 else b"%d" % len(content)

    def _coding(self) -> bytes:
        return self.random.choice(CODINGS) if self.random.random() < 0.5 else b"chunked"

    def _chunked(self, content: bytes) -> bytes:
        size = self.random.choice(SIZES) if self.random.random() < 0.4 else b"%x"
        parts = [content[:3], content[3:]] if len(content) > 3 and self.random.random() < 0.5 else [content]
        end = self.random.choice((b"0\r\n\r\n",) * 8 + (b"0\r\nX: y\r\n\r\n", b"0\r\nHost: y\r\n\r\n", b"0\n\n",
        b"0\r\n",
                                                         b"000\r\n\r\n", b"0\r\nContent-Length: 3\r\n\r\n",
                                                         b"0\r\nX\r\n\r\n", b""))  # fmt: skip
        joint = self.random.choice((b"\r\n",) * 12 + (b"\n", b"", b"\r", b"xx\r\n"))
        return b"".join(self._head(size, part) + b"\r\n" + part + joint for part in parts if part) + end

    def _head(self, size: bytes, part: bytes) -> bytes:
        count = size.count(b"%x") + size.count(b"%X")
        return size % ((len(part),) * count) if count else size

    def _damaged(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 5))):
            at = self.random.randrange(len(changed) + 1)
            if self.random.random() < 0.5:
                changed[at : at + self.random.choice((0, 1, 3))] = bytes([self.random.randrange(256)])
            else:
                del changed[at : at + self.random.choice((1, 2, 40))]
        return bytes(changed)


def judged(sent: bytes, said: bytes) -> list[int]:
    """Assert that a connection's answers are well-formed and for requests that are there; return their statuses."""
    seen = rfc9112.requests(sent)
    answers = _answers(said, seen)
    # One more refuses what is no request, or not whole.
    assert len(answers) <= len(seen.requests) + (seen.rest != "nothing"), "answers to what nobody asked"
    for number, answer in enumerate(answers):
        status = int(answer.start[0])
        assert status < 500 or status == 503
        assert status < 400 or len(answer.body) <= MOST_BYTES
        assert answer.value(b"x-request-id")
        assert not answer.closes or number == len(answers) - 1, "an answer after the last one"
        if number >= len(seen.requests):
            assert status >= 400 or seen.rest == "unfinished"  # answered without its body, which nobody needs
            # What is answered before its body turns out to be faulty is the last answer, without having said so.
            assert answer.closes or seen.rest == "unfinished" or number == len(answers) - 1
        elif not (answer.closes and status >= 400):
            _is_for(seen.requests[number], answer)
    return [int(answer.start[0]) for answer in answers]


def _answers(said: bytes, seen: rfc9112.Seen) -> list[rfc9112.Message]:
    """A refusal of what is no request has no body where it was understood to be a HEAD."""
    methods = [request.start[0] for request in seen.requests]
    try:
        return rfc9112.answers(said, [*methods, seen.method])
    except (rfc9112.BrokenError, rfc9112.UnfinishedError):
        return rfc9112.answers(said, methods)


def _is_for(request: rfc9112.Message, answer: rfc9112.Message) -> None:
    """An id that is given is the answer's, if it is a plain one."""
    given = request.value(b"x-request-id")
    if given is not None and given.isalnum():
        assert answer.value(b"x-request-id") == given, "an answer to another request"


async def talk(port: int, data: bytes, *, patient: bool = True) -> bytes:
    """Send, and read to the end of the connection: every connection has one, though some only by a time limit. Who is
    not patient leaves where the rest of a request is all that the server can be waiting for.
    """
    seen = rfc9112.requests(data)
    patient = patient or seen.rest != "unfinished"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = b""
    try:
        sending = asyncio.ensure_future(_send(writer, data))
        while patient or len(_whole(said, seen)) < len(seen.requests):
            part = await asyncio.wait_for(reader.read(65536), SECONDS)
            if not part:
                break
            said += part
        await sending
    except ConnectionError:
        pass  # closed while we were sending
    finally:
        writer.close()
    return said


def _whole(said: bytes, seen: rfc9112.Seen) -> list[rfc9112.Message]:
    try:
        return _answers(said, seen)
    except rfc9112.UnfinishedError:
        return []


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    try:
        writer.write(data)
        await writer.drain()
    except ConnectionError:
        pass


async def talk_all(port: int, connections: Iterator[tuple[int, bytes]], seen: Counter[int]) -> None:
    """As many at once as are ready, each judged."""

    async def one_after_the_other() -> None:
        for number, data in connections:
            said = b""
            try:
                said = await talk(port, data, patient=number % PATIENT == 0)
                seen.update(judged(data, said) or [0])
            except Exception as error:
                raise AssertionError(f"{data[:3000]!r}\n{said[:3000]!r}") from error

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_the_other())


def run(count: int, seed: int) -> Counter[int]:
    """So many connections to a real server, which is there afterwards; answers by status, 0 for a close without one."""
    chosen = settings(port=0, **LIMITS, **SMALL)
    app: Service = create_app(chosen)
    seen: Counter[int] = Counter()
    connections = enumerate(Connections(seed))
    with silent(), live(app, chosen) as server:
        asyncio.run(talk_all(server.port, islice(connections, count // 3), seen))
        before = resident()
        asyncio.run(talk_all(server.port, islice(connections, count - count // 3), seen))
        grown = resident() - before
        alive = asyncio.run(talk(server.port, b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    assert alive.endswith(b'{"status":"live"}')
    assert grown < GROWTH_BYTES, f"grew by {grown} bytes"
    return seen
