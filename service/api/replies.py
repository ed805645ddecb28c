"""ASGI answers: bytes that are ready, and blocks that are computed ahead of the socket by one."""

import asyncio
import logging
from collections.abc import Iterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.caching import RawHeaders, encoded
from service.api.flights import Flight, Gone, leaving
from service.api.limits import Share
from service.api.reply_cache import Body
from service.api.resources import Resources
from service.api.timing import Timing
from service.formats.format import Chunk

log = logging.getLogger("posenc")

# To a proxy such as nginx: do not take more of this than its client does, and do not keep it. It is computed as it is
# taken, not kept here either, and nobody else asks for it now.
UNBUFFERED = ("X-Accel-Buffering", "no")
SENT_BYTES = 1 << 20  # at a time: what the socket does not take at once is copied


class Bytes(Response):
    """An answer whose bytes are ready, in one piece or several."""

    def __init__(self, status: int, headers: RawHeaders, *blocks: bytes) -> None:
        self.status_code = status
        self.raw_headers = headers
        self.blocks = blocks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send_blocks(send, () if scope["method"] == "HEAD" else self.blocks)


async def send_blocks(send: Send, blocks: Body) -> None:
    """The body of an answer; the server waits between blocks for a client that reads slowly."""
    *before, last = blocks or (b"",)
    for block in before:
        await send({"type": "http.response.body", "body": block, "more_body": True})
    await send({"type": "http.response.body", "body": last})


class Followed(Response):
    """An answer that is being made for everyone who asked for it."""

    def __init__(self, status: int, headers: RawHeaders, flight: Flight, gone: Gone) -> None:
        self.status_code = status
        self.raw_headers = headers
        self.flight = flight
        self.gone = gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for block in self.flight.follow():
                if self.gone.done():
                    return
                await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.gone.cancel()


class Streamed(Response):
    """An answer in blocks: the next is computed while this one is sent; a client that left stops the work.

    An empty chunk has nothing to send: work that takes longer than a block's lets go of its thread there.
    """

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        chunks: Iterator[Chunk],
        share: Share,
        resources: Resources,
        timing: Timing,
    ) -> None:
        self.status_code = status
        self.raw_headers = [*headers, *encoded([UNBUFFERED])]
        self.chunks = chunks
        self.share = share
        self.resources = resources
        self.timing = timing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        gone = leaving(receive)
        try:
            await self._send_blocks(send, gone)
        finally:
            gone.cancel()
            self.share.give_back()
            self.timing.count(self.resources.gate.meters)

    async def _send_blocks(self, send: Send, gone: Gone) -> None:
        chunk = await self._next()
        while chunk is not None and not len(chunk) and not gone.done():
            chunk = await self._next()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while chunk is not None and not gone.done():
            following = asyncio.ensure_future(self._next())
            try:
                await asyncio.sleep(0)  # it begins now: while the socket takes all, sending never lets the loop go on
                for start in range(0, len(chunk), SENT_BYTES):
                    part = chunk[start : start + SENT_BYTES]
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            finally:
                # A thread cannot be cancelled: its block is waited for, so that the share covers it to the end.
                chunk = await following
        if not gone.done():
            await send({"type": "http.response.body", "body": b""})

    async def _next(self) -> Chunk | None:
        return await self.resources.work(self.timing.on_pool(lambda: next(self.chunks, None)))
