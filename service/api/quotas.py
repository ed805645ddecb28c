"""How often a client may ask: a bucket of tokens for each, which fills again at an even rate.

Of a bucket one number is kept, the time at which it will be full: a bucket of `burst` tokens that is full within
`burst / rate` seconds has one left. A full one need not be kept at all, so those of the clients that asked last are
enough, and there is a bound on them.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from service.api.problems import Problem

MOST_CLIENTS = 1 << 16  # some 12 MB
# What adding up fractions of a second may be off by.
ROUNDING = 1e-6


class Quota:
    """One for a process: several workers each count for themselves.

    >>> quota = Quota(rate=2, burst=3, clock=lambda: 0.0)
    >>> [quota.wait("a") for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    """

    def __init__(
        self, rate: float, burst: int, most: int = MOST_CLIENTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._step = 1 / rate
        self._span = burst / rate
        self._most = most
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    @property
    def clients(self) -> int:
        """Of how many something is kept."""
        return len(self._full_at)

    def wait(self, client: str) -> float:
        """Take a token of the client's; the seconds until there is one, if there is none."""
        now = self._clock()
        full_at = self._full_at.get(client, now)
        after = max(full_at, now) + self._step
        late = after - now - self._span
        if late <= ROUNDING:
            full_at, late = after, 0.0
        self._full_at[client] = full_at
        self._full_at.move_to_end(client)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return late

    def refusal(self, client: str) -> Problem | None:
        """429 with the seconds to wait."""
        late = self.wait(client)
        if not late:
            return None
        seconds = str(math.ceil(late))
        told = f"this client asks more than {1 / self._step:g} times a second: ask again after {seconds} s"
        return Problem("too-many-requests", told, headers={"Retry-After": seconds})
