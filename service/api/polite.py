"""The transport as the answer to a last request sees it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.protocol import Protocol


class Polite:
    """A transport whose close waits for the rest of the request."""

    def __init__(self, protocol: "Protocol") -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.close_politely
