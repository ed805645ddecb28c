"""What arrives, given to the parser, which tells neither where it stopped nor what of."""

import re
from collections.abc import Callable
from typing import Any, NoReturn, cast

import httptools
from starlette.types import Scope

from service.api.chunks import Chunks
from service.api.early import not_http, too_large_chunk, wrong_method
from service.api.problems import Problem
from service.api.refusing import Refusing
from service.api.request_line import path_in, target_and_fault
from service.api.upgrades import written_plain

# How a header ends, and so does a body in chunks.
END = b"\r\n\r\n"
# What is not the empty lines that may be between two requests.
SAID = re.compile(rb"[^\r\n]")
# So many lines are looked at.
MOST_ENDS = 64
# What the parser says of a method that other protocols have.
FOREIGN = "Invalid method for"
# And of a size with more than 64 bits.
OVERFLOW = "Chunk size overflow"
# What addresses take that are not known.
METHODS = "GET, HEAD, OPTIONS, POST"


class RefusedError(Exception):
    """Unwinds the parser after a refusal has been noted."""


class Feeding(Refusing):
    """A connection that knows where requests begin.

    `start` is what has arrived of a request's method, `tail` the end of what has of its header, `length` the declared
    length of its body, `coding` how that is cut in chunks.
    """

    def __init__(self, *given: Any) -> None:
        self.chunks = Chunks()  # the parser, which is made next, calls it
        super().__init__(*given)
        self.start = self.tail = self.coding = b""
        self.length = 0
        self.problem: Problem | None = None

    @property
    def on_chunk_complete(self) -> Callable[[], None]:
        """Called for each chunk: so that it takes no time, it is a list's own method."""
        return self.chunks.opened.clear

    def feed(self, data: bytes) -> None:
        """In pieces of which each has the end of one message at most; from within a body in chunks, all."""
        if self.line:
            self._read_line(self.line + data)
            return
        at = 0
        while at < len(data):
            is_coded = bool(self.in_message and self.coding and not self.in_head)
            end = len(data) if is_coded else self._end_of_piece(data, at)
            try:
                self.parser.feed_data(data if end - at == len(data) else memoryview(data)[at:end])
            except httptools.HttpParserUpgrade as upgrade:
                data, at = self._without_upgrade(data[at + upgrade.args[0] :]), 0
            except httptools.HttpParserInvalidMethodError:
                self._read_line(self._behind_chunks(data[at:]) if is_coded else self._begun(data, at))
                return
            else:
                if self.in_head and not self.url:
                    self.start = self._begun(data, max(at, data.rfind(b"\n") + 1) if is_coded else at)
                elif self.in_message and is_coded and self.chunks.look(data, at):
                    self._declare()
                at = end
        self.tail = (self.tail + data)[1 - len(END) :] if self.in_head else b""

    def _end_of_piece(self, data: bytes, at: int) -> int:
        if self.in_message and not self.in_head:
            return min(at + max(1, self.length - self.chunks.body), len(data))
        if self.tail and not at:
            for count in range(1, len(END)):
                if data.startswith(END[-count:]) and self.tail.endswith(END[:-count]):
                    self.tail = b""
                    return count
        if data[at] in b"\r\n":
            said = SAID.search(data, at)
            at = len(data) if said is None else said.start()
        found = data.find(END, at)
        return found + len(END) if found >= 0 else len(data)

    def _without_upgrade(self, rest: bytes) -> bytes:
        """What to read as if no upgrade had been asked for: Java's client asks for h2c in its first request."""
        version = self.parser.get_http_version().encode()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return written_plain(self.scope["method"].encode(), self.url, version, self.headers) + rest

    def _declare(self) -> None:
        """Let who reads the body know how large it will be, before more of it is there."""
        cast(Scope, self.cycle.scope)["declared"] = self.chunks.declared
        self.cycle.message_event.set()

    # A method that the parser does not know

    def _begun(self, data: bytes, at: int) -> bytes:
        """What there is of a request whose method has not ended by this piece, in which it began unless before."""
        return self.start + data[at:] if self.start else data[at:].lstrip(b"\r\n")

    def _behind_chunks(self, data: bytes) -> bytes:
        """What there is of a request behind a body in chunks, which ends as one of the first lines in it may do too."""
        at, text = 0, b""
        for _ in range(MOST_ENDS):
            text = data[at:].lstrip(b"\r\n")
            _, problem = target_and_fault(text, self.settings, self._methods)
            end = data.find(END, at)
            if end < 0 or problem is None or problem.slug != "bad-request":
                break
            at = end + len(END)
        return text

    def _read_line(self, text: bytes) -> None:
        """Refuse what begins so, once that tells why."""
        self.line = text
        self.url, problem = target_and_fault(text, self.settings, self._methods)
        if problem is not None:
            self.note(problem)

    def _methods(self, target: bytes) -> str:
        """Those that an address takes."""
        return (self.door and self.door.methods(path_in(target))) or METHODS

    # Problems

    def fault(self, error: Exception) -> Problem:
        """What is wrong where the parser stopped."""
        if str(error).startswith(FOREIGN):
            return wrong_method(self._methods(self.url))
        return too_large_chunk() if str(error).startswith(OVERFLOW) else not_http()

    def note(self, problem: Problem) -> NoReturn:
        """Leave the parser, to be refused."""
        self.problem = problem
        raise RefusedError
