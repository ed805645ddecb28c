"""What every request passes, whether its answer is ready or has to be made: its id, the checks, the counts.

    admit    before anything is looked up, parsed or computed; a check that refuses gives the problem
    count    once the status is known

Both ways through the door call these two and nothing else, so whatever guards or measures one guards the other.
"""

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from starlette.types import Scope

from service.api.problems import Problem

Noted = Mapping[bytes, bytes]
Check = Callable[[Scope, Noted], Problem | None]
Way = Literal["repeated", "made", "early"]

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that was looked at: its id, and why it is refused, if it is."""

    request_id: bytes
    problem: Problem | None


class Gate:
    """One for the process.

    `checks` are asked in order, and the first problem stands; of a repeated request's scope they see the method, the
    headers and the client, for its path was not parsed. `counts` has the number of answers by way and status:
    `repeated` from the cache of replies, `made` by the app, `early` refused by the protocol.
    """

    def __init__(self, *checks: Check) -> None:
        self.checks = checks
        self.counts: Counter[tuple[Way, int]] = Counter()
        self._prefix = os.urandom(6).hex().encode()
        self._numbers = itertools.count(1)

    def admit(self, scope: Scope, noted: Noted) -> Admitted:
        """Called once for every request."""
        given = noted.get(b"x-request-id")
        # The caller's own id if it is a plain one; otherwise one that no other request of any process has.
        known = given is not None and _REQUEST_ID.fullmatch(given)
        request_id = given if given is not None and known else b"%s-%x" % (self._prefix, next(self._numbers))
        for check in self.checks:
            problem = check(scope, noted)
            if problem is not None:
                return Admitted(request_id, problem)
        return Admitted(request_id, None)

    def count(self, way: Way, status: int) -> None:
        """Called once for every answer."""
        self.counts[way, status] += 1
