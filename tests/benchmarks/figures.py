"""One row of the table: what was measured, beside its peer, and what it should be."""

import statistics
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.benchmarks.servers import Running

# How often memory is looked at: a look takes a server of 200 MB about a millisecond.
LOOK_SECONDS = 0.05


class MissingError(Exception):
    """A peer is not installed here."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured, and where the peers are."""

    pairs: int
    seconds: float
    peers_python: str
    torch_python: str
    gigabytes: float


@dataclass(frozen=True, slots=True)
class Line:
    """As the table shows it, but for the name of the work; `reached` is None where there is nothing to reach."""

    ours: str
    peer: str
    ratio: str
    least: str
    reached: bool | None

    def named(self, work: str) -> str:
        word = {True: "yes", False: "no", None: ""}[self.reached]
        return f"| {work} | {self.ours} | {self.peer} | {self.ratio} | {self.least} | {word} |"


HEADER = "| work | posenc | peer | ratio | aim | reached |\n|---|---|---|---|---|---|"


Found = tuple[float, float, float]


def in_turns(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Each in turn, so that a busy machine slows all: what each measured, round by round."""
    return [list(each) for each in zip(*([measure() for measure in measures] for _ in range(rounds)), strict=True)]


def compared(ours: Sequence[float], theirs: Sequence[float]) -> Found:
    """The medians, and the median of the ratios of each round."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return statistics.median(ours), statistics.median(theirs), ratio


def in_turn(pairs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> Found:
    return compared(*in_turns(pairs, ours, theirs))


def at_least(found: Found, unit: str, peer: str, least: float) -> Line:
    """More is better."""
    ours, theirs, ratio = found
    show = f"{theirs:,.0f} {unit}: {peer}"
    return Line(f"{ours:,.0f} {unit}", show, f"{ratio:.2f}", f"≥ {least:g}", ratio >= least)


def at_most(found: Found, unit: str, peer: str, most: float) -> Line:
    """Less is better."""
    ours, theirs, ratio = found
    show = f"{theirs:,.2f} {unit}: {peer}"
    return Line(f"{ours:,.2f} {unit}", show, f"{ratio:.2f}", f"≤ {most:g}", ratio <= most)


class Growth:
    """How far a server and its children rise in memory while the block runs; what they share is divided among them."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.idle = self.most = server.proportional()
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look)

    def __enter__(self) -> "Growth":
        self._looking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with suppress(OSError):  # a thread or a process that ended meanwhile
                self.most = max(self.most, self.server.proportional())

    def line(self) -> Line:
        """MiB above the beginning, at the most."""
        grown = (self.most - self.idle) / 2**20
        return Line(f"{grown:.1f} MiB", "", "", "< 64 MiB", grown < 64)
