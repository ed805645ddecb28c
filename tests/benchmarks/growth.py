"""How the cost grows: the picture of the README.

    python -m tests.benchmarks.growth [--seconds S] [--output FILE]

Left: body bytes a second against the size of the table, for answers that are repeated and for such as nobody asked for
before. Right: requests a second against the number of addresses of 4 KB that are asked in turn. Needs wrk; one server
process on core 0, the load on core 1.
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib as mpl

from tests.benchmarks.large import read
from tests.benchmarks.load import Ask, load
from tests.benchmarks.machine import machine
from tests.benchmarks.servers import SERVICE, Running, first_answer, running

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

OUTPUT = Path(__file__).parent / "growth.svg"
TABLE = "/v1/encodings/sinusoidal.npy?dim=64&length={}"
ROW_BYTES = 256
SIZES = [1 << power for power in range(10, 31, 2)]
KEYS = [1, 10, 100, 1000, 10_000, 100_000]
# At the most so long, addresses are asked for the first time before the count begins.
WARM_SECONDS = 60.0
# wrk asks for small tables; of large ones, a few are read one after the other.
BY_WRK = 1 << 22
REPEATED, FIRST = "#1f77b4", "#d95f02"


def repeated(server: Running, size: int, seconds: float) -> float:
    """Bytes a second of a table that was answered before."""
    path = TABLE.format(size // ROW_BYTES)
    if size > BY_WRK:
        return reading(server, [path] * 4)
    first_answer(server.port, path)
    return load(server, Ask(path), seconds).bytes_rate


def first_time(server: Running, size: int, seconds: float) -> float:
    """Bytes a second of tables at positions that nobody asked for, all below 10^8: far ones cost more."""
    path = TABLE.format(size // ROW_BYTES) + "&offset="
    if size > BY_WRK:
        return reading(server, [f"{path}{1 + number * size // ROW_BYTES}" for number in range(4)])
    return load(server, Ask(path + "@00", connections=4), seconds).bytes_rate


def reading(server: Running, paths: list[str]) -> float:
    """Bytes a second of answers read one after the other, but for the first."""
    read(server.port, paths[0])
    begun = time.perf_counter()
    count = sum(read(server.port, path) for path in paths[1:])
    return count / (time.perf_counter() - begun)


def in_turn(server: Running, keys: int, seconds: float) -> float:
    """Requests a second where so many addresses are asked in turn, each for the second time if WARM_SECONDS were enough
    to ask for all."""
    path, first = "/v1/encodings/sinusoidal.npy?dim=64&length=16&offset=@", 10**7 * (1 + round(math.log10(keys)))
    warm = Ask(path, keys=keys, first=first)
    took = time.perf_counter()
    asked = 0.0
    while asked < keys:
        asked += load(server, warm_from(warm, int(asked) % keys), seconds_of(keys)).rate * seconds_of(keys)
        if time.perf_counter() - took > WARM_SECONDS:
            break
    return load(server, warm, seconds).rate


def seconds_of(keys: int) -> float:
    """How long a run is that asks for so many addresses for the first time."""
    return max(1.0, min(10.0, keys / 2000))


def warm_from(ask: Ask, done: int) -> Ask:
    """The same addresses, beginning where an earlier run ended."""
    assert ask.first is not None
    return Ask(ask.path, keys=ask.keys - done, first=ask.first + done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    print(machine())
    with running(SERVICE, "/health/live", 0) as server:
        again = [repeated(server, size, given.seconds) for size in SIZES]
        cold = [first_time(server, size, given.seconds) for size in SIZES]
        rates = [in_turn(server, keys, given.seconds) for keys in KEYS]
    draw(given.output, again, cold, rates)
    for size, one, other in zip(SIZES, again, cold, strict=True):
        print(f"{size:>12} bytes: repeated {one / 1e6:8.1f} MB/s, first time {other / 1e6:8.1f} MB/s")
    for keys, rate in zip(KEYS, rates, strict=True):
        print(f"{keys:>12} addresses: {rate:8,.0f} requests/s")


def draw(output: Path, again: list[float], cold: list[float], rates: list[float]) -> None:
    """Both charts, on logarithmic axes; one colour means one thing in both."""
    mpl.rcParams["svg.hashsalt"] = "posenc"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.loglog(SIZES, [value / 1e6 for value in again], "o-", color=REPEATED, label="repeated")
    left.loglog(SIZES, [value / 1e6 for value in cold], "s--", color=FIRST, label="first time")
    left.set(xlabel="size of the table", ylabel="MB/s", title="throughput by size")
    left.xaxis.set_major_formatter(FuncFormatter(lambda size, _: shown(size)))
    left.set_xticks([1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30])
    left.legend(frameon=False)
    right.loglog(KEYS, rates, "o-", color=REPEATED)
    right.set(xlabel="addresses asked in turn (4 KB each)", ylabel="requests/s", title="repeated, by number of keys")
    right.set_ylim(bottom=min(rates) / 3, top=max(rates) * 2)
    for axes in (left, right):
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.minorticks_off()
    figure.savefig(output, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def shown(size: float) -> str:
    """1 KB, 1 MB, 1 GB."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


if __name__ == "__main__":
    main()
