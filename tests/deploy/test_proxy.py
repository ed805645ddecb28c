"""The proxy that the project ships: what it keeps, who computes what, and what clients see when replicas go."""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.access import new_key
from service.main import create_app
from service.settings import Settings
from tests.deploy.proxied import ALLOWED, Replica, Reply, get, proxied, written
from tests.live import free_port, live
from tests.tools import program

pytestmark = pytest.mark.tool

PAGE, OTHER_PAGE = "https://app.example.org", "http://localhost:5173"
# 200 KiB and a header of 128 bytes.
TABLE = "/v1/encodings/sinusoidal.npy?length=400&dim=128"
FORMS = ("gzip, deflate, br", "gzip", "br, gzip;q=0.8", "deflate, gzip, zstd", "GZIP")


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Three processes; whatever is left of them is killed."""
    found = [Replica(free_port()) for _ in range(3)]
    for each in found:
        each.start()
    yield found
    for each in found:
        if each.process is not None and each.process.poll() is None:
            each.process.kill()
            each.process.wait(10)


class Held(NamedTuple):
    """A server in this process, and how many bytes of answers it holds."""

    port: int
    bytes: Callable[[], int]


@contextlib.contextmanager
def serving(**changes: Any) -> Iterator[Held]:
    """One more of them."""
    settings = Settings.model_validate({"port": 0, "drain_seconds": 0} | changes)
    app = create_app(settings)
    with live(app, settings) as server:
        yield Held(server.port, lambda: app.state.resources.replies.held_bytes)


@pytest.fixture
def three() -> Iterator[list[Held]]:
    """Three of them."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serving()) for _ in range(3)]


class Asking:
    """Clients that ask without pause while something happens to the replicas; every reply is kept."""

    def __init__(self, port: int, paths: list[str], clients: int = 4) -> None:
        self.port, self.paths = port, paths
        self.replies: list[Reply] = []
        self.errors: list[Exception] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]

    def _ask(self, number: int) -> None:
        while not self._over.is_set():
            for path in self.paths[number:] + self.paths[:number]:
                try:
                    self.replies.append(get(self.port, path))
                except OSError as error:
                    self.errors.append(error)

    def __enter__(self) -> "Asking":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def failed(self) -> list[object]:
        return [*self.errors, *(reply for reply in self.replies if reply.status != 200)]

    def wait_for(self, more: int) -> None:
        """Until so many replies more have come."""
        wanted = len(self.replies) + more
        while len(self.replies) + len(self.errors) < wanted:
            threading.Event().wait(0.02)


