"""Surroundings in which other programs give up: the service starts in them, and serves."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service.api.reply_cache import ENTRY_BYTES
from service.main import create_app
from tests.clients import on_port, settings
from tests.deploy.dockerfile import ROOT
from tests.live import ask, free_port, live, wait_until
from tests.tools import program

TABLE = "/v1/encodings/sinusoidal.npy?length=400&dim=128"
# Large enough for a second process.
LARGE = "/v1/encodings/sinusoidal.npy?length=100000&dim=128"
SERVE = (sys.executable, "-m", "service", "serve", "--drain-seconds", "0", "--log-level", "warning", "--port")
PATHS = ("/health/ready", TABLE, LARGE, "/v1/encodings/sinusoidal.png?length=64&dim=64", "/docs")


@contextmanager
def served(command: Sequence[str], log: Path, prepare: Callable[[], None] | None = None) -> Iterator[int]:
    """A process of the service, perhaps within another, which ends with code 0 when it is told to; its port."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(port)],
            cwd=ROOT,
            stderr=output,
            preexec_fn=prepare,  # noqa: PLW1509
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(port), 60)
        yield port
        os.kill(within(process.pid), signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def within(pid: int) -> int:
    """The service itself: what it runs in would end of a signal by itself, and tells how the service ended."""
    while Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].endswith(b"bwrap"):
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    return pid


def _answers(port: int) -> bool:
    with suppress(OSError):
        return ask(port, "/health/ready") == 200
    return False


@pytest.mark.tool
def test_read_only_root_no_home_unknown_user(tmp_path: Path) -> None:
    """As a container without rights has it. matplotlib wants to write a cache, and may not."""
    inside = [program("bwrap"), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent"]
    inside += ["--unshare-user", "--uid", "54321", "--gid", "54321", "--unsetenv", "HOME", "--unsetenv", "USER"]
    with served([*inside, "--setenv", "TMPDIR", "/nowhere", "--", *SERVE], tmp_path / "log") as port:
        assert [ask(port, path) for path in PATHS] == [200] * len(PATHS)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_64_descriptors(tmp_path: Path) -> None:
    """More clients than descriptors: some are closed or wait, none stops the others for good."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with served(SERVE, tmp_path / "log", few) as port:
        assert [ask(port, path) for path in PATHS] == [200] * len(PATHS)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        time.sleep(0.5)
        for client in clients:
            client.close()
        wait_until(lambda: _answers(port), 20)
        assert [ask(port, path) for path in PATHS] == [200] * len(PATHS)
    told = (tmp_path / "log").read_text()
    assert "Traceback" not in told
    assert told.count("further ones are dropped") == 1


@pytest.mark.parametrize("seconds", [-1e9, 1e9])
def test_a_clock_that_jumps(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting and keeping go by a clock that nobody sets; only the Date header follows."""
    chosen = settings(port=0)
    now = time.time
    with live(create_app(chosen), chosen) as server:
        assert ask(server.port, TABLE) == 200
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as kept:
            for _ in range(2):
                kept.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                assert kept.recv(65536).startswith(b"HTTP/1.1 200 OK")
                monkeypatch.setattr(time, "time", lambda: now() + seconds)
            wait_until(lambda: str(time.gmtime(now() + seconds).tm_year).encode() in _date(kept))
        assert [ask(server.port, path) for path in (TABLE, TABLE + "&base=3", "/health/ready")] == [200] * 3


def _date(connection: socket.socket) -> bytes:
    connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection.recv(65536)


def test_a_hundred_times_as_many_keys_as_the_caches_hold() -> None:
    """The bounds hold at any moment, and what is answered is right, whether it was kept or not."""
    limit = 1 << 15
    targets = [f"/v1/encodings/rope.bin?length=16&dim=16&tensor=cos&base={number}" for number in range(2, 1002)]
    assert len(targets) * (1024 + ENTRY_BYTES) > 90 * limit
    with on_port(settings(table_cache_bytes=limit, reply_cache_bytes=limit)) as client:
        found = client.resources
        expected = {target: client.get(target).content for target in targets[::50]}
        for start in range(0, len(targets), 100):
            replies = client.together([("GET", target, {}) for target in targets[start : start + 100]])
            assert {reply.status_code for reply in replies} == {200}
            assert max(found.replies.held_bytes, found.tables.held_bytes) <= limit
        assert found.replies.held_bytes > limit // 2
        assert {target: client.get(target).content for target in expected} == expected
    assert len(set(expected.values())) == len(expected)
