"""One line for each request in the log: which of them, and what it says.

Of the address only the path, cut short and with what is no plain letter escaped: a query may hold what its sender
should not have put there, and a line is one line whatever was sent.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from service.access import redacted
from service.api.meters import Account

if TYPE_CHECKING:
    from service.api.gate import Admitted

Which = Literal["off", "misses", "all"]

MOST_PATH = 256
MOST_METHOD = 16
# What probes and scrapers ask for every second says something only where it is refused.
QUIET = frozenset(("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready", "/metrics"))

log = logging.getLogger("posenc.access")


class AccessLog:
    """`misses` are the requests whose answer had to be made, or was refused; `all` has repeated answers too."""

    def __init__(self, which: Which, client_of: Callable[[Scope], str | None]) -> None:
        self.which = which
        self.client_of = client_of
        self.has_hits = which == "all"

    def write(self, account: Account, admitted: "Admitted", target: bytes, scope: Scope) -> None:
        """The line of a request, if it has one; of the scope only the client and the headers are looked at."""
        if self.which == "off" or (self.which == "misses" and _is_quiet(account)):
            return
        if log.isEnabledFor(logging.INFO):
            fields = fields_of(account, admitted, target, self.client_of(scope))
            log.info("%s %s %s", fields["method"], fields["path"], fields["status"], extra={"fields": fields})


def _is_quiet(account: Account) -> bool:
    return account.way == "repeated" or (account.route in QUIET and account.status == 200)


def fields_of(account: Account, admitted: "Admitted", target: bytes, client: str | None) -> dict[str, object]:
    """What a line says beside time, level and message. What is not known is not there."""
    fields: dict[str, object] = {
        **request_fields(admitted),
        "method": account.method[:MOST_METHOD],
        "path": shown(target),
        "status": account.status,
        "duration": round(account.seconds, 6),
        "bytes": account.size,
        "client": client,
        "way": account.way,
        "problem": account.problem or None,
        "complete": None if account.complete else False,
    }
    return {name: value for name, value in fields.items() if value is not None}


def request_fields(admitted: "Admitted") -> dict[str, object]:
    """Which request a line is about."""
    fields: dict[str, object] = {"request_id": admitted.request_id.decode("ascii")}
    if admitted.trace is not None:
        trace = admitted.trace
        fields |= {"trace_id": trace.trace_id, "span_id": trace.span_id, "parent_id": trace.parent_id}
        fields |= {"tracestate": trace.state} if trace.state else {}
    return fields


def shown(target: bytes) -> str:
    """The path of a target as it was sent, percent signs and all.

    >>> shown(b"/v1/encodings/rope?key=secret"), shown(b"/a" + b"\\n")
    ('/v1/encodings/rope', '/a\\\\x0a')
    """
    path = target.partition(b"?")[0]
    plain = unquote_to_bytes(path).decode("latin-1")
    if redacted(plain) != plain:
        path = redacted(plain).encode("latin-1")
    text = "".join(chr(byte) if 32 < byte < 127 else f"\\x{byte:02x}" for byte in path[:MOST_PATH])
    return text if len(path) <= MOST_PATH else text + "..."