def test_the_configuration_is_one(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "nginx.conf").write_text(written([1, 2, 3], free_port(), tmp_path), encoding="utf-8")
    done = subprocess.run(
        [program("nginx"), "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.replace("user", "")


def test_answers_are_computed_once_whatever_headers_clients_send(three: list[Held], tmp_path: Path) -> None:
    with proxied([each.port for each in three], tmp_path) as proxy:
        direct = get(three[0].port, TABLE)
        assert get(proxy, TABLE) == Reply(200, direct.body, "MISS")
        agents = [
            {
                "User-Agent": f"agent {number}",
                "Accept-Encoding": FORMS[number % 5],
                "Accept": "*/*",
                "X-Odd": str(number),
            }
            for number in range(200)
        ]
        replies = [get(proxy, TABLE, headers) for headers in agents]
        assert {reply.body for reply in replies} == {direct.body}
        assert sum(reply.cached == "HIT" for reply in replies) >= 198


def test_metrics_are_not_public_and_every_request_keeps_its_own_id(three: list[Held], tmp_path: Path) -> None:
    path = "/v1/encodings/sinusoidal.npy?length=4&dim=8&base=77"
    with proxied([each.port for each in three], tmp_path) as proxy:
        for hidden in ("/metrics", "//metrics", "/%6detrics", "/metrics?x", "/./metrics"):
            assert get(proxy, hidden).status == 404
        replies = [get(proxy, path, {"X-Request-ID": name}) for name in ("one", "two", "not one")]
        assert [reply.headers["X-Request-ID"] for reply in replies[:2]] == ["one", "two"]
        assert replies[2].headers["X-Request-ID"] not in ("one", "two", "not one")
        assert all("Server-Timing" not in reply.headers for reply in replies)


def test_three_replicas_hold_little_more_than_one(three: list[Held], tmp_path: Path) -> None:
    paths = [f"/v1/encodings/sinusoidal.npy?length=64&dim=64&base={base}" for base in range(2, 62)]
    with proxied([each.port for each in three], tmp_path) as proxy:
        for _ in range(2):
            for path in paths:
                # The holder of a key passes the cache of the proxy by.
                assert get(proxy, path, {"Authorization": "Bearer any"}).status == 200
    shares = [each.bytes() for each in three]
    assert min(shares) > 0.1 * sum(shares), shares
    with serving() as one:
        for path in paths:
            assert get(one.port, path).status == 200
        assert sum(shares) <= 1.2 * one.bytes()


def test_no_answer_to_a_key_is_kept_by_the_proxy(tmp_path: Path) -> None:
    """Neither is it given to whoever has none."""
    key, entry = new_key("ci")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(api_keys=entry)).port for _ in range(3)]
        proxy = stack.enter_context(proxied(ports, tmp_path))
        for path in (TABLE, f"{TABLE}&revision=1", "/v1/models/llama", "/"):
            for _ in range(2):
                reply = get(proxy, path, {"Authorization": f"Bearer {key}"})
                assert (reply.status, reply.cached) == (200, "BYPASS")
                stranger, guest = get(proxy, path), get(proxy, path, {"Authorization": "Bearer other"})
                assert stranger.cached == "MISS"
                assert (stranger.status, guest.status) == ((200, 200) if path == "/" else (401, 401))
        assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


@pytest.mark.parametrize(("origins", "listed"), [("*", ""), (PAGE, ""), (f"{PAGE}, {OTHER_PAGE}", PAGE)])
def test_an_answer_from_the_cache_is_for_the_page_that_asks(origins: str, listed: str, tmp_path: Path) -> None:
    """With several origins those that the configuration lists."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(cors_origins=origins)).port for _ in range(3)]
        proxy = stack.enter_context(proxied(ports, tmp_path, f"{listed} {listed};" if listed else ""))
        for _ in range(2):
            found = [
                get(proxy, TABLE, {"Origin": origin} if origin else {}).headers.get(ALLOWED, "")
                for origin in ("", PAGE, "https://evil.org")
            ]
            assert found == (["", PAGE, ""] if listed else [origins] * 3)


def test_killing_one_of_three_replicas_fails_no_request(replicas: list[Replica], tmp_path: Path) -> None:
    paths = [f"/v1/encodings/rope.npy?length=64&dim=64&base={base}" for base in range(2, 400)]
    with proxied([each.port for each in replicas], tmp_path) as proxy, Asking(proxy, paths) as asking:
        asking.wait_for(100)
        assert replicas[1].stop(signal.SIGKILL) == -signal.SIGKILL
        asking.wait_for(300)
    assert asking.failed == []


def test_a_rolling_restart_fails_no_request(replicas: list[Replica], tmp_path: Path) -> None:
    paths = [f"/v1/encodings/rope.npy?length=64&dim=64&base={base}" for base in range(2, 2000)]
    with proxied([each.port for each in replicas], tmp_path) as proxy, Asking(proxy, paths, 2) as asking:
        for each in replicas:
            asking.wait_for(50)
            assert each.stop(signal.SIGTERM) == 0
            each.start()
        asking.wait_for(50)
    assert asking.failed == []


def test_what_is_known_is_answered_when_all_replicas_are_gone(replicas: list[Replica], tmp_path: Path) -> None:
    with proxied([each.port for each in replicas], tmp_path) as proxy:
        first = get(proxy, TABLE)
        assert first.status == 200
        for each in replicas:
            each.stop(signal.SIGKILL)
        assert get(proxy, TABLE).body == first.body
        assert get(proxy, f"{TABLE}&base=7").status in (502, 504)
