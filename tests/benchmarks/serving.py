"""Repeated answers against a bare FastAPI route that returns the same number of prepared bytes.

    python -m tests.benchmarks.serving

One server process on core 0, wrk (one thread, 16 connections) on core 1; pairs in turn, the median of their ratios.
"""

import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

from tests.benchmarks.servers import BARE, SERVICE, Running, running

# 64 KiB of values and a header of 128 bytes.
OURS = "/v1/encodings/sinusoidal.npy?length=128&dim=128"
THEIRS = "/table"


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk found: requests a second, and the server's processor time per request in microseconds."""

    rate: float
    cpu: float


def load(server: Running, path: str, seconds: int) -> Load:
    """wrk on one core; any answer but 200 is an error."""
    command = ["taskset", "-c", "1", "wrk", "-t1", "-c16", f"-d{seconds}s", f"http://127.0.0.1:{server.port}{path}"]
    before = server.cpu_seconds()
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = server.cpu_seconds() - before
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", report)
    count = re.search(r"(\d+) requests in", report)
    if rate is None or count is None or "Non-2xx" in report or "Socket errors" in report:
        raise RuntimeError(report)
    return Load(float(rate[1]), used / int(count[1]) * 1e6)


def main(pairs: int = 7, seconds: int = 2) -> None:
    """Print each pair and the medians."""
    ours, theirs = [], []
    with running(SERVICE, OURS, core=0) as service, running(BARE, THEIRS, core=0) as bare:
        for pair in range(pairs):
            ours.append(load(service, OURS, seconds))
            theirs.append(load(bare, THEIRS, seconds))
            print(f"pair {pair + 1}: {ours[-1]} against {theirs[-1]}", file=sys.stderr)
    print("| repeated 64 KiB npy | posenc | bare FastAPI route | ratio |\n|---|---|---|---|")
    print(_line("requests/s", [a.rate for a in ours], [b.rate for b in theirs]))
    print(_line("requests per CPU second", [1e6 / a.cpu for a in ours], [1e6 / b.cpu for b in theirs]))


def _line(name: str, ours: list[float], theirs: list[float]) -> str:
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return f"| {name} | {statistics.median(ours):,.0f} | {statistics.median(theirs):,.0f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
