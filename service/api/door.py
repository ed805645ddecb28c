"""The first thing that every request meets: its id, the bounds on its header, and the cache of finished replies.

A repeated GET is answered here, before routing and parsing: one look-up by raw path and query.
"""

import itertools
import os
import re
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.caching import RawHeaders, Reply, none_match
from service.api.problems import MEDIA_TYPE, Problem
from service.api.resources import Resources

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_BY_NAME = {b"x-request-id": 0, b"if-none-match": 1, b"range": 2}


class Door:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, resources: Resources) -> None:
        self.app = app
        self.resources = resources
        self._prefix = os.urandom(6).hex().encode()
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, if_none_match, ranged = self._headers(scope["headers"])
        scope["request_id"] = request_id.decode("ascii")
        if ranged is None and scope["method"] in ("GET", "HEAD"):
            reply = self.resources.replies.by_address((scope["path"], scope["query_string"]))
            if reply is not None:
                await _send_reply(reply, scope["method"], if_none_match, request_id, send)
                return
        await self._pass_on(scope, receive, send, request_id)

    def _headers(self, headers: RawHeaders) -> tuple[bytes, bytes | None, bytes | None]:
        found: list[bytes | None] = [None, None, None]
        for name, value in headers:
            place = _BY_NAME.get(name)
            if place is not None:
                found[place] = value if found[place] is None or place != 1 else found[place] + b", " + value  # type: ignore[operator]
        given = found[0]
        if given is None or not _REQUEST_ID.fullmatch(given):
            given = b"%s-%x" % (self._prefix, next(self._numbers))
        return given, found[1], found[2]

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        problem = _out_of_bounds(scope, self.resources)
        if problem is not None:
            await send_problem(problem, scope, send_with_id)
            return
        await self.app(scope, receive, send_with_id)


def _out_of_bounds(scope: Scope, resources: Resources) -> Problem | None:
    """The bounds on address and header, for servers that do not keep them themselves."""
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    length = len(raw_path) + len(scope["query_string"])
    if length > resources.url_bytes:
        detail = f"the address has {length} bytes; {resources.url_bytes} are read: send long lists in the body of a POST"
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


async def _send_reply(
    reply: Reply, method: str, if_none_match: bytes | None, request_id: bytes, send: Send
) -> None:
    status, headers, body = 200, reply.headers, reply.body
    if if_none_match is not None and none_match(if_none_match.decode("latin-1"), reply.tag) == "unmodified":
        status, headers, body = 304, reply.unmodified_headers, b""
    elif method == "HEAD":
        headers, body = reply.head_headers, b""
    await send(
        {"type": "http.response.start", "status": status, "headers": [*headers, (b"x-request-id", request_id)]}
    )
    await send({"type": "http.response.body", "body": body})


async def send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    """A problem document as an ASGI answer."""
    body = problem.body(scope.get("request_id", ""))
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", MEDIA_TYPE),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    content: dict[str, Any] = {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
    await send(content)
