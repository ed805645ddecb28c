"""From a request to an answer: read, refuse, tag, compute, write. A 304, a HEAD or a refusal computes nothing."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.api.bodies import JSON, Given, given_in, media_type, read_body, refuse_body, take_objects
from service.api.caching import FRESH, IMMUTABLE, byte_range, condition, encoded, etag, joined
from service.api.codings import Coding, accepted
from service.api.door import address_of
from service.api.flights import leaving, while_there
from service.api.limits import Share
from service.api.making import Making, blocks_of, is_streamed, part_of, turn, under_way, whole
from service.api.meters import scheme_route
from service.api.pasted import in_body
from service.api.problems import Problem, precondition_failed
from service.api.query import read_asked, textual, with_structured
from service.api.replies import UNBUFFERED, Bytes, Followed, Streamed
from service.api.reply_cache import Reply, lines_of
from service.api.resources import Resources
from service.api.timing import Timing
from service.api.wanted import (
    Headers,
    Wanted,
    accepted_ranges,
    block_bytes,
    coding_headers,
    content_headers,
    file_headers,
    gains_by_coding,
    understand,
    whole_bytes,
)
from service.engine.scheme import Scheme


async def answer_get(request: Request, scheme: Scheme[Any, Any], extension: str, resources: Resources) -> Response:
    """GET and HEAD."""
    refuse_body(request)
    await resources.entrance.approach()
    asked = read_asked(scheme, request.scope["query_string"], blocks=())
    wanted = understand(scheme, asked, extension, {}, resources)
    making = Making(wanted, _coding(request, wanted), wanted.canonical())
    tag = etag(making.key, making.revision)
    shared = coding_headers(wanted)
    headers = [("ETag", tag), ("Cache-Control", IMMUTABLE if asked.pinned else FRESH), *shared]
    given = request.scope["headers"]
    met = condition(given, tag)
    if met == "failed":
        raise precondition_failed()
    if met == "unmodified":
        _remember(request, making, tag, resources)
        return Bytes(304, encoded(headers))
    if request.method == "HEAD":
        _remember(request, making, tag, resources)
        return Bytes(200, encoded([*headers, *_head_headers(making, resources)]))
    if wanted.size is not None and wanted.form.has_ranges(wanted.tensors):
        window = byte_range(joined(given, b"range"), joined(given, b"if-range"), tag, wanted.size)
        if window != "whole":
            return _part(wanted, headers, window, resources)
    return await _whole(request, making, tag, headers, resources)


async def _whole(request: Request, making: Making, tag: str, headers: Headers, resources: Resources) -> Response:
    """200: from the cache, from the request that is making it now, made here and kept, or streamed."""
    wanted, pinned = making.wanted, making.wanted.asked.pinned
    address = address_of(request.scope, coded=gains_by_coding(wanted))
    reply = resources.replies.by_request(making.key)
    if reply is not None and reply.body is not None:
        resources.replies.lookups.hits += 1
        resources.replies.alias(making.key, address, pinned)
        return Bytes(200, reply.get(pinned).headers, *reply.body)
    stream = is_streamed(wanted, resources)
    if stream and not _can_keep(making, resources):
        _remember(request, making, tag, resources)
        resources.replies.lookups.misses += 1
        return _streamed(making, [*headers, *accepted_ranges(wanted)], resources, Share(resources.budget))
    before = resources.under_way.get(making.key)
    joins, timing = before is not None and not before.abandoned, Timing(wanted.scheme.family)
    flight = under_way(making, stream, resources, timing, lambda body: _reply(making, tag, body, resources))
    gone = flight.join(request.receive)
    try:
        if stream:
            await flight.begun()
            return Followed(200, encoded([*headers, *file_headers(wanted, wanted.size, making.coding)]), flight, gone)
        body = await flight.whole()
    except BaseException:
        gone.cancel()
        raise
    gone.cancel()
    resources.replies.alias(making.key, address, pinned)
    size = sum(map(len, body))
    # Of the answer that was made here; who joins did not wait as long, and what is kept may not differ.
    timed = [] if joins else [("Server-Timing", timing.header())]
    return Bytes(200, encoded([*headers, *file_headers(wanted, size, making.coding), *timed]), *body)


def _can_keep(making: Making, resources: Resources) -> bool:
    """Whether an answer that is sent in blocks will have a place in the cache, and its making in the memory."""
    bound, budget = making.wanted.bound, resources.budget
    fits = budget.in_use + bound + block_bytes(making.wanted) <= budget.limit_bytes
    return making.key in resources.under_way or (fits and resources.replies.has_place(bound))


def _head_headers(making: Making, resources: Resources) -> Headers:
    """What a HEAD says of the content; of one that is sent and not kept, as its GET does, that no proxy should."""
    wanted = making.wanted
    passing = is_streamed(wanted, resources) and not resources.replies.has_place(wanted.bound)
    return [*file_headers(wanted, wanted.size, making.coding), *([UNBUFFERED] if passing else [])]


def _reply(making: Making, tag: str, body: tuple[bytes, ...] | None, resources: Resources) -> Reply:
    wanted, size = making.wanted, None if body is None else sum(map(len, body))
    return Reply(
        tag,
        lines_of(encoded(coding_headers(wanted))),
        lines_of(encoded(file_headers(wanted, size, making.coding))),
        lines_of(encoded(_head_headers(making, resources))),
        body,
        scheme_route(wanted.scheme.family, file=wanted.form.extension != "json"),
    )


def _remember(request: Request, making: Making, tag: str, resources: Resources) -> None:
    """Keep what HEAD and 304 say, so that they are answered before routing from now on."""
    if resources.replies.by_request(making.key) is None:
        resources.replies.keep(making.key, _reply(making, tag, None, resources))
    address = address_of(request.scope, coded=gains_by_coding(making.wanted))
    resources.replies.alias(making.key, address, making.wanted.asked.pinned)


def _coding(request: Request, wanted: Wanted) -> Coding:
    """gzip where the client takes it and the answer gains by it."""
    given = [value for name, value in request.scope["headers"] if name == b"accept-encoding"]
    return accepted(b", ".join(given) if given else None) if gains_by_coding(wanted) else "identity"


async def answer_post(request: Request, scheme: Scheme[Any, Any], extension: str, resources: Resources) -> Response:
    """POST with the caller's arrays: the answer is stored by nobody."""
    kind = media_type(request, scheme)
    query, assumed = request.scope["query_string"], textual(scheme) if kind == JSON else {}
    # The body may hold parameters too; what is wrong without them is refused before it is read.
    read_asked(scheme, query, assumed)
    share = Share(resources.budget)
    try:
        body = await read_body(request, kind, resources.body, share)
        if kind == JSON:
            await take_objects(body, share, resources.work)
        wanted = await resources.work(
            lambda: _understood(scheme, query, assumed, extension, given_in(scheme, kind, body), resources)
        )
        making = Making(wanted, _coding(request, wanted), b"")
        headers = [("Cache-Control", "no-store"), *coding_headers(wanted)]
        if is_streamed(wanted, resources):
            return _streamed(making, headers, resources, share)
        timing = Timing(scheme.family)
        async with turn(wanted, resources):
            share.take(whole_bytes(wanted))
            gone = leaving(request.receive)
            chunks = while_there(blocks_of(making, resources, timing), gone.done)
            try:
                content = await whole(wanted, chunks, resources, timing)
            finally:
                gone.cancel()
        timing.count(resources.gate.meters)
    except BaseException:
        share.give_back()
        raise
    share.give_back()
    described = content_headers(wanted, len(content), making.coding)
    return Bytes(200, encoded([*headers, *described, ("Server-Timing", timing.header())]), content)


