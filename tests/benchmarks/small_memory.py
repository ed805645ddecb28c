"""The largest requests, 200 of each at once, to a server that the kernel kills above 300 MB.

    python -m tests.benchmarks.small_memory [--megabytes N]      as root, where control groups can be made

Bodies of as many bytes as the server takes there, bodies that are rotated and sent back, tables larger than all its
memory of which none is like another, and JSON. Printed for each: the answers by status, the most memory that the group
ever had, and how often the kernel killed.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, Running, running

CLIENTS = 200
VERSION_1 = Path("/sys/fs/cgroup/memory")
VERSION_2 = Path("/sys/fs/cgroup")
MIB = 2**20


@contextmanager
def group(limit: int) -> Iterator[tuple[Path, str, str]]:
    """A control group with this much memory, which this process joins; where its peak and its kills are read."""
    if VERSION_1.is_dir():
        path, names = VERSION_1 / "posenc", ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
    else:
        path, names = VERSION_2 / "posenc", ("memory.max", "memory.peak", "memory.events")
    path.mkdir(exist_ok=True)
    (path / names[0]).write_text(str(limit))
    yield path, names[1], names[2]


def rotated(size: int) -> tuple[bytes, int]:
    """The head of a safetensors file with a q of so many bytes, and the file's size."""
    rows = size // 512
    head = json.dumps({"q": {"dtype": "F32", "shape": [1, rows, 128], "data_offsets": [0, rows * 512]}}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head, 8 + len(head) + rows * 512


async def post(port: int, size: int, seen: Counter[str]) -> None:
    head, total = rotated(size)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    kind = "Content-Type: application/octet-stream"
    target = "POST /v1/apply/rope.safetensors"
    writer.write(f"{target} HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: {total}\r\n\r\n".encode() + head)
    sending = asyncio.ensure_future(_zeros(writer, total - len(head)))
    await _read(reader, seen)
    sending.cancel()
    writer.transport.abort()


async def _zeros(writer: asyncio.StreamWriter, count: int) -> None:
    block = bytes(MIB)
    for start in range(0, count, MIB):
        writer.write(block[: min(MIB, count - start)])
        await writer.drain()


async def get(port: int, target: str, seen: Counter[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    await _read(reader, seen)
    writer.transport.abort()


async def _read(reader: asyncio.StreamReader, seen: Counter[str]) -> None:
    """Take the answer, all of it if it is one of 200."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        seen[head[9:12].decode()] += 1
        size = head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
        left = int(size or 2**60)
        while left and (part := await reader.read(min(left, MIB))):
            left -= len(part)
        if left and size:
            seen["cut short"] += 1
    except OSError as error:
        seen[type(error).__name__] += 1


async def at_once(server: Running, megabytes: int) -> dict[str, Counter[str]]:
    numbers = itertools.count()
    table = "/v1/encodings/sinusoidal{}?length={}&dim=128&offset="
    requests: dict[str, Callable[[Counter[str]], Awaitable[None]]] = {
        "bodies of all that the limit would hold": lambda seen: post(server.port, megabytes * 10**6, seen),
        "rotations of 3 MiB": lambda seen: post(server.port, 3 * MIB, seen),
        "tables of 512 MB": lambda seen: get(server.port, f"{table.format('.npy', 10**6)}{next(numbers)}", seen),
        "JSON of 100,000 values": lambda seen: get(server.port, f"{table.format('', 800)}{next(numbers)}", seen),
    }
    found = {}
    for name, ask in requests.items():
        seen: Counter[str] = Counter()
        await asyncio.gather(*(ask(seen) for _ in range(CLIENTS)))
        found[name] = seen
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    given = parser.parse_args()
    print(machine())
    with group(given.megabytes * 10**6) as (path, peak, kills):
        join = f'echo $$ > {path}/cgroup.procs; exec {sys.executable} "$@"'
        began = time.monotonic()
        with running(("-c", join, "bash", *SERVICE), "/health/ready", python="bash") as server:
            found = uvloop.run(at_once(server, given.megabytes))
        for name, seen in found.items():
            print(f"{CLIENTS} {name}: {dict(seen)}")
        print(f"at most {int((path / peak).read_text()) / 10**6:.0f} MB; {(path / kills).read_text().split()}")
        print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
