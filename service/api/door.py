"""The first thing that every request meets: its id, the bounds on its header, and the cache of finished replies.

A repeated GET is answered here, before routing and parsing: one look-up by raw path, query and coding.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.caching import RawHeaders
from service.api.codings import accepted
from service.api.inference_errors import written
from service.api.limits import overloaded
from service.api.problems import Problem
from service.api.replies import send_blocks
from service.api.reply_cache import Address, Body, Head, lines_of
from service.api.resources import Resources

# What a repeated answer cannot be given to: a part of it, and a request whose body wants to be read or refused.
_BODY = frozenset((b"content-length", b"transfer-encoding"))
_NOT_REPEATED = _BODY | {b"range"}
# Answered however many requests wait, for they take no work.
_WITHOUT_WORK = re.compile(rb"[^?]*/(?:health/\w+|metrics)")
_NOTED = _NOT_REPEATED | {b"x-request-id", b"if-none-match", b"accept-encoding"}


@dataclass(frozen=True, slots=True)
class Found:
    """A repeated request's answer, ready to send, and the id of this request."""

    head: Head
    body: Body
    request_id: bytes


def address_of(scope: Scope) -> Address:
    """What a repeated request is known by: its target as it was sent, and the coding that it takes."""
    return target_of(scope), accepted(_noted(scope["headers"]).get(b"accept-encoding"))


def target_of(scope: Scope) -> bytes:
    """Path and query as they were sent."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path + b"?" + scope["query_string"] if scope["query_string"] else path


class Door:
    """ASGI in front of everything else. A server that can send ready bytes may ask `find` before it starts a task."""

    def __init__(self, app: ASGIApp, resources: Resources) -> None:
        self.app = app
        self.resources = resources
        self.gate = resources.gate
        self.waiting = 0

    def find(self, scope: Scope, target: bytes) -> Found | None:
        """The finished reply to a request that was answered before, or None. Of the scope only method and headers are
        looked at, and by the gate's checks: a server that parses no further need not."""
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            return None
        noted = _noted(scope["headers"])
        answer = self._ready(method, target, noted)
        if answer is None:
            return self._turned_away(scope, target, noted)
        admitted = self.gate.admit(scope, noted)
        if admitted.problem is not None:
            answer = _refusal(admitted.problem, admitted.request_id.decode("ascii"), method)
        self.gate.count("repeated", answer[0].status)
        return Found(*answer, admitted.request_id)

    def _ready(self, method: str, target: bytes, noted: Mapping[bytes, bytes]) -> tuple[Head, Body] | None:
        known = self.resources.replies.by_address((target, accepted(noted.get(b"accept-encoding"))))
        if known is None or not _NOT_REPEATED.isdisjoint(noted):
            return None
        reply, pinned = known
        return reply.to(method, noted.get(b"if-none-match"), pinned)

    def _is_full(self, target: bytes) -> bool:
        """Whether as many requests wait for their answers as may, or for as long, and this one would have to."""
        found = self.resources
        full = self.waiting >= found.waiting_requests or found.waited() > found.queue_seconds
        return full and not _WITHOUT_WORK.fullmatch(target)

    def _turned_away(self, scope: Scope, target: bytes, noted: Mapping[bytes, bytes]) -> Found | None:
        """A refusal at the price of a repeated answer: refusing must not take what answering needs."""
        if not _BODY.isdisjoint(noted) or not self._is_full(target):
            return None
        request_id = self.gate.admit(scope, noted).request_id
        answer = _refusal(_too_many(self.waiting), request_id.decode("ascii"), scope["method"])
        self.gate.count("early", answer[0].status)
        return Found(*answer, request_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        problem = _out_of_bounds(scope, self.resources)
        found = None if problem else self.find(scope, target_of(scope))
        if found is None:
            await self._pass_on(scope, receive, send, problem)
            return
        headers = [*found.head.headers, (b"x-request-id", found.request_id)]
        await send({"type": "http.response.start", "status": found.head.status, "headers": headers})
        await send_blocks(send, found.body)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, problem: Problem | None) -> None:
        admitted = self.gate.admit(scope, _noted(scope["headers"]))
        request_id = admitted.request_id
        scope["request_id"] = request_id.decode("ascii")
        problem = problem or admitted.problem
        if problem is None and self._is_full(target_of(scope)):
            problem = _too_many(self.waiting)
        begun = ended = False

        async def send_with_id(message: Message) -> None:
            nonlocal begun, ended
            if message["type"] == "http.response.start":
                begun = True
                self.waiting -= 1
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
                self.gate.count("made", message["status"])
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body")

        self.waiting += 1
        try:
            if problem is not None:
                await send_problem(problem, scope, send_with_id)
            else:
                await self.app(scope, receive, send_with_id)
        except Exception:
            # A bug that was answered and logged leaves the connection whole; an answer cut short must break it.
            if not ended:
                raise
        finally:
            if not begun:
                self.waiting -= 1


def _too_many(waiting: int) -> Problem:
    return overloaded(f"{waiting} requests wait for their answers at the moment")


def _noted(headers: RawHeaders) -> dict[bytes, bytes]:
    """The header fields that matter here; a list that came in several fields is joined (RFC 9110, 5.3)."""
    noted: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _NOTED:
            noted[name] = noted[name] + b", " + value if name in noted else value
    return noted


def _out_of_bounds(scope: Scope, resources: Resources) -> Problem | None:
    """The bounds on address and header, for servers that do not keep them themselves."""
    length = len(target_of(scope))
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
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    start, body = _refusal(problem, scope.get("request_id", ""), scope["method"], path)
    await send({"type": "http.response.start", "status": start.status, "headers": start.headers})
    await send_blocks(send, body)


def _refusal(problem: Problem, request_id: str, method: str, path: str = "") -> tuple[Head, Body]:
    status, media_type, body = written(problem, path, request_id)
    headers: RawHeaders = [
        (b"content-type", media_type),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    return Head(status, lines_of(headers)), () if method == "HEAD" else (body,)
