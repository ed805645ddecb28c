"""A repeated request is answered before routing: the same bytes and headers as the long way, whatever is sent.

Two servers get the same bytes: one has answered the addresses before, the other has no cache of replies.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from starlette.types import Scope

from service.api.gate import Gate, Noted
from service.api.problems import Problem
from service.main import Service, create_app
from tests.api.problems import refused
from tests.clients import Client as HttpClient
from tests.clients import in_process, settings
from tests.live import Client, Live, live, wait_until

SMALL = "/v1/encodings/sinusoidal.npy?length=3&dim=4"
PINNED = SMALL + "&revision=1"
TEXT = "/v1/encodings/sinusoidal?length=100&dim=8"
MASK = "/v1/masks/causal.csv?length=5"
LARGE = "/v1/encodings/sinusoidal.npy?length=2097152&dim=128"
MIDDLE = "/v1/encodings/sinusoidal.npy?length=40&dim=128"  # too large to be copied behind its header
KNOWN = (SMALL, MIDDLE, PINNED, TEXT, MASK, LARGE)
LAST = b"GET /health/live HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Pair:
    """A server that knows the addresses, and one that never knows any."""

    fast: Live
    slow: Live
    gates: tuple[Gate, Gate]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    chosen = settings(port=0, header_seconds=5)
    forgetful = settings(port=0, header_seconds=5, reply_cache_bytes=0, table_cache_bytes=0)
    apps: tuple[Service, Service] = create_app(chosen), create_app(forgetful)
    with live(apps[0], chosen) as fast, live(apps[1], forgetful) as slow:
        for coding in (b"", b"Accept-Encoding: gzip\r\n"):
            for target in KNOWN:
                method = b"HEAD" if target == LARGE else b"GET"
                said(fast, method + b" " + target.encode() + b" HTTP/1.1\r\nHost: x\r\n" + coding + b"\r\n")
        yield Pair(fast, slow, (apps[0].state.resources.gate, apps[1].state.resources.gate))


def said(server: Live, sent: bytes) -> bytes:
    """What the server answers to these bytes, but for what differs between requests; `@9@` stands for nine digits."""
    long = re.sub(rb"@(\d+)@", lambda match: b"9" * int(match[1]), sent)
    with Client(server.port) as client:
        client.send(long + LAST)
        answer = client.read()
    answer = re.sub(rb"(?m)^(date: |server-timing: ).*\r\n", b"", answer)
    return re.sub(rb"[0-9a-f]{12}-[0-9a-f]+|[0-9a-f]{32}(?=\r\n|\",\"errors)", b"ID", answer)


TAGS = ("{}", "W/{}", '"a", {}', '"a",W/{} , "b"', "*", ", ,{}", '"x"', "", '"', "x", '"a" "b"', '"a";', "*, *", "{}{}")
RANGES = ("bytes=0-9", "bytes=-5", "bytes=5-", "bytes=9-2", "bytes=999999999999-", "bytes=-0", "bytes=0-1,3-4", "bytes",
          "bytes=", "bytes=-", "bytes=a-b", "lines=0-1", "BYTES=0-0", "bytes=@5000@-", "bytes=٣-")  # fmt: skip
CODINGS = (
    "gzip",
    "gzip;q=0",
    "*",
    "identity",
    "br",
    "gzip;q=x",
    "gzip;q=0.1, identity",
    "GZIP",
    ";;",
    "gzip;q=-1",
    "x-gzip",
)
IDS = ("plain-1", "a b", "é", "x" * 65, "", "a\tb", "<script>")
ODD = (b"X-Odd: \x80\xff", b"X: @4000@", b"Accept: image/png", b"Cookie: a=b; @900@", b"Connection: keep-alive",
       b"Connection: close", b"If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", b"Expect: 100-continue",
       b"X-Long: @40000@",
       b"Upgrade: h2c\r\nConnection: Upgrade", b"Content-Length: 0", b"Content-Length: x", b"Host: y",
       b"Bad Name: x", b"Authorization: Bearer x", b"If-Match: *", b"Content-Length: 3, 3")  # fmt: skip
QUERIES = ("", "&", "&x=1", "&length=3", "&dim=%zz", "&%00=%ff", "&@9000@", "&lenght=3", "=&=", "#part", "&dim",
           "&nonfinite=string",
           "&tensor=encoding", "%20", "+", "&offset=-0", "?", ";", "&é")  # fmt: skip


@st.composite
def requests(draw: st.DrawFn, tags: list[str]) -> bytes:
    """One request, well-formed or not; never one that leaves the server waiting for more."""
    target = draw(st.sampled_from(KNOWN)) + (draw(st.sampled_from(QUERIES)) if draw(st.integers(0, 3)) == 3 else "")
    method = draw(st.sampled_from(("GET", "GET", "GET", "GET", "HEAD", "HEAD", "POST", "OPTIONS", "DELETE", "BREW")))
    if method == "GET" and target.startswith(LARGE):
        method = "HEAD"  # a gigabyte
    version = draw(st.sampled_from(("1.1", "1.1", "1.1", "1.0")))
    tag = draw(st.sampled_from(tags))
    fields = [f"{method} {target} HTTP/{version}".encode(), b"Host: x"]
    if draw(st.booleans()):
        fields.append(b"If-None-Match: " + draw(st.sampled_from(TAGS)).format(tag, tag).encode())
    if draw(st.integers(0, 3)) == 3:
        fields.append(b"Range: " + draw(st.sampled_from(RANGES)).encode())
        fields.append(b"If-Range: " + draw(st.sampled_from((tag, '"x"', "*"))).encode())
    if draw(st.booleans()):
        fields.append(b"Accept-Encoding: " + draw(st.sampled_from(CODINGS)).encode())
    if draw(st.integers(0, 3)) == 3:
        fields.append(b"X-Request-ID: " + draw(st.sampled_from(IDS)).encode())
    fields += draw(st.lists(st.sampled_from(ODD), max_size=2)) if draw(st.integers(0, 3)) == 3 else []
    return b"\r\n".join(fields) + b"\r\n\r\n"


def test_both_ways_say_the_same(pair: Pair) -> None:
    tags = [
        match.decode()
        for target in KNOWN
        for coding in (b"", b"Accept-Encoding: gzip\r\n")
        for match in re.findall(
            rb"etag: (.*)\r\n",
            said(pair.slow, b"HEAD " + target.encode() + b" HTTP/1.1\r\nHost: x\r\n" + coding + b"\r\n"),
        )
    ]
    assert len(tags) == 2 * len(KNOWN)
    before = pair.gates[0].counts.total()

    @examples(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(requests(tags), min_size=1, max_size=4))
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"] * 20)
    @example([b"GET " + TEXT.encode() + b" HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"])
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nIf-None-Match: W/*, *\r\nIf-None-Match: *\r\n\r\n"])
    @example([b"HEAD " + LARGE.encode() + b" HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n"])
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"] * 2)
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\n\r\n"])
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"])
    @example([b"GET http://x" + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"])
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
    @example([b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"])
    @example([b"GET " + SMALL.replace("sinusoidal", "sinus%6fidal").encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"])
    def same(sent: list[bytes]) -> None:
        assert said(pair.fast, b"".join(sent)) == said(pair.slow, b"".join(sent))

    same()
    repeated = [counts.counts for counts in pair.gates]
    assert sum(count for (way, _), count in repeated[0].items() if way == "repeated") > 40
    assert {status for way, status in repeated[0] if way == "repeated"} == {200, 304}
    assert not any(way == "repeated" for way, _ in repeated[1])
    assert pair.gates[0].counts.total() > before


def test_what_was_asked_for_again_is_coded_as_asked(pair: Pair) -> None:
    """The coded bytes decode to the others; npy is never coded."""
    bodies = {}
    for coding in (b"identity", b"gzip"):
        for target in (TEXT, SMALL):
            with Client(pair.fast.port) as client:
                client.send(
                    b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: %s\r\n\r\n"
                    % (target.encode(), coding)
                )
                bodies[target, coding] = client.read().partition(b"\r\n\r\n")
    assert gzip.decompress(bodies[TEXT, b"gzip"][2]) == bodies[TEXT, b"identity"][2]
    assert b"content-encoding: gzip" in bodies[TEXT, b"gzip"][0]
    assert b"vary: Accept-Encoding" in bodies[TEXT, b"identity"][0]
    assert bodies[SMALL, b"gzip"][2] == bodies[SMALL, b"identity"][2]
    assert b"vary" not in bodies[SMALL, b"gzip"][0]


def test_what_is_never_coded_is_one_address_to_all(pair: Pair) -> None:
    """And a spelling that few use does not take the place of one that many do."""
    gate = pair.gates[0]
    known, odd = f"{SMALL}&base=7", [f"{SMALL}&base=7.{'0' * zeros}" for zeros in range(1, 10)]

    def asked(target: str, coding: str) -> None:
        said(pair.fast, f"GET {target} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n".encode())

    before = gate.counts["repeated", 200]
    for other in odd:
        for target in (other, known):
            for coding in ("gzip", "identity"):
                asked(target, coding)
    # Each spelling was read once, and known from then on in both codings.
    assert gate.counts["repeated", 200] - before == 4 * len(odd) - (len(odd) + 1)


# The gate


def no_visitors(_scope: Scope, noted: Noted) -> Problem | None:
    """A check as an API key or a quota will be one."""
    if noted.get(b"x-request-id") == b"visitor":
        return Problem("overloaded", "no visitors", headers={"Retry-After": "7"})
    return None


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_check_guards_both_ways(method: str) -> None:
    with in_process(settings()) as client:
        gate = client.resources.gate
        gate.checks = (no_visitors,)
        unlike = {"x-request-id", "server-timing"}
        visitor, guest = {"x-request-id": "visitor"}, {"x-request-id": "guest"}
        shut = client.request(method, SMALL, headers=visitor)
        assert gate.counts == {("early", 503): 1}
        opened = [client.request(method, SMALL, headers=guest) for _ in range(2)]
        shut_again = client.request(method, SMALL, headers=visitor)
        assert gate.counts == {("early", 503): 2, ("made", 200): 1, ("repeated", 200): 1}
        assert [each.status_code for each in opened] == [200, 200]
        assert shut.headers["retry-after"] == "7"
        assert shut.content == shut_again.content
        assert (method == "HEAD") == (shut.content == b"")
        shown = [{key: each.headers[key] for key in each.headers if key not in unlike} for each in (shut, shut_again)]
        assert shown[0] == shown[1]
        if method == "GET":
            assert refused(shut_again, "overloaded")["instance"] == "visitor"


def test_every_answer_is_counted_once(pair: Pair) -> None:
    gate = pair.gates[0]
    before = gate.counts
    said(pair.fast, b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    said(pair.fast, b"GET " + SMALL.encode() + b" HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n")
    said(pair.fast, b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    said(pair.fast, b"nonsense\r\n\r\n")
    wait_until(lambda: (gate.counts - before).total() == 7)
    # The last of each connection asks for /health/live; what is nonsense ends its connection.
    assert gate.counts - before == {
        ("repeated", 200): 1, ("repeated", 304): 1, ("made", 404): 1, ("made", 200): 3, ("early", 400): 1
    }  # fmt: skip


def test_bounds_hold_for_what_is_known(direct: HttpClient) -> None:
    """Behind a server that has no bounds of its own as well."""
    direct.get(SMALL)
    options: dict[str, Any] = {"headers": {"x-long": "y" * 40000}}
    refused(direct.get(SMALL, **options), "header-fields-too-large")
    refused(direct.get(SMALL + "&x=" + "y" * 9000), "uri-too-long")


@pytest.mark.parametrize("fields", [{"Range": "bytes=0-9"}, {"If-Match": "*"}])
def test_what_the_cache_does_not_answer_is_no_use_of_it(direct: HttpClient, fields: dict[str, str]) -> None:
    target = "/v1/encodings/sinusoidal.npy?length=4&dim=8"
    direct.get(target)
    replies = direct.resources.replies
    with mock.patch.object(replies, "by_address", wraps=replies.by_address) as asked:
        assert direct.get(target, headers=fields).status_code in (200, 206)
        asked.assert_not_called()
        direct.get(target)
        asked.assert_called()
