"""One request of `posenc get` put to a server that runs elsewhere, and how far its answer has come."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, TextIO

import httpx

from service.inprocess import BLOCK, Answer, Request

SECONDS = 60.0
BAR, EVERY = 24, 0.1  # characters, and seconds between two drawings
MIB = 1 << 20


class Unreachable(Exception):
    """No server answered: a later try may meet one."""


def ask(server: str, request: Request, reply: Answer, sink: Callable[[bytes], None], key: str = "") -> None:
    """Put the request to `server`, with a key if it wants one; the body of a success goes to `sink` as it arrives."""
    # The address as it was made: it is quoted already.
    target = request.path + (f"?{request.query}" if request.query else "")
    headers = {name.decode(): value.decode() for name, value in request.headers() if name != b"host"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        with httpx.stream(
            request.method,
            server.rstrip("/") + target,
            headers=headers,
            content=None if request.body is None else _parts(request.body),
            timeout=SECONDS,
        ) as response:
            raw = [(name.lower(), value) for name, value in response.headers.raw]
            reply.take({"type": "http.response.start", "status": response.status_code, "headers": raw}, sink)
            for part in response.iter_raw():
                reply.take({"type": "http.response.body", "body": part, "more_body": True}, sink)
            reply.take({"type": "http.response.body", "body": b""}, sink)
    except httpx.TransportError as error:
        if reply.status == 0:
            raise Unreachable(f"{server}: {error or type(error).__name__}") from None
        # The answer broke off: `reply` is not complete, which its reader sees.


def _parts(body: BinaryIO) -> Iterator[bytes]:
    while part := body.read(BLOCK):
        yield part


class Progress:
    """A line that tells how much has come, drawn over itself; on a terminal only, and gone when all is there."""

    def __init__(self, stream: TextIO, reply: Answer, wanted: bool) -> None:
        self.stream = stream
        self.reply = reply
        self.drawn = 0.0
        self.shown = wanted and stream.isatty()

    def update(self) -> None:
        """Draw, unless that was done a moment ago."""
        now = time.monotonic()
        if self.shown and now - self.drawn >= EVERY:
            self.drawn = now
            self._write(f"\r{line(self.reply.received, self.reply.expected)}\x1b[K")

    def clear(self) -> None:
        if self.drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that went away is no reason to lose the answer
            self.stream.write(text)
            self.stream.flush()


def line(received: int, expected: int | None) -> str:
    """How far it is.

    >>> line(3 << 20, 4 << 20)
    ' 75 % [##################      ] 3.0 of 4.0 MiB'
    >>> line(3 << 20, None)
    '3.0 MiB'
    """
    if not expected:
        return f"{received / MIB:.1f} MiB"
    full = min(received, expected) * BAR // expected
    return (
        f"{100 * received // expected:3d} % [{'#' * full}{' ' * (BAR - full)}] "
        f"{received / MIB:.1f} of {expected / MIB:.1f} MiB"
    )


def is_terminal(name: str, standard: str) -> bool:
    """Whether the answer itself goes to a terminal, where a bar would be in its way."""
    return name == standard and os.isatty(1)
