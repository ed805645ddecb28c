"""Mixed traffic for minutes: whether memory grows, and whether anything fails.

    python -m tests.benchmarks.soak [--minutes M]

Eight clients ask for what the OpenAPI document shows of every operation, one of two requests with a position or length
that no other has, in every format; some ask for a part, some with a tag, some for what is refused, some leave before
the answer is there. The caches are small (32 MiB each), so that they are full after two minutes, from when on the
memory of the server and its children is looked at each second. Printed: requests, failures, MiB a minute (least
squares). Server on core 0, clients on core 1.
"""

import argparse
import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import orjson
import uvloop

from service.api.docs import committed
from tests.api.schema import resolved
from tests.api.test_try_it_out import sent, shown
from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, Running, running

CLIENTS = 8
CACHES = {"POSENC_TABLE_CACHE_BYTES": "32MiB", "POSENC_REPLY_CACHE_BYTES": "32MiB"}
FULL_AFTER_MINUTES = 2
MIB = 2**20
EXTENSIONS = ("", ".npy", ".safetensors", ".csv", ".npz", ".bin", ".png", ".svg")
# Drawing takes as long as a thousand other answers: one picture in so many that could be one.
PICTURES = 40
REFUSED = ("/v1/encodings/rope?length=0", "/v1/nothing", "/v1/encodings/rope?dim=7&x=1", "/v1/encodings/rope.npy?dim=@")


@dataclass
class Operation:
    """What the document shows of an operation."""

    method: str
    path: str
    query: dict[str, str]
    kind: str
    body: bytes | None

    def varied(self, draw: random.Random) -> bytes:
        """A request for it, as likely as not one that nobody has made."""
        query = dict(self.query)
        if draw.random() < 0.5:
            for name, most in (("offset", 10**6), ("length", 700), ("queries", 90), ("position", 10**5), ("dim", 300)):
                if name in query:
                    query[name] = str(2 * draw.randint(1, most // 2))
        path = self.path.replace(".{extension}", draw.choice(EXTENSIONS))
        if path.endswith((".png", ".svg")) and draw.randrange(PICTURES):
            path = path.rpartition(".")[0]
        fields = b""
        if draw.random() < 0.05:
            fields += b'If-None-Match: "x", *\r\n' if draw.random() < 0.5 else b"Range: bytes=10-99\r\n"
        if draw.random() < 0.2:
            fields += b"Accept-Encoding: gzip\r\n"
        return request(self.method, f"{path}?{urlencode(query)}", self.kind, self.body, fields)


def request(method: str, target: str, kind: str = "", body: bytes | None = None, fields: bytes = b"") -> bytes:
    if body is not None:
        fields += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n".encode()
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n".encode() + fields + b"\r\n" + (body or b"")


def operations() -> list[Operation]:
    document = orjson.loads(committed())
    return [
        _operation(document, method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Operation:
    query = {}
    for parameter in (resolved(document, each) for each in operation.get("parameters", ())):
        value = shown(parameter)
        if value is not None and parameter["in"] == "query":
            query[parameter["name"]] = value
        elif value is not None and parameter["in"] == "path" and parameter["name"] != "extension":
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe=""))
    return Operation(method.upper(), path, query, *sent(operation))


@dataclass
class Seen:
    """Answers by status; what should not have been, by what it was for."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    left: int = 0


async def ask(port: int, known: list[Operation], seed: int, seen: Seen, until: float) -> None:
    """One client after another on the same place, each for some hundred requests."""
    draw = random.Random(seed)
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MIB)
        for _ in range(draw.randint(1, 300)):
            wanted = _wanted(draw, known)
            writer.write(wanted)
            if draw.random() < 0.02:
                seen.left += 1
                break
            try:
                status = await _answer(reader, wanted)
            except (OSError, EOFError) as error:
                seen.failures[f"{type(error).__name__} {wanted[:90]!r}"] += 1
                break
            seen.statuses[status] += 1
            if status >= 500 and status != 503:
                seen.failures[f"{status} {wanted[:90]!r}"] += 1
        writer.transport.abort()


def _wanted(draw: random.Random, known: list[Operation]) -> bytes:
    if draw.random() < 0.05:
        return request("GET", draw.choice(REFUSED).replace("@", str(10**30 + draw.randrange(10**9))))
    return draw.choice(known).varied(draw)


async def _answer(reader: asyncio.StreamReader, wanted: bytes) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head[9:12])
    if b"\r\ntransfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    elif status != 304 and not wanted.startswith(b"HEAD"):
        await reader.readexactly(int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]))
    return status


async def measure(server: Running, minutes: float) -> tuple[Seen, list[tuple[float, float]]]:
    """What was answered, and the memory at each second after the caches were full."""
    seen, began = Seen(), time.monotonic()
    known, until = operations(), began + 60 * minutes
    clients = [asyncio.ensure_future(ask(server.port, known, seed, seen, until)) for seed in range(CLIENTS)]
    memory = []
    while not all(client.done() for client in clients):
        await asyncio.sleep(1)
        passed = (time.monotonic() - began) / 60
        if passed > FULL_AFTER_MINUTES:
            memory.append((passed, server.resident_of_all() / MIB))
    for client in clients:
        client.result()
    return seen, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    print(machine())
    with running(SERVICE, "/health/live", 0, environment=CACHES) as server:
        os.sched_setaffinity(0, {1})
        seen, memory = uvloop.run(measure(server, given.minutes))
    minutes, sizes = np.array(memory).T
    slope, _ = np.polyfit(minutes, sizes, 1)
    print(f"requests   {sum(seen.statuses.values()):,} in {given.minutes:g} minutes; {seen.left:,} clients left early")
    print(f"answers    {dict(sorted(seen.statuses.items()))}")
    print(f"failures   {dict(seen.failures) or 'none'}")
    print(f"memory     {sizes[0]:.1f} MiB at first, {sizes[-1]:.1f} at last; {slope:+.2f} MiB a minute")


if __name__ == "__main__":
    main()
