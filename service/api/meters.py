"""What is measured, as plain numbers: adding to them costs next to nothing, and a scrape makes metrics of them.

All are added to on the event loop. Whoever reads them from another thread sees each number whole.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from service.engine import SCHEMES

Way = Literal["repeated", "made", "early"]
Stage = Literal["queue", "compute", "encode"]

# A repeated answer takes some twenty microseconds, a large table seconds.
SECONDS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BYTES = tuple(float(4**power) for power in range(3, 17))

FAMILIES = frozenset(scheme.family for scheme in SCHEMES)
METHODS = frozenset(("GET", "HEAD", "POST", "OPTIONS"))
OTHER = "other"
# What was refused before its path was looked at, or has a path that is none.
UNROUTED = "unrouted"
# A client that left, or a stop, before there was a status.
NO_STATUS = 0


class Histogram:
    """How many values lie up to each bound and above the one before, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: "Histogram") -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        return sum(self.counts)

    def buckets(self) -> Iterator[tuple[float, int]]:
        """How many values are at most each bound; the last bound is infinite."""
        below = 0
        for bound, count in zip((*self.bounds, float("inf")), list(self.counts), strict=True):
            below += count
            yield bound, below


# Way, route, method, status: each from a short list.
Kind = tuple[Way, str, str, int]


class Account(NamedTuple):
    """What there is to say of one answer; `problem` is empty where it is none."""

    way: Way
    route: str
    method: str
    status: int
    seconds: float
    size: int
    problem: str = ""
    complete: bool = True


class Answers:
    """The answers of one kind: how long they took, and the bodies of those that had one."""

    __slots__ = ("sizes", "times")

    def __init__(self) -> None:
        self.times = Histogram(SECONDS)
        self.sizes = Histogram(BYTES)

    def add(self, seconds: float, size: int) -> None:
        """One more. The histograms' own way to add, twice, without the calls: repeated answers are many."""
        times, sizes = self.times, self.sizes
        times.counts[bisect_left(SECONDS, seconds)] += 1
        times.total += seconds
        if size:
            sizes.counts[bisect_left(BYTES, size)] += 1
            sizes.total += size


@dataclass(slots=True)
class Meters:
    """One for the process."""

    answers: dict[Kind, Answers] = field(default_factory=dict)
    stages: dict[tuple[Stage, str], Histogram] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    joined: int = 0

    def answered(self, way: Way, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Called once for every answer."""
        kind = (way, route, method, status)
        answers = self.answers.get(kind)
        if answers is None:
            if method not in METHODS:
                kind = (way, route, OTHER, status)
            answers = self.answers.setdefault(kind, Answers())
        answers.add(seconds, size)

    @property
    def repeated(self) -> int:
        """How many answers came from the cache of replies before routing."""
        kinds = list(self.answers.items())
        return sum(answers.times.count for (way, *_), answers in kinds if way == "repeated")

    def worked(self, stage: Stage, family: str, seconds: float) -> None:
        """A stage of the making of an answer."""
        key = (stage, family)
        if key not in self.stages:
            self.stages[key] = Histogram(SECONDS)
        self.stages[key].add(seconds)


def route_label(path: str) -> str:
    """The template of a route, with the name of the scheme left open: families are few.

    >>> route_label("/v1/encodings/rope.{extension}"), route_label("/health/live")
    ('/v1/encodings/{scheme}.{extension}', '/health/live')
    """
    parts = path.split("/")
    if len(parts) == 4 and parts[2] in FAMILIES:
        return scheme_route(parts[2], file=path.endswith(".{extension}"))
    return "/web/{file}" if path.startswith("/web/") else path


def scheme_route(family: str, *, file: bool) -> str:
    """The route of the schemes of a family, or of their files."""
    return f"/v1/{family}/{{scheme}}" + ".{extension}" * file
