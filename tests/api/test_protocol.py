import asyncio
import json
import logging
import random
import re
import socket
import time
from asyncio import AbstractEventLoop, Transport
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast
from unittest import mock
from unittest.mock import create_autospec

import httptools
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl

from service.api.chunks import FREE_CHUNKS, Chunks
from service.api.cycles import Cycle, Unframed
from service.api.door import Door, Found
from service.api.early import not_http
from service.api.gate import Admitted
from service.api.polite import JOINED_BYTES, Polite
from service.api.protocol import Protocol
from service.api.reply_cache import Body, Head
from service.settings import Settings
from tests import stub_app
from tests.live import Client, Live, live, wait_until

HEADER_SECONDS = 0.3
GET = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK"


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    chosen = Settings(
        port=0,
        header_seconds=HEADER_SECONDS,
        url_bytes=500,
        header_bytes=2000,
        header_fields=20,
        keep_alive_seconds=1,
    )
    with live(stub_app.create_app(chosen), chosen) as running:
        yield running


@pytest.fixture
def client(server: Live) -> Iterator[Client]:
    with Client(server.port) as connection:
        yield connection


def problem(answer: bytes, allow: str | None) -> dict[str, Any]:
    """The problem document of the one answer, after a look at everything around it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    document: dict[str, Any] = json.loads(body)
    assert re.fullmatch(rf"HTTP/1\.1 {document['status']} [A-Z][A-Za-z -]+", lines[0])
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", fields.pop("date"))
    assert fields.pop("allow", None) == allow
    assert fields == {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "connection": "close",
        "x-request-id": document["instance"],
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "cross-origin",
    }
    assert set(document) == {"type", "title", "status", "detail", "instance", "errors"}
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", document["instance"])
    assert document["errors"] == []
    return document


def refused(answer: bytes, status: int, slug: str, allow: str | None = None) -> str:
    document = problem(answer, allow)
    assert (document["status"], document["type"]) == (status, f"/problems/{slug}")
    return str(document["detail"])


def test_an_ordinary_request_is_answered_and_the_connection_kept(client: Client) -> None:
    for _ in range(2):
        client.send(GET)
        assert client.read(until=b'{"status":"live"}').startswith(OK)


@pytest.mark.parametrize("sent", [b"G", b"GET /health/live HT", GET[:-2], b"\r\n" + GET[:-4]])
def test_a_header_that_began_and_is_late_is_408(sent: bytes, client: Client) -> None:
    began = time.monotonic()
    client.send(sent)
    assert (
        refused(client.read(), 408, "request-timeout")
        == "the header was not complete after 0.3 seconds: send it in one go"
    )
    assert HEADER_SECONDS * 0.9 < time.monotonic() - began < 5


def test_trickling_does_not_help(client: Client) -> None:
    began = time.monotonic()
    for byte in GET[:8]:
        client.send(bytes([byte]))
        time.sleep(0.06)
    refused(client.read(), 408, "request-timeout")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_where_nothing_begins_the_connection_is_closed_without_a_word(sent: bytes, client: Client) -> None:
    began = time.monotonic()
    client.send(sent)
    assert client.read() == b""
    assert HEADER_SECONDS * 0.9 < time.monotonic() - began < 5


def test_an_idle_connection_is_kept_longer_than_a_header_may_take(client: Client) -> None:
    client.send(GET)
    client.read(until=b"}")
    time.sleep(2 * HEADER_SECONDS)
    client.send(GET)
    client.read(until=b"}")
    began = time.monotonic()
    assert client.read() == b""
    assert 0.9 < time.monotonic() - began < 5


def test_a_connection_whose_body_came_after_the_answer_is_kept_as_long(client: Client) -> None:
    client.send(b"DELETE /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
    client.read(until=b"\r\n\r\nMethod Not Allowed")
    client.send(b"ab")
    time.sleep(2 * HEADER_SECONDS)
    client.send(b"cd")
    time.sleep(2 * HEADER_SECONDS)
    client.send(GET)
    assert client.read(until=b"}").startswith(OK)
    began = time.monotonic()
    assert client.read() == b""
    assert 0.9 < time.monotonic() - began < 5


def test_empty_lines_do_not_keep_a_connection(client: Client) -> None:
    client.send(GET)
    client.read(until=b"}")
    began = time.monotonic()
    client.send(b"\r\n")
    assert client.read() == b""
    assert HEADER_SECONDS * 0.9 < time.monotonic() - began < 0.9


def test_the_second_header_of_a_connection_is_timed_too(client: Client) -> None:
    client.send(GET)
    client.read(until=b"}")
    client.send(GET[:9])
    refused(client.read(), 408, "request-timeout")


def test_a_header_in_two_pieces_is_in_time(client: Client) -> None:
    for _ in range(2):
        client.send(GET[:9])
        time.sleep(HEADER_SECONDS / 3)
        client.send(GET[9:])
        assert client.read(until=b"}").startswith(OK)


def test_a_slow_answer_is_not_cut(client: Client) -> None:
    client.send(b"GET /slow?seconds=0.6 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.read(until=b"slept").startswith(OK)


def test_a_late_second_request_does_not_disturb_the_first_answer(client: Client) -> None:
    client.send(b"GET /slow?seconds=0.6 HTTP/1.1\r\nHost: x\r\n\r\n" + GET[:9])
    first, between, second = client.read().partition(b"slept")
    assert first.startswith(OK)
    refused(between[5:] + second, 408, "request-timeout")


@pytest.mark.parametrize("size", [500, 501])
def test_the_target_has_at_most_url_bytes(size: int, client: Client) -> None:
    target = b"/asked/".ljust(size, b"a")
    client.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    if size == 500:
        assert client.read(until=b"}}").startswith(OK)
    else:
        detail = refused(client.read(), 414, "uri-too-long")
        assert detail.startswith("the request target is longer than 500 bytes")


def test_a_target_is_refused_while_it_arrives(client: Client) -> None:
    client.send(b"GET /" + b"a" * 300)
    client.send(b"a" * 300)
    refused(client.read(), 414, "uri-too-long")


@pytest.mark.parametrize("size", [2000, 2001])
def test_the_fields_have_at_most_header_bytes(size: int, client: Client) -> None:
    rest = size - len("Host: x\r\n") - len("A: \r\n") + 1
    client.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (rest - 1) + b"\r\n\r\n")
    if size == 2000:
        assert client.read(until=b"}").startswith(OK)
    else:
        detail = refused(client.read(), 431, "header-fields-too-large")
        assert detail == "the header has more than 20 fields or 2000 bytes"


@pytest.mark.parametrize("count", [20, 21])
def test_there_are_at_most_header_fields(count: int, client: Client) -> None:
    client.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * (count - 1) + b"\r\n")
    if count == 20:
        assert client.read(until=b"}").startswith(OK)
    else:
        refused(client.read(), 431, "header-fields-too-large")


ENDLESS = {
    "a field": b"GET / HTTP/1.1\r\nHost: x\r\nA: ",
    "a name": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "a chunk's extension": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    "a trailer": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_refused_long_before_it_fills_the_memory(what: str, client: Client) -> None:
    client.send(ENDLESS[what])
    for _ in range(64):
        try:
            client.send(b"a" * 65536)
        except OSError:  # the server has stopped listening
            break
    refused(client.read(until=b"}"), 431, "header-fields-too-large")


def test_a_client_that_never_stops_sending_still_reads_the_answer(client: Client) -> None:
    client.send(ENDLESS["a field"] + b"a" * 1_000_000)
    refused(client.read(until=b"}"), 431, "header-fields-too-large")


def test_many_trailers_are_refused(client: Client) -> None:
    client.send(ENDLESS["a trailer"] + b"b\r\n" + b"A: b\r\n" * 1000)
    refused(client.read(), 431, "header-fields-too-large")


def test_a_trailer_does_not_become_a_header(client: Client) -> None:
    client.send(b"GET /asked/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n" + GET)
    assert b'"trailer":false' in client.read(until=b"live")


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: x\r\n"])
def test_http_1_1_needs_one_host(hosts: bytes, client: Client) -> None:
    client.send(b"GET /health/live HTTP/1.1\r\n" + hosts + b"\r\n")
    assert refused(client.read(), 400, "bad-request") == "HTTP/1.1 requires one Host field: send it once"


@pytest.mark.parametrize(
    "host", [b"a b/@", b"a/b", b"a@b", b"a#b", b"a:b", b"a:1:2", b"[::1", b"a\\b", b"\xe9", b"a%zz"]
)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_host_is_one(version: bytes, host: bytes, client: Client) -> None:
    client.send(b"GET /health/live HTTP/" + version + b"\r\nHost: " + host + b"\r\n\r\n")
    assert refused(client.read(), 400, "bad-request").startswith("the Host field is no host")


@pytest.mark.parametrize("host", [b"", b":80", b"a_b.c~d", b"[::1]:80", b"a%20b", b"x" * 300])
def test_unusual_hosts(host: bytes, client: Client) -> None:
    client.send(b"GET /health/live HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert client.read(until=b"}").startswith(OK)


@pytest.mark.parametrize("scheme", [b"ftp", b"file", b"ws", b"httpx"])
def test_a_target_of_another_scheme(scheme: bytes, client: Client) -> None:
    client.send(b"GET " + scheme + b"://x/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert refused(client.read(), 400, "bad-request").startswith("the target has a scheme that is not spoken here")


@pytest.mark.parametrize("scheme", [b"http", b"HTTP", b"https"])
def test_a_whole_address(scheme: bytes, client: Client) -> None:
    client.send(b"GET " + scheme + b"://x/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.read(until=b"}").startswith(OK)


@pytest.mark.parametrize(
    ("target", "query"),
    [
        (b"http://x", {}),
        (b"HTTPS://x:80", {}),
        (b"http://[::1]", {}),
        (b"http://x?", {}),
        (b"http://x?a=1&b=/c?", {"a": "1", "b": "/c?"}),
        (b"http://x/?a=http://y?z", {"a": "http://y?z"}),
    ],
)
def test_a_whole_address_without_a_path_asks_for_the_first_page(
    target: bytes, query: dict[str, str], client: Client
) -> None:
    client.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = client.read(until=b"e}")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"path": "/", "query": query, "trailer": False}


def test_http_1_0_needs_none(client: Client) -> None:
    client.send(b"GET /health/live HTTP/1.0\r\n\r\n")
    assert client.read().startswith(OK)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\r\nFR@B / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"FROB / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"FROB / HTTP/1.1\nHost: x\r\n\r\n",
        b"FROB HTTP/1.1\r\nHost: x\r\n\r\n",
        b"FROB /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"FROB / HTTP/1.1 \r\n",
        b" / HTTP/1.1\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"F" * 1001,
        GET + b"nonsense\r\n\r\nFROB",
    ],
)
def test_what_is_not_http_is_400(sent: bytes, client: Client) -> None:
    client.send(sent)
    answer = client.read()
    answer = answer[answer.index(b"HTTP/1.1 400") :]
    assert refused(answer, 400, "bad-request") == "this is not HTTP/1.1: send a well-formed request"


UNKNOWN = (b"FROB", b"get", b"GETX", b"GE", b"PROX", b"X" * 500, b"!#$%&'*+.^_`|~9-", b"DESCRIBE", b"CONNECT")
BEFORE = {
    "nothing": b"",
    "empty lines": b"\r\n\r\n\r\n",
    "a request": GET,
    "requests": GET * 3,
    "a body": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\na\r\n\r\nFRO",
    "chunks": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunks that look like a request": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a\r\n/ HTTP\r\n\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("method", UNKNOWN)
def test_a_method_that_nobody_knows_is_405(method: bytes, before: bytes, client: Client) -> None:
    client.send(before + method + b" /v1/x?y HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
    answer = client.read()
    start = answer.index(b"HTTP/1.1 405")
    says = refused(answer[start:], 405, "method-not-allowed", "GET, HEAD, OPTIONS, POST")
    assert says == "this method is not possible here; GET, HEAD, OPTIONS, POST are"
    assert answer[:start].count(OK) == before.count(b"HTTP/1.1")


def test_behind_a_body_of_many_ends_a_method_that_nobody_knows_is_looked_for_for_a_while(client: Client) -> None:
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (400, b"\r\n\r\n" * 100)
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"FROB / HTTP/1.1\r\n")
    answer = client.read()
    refused(answer[answer.index(b"HTTP/1.1 400") :], 400, "bad-request")
    assert answer.count(OK) == 1


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("before", [b"", b"\r\n", GET])
@pytest.mark.parametrize("method", [b"FROB", b"PROX", b"GETX", b"get"])
def test_a_method_that_nobody_knows_in_pieces(method: bytes, before: bytes, step: int, server: Live) -> None:
    sent = before + method + b" /v1 HTTP/1.1\r\n"
    with Client(server.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), step):
            client.send(sent[start : start + step])
            time.sleep(0.002)
        answer = client.read()
    refused(answer[answer.index(b"HTTP/1.1 405") :], 405, "method-not-allowed", "GET, HEAD, OPTIONS, POST")
    assert answer.count(b"HTTP/1.1 ") == 1 + before.count(b"GET")


@pytest.mark.parametrize("sent", [b"FROB", b"FROB ", b"FROB /v1", b"FROB  /v1 HTTP/1", b"FROB / HTTP/1.1\r"])
def test_a_request_line_that_is_late_is_408_whatever_the_method(sent: bytes, client: Client) -> None:
    client.send(GET + sent)
    answer = client.read()
    refused(answer[answer.index(b"HTTP/1.1 408") :], 408, "request-timeout")


@pytest.mark.parametrize("end", [b"", b" HTTP/1.1\r\n"])
def test_a_target_has_at_most_url_bytes_whatever_the_method(end: bytes, client: Client) -> None:
    client.send(b"FROB /".ljust(506, b"a") + end)
    refused(client.read(), 414, "uri-too-long")


@pytest.mark.parametrize("sent", [b"FROB / HTTP/1.1\r\n", b"nonsense\r\n"])
def test_after_a_last_request_a_method_that_nobody_knows_costs_no_answer(sent: bytes, client: Client) -> None:
    client.send(SLOW.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + sent)
    assert client.read().count(b"HTTP/1.1 ") == 1


HIDDEN = b"GET /asked/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
FIVE = b"Content-Length: 5\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "two lengths": FIVE + b"Content-Length: 6\r\n",
    "a length twice": FIVE * 2,
    "a list of lengths": b"Content-Length: 5, 5\r\n",
    "a list of lengths without a space": b"Content-Length: 5,6\r\n",
    "a signed length": b"Content-Length: +5\r\n",
    "a length in hexadecimal": b"Content-Length: 0x5\r\n",
    "a length and a coding": FIVE + CHUNKS,
    "a coding and a length": CHUNKS + FIVE,
    "a coding twice": CHUNKS * 2,
    "a list of codings": b"Transfer-Encoding: chunked, chunked\r\n",
    "another coding first": b"Transfer-Encoding: gzip, chunked\r\n",
    "another coding last": b"Transfer-Encoding: chunked, identity\r\n",
    "another coding": b"Transfer-Encoding: identity\r\n",
    "a coding that is like one": b"Transfer-Encoding: xchunked\r\n",
    "a coding behind a control character": b"Transfer-Encoding: \x0bchunked\r\n",
    "a name before a space": FIVE[:-5] + b" : 5\r\n",
    "a folded line": b"X: y\r\n Content-Length: 5\r\n",
    "a line that ends early": b"X: y\nContent-Length: 5\r\n",
    "two hosts": b"Host: y\r\n",
    "a host twice": b"Host: x\r\n",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("body", [b"", b"abcde", b"0\r\n\r\n"])
def test_what_two_servers_could_read_differently_is_refused(body: bytes, fields: bytes, client: Client) -> None:
    """And what follows is no request, however it is read."""
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n" + body + HIDDEN)
    answer = client.read()  # to the end
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1
    assert b"hidden" not in answer
    refused(answer, 400, "bad-request")


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"GET /v2?" + b"x" * 500, 414, "the request target is longer than 500 bytes"),
        (b"GET /v2/models HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 25, 431, "the header has more than 20 fields"),
        (b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, "this is not HTTP/1.1"),
        (b"GET /v2 HTTP/1.1\r\n", 408, "the header was not complete"),
    ],
)
def test_below_v2_a_refusal_is_the_error_object_of_its_protocol(
    sent: bytes, status: int, says: str, client: Client
) -> None:
    client.send(sent)
    head, _, body = client.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\ncontent-type: application/json\r\n" in head
    told = json.loads(body)
    assert list(told) == ["error"]
    assert told["error"].startswith(says)


def test_a_broken_body_is_400_while_the_app_waits_for_it(client: Client) -> None:
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    client.send(b"nonsense\r\n")
    refused(client.read(), 400, "bad-request")


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
WASTEFUL = {
    "small chunks": b"1\r\n \r\n" * (FREE_CHUNKS + 200),
    "small chunks behind a large one": b"1000\r\n" + b" " * 4096 + b"\r\n" + b"1\r\n \r\n" * (FREE_CHUNKS + 200),
    "extensions": (b"40;" + b"x" * 1000 + b"\r\n" + b" " * 64 + b"\r\n") * 100,
}


@pytest.mark.parametrize("body", WASTEFUL.values(), ids=WASTEFUL)
@pytest.mark.parametrize("step", [1000, 1 << 18])
def test_chunks_that_take_the_time_of_all_are_refused(step: int, body: bytes, client: Client) -> None:
    client.send(CHUNKED)
    time.sleep(0.05)  # so that the body comes by itself
    for start in range(0, len(body), step):
        client.send(body[start : start + step])
    says = refused(client.read(), 400, "bad-request")
    assert says == "the chunks of the body are too small, or too much is said between them: send larger ones"


@pytest.mark.parametrize(
    "body",
    [
        b"1;name=value\r\n \r\n" * 1000,
        (b"100;x\r\n" + b" " * 256 + b"\r\n") * (FREE_CHUNKS + 1000),
        b"3\r\nabc\r\n" * (FREE_CHUNKS - 1),
    ],
)
def test_small_chunks_for_a_while_are_fine(body: bytes, client: Client) -> None:
    client.send(CHUNKED + body + b"0\r\n\r\n" + GET[:-2] + b"Connection: close\r\n\r\n")
    answer = client.read()
    assert answer.count(OK) == 2


def test_bodies_are_read_to_their_end_however_they_come(server: Live) -> None:
    """What looks like the end of a header is none within a body, and what follows a body is a request."""
    chance = random.Random(9)
    for _ in range(60):
        body = bytes(chance.choices(b"\r\n0aF ", weights=(9, 9, 3, 1, 1, 1), k=chance.randrange(40)))
        parts = [body[at : at + 1 + chance.randrange(9)] for at in range(0, len(body), 9)]
        body = b"".join(parts)
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        framed = (b"Content-Length: %d\r\n\r\n%b" % (len(body), body), CHUNKS + b"\r\n" + chunks + b"0\r\nA: b\r\n\r\n")
        sent = b"POST /echo HTTP/1.1\r\nHost: x\r\n" + chance.choice(framed) + b"FROB / HTTP/1.1\r\n"
        with Client(server.port) as client:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            at = 0
            while at < len(sent):
                size = chance.choice((1, 2, 5, 50, 500))
                client.send(sent[at : at + size])
                at += size
                time.sleep(0.0005)
            answer = client.read()
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(OK)
        assert rest.startswith(body + b"HTTP/1.1 405 ")


def test_the_size_of_a_chunk_is_known_wherever_what_arrives_is_cut() -> None:
    chance = random.Random(9)
    for _ in range(3000):
        parts = [bytes(chance.choices(b"\r\n0a;", k=chance.choice((1, 3, 26, 300)))) for _ in range(3)]
        wire, ends, sizes = b"", [0], [0]
        for part in parts:
            wire += b"%x%b\r\n" % (len(part), chance.choice((b"", b";a=0")))
            ends.append(len(wire))
            sizes.append(sizes[-1] + len(part))
            wire += part + b"\r\n"
        wire += chance.choice((b"0\r\n\r\n", b"0\r\nA: 9\r\n\r\n"))
        _is_followed(Chunks(), wire, sorted(chance.choices(range(len(wire)), k=4)), ends, sizes)


class Counting:
    """What a parser says of a body in chunks."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        self.on_chunk_header, self.on_chunk_complete = chunks.open, chunks.opened.clear

    def on_body(self, body: bytes) -> None:
        self.chunks.body += len(body)


