"""The app called without a network, many thousand times, and what must hold of every answer whatever was sent."""

import asyncio
import gc
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import unquote

from service.api.problem_types import PROBLEMS
from service.main import Service, create_app
from tests.api.problems import well_formed
from tests.clients import settings

# Small answers only: what is drawn may be valid, and is not to be large.
SMALL = {"result_bytes": 2**18, "json_bytes": 2**18, "table_cache_bytes": 2**22, "reply_cache_bytes": 2**22}
BATCH = 250
# How much a process may grow once it is warm: what allocators keep, not what requests leave behind.
GROWTH_BYTES = 40 * 2**20
MOST_BYTES = 8 * 1024


@dataclass(slots=True)
class Sent:
    """One request as ASGI has it."""

    method: str
    path: bytes
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.path[:200]!r} ? {self.query[:300]!r} {self.headers} {self.body[:300]!r}"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, header fields by name, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Called:
    """The app on a loop of its own; `seen` counts the answers by status."""

    app: Service
    runner: asyncio.Runner
    seen: Counter[int] = field(default_factory=Counter)

    def ask(self, *requests: Sent) -> list[Answer]:
        """The answers, one after the other, each looked at."""
        answers = self.runner.run(self._all(requests))
        return [self._checked(sent, answer) for sent, answer in zip(requests, answers, strict=True)]

    async def _all(self, requests: Sequence[Sent]) -> list[list[MutableMapping[str, Any]]]:
        return [await self._one(sent) for sent in requests]

    async def _one(self, sent: Sent) -> list[MutableMapping[str, Any]]:
        said: list[MutableMapping[str, Any]] = []
        received = [{"type": "http.request", "body": sent.body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if not received:
                await asyncio.Event().wait()  # this client waits for its answer
            return received.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            said.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": sent.method, "scheme": "http",
            "path": unquote(sent.path.decode("latin-1")), "raw_path": sent.path, "query_string": sent.query,
            "root_path": "", "headers": sent.headers, "client": None, "server": ("localhost", 80),
        }  # fmt: skip
        await self.app(scope, receive, send)
        return said

    def _checked(self, sent: Sent, said: list[MutableMapping[str, Any]]) -> Answer:
        try:
            answer = checked(sent.method, said)
        except BaseException as error:
            raise AssertionError(f"after {self.seen.total()}: {sent}\n{str(said)[:3000]}") from error
        self.seen[answer.status] += 1
        return answer


def checked(method: str, said: list[MutableMapping[str, Any]]) -> Answer:
    """Assert that this is one whole answer in good order, of any status but 5xx other than 503."""
    start, *parts = said
    status: int = start["status"]
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    assert len(headers) == len(start["headers"]), "a header came twice"
    assert all(value.isprintable() for value in headers.values())
    answer = Answer(status, headers, b"".join(part["body"] for part in parts))
    assert status < 500 or status == 503
    assert "x-request-id" in headers
    if method == "HEAD" or status in (204, 304):
        assert answer.body == b""
    elif status < 400:
        assert headers.get("content-length", str(len(answer.body))) == str(len(answer.body))
    else:
        _refusal(answer)
    return answer


def _refusal(answer: Answer) -> None:
    headers, body = answer.headers, answer.body
    assert headers["content-length"] == str(len(body))
    assert len(body) <= MOST_BYTES
    assert headers["cache-control"] == "no-store"
    assert (answer.status == 503) == ("retry-after" in headers)
    document = json.loads(body)
    if headers["content-type"] == "application/problem+json":
        assert (
            well_formed(answer.status, headers["content-type"], body, document)["instance"] == headers["x-request-id"]
        )
    else:  # below /v2, in the words of the protocol that is spoken there
        assert answer.status in {kind.status for kind in PROBLEMS.values()}
        assert list(document) == ["error"]
        assert isinstance(document["error"], str)


@contextmanager
def called(**changes: Any) -> Iterator[Called]:
    """The app with small limits. Nothing may be logged above `info`, and no memory stay in use."""
    app = create_app(settings(**SMALL | changes))
    with asyncio.Runner() as runner, silent():
        yield Called(app, runner)
        resources = app.state.resources
        runner.run(asyncio.sleep(0))
        assert resources.budget.in_use == 0
        assert resources.under_way == {}
        resources.pool.shutdown()


@contextmanager
def silent() -> Iterator[None]:
    """No input whatever may write a warning, an error or a traceback into the log."""
    met: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: met.append(logging.Formatter().format(record))  # type: ignore[method-assign]  # each record is formatted, none is written
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    assert met == [], met[:3]


def ask_all(service: Called, requests: Iterable[Sent], warm: int) -> Iterator[tuple[Sent, Answer]]:
    """Each request with its answer; from the `warm`th on the memory stays flat."""
    before, done, rest = 0, 0, iter(requests)
    while batch := tuple(islice(rest, BATCH)):
        yield from zip(batch, service.ask(*batch), strict=True)
        if done <= warm < done + len(batch):
            before = resident()
        done += len(batch)
    grown = resident() - before
    assert grown < GROWTH_BYTES, f"grew by {grown} bytes"


def resident() -> int:
    """The memory of this process, as the system counts it."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
