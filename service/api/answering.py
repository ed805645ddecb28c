"""One answer on its way to the server: what goes out of it, for the meters and the log."""

import time
from collections.abc import Callable, Mapping

from starlette.types import Message, Scope, Send

from service.api.caching import RawHeaders
from service.api.gate import Admitted, Gate
from service.api.meters import NO_STATUS, UNROUTED, Account, Way
from service.api.reply_cache import headers_of, lines_of


class Answering:
    """ASGI's `send`, with the lines that every answer has; it sees the beginning, the status, the bytes and the end."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        gate: Gate,
        admitted: Admitted,
        routes: Mapping[object, str],
        begins: Callable[[], None],
    ) -> None:
        self.begun = time.perf_counter()
        self.scope = scope
        self.send = send
        self.gate = gate
        self.admitted = admitted
        self.routes = routes
        self.begins = begins
        self.way: Way = "made"
        self.status = NO_STATUS
        self.size = 0
        self.ended = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.begins()
            lines = self.gate.kept_by(lines_of(message["headers"])) + self.admitted.lines
            message["headers"] = headers_of(lines)
        elif self.scope["method"] != "HEAD":
            self.size += len(message.get("body", b""))
        await self.send(message)
        self.ended = message["type"] == "http.response.body" and not message.get("more_body")

    async def send_whole(self, status: int, headers: RawHeaders) -> None:
        """An answer without a body."""
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": b""})

    def account(self) -> Account:
        """What is to be said of it."""
        scope = self.scope
        return Account(
            self.way,
            self.routes.get(scope.get("endpoint"), UNROUTED),
            scope["method"],
            self.status,
            time.perf_counter() - self.begun,
            self.size,
            scope.get("problem", ""),
            self.ended,
        )
