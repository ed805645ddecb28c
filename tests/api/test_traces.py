"""The caller's trace and request id: in what is well formed, and at every door out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.traces import trace_of
from tests.clients import Client as HttpClient
from tests.clients import on_port, settings
from tests.live import Client

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SMALL = "/v1/encodings/sinusoidal.npy?length=3&dim=4"
LARGE = "/v1/encodings/sinusoidal.bin?length=40000&dim=64"
ANSWERED = {
    "made": ("GET", "/v1/biases/alibi?length=3&heads=2", {}),
    "file": ("GET", SMALL, {}),
    "repeated": ("GET", SMALL, {}),
    "unmodified": ("GET", SMALL, {"if-none-match": "*"}),
    "head": ("HEAD", SMALL, {}),
    "stream": ("GET", LARGE, {}),
    "part": ("GET", SMALL, {"range": "bytes=0-3"}),
    "refused": ("GET", SMALL + "&x=1", {}),
    "unknown": ("GET", "/nothing", {}),
    "method": ("DELETE", SMALL, {}),
    "health": ("GET", "/health/live", {}),
    "metrics": ("GET", "/metrics", {}),
    "inference": ("GET", "/v2/models/x", {}),
}


@pytest.mark.parametrize("kind", ANSWERED)
def test_every_answer_has_the_id_and_the_trace(client: HttpClient, kind: str) -> None:
    method, path, headers = ANSWERED[kind]
    traced = {**headers, "x-request-id": "mine-1", "traceparent": f"00-{TRACE}-{PARENT}-03"}
    answer = client.request(method, path, headers=traced)
    assert answer.headers["x-request-id"] == "mine-1"
    found = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", answer.headers["traceresponse"])
    assert found is not None
    assert found[1] not in (PARENT, "0" * 16)
    plain = client.request(method, path, headers=headers)
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", plain.headers["x-request-id"])
    assert "traceresponse" not in plain.headers


EARLY = {
    "no single host": b"GET / HTTP/1.1\r\nHost: a\r\n%sHost: b\r\n\r\n",
    "too many fields": b"GET / HTTP/1.1\r\nHost: a\r\n%s" + b"a: b\r\n" * 200,
    "not http": b"GET / HTTP/1.1\r\nHost: a\r\n%sA: b\r\nno field\r\n\r\n",
    "bad chunk": b"POST /v1/apply/rope HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%s"
    b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    "late": b"GET / HTTP/1.1\r\nHost: a\r\n%sx",
}


@pytest.mark.parametrize("kind", EARLY)
def test_what_is_refused_below_the_app_has_them_too(kind: str) -> None:
    given = b"X-Request-ID: mine-2\r\nTraceparent: 00-%s-%s-00\r\n" % (TRACE.encode(), PARENT.encode())
    with on_port(settings(header_seconds=0.3)) as server, Client(server.http.base_url.port or 0) as client:
        client.send(EARLY[kind] % given)
        answer = client.read()
    assert b"\r\nx-request-id: mine-2\r\n" in answer
    assert re.search(rb"\r\ntraceresponse: 00-%s-[0-9a-f]{16}-00\r\n" % TRACE.encode(), answer)
    assert b'"instance":"mine-2"' in answer


def test_a_fault_after_a_request_does_not_have_its_id() -> None:
    with on_port(settings()) as server, Client(server.http.base_url.port or 0) as client:
        client.send(b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Request-ID: first\r\n\r\n\x00\x00\x00")
        answer = client.read()
    assert answer.count(b"x-request-id: first\r\n") == 1
    assert answer.count(b"x-request-id: ") == 2


IGNORED = (
    "", "00",
    f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-1", f"00-{TRACE}-{PARENT}-01-more", f"ff-{TRACE}-{PARENT}-01",
    f"00-{TRACE.upper()}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{PARENT}-0g", f" 00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01",
    f"0-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-", f"01-{TRACE}-{PARENT}-01x",
)  # fmt: skip


@pytest.mark.parametrize("given", IGNORED)
def test_what_is_no_trace_is_ignored(direct: HttpClient, given: str) -> None:
    assert trace_of(given.encode(), b"a=b") is None
    answer = direct.get(SMALL, headers={"traceparent": given})
    assert answer.status_code == 200
    assert "traceresponse" not in answer.headers


def test_several_fields_are_no_trace(direct: HttpClient) -> None:
    twice = [("traceparent", f"00-{TRACE}-{PARENT}-01")] * 2
    assert "traceresponse" not in direct.get(SMALL, headers=twice).headers


def test_a_later_version_may_say_more() -> None:
    for more in ("", "-what-ever"):
        found = trace_of(f"cc-{TRACE}-{PARENT}-01{more}".encode(), None)
        assert found is not None
        assert found.sampled


@pytest.mark.parametrize("state", [b"", b"x" * 513, b"a=\xff", b"a=b\x00"])
def test_a_tracestate_that_is_none_is_dropped_and_the_trace_stays(state: bytes) -> None:
    found = trace_of(f"00-{TRACE}-{PARENT}-00".encode(), state)
    assert found is not None
    assert (found.state, found.sampled) == ("", False)


@given(st.binary(max_size=80), st.none() | st.binary(max_size=20))
def test_no_bytes_are_a_fault(parent: bytes, state: bytes | None) -> None:
    found = trace_of(parent, state)
    assert found is None or len(found.trace_id) == 32


@given(
    st.binary(min_size=16, max_size=16).filter(any), st.binary(min_size=8, max_size=8).filter(any), st.integers(0, 255)
)
def test_every_trace_is_taken(trace: bytes, parent: bytes, flags: int) -> None:
    found = trace_of(f"00-{trace.hex()}-{parent.hex()}-{flags:02x}".encode(), b"a=1,b=2")
    assert found is not None
    assert (found.trace_id, found.parent_id, found.state) == (trace.hex(), parent.hex(), "a=1,b=2")
    assert found.sampled == bool(flags & 1)
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", found.response)
