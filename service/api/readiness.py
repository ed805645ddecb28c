"""Whether this process may answer: it compares itself with known values first, and does not if it computes others.

untested    nobody has started it: an app that is called without a lifespan answers, and is not ready
testing     health and metrics are told; whoever wants numbers waits the moment that it takes
ready       the values are right
failed      for good: everything that would compute is refused, so that no wrong number leaves. The process stays, to
            say why; starting it again would not mend its machine
"""

import logging
from asyncio import Event
from collections.abc import Awaitable, Callable
from typing import Literal

from starlette.types import Scope

from service.api.limits import overloaded
from service.api.problems import Problem
from service.engine.self_test import failures

State = Literal["untested", "testing", "ready", "failed"]
# What computes lies below these, but for the health that the Open Inference Protocol asks for.
COMPUTING = ("/v1/", "/v2/")
HEALTH = "/v2/health/"

log = logging.getLogger("posenc.self-test")


class Readiness:
    """Of one process; with several workers each has its own. Used from the event loop only."""

    def __init__(self) -> None:
        self.state: State = "untested"
        self._tested = Event()

    async def test(self, work: Callable[[Callable[[], list[str]]], Awaitable[list[str]]]) -> None:
        """Compare, on the work pool."""
        self.state = "testing"
        try:
            found = await work(failures)
            self.state = "failed" if found else "ready"
        finally:
            self._tested.set()
        for each in found:
            log.critical("THIS MACHINE OR BUILD COMPUTES WRONG VALUES: %s", each)
        if found:
            log.critical("nothing is computed and /health/ready stays 500: %d self-tests failed", len(found))

    async def refusal(self, scope: Scope) -> Problem | None:
        """Why a request cannot be answered by this process at all."""
        if self.state in ("ready", "untested"):
            return None
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(COMPUTING) or path.startswith(HEALTH):
            return None
        await self._tested.wait()
        return self.not_computing()

    def not_computing(self) -> Problem | None:
        return failed() if self.state == "failed" else None

    def not_ready(self, draining: bool) -> Problem | None:
        """Why no requests should be sent here, if so."""
        if self.state == "failed":
            return failed()
        if self.state != "ready":
            return overloaded("the server is starting: it compares itself with known values")
        if draining:
            return overloaded("the server is draining: it takes no new work")
        return None


def failed() -> Problem:
    detail = "this process computes wrong values: ask another one; its log says which"
    return Problem("self-test-failed", detail, headers={"Retry-After": "60"})
