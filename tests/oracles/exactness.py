"""Is every value the real number rounded once? The service against mpmath, on random and on hostile samples.

    python -m tests.oracles.exactness [samples per dtype, 200000] [seed, 1]

The tests run a few thousand of the same samples. The rounding here is done in integers and shares nothing
with the service. The hostile samples are the values of a large table that lie nearest to a rounding boundary.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from service.engine.numbers.reals import geometric
from service.engine.numbers.sines import Angles
from service.engine.rounding import DTYPES
from service.engine.waves import Waves

BASES = (1.0001, 1.5, 2.0, 10.0, 500.0, 10000.0, 123456.789, 500000.0, 1e6, 1e9)
DIMS = (2, 6, 34, 80, 96, 128, 4096)
ROWS = 48  # enough rows for a table, not only for values one by one
PER_TABLE = 96

# significant bits, exponent of the smallest subnormal
FORMATS = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}

mpmath.mp.prec = 420  # 126 digits: 53 bits of position go in the reduction, 300 and more are left


def rounded_once(number: Any, dtype: str) -> float:
    """An mpmath real to nearest even in the format, by integers (no overflow: sines are small)."""
    precision, least = FORMATS[dtype]
    sign, mantissa, exponent, bits = number._mpf_
    last = max(bits + exponent - precision, least)
    if mantissa == 0 or last <= exponent:
        return float((-1) ** sign * mantissa * mpmath.mpf(2) ** exponent)
    cut = last - exponent
    quotient, rest = mantissa >> cut, mantissa & ((1 << cut) - 1)
    half = 1 << (cut - 1)
    quotient += rest > half or (rest == half and quotient & 1)
    return float((-1.0) ** sign * float(quotient) * 2.0 ** max(last, -1000) * 2.0 ** min(last + 1000, 0))


def frequency(base: float, dim: int, channel: int) -> Any:
    """base ** (-2 channel / dim)."""
    return mpmath.power(mpmath.mpf(base), -mpmath.mpf(2 * channel) / dim)


@cache
def waves(base: float, dim: int) -> Waves:
    """The service's waves of that base and width."""
    return Waves(geometric(base, [Fraction(-2 * k, dim) for k in range(dim // 2)]))


@dataclass(frozen=True)
class Sample:
    """One value of the service and what it should be."""

    wave: str
    base: float
    dim: int
    position: float
    channel: int
    got: float
    expected: float

    @property
    def wrong(self) -> bool:
        """Any difference, of sign too."""
        return self.got != self.expected or np.signbit(self.got) != np.signbit(self.expected)


@dataclass(frozen=True)
class Table:
    """What the service wrote for some parameters."""

    dtype: str
    base: float
    dim: int
    positions: range | NDArray[np.float64]
    sin: NDArray[Any]
    cos: NDArray[Any]

    @classmethod
    def of(cls, dtype: str, base: float, dim: int, positions: range | NDArray[np.float64]) -> "Table":
        """Have it written."""
        sin, cos = (np.empty((len(positions), dim // 2), DTYPES[dtype]) for _ in range(2))
        waves(base, dim).write(positions, sin, cos)
        return cls(dtype, base, dim, positions, sin, cos)

    def samples(self, rows: NDArray[np.intp], channels: NDArray[np.intp]) -> Iterator[Sample]:
        """Sine and cosine of each (row, channel)."""
        for row, channel in zip(rows.tolist(), channels.tolist(), strict=True):
            position = float(self.positions[row])
            cosine, sine = mpmath.cos_sin(mpmath.mpf(position) * frequency(self.base, self.dim, channel))
            for wave, exact, table in (("cos", cosine, self.cos), ("sin", sine, self.sin)):
                got, expected = float(table[row, channel]), rounded_once(exact, self.dtype)
                yield Sample(wave, self.base, self.dim, position, channel, got, expected)


def random_positions(rng: np.random.Generator) -> range | NDArray[np.float64]:
    """Consecutive integers or scattered reals of a random magnitude up to 2^53, either sign."""
    magnitude = 2.0 ** rng.uniform(0, 53)
    kind = rng.integers(4)
    if kind == 0:
        start = int(rng.uniform(-1, 1) * (magnitude - ROWS))
        return range(start, start + ROWS)
    if kind == 1:
        start = int(rng.integers(0, 200000))
        return range(start, start + ROWS)
    if kind == 2:
        return np.rint(rng.uniform(-magnitude, magnitude, ROWS))
    return rng.uniform(-1, 1, ROWS) * 2.0 ** rng.uniform(-60, 53, ROWS)


def random_samples(dtype: str, count: int, seed: int) -> Iterator[Sample]:
    """`count` values of random tables."""
    rng = np.random.default_rng(seed)
    for _ in range(-(-count // PER_TABLE)):
        base, dim = float(rng.choice(BASES)), int(rng.choice(DIMS))
        table = Table.of(dtype, base, dim, random_positions(rng))
        rows, channels = rng.integers(0, ROWS, PER_TABLE // 2), rng.integers(0, dim // 2, PER_TABLE // 2)
        yield from table.samples(rows, channels)


def hostile_samples(dtype: str, count: int, seed: int) -> Iterator[Sample]:
    """The values nearest to a rounding boundary, of tables of 4096 rows."""
    rng = np.random.default_rng(seed)
    for base, dim in ((10000.0, 128), (500000.0, 96), (1.0001, 34), (1e9, 80)):
        start = int(rng.integers(0, 2**40))
        table = Table.of(dtype, base, dim, range(start, start + 4096))
        angles = Angles(geometric(base, [Fraction(-2 * k, dim) for k in range(dim // 2)]))
        value = angles.at(np.array(table.positions, np.float64)[:, None], slice(None))[0]
        bits = FORMATS[dtype][0]
        ulp = np.ldexp(1.0, np.frexp(value.high)[1] - bits)  # where the format is normal
        past_half = (value.high / ulp) % 1.0 + value.low / ulp  # of the way from one neighbour to the next
        off = (np.abs(value.low) / ulp if dtype == "float64" else past_half) - 0.5
        nearest = np.argsort(np.abs(off), axis=None)[: count // 8]
        rows, channels = np.unravel_index(nearest, off.shape)
        yield from table.samples(rows, channels)


def main(count: int = 200_000, seed: int = 1) -> int:
    """Run all; print each misrounded value; the exit code says whether there was one."""
    wrong = 0
    for dtype in DTYPES:
        for name, samples in (
            ("random", random_samples(dtype, count, seed)),
            ("hostile", hostile_samples(dtype, count // 20, seed)),
        ):
            began, total, faults = time.perf_counter(), 0, 0
            for sample in samples:
                total += 1
                if sample.wrong:
                    faults += 1
                    print(dtype, sample)
            wrong += faults
            seconds = time.perf_counter() - began
            print(f"{dtype:9} {name:8} {total:8} values, {faults} misrounded, {seconds:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
