"""The command as a program: what it does before there is a server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import __main__ as program
from tests.live import free_port, wait_until
from tests.tools import program as tool

STOPS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {sig: signal.getsignal(sig) for sig in STOPS}
    yield
    for sig, handler in before.items():
        signal.signal(sig, handler)


def test_a_command_that_does_not_serve_leaves_signals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(sig) for sig in STOPS]
    monkeypatch.setattr(sys, "argv", ["posenc", "healthcheck", "--port", "none"])
    assert program.main() == 2
    assert [signal.getsignal(sig) for sig in STOPS] == before


def test_a_server_that_is_not_there_yet_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(sys, "argv", ["posenc", "serve", "--port", "none"])
    monkeypatch.setattr(os, "_exit", codes.append)
    assert program.main() == 2
    for sig in STOPS:
        signal.raise_signal(sig)
    assert codes == [0, 0]


def catches(pid: int, sig: int) -> bool:
    """Whether a process has asked for a signal."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(lines["SigCgt"], 16) >> sig - 1 & 1)


def test_a_signal_while_it_is_loaded_ends_a_server_in_good_order() -> None:
    serve = [sys.executable, "-m", "service", "serve", "--port", str(free_port())]
    for sig in STOPS:
        process = subprocess.Popen(serve, stderr=subprocess.PIPE)
        try:
            # Of the two it is asked for last; Python itself asks for the other.
            wait_until(lambda process=process: catches(process.pid, signal.SIGTERM))
            process.send_signal(sig)
            _, told = process.communicate(timeout=30)
        finally:
            process.kill()
        assert (process.returncode, told) == (0, b"")


@pytest.mark.tool
def test_a_container_s_first_process_hears_of_it_too() -> None:
    """No signal reaches such a process that it has not asked for."""
    bwrap = tool("bwrap")
    serve = [sys.executable, "-m", "service", "serve", "--port", str(free_port())]
    process = subprocess.Popen(
        [bwrap, "--dev-bind", "/", "/", "--unshare-pid", "--as-pid-1", *serve], stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: _only_child(process.pid) is not None)
        inner = _only_child(process.pid)
        assert inner is not None
        wait_until(lambda: catches(inner, signal.SIGTERM))
        os.kill(inner, signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, told) == (0, b"")


def _only_child(pid: int) -> int | None:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else None
