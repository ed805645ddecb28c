"""Several server processes on one port: started, replaced when they die, stopped together (POSIX only)."""

import logging
import mmap
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
# One that lived less than this is not replaced in a hurry: it may be killed again and again, for lack of memory.
FIRST_SECONDS = 2.0
PAUSE_SECONDS = 0.5
# How many may be killed before any has come to serve.
MOST_KILLED = 5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
log = logging.getLogger("posenc.workers")


class Served:
    """Whether any worker has come to serve: one byte that they share with their parent."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    def note(self) -> None:
        """To be called by a worker that serves."""
        self._shared[0] = 1

    def __bool__(self) -> bool:
        return self._shared[0] == 1


@dataclass(frozen=True, slots=True)
class Started:
    """A worker under way: which one it is, counted from 0, and since when."""

    number: int
    at: float


def supervise(
    count: int, work: Callable[[int], int], grace_seconds: float, sockets: Sequence[socket], served: Served
) -> int:
    """Keep `count` processes running `work` until a stop signal; return 0, or 1 if one could not start.

    `work` is told which worker it is, from 0. The sockets are those that the workers listen on: as this process holds
    them too, who waits at one is kept while its worker is replaced.
    """
    return Supervisor(work, grace_seconds, sockets, served).run(count)


class Supervisor:
    """The parent process: it holds the listening sockets and the workers, and answers no request itself."""

    def __init__(
        self, work: Callable[[int], int], grace_seconds: float, sockets: Sequence[socket], served: Served
    ) -> None:
        self.work = work
        self.sockets = sockets
        self.grace_seconds = grace_seconds
        self.served = served
        self.started: dict[int, Started] = {}
        self.killed = 0
        self.stopping = False
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
        """Wait for a worker to end; put another in its place unless it was asked to, or none can serve."""
        pid, status = os.wait()
        # The first process of a container also inherits children that it did not start.
        started = self.started.pop(pid, None)
        if started is None or self.stopping:
            return
        lived = time.monotonic() - started.at
        code = os.waitstatus_to_exitcode(status)
        log.error("worker %d ended after %.1f s (exit %d)", pid, lived, code)
        if not self.served and not self._can_be_replaced(code):
            self.result = FAILED
            self.stopping = True
            self.send(signal.SIGTERM)
            return
        if lived < FIRST_SECONDS:
            time.sleep(PAUSE_SECONDS)
        if not self.stopping:
            self.start(started.number)

    def _can_be_replaced(self, code: int) -> bool:
        """One that ended by itself before any served would do so again; one that was killed perhaps would not."""
        self.killed += 1
        return code < 0 and self.killed <= MOST_KILLED


def stop_at_end_of(pipe: int) -> None:
    """Stop this process, in good order, when the process at the other end of the pipe has ended."""
    os.read(pipe, 1)
    log.error("the parent process has ended")
    os.kill(os.getpid(), signal.SIGTERM)
