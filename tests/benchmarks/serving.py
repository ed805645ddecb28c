"""Serving beside what one would use instead: the table of the README.

    python -m tests.benchmarks.serving [ROW ...] [--pairs N] [--seconds S]
        [--peers-python PATH]    an interpreter with litserve and bentoml
        [--torch-python PATH]    an interpreter with torch

Needs wrk and nginx. One server process on core 0, the load on core 1; pairs in turn, the median of their ratios. A
peer that is missing is named, and its row left out.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable

from tests.benchmarks import cold, large, many, pictures, repeated
from tests.benchmarks.figures import HEADER, Line, MissingError, Options

ROWS: dict[str, Callable[[Options], list[Line]]] = {
    "4k": repeated.four,
    "64k": repeated.sixty_four,
    "1m": repeated.megabyte,
    "16m": repeated.sixteen,
    "route": repeated.route,
    "bodiless": repeated.bodiless,
    "cold-npy": cold.npy,
    "cold-json": cold.json,
    "models": repeated.served_models,
    "rotation": large.rotation,
    "stream": large.tables,
    "json": large.json,
    "pictures": pictures.flood,
    "once": many.once,
    "start": many.start,
    "workers": many.workers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
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
    print(HEADER)
    for name in given.rows or ROWS:
        _measure(name, options)


def _measure(name: str, options: Options) -> None:
    begun, busy = time.perf_counter(), os.getloadavg()[0]
    try:
        for line in ROWS[name](options):
            print(line, flush=True)
    except MissingError as missing:
        print(f"{name} is left out: {missing}", file=sys.stderr)
    print(f"{name}: {time.perf_counter() - begun:.0f} s, load before {busy:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
