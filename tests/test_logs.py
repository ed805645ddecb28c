"""Lines of the log: one each, in JSON a document each, whatever was sent; and which requests have one."""

import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from service import logs
from service.logs import Json, Text, configure_logging, escaped
from service.main import create_app
from tests.clients import Client, in_process, settings
from tests.live import Client as Wire
from tests.live import answering, free_port, live, wait_until

SMALL = "/v1/encodings/sinusoidal.npy?length=3&dim=4"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Kept(logging.Handler):
    """The lines as they would be written."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def kept(formatter: logging.Formatter | None = None) -> Iterator[list[str]]:
    """What is logged meanwhile, in JSON unless said otherwise."""
    root, handler = logging.getLogger("posenc"), Kept(formatter or Json())
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@pytest.fixture(scope="module")
def logging_all() -> Iterator[Client]:
    with in_process(settings(access_log="all")) as client:
        yield client


def record(message: str, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("posenc.test", logging.WARNING, "x.py", 1, message, (), more.pop("exc_info", None))
    made.__dict__.update(more)
    return made


# One line


@given(st.text(), st.text())
def test_whatever_is_said_is_one_line_and_in_json_one_document(message: str, field: str) -> None:
    said = record("%s", fields={"path": field, "status": 200})
    said.args = (message,)
    text, line = Text().format(said), Json().format(said)
    assert text.splitlines() == [text]
    document = json.loads(line)
    assert line.splitlines() == [line]
    assert TIME.fullmatch(document["time"])
    assert (document["level"], document["logger"], document["status"]) == ("warning", "posenc.test", 200)
    assert document["message"] == escaped(message[:8192])
    assert document["path"] == escaped(field)


def test_a_traceback_is_a_member_in_json_and_follows_in_text() -> None:
    try:
        raise ValueError("told \udc80 to fail")
    except ValueError:
        said = record("it failed", exc_info=sys.exc_info())
    assert "ValueError: told \\udc80 to fail" in json.loads(Json().format(said))["exception"]
    assert Text().format(said).splitlines()[1].startswith("Traceback")


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger without handlers, and everything as it was afterwards.

    Who captured warnings within a test before, as a server does, may not have undone it: pytest puts back what shows
    them, and logging still takes them for captured.
    """
    logging.captureWarnings(False)
    found, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook)
    before = found.level, found.handlers
    found.handlers = []
    try:
        yield found
    finally:
        found.level, found.handlers = before
        sys.excepthook, threading.excepthook = hooks
        logging.captureWarnings(False)
        logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)


@pytest.mark.parametrize("captured", [False, True])
def test_warnings_and_what_nobody_catches_are_lines_too(captured: bool, capsys: pytest.CaptureFixture[str]) -> None:
    error = RuntimeError("nobody caught\nthis")
    with warnings.catch_warnings():
        logging.captureWarnings(captured)
    with bare_root() as root, warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(settings(log_format="json"))
        assert len(root.handlers) == 1
        warnings.warn("beware\nof this", stacklevel=1)
        sys.excepthook(RuntimeError, error, None)
        threading.excepthook(threading.ExceptHookArgs((RuntimeError, error, None, None)))
        threading.excepthook(threading.ExceptHookArgs((SystemExit, None, None, None)))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "critical", "critical"]
    assert "beware\\x0aof this" in lines[0]["message"]
    assert "nobody caught\nthis" in lines[1]["exception"]


def test_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    hook = sys.excepthook
    with bare_root() as root:
        configure_logging(settings())
        logging.getLogger("posenc").info("hello", extra={"fields": {"a": 1}})
        assert root.level == logging.INFO
        assert sys.excepthook is hook
    assert re.fullmatch(TIME.pattern + r" INFO posenc: hello a=1\n", capsys.readouterr().err)
    assert set(logs.FORMATTERS) == {"text", "json"}


# Requests


