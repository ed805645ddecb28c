"""What many replicas would do, from what one does: requests a second and shares of hits, by how popular answers are.

The model: of DISTINCT answers of 200 KB the k-th most popular is asked for in proportion to 1/k (Zipf's law, exponent
1). The address decides which replica has one, so N replicas keep N times as many as one. What is kept is what is asked
for most: the proxy's first, the replicas' next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, fsum

from service.settings import Settings

BYTES = 400 * 128 * 4 + 128
DISTINCT = 1_000_000
# --reply-cache-bytes of one, and max_size in deploy/nginx.conf.
BY_REPLICA = int(Settings.model_fields["reply_cache_bytes"].default) // BYTES
BY_PROXY = 4 * 2**30 // BYTES
REPLICAS = (1, 3, 10, 100, 1000)
NETWORK_BYTES = 10e9 / 8  # of a machine with 10 Gbit/s


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests for each second of one core: the service's when it computes and when it knows; the proxy's when it asks
    the service and when it knows."""

    cold: float
    known: float
    passed: float
    hit: float


# The README's first table.
PUBLISHED = Measured(cold=173, known=6510, passed=1067, hit=9469)


@lru_cache
def harmonic(count: int) -> float:
    """The sum of 1/k up to a count."""
    return fsum(1 / rank for rank in range(1, count + 1))


def share(first: int, last: int, distinct: int = DISTINCT) -> float:
    """Of all requests those for the answers after the first so many, up to the last so many.

    >>> share(0, 1, 3) == 1 / (1 + 1 / 2 + 1 / 3), share(0, 3, 3), share(2, 9, 3) == (1 / 3) / (1 + 1 / 2 + 1 / 3)
    (True, 1.0, True)
    """
    last = min(last, distinct)
    return fsum(1 / rank for rank in range(first + 1, last + 1)) / harmonic(distinct)


@dataclass(frozen=True, slots=True)
class Row:
    """Replicas of one core each behind proxies that keep so many answers: shares of all requests, and requests a
    second."""

    proxy: float
    replica: float
    rate: float

    def cores(self, found: Measured) -> int:
        """That the proxies take."""
        return ceil(self.rate * (self.proxy / found.hit + (1 - self.proxy) / found.passed))

    def links(self) -> int:
        """Of the network, to the clients."""
        return ceil(self.rate * BYTES / NETWORK_BYTES)


def row(found: Measured, count: int, kept: int) -> Row:
    """What replicas have time for; and no more than the one has that the most popular of their answers falls to.

    >>> one = Measured(cold=100, known=10000, passed=1000, hit=10000)
    >>> [round(row(one, count, 0).replica, 2) for count in (1, 10, 1000)]
    [0.54, 0.7, 1.0]
    >>> [round(row(one, count, 0).rate) for count in (1, 10, 1000)]
    [214, 3244, 143927]
    """
    by_proxy, by_replica = share(0, kept), share(kept, kept + count * BY_REPLICA)
    work = by_replica / found.known + (1 - by_proxy - by_replica) / found.cold
    hottest = share(kept, kept + 1) / found.known
    return Row(by_proxy, by_replica, min(count / work, 1 / hottest))


def table(found: Measured = PUBLISHED) -> str:
    """By replicas, with and without the cache of the proxy."""
    return "\n".join([*_lines(found), ""])


def _lines(found: Measured) -> Iterator[str]:
    yield (
        "| replicas | known to them, if the proxy keeps nothing | requests/s | known to the proxy "
        "| known to replicas | computed | requests/s | proxy cores | links |"
    )
    yield "|---" * 9 + "|"
    for count in REPLICAS:
        alone, behind = row(found, count, 0), row(found, count, BY_PROXY)
        computed = max(0.0, 1 - behind.proxy - behind.replica)
        yield (
            f"| {count:,} | {alone.replica:.1%} | {alone.rate:,.0f} | {behind.proxy:.1%} | {behind.replica:.1%} "
            f"| {computed:.1%} | {behind.rate:,.0f} | {behind.cores(found):,} | {behind.links():,} |"
        )


if __name__ == "__main__":
    print(table(), end="")
