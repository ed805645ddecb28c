"""The transport as the answer to a last request sees it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.ending import Ending


class Polite:
    """A transport whose close waits for the rest of the request."""

    def __init__(self, connection: "Ending") -> None:
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing
        self.close = connection.close_politely
