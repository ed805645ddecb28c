"""The model of many replicas: its own examples, the README's measurements, and what replicas keep of such requests."""

import doctest
import random
import re
from contextlib import ExitStack
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from tests.benchmarks import replicas
from tests.benchmarks.replicas import BY_PROXY, PUBLISHED, REPLICAS, row, share
from tests.deploy.dockerfile import ROOT
from tests.deploy.proxied import get, proxied, serving

DISTINCT, REQUESTS = 200, 1000
# 16 KiB and a header of 128 bytes; a replica keeps about twenty of them.
SMALL = "/v1/encodings/sinusoidal.npy?length=512&dim=8&base={}"


def test_its_examples_are_right() -> None:
    found = doctest.testmod(replicas)
    assert (found.failed, found.attempted > 3) == (0, True)


def test_it_goes_by_what_the_readme_says_was_measured() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.search(
        r"replica, computed \| (\d+) .*\n.*known to it \| ([\d,]+) .*\n.*asks a replica \| ([\d,]+) .*\n"
        r".*known to it \| ([\d,]+):",
        text,
    )
    assert told is not None
    found = [int(word.replace(",", "")) for word in told.groups()]
    assert found == [PUBLISHED.cold, PUBLISHED.known, PUBLISHED.passed, PUBLISHED.hit]


@pytest.mark.parametrize("kept", [0, BY_PROXY])
def test_more_replicas_know_more_and_all_is_counted_once(kept: int) -> None:
    rows = [row(PUBLISHED, count, kept) for count in REPLICAS]
    assert all(more.replica > less.replica and more.rate >= less.rate for less, more in pairwise(rows))
    assert all(each.proxy + each.replica <= 1 + 1e-9 for each in rows)


@pytest.mark.tool
@pytest.mark.parametrize("count", [1, 3])
def test_replicas_know_nearly_the_share_that_the_model_says(count: int, tmp_path: Path) -> None:
    """Of requests by Zipf's law, of which the proxy keeps nothing."""
    with ExitStack() as stack:
        limits = {"table_cache_bytes": 0, "reply_cache_bytes": 20 * 17_000}
        found = [stack.enter_context(serving(**limits)) for _ in range(count)]
        proxy = stack.enter_context(proxied([found[number % count].port for number in range(3)], tmp_path))
        weights = list(accumulate(1 / rank for rank in range(1, DISTINCT + 1)))
        asked = random.Random(9).choices(range(DISTINCT), cum_weights=weights, k=2 * REQUESTS)
        for number, which in enumerate(asked):
            if number == REQUESTS:
                computed = sum(each.rows() for each in found)
            assert get(proxy, SMALL.format(2 + which), {"Authorization": "Bearer any"}).status == 200
        known = 1 - (sum(each.rows() for each in found) - computed) / REQUESTS
    # What is kept is not always what is asked for most: less than the model says, and not much less.
    assert -0.15 < known - share(0, 20 * count, DISTINCT) < 0.02
