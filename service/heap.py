"""Memory that was freed goes back to the system when there is nothing to do.

glibc keeps what is freed between blocks that are still in use, for the next answers: with full caches that were some
150 MB. Looking through it takes 5 to 25 ms and taking it anew costs page faults, so it is done once the work has ended.
"""

import ctypes
import sys
from collections.abc import Callable

# So long the process must have been at rest: less than a tenth of a core.
REST_SECONDS = 5.0
MOST_AT_REST = 0.5
# What freed nothing to speak of: less work than this, in seconds of a core.
LEAST_WORK = 0.5


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

    def watch(self, used: float, now: float) -> Callable[[], object] | None:
        """What is to be called now, which is nothing as a rule."""
        if now < self._next:
            return None
        self._next = now + REST_SECONDS
        at_rest, self._seen = used - self._seen < MOST_AT_REST, used
        if not at_rest or used - self._given < LEAST_WORK:
            return None
        self._given = used
        return self._give_back
