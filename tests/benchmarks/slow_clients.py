"""1,400 clients who waste a server's time, and what others notice of it.

    python -m tests.benchmarks.slow_clients [--seconds S] [--within S]

500 connect and say nothing, 500 send half a header, 200 send a body of which a byte comes each second, 200 take 256
bytes a second of an answer of 50 MB; all come within ten seconds, or as many as are said. Beside them one client asks
at a steady pace, for what was computed before and for what was not. Printed: when and how each kind was ended, the
answers' 99th percentile before and meanwhile, memory and descriptors. The limits are those of a server that nobody has
set up, and the large table has been computed before. Server on core 0, the clients in two processes on core 1.
"""

import argparse
import asyncio
import itertools
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import uvloop

from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, Running, first_answer, running

TABLE = "/v1/encodings/rope.npy?length=64&dim=32"
COLD = TABLE + "&offset="
LARGE = "/v1/encodings/sinusoidal.npy?length=102400&dim=128"
HALF = b"GET /v1/encodings/rope.npy HTTP/1.1\r\nHost: x\r\nX-Unfin"
JSON = b"Host: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n["
BODY = b"POST /v1/encodings/rope?dim=32 HTTP/1.1\r\n" + JSON
# Requests a second of the client who is served meanwhile: half of what they ask for was computed before.
PACE = 100.0
# Nobody may be left after so long.
SECONDS_TO_END = 120.0
MIB = 2**20
# Linux's number for a connection that is gone.
CLOSED = b"\x07"
# Sockets of which the kernel does not hold half the answer already.
RECEIVED_AHEAD = 2**16


@dataclass
class Ended:
    """How clients of a kind were ended, and after how many seconds."""

    how: Counter[str] = field(default_factory=Counter)
    after: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        ways = ", ".join(f"{count} {how}" for how, count in self.how.items())
        return f"{ways}; after {min(self.after):.1f} to {max(self.after):.1f} s"


async def connected(port: int) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_AHEAD)
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
    return opened


async def silent(opened: socket.socket) -> str:
    return await _told(opened)


async def half(opened: socket.socket) -> str:
    await asyncio.get_running_loop().sock_sendall(opened, HALF)
    return await _told(opened)


async def trickling(opened: socket.socket) -> str:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, BODY)
    told = asyncio.ensure_future(_told(opened))
    while not told.done():
        await asyncio.wait([told], timeout=1)
        if not told.done():
            await loop.sock_sendall(opened, b"1")
    return await told


async def sipping(opened: socket.socket) -> str:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    status = (await loop.sock_recv(opened, 256))[9:12].decode()
    if status != "200":
        return f"with {status}"
    while not is_closed(opened):
        await loop.sock_recv(opened, 256)
        await asyncio.sleep(1)
    return "with a reset"


def is_closed(opened: socket.socket) -> bool:
    """Whether the connection is gone: what came before that can be read for minutes at such a pace."""
    return opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == CLOSED


async def _told(opened: socket.socket) -> str:
    """The status of what the server says before it closes."""
    answer = b""
    while part := await asyncio.get_running_loop().sock_recv(opened, 65536):
        answer += part
    return f"with {answer[9:12].decode()}" if answer else "without a word"


KINDS: tuple[tuple[int, Callable[[socket.socket], Awaitable[str]]], ...] = (
    (500, silent),
    (500, half),
    (200, trickling),
    (200, sipping),
)


async def client(port: int, act: Callable[[socket.socket], Awaitable[str]], ended: Ended, after: float) -> None:
    await asyncio.sleep(after)
    opened = await connected(port)
    began = time.monotonic()
    try:
        ended.how[await act(opened)] += 1
    except OSError as error:
        ended.how[f"with {type(error).__name__}"] += 1
    finally:
        ended.after.append(time.monotonic() - began)
        opened.close()


class Served:
    """A client at a steady pace. A request is late from when it was due, though those before it were late too."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seconds: list[float] = []
        self.numbers = itertools.count(1)

    async def ask(self, until: Callable[[], bool]) -> list[float]:
        """Seconds of each answer until then."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        found: list[float] = []
        began = time.perf_counter()
        while not until():
            due = began + len(found) / PACE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            path = TABLE if len(found) % 2 else f"{COLD}{next(self.numbers)}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length[16:]))
            found.append(time.perf_counter() - due)
        writer.close()
        return found


def descriptors(server: Running) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


async def waste(port: int, within: float) -> None:
    """All who are slow, to the end of the last."""
    kinds = [Ended() for _ in KINDS]
    clients = [
        asyncio.ensure_future(client(port, act, ended, within * number / count))
        for (count, act), ended in zip(KINDS, kinds, strict=True)
        for number in range(count)
    ]
    await asyncio.wait(clients, timeout=SECONDS_TO_END)
    for (count, act), ended in zip(KINDS, kinds, strict=True):
        print(f"{count} {act.__name__:<10} {ended}", flush=True)
    os._exit(0)  # whoever is left is not waited for


async def measure(server: Running, seconds: float, within: float) -> None:
    served = Served(server.port)
    until = time.monotonic() + seconds
    before = await served.ask(lambda: time.monotonic() > until)
    opened, idle, most = descriptors(server), server.resident(), 0
    waste = ("--waste", str(server.port), "--within", str(within))
    wasters = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.slow_clients", *waste])

    def over() -> bool:
        nonlocal most
        most = max(most, server.resident())
        return wasters.poll() is not None

    meanwhile = await served.ask(over)
    for name, found in (("before", before), ("meanwhile", meanwhile)):
        quantiles = statistics.quantiles(found, n=100)
        print(f"served {name:<10} {len(found):,}: 50 % {quantiles[49] * 1e3:.2f} ms, 99 % {quantiles[98] * 1e3:.2f} ms")
    print(f"memory growth {(most - idle) / MIB:.1f} MiB")
    await asyncio.sleep(1)
    print(f"descriptors {opened} before, {descriptors(server)} after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="how long others are measured before")
    parser.add_argument("--within", type=float, default=10, help="seconds in which the slow clients come")
    parser.add_argument("--waste", type=int, metavar="PORT", help="only be the slow clients of this server")
    given = parser.parse_args()
    if given.waste:
        uvloop.run(waste(given.waste, given.within))
    print(machine())
    with running(SERVICE, TABLE, 0) as server:
        os.sched_setaffinity(0, {1})
        first_answer(server.port, LARGE)
        uvloop.run(measure(server, given.seconds, given.within))


if __name__ == "__main__":
    main()
