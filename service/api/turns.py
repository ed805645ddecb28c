"""Who waits for what, in the order of coming: answers to be made, and work for a thread."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Turn:
    """Work that waits for a thread, and since when."""

    asked: float
    over: bool = False


class Turns:
    """Those who wait for something in the order in which they came, and for how long the first has.

    Used from the event loop and, to leave, from the work pool.
    """

    def __init__(self) -> None:
        self._queue: deque[Turn] = deque()

    def join(self) -> Turn:
        turn = Turn(time.monotonic())
        self._queue.append(turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """It begins, or was given up; twice is as good as once."""
        if not turn.over:
            turn.over = True
            with suppress(ValueError):
                self._queue.remove(turn)

    def __len__(self) -> int:
        return len(self._queue)

    def waited(self) -> float:
        """Seconds that the first has waited."""
        try:
            return time.monotonic() - self._queue[0].asked
        except IndexError:
            return 0.0


class Entrance:
    """So many answers are made in one piece at a time; as many wait to be next, and the others have not been read yet.

    A pool with hundreds of jobs waiting leaves the event loop the lock of the interpreter for moments only, and reading
    what a request asks for takes longer than refusing it: whoever is to be refused would hear so late.
    """

    def __init__(self, most: int) -> None:
        self.next = Turns()
        self.behind = Turns()
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._parked: deque[asyncio.Future[None]] = deque()

    async def approach(self) -> None:
        """Wait until it makes sense to read a request; what is asked for without waiting for anything takes a place."""
        if not self._parked and not self._is_full():
            return
        turn, parked = self.behind.join(), asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        try:
            await parked
        finally:
            self.behind.leave(turn)
            # Not before this one has asked for a place, if it does.
            asyncio.get_running_loop().call_soon(self._beckon)

    def place(self) -> "Place":
        """Ask for a place, and so be the next after those who did."""
        return Place(self._places, self.next, self._beckon)

    def waited(self) -> float:
        """Seconds that the first has waited to be let in, or to be read."""
        return max(self.next.waited(), self.behind.waited())

    def _is_full(self) -> bool:
        return len(self.next) >= self._most

    def _beckon(self) -> None:
        while self._parked and not self._is_full():
            parked = self._parked.popleft()
            if not parked.done():
                parked.set_result(None)
                return


class Place:
    """One of those at the entrance, from when it was asked for; entered when its turn has come."""

    def __init__(self, places: asyncio.Semaphore, turns: Turns, entered: Callable[[], None]) -> None:
        self._places = places
        self._turns = turns
        self._turn = turns.join()
        self._entered = entered

    async def __aenter__(self) -> None:
        try:
            await self._places.acquire()
        finally:
            self._turns.leave(self._turn)
            self._entered()

    async def __aexit__(self, *_: object) -> None:
        self._places.release()
