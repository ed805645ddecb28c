"""Refusals of requests that the app does not get to see: each in its turn, and the last thing on its connection."""

import asyncio
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.api.door import NOTED, noted_in
from service.api.early import to_bytes
from service.api.gate import Gate
from service.api.meters import UNROUTED, Account
from service.api.problems import Problem
from service.api.repeating import Repeating

# The method of what was refused before one was read.
UNREAD = "-"


class Refusing(Repeating):
    """A connection on which a request may be refused while it arrives.

    `answered` is the request whose answer is under way, `cycle` the newest; `passed_on` says whether the newest has
    gone on to be answered, and `due` is a refusal whose turn comes after the answers before it. `line` is the beginning
    of a request whose method the parser does not know.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.settings = self.configuration.settings
        self.url = self.line = b""
        self.passed_on = False
        self.due: Problem | None = None
        self.answered: RequestResponseCycle | None = None
        self.head_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answered is not None:
            # uvicorn tells the newest request alone, which may be waiting for its turn behind this one.
            self.answered.disconnected = True
            self.answered.message_event.set()
        super().connection_lost(exc)

    def stop_head_timer(self) -> None:
        """A header is no longer waited for."""
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def refuse(self, problem: Problem) -> None:
        """Answer, then listen no more; answers that are under way are not disturbed."""
        self.deaf = True
        self.stop_head_timer()
        if self.transport.is_closing():
            return
        if self.is_idle() and self.in_message and self.passed_on:
            self.end()  # the fault is in the body of a request that has its answer already
        elif self.is_idle():
            self._answer(problem)
        elif not self.cycle.more_body:
            # The fault is in the next request: its turn comes after the answers to those before it.
            self.due = problem
        elif self.pipeline:
            self.pipeline.popleft()  # this request, which waits for its turn itself
            self.due = problem
        elif not self.cycle.response_started:
            self._abandon_cycle()
            self._answer(problem)
        else:
            self.close()  # in the middle of an answer

    def on_response_complete(self) -> None:
        last = not self.pipeline
        self.answered = None if last else self.pipeline[-1][0]
        super().on_response_complete()
        if not last or self.transport.is_closing():
            return
        if self.due is not None:
            self._answer(self.due)
        elif self.in_message and not self.in_head:
            # Answered before its body was there: what is left of that is not waited for without end.
            self.linger(self.settings.body_idle_seconds)

    def _abandon_cycle(self) -> None:
        """The app hears that the client left; what it says to that is not the answer."""
        cast(Scope, self.cycle.scope)["abandoned"] = True
        self.cycle.disconnected = True
        self.cycle.message_event.set()

    def _answer(self, problem: Problem) -> None:
        # What was begun is not always complete, and between two requests there is none.
        begun = self.in_head or self.in_message
        gate = Gate() if self.door is None else self.door.gate
        admitted = gate.identify(noted_in(self.headers, NOTED | gate.noted) if begun else {})
        method = self.parser.get_method().decode("ascii") if begun and self.url and not self.line else UNREAD
        target, headers = self.url if begun else b"", self.server_state.default_headers
        answer = to_bytes(problem, admitted, headers, target, bodiless=method == "HEAD")
        self.transport.write(answer)
        size = len(answer.partition(b"\r\n\r\n")[2])
        account = Account("early", UNROUTED, method, problem.status, 0.0, size, problem.slug)
        gate.answered(account, admitted, target, {"client": self.client, "headers": self.headers if begun else []})
        self.end()

    def end(self) -> None:
        self.due = None
        self.stop_head_timer()
        super().end()
