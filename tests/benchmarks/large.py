"""Rows about tables that are streamed, and about tensors that are sent and come back."""

import http.client
import json as json_text
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.benchmarks.figures import Growth, Line, MissingError, Options, compared
from tests.benchmarks.servers import SERVICE, Running, first_answer, running

BUFFER = 1 << 20
# Half a rotation each way: q and k of 32 MiB.
HEADS, LENGTH, WIDTH = 16, 4096, 128


def tables(options: Options) -> list[Line]:
    """A table of 4 GB, beside the rate at which this machine copies into fresh memory, and how far all processes of the
    server rise in memory meanwhile: of sines, which take longer to compute than to send, and of products, which do not.
    """
    rows, side = int(options.gigabytes * 2**30) // (128 * 4), int((options.gigabytes * 2**30 / (32 * 4)) ** 0.5)
    lines = []
    for path in (f"encodings/sinusoidal.@?length={rows}&dim=128", f"biases/alibi.@?heads=32&length={side}"):
        for extension in ("npy", "safetensors"):
            lines += streamed("/v1/" + path.replace("@", extension))
    return lines


def streamed(path: str) -> list[Line]:
    """Of one table: a server of its own, whose second process starts with it and counts with it."""
    with idle() as service, Growth(service) as growth:
        read(service.port, path, most=64 << 20)
        copied, begun = copying_rate(), time.perf_counter()
        count = read(service.port, path)
        rate = count / (time.perf_counter() - begun)
        ratio = rate / statistics.mean([copied, copying_rate()])
    peer = f"{rate / ratio / 1e6:,.0f} MB/s: copying into fresh memory"
    ours = f"{rate / 1e6:,.0f} MB/s of {count / 2**30:.1f} GiB"
    return [Line(ours, peer, f"{ratio:.2f}", "≥ 0.5", ratio >= 0.5), growth.line()]


@contextmanager
def idle(*settings: str) -> Iterator[Running]:
    """A server that has looked at itself, answered once, and has nothing to do."""
    with running((*SERVICE[:-1], *settings, SERVICE[-1]), "/health/ready") as service:
        first_answer(service.port, "/v1/encodings/sinusoidal.npy?length=16&dim=128")
        yield service


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
    took: list[float] = []
    with idle("--json-bytes", "1GiB") as service, Growth(service) as growth:
        read(service.port, path, most=64 << 20)
        (late,) = health_while([service], lambda: took.extend(_read_thrice(service, path)))
    return [Line(f"{statistics.median(took):.1f} s", "", "", "", None), growth.line(), health_line(late)]


def _read_thrice(service: Running, path: str) -> Iterator[float]:
    """Another process reads, so that reading and asking do not share an interpreter; seconds of each."""
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run(["curl", "-sfo", "/dev/null", f"http://127.0.0.1:{service.port}{path}"], check=True)
        yield time.perf_counter() - begun


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
    return Line(f"{slow:.1f} ms ({len(late):,} asked)", peer, "", "< 25 ms", slow < 25)


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
    ours, theirs, ratio = compared(*zip(*pairs[1:], strict=True))
    peer = f"{theirs * 1e3:.0f} ms: PyTorch eager in process"
    return [Line(f"{ours * 1e3:.0f} ms", peer, f"{ratio:.2f}", "≤ 3", ratio <= 3)]


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
