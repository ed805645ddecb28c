"""The bytes on a connection: what no client library would send, and what it would hide."""

import json
import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.api.problems import refused
from tests.clients import Client, on_port, settings
from tests.live import Client as Connection

TABLE = "/v1/encodings/rope.npy?length=3&dim=4"
END = b"\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    with on_port(settings(body_bytes=100_000, body_idle_seconds=0.3)) as client:
        yield client


@pytest.fixture(scope="module")
def patient() -> Iterator[Client]:
    """Waits longer for what is left of a body than the test for an answer."""
    with on_port(settings(body_bytes=100_000, body_idle_seconds=60)) as client:
        yield client


def port_of(client: Client) -> int:
    port = client.http.base_url.port
    assert port is not None
    return port


def talk(server: Client, data: bytes) -> bytes:
    """Send these bytes and read to the end of the connection."""
    with Connection(port_of(server)) as connection:
        connection.send(data)
        return connection.read()


def ask(target: str, *fields: str, method: str = "GET", last: bool = True) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *fields, *(["Connection: close"] if last else [])]
    return "\r\n".join(lines).encode() + END


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(END)
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return int(status.split()[1]), headers, body


@pytest.mark.parametrize("prefix", ["", "/below"])
@pytest.mark.parametrize("method", ["FROB", "get", "DESCRIBE", "PROPFIND"])
def test_a_method_that_nobody_knows_is_told_which_the_address_takes(method: str, prefix: str) -> None:
    taken = {
        TABLE: "GET, HEAD, OPTIONS, POST",
        "/v1/apply/rope": "OPTIONS, POST",
        "http://y/v1/apply/r%6Fpe": "OPTIONS, POST",
        "/health/live": "GET, HEAD, OPTIONS",
    }
    with on_port(settings(root_path=prefix)) as server:
        for target, allowed in taken.items():
            status, headers, body = parsed(talk(server, ask(target, method=method)))
            assert (status, headers["allow"]) == (405, allowed.lower())
            assert json.loads(body)["detail"].endswith(f"is not possible here; {allowed} are")
            assert headers["x-request-id"]
        for unknown in ("/nothing", "*"):
            answer = parsed(talk(server, ask(unknown, method=method)))
            assert answer[0] == (404 if method == "PROPFIND" else 405)
            assert method == "PROPFIND" or answer[1]["allow"] == "get, head, options, post"
        counts = server.get("/metrics").text
    label = 'method="other",route="unrouted",status="405",way="early"'
    assert method == "PROPFIND" or f"_count{{{label}}} 6" in counts


@pytest.mark.parametrize(
    "target",
    [f"http://x{TABLE}", f"http://other:99{TABLE}", TABLE.replace(".npy", "%2enpy"), TABLE.replace("rope", "%72ope"),
     TABLE.replace("length", "%6cength"), TABLE + "#fragment"],
)  # fmt: skip
def test_the_same_target_otherwise_written_is_the_same_answer(server: Client, target: str) -> None:
    plain = server.get(TABLE)
    for _ in range(2):
        status, headers, body = parsed(talk(server, ask(target)))
        assert status == 200
        assert headers["etag"] == plain.headers["etag"]
        assert body == plain.content


@pytest.mark.parametrize(
    "target",
    ["//v1/encodings/rope.npy?length=3&dim=4", "/v1//encodings/rope.npy?length=3&dim=4",
    "/./v1/encodings/rope.npy?length=3&dim=4",
     "/v1/encodings/x/../rope.npy?length=3&dim=4", "/v1/encodings/rope.npy/?length=3&dim=4",
     "/v1/encodings/rope%3flength=3",
     "/v1/encodings/rope%252enpy?length=3&dim=4", "*"],
)  # fmt: skip
def test_paths_are_not_tidied(server: Client, target: str) -> None:
    server.get(TABLE)
    status, headers, _ = parsed(talk(server, ask(target)))
    assert status in (400, 404)
    assert headers["content-type"] == "application/problem+json"


def test_a_slash_in_a_segment_is_a_slash(server: Client) -> None:
    """Routes and caches read the decoded path alike, so one cannot poison the other."""
    first = parsed(talk(server, ask("/v1/encodings%2Frope.npy?length=3&dim=4")))
    again = parsed(talk(server, ask("/v1/encodings%2Frope.npy?length=3&dim=4")))
    assert (first[0], first[2]) == (again[0], again[2]) == (200, server.get(TABLE).content)