def _is_followed(chunks: Chunks, wire: bytes, cuts: list[int], ends: list[int], sizes: list[int]) -> None:
    parser = httptools.HttpRequestParser(Counting(chunks))
    parser.feed_data(CHUNKED)
    for start, stop in pairwise([0, *cuts]):
        parser.feed_data(wire[start:stop])
        chunks.look(wire[:stop], start)
        known = bisect_right(ends, stop) - 1
        assert chunks.declared <= sizes[known]
        if chunks.declared > chunks.body or stop in ends[1:]:
            assert chunks.declared == sizes[known]


SLOW = b"GET /slow?seconds=0.1 HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "broken",
    [
        b"nonsense\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n",
    ],
)
@pytest.mark.parametrize("before", [1, 2])
def test_a_broken_request_is_refused_after_the_answers_before_it(before: int, broken: bytes, client: Client) -> None:
    client.send(SLOW * before + broken)
    answer = client.read()
    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"slept") == before
    start = answer.rindex(b"HTTP/1.1 400")
    assert answer[:start].endswith(b"slept")
    refused(answer[start:], 400, "bad-request")


def test_after_an_answer_that_closes_the_connection_nothing_comes(client: Client) -> None:
    client.send(SLOW.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"nonsense\r\n\r\n")
    answer = client.read()
    assert answer.endswith(b"slept")
    assert answer.count(b"HTTP/1.1") == 1


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQ\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    ],
)
def test_an_offered_upgrade_is_passed_over_body_and_all(body: bytes, client: Client) -> None:
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + UPGRADE + body)
    assert client.read(until=b"hello").startswith(OK)
    client.send(GET)
    assert client.read(until=b"}").startswith(OK)


