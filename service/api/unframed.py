"""Answers to HTTP/1.0, which knows no chunks: a body of unknown length ends with its connection (RFC 9112, 6.3)."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Unframed(RequestResponseCycle):
    """A request and its answer, as uvicorn has them but for the chunks that it would send to any client."""

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