@pytest.mark.parametrize("times", [1, 2])
def test_head_and_304_have_no_body_and_leave_the_connection_in_order(server: Client, times: int) -> None:
    """Twice, because a repeated answer takes a shorter way."""
    tag = server.get(TABLE).headers["etag"]
    for _ in range(times):
        data = ask(TABLE, method="HEAD", last=False) + ask(TABLE, f"If-None-Match: {tag}", last=False)
        data += ask("/v1/encodings/rope?length=3&dim=4", method="HEAD", last=False) + ask("/health/live")
        answers = re.split(rb"(?=HTTP/1\.1 \d{3} )", talk(server, data))[1:]
        statuses = [parsed(answer)[0] for answer in answers]
        assert statuses == [200, 304, 200, 200]
        assert [parsed(answer)[2] for answer in answers] == [b"", b"", b"", b'{"status":"live"}']
        assert parsed(answers[0])[1]["content-length"] == str(len(server.get(TABLE).content))
        assert "content-length" not in parsed(answers[2])[1]


def test_requests_in_a_row_are_answered_in_order(server: Client) -> None:
    targets = [TABLE, "/health/live", TABLE, "/nothing", TABLE + "&offset=1", "/health/ready"]
    data = b"".join(ask(target, last=target is targets[-1]) for target in targets)
    answers = re.split(rb"(?=HTTP/1\.1 \d{3} )", talk(server, data))[1:]
    assert [parsed(answer)[0] for answer in answers] == [200, 200, 200, 404, 200, 200]
    assert parsed(answers[0])[2] == parsed(answers[2])[2] != parsed(answers[4])[2]


def test_a_declared_body_over_the_limit_is_refused_before_it_comes(server: Client) -> None:
    """S19: the answer is there although not one byte of 200 MB was sent."""
    fields = ("Content-Type: application/json", "Content-Length: 200000000")
    with Connection(port_of(server)) as connection:
        connection.send(ask("/v1/apply/rope", *fields, method="POST", last=False))
        status, _, body = parsed(connection.read(until=b"]}"))
    assert status == 413
    assert b'"limit":100000' in body


def test_a_client_that_sends_all_of_a_body_before_it_reads_gets_to_read(server: Client) -> None:
    """As http.client and urllib do: a connection that was closed at once would be reset under them."""
    connection = HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    connection.request("POST", "/v1/apply/rope", b"x" * 700_000, {"Content-Type": "application/octet-stream"})
    answer = connection.getresponse()
    assert answer.status == 413
    answer.read()
    connection.request("GET", "/health/live")
    assert connection.getresponse().status == 200
    connection.close()


def test_a_client_that_wants_no_second_answer_gets_to_read_the_first(server: Client) -> None:
    """urllib asks for the connection to be closed, and sends all of the body before it reads."""
    connection = HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    fields = {"Content-Type": "application/octet-stream", "Connection": "close"}
    connection.request("POST", "/v1/apply/rope", b"x" * 700_000, fields)
    answer = connection.getresponse()
    assert answer.status == 413
    assert answer.getheader("connection") == "close"
    assert b'"limit":100000' in answer.read()
    connection.close()


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_refused_body_is_not_dropped_for_ever(server: Client, pause: float) -> None:
    fields = ("Content-Type: application/json", "Content-Length: 200000000")
    with Connection(port_of(server)) as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012
        connection.send(ask("/v1/apply/rope", *fields, method="POST", last=False))
        for _ in range(100):
            connection.send(b" " * (100_000 if pause == 0 else 1))
            time.sleep(pause)


def test_an_endless_body_is_cut(server: Client) -> None:
    fields = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    with Connection(port_of(server)) as connection:
        connection.send(ask("/v1/apply/rope", *fields, method="POST", last=False))
        for _ in range(3):
            connection.send(b"c350\r\n" + b" " * 50_000 + b"\r\n")
        status, _, _ = parsed(connection.read(until=b"]}"))
    assert status == 413


CHUNKED = ask(
    "/v1/apply/rope", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST", last=False
)
DECLARED = {
    "one byte too many": (b"186a1\r\n", 100_001),
    "zeros in front": (b"0" * 30 + b"186A1\r\n", 100_001),
    "something said of it": (b"186a1;a=b;c\r\n", 100_001),
    "a second one": (b"ea60\r\n" + b" " * 60_000 + b"\r\nea60\r\n", 120_000),
    "some of it": (b"ffffff\r\n" + b" \r\n" * 100, 0xFFFFFF),
    "2^53 + 1": (b"20000000000001\r\n", 2**53),
    "2^63": (b"8000000000000000\r\n", 2**63),
    "2^64 - 1": (b"ffffffffffffffff\r\n", 2**64),
}