def test_a_body_that_follows_an_offered_upgrade_later(client: Client) -> None:
    client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"Content-Length: 5\r\n\r\n")
    time.sleep(0.05)
    client.send(b"hello")
    assert client.read(until=b"hello").startswith(OK)


def test_a_broken_body_after_the_answer_began_ends_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass

    chosen = Settings(port=0, drain_seconds=0)
    with live(stub_app.create_app(chosen), chosen) as running:
        running.config.loaded_app = app  # before there is a connection, which would keep the app that it began with
        with Client(running.port) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert client.read(until=b"half").endswith(b"half")
            client.send(b"nonsense\r\n")
            assert client.read() == b""


def test_nothing_is_written_to_a_connection_that_is_closing(server: Live) -> None:
    protocol = Protocol(server.config, server.server_state, {}, create_autospec(AbstractEventLoop))
    protocol.transport = transport = create_autospec(Transport)
    protocol.refuse(not_http())
    assert [call[0] for call in transport.method_calls] == ["is_closing"]


def test_a_client_that_leaves_is_not_answered(server: Live) -> None:
    with Client(server.port) as client:
        client.send(GET[:9])
    with Client(server.port) as client:
        client.send(GET)
        assert client.read(until=b"}").startswith(OK)


def test_a_connection_that_rests_is_closed_and_one_that_works_is_not(server: Live) -> None:
    """The timer of a connection looks at what happened since it was set."""
    loop = create_autospec(AbstractEventLoop)
    protocol = Protocol(server.config, server.server_state, {}, loop)
    protocol.transport = transport = create_autospec(Transport)
    protocol.flow = FlowControl(transport)
    transport.is_closing.return_value = False
    loop.time.return_value = 100.0
    protocol.rest()
    protocol.rest()
    handler = protocol.timeout_keep_alive_handler
    assert loop.call_later.call_args_list == [((1, handler),)]
    loop.time.return_value = 100.25
    handler()  # it has rested for a quarter of a second
    protocol.in_head = True
    handler()  # a request is arriving
    assert [call.args[0] for call in loop.call_later.call_args_list] == [1, 0.75, 1]
    protocol.in_head = False
    loop.time.return_value = 101.0
    assert not transport.write_eof.called
    handler()
    transport.write_eof.assert_called_once_with()
    transport.is_closing.return_value = True
    handler()  # closed already
    transport.write_eof.assert_called_once_with()
    assert protocol.timeout_keep_alive_task is None


