"""The first thing that every request meets: its id, the bounds on its header, and the cache of finished replies.

A repeated GET is answered here, before routing and parsing: one look-up by raw path, query and coding.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.caching import RawHeaders
from service.api.codings import accepted
from service.api.inference_errors import written
from service.api.problems import Problem
from service.api.replies import send_blocks
from service.api.reply_cache import Address, Body, Head, headers_of, lines_of
from service.api.resources import Resources

# What a repeated answer cannot be given to: a part of it, and a request whose body wants to be read or refused.
_NOT_REPEATED = frozenset((b"range", b"content-length", b"transfer-encoding"))
_NOTED = _NOT_REPEATED | {b"x-request-id", b"if-none-match", b"accept-encoding"}


@dataclass(frozen=True, slots=True)
class Found:
    """A repeated request's answer, ready to send, and the header lines that are this request's own."""

    head: Head
    body: Body
    lines: bytes


def address_of(scope: Scope) -> Address:
    """What a repeated request is known by: its target as it was sent, and the coding that it takes."""
    return target_of(scope), accepted(_noted(scope["headers"], _NOTED).get(b"accept-encoding"))


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
        self.noted = _NOTED | resources.gate.noted

    def find(self, scope: Scope, target: bytes) -> Found | None:
        """The finished reply to a request that was answered before, or None. Of the scope only method and headers are
        looked at, and by the gate's checks: a server that parses no further need not."""
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            return None
        noted = _noted(scope["headers"], self.noted)
        known = self.resources.replies.by_address((target, accepted(noted.get(b"accept-encoding"))))
        if known is None or not _NOT_REPEATED.isdisjoint(noted):
            return None
        reply, pinned = known
        answer = reply.to(method, noted.get(b"if-none-match"), pinned)
        if answer is None:
            return None
        admitted = self.gate.admit(scope, noted)
        if admitted.problem is not None:
            answer = _refusal(admitted.problem, admitted.request_id.decode("ascii"), method)
        head, body = answer
        self.gate.count("repeated", head.status)
        if self.gate.keyed:
            head = Head(head.status, self.gate.kept_by(head.lines))
        return Found(head, body, admitted.lines)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        problem = _out_of_bounds(scope, self.resources)
        found = None if problem else self.find(scope, target_of(scope))
        if found is None:
            await self._pass_on(scope, receive, send, problem)
            return
        headers = [*found.head.headers, *headers_of(found.lines)]
        await send({"type": "http.response.start", "status": found.head.status, "headers": headers})
        await send_blocks(send, found.body)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, problem: Problem | None) -> None:
        noted = _noted(scope["headers"], self.noted)
        admitted = self.gate.admit(scope, noted)
        scope["request_id"] = admitted.request_id.decode("ascii")
        problem = problem or admitted.problem
        ended = False

        async def send_with_id(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                message["headers"] = headers_of(self.gate.kept_by(lines_of(message["headers"])) + admitted.lines)
                self.gate.count("made", message["status"])
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body")

        if problem is not None:
            await send_problem(problem, scope, send_with_id)
            return
        if self.gate.cors is not None and self.gate.cors.is_preflight(scope, noted):
            await send_with_id({"type": "http.response.start", "status": 204, "headers": self.gate.cors.preflight()})
            await send_with_id({"type": "http.response.body", "body": b""})
            return
        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            # A bug that was answered and logged leaves the connection whole; an answer cut short must break it.
            if not ended:
                raise


def _noted(headers: RawHeaders, names: frozenset[bytes]) -> dict[bytes, bytes]:
    """The header fields that matter; a list that came in several fields is joined (RFC 9110, 5.3)."""
    noted: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in names:
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
