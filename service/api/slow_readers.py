"""Clients that take their answer too slowly: they are cut, so that they do not hold memory and descriptors for ever."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.bodies import least_bytes

if TYPE_CHECKING:
    from service.api.configuration import Config

# Of SO_LINGER: on, for no time.
AT_ONCE = struct.pack("ii", 1, 0)


class Watching(HttpToolsProtocol):
    """A connection whose reader is timed from when what was written piles up until it is taken.

    Nothing more is written meanwhile, so what the reader took is what the pile lost: that of the transport and that of
    the kernel, which takes no more before a third of its own is gone. What the reader's kernel holds counts as taken,
    and the reader is given it before it hears of the cut.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.configuration = cast("Config", self.config)
        self.answer_idle_seconds = self.configuration.settings.answer_idle_seconds
        self.untaken = self.unread = 0
        self.reader_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def close(self) -> None:
        """Close once what was written is taken; a reader who does not take it is cut all the same."""
        self.transport.close()
        if self.reader_timer is None and self.transport.get_write_buffer_size():
            self._watch_reader()

    def _watch_reader(self) -> None:
        self.untaken = self.transport.get_write_buffer_size()
        self.unread = self.untaken + self._unsent()
        self.reader_timer = self.loop.call_later(self.answer_idle_seconds, self._look_at_reader)

    def _look_at_reader(self) -> None:
        taken = self.unread - self.transport.get_write_buffer_size() - self._unsent()
        if taken < least_bytes(self.answer_idle_seconds):
            self.reader_timer = None
            self._cut()
        else:
            self._watch_reader()

    def _unsent(self) -> int:
        """Bytes that the kernel holds for this reader, where it tells."""
        try:
            told = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError):
            return 0
        return int.from_bytes(told, sys.byteorder)

    def _cut(self) -> None:
        """Drop what the kernel holds for this reader too, which may be megabytes: it would go on offering them."""
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _stop_watching(self) -> None:
        if self.reader_timer is not None:
            self.reader_timer.cancel()
            self.reader_timer = None
