"""How long the stages of a making take: waiting for the work pool, computing rows, writing them."""

import time
from collections.abc import Callable
from typing import TypeVar

from service.api.meters import Meters, Stage

T = TypeVar("T")


class Timing:
    """The seconds of one answer, in one piece on the work pool or in many."""

    __slots__ = ("asked", "compute", "encode", "family", "queue")

    def __init__(self, family: str) -> None:
        self.family = family
        self.queue = self.compute = self.encode = 0.0
        self.asked: float | None = time.perf_counter()

    def on_pool(self, function: Callable[[], T]) -> Callable[[], T]:
        """The same function for the work pool: how long it waits there, and what is not computing, is writing."""
        asked = time.perf_counter() if self.asked is None else self.asked
        self.asked = None

        def timed() -> T:
            begun, computed = time.perf_counter(), self.compute
            self.queue += begun - asked
            try:
                return function()
            finally:
                self.encode += time.perf_counter() - begun - (self.compute - computed)

        return timed

    def computing(self, function: Callable[[], T]) -> T:
        """Call a function that computes rows."""
        begun = time.perf_counter()
        try:
            return function()
        finally:
            self.compute += time.perf_counter() - begun

    def header(self) -> str:
        """As Server-Timing states it, in milliseconds."""
        return ", ".join(f"{name};dur={max(0.0, seconds) * 1000:.2f}" for name, seconds in self._stages())

    def count(self, meters: Meters) -> None:
        """Once, when the answer is made."""
        for stage, seconds in self._stages():
            meters.worked(stage, self.family, max(0.0, seconds))

    def _stages(self) -> tuple[tuple[Stage, float], ...]:
        return (("queue", self.queue), ("compute", self.compute), ("encode", self.encode))
