"""Rows about many clients, several processes, and the start."""

import asyncio
import os
import statistics
import tempfile
import time

import httpx

from tests.benchmarks.figures import Line, Options, at_most
from tests.benchmarks.load import Ask, load
from tests.benchmarks.servers import BARE, SERVICE, first_answer, running

CLIENTS = 200
STARTS = 9


def once(_options: Options) -> list[Line]:
    """Server-Timing is on the answer that was computed, and on no other."""
    path = "/v1/encodings/rope.npy?length=4096&dim=64&base=4321"

    async def ask(port: int) -> tuple[int, int]:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60) as client:
            replies = await asyncio.gather(*(client.get(path) for _ in range(CLIENTS)))
        assert {reply.status_code for reply in replies} == {200}
        return sum("server-timing" in reply.headers for reply in replies), len({reply.content for reply in replies})

    with running(SERVICE, "/health/live", 0) as service:
        computed, different = asyncio.run(ask(service.port))
    reached = computed == different == 1
    return [Line(f"{CLIENTS} clients ask one cold table at once", f"computed {computed} times", "", "", "1", reached)]


def start(_options: Options) -> list[Line]:
    """From the start of the process to its first answer; both have their modules compiled, as an installed one has."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        compiled = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def seconds(command: tuple[str, ...], path: str) -> float:
            begun = time.perf_counter()
            with running(command, path, environment=compiled):
                return time.perf_counter() - begun

        for _ in range(STARTS + 1):
            ours.append(seconds(SERVICE, "/v1/encodings/rope.npy?length=128&dim=128"))
            theirs.append(seconds(BARE, "/bytes/65536"))
    # The first pair compiles, and is not counted.
    ratio = statistics.median(a / b for a, b in zip(ours[1:], theirs[1:], strict=True))
    found = (statistics.median(ours[1:]), statistics.median(theirs[1:]), ratio)
    return [at_most("start to first answer", found, "s", "bare FastAPI app that imports numpy", 2)]


def workers(options: Options) -> list[Line]:
    """Processor time for each request with two workers beside one: cores are short where the load comes from one."""
    path = "/v1/encodings/sinusoidal.npy?length=128&dim=128"
    two = (*SERVICE[:-1], "--workers", "2", SERVICE[-1])
    with running(SERVICE, path) as one, running(two, path) as both:
        for server in (one, both):
            for _ in range(20):
                first_answer(server.port, path)
        pairs = [
            tuple(load(server, Ask(path, connections=32), options.seconds, None).cpu for server in (one, both))
            for _ in range(options.pairs)
        ]
    single, double = zip(*pairs, strict=True)
    ratio = 2 * statistics.median(a / b for a, b in zip(single, double, strict=True))
    ours, theirs = 2 / statistics.median(double), 1 / statistics.median(single)
    show = f"{theirs:,.0f} requests/s: one worker (each with a core of {os.cpu_count()} to itself)"
    return [
        Line("two workers, by processor time", f"{ours:,.0f} requests/s", show, f"{ratio:.2f}", "≥ 1.8", ratio >= 1.8)
    ]
