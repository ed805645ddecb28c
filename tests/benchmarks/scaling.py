"""What one replica and one proxy do, and from that what many would: the tables of the README's "More than one machine".

    python -m tests.benchmarks.scaling [--seconds S]

Needs wrk and nginx. Measured: a table of 200 KB (400 x 128 float32), asked of the service and of the project's own
nginx.conf before it, both by processor time, so that a busy machine does not matter. Then what replicas hold together,
and how often the proxy has an answer for clients who send different headers. The rest is arithmetic (replicas.py).
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmarks.load import Ask, load
from tests.benchmarks.machine import machine
from tests.benchmarks.replicas import Measured, table
from tests.benchmarks.servers import SERVICE, Running, first_answer, free_port, running
from tests.deploy.proxied import get, written
from tests.tools import program

TABLE = "/v1/encodings/sinusoidal.npy?length=400&dim=128"
# At positions that no other request had.
COLD = TABLE + "&offset=@000"
KEYS = 300
AGENTS = 300


@contextmanager
def proxy(ports: list[int]) -> Iterator[Running]:
    """nginx with the project's configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder, listen = Path(name), free_port()
        (folder / "cache").mkdir()
        (folder / "nginx.conf").write_text(written(ports, listen, folder))
        options = "daemon off; user root;" if os.getuid() == 0 else "daemon off;"
        server = subprocess.Popen([program("nginx"), "-c", str(folder / "nginx.conf"), "-g", options])
        try:
            first_answer(listen, "/health/live")
            yield Running(listen, server.pid)
        finally:
            server.terminate()
            server.wait(20)


def by_core(server: Running, path: str, seconds: float) -> float:
    return 1 / load(server, Ask(path), seconds, None).cpu


def measure(seconds: float) -> Measured:
    with running((*SERVICE[:-1], "--partner", "off", "--port"), "/health/live") as service:
        first_answer(service.port, TABLE)
        cold, known = by_core(service, COLD, seconds), by_core(service, TABLE, seconds)
        with proxy([service.port] * 3) as before:
            first_answer(before.port, TABLE)
            return Measured(cold, known, by_core(before, COLD, seconds), by_core(before, TABLE, seconds))


def resident_after(count: int) -> int:
    """Bytes that so many replicas have more in memory, together, once all keys were asked for through the proxy."""
    paths = [f"{TABLE}&base=7{number}" for number in range(KEYS)]
    options = (*SERVICE[:-1], "--partner", "off", "--table-cache-bytes", "0", "--port")
    with ExitStack() as stack:
        replicas = [stack.enter_context(running(options, f"{TABLE}&base=7")) for _ in range(count)]
        before = stack.enter_context(proxy([replicas[number % count].port for number in range(3)]))
        began = sum(each.resident() for each in replicas)
        for path in paths:
            assert get(before.port, path).status == 200
        return sum(each.resident() for each in replicas) - began


def hit_share() -> float:
    """Of one address, over clients with headers of their own."""
    forms = ("gzip, deflate, br", "gzip", "br, gzip;q=0.8", "deflate, gzip, zstd", "GZIP", "gzip;q=1.0")
    with running(SERVICE, "/health/live") as service, proxy([service.port] * 3) as before:
        first_answer(before.port, TABLE)
        found = [
            get(
                before.port,
                TABLE,
                {"User-Agent": f"agent {number}", "Accept-Encoding": forms[number % 6], "X-Odd": str(number)},
            ).cached
            for number in range(AGENTS)
        ]
    return found.count("HIT") / AGENTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    seconds = parser.parse_args().seconds
    began = time.perf_counter()
    print(f"{machine()}\n")
    found = measure(seconds)
    print("| measured, 200 KB | requests for each second of a core |\n|---|---|")
    print(f"| replica, computed | {found.cold:,.0f} |\n| replica, known | {found.known:,.0f} |")
    print(f"| proxy, asks a replica | {found.passed:,.0f} |\n| proxy, known | {found.hit:,.0f} |")
    print(f"\nknown to the proxy, beside computed by a replica: {found.hit / found.cold:.1f} times")
    print(f"hit share over {AGENTS} clients with headers of their own: {hit_share():.1%}")
    one, three = resident_after(1), resident_after(3)
    print(f"memory that three replicas fill, beside one: {three / one:.2f} times ({three >> 20} and {one >> 20} MiB)\n")
    print(table(found))
    print(f"{time.perf_counter() - began:.0f} s, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
