"""What the proxy refuses itself is told as the service would tell it; and what only a replica can refuse gets there."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.access import new_key
from service.api.problem_types import PROBLEMS
from tests.deploy.proxied import Held, Replica, get, proxied, serving
from tests.live import Client, wait_until

pytestmark = pytest.mark.tool

TABLE = "/v1/encodings/sinusoidal.npy?length=4&dim=8"
HOST = b"Host: a\r\n"
APPLY = b"POST /v1/apply/rope.npy HTTP/1.1\r\n%sContent-Type: application/octet-stream\r\n" % HOST
REFUSED = {
    "not HTTP": (b"nonsense\r\n\r\n", "bad-request"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", "bad-request"),
    "two hosts": (b"GET / HTTP/1.1\r\n%s%s\r\n" % (HOST, HOST), "bad-request"),
    "a coding that is unknown": (b"POST / HTTP/1.1\r\n%sTransfer-Encoding: br\r\n\r\n" % HOST, "bad-request"),
    "a length besides": (
        b"POST / HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" % HOST,
        "bad-request",
    ),
    "a version that is unknown": (b"GET / HTTP/3.0\r\n%s\r\n" % HOST, "bad-request"),
    "metrics": (b"GET /metrics HTTP/1.1\r\n%s\r\n" % HOST, "not-found"),
    "metrics as a page": (b"GET /./metrics?a.html HTTP/1.1\r\n%s\r\n" % HOST, "not-found"),
    "its own page": (b"GET /-refused HTTP/1.1\r\n%s\r\n" % HOST, "not-found"),
    "no probe": (b"GET /health HTTP/1.1\r\n%s\r\n" % HOST, "not-found"),
    "no probe's folder": (b"GET /health/ HTTP/1.1\r\n%s\r\n" % HOST, "not-found"),
    "TRACE": (b"TRACE / HTTP/1.1\r\n%s\r\n" % HOST, "method-not-allowed"),
    "a long address": (b"GET /%s HTTP/1.1\r\n%s\r\n" % (b"a" * 10_000, HOST), "uri-too-long"),
    "a longer address": (b"GET /%s HTTP/1.1\r\n%s\r\n" % (b"a" * 40_000, HOST), "uri-too-long"),
    "a large header": (b"GET / HTTP/1.1\r\n%sX: %s\r\n\r\n" % (HOST, b"a" * 40_000), "header-fields-too-large"),
    "many fields": (b"GET / HTTP/1.1\r\n%s%s\r\n" % (HOST, b"X: a\r\n" * 200), "header-fields-too-large"),
    "a large body": (
        b"%sContent-Length: 200000000\r\n\r\n" % APPLY,
        "content-too-large",
    ),
}


class Told(NamedTuple):
    """An answer as it came over a connection of its own."""

    status: int
    headers: dict[str, str]
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)


def sent(port: int, request: bytes) -> Told:
    """What comes when this is sent, and nothing else, not even the rest of a body that was announced."""
    with Client(port) as client:
        client.send(request)
        head, _, body = client.read(b"\r\n\r\n").partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        while len(body) < int(headers["content-length"]):
            body += client.read(b"}")
        return Told(int(status.split()[1]), headers, body)


@contextlib.contextmanager
def none_left(folder: Path, replicas: list[Replica]) -> Iterator[int]:
    """A proxy whose replicas are gone."""
    with proxied([each.port for each in replicas], folder) as proxy:
        assert get(proxy, TABLE).status == 200
        for each in replicas:
            each.stop(signal.SIGKILL)
        yield proxy


def assert_is_a_problem(told: Told, slug: str) -> None:
    kind = PROBLEMS[slug]
    document = told.document()
    assert (told.status, told.headers["content-type"]) == (kind.status, "application/problem+json")
    assert (document["type"], document["title"], document["status"]) == (f"/problems/{slug}", kind.title, kind.status)
    assert set(document) == {"type", "title", "status", "detail", "instance", "errors"}
    assert document["detail"]
    # A replica reads no id behind an address that is too long, and makes one.
    assert (document["instance"] == told.headers["x-request-id"]) or slug == "uri-too-long"
    assert_is_guarded(told)


def assert_is_guarded(told: Told) -> None:
    guards = ("cache-control", "x-content-type-options", "cross-origin-resource-policy")
    assert [told.headers[name] for name in guards] == ["no-store", "nosniff", "cross-origin"]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_a_problem_document_of_the_service(case: str, three: list[Held], tmp_path: Path) -> None:
    request, slug = REFUSED[case]
    with proxied([each.port for each in three], tmp_path) as proxy:
        told = sent(proxy, request)
    assert_is_a_problem(told, slug)
    assert ("allow" in told.headers) is (slug == "method-not-allowed")


def test_with_no_replica_left_it_is_503_and_when_to_come_back(replicas: list[Replica], tmp_path: Path) -> None:
    with none_left(tmp_path, replicas) as proxy:
        for method, more in (
            (b"GET", b""),
            (b"POST", b"Content-Length: 0\r\n"),
            (b"PUT", b"Content-Length: 999999\r\n"),
        ):
            told = sent(proxy, b"%s /v1/encodings/rope?a HTTP/1.1\r\n%s%s\r\n" % (method, HOST, more))
            assert_is_a_problem(told, "overloaded")
            assert told.headers["retry-after"] == "1"
        other = sent(proxy, b"GET /v2/models/x?a HTTP/1.1\r\n%s\r\n" % HOST)
        assert (other.status, other.headers["content-type"]) == (503, "application/json")
        assert set(other.document()) == {"error"}
        assert_is_guarded(other)
        assert other.headers["retry-after"] == "1"
        assert get(proxy, TABLE).status == 200


def test_a_host_that_replicas_do_not_go_by_gets_nothing_that_is_kept(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(allowed_hosts="a.example, *.b.example")).port for _ in range(3)]
        proxy = stack.enter_context(proxied(ports, tmp_path))
        names = ("a.example", "A.Example:8000", "x.b.example")
        assert [get(proxy, TABLE, {"Host": name}).cached for name in names] == ["MISS", "HIT", "MISS"]
        for headers in ({}, {"If-None-Match": '"other"'}, {"Range": "bytes=0-9"}, {"Range": "bytes=1-9"}):
            for name in ("evil.example", "evil.example:8000", "evil-a.example"):
                reply = get(proxy, TABLE, {"Host": name} | headers)
                assert (reply.status, json.loads(reply.body)["type"]) == (421, "/problems/misdirected-request")
        # The name in the target goes before the other, for both of them.
        target = b"GET http://%s" + TABLE.encode() + b" HTTP/1.1\r\nHost: %s\r\n\r\n"
        assert sent(proxy, target % (b"evil.example", b"a.example")).status == 421
        assert get(proxy, "/health/ready", {"Host": "evil.example"}).status == 200


@pytest.mark.parametrize(("allowed", "status"), [("", 200), ("a.example", 421)])
def test_who_names_no_host_in_http_1_0_is_answered_as_by_a_replica(allowed: str, status: int, tmp_path: Path) -> None:
    """Kept or not, with a condition or without."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(allowed_hosts=allowed)).port for _ in range(3)]
        proxy = stack.enter_context(proxied(ports, tmp_path))
        assert get(proxy, TABLE, {"Host": "a.example"}).status == 200
        for more in (b"", b"", b'If-None-Match: "other"\r\n', b"Range: bytes=1-9\r\n"):
            request = b"GET %s HTTP/1.0\r\n%s\r\n" % (TABLE.encode(), more)
            direct, passed = sent(ports[0], request), sent(proxy, request)
            assert direct.status == passed.status == (206 if status == 200 and b"Range" in more else status)
            assert passed.body == direct.body or status == 421


def test_a_large_body_is_refused_before_it_comes(tmp_path: Path) -> None:
    """To whom has no key not even that there is room."""
    _, entry = new_key("ci")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(api_keys=entry)).port for _ in range(3)]
        proxy = stack.enter_context(proxied(ports, tmp_path))
        told = sent(proxy, b"%sContent-Length: 100000000\r\n\r\nx" % APPLY)
        assert_is_a_problem(told, "unauthorized")


def test_what_has_come_of_a_large_body_is_in_no_file(three: list[Held], tmp_path: Path) -> None:
    with proxied([each.port for each in three], tmp_path) as proxy, Client(proxy) as client:
        client.send(APPLY + b"Content-Length: 20000000\r\n\r\n" + b"\x93NUMPY\x01\x00v\x00".ljust(10_000_000))
        wait_until(lambda: any(each.resources.gate.meters.in_flight for each in three), 10)
        wait_until(lambda: sum(each.resources.budget.in_use for each in three) > 2**20, 10)
        assert [file for file in tmp_path.rglob("nginx-*/**/*") if file.is_file()] == []
