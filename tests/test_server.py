import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from starlette.applications import Starlette

import tests.live
from service import server
from service.logs import configure_logging
from service.server import Server, address, bind, bind_for_each, close, serve
from service.settings import Settings
from service.workers import Served
from tests import stub_app
from tests.live import Client, answering, ask, free_port, live, wait_until


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The times at which the test process would have been ended; and the stub app in place of the service."""
    seconds: list[float] = []
    monkeypatch.setattr(server, "end_at_the_latest", seconds.append)
    monkeypatch.setitem(sys.modules, "service.main", stub_app.MAIN)
    yield seconds
    logging.captureWarnings(False)  # what a server begins with
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)


def settings(**values: object) -> Settings:
    return Settings.model_validate({"port": 0, "drain_seconds": 0, **values})


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_serve_answers_until_a_signal_and_returns_0(
    sig: int, ends: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port = free_port()
    answers: list[int] = []

    def act() -> None:
        wait_until(lambda: answering(port))
        answers.append(ask(port, "/health/live"))
        os.kill(os.getpid(), sig)

    thread = threading.Thread(target=act)
    thread.start()
    assert serve(settings(port=port)) == 0
    thread.join()
    assert answers == [200]
    assert ends == [15]
    assert f"listening on http://127.0.0.1:{port}" in caplog.messages
    assert caplog.messages[-1] == "stopped"


def test_a_taken_port_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve(settings(port=port)) == 1
    line = f"posenc: cannot listen on 127.0.0.1:{port}: {os.strerror(errno.EADDRINUSE)}"
    assert capsys.readouterr().err.strip().startswith(line)


def test_nobody_listens_before_there_is_someone_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is taken while the service is loaded would wait for seconds, and no other replica be asked."""
    port = free_port()
    found: list[bool] = []

    def stop() -> None:
        wait_until(lambda: answering(port))
        os.kill(os.getpid(), signal.SIGINT)

    def create_app(chosen: Settings) -> Starlette:
        found.append(answering(port))
        threading.Thread(target=stop).start()
        return stub_app.create_app(chosen)

    monkeypatch.setitem(sys.modules, "service.main", SimpleNamespace(create_app=create_app))
    assert serve(settings(port=port)) == 0
    assert found == [False]


def test_a_port_that_was_taken_meanwhile_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def create_app(chosen: Settings) -> Starlette:
            other.listen()
            return stub_app.create_app(chosen)

        other.bind(("127.0.0.1", port))
        monkeypatch.setitem(sys.modules, "service.main", SimpleNamespace(create_app=create_app))
        assert serve(settings(port=port)) == 1
    assert capsys.readouterr().err.startswith(f"posenc: cannot listen on 127.0.0.1:{port}: ")


def test_several_workers_are_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a socket of its own, and closes those of the others; the parent has them all, and closes them last."""
    seen: list[tuple[int, float]] = []
    kept: list[socket.socket] = []

    def supervise(
        count: int, work: Callable[[int], int], grace: float, sockets: list[socket.socket], served: Served
    ) -> int:
        assert len({opened.getsockname() for opened in sockets}) == 1
        assert not served
        kept.extend(sockets)
        seen.append((count, grace))
        return work(1)

    def answer(_settings: Settings, own: list[socket.socket], _serving: object) -> int:
        assert own == kept[1:]
        assert [opened.fileno() == -1 for opened in kept] == [True, False]
        return 5

    monkeypatch.setattr(server, "supervise", supervise)
    monkeypatch.setattr(server, "work", answer)
    monkeypatch.setattr(sys, "platform", "linux")
    assert serve(settings(workers=2, grace_seconds=9)) == 5
    assert seen == [(2, 9)]
    assert [opened.fileno() for opened in kept] == [-1, -1]


@contextmanager
def doors(**values: object) -> Iterator[list[list[socket.socket]]]:
    found = bind_for_each(settings(**values))
    try:
        yield found
    finally:
        for door in found:
            close(door)


def listen(opened: socket.socket) -> None:
    """As a server does when it starts."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.listen()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux divides connections among sockets")
@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_the_kernel_divides_who_comes_among_the_workers(host: str) -> None:
    """A pool of 64 falls to one of two with a chance of 1 in 2^63."""
    with doors(workers=2, host=host) as ((one,), (two,)), ExitStack() as clients:
        for opened in (one, two):
            listen(opened)
            opened.setblocking(False)
        place = ("127.0.0.1", one.getsockname()[1])
        for _ in range(64):
            clients.enter_context(socket.create_connection(place, timeout=5))
        counts = [taken(opened) for opened in (one, two)]
    assert sum(counts) == 64
    assert min(counts) > 0


