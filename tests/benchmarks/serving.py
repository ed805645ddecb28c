"""Serving beside what one would use instead: the table of the README.

    python -m tests.benchmarks.serving [ROW ...] [--pairs N] [--seconds S] [--gigabytes G]
        [--peers-python PATH]    an interpreter with litserve and bentoml
        [--torch-python PATH]    an interpreter with torch

Without ROW, all of the first table; "pictures" is the second. Needs wrk and nginx. One server process on core 0, the
load on core 1; pairs in turn, the median of their ratios. A peer that is missing is named, and its row left out. First
comes the machine, with the versions of everything.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks import cold, large, many, pictures, repeated
from tests.benchmarks.figures import HEADER, Line, MissingError, Options
from tests.benchmarks.machine import machine

BARE = "the same from a bare ASGI callable on uvicorn"
MEMORY = "memory above idle meanwhile, all processes"
HEALTH = "/health/live meanwhile, 99th percentile"


@dataclass(frozen=True, slots=True)
class Row:
    """What is measured in one run, and the names of its lines: those of the README's table."""

    measure: Callable[[Options], list[Line]]
    works: tuple[str, ...]


ROWS: dict[str, Row] = {
    "4k": Row(repeated.four, ("repeated 4 KB npy", BARE)),
    "64k": Row(repeated.sixty_four, ("repeated 64 KB npy", BARE, "repeated 64 KB npy, beside a bare route")),
    "1m": Row(repeated.megabyte, ("repeated 1 MB npy", BARE)),
    "16m": Row(repeated.sixteen, ("repeated 16 MB npy", BARE)),
    "bodiless": Row(repeated.bodiless, ("HEAD for a 1 GB result", "304 for a 1 GB result", MEMORY)),
    "cold-npy": Row(cold.npy, ("npy 4096 x 128, cold, new positions", "npy 4096 x 128, cold, new base")),
    "cold-json": Row(cold.json, ("JSON 2048 x 128, cold",)),
    "models": Row(repeated.served_models, ("npy 2048 x 128, repeated", "npy 2048 x 128, cold") * 2),
    "rotation": Row(large.rotation, ("rotation of 64 MB, safetensors there and back",)),
    "stream": Row(
        large.tables,
        (
            "4 GB table of sines, streamed as npy",
            MEMORY,
            "4 GB table of sines, streamed as safetensors",
            MEMORY,
            "4 GB table of ALiBi, streamed as npy",
            MEMORY,
            "4 GB table of ALiBi, streamed as safetensors",
            MEMORY,
        ),
    ),
    "json": Row(large.json, ("JSON of 8 million values, streamed", MEMORY, HEALTH)),
    "once": Row(many.once, (f"{many.CLIENTS} clients ask for one cold table at once",)),
    "start": Row(many.start, ("start to first answer",)),
    "workers": Row(many.workers, ("two workers, by processor time",)),
    "pictures": Row(pictures.flood, tuple(name for flood in pictures.FLOODS for name in (flood, HEALTH))),
}
TABLE = tuple(name for name in ROWS if name != "pictures")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} (default: all but pictures)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each run of wrk, which takes whole ones")
    parser.add_argument("--peers-python", default="")
    parser.add_argument("--torch-python", default="")
    parser.add_argument("--gigabytes", type=float, default=4, help="size of the table that is streamed")
    given = parser.parse_args()
    unknown = [name for name in given.rows if name not in ROWS]
    if unknown:
        parser.error(f"{unknown[0]} is no row; known are {', '.join(ROWS)}")
    for program in ("wrk", "nginx", "taskset"):
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed")
    options = Options(given.pairs, given.seconds, given.peers_python, given.torch_python, given.gigabytes)
    print(f"{machine(given.peers_python, given.torch_python)}\n\n{HEADER}", flush=True)
    for name in given.rows or TABLE:
        _measure(name, options)


def _measure(name: str, options: Options) -> None:
    begun, busy = time.perf_counter(), os.getloadavg()[0]
    try:
        row = ROWS[name]
        for work, line in zip(row.works, row.measure(options), strict=True):
            print(line.named(work), flush=True)
    except MissingError as missing:
        print(f"{name} is left out: {missing}", file=sys.stderr)
    print(f"{name}: {time.perf_counter() - begun:.0f} s, load before {busy:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