def _understood(
    scheme: Scheme[Any, Any], query: bytes, assumed: dict[str, str], extension: str, given: Given, resources: Resources
) -> Wanted:
    asked = read_asked(scheme, query, assumed, in_body(given.pasted))
    return understand(scheme, with_structured(scheme, asked, given.structured), extension, given.arrays, resources)


def _part(wanted: Wanted, headers: Headers, window: tuple[int, int] | str, resources: Resources) -> Response:
    """206: only the rows that the window touches are computed."""
    if isinstance(window, str):
        detail = f"the answer has {wanted.size} bytes, and the range lies outside"
        raise Problem("range-not-satisfiable", detail, headers={"Content-Range": f"bytes */{wanted.size}"})
    start, stop = window
    sent = [
        *headers,
        *file_headers(wanted, stop - start),
        ("Content-Range", f"bytes {start}-{stop - 1}/{wanted.size}"),
    ]
    share = Share(resources.budget)
    share.take(block_bytes(wanted))
    timing = Timing(wanted.scheme.family)
    return Streamed(206, encoded(sent), part_of(wanted, resources, timing, window), share, resources, timing)


def _streamed(making: Making, headers: Headers, resources: Resources, share: Share) -> Response:
    wanted = making.wanted
    share.take(block_bytes(wanted))
    sent = encoded([*headers, *content_headers(wanted, wanted.size, making.coding)])
    timing = Timing(wanted.scheme.family)
    return Streamed(200, sent, blocks_of(making, resources, timing), share, resources, timing)