@pytest.mark.parametrize("step", [1, 5, 1000, 100_000])
@pytest.mark.parametrize("what", DECLARED)
def test_a_chunk_that_no_body_may_have_is_refused_at_its_size(patient: Client, what: str, step: int) -> None:
    """Not when its bytes have come, and the connection ends at once."""
    sent, requested = DECLARED[what]
    with Connection(port_of(patient)) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(CHUNKED)
        for at in range(0, len(sent), step if len(sent) < 1000 else 30_000):
            connection.send(sent[at : at + step] if len(sent) < 1000 else sent[at : at + 30_000])
        status, headers, body = parsed(connection.read())
    assert (status, headers["connection"]) == (413, "close")
    (fault,) = json.loads(body)["errors"]
    assert (fault["requested"], fault["limit"]) == (requested, 100_000)
    assert patient.resources.budget.in_use == 0


@pytest.mark.parametrize("size", [b"10000000000000000", b"f" * 40])
@pytest.mark.parametrize("behind", [b"", b"\r\nabc"])
def test_a_size_that_no_computer_holds_is_too_large_as_well(server: Client, size: bytes, behind: bytes) -> None:
    status, headers, body = parsed(talk(server, CHUNKED + size + behind))
    assert (status, headers["connection"]) == (413, "close")
    assert json.loads(body)["detail"] == "a chunk of the body has more than 2^64 bytes"


def test_the_address_has_a_limit_of_its_own() -> None:
    with on_port(settings(json_body_bytes=1000)) as server:
        for target, kind, status in (
            ("/v1/apply/rope", "application/json", 413),
            ("/v1/models/resolve", "application/json", 413),
            ("/v1/apply/rope", "application/octet-stream", 400),
        ):
            fields = (f"Content-Type: {kind}", "Transfer-Encoding: chunked")
            with Connection(port_of(server)) as connection:
                connection.send(ask(target, *fields, method="POST", last=False) + b"3e9\r\n")
                if status == 400:
                    connection.send(b" " * 1001 + b"\r\n0\r\n\r\n")
                assert parsed(connection.read(b"]}"))[0] == status


def test_who_sends_a_chunk_that_was_refused_is_heard_out(server: Client) -> None:
    """Or the answer could be lost in a reset."""
    with Connection(port_of(server)) as connection:
        connection.send(CHUNKED + b"30000\r\n")
        answer = connection.read()
        for _ in range(6):
            time.sleep(0.02)
            connection.send(b" " * 0x8000)
        connection.send(b"\r\n0\r\n\r\n" + ask("/health/live"))
        assert connection.read() == b""
    assert parsed(answer)[0] == 413


def test_a_trailer_is_no_size(server: Client) -> None:
    with Connection(port_of(server)) as connection:
        for part in (CHUNKED + b"1\r\n{\r\n0\r\n", b"A: ", b"fffffffff\r\n", b"\r\n"):
            connection.send(part)
            time.sleep(0.02)
        assert parsed(connection.read(b"]}"))[0] == 400


def test_a_body_that_stalls_is_408(server: Client) -> None:
    fields = ("Content-Type: application/json", "Content-Length: 100")
    status, headers, body = parsed(talk(server, ask("/v1/apply/rope", *fields, method="POST", last=False) + b"{"))
    assert status == 408
    assert headers["connection"] == "close"
    assert b"1 bytes of the body arrived in 0.3 seconds; 307 at least, or its end, would do" in body
    assert server.resources.budget.in_use == 0


def test_expect_is_answered_before_the_body_is_sent(server: Client) -> None:
    fields = ("Content-Type: application/json", "Content-Length: 18", "Expect: 100-continue")
    target = "/v1/encodings/sinusoidal?dim=4"
    with Connection(port_of(server)) as connection:
        connection.send(ask(target, *fields, method="POST"))
        assert connection.read(END).startswith(b"HTTP/1.1 100 ")
        connection.send(b'{"positions": [0]}')
        assert parsed(connection.read())[0] == 200
    refusal = talk(server, ask(target + "&x=1", *fields, method="POST"))
    assert parsed(refusal)[0] == 422


@pytest.mark.parametrize(
    ("target", "length", "status"),
    [("/v1/apply/rope", 999_999_999, 413), ("/v1/apply/rope?x=1", 18, 422), ("/x", 18, 404)],
)
def test_who_waits_to_send_a_body_that_is_refused_hears_that_the_connection_ends(
    server: Client, target: str, length: int, status: int
) -> None:
    """For neither side would know whether the body or another request comes next (RFC 9110, 10.1.1)."""
    fields = ("Content-Type: application/json", f"Content-Length: {length}", "Expect: 100-continue")
    with Connection(port_of(server)) as connection:
        connection.send(ask(target, *fields, method="POST", last=False))
        answer = connection.read()  # to the end
    found, headers, _ = parsed(answer)
    assert (found, headers["connection"]) == (status, "close")


