"""What the handlers share: the settings' limits, the two caches, the work pool and the memory budget."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from service.api.bodies import Limits
from service.api.flights import Flight
from service.api.gate import Gate
from service.api.limits import Budget, Crowd
from service.api.readiness import Readiness
from service.api.reply_cache import ReplyCache
from service.api.turns import Entrance, Turns
from service.drawer import Drawer
from service.engine.tables import TableCache
from service.partner import Partner

T = TypeVar("T")

# Answers that are made in one piece at a time, for each thread: enough to keep it busy while the loop sees to others.
LET_IN = 4
# A picture takes some 10 to 200 milliseconds: who is last of these waits no longer than people do.
MOST_PICTURES = 32


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
    threads: int
    pool: ThreadPoolExecutor
    partner: Partner | None
    drawer: Drawer | None
    gate: Gate = field(default_factory=Gate)
    readiness: Readiness = field(default_factory=Readiness)
    under_way: dict[bytes, Flight] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    queue: Turns = field(default_factory=Turns)
    entrance: Entrance = field(init=False)
    drawers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="drawer"))
    drawing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    pictures: Crowd = field(default_factory=lambda: Crowd("pictures wait to be drawn", MOST_PICTURES))

    def __post_init__(self) -> None:
        self.entrance = Entrance(LET_IN * self.threads)

    async def work(self, function: Callable[[], T]) -> T:
        """Run numerical work on its own pool, never on the event loop or the default pool."""
        turn = self.queue.join()

        def begin() -> T:
            self.queue.leave(turn)
            return function()

        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, begin)
        finally:
            self.queue.leave(turn)  # if it never began

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

    def waited(self) -> float:
        """Seconds that who is next has waited: to be let in, or for a thread."""
        return max(self.entrance.waited(), self.queue.waited())


def work_pool(threads: int) -> ThreadPoolExecutor:
    """The threads for numerical work."""
    return ThreadPoolExecutor(threads, thread_name_prefix="work")
