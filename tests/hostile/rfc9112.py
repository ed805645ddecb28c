"""Messages on a connection, read from RFC 9112 alone and as strictly as it can be: what a careful proxy would see.

Nothing of the service is used here.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# A recipient may take several spaces in a request line as one (section 3); visible characters alone make a target.
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") +([\x21-\x7e]+) +HTTP/([0-9])\.([0-9])\r\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) ([\t\x20-\x7e]*)\r\n")
_HOST = re.compile(rb"(\[[0-9A-Za-z:.~_-]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f][0-9A-Fa-f])*)(:[0-9]*)?")
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://")
_FIELD = re.compile(
    rb"(" + _TOKEN + rb"):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*\r\n"
)
_CHUNK = re.compile(rb'([0-9A-Fa-f]+)(?:[ \t]*;(?:[^\r\n"]|"[^\r\n"]*")*)?\r\n')
_EMPTY_LINES = re.compile(rb"(?:\r?\n)*")  # before a request line they are passed over; a LF alone may end a line (2.2)
Fields = list[tuple[bytes, bytes]]


class BrokenError(Exception):
    """What is here is no message."""


class UnfinishedError(Exception):
    """A message begins here, and does not end."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request's method and target, or an answer's status; the fields; the body."""

    start: tuple[bytes, ...]
    fields: Fields
    body: bytes

    def value(self, name: bytes) -> bytes | None:
        """The lines of a field, joined."""
        lines = [value for key, value in self.fields if key.lower() == name]
        return b", ".join(lines) if lines else None

    @property
    def closes(self) -> bool:
        """Whether no other message follows on the connection."""
        options = [each.strip().lower() for each in (self.value(b"connection") or b"").split(b",")]
        return b"close" in options


@dataclass(slots=True)
class Seen:
    """The requests in some bytes, what comes after them, and the method that this begins with."""

    requests: list[Message] = field(default_factory=list)
    rest: Literal["nothing", "broken", "unfinished"] = "nothing"
    method: bytes = b""


def requests(data: bytes) -> Seen:
    """Every request of a connection, up to one that closes it or is none."""
    seen, at = Seen(), 0
    while True:
        empty = _EMPTY_LINES.match(data, at)
        at = empty.end() if empty else at
        if at == len(data):
            return seen
        seen.method = data[at : at + 20].partition(b" ")[0]
        try:
            message, at = _request(data, at)
        except BrokenError:
            seen.rest = "broken"
            return seen
        except UnfinishedError:
            seen.rest = "unfinished"
            return seen
        seen.requests.append(message)
        if message.closes or message.start[2:] == (b"1", b"0"):
            return seen


def answers(data: bytes, methods: list[bytes]) -> list[Message]:
    """The final answers on a connection; `methods` are those of the requests, as far as they were understood."""
    found: list[Message] = []
    at = 0
    while at < len(data):
        start = _STATUS_LINE.match(data, at)
        if start is None:
            raise BrokenError(f"no status line: {data[at : at + 80]!r}")
        fields, at = _fields(data, start.end())
        status, method = start[1], methods[len(found)] if len(found) < len(methods) else b""
        body, at = _answer_body(data, at, status, method, fields)
        if not status.startswith(b"1"):
            found.append(Message((status,), fields, body))
    return found


def _request(data: bytes, at: int) -> tuple[Message, int]:
    line = _REQUEST_LINE.match(data, at)
    if line is None:
        end = data.find(b"\n", at)
        raise UnfinishedError if end < 0 else BrokenError
    fields, at = _fields(data, line.end())
    message = Message(line.groups(), fields, b"")
    if message.start[2] != b"1" or message.start[3] not in b"01":
        raise BrokenError
    hosts = [value for name, value in fields if name.lower() == b"host"]
    if len(hosts) > 1 or (not hosts and message.start[3] == b"1") or not all(map(_HOST.fullmatch, hosts)):
        raise BrokenError
    scheme = _SCHEME.match(message.start[1])
    if scheme is not None and scheme[1].lower() not in (b"http", b"https"):
        raise BrokenError
    body, at = _request_body(data, at, message)
    return Message(message.start, fields, body), at


def _fields(data: bytes, at: int) -> tuple[Fields, int]:
    fields: Fields = []
    while data[at : at + 2] != b"\r\n":
        match = _FIELD.match(data, at)
        if match is None:
            raise UnfinishedError if data.find(b"\n", at) < 0 else BrokenError
        fields.append((match[1], match[2]))
        at = match.end()
    return fields, at + 2


def _request_body(data: bytes, at: int, message: Message) -> tuple[bytes, int]:
    """Section 6.3: chunks, a length, or nothing; both of them, or anything else, is broken."""
    coding, length = message.value(b"transfer-encoding"), message.value(b"content-length")
    if coding is not None:
        if length is not None or coding.lower() != b"chunked" or message.start[3] == b"0":
            raise BrokenError
        return _chunks(data, at)
    return _sized(data, at, length) if length is not None else (b"", at)


def _answer_body(data: bytes, at: int, status: bytes, method: bytes, fields: Fields) -> tuple[bytes, int]:
    message = Message((status,), fields, b"")
    coding, length = message.value(b"transfer-encoding"), message.value(b"content-length")
    if coding is not None and (coding != b"chunked" or length is not None):
        raise BrokenError("an answer with two lengths")
    if status.startswith(b"1") or status in (b"204", b"304") or method == b"HEAD":
        return b"", at
    if coding is not None:
        return _chunks(data, at)
    return _sized(data, at, length) if length is not None else (data[at:], len(data))


def _sized(data: bytes, at: int, length: bytes) -> tuple[bytes, int]:
    if not re.fullmatch(rb"[0-9]{1,18}", length):
        raise BrokenError("a length that is none")
    end = at + int(length)
    if end > len(data):
        raise UnfinishedError
    return data[at:end], end


def _chunks(data: bytes, at: int) -> tuple[bytes, int]:
    body = b""
    while True:
        line = _CHUNK.match(data, at)
        if line is None:
            raise UnfinishedError if data.find(b"\n", at) < 0 else BrokenError
        size, at = int(line[1], 16), line.end()
        if size == 0:
            return body, _fields(data, at)[1]
        if at + size + 2 > len(data):
            raise UnfinishedError
        body += data[at : at + size]
        at += size + 2
        if data[at - 2 : at] != b"\r\n":
            raise BrokenError
