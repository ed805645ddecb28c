"""Memory goes back to the system when the work has ended, once."""

import asyncio
import sys
from typing import Any

import pytest

from service.heap import AGAIN_SECONDS, LEAST_WORK, MOST_AT_REST, REST_SECONDS, Heap, giving_back
from service.server import Server
from tests.clients import on_port, settings
from tests.live import wait_until


def test_it_is_given_back_once_after_work() -> None:
    given: list[str] = []
    heap = Heap(lambda: given.append("back"))
    used, now, told = 0.0, 0.0, []
    for more in (LEAST_WORK / 2, 10.0, MOST_AT_REST, MOST_AT_REST / 2, 0.0, LEAST_WORK / 3, 3.0, 0.1):
        used, now = used + more, now + REST_SECONDS
        call = heap.watch(used, now)
        assert heap.watch(used, now + REST_SECONDS / 2) is None
        told.append(call is not None)
    assert told == [False, False, False, True, False, False, False, True]
    assert call is not None
    call()
    assert given == ["back"]


def test_it_is_given_back_again_after_a_while() -> None:
    """Clients that leave take no work worth mentioning, and may leave much behind."""
    heap, work = Heap(lambda: None), 2 * LEAST_WORK
    times = (0.0, 10.0, 20.0, AGAIN_SECONDS + 9, AGAIN_SECONDS + 15, AGAIN_SECONDS + 30)
    assert [heap.watch(work, time) is not None for time in times] == [False, True, False, False, True, False]


def test_libraries_without_it_keep_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = giving_back()
    assert give_back is not None
    give_back()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert giving_back() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert giving_back() is None


def test_the_server_does_so_beside_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[Any] = []

    class Rested:
        def watch(self, used: float, now: float) -> Any:
            assert now > 0 < used
            return None if loops else lambda: loops.append(asyncio._get_running_loop())

    with on_port(settings()) as client:
        assert isinstance(client.server, Server)
        monkeypatch.setattr(client.server, "heap", Rested())
        wait_until(lambda: loops)
        assert client.get("/health/live").status_code == 200
    assert loops == [None]
