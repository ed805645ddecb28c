"""How a connection ends: the client gets to read its last answer, whatever it is still sending.

A socket that is closed while bytes arrive is reset, and the reset may overtake the answer. So the server says that it
has ended, goes on reading what it no longer heeds, and closes when the client does or has had the time (RFC 9112, 9.6).
"""

import asyncio
from typing import Any, cast

from service.api.polite import Polite
from service.api.slow_readers import Watching

# How long a client whose last answer was written may go on sending before its connection is closed all the same.
LINGER_SECONDS = 1.0
# How many times the largest body a client may go on sending after it was refused.
MOST_DISCARDED = 8


class Ending(Watching):
    """A connection that has a last answer.

    `in_head` is true from a request's first byte to the end of its header, `in_message` to the end of its body.
    Once a connection is `over`, no request that begins is answered; once it is `deaf`, nothing that arrives is read.
    While `hearing_out`, it waits for the rest of a body that was answered before its end.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.in_head = self.in_message = False
        self.over = self.deaf = self.hearing_out = False
        self.discarded = 0
        self.linger_timer: asyncio.TimerHandle | None = None

    def is_idle(self) -> bool:
        """Whether no request waits for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def is_arriving(self) -> bool:
        """Whether a request has begun that is not complete."""
        return self.in_head or self.in_message

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_lingering()
        super().connection_lost(exc)

    def drain(self) -> None:
        """The server is about to stop: an answer that has not begun says that it is the last one here."""
        if not self.is_idle() and not self.cycle.response_started:
            self.make_last()

    def shutdown(self) -> None:
        """The server stops: what is under way is the last here. A connection that rests is ended but not closed at
        once, for a request that is on its way would be answered with a reset."""
        if not self.is_idle():
            self.make_last()
        else:
            self.end()

    def make_last(self) -> None:
        """End the connection once the request under way is answered."""
        self.over = True
        self.deaf |= self.in_head  # what arrives is another request, behind the last one
        self.cycle.keep_alive = False

    def be_polite(self) -> None:
        """Let the answer to the request that has just begun end the connection in good order, if it does."""
        self.cycle.transport = cast(asyncio.Transport, Polite(self))

    def close_politely(self) -> None:
        """End the connection, its last answer being written: when what is left of the request has been heard, but not
        where it was the app that made it the last, for then the rest is what it would not wait for; unless it says so.
        """
        self.over |= "hear_out" in self.scope
        if self.over and self.in_message and not self.deaf and not self.transport.is_closing():
            self.hearing_out = True
            self.transport.write_eof()
            self.linger(self.configuration.settings.body_idle_seconds)
        else:
            self.end()

    def end(self) -> None:
        """Say no more, heed nothing more, and close when the client has had the time to read."""
        self.over = self.deaf = True
        self.pipeline.clear()
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.flow.resume_reading()
            self.stop_lingering()
            self.linger(LINGER_SECONDS)

    def discard(self, count: int) -> None:
        """Drop what arrives of a body that was answered unread, so that the client gets to read why; not for ever."""
        settings = self.configuration.settings
        self.discarded += count
        if self.discarded > MOST_DISCARDED * settings.body_bytes:
            self.over = True
            self.close()
        else:
            self.linger(settings.body_idle_seconds)

    def linger(self, seconds: float) -> None:
        """Close after so long, unless a time has been set before."""
        if self.linger_timer is None:
            self.linger_timer = self.loop.call_later(seconds, self.close)

    def stop_lingering(self) -> None:
        if self.linger_timer is not None:
            self.linger_timer.cancel()
            self.linger_timer = None
