"""Load from wrk on a core of its own, and what it found."""

import itertools
import re
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.servers import Running

CORE = 1
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
SCRIPT = """\
local first, keys, number = 0, 0, 0
function init(given)
    first, wrk.method, wrk.path, keys = tonumber(given[1]), given[2], given[3], tonumber(given[4])
    number = first
    if given[5] ~= "" then wrk.headers["If-None-Match"] = given[5] end
    if given[6] ~= "" then wrk.body = given[6]; wrk.headers["Content-Type"] = "application/json" end
end
function done(summary, latency)
    local broken = summary.errors.connect + summary.errors.read + summary.errors.timeout
    io.write("found ", summary.requests, " ", summary.duration, " ", summary.bytes, " ", summary.errors.status, " ",
        broken, " ", latency:percentile(99), "\\n")
end
"""
# `@` in an address stands for a number that no other request of this run has had. Without one, wrk makes its request
# once: a script that is asked for each costs it more than the answer costs the server.
EACH = """\
function request()
    local asked = wrk.path:gsub("@", tostring(number))
    number = number + 1
    if keys > 0 and number >= first + keys then number = first end
    return wrk.format(wrk.method, asked)
end
"""
# Small ones: numpy takes five times as long for the sine of a position beyond 10^8.
_numbers = itertools.count(1, 1000)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests and body bytes a second, processor seconds of the server for each request, of all its processes and of
    the busiest, latency at the 99th percentile in seconds, refusals a second."""

    rate: float
    bytes_rate: float
    cpu: float
    busiest: float
    slow: float
    refused: float = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """What wrk asks for. `keys` addresses are asked in turn where it is not 0; otherwise each `@` is a new one."""

    path: str
    method: str = "GET"
    keys: int = 0
    tag: str = ""
    body: str = ""
    connections: int = 16
    first: int | None = None
    may_refuse: bool = False


def load(server: Running, ask: Ask, seconds: float, core: int | None = CORE) -> Load:
    """wrk with one thread; anything but an answer of the kind that was asked for is an error."""
    first = next(_numbers) if ask.first is None else ask.first
    given = [str(first), ask.method, ask.path, str(ask.keys), ask.tag, ask.body]
    pin = [] if core is None else ["taskset", "-c", str(core)]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "load.lua")
        script.write_text(SCRIPT + EACH if "@" in ask.path else SCRIPT)
        command = [*pin, "wrk", "-t1", f"-c{ask.connections}", f"-d{seconds:g}s", "--timeout", "20s", "-s", str(script)]
        before = server.cpu_of_each()
        report = _run([*command, f"http://127.0.0.1:{server.port}", "--", *given])
        used = [spent - before.get(pid, 0) for pid, spent in server.cpu_of_each().items()]
    found = re.search(r"^found (\d+) (\d+) (\d+) (\d+) (\d+) ([\d.]+)", report, re.MULTILINE)
    if found is None or (int(found[4]) and not ask.may_refuse) or int(found[5]) or not int(found[1]):
        raise RuntimeError(report)
    requests, seconds, size = int(found[1]), int(found[2]) / 1e6, int(found[3])
    refused = int(found[4]) / seconds
    cpu, busiest = sum(used) / requests, max(used) / requests
    return Load(requests / seconds, size / seconds, cpu, busiest, float(found[6]) / 1e6, refused)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


@dataclass(frozen=True, slots=True)
class Headers:
    """A request whose answer is a header alone, or has a body of known length."""

    line: str
    fields: str = ""
    body: int = 0


def by_processor(server: Running, ask: Headers, count: int = 40_000, connections: int = 16) -> float:
    """Requests for each second of the server's processor time; wrk would wait for the body of a HEAD."""
    request = f"{ask.line} HTTP/1.1\r\nHost: x\r\n{ask.fields}\r\n".encode()
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(connections)]
        _round(opened, request, ask.body)
        before = server.cpu_seconds()
        for _ in range(count // connections):
            _round(opened, request, ask.body)
        return count / max(server.cpu_seconds() - before, 0.01)


def _round(opened: list[socket.socket], request: bytes, body: int) -> None:
    for connection in opened:
        connection.sendall(request)
    for connection in opened:
        head, _, begun = _until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 304")), head
        seen = len(begun)
        while seen < body:
            seen += len(connection.recv(1 << 18))


def _until(connection: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        data += connection.recv(1 << 18)
    return data
