"""Answers under way, one for each request whatever the number of clients: its blocks, as they come, go to all of them.

A client that leaves takes nothing from the others; what was begun is finished and kept.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from service.api.reply_cache import Body
from service.formats.format import Chunk


class Flight:
    """The blocks so far, and whether they are all; used from the event loop only."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self._ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()

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
        """Every block from the first on, each as soon as it is there."""
        seen = 0
        while True:
            while seen < len(self.blocks):
                yield self.blocks[seen]
                seen += 1
            if self._error is not None:
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
