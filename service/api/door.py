"""The first thing that every request meets: its id, the bounds on its header, and the cache of finished replies.

A repeated GET is answered here, before routing and parsing: one look-up by raw path, query and coding.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from starlette.types import Receive, Scope, Send

from service.api.answering import Answering
from service.api.caching import RawHeaders
from service.api.codings import accepted
from service.api.gate import Admitted
from service.api.inference_errors import written
from service.api.limits import RETRY
from service.api.meters import NO_STATUS, UNROUTED, Account, Way
from service.api.problems import Problem, Standing
from service.api.replies import send_blocks
from service.api.reply_cache import Address, Body, Head, headers_of, lines_of
from service.api.resources import Resources

# What a repeated answer cannot be given to: a part of it, a condition that is seldom made, and a request whose body
# wants to be read or refused.
BODY = frozenset((b"content-length", b"transfer-encoding"))
_NOT_REPEATED = BODY | {b"range", b"if-match"}
NOTED = _NOT_REPEATED | {b"x-request-id", b"if-none-match", b"accept-encoding", b"traceparent", b"tracestate"}
_PICTURE = re.compile(rb"[^?]*/v1/[^?]*\.(?:png|svg)(?:\?.*)?")
# Answered however many requests wait, for they take no work.
_WITHOUT_WORK = re.compile(rb"[^?]*/(?:health/\w+|metrics)")

# What makes the answers: an ASGI application that may ask how far its answer has come.
Behind = Callable[[Scope, Receive, Answering], Awaitable[None]]


@dataclass(slots=True)
class Found:
    """A repeated request's answer, ready to send; what is known of the request, the route it would have taken, and when
    it was looked up."""

    head: Head
    body: Body
    admitted: Admitted
    route: str
    begun: float
    way: Way


def address_of(scope: Scope, *, coded: bool) -> Address:
    """What a repeated request is known by: its target as it was sent and, where the answer may be `coded`, the coding
    that it takes."""
    target = target_of(scope)
    return (target, accepted(noted_in(scope["headers"]).get(b"accept-encoding"))) if coded else target


def target_of(scope: Scope) -> bytes:
    """Path and query as they were sent."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path + b"?" + scope["query_string"] if scope["query_string"] else path


