"""Memory that was freed goes back to the system when there is nothing to do.

glibc keeps what is freed between blocks that are still in use, for the next answers: with full caches that were some
150 MB. Looking through it takes 5 to 25 ms and taking it anew costs page faults, so it is done once the work has ended.
"""

import ctypes
import math
import sys
from collections.abc import Callable

# So long the process must have been at rest: less than a tenth of a core.
REST_SECONDS = 5.0
MOST_AT_REST = 0.5
# What freed nothing to speak of: less work than this, in seconds of a core. But clients may have left meanwhile that
# waited with their answers, which takes next to no work: so after a while it is done anyway.
LEAST_WORK = 0.5
AGAIN_SECONDS = 60.0


def giving_back() -> Callable[[], object] | None:
    """What gives freed memory back; None where the library has no such thing, or needs none."""
    if sys.platform != "linux":
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if trim is None else lambda: trim(0)


class Heap:
    """Looks now and then at how many seconds of a core the process has used."""

    def __init__(self, give_back: Callable[[], object] | None) -> None:
        self._give_back = give_back
        self._next = 0.0
        self._seen = self._given = 0.0
        self._given_at = math.inf

    def watch(self, used: float, now: float) -> Callable[[], object] | None:
        """What is to be called now, which is nothing as a rule."""
        if now < self._next:
            return None
        self._next = now + REST_SECONDS
        at_rest, self._seen = used - self._seen < MOST_AT_REST, used
        if not at_rest or used - self._given < LEAST_WORK * (now - self._given_at < AGAIN_SECONDS):
            return None
        self._given, self._given_at = used, now
        return self._give_back
