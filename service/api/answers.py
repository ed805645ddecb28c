"""From a request to an answer: read, refuse, tag, compute, write. A 304, a HEAD or a refusal computes nothing."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from service.api.bodies import JSON, Given, given_in, media_type, read_body, refuse_body
from service.api.caching import FRESH, IMMUTABLE, Reply, byte_range, encoded, etag, head, if_none_match, none_match
from service.api.limits import Share
from service.api.pasted import in_body
from service.api.problems import Problem
from service.api.query import read_asked, textual, with_structured
from service.api.replies import Bytes, Streamed
from service.api.resources import Resources
from service.api.wanted import (
    Headers,
    Wanted,
    accepted_ranges,
    block_bytes,
    content_headers,
    file_headers,
    understand,
    whole_bytes,
)
from service.engine.scheme import Scheme
from service.formats.format import Chunk
from service.formats.pictures import PICTURES

# Reading JSON turns a digit and a comma into a Python object: up to some twelve times the body while it lasts.
JSON_OBJECT_FACTOR = 12


@dataclass(slots=True)
class Timing:
    """Seconds spent waiting for the pool, computing rows, and writing them."""

    asked: float = field(default_factory=time.perf_counter)
    started: float = 0.0
    compute: float = 0.0
    done: float = 0.0

    def header(self) -> str:
        """As Server-Timing states it, in milliseconds."""
        encode = self.done - self.started - self.compute
        parts = (("queue", self.started - self.asked), ("compute", self.compute), ("encode", encode))
        return ", ".join(f"{name};dur={max(0.0, seconds) * 1000:.2f}" for name, seconds in parts)


async def answer_get(request: Request, scheme: Scheme[Any, Any], extension: str, resources: Resources) -> Response:
    """GET and HEAD."""
    refuse_body(request)
    if extension in PICTURES:
        # Before anything is read: in a flood of pictures even saying no must cost next to nothing.
        resources.drawing.refuse_full()
    asked = read_asked(scheme, request.scope["query_string"], blocks=())
    wanted = understand(scheme, asked, extension, {}, resources)
    key = wanted.canonical()
    tag = etag(key, wanted.form.revision)
    headers = [("ETag", tag), ("Cache-Control", IMMUTABLE if asked.pinned else FRESH)]
    if none_match(if_none_match(request.scope["headers"]), tag) == "unmodified":
        return Bytes(304, encoded(headers), b"")
    if request.method == "HEAD":
        return Bytes(200, encoded([*headers, *file_headers(wanted, wanted.size)]), b"")
    if wanted.form.ranges == "bytes" and wanted.size is not None:
        window = byte_range(request.headers.get("range"), request.headers.get("if-range"), tag, wanted.size)
        if window != "whole":
            return _part(wanted, headers, window, resources)
    if _is_streamed(wanted, resources):
        return _streamed(wanted, [*headers, *accepted_ranges(wanted)], resources, Share(resources.budget))
    # A pinned address is cacheable for longer: the same tag and bytes, under other headers.
    key += b"pinned" if asked.pinned else b""
    reply, timing = await _reply(wanted, key, tag, headers, resources)
    resources.replies.alias(key, (request.scope["path"], request.scope["query_string"]))
    extra = [] if timing is None else encoded([("Server-Timing", timing.header())])
    return Bytes(200, [*reply.whole.headers, *extra], reply.body)


async def answer_post(request: Request, scheme: Scheme[Any, Any], extension: str, resources: Resources) -> Response:
    """POST with the caller's arrays: the answer is stored by nobody."""
    kind = media_type(request, scheme)
    if extension in PICTURES:
        resources.drawing.refuse_full()
    query, assumed = request.scope["query_string"], textual(scheme) if kind == JSON else {}
    # The body may hold parameters too; what is wrong without them is refused before it is read.
    read_asked(scheme, query, assumed)
    headers = [("Cache-Control", "no-store")]
    share = Share(resources.budget)
    try:
        body = await read_body(request, kind, resources.body, share)
        if kind == JSON:
            share.take((JSON_OBJECT_FACTOR - 1) * len(body))
        wanted = await resources.work(
            lambda: _understood(scheme, query, assumed, extension, given_in(scheme, kind, body), resources)
        )
        if _is_streamed(wanted, resources):
            return _streamed(wanted, headers, resources, share)
        timing = Timing()
        async with _turn(wanted, resources):
            share.take(whole_bytes(wanted))
            content = await resources.work(lambda: _written(wanted, resources, timing))
    except BaseException:
        share.give_back()
        raise
    share.give_back()
    sent = [*headers, *content_headers(wanted, len(content)), ("Server-Timing", timing.header())]
    return Bytes(200, encoded(sent), content)


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
    return Streamed(206, encoded(sent), _chunks(wanted, resources, Timing(), window), share, resources)