class Door:
    """ASGI in front of everything else. A server that can send ready bytes may ask `find` before it starts a task.

    `routes` has the label of what each endpoint answers, for the meters; `methods` tells what a path takes.
    """

    def __init__(self, app: Behind, resources: Resources) -> None:
        self.app = app
        self.resources = resources
        self.gate = resources.gate
        self.routes: dict[object, str] = {}
        self.methods: Callable[[str], str] = lambda _path: ""
        self.noted = NOTED | resources.gate.noted
        self.waiting = 0
        most, longest = resources.waiting_requests, resources.queue_seconds
        self._full = _standing(f"{most} requests wait for their answers at the moment")
        self._late = _standing(f"who is next has waited for more than {longest:g} seconds")

    def find(self, scope: Scope, target: bytes) -> Found | None:
        """The finished reply to a request that was answered before, or None. Of the scope only method and headers are
        looked at, and by the gate's checks: a server that parses no further need not."""
        begun = time.perf_counter()
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            return None
        noted = noted_in(scope["headers"], self.noted)
        ready = self._ready(method, target, noted)
        if ready is None:
            return self._turned_away(scope, target, noted, begun)
        head, body, route = ready
        admitted = self.gate.admit(scope, noted)
        way: Way = "repeated"
        if admitted.problem is not None:
            head, body = _refusal(admitted.problem, admitted.request_id.decode("ascii"), method)
            # As where the address is not known here: whether it is, is nothing that a refusal tells.
            route, way = UNROUTED, "early"
        if self.gate.keyed:
            head = Head(head.status, self.gate.kept_by(head.lines))
        return Found(head, body, admitted, route, begun, way)

    def sent(self, scope: Scope, target: bytes, found: Found, untaken: int = 0) -> None:
        """To be called once that answer was given to the socket, or once the client has left with so many bytes of it
        untaken."""
        body, admitted = found.body, found.admitted
        size = len(body[0]) if len(body) == 1 else sum(map(len, body))
        if untaken:
            size = max(0, size - untaken)
        seconds = time.perf_counter() - found.begun
        if admitted.problem is None and not self.gate.access_log.has_hits:
            self.gate.meters.answered(found.way, found.route, scope["method"], found.head.status, seconds, size)
            return
        slug = admitted.problem.slug if admitted.problem is not None else ""
        account = Account(found.way, found.route, scope["method"], found.head.status, seconds, size, slug, not untaken)
        self.gate.answered(account, admitted, target, scope)

    def _ready(self, method: str, target: bytes, noted: Mapping[bytes, bytes]) -> tuple[Head, Body, str] | None:
        if not _NOT_REPEATED.isdisjoint(noted):
            return None
        replies = self.resources.replies
        known = replies.by_address(target)
        if known is None:
            known = replies.by_address((target, accepted(noted.get(b"accept-encoding"))))
        if known is None:
            return None
        reply, pinned = known
        answer = reply.to(method, noted.get(b"if-none-match"), pinned)
        return None if answer is None else (*answer, reply.route)

    def _overload(self, target: bytes) -> Problem | None:
        """A refusal, if as many requests wait for their answers as may, or for as long, and this one would have to; or
        if it is for a picture, and as many are waited for."""
        found = self.resources
        full = self.waiting >= found.waiting_requests
        if (full or found.waited() > found.queue_seconds) and not _WITHOUT_WORK.fullmatch(target):
            return self._full if full else self._late
        crowded = found.pictures.refusal(target)
        return crowded if crowded is not None and _PICTURE.fullmatch(target) else None

    def _turned_away(self, scope: Scope, target: bytes, noted: Mapping[bytes, bytes], begun: float) -> Found | None:
        """A refusal at the price of a repeated answer: refusing must not take what answering needs."""
        problem = self._overload(target) if BODY.isdisjoint(noted) else None
        if problem is None:
            return None
        admitted = self.gate.identify(noted)
        admitted.problem = problem
        answer = _refusal(problem, admitted.request_id.decode("ascii"), scope["method"])
        return Found(*answer, admitted, UNROUTED, begun, "early")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = _out_of_bounds(scope, self.resources)
        target = target_of(scope)
        found = None if problem else self.find(scope, target)
        if found is None:
            await self._pass_on(scope, receive, send, problem)
            return
        headers = [*found.head.headers, *headers_of(found.admitted.lines)]
        await send({"type": "http.response.start", "status": found.head.status, "headers": headers})
        await send_blocks(send, found.body)
        self.sent(scope, target, found)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, problem: Problem | None) -> None:
        noted = noted_in(scope["headers"], self.noted)
        admitted = self.gate.admit(scope, noted)
        scope["admitted"], scope["request_id"] = admitted, admitted.request_id.decode("ascii")
        cors = self.gate.cors
        problem = problem or admitted.problem
        if problem is None:
            problem = self._overload(target_of(scope))
        waiting = scope["waiting"] = Waiting(self, scope)
        if BODY.isdisjoint(noted):
            waiting.begin()
        answering = Answering(scope, send, self.gate, admitted, self.routes, waiting.end)
        self.gate.meters.in_flight += 1
        try:
            if problem is None and cors is not None and cors.is_preflight(scope, noted):
                await answering.send_whole(204, cors.preflight())
            else:
                await self._answer(scope, receive, answering, problem)
        finally:
            self.gate.meters.in_flight -= 1
            if answering.status == NO_STATUS:
                waiting.end()
            if "abandoned" not in scope:
                self.gate.answered(answering.account(), admitted, target_of(scope), scope)

    async def _answer(self, scope: Scope, receive: Receive, answering: Answering, problem: Problem | None) -> None:
        problem = problem or await self.resources.readiness.refusal(scope)
        if problem is not None:
            answering.way = "early"
            await send_problem(problem, scope, answering)
            return
        try:
            await self.app(scope, receive, answering)
        except Exception:
            # A bug that was answered and logged leaves the connection whole; an answer cut short must break it.
            if not answering.ended:
                raise


class Waiting:
    """A request that waits for the beginning of its answer, and for which picture; not while its body is on its way,
    which is the client's time."""

    def __init__(self, door: Door, scope: Scope) -> None:
        self.door = door
        target = target_of(scope)
        # A picture of the caller's own numbers is like no other.
        self.picture = None if not _PICTURE.fullmatch(target) else self if scope["method"] == "POST" else target
        self.begun = False

    def begin(self) -> None:
        """All of it is there; twice is as good as once."""
        if self.begun:
            return
        self.begun = True
        self.door.waiting += 1
        if self.picture is not None:
            self.door.resources.pictures.join(self.picture)

    def end(self) -> None:
        """The answer begins, or there is none."""
        if not self.begun:
            return
        self.begun = False
        self.door.waiting -= 1
        if self.picture is not None:
            self.door.resources.pictures.leave(self.picture)


def _standing(detail: str) -> Problem:
    return Standing("overloaded", detail, RETRY)


def noted_in(headers: RawHeaders, names: frozenset[bytes] = NOTED) -> dict[bytes, bytes]:
    """The header fields that matter here; a list that came in several fields is joined (RFC 9110, 5.3)."""
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
    scope["problem"] = problem.slug
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    start, body = _refusal(problem, scope.get("request_id", ""), scope["method"], path)
    await send({"type": "http.response.start", "status": start.status, "headers": start.headers})
    await send_blocks(send, body)


def _refusal(problem: Problem, request_id: str, method: str, path: str = "") -> tuple[Head, Body]:
    status, media_type, body = written(problem, path, request_id)
    head = _refusal_head(status, media_type, len(body), tuple(problem.headers.items()))
    return head, () if method == "HEAD" else (body,)


@lru_cache(maxsize=256)
def _refusal_head(status: int, media_type: bytes, size: int, own: tuple[tuple[str, str], ...]) -> Head:
    """Few kinds are most of them: a flood of requests has the same one again and again."""
    headers: RawHeaders = [
        (b"content-type", media_type),
        (b"content-length", str(size).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in own),
    ]
    return Head(status, lines_of(headers))
