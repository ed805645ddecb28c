"""From the start of the process to the first answer, against a bare FastAPI app that also imports numpy.

python -m tests.benchmarks.start
"""

import statistics
import sys
import time

from tests.benchmarks.servers import BARE, SERVICE, running

OURS = "/v1/encodings/rope.npy?length=128&dim=128"
THEIRS = "/table"


def seconds_to_first_answer(command: tuple[str, ...], path: str) -> float:
    begun = time.perf_counter()
    with running(command, path):
        return time.perf_counter() - begun


def main(pairs: int = 9) -> None:
    """Print each pair and the medians."""
    ours, theirs = [], []
    for pair in range(pairs + 1):
        ours.append(seconds_to_first_answer(SERVICE, OURS))
        theirs.append(seconds_to_first_answer(BARE, THEIRS))
        print(f"pair {pair}: {ours[-1]:.3f} s against {theirs[-1]:.3f} s", file=sys.stderr)
    # The first pair fills the file cache and is not counted.
    ratio = statistics.median(a / b for a, b in zip(ours[1:], theirs[1:], strict=True))
    medians = f"{statistics.median(ours[1:]):.2f} s | {statistics.median(theirs[1:]):.2f} s"
    print("| work | posenc | bare FastAPI app that imports numpy | ratio |\n|---|---|---|---|")
    print(f"| start to first answer | {medians} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