def _streamed(wanted: Wanted, headers: Headers, resources: Resources, share: Share) -> Response:
    share.take(block_bytes(wanted))
    sent = encoded([*headers, *content_headers(wanted, wanted.size)])
    return Streamed(200, sent, _chunks(wanted, resources, Timing()), share, resources)


async def _reply(
    wanted: Wanted, key: bytes, tag: str, headers: Headers, resources: Resources
) -> tuple[Reply, Timing | None]:
    """The finished reply: from the cache, from the request that is computing it now, or computed here."""
    reply = resources.replies.by_request(key)
    if reply is not None:
        return reply, None
    pending = resources.under_way.get(key)
    if pending is None:
        timing = Timing()
        # A task of its own: if this client leaves, those who wait for the same answer still get it.
        pending = asyncio.ensure_future(_compute(wanted, key, tag, headers, resources, timing))
        resources.under_way[key] = pending
        pending.add_done_callback(lambda _: resources.under_way.pop(key))
        return await asyncio.shield(pending), timing
    return await asyncio.shield(pending), None


async def _compute(
    wanted: Wanted, key: bytes, tag: str, headers: Headers, resources: Resources, timing: Timing
) -> Reply:
    async with _turn(wanted, resources):
        with Share(resources.budget) as share:
            share.take(whole_bytes(wanted))
            content = await resources.work(lambda: _written(wanted, resources, timing))
    reply = Reply(
        tag,
        head(200, encoded([*headers, *file_headers(wanted, len(content))])),
        head(200, encoded([*headers, *file_headers(wanted, wanted.size)])),
        head(304, encoded(headers)),
        content,
    )
    resources.replies.keep(key, reply)
    return reply


def _is_streamed(wanted: Wanted, resources: Resources) -> bool:
    """Whether an answer is sent while it is made; a picture is there at once or not at all."""
    return wanted.bound > resources.stream_bytes and not wanted.is_picture


def _turn(wanted: Wanted, resources: Resources) -> AbstractAsyncContextManager[None]:
    """Pictures are drawn one at a time: letters and places are Python, of which a process runs one thread anyway."""
    return resources.drawing.turn() if wanted.is_picture else nullcontext()


def _written(wanted: Wanted, resources: Resources, timing: Timing) -> bytes:
    timing.started = time.perf_counter()
    content = b"".join(_chunks(wanted, resources, timing))
    timing.done = time.perf_counter()
    return content


def _chunks(
    wanted: Wanted, resources: Resources, timing: Timing, window: tuple[int, int] | None = None
) -> Iterator[Chunk]:
    """The bytes of the answer, or of a window of it, as its format writes them from rows. Runs on the work pool."""
    call = resources.tables.call(wanted.scheme, wanted.params, wanted.inputs, wanted.everything)

    def rows(name: str, start: int, stop: int) -> NDArray[Any]:
        begun = time.perf_counter()
        block = resources.tables.rows(call, name, start, stop)
        timing.compute += time.perf_counter() - begun
        return block

    start, stop = window or (0, None)
    yield from wanted.form.stream(
        wanted.document,
        wanted.tensors,
        rows,
        start=start,
        stop=stop,
        nonfinite=wanted.asked.nonfinite,
        captions=wanted.captions,
    )
