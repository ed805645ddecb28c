"""One row of the table: what was measured, beside its peer, and what it should be."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


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
    """As the table shows it; `reached` is None where there is nothing to reach."""

    work: str
    ours: str
    peer: str
    ratio: str
    least: str
    reached: bool | None

    def __str__(self) -> str:
        word = {True: "yes", False: "no", None: ""}[self.reached]
        return f"| {self.work} | {self.ours} | {self.peer} | {self.ratio} | {self.least} | {word} |"


HEADER = "| work | posenc | peer | ratio | aim | reached |\n|---|---|---|---|---|---|"


def in_turn(pairs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float, float]:
    """Each in turn, so that a busy machine slows both: the medians, and the median of the ratios."""
    both = [(ours(), theirs()) for _ in range(pairs)]
    return (
        statistics.median(a for a, _ in both),
        statistics.median(b for _, b in both),
        statistics.median(a / b for a, b in both),
    )


def at_least(work: str, found: tuple[float, float, float], unit: str, peer: str, least: float) -> Line:
    """More is better."""
    ours, theirs, ratio = found
    show = f"{theirs:,.0f} {unit}: {peer}"
    return Line(work, f"{ours:,.0f} {unit}", show, f"{ratio:.2f}", f"≥ {least:g}", ratio >= least)


def at_most(work: str, found: tuple[float, float, float], unit: str, peer: str, most: float) -> Line:
    """Less is better."""
    ours, theirs, ratio = found
    show = f"{theirs:,.2f} {unit}: {peer}"
    return Line(work, f"{ours:,.2f} {unit}", show, f"{ratio:.2f}", f"≤ {most:g}", ratio <= most)


class Growth:
    """How far the memory of a process rises above where it began."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.before = self._resident()
        self._reset()

    def _reset(self) -> None:
        # 5 makes the kernel begin the peak anew (proc(5), clear_refs).
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _resident(self, name: str = "VmRSS") -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(name + ":"))) * 1024

    @property
    def peak(self) -> float:
        """MiB above the beginning, at the most."""
        return (self._resident("VmHWM") - self.before) / 2**20