@pytest.mark.parametrize(("body", "way"), [((), "write"), ((bytes(JOINED_BYTES + 1),), "writelines")])
def test_a_repeated_request_behind_a_last_one_is_not_answered(server: Live, body: Body, way: str) -> None:
    door = create_autospec(Door)
    door.find.return_value = Found(Head(200, b""), body, Admitted(b"id", None, b"", None), "", 0.0, "repeated")
    for closing in (False, True):
        protocol = Protocol(server.config, server.server_state, {}, create_autospec(AbstractEventLoop))
        protocol.transport = transport = create_autospec(Transport)
        protocol.flow = FlowControl(transport)
        protocol.door = door
        transport.is_closing.return_value = closing
        protocol.data_received(GET)
        assert getattr(transport, way).called != closing
    assert [call.args[1] for call in door.find.call_args_list] == [b"/health/live"] * 2


def test_many_requests_in_a_row_may_wish_for_another_protocol(client: Client) -> None:
    wish = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    client.send(3 * wish + GET[:-2] + b"Connection: close\r\n\r\n")
    assert client.read().count(OK) == 4


def test_a_request_has_one_answer_though_its_body_is_faulty(client: Client) -> None:
    client.send(b"POST /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    answer = client.read(until=b"\r\n\r\n")
    client.send(b"nonsense\r\n")
    answer += client.read()
    assert answer.count(b"HTTP/1.1 ") == 1


def test_what_comes_behind_the_last_request_of_a_connection_is_not_answered(client: Client) -> None:
    head = b"POST /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n"
    client.send(head + b"a")
    answer = client.read(until=b"\r\n\r\n")
    client.send(b"bc" + GET)
    answer += client.read()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("kind", [Cycle, Unframed])
@pytest.mark.parametrize(("method", "size", "length"), [
    ("GET", 5, True), ("GET", JOINED_BYTES + 1, True), ("GET", 5, False), ("GET", 0, True), ("HEAD", 5, True),
])  # fmt: skip
def test_a_header_is_written_with_the_first_of_its_body(
    kind: type[Cycle], method: str, size: int, length: bool
) -> None:
    """Not by itself, for a proxy that has no more of an answer cannot ask another replica any more."""
    transport, none = create_autospec(Transport), cast(Any, None)
    transport.is_closing.return_value = False
    connection = create_autospec(Protocol, transport=transport)
    polite, flow = cast(Transport, Polite(connection)), FlowControl(transport)
    logger, scope = create_autospec(logging.Logger), cast(Any, {"method": method})
    cycle = kind(scope, polite, flow, logger, none, False, [], asyncio.Event(), False, True, lambda: None)
    fields = [(b"content-length", b"%d" % (2 * size))] if length else []

    async def app() -> None:
        await cycle.send({"type": "http.response.start", "status": 200, "headers": fields})
        assert transport.method_calls in ([], [mock.call.is_closing()])
        for more in (True, False):
            await cycle.send({"type": "http.response.body", "body": b"x" * size, "more_body": more})

    asyncio.run(app())
    wrote = [each for each in transport.method_calls if each[0] in ("write", "writelines")]
    first = b"".join(wrote[0].args) if wrote[0][0] == "write" else b"".join(wrote[0].args[0])
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.partition(b"\r\n\r\n")[2].strip(b"5\r\n") == b"x" * size * (method == "GET")


@pytest.mark.parametrize("kind", [Cycle, Unframed])
def test_nothing_is_sent_to_a_connection_that_closed_meanwhile(kind: type[Cycle]) -> None:
    transport = create_autospec(Transport)
    transport.is_closing.return_value = True
    flow = FlowControl(transport)
    event = asyncio.Event()
    none, logger = cast(Any, None), create_autospec(logging.Logger)
    cycle = kind(none, transport, flow, logger, none, False, [], event, False, True, lambda: None)
    cycle.chunked_encoding = True

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        flow.pause_writing()
        asyncio.get_running_loop().call_soon(flow.resume_writing)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    asyncio.run(cycle.run_asgi(cast(Any, app)))
    transport.write.assert_not_called()
    logger.error.assert_not_called()


FIRST = {
    "1.0": b"GET /health/live HTTP/1.0\r\n\r\n",
    "close": GET[:-2] + b"Connection: close\r\n\r\n",
    "slow": SLOW[:-2] + b"Connection: close\r\n\r\n",
    "body": b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    "refused": b"POST /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("what", FIRST)
@pytest.mark.parametrize("behind", [GET, b"nonsense", b"G"])
def test_what_is_sent_behind_a_last_request_costs_no_answer(behind: bytes, what: str, server: Live) -> None:
    """A socket that is closed with bytes unread is reset, and the reset may overtake the answer."""
    for _ in range(5):
        with Client(server.port) as client:
            client.send(FIRST[what] + behind)
            for _ in range(8):
                client.send(behind * 2000)
            answer = client.read()
            assert answer.count(b"HTTP/1.1 ") == 1
            client.socket.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("path", [b"/health/live", b"/slow?seconds=0.1"])
def test_a_last_request_with_a_faulty_body_has_one_answer(path: bytes, client: Client) -> None:
    head = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(b"POST " + path + head + b"nonsense\r\n" + GET)
    assert client.read().count(b"HTTP/1.1 ") == 1


def test_a_header_that_is_late_when_the_server_drains_disturbs_no_answer() -> None:
    chosen = Settings(port=0, header_seconds=HEADER_SECONDS, drain_seconds=0)
    with live(stub_app.create_app(chosen), chosen) as running, Client(running.port) as client:
        client.send(b"GET /slow?seconds=0.6 HTTP/1.1\r\nHost: x\r\n\r\n" + GET[:9])
        wait_until(lambda: any(cast(Protocol, each).in_head for each in running.server_state.connections))
        for each in running.server_state.connections:
            cast(Protocol, each).drain()
        answer = client.read()
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"slept")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_connection_that_closes_already_is_not_ended_again(server: Live) -> None:
    protocol = Protocol(server.config, server.server_state, {}, create_autospec(AbstractEventLoop))
    protocol.transport = create_autospec(Transport)
    cast(Any, protocol.transport).is_closing.return_value = True
    protocol.shutdown()
    cast(Any, protocol.transport).write_eof.assert_not_called()


def test_a_header_that_is_late_once_the_end_has_come_changes_nothing(server: Live) -> None:
    protocol = Protocol(server.config, server.server_state, {}, create_autospec(AbstractEventLoop))
    protocol.transport = transport = create_autospec(Transport)
    protocol.over = True
    protocol._head_is_late()
    assert transport.method_calls == []


def test_the_reader_of_what_is_left_at_the_close_is_watched(server: Live) -> None:
    loop = create_autospec(AbstractEventLoop)
    protocol = Protocol(server.config, server.server_state, {}, loop)
    protocol.transport = transport = create_autospec(Transport)
    transport.get_extra_info.return_value.fileno.return_value = -1
    for left in (0, 100):
        transport.get_write_buffer_size.return_value = left
        protocol.close()
    assert transport.close.call_count == 2
    loop.call_later.assert_called_once_with(server.config.settings.answer_idle_seconds, protocol._look_at_reader)


def test_what_comes_when_the_server_drains_is_not_answered(server: Live) -> None:
    with Client(server.port) as client:
        client.send(b"GET /slow?seconds=0.6 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: any(not cast(Protocol, each).is_idle() for each in server.server_state.connections))
        for each in server.server_state.connections:
            cast(Protocol, each).drain()
        client.send(GET)
        answer = client.read()
    assert answer.endswith(b"slept")
    assert answer.count(b"HTTP/1.1 ") == 1
