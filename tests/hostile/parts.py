"""What is sent to the service to break it, part by part: so many cases with a fixed seed, and what came back.

Of every answer it holds that it is whole and well-formed, that its status is none of 5xx but 503, that an error has at
most 8 KB; of every part, that nothing is logged above `info`, no memory stays in use, and the process does not grow.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tests.hostile import differing, files, values, wire
from tests.hostile.bodies import Bodies
from tests.hostile.called import BATCH, Sent, ask_all, called
from tests.hostile.conditions import Conditions, Known, judged, sent
from tests.hostile.queries import Queries
from tests.hostile.requests import Generator

SEED = 2026
Seen = Counter[int] | Counter[str]


@dataclass(frozen=True, slots=True)
class Part:
    """How many cases in full, and what runs so many."""

    cases: int
    run: Callable[[int], Seen]


def asked(requests: Iterator[Sent], cases: int) -> Seen:
    """Requests that only need a well-formed answer."""
    with called() as service:
        for _ in ask_all(service, islice(requests, cases), cases // 3):
            pass
        return service.seen


def requests(cases: int) -> Seen:
    """Every part of a request wrong at once: path, query, header, body."""
    generator = Generator(SEED)
    return asked(iter(lambda: next(generator), None), cases)


def bodies(cases: int) -> Seen:
    return asked(iter(Bodies(SEED)), cases)


def queries(cases: int) -> Seen:
    return asked(iter(Queries(SEED)), cases)


def conditions(cases: int) -> Seen:
    """Each case once for a service that remembers its answers, and once for one that does not."""
    with called() as fast, called(reply_cache_bytes=0) as slow:
        known = Known(slow)
        drawn = islice(Conditions(SEED, known), cases // 2)
        while batch := list(islice(drawn, BATCH)):
            made = [sent(*case) for case in batch]
            for service in (fast, slow):
                for case, answer in zip(batch, service.ask(*made), strict=True):
                    judged(known, *case, answer)
        return fast.seen + slow.seen


def paths(cases: int) -> Seen:
    with called() as service:
        known = Known(service)
    return differing.run(cases, SEED, known)


def connections(cases: int) -> Seen:
    return wire.run(cases, SEED)


def mutations(name: str) -> Callable[[int], Seen]:
    """Of a kind of file, without the guidance of coverage."""
    return lambda cases: Counter(accepted=files.run(name, cases, SEED), mutations=cases)


PARTS: Mapping[str, Part] = {
    "requests": Part(20_000, requests),
    "bodies": Part(10_000, bodies),
    "values": Part(10_000, values.run),
    "queries": Part(10_000, queries),
    "conditions": Part(50_000, conditions),
    "paths": Part(10_000, paths),
    "connections": Part(20_000, connections),
    "npy": Part(200_000, mutations("npy")),
    "safetensors": Part(200_000, mutations("safetensors")),
    "inference": Part(200_000, mutations("inference")),
}
