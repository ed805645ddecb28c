"""Requests and their answers, as uvicorn has them but for what it sends in vain, in pieces, or in chunks to anyone."""

from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.api.polite import Polite


class Cycle(RequestResponseCycle):
    """Nothing is sent to a connection that is closing: the transport would refuse that with an error. And a header goes
    along with the first of the body."""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.transport.is_closing():
            self.disconnected = True
        elif message["type"] == "http.response.start":
            if self.waiting_for_100_continue and self.more_body and not self.body:
                # Whether the body or another request comes next, nobody knows (RFC 9110, 10.1.1).
                self.keep_alive = False
            cast(Polite, self.transport).hold()
        elif self.scope["method"] == "HEAD":
            cast(Polite, self.transport).release()
        await super().send(message)


class Unframed(Cycle):
    """To HTTP/1.0, which knows no chunks: a body of unknown length ends with its connection (RFC 9112, 6.3)."""

    unknown = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            names = [name.lower() for name, _ in message["headers"]]
            self.unknown = b"content-length" not in names
            if self.unknown:
                self.chunked_encoding = False
        elif message["type"] == "http.response.body" and self.unknown:
            # What is left to send is what comes now, as uvicorn counts it.
            self.expected_content_length = len(message["body"])
        await super().send(message)
