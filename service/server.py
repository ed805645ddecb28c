"""Runs the app under uvicorn: one process or several, a draining stop, exit code 0 after a clean one.

After SIGTERM `app.state.draining` is set (so that /health/ready answers 503) while connections are taken for
`drain_seconds` more; then the listener closes and running requests finish. Those that have not two seconds before the
end (or, of a short time, a fifth) are cut. After `grace_seconds`, all told, the process ends, whatever still runs.
SIGINT, or a second signal, skips the draining; one more ends all waiting.
"""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn

from service.descriptors import Descriptors, unused
from service.heap import Heap, giving_back
from service.logs import configure_logging
from service.machine import cores, fitted, memory_bytes
from service.settings import Settings
from service.workers import Served, supervise

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from service.api.configuration import Config
    from service.api.protocol import Protocol

DONE, FAILED, REFUSED = 0, 1, 2
# How long a thread that computes keeps the interpreter from the one that answers.
SWITCH_SECONDS = 0.0005
# How long those who have connected have, after the last was let in, to be taken.
ENTERING_SECONDS = 0.05
# Linux: SO_ATTACH_FILTER, and BPF_RET | BPF_K, which with 0 keeps nothing of a packet.
ATTACH_FILTER, RETURN = 26, 0x06
log = logging.getLogger("posenc.server")


def serve(settings: Settings) -> int:
    """Listen and answer until a signal says stop; return the exit code."""
    configure_logging(settings)
    settings = fitted(settings, memory_bytes(), cores())
    try:
        doors = bind_for_each(settings)
    except socket.gaierror as error:
        print(f"posenc: --host (POSENC_HOST) is {settings.host}: {error.strerror}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        return _not_listening(settings, error)
    try:
        if settings.workers == 1:
            return work(settings, doors[0])
        import service.main  # noqa: F401 - once: a worker, and who replaces it, is a copy of this process

        sockets = [opened for door in doors for opened in door]
        served = Served()
        work_of = partial(one_of, settings, doors, served.note)
        return supervise(settings.workers, work_of, settings.grace_seconds, sockets, served)
    finally:
        for door in doors:
            close(door)


def one_of(
    settings: Settings, doors: Sequence[Sequence[socket.socket]], serving: Callable[[], None], number: int
) -> int:
    """Answer as one of several processes; the sockets of others are theirs to close, and must not stay open here."""
    own = doors[number % len(doors)]
    for door in doors:
        if door is not own:
            close(door)
    return work(settings, own, serving)


def close(door: Sequence[socket.socket]) -> None:
    for opened in door:
        opened.close()


def work(settings: Settings, sockets: Sequence[socket.socket], serving: Callable[[], None] = lambda: None) -> int:
    """Answer on the given sockets, and call `serving` once that is so: what every server process does."""
    from service.main import create_app

    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server(create_app(settings), settings, serving)
    # What there is by now stays: looking through it again and again would take a tenth of a second each time.
    gc.freeze()
    try:
        server.run(list(sockets))
    except OSError as error:
        return _not_listening(settings, error)
    log.info("stopped")
    return DONE


def _not_listening(settings: Settings, error: OSError) -> int:
    reason = error.strerror or error
    print(f"posenc: cannot listen on {settings.host}:{settings.port}: {reason}", file=sys.stderr)
    return FAILED


def bind(settings: Settings) -> list[socket.socket]:
    """Take the port for every address of the host, all the same one; `::` also takes IPv4.

    Nobody listens there yet: who comes before there is someone to answer is refused, and does not wait.
    """
    port = settings.port
    with ExitStack() as opening:
        sockets: list[socket.socket] = []
        for family, place in _addresses(settings.host):
            opened = opening.enter_context(socket.socket(family, socket.SOCK_STREAM))
            # Elsewhere it would let others have the port as well.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place != "::")
            opened.bind((place, port))
            port = opened.getsockname()[1]
            sockets.append(opened)
        opening.pop_all()
    return sockets


def bind_for_each(settings: Settings) -> list[list[socket.socket]]:
    """Take the port for every process: one list of sockets for each, or a single one that they share.

    Where several processes accept from one socket, whoever wakes first takes all who came at once, so that a pool of a
    few connections falls to one process. Linux divides who comes among sockets of one port, by a hash of the addresses.
    """
    first = bind(settings)
    if settings.workers == 1 or sys.platform != "linux":
        return [first]
    with ExitStack() as opening:
        for opened in first:
            share(opening.enter_context(opened))
        others = [[opening.enter_context(beside(opened)) for opened in first] for _ in range(1, settings.workers)]
        opening.pop_all()
    return [first, *others]


def share(opened: socket.socket) -> None:
    """Let further sockets of this process have the port of a bound one, and nobody else, who could before it listens.

    It must not be shared before it is bound: then the port of another server of the same user would not be found taken.
    """
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def beside(first: socket.socket) -> socket.socket:
    """Take the same address and port once more."""
    with ExitStack() as opening:
        opened = opening.enter_context(socket.socket(first.family, socket.SOCK_STREAM))
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            opened.setsockopt(socket.SOL_SOCKET, option, 1)
        if first.family == socket.AF_INET6:
            only = first.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        opened.bind(first.getsockname())
        share(opened)
        opening.pop_all()
    return opened


def _addresses(host: str) -> list[tuple[int, str]]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), str(place[0])) for family, _, _, _, place in found))


