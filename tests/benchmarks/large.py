"""Rows about tables that are streamed, and about tensors that are sent and come back."""

import http.client
import json as json_text
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.figures import Growth, Line, MissingError, Options
from tests.benchmarks.servers import SERVICE, Running, first_answer, running

BUFFER = 1 << 20
# Half a rotation each way: q and k of 32 MiB.
HEADS, LENGTH, WIDTH = 16, 4096, 128


def tables(options: Options) -> list[Line]:
    """A table of 4 GB, beside the rate at which this machine copies into fresh memory: of sines, which take longer to
    compute than to send, and of products, which do not."""
    rows, side = int(options.gigabytes * 2**30) // (128 * 4), int((options.gigabytes * 2**30 / (32 * 4)) ** 0.5)
    sines, biases = f"length={rows}&dim=128", f"heads=32&length={side}"
    asked = {
        ("sines", "npy"): f"/v1/encodings/sinusoidal.npy?{sines}",
        ("sines", "safetensors"): f"/v1/encodings/sinusoidal.safetensors?{sines}",
        ("ALiBi", "npy"): f"/v1/biases/alibi.npy?{biases}",
        ("ALiBi", "safetensors"): f"/v1/biases/alibi.safetensors?{biases}",
    }
    lines = []
    with running(SERVICE, "/health/live") as service:
        for (what, extension), path in asked.items():
            read(service.port, path, most=64 << 20)
            copied, begun = copying_rate(), time.perf_counter()
            count = read(service.port, path)
            rate = count / (time.perf_counter() - begun)
            ratio = rate / statistics.mean([copied, copying_rate()])
            name = f"{count / 2**30:.1f} GiB table of {what}, streamed as {extension}"
            peer = f"{rate / ratio / 1e6:,.0f} MB/s: copying into fresh memory"
            lines.append(Line(name, f"{rate / 1e6:,.0f} MB/s", peer, f"{ratio:.2f}", "≥ 0.5", ratio >= 0.5))
    return [*lines, grown_by_a_million()]


def grown_by_a_million() -> Line:
    """How far both processes rise above the idle server while a million rows are streamed, twice."""
    path = "/v1/encodings/sinusoidal.npy?length=1000000&dim=128"
    with running(SERVICE, "/health/live") as service:
        first_answer(service.port, "/v1/encodings/sinusoidal.npy?length=16&dim=128")
        idle, seen = service.proportional(), []
        reader = threading.Thread(target=lambda: [read(service.port, path) for _ in range(2)])
        reader.start()
        while reader.is_alive():
            seen.append(service.proportional())
            time.sleep(0.02)
    grown = (max(seen) - idle) / 2**20
    work = "1,000,000 x 128 streamed, memory above idle, both processes"
    return Line(work, f"{grown:.1f} MiB", "", "", "< 64 MiB", grown < 64)


def read(port: int, path: str, most: int | None = None) -> int:
    """Ask and drop what comes; the number of body bytes, or of so many and then no more."""
    with socket.create_connection(("127.0.0.1", port)) as opened:
        opened.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        buffer, seen = memoryview(bytearray(BUFFER)), 0
        head = b""
        while b"\r\n\r\n" not in head:
            head += opened.recv(BUFFER)
        assert head.startswith(b"HTTP/1.1 200"), head[:500]
        seen = len(head.partition(b"\r\n\r\n")[2])
        while (count := opened.recv_into(buffer)) and (most is None or seen < most):
            seen += count
    return seen


def copying_rate() -> float:
    """Bytes a second of copies of 256 MiB into memory that was not touched before."""
    source = np.ones(1 << 28, np.uint8)
    rates = []
    for _ in range(5):
        begun = time.perf_counter()
        copy = source.copy()
        rates.append(copy.nbytes / (time.perf_counter() - begun))
        del copy
    return statistics.median(rates)


def json(_options: Options) -> list[Line]:
    """JSON of 8 million values, and how long /health/live takes meanwhile."""
    path = "/v1/encodings/sinusoidal?length=65536&dim=128"
    with running((*SERVICE[:-1], "--json-bytes", "1GiB", SERVICE[-1]), "/health/live") as service:
        read(service.port, path, most=64 << 20)
        growth = Growth(service.pid)
        begun = time.perf_counter()
        (late,) = health_while([service], lambda: _read_thrice(service, path))
        seconds, grown = time.perf_counter() - begun, growth.peak
    return [
        Line("JSON of 8 million values, streamed", f"{seconds:.1f} s", "", "", "", None),
        Line("memory growth meanwhile", f"{grown:.1f} MiB", "", "", "< 64 MiB", grown < 64),
        health_line(late),
    ]