def taken(opened: socket.socket) -> int:
    """How many connections wait there; each is closed."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            opened.accept()[0].close()
            count += 1
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux divides connections among sockets")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("listening", [False, True])
def test_the_port_of_workers_is_taken_for_any_other(workers: int, listening: bool) -> None:
    """Also for one that shares its own port, and before anybody listens, when two are started at once."""
    with doors(workers=2) as ((one,), (two,)):
        if listening:
            listen(one)
            listen(two)
        with pytest.raises(OSError, match="in use"):
            bind_for_each(settings(workers=workers, port=one.getsockname()[1]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux divides connections among sockets")
def test_workers_do_not_take_the_port_of_another_program() -> None:
    """Not even of one that would let it be shared."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            bind_for_each(settings(workers=2, port=other.getsockname()[1]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux divides connections among sockets")
def test_workers_start_again_where_connections_have_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(workers=2)
    with doors(workers=2) as (one, two):
        close(two)
        monkeypatch.setattr(tests.live, "bind", lambda _settings: one)
        with live(stub_app.create_app(chosen), chosen) as running, Client(running.port) as client:
            client.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.read().startswith(b"HTTP/1.1 200")  # the end that closed first is the one that waits
    with doors(workers=2, port=running.port) as again:
        for (opened,) in again:
            listen(opened)


def test_elsewhere_workers_share_one_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    with doors(workers=2) as found:
        assert len(found) == 1
        monkeypatch.setattr(server, "work", lambda _settings, own, _serving: len(own))
        assert server.one_of(settings(workers=2), found, lambda: None, 1) == 1
        assert found[0][0].fileno() != -1


@pytest.mark.parametrize("level", ["debug", "info", "error"])
def test_the_log_level_holds_for_all_and_hides_the_routine_of_uvicorn(level: str, capfd: object) -> None:
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn.error")
    before = root.level, root.handlers, uvicorn.level
    root.handlers = []
    uvicorn.setLevel(logging.NOTSET)
    try:
        configure_logging(settings(log_level=level))
        found = root.getEffectiveLevel(), uvicorn.getEffectiveLevel()
    finally:
        root.level, root.handlers = before[:2]
        uvicorn.setLevel(before[2])
    assert capfd is not None
    assert found == {"debug": (10, 10), "info": (20, 30), "error": (40, 40)}[level]


def test_a_name_listens_on_all_its_addresses_with_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, 1, 6, "", (f"127.0.0.{n}", 0)) for n in (1, 2, 1)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_names: found)
    sockets = bind(settings(host="localhost"))
    names = [opened.getsockname() for opened in sockets]
    for opened in sockets:
        opened.close()
    assert [name[0] for name in names] == ["127.0.0.1", "127.0.0.2"]
    assert names[0][1] == names[1][1] > 0


def test_two_colons_take_both_families() -> None:
    (opened,) = bind(settings(host="::"))
    with opened:
        opened.listen()
        place, port = opened.getsockname()[:2]
        assert address(opened) == f"http://[{place}]:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_after_sigterm_it_drains_then_closes() -> None:
    chosen = settings(drain_seconds=0.5, grace_seconds=5)
    with live(stub_app.create_app(chosen), chosen) as running:
        assert ask(running.port, "/health/ready") == 200
        began = time.monotonic()
        running.handle_exit(signal.SIGTERM, None)
        assert ask(running.port, "/health/ready") == 503
        assert ask(running.port, "/health/live") == 200
        wait_until(lambda: running.should_exit)
        assert 0.5 <= time.monotonic() - began < 4
        wait_until(lambda: not answering(running.port))
    assert running.seconds_left == 5


@pytest.mark.skipif(sys.platform != "linux", reason="a filter of Linux")
def test_who_has_connected_is_let_in_and_nobody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as opened, socket.socket() as before, socket.socket() as after:
        before.connect(opened.getsockname())
        server.turn_away(opened)
        after.settimeout(0.3)
        with pytest.raises(TimeoutError):
            after.connect(opened.getsockname())
        before.sendall(b"here")
        accepted, _ = opened.accept()
        with accepted:
            assert accepted.recv(10) == b"here"


def test_elsewhere_the_door_just_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    with socket.create_server(("127.0.0.1", 0)) as opened:
        server.turn_away(opened)
        assert answering(opened.getsockname()[1])


