"""The first thing that every request meets: its id, the bounds on its header, and the cache of finished replies.

A repeated GET is answered here, before routing and parsing: one look-up by raw path and query.
"""

import itertools
import os
import re
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.caching import Head, RawHeaders
from service.api.inference_errors import written
from service.api.problems import Problem
from service.api.resources import Resources

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_NOTED = (b"x-request-id", b"if-none-match", b"range", b"content-length", b"transfer-encoding")
# What a repeated answer cannot be given to: a part of it, and a request whose body wants to be read or refused.
_NOT_REPEATED = (b"range", b"content-length", b"transfer-encoding")


@dataclass(frozen=True, slots=True)
class Found:
    """A repeated request's answer, ready to send, and the id of this request."""

    head: Head
    body: bytes
    request_id: bytes


class Door:
    """ASGI in front of everything else. A server that can send ready bytes may ask `find` before it starts a task."""

    def __init__(self, app: ASGIApp, resources: Resources) -> None:
        self.app = app
        self.resources = resources
        self._prefix = os.urandom(6).hex().encode()
        self._numbers = itertools.count(1)

    def find(self, scope: Scope) -> Found | None:
        """The finished reply to a request that was answered before, or None."""
        reply = self.resources.replies.by_address((scope["path"], scope["query_string"]))
        if reply is None or scope["method"] not in ("GET", "HEAD"):
            return None
        noted = _noted(scope["headers"])
        if any(name in noted for name in _NOT_REPEATED):
            return None
        head, body = reply.to(scope["method"], noted.get(b"if-none-match"))
        return Found(head, body, self._request_id(noted))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        found = self.find(scope)
        if found is None:
            await self._pass_on(scope, receive, send, self._request_id(_noted(scope["headers"])))
            return
        headers = [*found.head.headers, (b"x-request-id", found.request_id)]
        await send({"type": "http.response.start", "status": found.head.status, "headers": headers})
        await send({"type": "http.response.body", "body": found.body})

    def _request_id(self, noted: dict[bytes, bytes]) -> bytes:
        """The caller's own id if it is a plain one; otherwise one that no other request of any process has."""
        given = noted.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return b"%s-%x" % (self._prefix, next(self._numbers))

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        scope["request_id"] = request_id.decode("ascii")
        ended = False

        async def send_with_id(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body")

        problem = _out_of_bounds(scope, self.resources)
        if problem is not None:
            await send_problem(problem, scope, send_with_id)
            return
        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            # A bug that was answered and logged leaves the connection whole; an answer cut short must break it.
            if not ended:
                raise


def _noted(headers: RawHeaders) -> dict[bytes, bytes]:
    """The header fields that matter here; a list that came in several fields is joined (RFC 9110, 5.3)."""
    noted: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _NOTED:
            noted[name] = noted[name] + b", " + value if name in noted else value
    return noted


def _out_of_bounds(scope: Scope, resources: Resources) -> Problem | None:
    """The bounds on address and header, for servers that do not keep them themselves."""
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    length = len(raw_path) + len(scope["query_string"])
    if length > resources.url_bytes:
        detail = f"the address has {length} bytes; {resources.url_bytes} are read: long lists go in the body of a POST"
        return Problem("uri-too-long", detail)
    headers: RawHeaders = scope["headers"]
    size = sum(len(name) + len(value) + 4 for name, value in headers)
    if size > resources.header_bytes or len(headers) > resources.header_fields:
        detail = (
            f"the header has {len(headers)} fields of {size} bytes; "
            f"{resources.header_fields} fields of {resources.header_bytes} bytes are read"
        )
        return Problem("header-fields-too-large", detail)
    return None


async def send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    """A problem document as an ASGI answer; below `/v2` the error object of the protocol that is spoken there."""
    status, media_type, body = written(problem, scope)
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", media_type),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    content: dict[str, Any] = {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
    await send(content)
