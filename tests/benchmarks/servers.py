"""Start a server in a process of its own, on a core of its own, and wait for its first answer."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

SERVICE = ("-m", "service", "serve", "--log-level", "warning", "--port")
BARE = ("-m", "uvicorn", "tests.benchmarks.peers:bare", "--no-access-log", "--log-level", "warning", "--port")
CALLABLE = ("-m", "uvicorn", "tests.benchmarks.peers:plain", "--no-access-log", "--log-level", "warning", "--port")
HERE = Path(__file__).parent

NGINX = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log error;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; default_type application/octet-stream;
    open_file_cache max=100 inactive=1h; open_file_cache_valid 1h;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


def first_answer(port: int, path: str, seconds: float = 60.0, body: bytes | None = None) -> bytes:
    """Ask until there is an answer; its body."""
    until = time.monotonic() + seconds
    kind = {} if body is None else {"Content-Type": "application/json"}
    while time.monotonic() < until:
        connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
        try:
            connection.request("GET" if body is None else "POST", path, body, kind)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status == 200:
                return content
            if answer.status != 503:
                raise RuntimeError(f"{path} answered {answer.status}: {content[:200]!r}")
        except (OSError, HTTPException):
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
        """Processor time that it and its children have used so far, in user and kernel mode."""
        return sum(self.cpu_of_each().values())

    def cpu_of_each(self) -> dict[int, float]:
        """The same, by process."""
        return {pid: _ticks(pid) / os.sysconf("SC_CLK_TCK") for pid in (self.pid, *_children(self.pid))}

    def proportional(self) -> int:
        """Bytes of it and its children in memory; what several processes share is divided among them."""
        return sum(self.proportional_of_each().values())

    def proportional_of_each(self) -> dict[int, int]:
        """The same, by process."""
        return {pid: _proportional(pid) for pid in (self.pid, *_children(self.pid))}

    def resident(self) -> int:
        """Bytes of it in memory."""
        return _resident(self.pid)

    def resident_of_all(self) -> int:
        """Bytes of it and its children in memory; what they share counts for each."""
        return sum(_resident(pid) for pid in (self.pid, *_children(self.pid)))


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _children(pid: int) -> list[int]:
    """Its children and theirs, whichever thread started them."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    own = [int(each) for thread in threads for each in (thread / "children").read_text().split()]
    return own + [each for child in own for each in _children(child)]


@contextmanager
def running(
    command: Sequence[str],
    path: str,
    core: int | None = None,
    *,
    python: str = sys.executable,
    body: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    output: int | None = None,
) -> Iterator[Running]:
    """A server in Python for the length of the block, once it has answered `path`."""
    port = free_port()
    known = {**os.environ, "PYTHONHASHSEED": "0", **(environment or {})}
    with _process([python, *command, str(port)], core, known, output) as server:
        first_answer(port, path, body=body)
        yield Running(port, server.pid)


@contextmanager
def nginx(files: Mapping[str, bytes], core: int | None = None) -> Iterator[Running]:
    """nginx with one worker, serving these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        os.chmod(folder, 0o755)
        port = free_port()
        Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
        with _process(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"], core, os.environ) as server:
            first_answer(port, "/" + next(iter(files)))
            yield Running(port, server.pid)


@contextmanager
def _process(
    command: list[str], core: int | None, environment: Mapping[str, str], output: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    pin = ["taskset", "-c", str(core)] if core is not None else []
    server = subprocess.Popen([*pin, *command], env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
        with suppress(ProcessLookupError):  # LitServe leaves its workers behind
            os.killpg(server.pid, signal.SIGKILL)
