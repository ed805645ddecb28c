import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service import workers
from service.workers import MOST_KILLED, Served, Started, Supervisor, supervise
from tests.live import wait_until

OLD = Started(0, 0.0)
# Newer Pythons warn of a fork where other threads run: they do in pytest's process, not in the supervisor.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def sign_in(folder: Path) -> Callable[[int], int]:
    """Work that leaves a file named for its process and then sleeps until a signal ends it."""

    def work(_number: int) -> int:
        (folder / str(os.getpid())).touch()
        time.sleep(30)
        return 0

    return work


def meanwhile(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def at_work(folder: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(folder))


def stop_when(folder: Path, count: int, sig: int = signal.SIGTERM) -> threading.Thread:
    def act() -> None:
        wait_until(lambda: len(at_work(folder)) == count)
        os.kill(os.getpid(), sig)

    return meanwhile(act)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_all_start_and_all_stop(sig: int, tmp_path: Path) -> None:
    before = signal.getsignal(sig)
    thread = stop_when(tmp_path, 3, sig)
    assert supervise(3, sign_in(tmp_path), 5, [], Served()) == 0
    thread.join()
    assert len(at_work(tmp_path)) == 3
    assert signal.getsignal(sig) == before


def kill_newest_until(folder: Path, counts: range) -> None:
    """Kill the worker that came last, and see another come, until so many have come."""
    for count in counts:
        newest = max(at_work(folder), key=lambda pid: (folder / str(pid)).stat().st_mtime_ns)
        os.kill(newest, signal.SIGKILL)
        wait_until(lambda count=count: len(at_work(folder)) == count)


def test_one_that_replaces_another_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with it its sockets, at which clients wait."""
    supervisor = Supervisor(lambda _number: 0, 3, [], Served())
    supervisor.started = {11: OLD, 12: Started(1, 0.0)}
    supervisor.served.note()
    again: list[int] = []
    monkeypatch.setattr(os, "wait", lambda: (12, 9))
    monkeypatch.setattr(supervisor, "start", again.append)
    supervisor.reap()
    assert again == [1]


@pytest.mark.parametrize("serving", [True, False])
def test_one_that_is_killed_is_replaced_however_short_it_lived(
    serving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kills one as soon as it serves, such as a lack of memory, is no reason to end them all; nor is one that is
    killed while all start."""
    monkeypatch.setattr(workers, "PAUSE_SECONDS", 0.05)
    served = Served()
    most = 3 * MOST_KILLED if serving else MOST_KILLED

    def work(_number: int) -> int:
        if serving:
            served.note()
        return sign_in(tmp_path)(0)

    def act() -> None:
        wait_until(lambda: len(at_work(tmp_path)) == 2)
        assert bool(served) == serving
        kill_newest_until(tmp_path, range(3, 3 + most))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = meanwhile(act)
    assert supervise(2, work, 5, [], served) == 0
    thread.join()
    assert len(at_work(tmp_path)) == 2 + most


def test_where_none_comes_to_serve_killing_ends_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PAUSE_SECONDS", 0.0)

    def work(_number: int) -> int:
        (tmp_path / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert supervise(1, work, 5, [], Served()) == 1
    assert len(at_work(tmp_path)) == 1 + MOST_KILLED


def test_one_that_lived_long_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(workers, "PAUSE_SECONDS", 1e6)

    def act() -> None:
        wait_until(lambda: len(at_work(tmp_path)) == 2)
        kill_newest_until(tmp_path, range(3, 4))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = meanwhile(act)
    assert supervise(2, sign_in(tmp_path), 5, [], Served()) == 0
    thread.join()


def test_one_that_ends_while_all_stop_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(lambda _number: 0, 3, [], Served())
    supervisor.started = {11: OLD, 12: Started(1, time.monotonic())}
    supervisor.served.note()
    monkeypatch.setattr(os, "wait", lambda: (12, 9))
    monkeypatch.setattr(time, "sleep", lambda _seconds: setattr(supervisor, "stopping", True))
    supervisor.reap()
    assert supervisor.started == {11: OLD}
    assert supervisor.result == 0


def test_a_process_stops_when_the_one_at_the_other_end_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, sig: sent.append((pid, sig)))
    reading, writing = os.pipe()
    thread = threading.Thread(target=workers.stop_at_end_of, args=(reading,))
    thread.start()
    time.sleep(0.05)
    assert sent == []
    os.close(writing)
    thread.join(5)
    os.close(reading)
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_one_that_cannot_start_ends_them_all(tmp_path: Path) -> None:
    def work(_number: int) -> int:
        (tmp_path / str(os.getpid())).touch()
        wait_until(lambda: len(at_work(tmp_path)) == 2)
        if os.getpid() == at_work(tmp_path)[0]:
            return 3
        time.sleep(30)
        return 0

    started = time.monotonic()
    assert supervise(2, work, 5, [], Served()) == 1
    assert time.monotonic() - started < 5


def test_one_that_does_not_let_go_is_killed(tmp_path: Path) -> None:
    def work(number: int) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return sign_in(tmp_path)(number)

    thread = stop_when(tmp_path, 1)
    started = time.monotonic()
    assert supervise(1, work, -1.5, [], Served()) == 1
    thread.join()
    assert time.monotonic() - started < 5


def test_a_second_signal_is_passed_on_and_sets_no_second_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    alarms: list[float] = []
    monkeypatch.setattr(os, "kill", lambda pid, sig: sent.append((pid, sig)))
    monkeypatch.setattr(signal, "setitimer", lambda _which, seconds: alarms.append(seconds))
    listening = socket.create_server(("127.0.0.1", 0))
    supervisor = Supervisor(lambda _number: 0, 3, [listening], Served())
    supervisor.started = {11: OLD, 12: OLD}
    supervisor.stop(signal.SIGTERM, None)
    supervisor.stop(signal.SIGINT, None)
    assert sent == [(11, 15), (12, 15), (11, 2), (12, 2)]
    assert alarms == [5]
    assert listening.fileno() == -1  # or clients would wait at a port where nobody listens any more


def test_one_that_has_just_ended_does_not_keep_the_others_from_being_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes between the end of the wait for it and the note that it is gone."""
    sent: list[tuple[int, int]] = []

    def kill(pid: int, sig: int) -> None:
        if pid == 11:
            raise ProcessLookupError
        sent.append((pid, sig))

    monkeypatch.setattr(os, "kill", kill)
    supervisor = Supervisor(lambda _number: 0, 3, [], Served())
    supervisor.started = {11: OLD, 12: OLD}
    supervisor.send(signal.SIGTERM)
    assert sent == [(12, signal.SIGTERM)]


def test_a_child_that_it_did_not_start_is_none_of_its_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "wait", lambda: (99, 0))
    supervisor = Supervisor(lambda _number: 0, 3, [], Served())
    supervisor.started = {11: OLD}
    supervisor.reap()
    assert supervisor.started == {11: OLD}
    assert supervisor.result == 0


def test_a_worker_that_starts_while_all_stop_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fork", lambda: 12)
    monkeypatch.setattr(os, "kill", lambda pid, sig: sent.append((pid, sig)))
    supervisor = Supervisor(lambda _number: 0, 3, [], Served())
    supervisor.stopping = True
    supervisor.start(0)
    assert sent == [(12, signal.SIGTERM)]
