"""Clients that close their connection in the middle: the work stops, what it held comes back, nothing is logged."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.api.flights import while_there
from service.api.problems import Problem
from tests.api.gates import watched
from tests.api.test_wire import ask, port_of
from tests.clients import Client, on_port, settings
from tests.live import wait_until

# Made in some hundred blocks each, of 64 KiB: to be kept, to be sent in blocks and kept, and to be sent only.
KEPT = "/v1/encodings/sinusoidal.npz?length=3000&dim=256&base={}"
FOLLOWED = "/v1/encodings/sinusoidal.npy?length=25000&dim=256&base={}"
STREAMED = "/v1/encodings/sinusoidal.npy?length=400000&dim=256&base={}"
CHECKED = STREAMED.replace(".npy", ".npz")
BODY = b'{"positions": [%s]}' % b",".join(b"%d" % number for number in range(4000))


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    with on_port(settings(table_cache_bytes=0)) as client:
        yield client


def post(target: str) -> bytes:
    fields = ("Content-Type: application/json", f"Content-Length: {len(BODY)}")
    return ask(target, *fields, method="POST", last=False) + BODY


def connect(server: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(server)), timeout=10)


def read(client: socket.socket) -> bytes:
    """The body of the answer to the last request of a connection."""
    answer = b"".join(iter(lambda: client.recv(1 << 20), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    return answer.partition(b"\r\n\r\n")[2]


def at_rest(server: Client) -> bool:
    found = server.resources
    return found.budget.in_use == 0 and not found.under_way and not found.tasks and not server.connections


@pytest.mark.parametrize("target", [KEPT, FOLLOWED, STREAMED, CHECKED])
def test_work_stops_when_nobody_waits_for_it(server: Client, target: str) -> None:
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()
        with closing(connect(server)) as client:
            client.sendall(ask(target.format(80), last=False))
            assert gate.entered.wait(10)
        wait_until(lambda: server.connections == 0)
        gate.open()
        wait_until(lambda: at_rest(server))
        assert gate.blocks <= 3  # the one that was under way, and the one after it where two are made at a time


def test_so_does_that_for_a_body(server: Client) -> None:
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()
        with closing(connect(server)) as client:
            client.sendall(post("/v1/encodings/sinusoidal.npz?dim=256"))
            assert gate.entered.wait(10)
        wait_until(lambda: server.connections == 0)
        gate.open()
        wait_until(lambda: at_rest(server))
        assert gate.blocks <= 1


@pytest.mark.parametrize("target", [KEPT, FOLLOWED])
def test_it_goes_on_for_those_who_stay(server: Client, target: str) -> None:
    path = target.format(81)
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()
        with closing(connect(server)) as first, closing(connect(server)) as second:
            first.sendall(ask(path, last=False))
            assert gate.entered.wait(10)
            second.sendall(ask(path))
            wait_until(lambda: server.connections == 2)
            time.sleep(0.1)
            first.close()
            wait_until(lambda: server.connections == 1)
            gate.open()
            answer = read(second)
        assert gate.prepared == 1
    with closing(connect(server)) as client:
        client.sendall(ask(path))
        assert read(client) == answer


@pytest.mark.parametrize("target", [STREAMED, FOLLOWED])
def test_who_leaves_with_a_request_behind_has_left_too(server: Client, target: str) -> None:
    """The answer under way is not that to the last request; nothing more of it is computed, sent or counted."""
    meters = server.resources.gate.meters
    before = sum(each.sizes.total for each in meters.answers.values())
    with watched("encodings", "sinusoidal") as gate:
        with closing(connect(server)) as client:
            client.sendall(ask(target.format(83), last=False) + ask("/health/live"))
            assert client.recv(1 << 16)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wait_until(lambda: at_rest(server) and not meters.in_flight)
        assert gate.blocks < 30  # of some 200 that are computed as they are sent
    assert sum(each.sizes.total for each in meters.answers.values()) - before < 20e6


def test_it_begins_anew_for_who_comes_after_all_have_left(server: Client) -> None:
    path = FOLLOWED.format(82)
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()
        with closing(connect(server)) as client:
            client.sendall(ask(path, last=False))
            assert gate.entered.wait(10)
        wait_until(lambda: server.connections == 0)
        with closing(connect(server)) as client:
            client.sendall(ask(path))
            wait_until(lambda: server.connections == 1)
            time.sleep(0.1)
            gate.open()
            answer = read(client)
    with closing(connect(server)) as client:
        client.sendall(ask(path))
        assert read(client) == answer


def test_a_thousand_leave(server: Client, caplog: pytest.LogCaptureFixture) -> None:
    """At all moments: before the header is whole, while it computes, while it streams; some by a reset."""
    small = [ask(f"/v1/encodings/rope?length=90&dim=64&base={number}", last=False) for number in range(90, 125)]
    large = [ask(target.format(97), last=False) for target in (KEPT, FOLLOWED, STREAMED, CHECKED)]
    requests = [*small, *large, post("/v1/encodings/sinusoidal.npz?dim=64")]
    for number in range(1000):
        with closing(connect(server)) as client:
            client.sendall(requests[number % len(requests)][: 40 if number % 7 == 0 else None])
            if number % 3 == 1 and number % 7:
                assert client.recv(1000)
            if number % 5 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: at_rest(server), 10)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_chunks_end_with_their_reader() -> None:
    answers = iter([False, False, True])
    chunks = while_there(iter([b"a", b"b", b"c"]), lambda: next(answers))
    assert [next(chunks), next(chunks)] == [b"a", b"b"]
    with pytest.raises(Problem):
        next(chunks)
    assert list(while_there(iter([b"a"]), lambda: False)) == [b"a"]
