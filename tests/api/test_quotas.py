"""Buckets of tokens, and who they belong to."""

import doctest
from typing import Any

import pytest

from service.access import read_networks
from service.api import quotas
from service.api.clients import Clients
from service.api.quotas import Quota


class Clock:
    """A time that is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_documentation() -> None:
    assert doctest.testmod(quotas).attempted > 1


@pytest.mark.parametrize(("rate", "burst"), [(3.0, 7), (0.1, 1), (1000.0, 50), (1 / 3, 2)])
def test_a_bucket_gives_its_burst_and_then_its_rate(rate: float, burst: int) -> None:
    clock = Clock()
    quota = Quota(rate, burst, clock=clock)
    assert [quota.wait("a") for _ in range(burst)] == [0.0] * burst
    assert quota.wait("a") == pytest.approx(1 / rate)
    given = 0
    for _ in range(1000):
        clock.now += 0.1 / rate
        given += quota.wait("a") == 0.0
    assert 99 <= given <= 101
    clock.now += 10 * burst / rate  # full again, and no fuller
    assert [quota.wait("a") == 0.0 for _ in range(burst + 1)] == [True] * burst + [False]


def test_being_refused_costs_nothing_more() -> None:
    clock = Clock()
    quota = Quota(1, 1, clock=clock)
    assert [quota.wait("a") for _ in range(100)] == [0.0] + [1.0] * 99
    clock.now += 1
    assert quota.wait("a") == 0.0


def test_clients_have_their_own_and_those_that_asked_last_are_kept() -> None:
    quota = Quota(0.001, 1, most=100, clock=Clock())
    assert [quota.wait(f"client {number}") for number in range(100)] == [0.0] * 100
    assert quota.wait("client 0") == 1000.0  # which was the oldest, and now is not
    for number in range(100, 199):
        assert quota.wait(f"client {number}") == 0.0
    assert quota.clients == 100
    assert quota.wait("client 0") == 1000.0
    assert quota.wait("client 1") == 0.0  # forgotten


def test_a_refusal_says_how_long_to_wait() -> None:
    clock = Clock()
    quota = Quota(0.4, 1, clock=clock)
    assert quota.refusal("a") is None
    problem = quota.refusal("a")
    assert problem is not None
    assert (problem.status, problem.headers) == (429, {"Retry-After": "3"})
    clock.now += 3
    assert quota.refusal("a") is None


# Who

PEER = "192.0.2.1"


def name(trusted: str, peer: Any, forwarded: bytes = b"") -> str:
    scope = {"type": "http", "client": None if peer is None else (peer, 4711)}
    return Clients(read_networks(trusted)).name(scope, {b"x-forwarded-for": forwarded} if forwarded else {})


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "expected"),
    [
        ("", PEER, b"203.0.113.9", PEER),  # nobody is trusted
        ("10.0.0.0/8", PEER, b"203.0.113.9", PEER),  # not this one
        (PEER, PEER, b"203.0.113.9", "203.0.113.9"),
        (PEER, PEER, b"127.0.0.1, 203.0.113.9", "203.0.113.9"),
        (f"{PEER}, 10.0.0.0/8", PEER, b"1.1.1.1,203.0.113.9 , 10.1.2.3", "203.0.113.9"),
        (PEER, PEER, b"203.0.113.9:4711", "203.0.113.9"),
        (PEER, PEER, b"[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::"),
        (PEER, PEER, b"2001:db8:1:2:3::4", "2001:db8:1:2::"),
        (PEER, PEER, b"", PEER),  # nothing said
        (PEER, PEER, b"unknown", PEER),
        (PEER, PEER, b"203.0.113.9, _hidden", PEER),
        (PEER, PEER, b"203.0.113.9,", PEER),
        (PEER, PEER, b"9" * 30_000, PEER),
        (PEER, PEER, b"\xff", PEER),
        (PEER, PEER, b"192.0.2.1, 192.0.2.1", PEER),  # a chain of trusted ones, to its end
        (
            "::ffff:0:0/96",
            "::ffff:192.0.2.1",
            b"203.0.113.9",
            PEER,
        ),  # an address of IPv4 is one wherever it came through
        (PEER, "::ffff:192.0.2.1", b"203.0.113.9", "203.0.113.9"),
        ("", "2001:db8:1:2:aaaa::1", b"", "2001:db8:1:2::"),
        ("", "2001:db8:1:3::1", b"", "2001:db8:1:3::"),
        ("", "fe80::1%eth0", b"", "fe80::"),
        ("", None, b"", ""),
        (PEER, None, b"203.0.113.9", ""),
        (PEER, "", b"203.0.113.9", ""),  # a socket in the file system
    ],
)
def test_who_asks(trusted: str, peer: Any, forwarded: bytes, expected: str) -> None:
    assert name(trusted, peer, forwarded) == expected
