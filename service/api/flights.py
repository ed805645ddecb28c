"""Answers under way, one for each request whatever the number of clients: its blocks, as they come, go to all of them.

A client that leaves takes nothing from the others. When all have left, the work stops, and what is there is let go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from starlette.types import Receive

from service.api.problems import Problem
from service.api.reply_cache import Body
from service.formats.format import Chunk

Gone = asyncio.Future[None]


def leaving(receive: Receive) -> Gone:
    """Done when the client has closed its connection, or got its answer; to be cancelled by who needs it no more."""
    return asyncio.ensure_future(_disconnect(receive))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def nobody_there() -> Problem:
    """What ends work whose client has left; nobody reads it."""
    return Problem("bad-request", "the connection was closed before the answer was complete")


def while_there(chunks: Iterator[Chunk], left: Callable[[], bool]) -> Iterator[Chunk]:
    """The chunks, each made only if someone is there to take it. Runs on the work pool."""
    while not left():
        chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk
    raise nobody_there()


class Flight:
    """The blocks so far, and whether they are all; used from the event loop, but for `abandoned`."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.abandoned = False
        self._followers = 0
        self._ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def join(self, receive: Receive) -> Gone:
        """One more client waits for it: until the future is done, or cancelled."""
        self._followers += 1
        gone = leaving(receive)
        gone.add_done_callback(self._leave)
        return gone

    def _leave(self, _gone: Gone) -> None:
        self._followers -= 1
        self.abandoned = not self._followers

    def add(self, block: bytes) -> None:
        self.blocks.append(block)
        self._tell()

    def end(self, error: Exception | None = None) -> None:
        self._ended = True
        self._error = error
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def begun(self) -> None:
        """Wait for the first block; an error before it is raised here, where it can still become a refusal."""
        while not self.blocks and not self._ended:
            await self._news.wait()
        if self._error is not None and not self.blocks:
            raise self._error

    async def whole(self) -> Body:
        """All blocks."""
        while not self._ended:
            await self._news.wait()
        if self._error is not None:
            raise self._error
        return tuple(self.blocks)

    async def follow(self) -> AsyncIterator[bytes]:
        """Every block from the first on, each as soon as it is there; to the end, unless all have left."""
        seen = 0
        while True:
            while seen < len(self.blocks):
                yield self.blocks[seen]
                seen += 1
            if self._error is not None and not self.abandoned:
                raise self._error
            if self._ended:
                return
            await self._news.wait()


def next_block(chunks: Iterator[Chunk]) -> Callable[[], bytes | None]:
    """Work for the pool: the next block, as bytes of its own; empty ones let go of the thread."""

    def take() -> bytes | None:
        chunk = next(chunks, None)
        return chunk if chunk is None else bytes(chunk)

    return take
