"""The proxy that the project ships: what it keeps, who computes what, and what clients see when replicas go."""

import contextlib
import http.client
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from service.access import new_key
from service.api.limits import Crowd
from service.api.schemes import EXTENSIONS
from tests.deploy.proxied import ALLOWED, Held, Replica, Reply, get, proxied, serving, written
from tests.live import free_port, wait_until
from tests.tools import program

pytestmark = pytest.mark.tool

LISTS = "map $http_origin $origin {"
PAGE, OTHER_PAGE = "https://app.example.org", "http://localhost:5173"
# 200 KiB and a header of 128 bytes.
TABLE = "/v1/encodings/sinusoidal.npy?length=400&dim=128"
LARGE = "/v1/encodings/sinusoidal.npy?length=1000000&dim=1024"
LARGE_BYTES = 4_096_000_128
WORDS = "/v1/encodings/sinusoidal?length=64&dim=8"
FORMS = ("gzip, deflate, br", "gzip", "br, gzip;q=0.8", "deflate, gzip, zstd", "GZIP")
FORBIDDEN = ("gzip;q=0", "gzip; q=0.0", "br, gzip;q=0.000, deflate", "GZIP ;Q=0", "x-notgzip", "gzip-not", "br", "")


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


@pytest.mark.parametrize("replica", [None, "kept"])
def test_a_client_that_forbids_gzip_gets_none(replica: str | None, three: list[Held], tmp_path: Path) -> None:
    with proxied([each.port for each in three], tmp_path) as proxy:
        if replica == "kept":
            assert {get(proxy, WORDS, {"Accept-Encoding": form}).headers["Content-Encoding"] for form in FORMS} == {
                "gzip"
            }
        for form in FORBIDDEN:
            reply = get(proxy, WORDS, {"Accept-Encoding": form})
            assert (reply.status, reply.headers["Content-Encoding"], reply.body[:1]) == (200, None, b"{"), form


@pytest.mark.parametrize("extension", ["", *(f".{name}" for name in EXTENSIONS)])
def test_what_the_service_does_not_code_is_kept_once(extension: str, three: list[Held], tmp_path: Path) -> None:
    path = f"/v1/encodings/sinusoidal{extension}?length=64&dim=8"
    gzip = {"Accept-Encoding": "gzip"}
    coding = get(three[0].port, path, gzip).headers["Content-Encoding"]
    with proxied([each.port for each in three], tmp_path) as proxy:
        assert get(proxy, path).status == 200
        other = get(proxy, path, gzip)
        assert (other.status, other.headers["Content-Encoding"]) == (200, coding)
        assert other.cached == ("MISS" if coding else "HIT")
        assert len(kept(tmp_path)) == (2 if coding else 1)


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


def test_a_replica_less_moves_its_own_share_alone(three: list[Held], tmp_path: Path) -> None:
    """Or every replica would have to compute anew what another one has."""
    paths = [f"/v1/encodings/sinusoidal.npy?length=4&dim=8&base={base}" for base in range(2, 62)]

    def answering_each(replicas: list[Held], folder: Path) -> list[int]:
        found = []
        folder.mkdir()
        with proxied([each.port for each in replicas], folder) as proxy:
            for path in paths:
                before = [each.answers(200) for each in three]
                assert get(proxy, path, {"Authorization": "Bearer any"}).status == 200
                (one,) = (n for n in range(3) if three[n].answers(200) > before[n])
                found.append(one)
        return found

    before, after = answering_each(three, tmp_path / "three"), answering_each(three[:2], tmp_path / "two")
    assert {each: before.count(each) > 6 for each in range(3)} == dict.fromkeys(range(3), True)
    assert [one for one, old in zip(after, before, strict=True) if old != 2] == [one for one in before if one != 2]


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
        proxy = stack.enter_context(proxied(ports, tmp_path, {LISTS: f"{LISTS} {listed} {listed};"} if listed else {}))
        for _ in range(2):
            found = [
                get(proxy, TABLE, {"Origin": origin} if origin else {}).headers.get(ALLOWED, "")
                for origin in ("", PAGE, "https://evil.org")
            ]
            assert found == (["", PAGE, ""] if listed else [origins] * 3)


def test_what_is_less_than_an_answer_takes_no_more_than_that(three: list[Held], tmp_path: Path) -> None:
    """Of a file of 4 GB that nobody has: its header, the news that it is the same, and a window of it."""

    def rows() -> int:
        return sum(each.rows() for each in three)

    with proxied([each.port for each in three], tmp_path) as proxy:
        head = get(proxy, LARGE, method="HEAD")
        assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(LARGE_BYTES))
        tag = head.headers["ETag"]
        same = get(proxy, LARGE, {"If-None-Match": tag})
        assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)
        assert get(proxy, LARGE, {"If-Match": '"other"'}).status == 412
        assert rows() == 0
        part = get(proxy, LARGE, {"Range": "bytes=128-4223", "If-Range": tag})
        assert (part.status, len(part.body)) == (206, 4096)
        assert part.headers["Content-Range"] == f"bytes 128-4223/{LARGE_BYTES}"
        wait_until(lambda: rows() == 1, 10)
        assert get(proxy, LARGE, {"Range": f"bytes={LARGE_BYTES}-"}).status == 416
    assert sum(each.bytes() for each in three) < 2**20
    assert not kept(tmp_path)


