"""What single things cost: the figures in the README's text.

    python -m tests.benchmarks.costs [--pairs N] [NAME ...]

    partner    memory of the second process that computes large tables, and how far the server rises beside it
    drawer     memory of the process that draws pictures
    views      time for rows of a table that is cached
    access     processor time that an API key, each further key and a quota add to a request

What processes share is divided among them. Times are the median difference of servers that are asked in turn.
"""

import argparse
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from service.access import new_key
from tests.benchmarks.engine import warm_microseconds
from tests.benchmarks.figures import in_turns
from tests.benchmarks.large import idle, read
from tests.benchmarks.load import Headers, by_processor
from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, running

TABLE = "/v1/encodings/sinusoidal.npy?length=1000000&dim=128"
PICTURE = "/v1/encodings/sinusoidal.png?length=512&dim=128"
SMALL = "/v1/encodings/sinusoidal.npy?length=8&dim=128"
BYTES = 128 + 8 * 128 * 4
KEYS = 101


def partner(_pairs: int) -> None:
    _child("partner", TABLE)


def drawer(_pairs: int) -> None:
    _child("drawer", PICTURE)


def _child(name: str, path: str) -> None:
    """Two answers that its process has a part in, and what it and the server have afterwards."""
    with idle() as service:
        before = service.proportional()
        for _ in range(2):
            read(service.port, path)
        by_process = service.proportional_of_each()
        rise = by_process.pop(service.pid) - before
    print(f"{name}: {sum(by_process.values()) / 1e6:.0f} MB, and the server rises by {rise / 1e6:.0f}")


def views(_pairs: int) -> None:
    print(f"views: {warm_microseconds():.0f} microseconds for 1000 rows of a cached table")


def access(pairs: int) -> None:
    """A quota that nobody reaches, and keys of which the last is sent."""
    keys = [new_key(f"name{number}") for number in range(KEYS)]
    one, many = keys[:1], keys
    settings = {
        "nothing": (),
        "one key": ("--api-keys", one[0][1]),
        f"{KEYS} keys": ("--api-keys", ",".join(entry for _, entry in many)),
        "a quota": ("--rate-limit", "1000000"),
    }
    with ExitStack() as stack:
        measures = []
        for name, given in settings.items():
            key, _ = many[-1] if name.startswith(str(KEYS)) else one[0]
            service = stack.enter_context(running((*SERVICE[:-1], *given, SERVICE[-1]), "/health/ready", 0))
            ask = Headers(f"GET {SMALL}", f"Authorization: Bearer {key}\r\n", BYTES)
            measures.append(partial(by_processor, service, ask))
        nothing, *others = in_turns(pairs, *measures)
    for name, rates in zip(list(settings)[1:], others, strict=True):
        more = statistics.median(1 / a - 1 / b for a, b in zip(rates, nothing, strict=True))
        print(f"{name}: {more * 1e6:+.1f} microseconds of processor time a request")


COSTS: dict[str, Callable[[int], None]] = {"partner": partner, "drawer": drawer, "views": views, "access": access}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COSTS)} (default: all)")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in COSTS]:
        parser.error(f"{unknown[0]} is no name; known are {', '.join(COSTS)}")
    print(machine())
    for name in given.names or COSTS:
        COSTS[name](given.pairs)


if __name__ == "__main__":
    main()
