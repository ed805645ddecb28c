"""HTTP/1.1 on a connection, with the bounds that uvicorn's own protocol lacks.

    414 uri-too-long               the target is longer than `url_bytes`
    431 header-fields-too-large    more than `header_bytes` or `header_fields`, refused while they arrive
    408 request-timeout            a header that began was not complete within `header_seconds`
    400 bad-request                not HTTP, or no single Host

A connection on which nothing begins within `header_seconds` is closed without a word. Everything after a
complete header (the body's size and pauses among it) is the app's to judge.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.settings import Settings

# How long a refused client may go on sending before it is cut: closing at once would reset the connection,
# and the client would lose the answer.
LINGER_SECONDS = 1.0
# A header field's share of the line besides name and value: colon, space, CR, LF.
FIELD_OVERHEAD = 4
UPGRADE_FIELDS = (b"upgrade", b"connection", b"http2-settings")


class Config(uvicorn.Config):
    """uvicorn's configuration, made from ours, which the protocol reads again for every connection."""

    def __init__(self, app: Any, settings: Settings) -> None:
        super().__init__(
            app,
            http=Protocol,
            ws="none",
            loop="uvloop",
            interface="asgi3",
            log_config=None,
            access_log=False,
            workers=1,
            proxy_headers=False,
            server_header=False,
            root_path=settings.root_path,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.grace_seconds,
        )
        self.settings = settings


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer made before the app sees the request."""

    status: HTTPStatus
    slug: str
    title: str
    detail: str

    def to_bytes(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The whole HTTP answer, problem document included."""
        body = json.dumps(self.document(), separators=(",", ":")).encode()
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}".encode(),
            *(name + b": " + value for name, value in headers),
            b"content-type: application/problem+json",
            b"content-length: %d" % len(body),
            b"cache-control: no-store",
            b"connection: close",
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    def document(self) -> dict[str, object]:
        return {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status.value,
            "detail": self.detail,
            "instance": uuid.uuid4().hex,
            "errors": [],
        }


def bad_request(detail: str) -> Rejection:
    return Rejection(HTTPStatus.BAD_REQUEST, "bad-request", "Bad request", detail)


def uri_too_long(limit: int) -> Rejection:
    detail = f"Shorten the request target to at most {limit} bytes; long position lists go in a POST body."
    return Rejection(HTTPStatus.REQUEST_URI_TOO_LONG, "uri-too-long", "Request target too long", detail)


def header_too_large(settings: Settings) -> Rejection:
    detail = f"Send at most {settings.header_fields} header fields and {settings.header_bytes} bytes of them."
    return Rejection(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "header-fields-too-large", "Header too large", detail
    )


def request_timeout(seconds: float) -> Rejection:
    detail = f"Send the whole request header within {seconds:g} seconds."
    return Rejection(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", "Request timeout", detail)


NOT_HTTP = bad_request("Send a well-formed HTTP/1.1 request.")
NO_HOST = bad_request("Send one Host header field, as HTTP/1.1 requires.")


class RefusedError(Exception):
    """Unwinds the parser after a refusal has been noted."""


class Protocol(HttpToolsProtocol):
    """One connection.

    `in_head` is true from a request's first byte to the end of its header. `silent` counts the bytes since the
    parser last called: a field, a chunk extension or a trailer without end would fill the memory.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.settings = config.settings
        self.in_head = False
        self.head_bytes = 0
        self.hosts = 0
        self.heard = False
        self.silent = 0
        self.deaf = False
        self.refusal: Rejection | None = None
        self.head_timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            return
        self._unset_keepalive_if_required()
        self.heard = False
        try:
            self._feed(data)
            self._bound_silence(len(data))
        except (httptools.HttpParserError, RefusedError):
            self._refuse(self.refusal or NOT_HTTP)
        else:
            self._watch_head()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(data[upgrade.args[0] :])

    def _feed_without_upgrade(self, rest: bytes) -> None:
        """Go on as if no upgrade had been asked for: Java's client asks for h2c in its first request."""
        method = self.scope["method"].encode()
        kept = [pair for pair in self.headers if pair[0] not in UPGRADE_FIELDS]
        lines = [method + b" " + self.url + b" HTTP/1.1", *(name + b": " + value for name, value in kept)]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _bound_silence(self, count: int) -> None:
        self.silent = 0 if self.heard else self.silent + count
        if self.silent > self.settings.header_bytes:
            self._note(header_too_large(self.settings))

    # The timer

    def _watch_head(self) -> None:
        """Time what has not arrived: most requests come in one piece and need no timer."""
        if self.in_head or self._is_idle():
            if self.head_timer is None:
                self._start_head_timer()
        else:
            self._stop_head_timer()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_head_timer(self) -> None:
        self.head_timer = self.loop.call_later(self.settings.header_seconds, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _head_is_late(self) -> None:
        self.head_timer = None
        if self.in_head:
            self._refuse(request_timeout(self.settings.header_seconds))
        else:
            self.transport.close()

    # The parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.heard = self.in_head = True
        self.head_bytes = self.hosts = 0

    def on_url(self, url: bytes) -> None:
        self.heard = True
        self.url += url
        if len(self.url) > self.settings.url_bytes:
            self._note(uri_too_long(self.settings.url_bytes))

    def on_header(self, name: bytes, value: bytes) -> None:
        self.heard = True
        self.head_bytes += len(name) + len(value) + FIELD_OVERHEAD
        if self.head_bytes > self.settings.header_bytes or len(self.headers) >= self.settings.header_fields:
            self._note(header_too_large(self.settings))
        if self.in_head:  # a trailer is counted and dropped
            super().on_header(name, value)
            self.hosts += self.headers[-1][0] == b"host"

    def on_headers_complete(self) -> None:
        self.heard = True
        self.in_head = False
        if self.hosts != 1 and (self.hosts or self.parser.get_http_version() == "1.1"):
            self._note(NO_HOST)
        if not self.parser.should_upgrade():
            super().on_headers_complete()
        elif self.parser.get_method() == b"CONNECT":
            self._note(NOT_HTTP)
        else:
            self.scope["method"] = self.parser.get_method().decode("ascii")

    def on_body(self, body: bytes) -> None:
        self.heard = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.heard = True
        if not self.parser.should_upgrade():
            super().on_message_complete()

    # Rejections

    def _note(self, refusal: Rejection) -> NoReturn:
        self.refusal = refusal
        raise RefusedError

    def _refuse(self, refusal: Rejection) -> None:
        """Answer, then listen no more; answers that are under way are not disturbed."""
        self.deaf = True
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        if self._is_idle():
            self._answer(refusal)
        elif self.cycle.more_body and not self.cycle.response_started:
            self._abandon_cycle()
            self._answer(refusal)
        elif self.cycle.more_body:
            self.transport.close()
        else:
            # The fault is in the next request: the connection ends with the answer to this one.
            self.cycle.keep_alive = False

    def _abandon_cycle(self) -> None:
        self.cycle.disconnected = True
        self.cycle.message_event.set()

    def _answer(self, refusal: Rejection) -> None:
        self.transport.write(refusal.to_bytes(self.server_state.default_headers))
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
