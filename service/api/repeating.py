"""Repeated requests, answered from within the parser: neither a cycle nor a task nor ASGI messages are made for them.

What a slower way would have done for such a request is done here too: it is counted (where the socket does not take
all at once, when it has), its connection is kept or closed, and a connection that rests is closed after
`keep_alive_seconds`. That takes one timer for each connection, set anew when it ends, rather than one for each answer.
"""

from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.api.door import Door, Found
from service.api.ending import Ending
from service.api.polite import write_joined


class Repeating(Ending):
    """A connection whose repeated requests are answered at once. `idle_until` is when it has rested long enough;
    `untold` is an answer that is not counted yet."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.door: Door | None = getattr(self.config.app, "door", None)
        self.root = self.root_path.encode("ascii")
        self.idle_until = 0.0
        self.untold: tuple[Scope, bytes, Found] | None = None
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._default_lines = b""

    def repeat(self) -> bool:
        """Answer the request whose header is complete, if its answer is ready and its turn has come."""
        if self.door is None or self.pipeline or self.flow.write_paused or not self.is_idle():
            return False
        # uvicorn's own type of a scope has no place for what is set here; it is the same dictionary.
        scope = cast(Scope, self.scope)
        scope["method"] = self.parser.get_method().decode("ascii")
        target = self.root + self.url
        found = self.door.find(scope, target)
        if found is None:
            return False
        if self.transport.is_closing() or self._write(found, self._is_kept()):
            self.door.sent(scope, target, found)
        else:
            self.untold = scope, target, found
        return True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._tell(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell(self.untaken)
        super().connection_lost(exc)

    def _tell(self, untaken: int) -> None:
        """Count the answer that was waiting to be taken, if there is one; `untaken` bytes of it never were."""
        if self.door is not None and self.untold is not None:
            self.door.sent(*self.untold, untaken)
            self.untold = None

    def _is_kept(self) -> bool:
        """Whether the connection stays open after the answer to this request."""
        lasting = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        return lasting and not self.configuration.draining

    def _write(self, found: Found, keep_alive: bool) -> bool:
        """Whether the socket took it, but for 64 KB at most."""
        lines = (
            STATUS_LINE[found.head.status],
            self._default(),
            found.head.lines,
            found.admitted.lines,
            b"\r\n" if keep_alive else b"connection: close\r\n\r\n",
        )
        write_joined(self.transport, b"".join(lines), *found.body)
        taken = not self.flow.write_paused
        self.server_state.total_requests += 1
        if keep_alive:
            self.rest()
        else:
            self.over = True
            self.close_politely()
        return taken

    def _default(self) -> bytes:
        """The lines of the server's own headers, which change once a second."""
        if self.server_state.default_headers is not self._default_headers:
            self._default_headers = self.server_state.default_headers
            self._default_lines = b"".join(b"%s: %s\r\n" % pair for pair in self._default_headers)
        return self._default_lines

    # The timer of a connection that rests

    def rest(self) -> None:
        """Note when the connection has rested long enough."""
        self.idle_until = self.loop.time() + self.timeout_keep_alive
        if self.timeout_keep_alive_task is None:
            self._wait(self.timeout_keep_alive)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle_until = self.loop.time() + self.timeout_keep_alive

    def _wait(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """End the connection if it rested all the time; a request that is on its way is not answered with a reset."""
        self.timeout_keep_alive_task = None
        if self.transport.is_closing():
            return
        left = self.idle_until - self.loop.time()
        if self.is_arriving() or not self.is_idle():
            self._wait(self.timeout_keep_alive)
        elif left > 0:
            self._wait(left)
        else:
            self.end()
