"""What every request passes, whether its answer is ready or has to be made: its id, its trace, the checks, the counts.

    admit       before anything is looked up, parsed or computed; a check that refuses gives the problem
    answered    once the answer was sent

Every way through the door calls these two, so whatever guards, measures or logs one does so with the others.
"""

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import Scope

from service.api.access_log import AccessLog
from service.api.meters import Account, Meters, Way
from service.api.problems import Problem
from service.api.traces import Trace, trace_of

if TYPE_CHECKING:
    from service.api.cors import Cors

Noted = Mapping[bytes, bytes]
Check = Callable[[Scope, Noted], Problem | None]

_REQUEST_ID = re.compile(rb"(?!.*posenc_)[A-Za-z0-9._:-]{1,64}", re.ASCII)

# What every answer says: that its type is what it says, and that any page may show it (a picture, say), for it holds
# nothing of whoever asks; what a page may read is a matter of CORS.
GUARDS = b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: cross-origin\r\n"
# The fields that checks and CORS look at; with neither they are not even noted.
CHECKED = frozenset((b"access-control-request-method", b"authorization", b"host", b"origin", b"x-forwarded-for"))


def path_of(scope: Scope) -> str:
    """The path below the prefix that a proxy strips; none of a repeated request, whose path was not parsed."""
    path: str = scope.get("path", "")
    return path.removeprefix(scope.get("root_path", ""))


# Not frozen: setting what is frozen takes three times as long, and there is one of these for every request.
@dataclass(slots=True)
class Admitted:
    """A request that was looked at: its id, why it is refused, if it is, the header lines of any answer to it, and the
    trace that it belongs to."""

    request_id: bytes
    problem: Problem | None
    lines: bytes
    trace: Trace | None


class Gate:
    """One for the process.

    `checks` are asked in order, and the first problem stands; of a repeated request's scope they see the method, the
    headers and the client, for its path was not parsed. Where the holders of keys alone may ask (`keyed`), no cache
    that others share may keep answers.
    """

    def __init__(self, *checks: Check, cors: "Cors | None" = None, keyed: bool = False) -> None:
        self.checks = checks
        self.meters = Meters()
        self.access_log = AccessLog("off", lambda _: None)
        self.cors = cors
        self.keyed = keyed
        self.noted = CHECKED if checks or cors else frozenset()
        self.always = GUARDS + (cors.always if cors else b"")
        self._lines = self.always + b"x-request-id: "
        self._prefix = os.urandom(6).hex().encode()
        self._numbers = itertools.count(1)

    def answered(self, account: Account, admitted: Admitted, target: bytes, scope: Scope) -> None:
        """Called once for every answer; of a repeated one that nobody logs the meters alone are told."""
        self.meters.answered(*account[:6])
        if account.problem:
            self.meters.refusals[account.problem] += 1
        self.access_log.write(account, admitted, target, scope)

    @property
    def counts(self) -> Counter[tuple[Way, int]]:
        """The number of answers by way and status: `repeated` from the cache of replies, `made` by the app, `early`
        refused before that was asked."""
        counts: Counter[tuple[Way, int]] = Counter()
        for (way, _, _, status), answers in list(self.meters.answers.items()):
            counts[way, status] += answers.times.count
        return counts

    def admit(self, scope: Scope, noted: Noted) -> Admitted:
        """Called once for every request."""
        admitted = self.identify(noted)
        for check in self.checks:
            problem = check(scope, noted)
            if problem is not None:
                admitted.problem = problem
                break
        return admitted

    def identify(self, noted: Noted) -> Admitted:
        """The request's id and its trace; nothing is checked."""
        given, parent = noted.get(b"x-request-id"), noted.get(b"traceparent")
        # The caller's own id if it is a plain one and no key; otherwise one that no other request of any process has.
        known = given is not None and _REQUEST_ID.fullmatch(given)
        request_id = given if given is not None and known else b"%s-%x" % (self._prefix, next(self._numbers))
        lines = b"%s%s\r\n" % (self._lines, request_id)
        if self.cors is not None:
            lines = self.cors.lines(noted) + lines
        trace = None if parent is None else trace_of(parent, noted.get(b"tracestate"))
        if trace is not None:
            lines += b"traceresponse: %s\r\n" % trace.response
        return Admitted(request_id, None, lines, trace)

    def kept_by(self, lines: bytes) -> bytes:
        """An answer's header lines, in which caches are told whether they may keep it for others."""
        return lines.replace(b"cache-control: public,", b"cache-control: private,", 1) if self.keyed else lines
