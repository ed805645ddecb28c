"""A real server on a free port, in a thread of the test process."""

import http.client
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.server import Server, bind
from service.settings import Settings


class Live(Server):
    """A server that knows its port, and that does not end the process it is in."""

    port: int = 0

    def end_within(self, seconds: float) -> None:
        self.seconds_left = seconds


@contextmanager
def live(app: Any, settings: Settings) -> Iterator[Live]:
    """Serve the app while the block runs; a stop that takes more than ten seconds is a failure."""
    server = Live(app, settings)
    sockets = bind(settings)
    server.port = sockets[0].getsockname()[1]
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        wait_until(lambda: server.started and is_tested(app))
        yield server
    finally:
        server.handle_exit(signal.SIGINT, None)
        thread.join(10)
        assert not thread.is_alive()


def is_tested(app: Any) -> bool:
    """Whether the app has compared itself with known values; one that stands in for it has nothing to compare."""
    resources = getattr(app.state, "resources", None)
    return resources is None or resources.readiness.state in ("ready", "failed")


def wait_until(holds: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def answering(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int, path: str) -> int:
    """The status of a GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


class Client:
    """A bare connection: sends bytes, reads until the server closes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, until: bytes | None = None) -> bytes:
        data = b""
        while until is None or until not in data:
            part = self.socket.recv(65536)
            if not part:
                break
            data += part
        return data
