"""The transport as the answer to a request sees it."""

import os
from asyncio import Transport
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.ending import Ending

# A small body is copied behind its header: one piece is written with less ado than two.
JOINED_BYTES = 16384
# A transport holds smaller pieces until the loop has a moment; what is larger it hands to the system at once.
HELD_BYTES = 65536


class Polite:
    """A transport whose close waits for the rest of the request, and that writes a header along with what follows it.

    A proxy that got a header alone before this process ended could not ask another replica.

    Large pieces that follow one another go straight to the socket while it takes them: the transport's own call keeps
    the interpreter's lock, and copying a megabyte to the system takes as long as computing it.
    """

    def __init__(self, connection: "Ending") -> None:
        self.transport = connection.transport
        self.is_closing = connection.transport.is_closing
        self.close = connection.close_politely
        self.head = b""
        self.holding = False
        # Whether the last piece was large: then the transport holds nothing that its size does not tell of.
        self._told = False

    def hold(self) -> None:
        """Keep what is written next, a header, for what is written after it."""
        self.holding = True

    def release(self) -> None:
        """Nothing is written after it."""
        if self.head:
            self.transport.write(self.head)
            self.head = b""

    def write(self, data: bytes) -> None:
        head = self.head
        if self.holding:
            self.head, self.holding = data, False
            return
        large = len(data) > HELD_BYTES
        if head:
            self.head = b""
            write_joined(self.transport, head, data)
        else:
            taken = self._taken(data) if large and self._told and not self.transport.get_write_buffer_size() else 0
            if taken < len(data):
                self.transport.write(data[taken:])
        self._told = large

    def _taken(self, data: bytes) -> int:
        """How many of these bytes the socket takes at once; whatever is wrong with it, the transport finds out."""
        try:
            return os.write(self.transport.get_extra_info("socket").fileno(), data)
        except OSError:
            return 0


def write_joined(transport: Transport, head: bytes, *body: bytes) -> None:
    """One write, whatever the size."""
    if sum(map(len, body)) <= JOINED_BYTES:
        transport.write(b"".join((head, *body)))
    else:
        transport.writelines((head, *body))
