"""Before the self-test is done nothing is computed; if it fails nothing ever is, and everyone is told why."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from service.api import readiness
from service.main import create_app
from tests.api.problems import refused
from tests.clients import Client, in_process, settings
from tests.live import Client as Wire
from tests.live import answering, free_port, live, wait_until

SLOPES = "/v1/biases/alibi-slopes?heads=2"
READY = ("/health/ready", "/v2/health/ready")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(readiness, "failures", lambda: ["biases/alibi-slopes: 1.5, not 0.5"])
    with in_process(settings()) as client:
        yield client


def test_while_it_starts_work_waits_and_probes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, chosen = threading.Event(), settings(port=0)

    def slow() -> list[str]:
        assert opened.wait(30)
        return []

    monkeypatch.setattr(readiness, "failures", slow)
    monkeypatch.setattr("tests.live.is_tested", lambda _app: True)
    with live(create_app(chosen), chosen) as server, Wire(server.port) as waiting:
        waiting.send(f"GET {SLOPES} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert told(server.port, "/health/live")[0] == 200
        assert told(server.port, "/metrics")[0] == 200
        for path in READY:
            status, body = told(server.port, path)
            assert status == 503
            assert "starting" in body
        opened.set()
        assert waiting.read().startswith(b"HTTP/1.1 200")
        assert [told(server.port, path)[0] for path in READY] == [200, 200]


def told(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_failed_self_test_keeps_every_number_in(failing: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert "wrong values" in refused(failing.get("/health/ready"), "self-test-failed")["detail"]
    assert failing.get("/v2/health/ready").status_code == 500
    for method, path in (("GET", SLOPES), ("HEAD", SLOPES), ("POST", "/v1/apply/rope"), ("GET", "/v1/schemes")):
        answer = failing.request(method, path)
        assert answer.status_code == 500
        assert answer.headers["retry-after"] == "60"
        assert answer.headers["cache-control"] == "no-store"
    assert failing.post("/v2/models/biases.alibi-slopes/infer", json={}).status_code == 500
    for path in ("/health/live", "/v2/health/live", "/problems/self-test-failed", "/"):
        assert failing.get(path).status_code == 200
    assert "posenc_ready 0.0" in failing.get("/metrics").text
    assert caplog.text.count("COMPUTES WRONG VALUES") <= 1


def test_it_is_said_loudly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(readiness, "failures", lambda: ["one: 1.5, not 0.5", "two"])
    with in_process(settings()):
        pass
    said = [line for line in caplog.records if line.levelname == "CRITICAL"]
    assert len(said) == 3
    assert "one: 1.5, not 0.5" in said[0].getMessage()
    assert "stays 500: 2 self-tests failed" in said[2].getMessage()


def test_an_app_that_nobody_started_answers_and_is_not_ready() -> None:
    async def ask() -> list[int]:
        transport = httpx.ASGITransport(create_app(settings()))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return [(await http.get(path)).status_code for path in ("/health/ready", SLOPES)]

    with in_process(settings()) as client:
        assert client.run(ask()) == [503, 200]


def test_a_stop_before_it_is_done_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = threading.Event()
    monkeypatch.setattr(readiness, "failures", lambda: [] if opened.wait(30) else ["late"])
    monkeypatch.setattr("tests.clients.is_tested", lambda _app: True)
    with in_process(settings()) as client:
        assert client.get("/health/ready").status_code == 503
    opened.set()


BROKEN = """
import sys
from service.engine import self_test
self_test.computed = lambda known, right=self_test.computed: right(known) + 1
from service.command import main
sys.exit(main(sys.argv[1:]))
"""


def test_every_worker_tests_itself(tmp_path: Path) -> None:
    """Two workers of a build that is broken: both say so, neither computes, and both stop in order."""
    port = free_port()
    command = [sys.executable, "-c", BROKEN, "serve", "--port", str(port), "--workers", "2", "--log-format", "json"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--drain-seconds", "0"], stderr=log)
    summary = "nothing is computed"
    try:
        wait_until(lambda: answering(port), 30)
        wait_until(lambda: (tmp_path / "log").read_text().count(summary) == 2, 30)
        for _ in range(8):
            assert told(port, "/health/live")[0] == 200
            assert json.loads(told(port, "/health/ready")[1])["type"] == "/problems/self-test-failed"
            assert told(port, SLOPES)[0] == 500
    finally:
        process.terminate()
        assert process.wait(20) == 0
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["level"] for line in said if line["logger"] == "posenc.self-test"} == {"critical"}
