"""Start a server in a process of its own, on a core of its own, and wait for its first answer."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

SERVICE = ("-m", "service", "serve", "--log-level", "warning", "--port")
BARE = ("-m", "uvicorn", "tests.benchmarks.peers:bare", "--no-access-log", "--log-level", "warning", "--port")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


def first_answer(port: int, path: str, seconds: float = 30.0) -> bytes:
    """Ask until there is an answer; its body."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path} answered {answer.status}: {body[:200]!r}")
            return body
        except ConnectionError:
            time.sleep(0.002)
        finally:
            connection.close()
    raise TimeoutError(f"no answer from port {port} within {seconds} s")


@dataclass(frozen=True, slots=True)
class Running:
    """A server under way."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Processor time it has used so far, in user and kernel mode."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(command: Sequence[str], path: str, core: int | None = None) -> Iterator[Running]:
    """A server for the length of the block, once it has answered `path`."""
    port = free_port()
    pin = ["taskset", "-c", str(core)] if core is not None else []
    server = subprocess.Popen([*pin, sys.executable, *command, str(port)], env={**os.environ, "PYTHONHASHSEED": "0"})
    try:
        first_answer(port, path)
        yield Running(port, server.pid)
    finally:
        server.terminate()
        server.wait(30)
