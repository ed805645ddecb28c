"""Calls an ASGI app in this process: start-up, one request, shutdown. No port, no threads of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import unquote

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
BLOCK = 2**20
PROBLEM_BYTES = 2**16  # a problem document is kept up to here


@dataclass(frozen=True, slots=True)
class Request:
    """A request: percent-encoded path and query; the body, of `size` bytes where that is known."""

    method: str
    path: str
    query: str = ""
    media_type: str | None = None
    body: BinaryIO | None = None
    size: int | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        fields = [("host", "localhost"), ("accept-encoding", "identity")]
        if self.media_type is not None:
            fields.append(("content-type", self.media_type))
        if self.size is not None:
            fields.append(("content-length", str(self.size)))
        elif self.body is not None:
            fields.append(("transfer-encoding", "chunked"))
        return [(name.encode(), value.encode()) for name, value in fields]

    def scope(self, state: dict[str, Any]) -> Message:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": unquote(self.path),
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "root_path": "",
            "headers": self.headers(),
            "client": None,
            "server": ("localhost", None),
            "state": dict(state),
        }

    def next_part(self) -> Message:
        part = self.body.read(BLOCK) if self.body is not None else b""
        return {"type": "http.request", "body": part, "more_body": len(part) == BLOCK}


@dataclass(slots=True)
class Answer:
    """What came back: the status, how many bytes the sink got, and the body of an answer of 400 and above."""

    status: int = 0
    expected: int | None = None
    received: int = 0
    ended: bool = False
    problem: bytearray = field(default_factory=bytearray)

    @property
    def complete(self) -> bool:
        return self.ended and self.expected in (None, self.received)

    def take(self, message: Message, sink: Callable[[bytes], None]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            length = dict(message.get("headers", ())).get(b"content-length")
            self.expected = None if length is None else int(length)
        elif message["type"] == "http.response.body":
            self._take_body(message.get("body", b""), sink)
            self.ended = not message.get("more_body", False)

    def _take_body(self, part: bytes, sink: Callable[[bytes], None]) -> None:
        self.received += len(part)
        if self.status < 400:
            sink(part)
        else:
            self.problem += part[: PROBLEM_BYTES - len(self.problem)]


async def answer(app: App, request: Request, sink: Callable[[bytes], None], reply: Answer | None = None) -> Answer:
    """Start the app, put one request to it, stop it; the body of a success goes to `sink` as it is made.

    A `reply` that is given is filled in on the way, for those who watch it.
    """
    reply = Answer() if reply is None else reply

    gone = asyncio.Event()
    failures: list[OSError] = []

    async def send(message: Message) -> None:
        if failures:
            return
        try:
            reply.take(message, sink)
        except OSError as error:  # the reader's trouble, not the app's: to the app the client has left
            failures.append(error)
            gone.set()

    async with _running(app) as state:
        await app(request.scope(state), _receiver(request, gone), send)
    if failures:
        raise failures[0]
    return reply


def _receiver(request: Request, gone: asyncio.Event) -> Callable[[], Awaitable[Message]]:
    ended = False

    async def receive() -> Message:
        nonlocal ended
        if ended:
            await gone.wait()
            return {"type": "http.disconnect"}
        message = request.next_part()
        ended = not message["more_body"]
        return message

    return receive


@asynccontextmanager
async def _running(app: App) -> AsyncIterator[dict[str, Any]]:
    """The lifespan protocol: the app has started inside the block and has stopped after it."""
    state: dict[str, Any] = {}
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    outbox: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.3"}, "state": state}
    task = asyncio.ensure_future(app(scope, inbox.get, outbox.put))
    await _tell("startup", inbox, outbox, task)
    try:
        yield state
    finally:
        await _tell("shutdown", inbox, outbox, task)
        await task


async def _tell(
    event: str,
    inbox: "asyncio.Queue[Message]",
    outbox: "asyncio.Queue[Message]",
    task: "asyncio.Future[None]",
) -> None:
    await inbox.put({"type": f"lifespan.{event}"})
    said = asyncio.ensure_future(outbox.get())
    both: set[asyncio.Future[Any]] = {said, task}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not said.done():
        said.cancel()
        await task  # raises what the app raised
    elif said.result()["type"] != f"lifespan.{event}.complete":
        raise RuntimeError(f"the app failed at {event}: {said.result().get('message', '')}")
