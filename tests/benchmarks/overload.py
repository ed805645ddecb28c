"""Many times more requests than can be served: what is answered, what is refused, and how soon.

    python -m tests.benchmarks.overload [--times N] [--seconds S] [--path PATH]

First the peak: cold requests by 16 clients who each wait for their answer. Then requests come at N times that rate,
whether or not those before were answered, on connections of their own where all others wait. Server on core 0, the load
on core 1. `@` in the path stands for a number that no other request has.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import cast

import uvloop

from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, Running, running

PATH = "/v1/encodings/rope.npy?length=512&dim=128&offset=@000"  # no row of one is in another
CORE = 1
CLIENTS = 16
MOST_CONNECTIONS = 8000
RECOVERY_SECONDS = 10.0
TICK_SECONDS = 0.002


@dataclass
class Seen:
    """Answers by status and how long each took; connections that broke."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    without_retry: int = 0

    def rate(self, status: int, over: float) -> float:
        return len(self.seconds.get(status, [])) / over

    def at(self, status: int, share: float) -> float:
        """Milliseconds that so large a share of these answers took at the most."""
        found = sorted(self.seconds.get(status, [0.0]))
        return 1000 * found[min(len(found) - 1, int(share * len(found)))]


class Connection(asyncio.Protocol):
    """One request at a time; its end is told to who gave it."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.asked = 0.0
        self.head = b""
        self.left = -1
        self.status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        self.asked = time.perf_counter()
        self.head, self.left = b"", -1
        self.transport.write(self.load.request())

    def data_received(self, data: bytes) -> None:
        if self.left < 0:
            self.head += data
            head, end, body = self.head.partition(b"\r\n\r\n")
            if not end:
                return
            self.status = int(head[9:12])
            lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            self.left = int(lines[b"content-length"]) - len(body)
            self.load.seen.without_retry += self.status == 503 and b"retry-after" not in lines
        else:
            self.left -= len(data)
        if self.left == 0:
            self.load.seen.seconds.setdefault(self.status, []).append(time.perf_counter() - self.asked)
            self.asked = 0.0
            self.load.free(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self.asked and not self.load.over:
            self.load.seen.broken[type(error).__name__] += 1


class Load:
    """Requests to one server."""

    def __init__(self, server: Running, path: str, numbers: "itertools.count[int]") -> None:
        self.server, self.path, self.numbers = server, path, numbers
        self.seen = Seen()
        self.over = False
        self.idle: deque[Connection] = deque()
        self.opened: list[Connection] = []
        self.closed_loop = False

    def request(self) -> bytes:
        target = self.path.replace("@", str(next(self.numbers)))
        return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    def free(self, connection: Connection) -> None:
        if self.closed_loop and not self.over:
            connection.ask()
        else:
            self.idle.append(connection)

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.server.port)
        self.opened.append(connection)
        return connection

    async def closed(self, clients: int, seconds: float) -> Seen:
        """So many clients, each of whom waits for its answer."""
        self.closed_loop = True
        for _ in range(clients):
            (await self.connect()).ask()
        await asyncio.sleep(seconds)
        return self.end()

    async def open(self, rate: float, seconds: float) -> Seen:
        """Requests at this rate, come what may."""
        began, sent = time.perf_counter(), 0
        while (now := time.perf_counter() - began) < seconds:
            while sent < rate * now:
                sent += 1
                if self.idle:
                    self.idle.popleft().ask()
                elif len(self.opened) < MOST_CONNECTIONS:
                    asyncio.ensure_future(self._connect_and_ask())  # noqa: RUF006
            await asyncio.sleep(TICK_SECONDS)
        return self.end()

    async def _connect_and_ask(self) -> None:
        try:
            (await self.connect()).ask()
        except OSError as error:
            self.seen.broken[type(error).__name__] += 1

    def end(self) -> Seen:
        self.over = True
        for connection in self.opened:
            connection.transport.abort()
        return self.seen


async def measure(server: Running, path: str, times: float, seconds: float) -> tuple[Seen, Seen, float]:
    """What was seen at the peak, and in overload; seconds until cold requests were answered as soon as before it."""
    numbers = itertools.count(1, 1000)
    peak = await Load(server, path, numbers).closed(CLIENTS, min(5.0, seconds))
    rate = peak.rate(200, min(5.0, seconds))
    usual = statistics.median(peak.seconds[200])
    flood = await Load(server, path, numbers).open(times * rate, seconds)
    ended = time.perf_counter()
    while time.perf_counter() - ended < RECOVERY_SECONDS:
        probe = await Load(server, path, numbers).closed(1, 0.2)
        if len(probe.seconds.get(200, [])) > 2 and statistics.median(probe.seconds[200]) <= 2 * usual:
            break
    return peak, flood, time.perf_counter() - ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--path", default=PATH)
    given = parser.parse_args()
    print(machine())
    with running(SERVICE, "/health/live", 0) as server:
        os.sched_setaffinity(0, {CORE})
        found = uvloop.run(measure(server, given.path, given.times, given.seconds))
    peak, flood, recovery = found
    best, good = peak.rate(200, min(5.0, given.seconds)), flood.rate(200, given.seconds)
    print(f"peak       {best:8.1f} answers/s")
    refused = flood.rate(503, given.seconds)
    print(f"overload   {good:8.1f} answers/s ({good / best:.0%} of the peak), refused {refused:.1f}/s")
    print(f"answered   50 % within {flood.at(200, 0.5):.1f} ms, 99 % within {flood.at(200, 0.99):.1f} ms")
    print(f"refused    50 % within {flood.at(503, 0.5):.1f} ms, 99 % within {flood.at(503, 0.99):.1f} ms")
    others = {status: len(each) for status, each in flood.seconds.items() if status not in (200, 503)}
    print(f"others     {others}, without Retry-After {flood.without_retry}, broken {dict(flood.broken)}")
    print(f"recovered  after {recovery:.1f} s")


if __name__ == "__main__":
    main()