def test_while_it_drains_every_answer_is_the_last_of_its_connection() -> None:
    """Also one under way; a connection on which nothing happens stays, and ends without a reset."""
    chosen = settings(drain_seconds=1, grace_seconds=5)
    with live(stub_app.create_app(chosen), chosen) as running:
        clients = [Client(running.port) for _ in range(3)]
        resting, asking, waiting = clients
        waiting.send(b"GET /slow?seconds=0.3 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: bool(running.server_state.tasks))
        wait_until(lambda: len(running.server_state.connections) == 3)
        running.handle_exit(signal.SIGTERM, None)
        asking.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        for client in (asking, waiting):
            assert b"\r\nconnection: close\r\n" in client.read()
        assert resting.read() == b""
        resting.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert resting.read() == b""
        for client in clients:
            client.socket.close()


def test_sigint_and_a_second_signal_do_not_wait_for_draining() -> None:
    stopped = Server(stub_app.create_app(settings()), settings(drain_seconds=10))
    began = time.monotonic()
    stopped.handle_exit(signal.SIGTERM, None)
    assert stopped.close_at is not None
    assert stopped.close_at >= began + 10
    stopped.handle_exit(signal.SIGTERM, None)
    assert stopped.close_at < began + 5
    interrupted = Server(stub_app.create_app(settings()), settings(drain_seconds=10))
    interrupted.handle_exit(signal.SIGINT, None)
    assert interrupted.close_at is not None
    assert interrupted.close_at < began + 5


@pytest.mark.parametrize(("grace", "drain", "cut"), [(15, 1, 12), (12, 1, 9), (5, 0, 4.05), (1, 1, 0)])
def test_requests_have_nearly_all_of_the_grace_period(grace: int, drain: float, cut: float) -> None:
    """Draining not counted."""
    chosen = settings(grace_seconds=grace, drain_seconds=drain)
    stopped = Server(stub_app.create_app(chosen), chosen)
    times: list[float] = []

    async def close() -> None:
        began = asyncio.get_running_loop().time()
        stopped.handle_exit(signal.SIGTERM, None)
        with mock.patch.object(
            asyncio.get_running_loop(), "call_later", side_effect=lambda *given: times.append(given[0])
        ):
            await stopped._close_door()
        assert asyncio.get_running_loop().time() - began < 5

    with mock.patch("asyncio.sleep", mock.AsyncMock()):
        asyncio.run(close())
    assert times == [pytest.approx(cut)]


def test_a_signal_while_requests_finish_ends_the_waiting() -> None:
    stopped = Server(stub_app.create_app(settings()), settings())
    stopped.should_exit = True
    stopped.handle_exit(signal.SIGTERM, None)
    assert stopped.force_exit


def test_a_running_request_is_finished() -> None:
    chosen = settings(grace_seconds=5)
    with live(stub_app.create_app(chosen), chosen) as running, Client(running.port) as client:
        client.send(b"GET /slow?seconds=0.5 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: bool(running.server_state.tasks))
        running.handle_exit(signal.SIGTERM, None)
        assert client.read().endswith(b"slept")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /slow?seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\npart",
        b"GET /health/li",
        b"",
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_holds_the_process_longer_than_the_grace_period(sent: bytes) -> None:
    chosen = settings(grace_seconds=1)
    with live(stub_app.create_app(chosen), chosen) as running, Client(running.port) as client:
        client.send(sent)
        time.sleep(0.1)
        began = time.monotonic()
        running.handle_exit(signal.SIGTERM, None)
        client.read()
        assert time.monotonic() - began < 5


def test_a_computation_that_does_not_let_go_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.undo()
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    server.end_at_the_latest(0.05)
    wait_until(lambda: bool(codes))
    assert codes == [1]


COMMAND = """
import sys
from tests import stub_app
sys.modules["service.main"] = stub_app.MAIN
from service.command import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_0(sig: int, workers: str, tmp_path: Path) -> None:
    port = free_port()
    arguments = ["serve", "--port", str(port), "--workers", workers, "--drain-seconds", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stderr=log)
    try:
        wait_until(lambda: answering(port))
        assert ask(port, "/health/live") == 200
        process.send_signal(sig)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert b"Traceback" not in (tmp_path / "log").read_bytes()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_workers_leave_when_their_parent_was_killed(tmp_path: Path) -> None:
    """SIGKILL cannot be passed on; left behind, they would hold the port for ever."""
    port = free_port()
    arguments = ["serve", "--port", str(port), "--workers", "2", "--drain-seconds", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stderr=log)
    try:
        wait_until(lambda: answering(port))
        assert ask(port, "/health/live") == 200
        left = children(process.pid)
        assert len(left) == 2
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not answering(port), 20)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), 20)


def test_a_host_that_has_no_address_is_a_bad_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(_settings: Settings) -> list[socket.socket]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(server, "bind", nowhere)
    assert server.serve(settings(host="nowhere.invalid")) == 2
    assert capsys.readouterr().err == "posenc: --host (POSENC_HOST) is nowhere.invalid: Name or service not known\n"
