"""Several server processes on one port: started, replaced when they die, stopped together (POSIX only)."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from socket import socket
from types import FrameType

DONE, FAILED = 0, 1
# Where no worker has lived so long, none can serve, and starting another would not help.
FIRST_SECONDS = 2.0
# How long one that lived less than that is not replaced, when others have lived longer.
PAUSE_SECONDS = 0.5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
log = logging.getLogger("posenc.workers")


@dataclass(frozen=True, slots=True)
class Started:
    """A worker under way: which one it is, counted from 0, and since when."""

    number: int
    at: float


def supervise(count: int, work: Callable[[int], int], grace_seconds: float, sockets: Sequence[socket] = ()) -> int:
    """Keep `count` processes running `work` until a stop signal; return 0, or 1 if one could not start.

    `work` is told which worker it is, from 0. The sockets are those that the workers listen on: as this process holds
    them too, who waits at one is kept while its worker is replaced.
    """
    return Supervisor(work, grace_seconds, sockets).run(count)


class Supervisor:
    """The parent process: it holds the listening sockets and the workers, and answers no request itself."""

    def __init__(self, work: Callable[[int], int], grace_seconds: float, sockets: Sequence[socket] = ()) -> None:
        self.work = work
        self.sockets = sockets
        self.grace_seconds = grace_seconds
        self.started: dict[int, Started] = {}
        self.stopping = False
        self.proven = False
        self.result = DONE
        self.lifeline = (-1, -1)

    def run(self, count: int) -> int:
        before = {sig: signal.signal(sig, self.stop) for sig in STOP_SIGNALS}
        # Nobody writes into it: its workers read its end when this process ends, however that comes about.
        self.lifeline = os.pipe()
        try:
            for number in range(count):
                self.start(number)
            while self.started:
                self.reap()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
            for end in self.lifeline:
                os.close(end)
        return self.result

    def start(self, number: int) -> None:
        # Blocked, so that no signal falls between the fork and the note of the new process.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._become_worker(number)  # pragma: no cover - only the child comes here
        self.started[pid] = Started(number, time.monotonic())
        if self.stopping:  # another thread took the signal between the fork and this note
            os.kill(pid, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _become_worker(self, number: int) -> None:  # pragma: no cover - runs in the child, which ends without unwinding
        for sig in STOP_SIGNALS:
            signal.signal(sig, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        reading, writing = self.lifeline
        os.close(writing)
        threading.Thread(target=stop_at_end_of, args=(reading,), daemon=True).start()
        code = FAILED
        try:
            code = self.work(number)
        finally:
            logging.shutdown()
            os._exit(code)

    def stop(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Pass the signal on; the first one also sets the time by which every worker has ended."""
        if not self.stopping:
            self.stopping = True
            signal.signal(signal.SIGALRM, self.kill)
            signal.setitimer(signal.ITIMER_REAL, self.grace_seconds + 2)
            for opened in self.sockets:  # or clients would wait at a port where nobody listens any more
                opened.close()
        self.send(sig)

    def kill(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.result = FAILED
        self.send(signal.SIGKILL)

    def send(self, sig: int) -> None:
        for pid in self.started:
            with suppress(ProcessLookupError):  # it has just been waited for, and not been struck off
                os.kill(pid, sig)

    def reap(self) -> None:
        """Wait for a worker to end; put another in its place unless it was asked to, or none ever served."""
        pid, status = os.wait()
        # The first process of a container also inherits children that it did not start.
        started = self.started.pop(pid, None)
        if started is None or self.stopping:
            return
        lived = time.monotonic() - started.at
        code = os.waitstatus_to_exitcode(status)
        log.error("worker %d ended after %.1f s (exit %d)", pid, lived, code)
        now = time.monotonic()
        self.proven = self.proven or max([lived, *(now - each.at for each in self.started.values())]) >= FIRST_SECONDS
        if not self.proven:
            self.result = FAILED
            self.stopping = True
            self.send(signal.SIGTERM)
            return
        if lived < FIRST_SECONDS:  # killed, for instance; if it comes again and again, not in a hurry
            time.sleep(PAUSE_SECONDS)
        if not self.stopping:
            self.start(started.number)


def stop_at_end_of(pipe: int) -> None:
    """Stop this process, in good order, when the process at the other end of the pipe has ended."""
    os.read(pipe, 1)
    log.error("the parent process has ended")
    os.kill(os.getpid(), signal.SIGTERM)