def test_a_line_says_what_was_asked_and_answered(logging_all: Client) -> None:
    with kept() as lines:
        headers = {"x-request-id": "mine", "traceparent": PARENT, "tracestate": "vendor=1"}
        answers = [logging_all.get(SMALL, headers=headers) for _ in range(2)]
    made, repeated = map(json.loads, lines)
    for line, answer in zip((made, repeated), answers, strict=True):
        assert line["message"] == "GET /v1/encodings/sinusoidal.npy 200"
        assert answer.headers["traceresponse"] == f"00-{line['trace_id']}-{line['span_id']}-01"
        assert line.pop("span_id") != line["parent_id"]
        assert 0 <= line.pop("duration") < 60
        line.pop("time")
    assert made | {"way": "repeated"} == repeated == {
        "level": "info", "logger": "posenc.access", "message": "GET /v1/encodings/sinusoidal.npy 200",
        "request_id": "mine", "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_id": "b7ad6b7169203331",
        "tracestate": "vendor=1", "method": "GET", "path": "/v1/encodings/sinusoidal.npy", "status": 200,
        "bytes": 176, "client": "127.0.0.1", "way": "repeated",
    }  # fmt: skip


def test_a_refusal_names_its_problem_and_no_query_is_logged(logging_all: Client) -> None:
    with kept() as lines:
        logging_all.get("/v1/encodings/sinusoidal?length=3&api_key=secret")
    assert "secret" not in lines[0]
    line = json.loads(lines[0])
    assert (line["status"], line["problem"], line["bytes"] > 0) == (422, "invalid-parameters", True)
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", line["request_id"])
    assert "trace_id" not in line


ASKED = {
    "made": f"GET {SMALL} HTTP/1.1\r\nHost: x\r\n{{}}Connection: close\r\n\r\n",
    "repeated": f"GET {SMALL} HTTP/1.1\r\nHost: x\r\n{{}}Connection: close\r\n\r\n",
    "early": "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n{}\r\n",
}


@pytest.mark.parametrize(
    ("trusted", "forwarded", "client"),
    [
        ("127.0.0.0/8, 10.0.0.0/8", ("192.0.2.1, 203.0.113.9:4711", "10.0.0.1"), "203.0.113.9"),
        ("127.0.0.0/8", ("2001:db8:1:2:3::4",), "2001:db8:1:2:3::4"),  # all of it, though its network has one quota
        ("127.0.0.0/8", ("unknown",), "127.0.0.1"),
        ("127.0.0.0/8", (), "127.0.0.1"),
        ("", ("203.0.113.9",), "127.0.0.1"),
        ("10.0.0.0/8", ("203.0.113.9",), "127.0.0.1"),
    ],
)
def test_the_client_is_whom_trusted_proxies_name(trusted: str, forwarded: tuple[str, ...], client: str) -> None:
    chosen = settings(port=0, access_log="all", trusted_proxies=trusted)
    fields = "".join(f"X-Forwarded-For: {each}\r\n" for each in forwarded)
    with live(create_app(chosen), chosen) as server, kept() as lines:
        for each in ASKED.values():
            with Wire(server.port) as wire:
                wire.send(each.format(fields).encode())
                wire.read()
        with Wire(server.port) as wire:
            wire.send(b"\x16\r\n")
            wire.read()
        wait_until(lambda: len(lines) == 4)
    said = [(line["way"], line["client"]) for line in map(json.loads, lines)]
    assert said == [*((way, client) for way in ASKED), ("early", "127.0.0.1")]


WHICH = {"off": [], "misses": ["/v1/biases/alibi-slopes", "/nothing", "/health/ready"], "all": None}


@pytest.mark.parametrize("which", WHICH)
def test_which_requests_have_a_line(which: str) -> None:
    asked = ["/v1/biases/alibi-slopes?heads=2"] * 2 + ["/nothing", "/health/live", "/metrics"]
    with in_process(settings(access_log=which)) as client, kept() as lines:
        for path in asked:
            client.get(path)
        client.app.state.draining = True
        client.get("/health/ready")
    expected = WHICH[which]
    plain = [path.partition("?")[0] for path in [*asked, "/health/ready"]]
    assert [json.loads(line)["path"] for line in lines] == (plain if expected is None else expected)


