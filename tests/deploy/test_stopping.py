"""What clients see when the service is told to stop, and that nobody keeps it from it."""

import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.deploy.dockerfile import ROOT
from tests.live import Client, ask, free_port, wait_until

LARGE = "/v1/encodings/sinusoidal.npy?length=400000&dim=128"
GRACE_SECONDS = 12
LARGE_BYTES = 128 + 400000 * 128 * 4
log = logging.getLogger("tests.stopping")


class Service:
    """A process of the service, and what it logged."""

    def __init__(self, *settings: str) -> None:
        self.port = free_port()
        command = [
            sys.executable,
            "-m",
            "service",
            "serve",
            "--port",
            str(self.port),
            "--log-level",
            "warning",
            *settings,
        ]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)

    def wait(self) -> None:
        def ready() -> bool:
            try:
                return ask(self.port, "/health/ready") == 200
            except OSError:
                return False

        wait_until(ready, 60)

    def stop(self) -> float:
        """Seconds from SIGTERM to the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return time.monotonic() - began

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def log(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


@pytest.fixture(params=["1", "2"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """With one process or two."""
    started = Service("--drain-seconds", "1", "--grace-seconds", str(GRACE_SECONDS), "--workers", request.param)
    try:
        started.wait()
        yield started
    finally:
        started.end()


class Asking(threading.Thread):
    """A client that keeps its connection as long as it may, and comes back when it was closed; until nobody listens."""

    # Ended in good order before the request came: any client asks again.
    closes: tuple[type[Exception], ...] = (http.client.RemoteDisconnected, BrokenPipeError)

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        self.port, self.number = port, number
        self.answers, self.closed = 0, 0
        self.failures: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        while True:
            self.number += 10
            path = f"/v1/encodings/rope.npy?length=64&dim=64&base={self.number if self.number % 20 else 7}"
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                size = len(answer.read())
            except ConnectionRefusedError:
                break
            except self.closes:
                self.closed += 1
                connection.close()
                continue
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                break
            if (answer.status, size) != (200, 128 + 64 * 64 * 4 * 2):
                self.failures.append(f"{answer.status} with {size} bytes")
            self.answers += 1
        connection.close()


class Persisting(Asking):
    """A client that comes back when its connection broke, too."""

    closes = (http.client.HTTPException, ConnectionResetError, BrokenPipeError)


def test_no_client_that_comes_back_sees_more_than_a_closed_door(service: Service) -> None:
    clients = [Asking(service.port, number) for number in range(3, 7)]
    for client in clients:
        client.start()
    wait_until(lambda: all(client.answers > 20 for client in clients), 60)
    service.stop()
    for client in clients:
        client.join(30)
    assert [client.failures for client in clients] == [[]] * 4
    assert service.process.returncode == 0
    assert service.log() == ""


def test_it_is_not_ready_first_and_finishes_what_is_under_way(service: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.request("GET", LARGE)
    answer = connection.getresponse()
    size = len(answer.read(1000))
    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: ask(service.port, "/health/ready") == 503)
    assert ask(service.port, "/health/live") == 200
    assert ask(service.port, "/v1/encodings/rope?length=3&dim=4") == 200
    while part := answer.read(1 << 20):
        size += len(part)
    connection.close()
    assert size == LARGE_BYTES
    assert service.process.wait(30) == 0
    assert service.log() == ""


def test_clients_that_are_stuck_do_not_hold_it(service: Service) -> None:
    """Who sends half a body, who reads nothing, who sends half a header, and who rests."""
    begun = [
        b"POST /v1/apply/rope HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"GET /v1/sch",
        b"",
    ]
    clients = [socket.create_connection(("127.0.0.1", service.port)) for _ in begun]
    for client, data in zip(clients, begun, strict=True):
        client.sendall(data)
    time.sleep(0.3)
    seconds = service.stop()
    for client in clients:
        with closing(client):
            pass
    assert seconds < GRACE_SECONDS + 1
    assert service.process.returncode == 0
    assert "Traceback" not in service.log()


def test_a_worker_that_is_killed_under_load_is_replaced() -> None:
    """Within five seconds, and the others notice nothing but that the connections that it had are gone."""
    service = Service("--workers", "2", "--grace-seconds", "12")
    clients = [Persisting(service.port, number) for number in range(3, 11)]
    try:
        service.wait()
        for client in clients:
            client.start()
        wait_until(lambda: all(client.answers > 20 for client in clients), 60)
        before, closed = both_workers(service.port), sum(client.closed for client in clients)
        killed = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()[0]
        os.kill(int(killed), signal.SIGKILL)
        began = time.monotonic()
        wait_until(lambda: newly_connected(service.port) not in before, 30)
        seconds = time.monotonic() - began
        log.info("another answers after %.1f s", seconds)
        assert sum(client.closed for client in clients) - closed <= len(clients)
        service.stop()
        for client in clients:
            client.join(30)
        assert service.log().count("ended after") == 1
    finally:
        service.end()
    assert [client.failures for client in clients] == [[]] * len(clients)
    assert seconds < 5


def test_who_waits_at_a_worker_that_is_killed_is_answered_by_its_replacement() -> None:
    """It held still, so that about half of those who came are in its queue."""
    service = Service("--workers", "2", "--grace-seconds", "12")
    try:
        service.wait()
        both_workers(service.port)
        killed = int(Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()[0])
        os.kill(killed, signal.SIGSTOP)
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(service.port)) for _ in range(64)]
            for client in clients:
                client.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            os.kill(killed, signal.SIGKILL)
            answers = [client.read()[:12] for client in clients]
        assert answers == [b"HTTP/1.1 200"] * 64
    finally:
        service.end()


def both_workers(port: int) -> set[str]:
    seen: set[str] = set()

    def seen_both() -> bool:
        seen.add(newly_connected(port))
        return len(seen) == 2

    wait_until(seen_both, 60)
    return seen


def newly_connected(port: int) -> str:
    """Which process answers a client who comes now: an id begins with what stands for it."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/health/live")
        return str(connection.getresponse().getheader("X-Request-ID")).partition("-")[0]
