"""What the handlers share: the settings' limits, the two caches, the work pool and the memory budget."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from service.api.bodies import Limits
from service.api.flights import Flight
from service.api.gate import Gate
from service.api.limits import Budget, Crowd
from service.api.readiness import Readiness
from service.api.reply_cache import ReplyCache
from service.drawer import Drawer
from service.engine.tables import TableCache
from service.machine import cores
from service.partner import Partner

T = TypeVar("T")

# A picture takes some 10 to 200 milliseconds: who is last of these waits no longer than people do.
MOST_PICTURES = 32


@dataclass(slots=True, eq=False)
class Turn:
    """Work that waits for a thread, and since when."""

    asked: float
    over: bool = False


@dataclass(slots=True)
class Resources:
    """Made once, in `service.main`; kept in `app.state.resources`."""

    result_bytes: int
    json_bytes: int
    stream_bytes: int
    url_bytes: int
    header_bytes: int
    header_fields: int
    waiting_requests: int
    queue_seconds: float
    body: Limits
    tables: TableCache
    replies: ReplyCache
    budget: Budget
    pool: ThreadPoolExecutor
    partner: Partner | None
    drawer: Drawer | None
    gate: Gate = field(default_factory=Gate)
    readiness: Readiness = field(default_factory=Readiness)
    under_way: dict[bytes, Flight] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    queue: deque[Turn] = field(default_factory=deque)
    drawers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="drawer"))
    drawing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    pictures: Crowd = field(default_factory=lambda: Crowd("pictures wait to be drawn", MOST_PICTURES))

    async def work(self, function: Callable[[], T]) -> T:
        """Run numerical work on its own pool, never on the event loop or the default pool."""
        turn = Turn(time.monotonic())
        self.queue.append(turn)

        def begin() -> T:
            self._leave(turn)
            return function()

        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, begin)
        finally:
            self._leave(turn)  # if it never began

    async def draw(self, function: Callable[[], T]) -> T:
        """Run what waits for the process that draws: on a thread that nothing else needs."""
        return await asyncio.get_running_loop().run_in_executor(self.drawers, function)

    def close(self) -> None:
        """End what was started, without waiting for it."""
        for pool in (self.pool, self.drawers):
            pool.shutdown(wait=False, cancel_futures=True)
        for process in (self.partner, self.drawer):
            if process is not None:
                process.close()

    def _leave(self, turn: Turn) -> None:
        if not turn.over:
            turn.over = True
            with suppress(ValueError):
                self.queue.remove(turn)

    def waited(self) -> float:
        """Seconds that the work which is next has waited for a thread."""
        try:
            return time.monotonic() - self.queue[0].asked
        except IndexError:
            return 0.0


def work_pool(threads: int) -> ThreadPoolExecutor:
    """As many threads as cores, unless said otherwise."""
    return ThreadPoolExecutor(threads or cores(), thread_name_prefix="work")
