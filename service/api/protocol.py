"""HTTP/1.1 on a connection, with the bounds that uvicorn's own protocol lacks.

    414 uri-too-long               the target is longer than `url_bytes`
    431 header-fields-too-large    more than `header_bytes` or `header_fields`, refused while they arrive
    408 request-timeout            a header that began was not complete within `header_seconds`
    405 method-not-allowed         a method that nobody here knows, or CONNECT
    413 content-too-large          a chunk that no computer could hold
    400 bad-request                not HTTP, no single Host that is one, a body whose end a proxy could see elsewhere,
                                   or one in wasteful chunks

A connection on which nothing begins within `header_seconds` is closed without a word. Everything after a
complete header (the body's size and pauses among it) is the app's to judge.
"""

import asyncio
import re
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.server import ServerState

from service.api.cycles import Cycle, Unframed
from service.api.door import BODY
from service.api.early import (
    bad_host,
    bad_target,
    header_too_large,
    no_host,
    no_length,
    not_http,
    request_timeout,
    uri_too_long,
    wasteful_chunks,
    wrong_method,
)
from service.api.feeding import METHODS, Feeding, RefusedError
from service.api.hosts import is_host

if TYPE_CHECKING:
    from service.api.configuration import Config

# A header field's share of the line besides name and value: colon, space, CR, LF.
FIELD_OVERHEAD = 4
VERSIONS = ("1.1", "1.0")
SCHEMES = (b"http", b"https")
_WITHOUT_PATH = re.compile(rb"^[^/?#]+://[^/?#]*(?=[?#]|$)")


class Protocol(Feeding):
    """One connection.

    `silent` counts the bytes since the parser last called: a field, a chunk extension or a trailer without end would
    fill the memory.
    """

    def __init__(
        self,
        config: "Config",
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.ended = False
        self.head_bytes = 0
        self.hosts = 0
        self.host = self.known_host = b""
        self.heard = False
        self.silent = 0

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            return
        self.heard = self.ended = False
        if self.in_message and not self.in_head:
            self.chunks.wire += len(data)
        try:
            self.feed(data)
            self._bound_silence(len(data))
        except (httptools.HttpParserError, RefusedError) as error:
            if isinstance(error, httptools.HttpParserInvalidURLError):
                self.url = self.url or b"?"  # it has begun, though its first byte is none of a target's
            if self.over and not self.in_message:
                self.deaf = True  # what comes behind the last request of a connection is not answered
            else:
                self.refuse(self.problem or self.fault(error))
        else:
            self._watch_head()

    def _bound_silence(self, count: int) -> None:
        self.silent = 0 if self.heard else self.silent + count
        if self.silent > self.settings.header_bytes:
            self.note(header_too_large(self.settings))
        if self.in_message and self.chunks.too_much_is_said(self.settings.header_bytes):
            self.note(wasteful_chunks())

    # The timer

    def _watch_head(self) -> None:
        """Time what has not arrived: most requests come in one piece and need no timer."""
        if self.in_head or (self.is_idle() and not self.in_message and not self.ended):
            if self.head_timer is None:
                self._start_head_timer()
            return
        self.stop_head_timer()
        if self.ended and self.is_idle():
            # These bytes ended a request that had its answer already: the connection is idle from here on.
            self.rest()

    def _start_head_timer(self) -> None:
        self.head_timer = self.loop.call_later(self.settings.header_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self.head_timer = None
        if self.over:
            return  # its end has a time of its own
        if self.in_head:
            self.refuse(request_timeout(self.settings))
        else:
            self.close()

    # The parser's callbacks

    def on_message_begin(self) -> None:
        if self.over:
            raise RefusedError
        super().on_message_begin()
        self.heard = self.in_head = self.in_message = True
        self.passed_on = False
        self.head_bytes = self.hosts = self.discarded = 0
        self.host = b""
        self.chunks.begin()
        self.coding = self.start = b""
        self.length = 0

    def on_url(self, url: bytes) -> None:
        self.heard = True
        self.url += url
        if len(self.url) > self.settings.url_bytes:
            self.note(uri_too_long(self.settings))

    def on_header(self, name: bytes, value: bytes) -> None:
        self.heard = True
        self.head_bytes += len(name) + len(value) + FIELD_OVERHEAD
        if self.head_bytes > self.settings.header_bytes or len(self.headers) >= self.settings.header_fields:
            self.note(header_too_large(self.settings))
        if not self.in_head:
            return  # a trailer is counted and dropped
        name, value = name.lower(), value.rstrip(b" \t")
        self.headers.append((name, value))
        if name == b"host":
            self.hosts += 1
            self.host = value
        elif name == b"transfer-encoding":
            self.coding += value
        elif name == b"content-length":
            self.length = int(value)
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue" or self.expect_100_continue

    def on_headers_complete(self) -> None:
        self.heard = True
        self.in_head = False
        version = self.parser.get_http_version()
        self._refuse_unclear(version)
        if not self.parser.should_upgrade():
            if self.repeat():
                self.passed_on = True
            else:
                self._pass_on(version)
        elif self.parser.get_method() == b"CONNECT":
            self.note(wrong_method(METHODS))
        else:
            self.scope["method"] = self.parser.get_method().decode("ascii")

    def _refuse_unclear(self, version: str) -> None:
        """What two servers could read differently."""
        if version not in VERSIONS:
            self.note(not_http())
        if self.hosts != 1 and (self.hosts or version == "1.1"):
            self.note(no_host())
        if self.host != self.known_host:
            if not is_host(self.host):
                self.note(bad_host())
            self.known_host = self.host
        if self.coding and (self.coding.lower() != b"chunked" or version == "1.0"):
            self.note(no_length())

    def _pass_on(self, version: str) -> None:
        """Have the app answer."""
        if version == "1.0" or BODY.isdisjoint(name for name, _ in self.headers):
            # That would take the first answer for the last, or has no body that waits for it (RFC 9110, 10.1.1).
            self.expect_100_continue = False
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        super().on_headers_complete()
        self.passed_on = True
        if not self.pipeline:
            self.answered = self.cycle
        self.cycle.__class__ = Unframed if version == "1.0" else Cycle
        self.be_polite()
        if not self._is_kept():
            self.make_last()

    def _take_host_from_target(self) -> None:
        """What a target such as `http://example.org/v1` says goes before the Host field, and a path that it lacks is
        `/` (RFC 9112, 3.2.2)."""
        target = httptools.parse_url(self.url)
        if target.schema and target.schema.lower() not in SCHEMES:
            self.note(bad_target())
        if target.host:
            others = [pair for pair in self.headers if pair[0] != b"host"]
            self.headers[:] = [*others, (b"host", b"[%s]" % target.host if b":" in target.host else target.host)]
        self.url = _WITHOUT_PATH.sub(rb"\g<0>/", self.url)

    def on_chunk_header(self) -> None:
        self.chunks.open()
        if self.chunks.too_many():
            self.note(wasteful_chunks())

    def on_body(self, body: bytes) -> None:
        self.heard = True
        self.chunks.body += len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self.discard(len(body))

    def on_message_complete(self) -> None:
        self.heard = True
        self.in_message = False
        self.ended = True
        self.stop_lingering()
        if self.hearing_out:
            self.end()
        if self.cycle is not None and not self.parser.should_upgrade():
            super().on_message_complete()