def test_who_sent_the_body_without_waiting_keeps_the_connection(server: Client) -> None:
    fields = ("Content-Type: application/json", "Content-Length: 18", "Expect: 100-continue")
    refused = ask("/v1/apply/rope?x=1", *fields, method="POST", last=False) + b'{"positions": [0]}'
    answer = talk(server, refused + ask("/health/live"))
    assert [answer.count(status) for status in (b"HTTP/1.1 422 ", b"HTTP/1.1 200 ")] == [1, 1]


def test_a_get_with_a_body_is_sent_to_post(server: Client) -> None:
    """Answering it would be to ignore the positions in it, also where the answer without them is in the cache."""
    assert server.get(TABLE).status_code == 200
    document = refused(server.request("GET", TABLE, content=b"x" * 10_000), "bad-request")
    assert document["detail"] == "a GET takes no body; send arrays with POST"
    assert server.get(TABLE).status_code == 200


def test_no_header_can_be_injected(server: Client) -> None:
    for target in ("/v1/encodings/rope.npy?length=3&dim=4&tensor=a%0d%0aX-Bad:%201", "/x%0d%0aX-Bad:%201"):
        answer = talk(server, ask(target, "X-Request-ID: a\tb"))
        assert b"\r\nX-Bad" not in answer
        assert parsed(answer)[0] in (404, 422)


BAD = 'x"; filename="evil.exe'
# What is sent in the hope of finding itself in a header of the answer.
HOPES = ("a%0d%0aX-Bad: 1", "a\tX-Bad: 1", BAD, "a\x80\xffb", "a;b,c", "\u010d\u010a".encode().decode("latin-1"))


@pytest.mark.parametrize("hope", HOPES)
@pytest.mark.parametrize(
    "target", [TABLE, "/v1/encodings/rope?length=3&dim=4", "/v1/masks/causal.png?length=4", "/v1/schemes"]
)
def test_what_was_sent_is_in_no_header_of_an_answer(server: Client, target: str, hope: str) -> None:
    sent = ("X-Request-ID", "traceparent", "tracestate", "Origin", "If-None-Match", "Range", "Accept", "Referer")
    talk(server, ask(target))
    plain = parsed(talk(server, ask(target)))  # as it is answered again
    status, headers, _ = parsed(talk(server, ask(target, *(f"{name}: {hope}" for name in sent))))
    assert (status, headers.keys()) == (200, plain[1].keys())
    assert all(part not in value for value in headers.values() for part in ("X-Bad", "evil", hope))


@pytest.mark.parametrize(
    "hope", ["%0d%0aX-Bad:%201", "%0aX-Bad:%201", "%22;%20filename=%22evil.exe", "%c4%8d%c4%8aX-Bad:%201"]
)
def test_names_of_files_are_made_of_what_is_known(server: Client, hope: str) -> None:
    """A value that is taken is written anew; no other is."""
    for name, good in (
        ("length", "3"),
        ("dim", "4"),
        ("dtype", "float32"),
        ("base", "1e4"),
        ("preset", "llama"),
        ("x", ""),
    ):
        other = "&".join(f"{key}={value}" for key, value in (("length", "3"), ("dim", "4")) if key != name)
        answer = talk(server, ask(f"/v1/encodings/rope.npy?{other}&{name}={good}{hope}"))
        assert parsed(answer)[0] == 422
        head = answer.partition(b"\r\n\r\n")[0]
        assert b"X-Bad" not in head
        assert b"evil" not in head
    described = parsed(talk(server, ask("/v1/encodings/rope.npy?length=%30%33&dim=%34")))
    assert re.fullmatch(r'attachment; filename="[a-z0-9_.-]+"', described[1]["content-disposition"])


def test_answers_above_the_threshold_have_their_length(server: Client) -> None:
    target = "/v1/encodings/sinusoidal.npy?length=20000&dim=128"
    status, headers, body = parsed(talk(server, ask(target)))
    assert status == 200
    assert "transfer-encoding" not in headers
    assert headers["content-length"] == str(len(body)) == str(20000 * 128 * 4 + 128)


def test_http_1_0_is_answered(server: Client) -> None:
    status, _, body = parsed(talk(server, f"GET {TABLE} HTTP/1.0\r\n\r\n".encode()))
    assert (status, body) == (200, server.get(TABLE).content)


@pytest.mark.parametrize(("rows", "times"), [(4, 100), (400, 90), (20_000, 10)], ids=["small", "100 KB", "streamed"])
def test_a_header_comes_along_with_the_first_of_its_body(server: Client, rows: int, times: int) -> None:
    """Of answers that nobody asked for before: a proxy that has the header alone can ask no other replica."""
    for base in range(2, 2 + times):
        with Connection(port_of(server)) as connection:
            connection.send(ask(f"/v1/encodings/sinusoidal.npy?length={rows}&dim=64&base={base}"))
            head, end, body = connection.socket.recv(65536).partition(END)
            assert head.startswith(b"HTTP/1.1 200")
            assert end
            assert body
