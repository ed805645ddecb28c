"""Who waits for what, in the order of coming: answers to be made, and work for a thread."""

import asyncio
import time
from collections import deque
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

    def waited(self) -> float:
        """Seconds that the first has waited."""
        try:
            return time.monotonic() - self._queue[0].asked
        except IndexError:
            return 0.0


class Entrance:
    """So many answers are made in one piece at a time; the others wait, in the order of coming.

    A pool with hundreds of jobs waiting leaves the event loop the lock of the interpreter for moments only, and whoever
    is to be refused hears so late.
    """

    def __init__(self, most: int, turns: Turns) -> None:
        self._places = asyncio.Semaphore(most)
        self._turns = turns

    async def __aenter__(self) -> None:
        turn = self._turns.join()
        try:
            await self._places.acquire()
        finally:
            self._turns.leave(turn)

    async def __aexit__(self, *_: object) -> None:
        self._places.release()
