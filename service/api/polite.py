"""The transport as the answer to a request sees it."""

from asyncio import Transport
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.ending import Ending

# A small body is copied behind its header: one piece is written with less ado than two.
JOINED_BYTES = 16384


class Polite:
    """A transport whose close waits for the rest of the request, and that writes a header along with what follows it.

    A proxy that got a header alone before this process ended could not ask another replica.
    """

    def __init__(self, connection: "Ending") -> None:
        self.transport = connection.transport
        self.is_closing = connection.transport.is_closing
        self.close = connection.close_politely
        self.head = b""
        self.holding = False

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
        elif not head:
            self.transport.write(data)
        else:
            self.head = b""
            write_joined(self.transport, head, data)


def write_joined(transport: Transport, head: bytes, *body: bytes) -> None:
    """One write, whatever the size."""
    if sum(map(len, body)) <= JOINED_BYTES:
        transport.write(b"".join((head, *body)))
    else:
        transport.writelines((head, *body))
