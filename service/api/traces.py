"""W3C trace context: the caller's trace goes on into the log and the answer; no trace is begun here.

    traceparent      00-{trace id, 32 hex digits}-{span id of the caller, 16}-{flags, 2}; what is not well formed is
                     ignored, and so is a tracestate without one
    traceresponse    the same trace id and sampled flag, and the id of this request's span: that of its log line

`traceresponse` is the W3C draft's. The service calls nobody, so there is nowhere else to pass a trace on to.
"""

import re
from random import getrandbits
from typing import NamedTuple

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^,]*)?", re.ASCII)
_STATE = re.compile(rb"[\x20-\x7e\t]{1,512}")
SAMPLED = 1


class Trace(NamedTuple):
    """A trace that a request belongs to; `span_id` is the request's own."""

    trace_id: str
    parent_id: str
    span_id: str
    sampled: bool
    state: str

    @property
    def response(self) -> bytes:
        """The value of traceresponse."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}".encode()


def trace_of(parent: bytes, state: bytes | None) -> Trace | None:
    """The trace that the header fields name, if they do.

    >>> found = trace_of(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"vendor=1")
    >>> found.trace_id, found.parent_id, found.sampled, found.state
    ('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331', True, 'vendor=1')
    >>> trace_of(b"00-00000000000000000000000000000000-b7ad6b7169203331-01", None) is None
    True
    """
    match = _PARENT.fullmatch(parent)
    if match is None:
        return None
    version, trace_id, parent_id, flags, rest = match.groups()
    # Version ff is forbidden; only those after 00 may say more.
    if version == b"ff" or (version == b"00" and rest) or not trace_id.strip(b"0") or not parent_id.strip(b"0"):
        return None
    kept = state.decode("ascii") if state is not None and _STATE.fullmatch(state) else ""
    span_id = f"{getrandbits(64) or 1:016x}"
    return Trace(trace_id.decode(), parent_id.decode(), span_id, bool(int(flags, 16) & SAMPLED), kept)
