"""Two servers with the same guards: one answers what it knows from within the parser, the other knows nothing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from service.access import new_key
from service.api.gate import Gate
from service.main import create_app
from tests.clients import settings
from tests.live import Client, Live, live

NPY = "/v1/encodings/rope.npy?length=3&dim=4"
TEXT = "/v1/encodings/sinusoidal?length=100&dim=8"
KEY, ENTRY = new_key("ci")
OTHER_KEY, OTHER_ENTRY = new_key("team-b")
BEARER = f"Authorization: Bearer {KEY}"
LAST = b"GET /health/live HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"

# Every kind of request that is answered from what is known, or could be: method, target, version, fields, status.
KINDS: dict[str, tuple[str, str, str, tuple[str, ...], int]] = {
    "hit": ("GET", NPY, "1.1", (), 200),
    "pinned": ("GET", f"{NPY}&revision=1", "1.1", (), 200),
    "coded": ("GET", TEXT, "1.1", ("Accept-Encoding: gzip",), 200),
    "not modified": ("GET", NPY, "1.1", ("If-None-Match: *",), 304),
    "head": ("HEAD", NPY, "1.1", (), 200),
    "range": ("GET", NPY, "1.1", ("Range: bytes=0-9",), 206),
    "no range": ("GET", NPY, "1.1", ("Range: bytes=999999-",), 416),
    "old": ("GET", NPY, "1.0", (), 200),
    "absolute": ("GET", f"http://last{NPY}", "1.1", (), 200),
    "encoded": ("GET", NPY.replace("rope", "%72ope"), "1.1", (), 200),
    "document": ("GET", "/v1/models/llama-3.1-8b", "1.1", (), 200),
    "refused": ("GET", f"{NPY}&lenght=3", "1.1", (), 422),
    "nothing": ("GET", "/nothing", "1.1", (), 404),
    "inference": ("GET", "/v2", "1.1", (), 200),
    "method": ("DELETE", NPY, "1.1", (), 405),
}


def sent(kind: str, *more: str) -> bytes:
    """A request of that kind, with more header fields."""
    method, target, version, fields, _ = KINDS[kind]
    return asked(method, target, *fields, *more, version=version)


def asked(method: str, target: str, *fields: str, version: str = "1.1", host: str = "last") -> bytes:
    lines = [f"{method} {target} HTTP/{version}", f"Host: {host}", *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def status_of(kind: str) -> int:
    return KINDS[kind][4]


@dataclass(frozen=True, slots=True)
class Guarded:
    """Both servers. `said` asks both the same, asserts that they say the same, and returns it."""

    fast: Live
    slow: Live
    gates: tuple[Gate, Gate]

    def said(self, data: bytes) -> bytes:
        answers = [_said(server, data) for server in (self.fast, self.slow)]
        assert answers[0] == answers[1]
        return answers[0]

    def answers(self, *requests: bytes) -> list[bytes]:
        """The answers to requests that are sent in one go; those of HTTP/1.0 end their connection, and go alone."""
        if any(b" HTTP/1.0\r\n" in each for each in requests) and len(requests) > 1:
            return [answer for each in requests for answer in self.answers(each)]
        found = re.split(rb"(?=HTTP/1\.1 \d{3} )", self.said(b"".join(requests)))[1:]
        # Of the last request, which asks for the health, there is an answer too, unless the connection was closed.
        assert len(found) == len(requests) + (b"connection: close" not in found[len(requests) - 1])
        return found[: len(requests)]

    @property
    def repeated(self) -> int:
        """How many were answered from within the parser."""
        assert not any(way == "repeated" for way, _ in self.gates[1].counts)
        return sum(count for (way, _), count in self.gates[0].counts.items() if way == "repeated")


@contextmanager
def guarded(*first: str, **changes: Any) -> Iterator[Guarded]:
    """Two servers that have both answered every kind of request, sent with the `first` fields."""
    chosen = settings(port=0, **changes)
    forgetful = chosen.model_copy(update={"reply_cache_bytes": 0, "table_cache_bytes": 0})
    apps = create_app(chosen), create_app(forgetful)
    with live(apps[0], chosen) as fast, live(apps[1], forgetful) as slow:
        found = Guarded(fast, slow, (apps[0].state.resources.gate, apps[1].state.resources.gate))
        for kind in KINDS:
            (answer,) = found.answers(sent(kind, *first))
            assert statuses([answer]) == [status_of(kind)], answer
        yield found


def _said(server: Live, data: bytes) -> bytes:
    with Client(server.port) as client:
        client.send(data + LAST)
        answer = client.read()
    answer = re.sub(rb"(?m)^(date: |server-timing: ).*\r\n", b"", answer)
    answer = re.sub(rb"(?<=retry-after: )\d+|(?<=ask again after )\d+", b"N", answer)
    return re.sub(rb"[0-9a-f]{12}-[0-9a-f]+|[0-9a-f]{32}(?=\r\n|\",\"errors)", b"ID", answer)


def statuses(answers: list[bytes]) -> list[int]:
    return [int(answer.split(b" ", 2)[1]) for answer in answers]


def fields(answer: bytes, name: str) -> list[str]:
    """The values of a header field, however often it is there."""
    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1")
    pairs = (line.partition(": ") for line in head.split("\r\n")[1:])
    return [value for field, _, value in pairs if field == name.lower()]