def test_a_bug_is_logged_under_the_request_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("service.api.answers.understand", broken)
    with in_process(settings(access_log="off")) as client, kept() as lines:
        answer = client.get(SMALL, headers={"x-request-id": "broken-1"})
    assert answer.status_code == 500
    (line,) = map(json.loads, lines)
    assert (line["level"], line["request_id"]) == ("error", "broken-1")
    assert "RuntimeError: a bug" in line["exception"]


@pytest.mark.parametrize("formatter", [Json(), Text()], ids=["json", "text"])
@examples(max_examples=100, suppress_health_check=list(HealthCheck))
@given(path=st.binary(max_size=300), method=st.text(max_size=30), name=st.binary(max_size=80))
def test_hostile_paths_and_ids_stay_on_one_line(
    logging_all: Client, formatter: logging.Formatter, path: bytes, method: str, name: bytes
) -> None:
    """As a server would hand them over that checks nothing."""
    scope = {
        "type": "http", "method": method, "path": "/" + path.decode("latin-1"), "raw_path": b"/" + path,
        "query_string": b"secret", "headers": [(b"x-request-id", name), (b"traceparent", name)], "client": ("a\nb", 1),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    with kept(formatter) as lines:
        logging_all.run(logging_all.app(scope, receive, send))
    (line,) = lines
    assert line.isprintable()
    assert "secret" not in line.replace(path.decode("latin-1"), "")
    assert len(line) < 8192


# A server


HOSTILE = (
    b"GET /%0a%22injected%22 HTTP/1.1\r\nHost: x\r\n\r\n",
    b'GET /\xc3\xa9\xff"\\ HTTP/1.1\r\nHost: x\r\n\r\n',
    b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x00\r\n\r\n",
    b'GET / HTTP/1.1\r\nHost: x\r\nX-Request-ID: "},{"a":"\r\nTraceparent: x"\r\n\r\n',
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\nX-Request-ID: known-early\r\n\r\n",
    b"GET /" + b"b" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/apply/rope HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    b"GET /v1/encodings/sinusoidal.bin?length=400000&dim=64 HTTP/1.1\r\nHost: x\r\n\r\n",
)


def test_a_server_logs_json_alone_and_no_traceback_of_clients_that_leave(tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "service",
        "serve",
        "--port",
        str(port),
        "--log-format",
        "json",
        "--partner",
        "off",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--access-log", "all", "--log-level", "debug", "--drain-seconds", "0"], stderr=log
        )
    try:
        wait_until(lambda: answering(port), 30)
        for sent in HOSTILE * 3:
            with Wire(port) as client:
                client.send(sent)
                client.socket.recv(100) if b"Content-Length" not in sent else None
        with Wire(port) as client:
            client.send(f"GET {SMALL} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert client.read().startswith(b"HTTP/1.1 200")
    finally:
        process.terminate()
        assert process.wait(20) == 0
    text = (tmp_path / "log").read_text(encoding="ascii")
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["logger"] == "posenc.access"]
    assert len(requests) == 3 * len(HOSTILE) + 1
    assert all(TIME.fullmatch(line["time"]) and line["message"] for line in lines)
    assert {line["level"] for line in lines} <= {"debug", "info"}
    assert {"posenc.server", "uvicorn.error"} <= {line["logger"] for line in lines}
    assert not any("exception" in line for line in lines)
    assert {line["request_id"] for line in requests if line["way"] == "early"} >= {"known-early"}
    assert max(len(line["path"]) for line in requests) < 300
    assert any(line.get("complete") is False for line in requests)
    assert lines[-1]["message"] == "stopped"