def _read_thrice(service: Running, path: str) -> None:
    """Another process reads, so that reading and asking do not share an interpreter."""
    for _ in range(3):
        subprocess.run(["curl", "-sfo", "/dev/null", f"http://127.0.0.1:{service.port}{path}"], check=True)


def health_while(services: Sequence[Running], work: Callable[[], None]) -> list[list[float]]:
    """Seconds of every health check of each server, in turn, while something else is done in another process."""
    worker = threading.Thread(target=work)
    worker.start()
    connections = [http.client.HTTPConnection("127.0.0.1", service.port) for service in services]
    late: list[list[float]] = [[] for _ in services]
    while worker.is_alive():
        for connection, found in zip(connections, late, strict=True):
            begun = time.perf_counter()
            connection.request("GET", "/health/live")
            connection.getresponse().read()
            found.append(time.perf_counter() - begun)
        time.sleep(0.002)
    return late


def health_line(late: list[float], idle: list[float] | None = None) -> Line:
    """Beside what an idle server takes at the same time: how far the machine itself is behind."""
    slow = statistics.quantiles(late, n=100)[98] * 1e3
    peer = "" if idle is None else f"{statistics.quantiles(idle, n=100)[98] * 1e3:.1f} ms: an idle server"
    name = "/health/live meanwhile, 99th percentile"
    return Line(name, f"{slow:.1f} ms ({len(late):,} asked)", peer, "", "< 25 ms", slow < 25)


def rotation(options: Options) -> list[Line]:
    """q and k of 64 MiB together, sent and answered as safetensors, beside PyTorch in its own process."""
    if not options.torch_python:
        raise MissingError("PyTorch: give --torch-python, an interpreter that has it")
    shape = (HEADS, LENGTH, WIDTH)
    with tempfile.TemporaryDirectory() as folder, running(SERVICE, "/health/live") as service:
        file = Path(folder, "qk.safetensors")
        file.write_bytes(_safetensors(shape))
        body = file.read_bytes()
        pairs = [(_rotated(service.port, body), _by_torch(options.torch_python)) for _ in range(options.pairs + 1)]
    ours, theirs = (statistics.median(each) for each in zip(*pairs[1:], strict=True))
    ratio = statistics.median(a / b for a, b in pairs[1:])
    work = "rotation of 64 MB, safetensors there and back"
    return [
        Line(
            work,
            f"{ours * 1e3:.0f} ms",
            f"{theirs * 1e3:.0f} ms: PyTorch eager in process",
            f"{ratio:.2f}",
            "≤ 3",
            ratio <= 3,
        )
    ]


def _safetensors(shape: tuple[int, int, int]) -> bytes:
    values = np.random.default_rng(1).standard_normal((2, *shape), np.float32)
    half = values.nbytes // 2
    entry = {"dtype": "F32", "shape": list(shape)}
    head = json_text.dumps(
        {"q": {**entry, "data_offsets": [0, half]}, "k": {**entry, "data_offsets": [half, 2 * half]}}
    )
    padded = head.encode().ljust(-(-len(head) // 8) * 8)
    return len(padded).to_bytes(8, "little") + padded + values.tobytes()


def _rotated(port: int, body: bytes) -> float:
    """Seconds from the first byte sent to the last one read."""
    path = "/v1/apply/rope.safetensors?axes=heads-length"
    with socket.create_connection(("127.0.0.1", port)) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        opened.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
        )
        opened.sendall(body)
        buffer, seen = memoryview(bytearray(4 << 20)), 0
        while count := opened.recv_into(buffer):
            assert seen or bytes(buffer[:12]) == b"HTTP/1.1 200", bytes(buffer[:500])
            seen += count
        seconds = time.perf_counter() - begun
    assert seen > len(body)
    return seconds


TORCH = f"""
import time, torch
q, k = torch.randn(2, {HEADS}, {LENGTH}, {WIDTH})
angles = torch.outer(torch.arange({LENGTH}).float(), 10000.0 ** (-torch.arange(0, {WIDTH}, 2).float() / {WIDTH}))
cos, sin = (f(torch.cat((angles, angles), -1)) for f in (torch.cos, torch.sin))
def half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)
times = []
for _ in range(7):
    begun = time.perf_counter()
    rotated = q * cos + half(q) * sin, k * cos + half(k) * sin
    times.append(time.perf_counter() - begun)
print(sorted(times)[3])
"""


def _by_torch(python: str) -> float:
    """Seconds of the same rotation as models write it, the tables computed before."""
    done = subprocess.run([python, "-c", TORCH], capture_output=True, text=True, check=True)
    return float(done.stdout)
