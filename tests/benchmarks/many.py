"""Rows about many clients, several processes, and the start."""

import asyncio
import tempfile
import time
from dataclasses import replace

import httpx

from tests.benchmarks.figures import Line, Options, at_least, at_most, compared, in_turn
from tests.benchmarks.load import Ask, load
from tests.benchmarks.servers import BARE, SERVICE, Running, first_answer, running

CLIENTS = 200
STARTS = 9
# The kernel deals them out by a hash: of so many, one of two workers has more than 55 % once in nine times.
CONNECTIONS = 256


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
    return [Line(f"computed {computed} times", "", "", "1", reached)]


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
            theirs.append(seconds(BARE, "/bytes/file"))
    # The first pair compiles, and is not counted.
    return [at_most(compared(ours[1:], theirs[1:]), "s", "bare FastAPI app that imports numpy", 2)]


def workers(options: Options) -> list[Line]:
    """Requests for each second of processor time of the busier worker, beside those of one.

    With a core for each that would be the rate; here cores are short, for one makes the load. Where one of the two does
    all the work the ratio is 1, and where each does half of it at the price of one, it is 2.
    """
    path = "/v1/encodings/sinusoidal.npy?length=128&dim=128"
    two = (*SERVICE[:-1], "--workers", "2", SERVICE[-1])
    shares: list[float] = []
    with running(SERVICE, path) as one, running(two, path) as both:
        for server in (one, both):
            for _ in range(20):
                first_answer(server.port, path)

        def rate(server: Running) -> float:
            found = load(server, Ask(path, connections=CONNECTIONS), options.seconds, None)
            if server is both:
                shares.append(found.busiest / found.cpu)
            return 1 / found.busiest

        line = at_least(
            in_turn(options.pairs, lambda: rate(both), lambda: rate(one)), "requests/CPU s", "one worker", 1.8
        )
    of_busier = f" of the busier, which had {min(shares):.0%} to {max(shares):.0%} of the work"
    return [replace(line, ours=line.ours + of_busier)]
