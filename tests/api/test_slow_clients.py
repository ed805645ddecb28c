"""Clients that send or take a little at a time: each is let go in its time, with what it held."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from service.api.meters import Answers
from tests.api.test_wire import ask, parsed, port_of
from tests.clients import Client, on_port, settings
from tests.live import wait_until

# More than the kernel takes on a client's behalf: 20 MB.
LARGE = "/v1/encodings/sinusoidal.npy?length=40000&dim=128"
# Kept, so answered at once when asked for again: 26 MB.
REPEATED = "/v1/encodings/sinusoidal.npy?length=50000&dim=128"
# Not kept, so sent to each reader by itself: 51 MB.
STREAMED = "/v1/encodings/sinusoidal.npy?length=100000&dim=128"
ROUTE = "/v1/encodings/{scheme}.{extension}"
POST = ("Content-Type: application/json", "Content-Length: 100000")


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    with on_port(settings(body_idle_seconds=0.4, answer_idle_seconds=0.4, keep_alive_seconds=1)) as client:
        yield client


def connected(server: Client, receive_bytes: int = 4096) -> socket.socket:
    """A client whose kernel takes little for it."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    opened.settimeout(10)
    opened.connect(("127.0.0.1", port_of(server)))
    return opened


@pytest.mark.parametrize("leaves", [False, True])
def test_a_repeated_answer_is_counted_when_it_was_taken(server: Client, leaves: bool) -> None:
    """Or when the client has left, with the bytes that the socket took until then."""
    whole = server.get(REPEATED).content
    gate = server.resources.gate
    sizes = gate.meters.answers.setdefault(("repeated", ROUTE, "GET", 200), Answers()).sizes
    wait_until(lambda: not server.resources.under_way)
    server.get(REPEATED)
    before = sizes.count, sizes.total
    with closing(connected(server)) as client:
        client.sendall(ask(REPEATED))
        client.recv(100, socket.MSG_PEEK)
        assert (sizes.count, sizes.total) == before
        if not leaves:
            assert b"".join(iter(lambda: client.recv(1 << 20), b"")).endswith(whole)
    wait_until(lambda: sizes.count > before[0])
    assert sizes.count - before[0] == 1
    sent = sizes.total - before[1]
    assert 0 < sent < 20e6 if leaves else sent == len(whole)


def test_a_body_that_trickles_is_408(server: Client) -> None:
    """A byte now and then is never a pause, and would hold its memory for a day."""
    with closing(connected(server)) as client:
        client.sendall(ask("/v1/apply/rope", *POST, method="POST", last=False))
        began = time.monotonic()
        client.settimeout(0.02)
        answer = b""
        while not answer and time.monotonic() - began < 10:
            client.sendall(b" ")
            try:
                answer = client.recv(65536)
            except TimeoutError:
                continue
    assert time.monotonic() - began < 5
    status, headers, body = parsed(answer)
    assert (status, headers["connection"]) == (408, "close")
    assert b" bytes of the body arrived in 0.4 seconds; 409 at least, or its end, would do" in body
    wait_until(lambda: server.resources.budget.in_use == 0)


def test_a_client_that_goes_on_trickling_gets_to_read_why(server: Client) -> None:
    """Bytes that arrive behind the refusal reset nothing, and are not waited for long."""
    with closing(connected(server)) as client:
        client.sendall(ask("/v1/encodings/sinusoidal?dim=4", *POST, method="POST", last=False))
        client.settimeout(0.01)
        answer, began = b"", time.monotonic()
        while time.monotonic() - began < 10:
            with suppress(TimeoutError):
                part = client.recv(65536)
                if not part:
                    break
                answer += part
            client.sendall(b"1")
        assert parsed(answer)[0] == 408
        client.sendall(b"1")  # it is still read
        wait_until(lambda: server.connections == 0)


def test_a_body_that_comes_slowly_but_steadily_is_read(server: Client) -> None:
    body = b'{"positions": [0]}'.ljust(6000)
    fields = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    with closing(connected(server)) as client:
        client.sendall(ask("/v1/encodings/sinusoidal?dim=4", *fields, method="POST"))
        for start in range(0, len(body), 600):
            client.sendall(body[start : start + 600])
            time.sleep(0.1)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("target", [LARGE, STREAMED])
@pytest.mark.parametrize("times", [1, 2])
def test_a_reader_who_takes_nothing_is_cut(server: Client, target: str, times: int) -> None:
    """Repeated answers are written at once, others in blocks."""
    if times == 2 and target == LARGE:
        assert server.get(target).status_code == 200
    with closing(connected(server)) as client:
        client.sendall(ask(target, last=False))
        assert client.recv(100)
        wait_until(lambda: server.connections == 0)
        wait_until(lambda: server.resources.budget.in_use == 0)
        with pytest.raises(ConnectionResetError):
            all(iter(lambda: client.recv(1 << 20), b""))


def test_a_reader_who_takes_a_byte_at_a_time_is_cut(server: Client) -> None:
    with closing(connected(server)) as client:
        client.sendall(ask(STREAMED, last=False))
        assert client.recv(1)
        assert server.resources.budget.in_use
        wait_until(lambda: client.recv(1) and server.resources.budget.in_use == 0)
        wait_until(lambda: server.connections == 0)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("target", [LARGE, STREAMED])
def test_a_reader_who_takes_its_time_gets_all(server: Client, target: str, last: bool) -> None:
    """Slower than the server computes, for many times what a pause may last."""
    whole = server.get(target)
    with closing(connected(server, 1 << 20)) as client:
        client.sendall(ask(target, last=last))
        size, expected = 0, len(whole.content)
        while size < expected:
            part = client.recv(expected // 24)
            assert part
            size += len(part)
            time.sleep(0.04 * len(part) * 24 / expected)
    assert size >= expected


def test_a_reader_for_whom_the_kernel_holds_enough_is_not_cut(server: Client) -> None:
    """The kernel takes more of an answer only when a third of what it holds is gone, megabytes; what it gave counts.

    The reader's kernel tells of room for a packet at a time, which here has 64 KB.
    """
    with closing(connected(server, 1 << 17)) as client:
        client.sendall(ask(STREAMED, last=False))
        for _ in range(50):
            assert client.recv(50_000)
            time.sleep(0.05)
        assert server.connections == 1


def test_what_the_kernel_does_not_tell_is_not_counted(server: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise OSError

    monkeypatch.setattr("fcntl.ioctl", refused)
    with closing(connected(server)) as client:
        client.sendall(ask(STREAMED, last=False))
        assert client.recv(100)
        wait_until(lambda: server.connections == 0)


def test_an_answer_that_nobody_takes_does_not_keep_its_connection(server: Client) -> None:
    """The last answer of a connection was written whole, and the connection is to close when it is taken."""
    assert server.get(LARGE).status_code == 200
    for last in (True, False):
        with closing(connected(server)) as client:
            client.sendall(ask(LARGE, last=last))
            assert client.recv(100)
            wait_until(lambda: server.connections == 0)


def test_an_idle_connection_and_half_a_header_cost_nothing_for_long() -> None:
    with on_port(settings(header_seconds=0.3)) as server:
        opened = [connected(server) for _ in range(40)]
        for client in opened[20:]:
            client.sendall(b"GET /v1/schemes HTTP/1.1\r\nHost: x\r\nX-A: ")
        answers = [client.recv(65536) for client in opened]
        wait_until(lambda: server.connections == 0)
        for client in opened:
            client.close()
    assert set(answers[:20]) == {b""}
    assert {parsed(answer)[0] for answer in answers[20:]} == {408}
