"""Large tables streamed by a server with its second process, and by one without.

    python -m tests.benchmarks.cores [--pairs N] [QUERY ...]

A QUERY is an address such as "sinusoidal.npy?length=2000000&dim=128". The two servers run at the same time and are
asked in turns, so that a busy machine slows both; what counts is the median of their ratios. The reader takes part of a
core too.
"""

import argparse
import socket
import statistics
import time

from tests.benchmarks.machine import machine
from tests.benchmarks.servers import Running, running

COMMAND = ("-m", "service", "serve", "--log-level", "warning", "--threads", "2")
TABLES = (
    "sinusoidal.npy?length=2000000&dim=128",
    "sinusoidal.npy?length=1000000&dim=128&dtype=float64",
    "sinusoidal.bin?length=2000000&dim=128&dtype=bfloat16",
    "sinusoidal.npy?length=2000000&dim=128&dtype=float16",
    "rope.npy?length=1000000&dim=128",
)
READ_BYTES = 1 << 20
REST = 0.2


def seconds(server: Running, target: str) -> float:
    """Ask, and read to the end."""
    buffer = bytearray(READ_BYTES)
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head = connection.recv(READ_BYTES)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode(errors="replace"))
        while connection.recv_into(buffer):
            pass
    took = time.perf_counter() - begun
    time.sleep(REST)
    return took


def main(tables: list[str], pairs: int) -> None:
    """Print the table."""
    print(f"{machine()}\n")
    print("| streamed | s, alone | s, with the second process | times as fast |\n|---|---|---|---|")
    ready = "/health/live"
    with (
        running((*COMMAND, "--partner", "on", "--port"), ready) as both,
        running((*COMMAND, "--partner", "off", "--port"), ready) as alone,
    ):
        for table in tables:
            target = f"/v1/encodings/{table}"
            for server in (both, alone):  # the second process starts, memory warms up; this is not counted
                seconds(server, target)
            took = [(seconds(alone, target), seconds(both, target)) for _ in range(pairs)]
            ours, theirs = (statistics.median(each) for each in zip(*took, strict=True))
            ratio = statistics.median(one / two for one, two in took)
            print(f"| {table} | {ours:.2f} | {theirs:.2f} | **{ratio:.2f}** |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    given = parser.parse_args()
    main(given.tables, given.pairs)
