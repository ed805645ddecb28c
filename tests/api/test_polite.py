"""Large pieces go straight to the socket, and nothing overtakes what the transport still holds."""

import socket
from asyncio import Transport
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.api.polite import HELD_BYTES, Polite

LARGE = bytes(range(256)) * (HELD_BYTES // 128)


class Holding:
    """A transport that holds what it was given, of which `told` bytes by its own account, until `sent`."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.held = b""
        self.told = 0

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self.near

    def get_write_buffer_size(self) -> int:
        return self.told

    def write(self, data: bytes) -> None:
        assert len(data)
        self.held += data

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.held += b"".join(pieces)

    def took(self) -> bytes:
        """What the socket took since the last time."""
        taken = b""
        while True:
            try:
                taken += self.far.recv(1 << 20)
            except BlockingIOError:
                return taken


@pytest.fixture
def transport() -> Iterator[Holding]:
    transport = Holding()
    yield transport
    transport.near.close()
    transport.far.close()


@pytest.fixture
def polite(transport: Holding) -> Polite:
    """After the header and the first large piece of an answer, all of which were sent."""
    connection = SimpleNamespace(transport=cast(Transport, transport), close_politely=lambda: None)
    polite = Polite(cast(Any, connection))
    polite.hold()
    polite.write(b"header")
    polite.write(LARGE)
    assert transport.took() == b"", "with the header the transport is asked"
    assert transport.held == b"header" + LARGE
    transport.held = b""
    return polite


def test_a_large_piece_behind_a_large_one_goes_to_the_socket(transport: Holding, polite: Polite) -> None:
    polite.write(LARGE)
    assert (transport.took(), transport.held) == (LARGE, b"")


def test_what_the_socket_does_not_take_is_left_to_the_transport(transport: Holding, polite: Polite) -> None:
    transport.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    polite.write(LARGE * 64)
    taken = transport.took()
    assert 0 < len(taken) < 64 * len(LARGE)
    assert taken + transport.held == LARGE * 64


def test_nothing_goes_before_what_the_transport_holds(transport: Holding, polite: Polite) -> None:
    transport.told = 1
    polite.write(LARGE)
    assert (transport.took(), transport.held) == (b"", LARGE)


def test_nothing_goes_before_a_small_piece_which_the_transport_holds_untold(transport: Holding, polite: Polite) -> None:
    polite.write(LARGE[:HELD_BYTES])
    polite.write(LARGE)
    assert (transport.took(), transport.held) == (b"", LARGE[:HELD_BYTES] + LARGE)
    transport.held = b""
    polite.write(LARGE)
    assert (transport.took(), transport.held) == (LARGE, b"")


def test_a_socket_that_takes_nothing_is_the_transports_to_find_out(transport: Holding, polite: Polite) -> None:
    transport.near.close()
    polite.write(LARGE)
    assert transport.held == LARGE