def test_less_than_an_answer_is_taken_from_one_that_is_kept(three: list[Held], tmp_path: Path) -> None:
    with proxied([each.port for each in three], tmp_path) as proxy:
        # What asks for less keeps nothing in place of the whole.
        for method, headers in (("HEAD", {}), ("GET", {"Range": "bytes=0-9"}), ("GET", {"If-None-Match": '"other"'})):
            assert get(proxy, TABLE, headers, method).cached == "MISS"
        whole = get(proxy, TABLE)
        assert (whole.status, whole.cached) == (200, "MISS")
        asked = sum(each.answers(200) + each.answers(206) + each.answers(304) for each in three)
        tag = whole.headers["ETag"]
        for window, body in (("0-999", whole.body[:1000]), ("-1000", whole.body[-1000:])):
            part = get(proxy, TABLE, {"Range": f"bytes={window}"})
            assert (part.status, part.body, part.cached) == (206, body, "HIT")
        head, same = get(proxy, TABLE, method="HEAD"), get(proxy, TABLE, {"If-None-Match": tag})
        assert (head.status, head.body, head.headers["Content-Length"], head.cached) == (200, b"", "204928", "HIT")
        assert (same.status, same.cached) == (304, "HIT")
        assert sum(each.answers(200) + each.answers(206) + each.answers(304) for each in three) == asked


def test_leaving_a_large_file_ends_its_work_and_evicts_nothing(three: list[Held], tmp_path: Path) -> None:
    with proxied([each.port for each in three], tmp_path) as proxy:
        assert get(proxy, TABLE).cached == "MISS"
        for _ in range(2):
            # One does not wait for the other either.
            connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=10)
            connection.request("GET", LARGE)
            assert len(connection.getresponse().read(2**20)) == 2**20
            connection.close()
        wait_until(lambda: all(not each.resources.gate.meters.in_flight for each in three), 10)
        written_rows = sum(each.rows() for each in three)
        assert sum(file.stat().st_size for file in kept(tmp_path)) < 2 * 204_928
        assert get(proxy, TABLE).cached == "HIT"
        assert sum(each.rows() for each in three) == written_rows


def kept(folder: Path) -> list[Path]:
    """The files of the proxy: what it keeps, and what it holds of answers under way."""
    return [file for place in folder.iterdir() if place.is_dir() for file in place.rglob("*") if file.is_file()]


def test_too_much_is_told_to_the_client_and_to_no_other_replica(three: list[Held], tmp_path: Path) -> None:
    for each in three:
        each.resources.pictures = Crowd("pictures wait to be drawn", 0)
    tables = [f"/v1/encodings/sinusoidal.npy?length=4&dim=8&base={base}" for base in range(2, 62)]
    pictures = [f"/v1/encodings/rope.svg?length=9&dim=8&base={base}" for base in range(2, 62)]
    with proxied([each.port for each in three], tmp_path) as proxy, Asking(proxy, pictures) as flood:
        flood.wait_for(60)
        before = [each.answers(200) for each in three]
        found = [get(proxy, path).status for path in tables]
        flood.wait_for(20)
    # None is set aside: each answers its own share.
    assert all(each.answers(200) > count + 6 for each, count in zip(three, before, strict=True))
    assert found == [200] * len(tables)
    assert flood.errors == []
    assert {reply.status for reply in flood.replies} == {503}
    assert all(reply.headers["Retry-After"] == "1" for reply in flood.replies)
    assert sum(each.answers(503) for each in three) == len(flood.replies)


def test_a_replica_that_failed_its_self_test_is_passed_over(three: list[Held], tmp_path: Path) -> None:
    three[1].resources.readiness.state = "failed"
    with proxied([each.port for each in three], tmp_path) as proxy:
        for base in range(2, 32):
            path = f"/v1/encodings/rope.npy?length=4&dim=8&base={base}"
            assert (get(proxy, path).status, get(proxy, "/health/ready").status) == (200, 200)
    # And set aside.
    assert three[1].answers(500) >= 3


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
        assert get(proxy, f"{TABLE}&base=7").status == 503


def test_what_is_known_without_a_coding_is_answered_to_who_takes_gzip_when_all_are_gone(
    replicas: list[Replica], tmp_path: Path
) -> None:
    gzip = {"Accept-Encoding": "gzip"}
    with proxied([each.port for each in replicas], tmp_path) as proxy:
        plain, file = get(proxy, WORDS), get(proxy, TABLE, gzip)
        only_coded = get(proxy, f"{WORDS}&base=7", gzip)
        assert (plain.status, file.status, only_coded.headers["Content-Encoding"]) == (200, 200, "gzip")
        for each in replicas:
            each.stop(signal.SIGKILL)
        for _ in range(2):
            found = get(proxy, WORDS, gzip)
            assert (found, found.headers["Content-Encoding"]) == (Reply(200, plain.body, "HIT"), None)
            assert get(proxy, TABLE) == Reply(200, file.body, "HIT")
        # In gzip alone it is of no use to others; nor are answers to whoever has a key.
        assert get(proxy, f"{WORDS}&base=7").status == 503
        assert get(proxy, WORDS, gzip | {"Authorization": "Bearer any"}).status == 503


def test_what_was_known_is_answered_too_when_it_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of answers that hold for a second."""
    monkeypatch.setattr("service.api.answers.FRESH", "public, max-age=1")
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as replicas:
            ports = [replicas.enter_context(serving()).port for _ in range(3)]
            proxy = stack.enter_context(proxied(ports, tmp_path))
            first = get(proxy, TABLE)
            assert (first.status, first.headers["Cache-Control"]) == (200, "public, max-age=1")
        time.sleep(2.1)
        for _ in range(2):
            assert get(proxy, TABLE) == Reply(200, first.body, "STALE")
