"""CORS (the Fetch standard): which pages may read answers. Never with credentials, for there are none but keys.

One origin, or all, are named in every answer, so that caches need not tell origins apart; of several, the one that
asks, and `Vary` says so.
"""

from collections.abc import Sequence

from starlette.types import Scope

from service.api.caching import RawHeaders
from service.api.gate import Noted

# What a page may send and read beyond what Fetch allows anyway.
SENT = (
    "Authorization, Content-Type, If-Match, If-None-Match, If-Range, Inference-Header-Content-Length, Range, "
    "traceparent, tracestate, X-Request-ID"
)
READ = (
    "Accept-Ranges, Array-Dtype, Array-Shape, Content-Disposition, Content-Encoding, Content-Range, ETag, "
    "Inference-Header-Content-Length, Retry-After, Server-Timing, X-Request-ID"
)
KEPT_SECONDS = 600


class Cors:
    """What answers say to the pages of these origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(each.encode() for each in origins)
        self._exposed = f"access-control-expose-headers: {READ}\r\n".encode()
        self.always = b"vary: Origin\r\n"
        if len(origins) == 1:
            self.always = b"access-control-allow-origin: " + origins[0].encode() + b"\r\n" + self._exposed

    def lines(self, noted: Noted) -> bytes:
        """The lines of an answer that depend on who asks."""
        origin = noted.get(b"origin", b"")
        if len(self._origins) == 1 or origin not in self._origins:
            return b""
        return b"access-control-allow-origin: " + origin + b"\r\n" + self._exposed

    @staticmethod
    def is_preflight(scope: Scope, noted: Noted) -> bool:
        """Whether a browser asks if it may ask."""
        method: str = scope["method"]
        return method == "OPTIONS" and b"access-control-request-method" in noted

    @staticmethod
    def preflight() -> RawHeaders:
        """What is sent with 204, beside the lines of every answer."""
        return [
            (b"access-control-allow-methods", b"GET, HEAD, POST"),
            (b"access-control-allow-headers", SENT.encode()),
            (b"access-control-max-age", b"%d" % KEPT_SECONDS),
            (b"cache-control", b"no-store"),
        ]