def address(opened: socket.socket) -> str:
    """Write a listening socket's address, such as `http://127.0.0.1:8000`."""
    place, port = opened.getsockname()[:2]
    return f"http://[{place}]:{port}" if ":" in place else f"http://{place}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server with a draining stop; no signal is raised again afterwards, so the process exits 0."""

    config: "Config"

    def __init__(self, app: "Starlette", settings: Settings, serving: Callable[[], None] = lambda: None) -> None:
        from service.api.configuration import Config

        super().__init__(Config(app, settings))
        self.app = app
        self.settings = settings
        self.serving = serving
        self.close_at: float | None = None
        self.listening: list[socket.socket] = []
        self.descriptors = Descriptors(None)
        self.heap = Heap(giving_back())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.should_exit:
            self.force_exit = True
            return
        first = self.close_at is None
        drain = self.settings.drain_seconds if first and sig == signal.SIGTERM else 0.0
        self.close_at = time.monotonic() + drain
        if first:
            self._start_stopping(drain)

    def _start_stopping(self, drain: float) -> None:
        self.app.state.draining = self.config.draining = True
        for connection in self._connections():
            connection.drain()
        left = self.settings.grace_seconds - drain
        # What is left is uvicorn's, but for the end, in which cancelled requests and the app wind up.
        self.config.timeout_graceful_shutdown = cast(int, _but_the_end(left))
        self.end_within(self.settings.grace_seconds)

    def end_within(self, seconds: float) -> None:
        end_at_the_latest(seconds)

    def _patience(self) -> float:
        return self.config.timeout_graceful_shutdown or 0.0

    def _connections(self) -> "list[Protocol]":
        return cast("list[Protocol]", list(self.server_state.connections))

    def _cut(self) -> None:
        """End what clients hold on to: their requests are given up as those of any client that leaves."""
        for connection in self._connections():
            connection.transport.abort()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self.listening = sockets or []
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen: everything is there to answer."""
        for opened in self.listening:  # or connections that have just ended would keep the port from who listens next
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
        await super().startup(sockets)
        self.descriptors = Descriptors(unused())
        self.serving()
        log.info("listening on %s", ", ".join(map(address, self.listening)))

    async def on_tick(self, counter: int) -> bool:
        if self.close_at is not None and time.monotonic() >= self.close_at and not self.should_exit:
            await self._close_door()
            self.should_exit = True
        now = time.monotonic()
        self.descriptors.watch(len(self.server_state.connections), now)
        give_back = self.heap.watch(time.process_time(), now)
        if give_back is not None:
            await asyncio.to_thread(give_back)
        return await super().on_tick(counter)

    async def _close_door(self) -> None:
        """Nobody comes in any more; who has come is taken before the door closes, or would be reset by that."""
        for opened in self.listening:
            turn_away(opened)
        loop = asyncio.get_running_loop()
        loop.call_later(_but_the_end(self._patience()), self._cut)
        await asyncio.sleep(ENTERING_SECONDS)


def _but_the_end(seconds: float) -> float:
    """That time without its last second, or its last tenth where that is less."""
    return max(0.9 * seconds, seconds - 1)


def turn_away(opened: socket.socket) -> None:
    """Let a listening socket drop what comes, by a filter of one instruction; where there is none, it takes it.

    A client tries again after a second, and finds the port closed.
    """
    if sys.platform == "linux":
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", RETURN, 0, 0, 0))
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instruction)))


def end_at_the_latest(seconds: float) -> None:
    """End the process after so many seconds, even if a computation in another thread does not let go."""
    timer = threading.Timer(seconds, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    log.error("the grace period is over: ending with work unfinished")
    logging.shutdown()
    os._exit(FAILED)
