import asyncio
import io
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from service.get import Get, media_type
from service.inprocess import Request, answer
from service.main import create_app
from service.settings import Settings
from tests import stub_app


@pytest.fixture(autouse=True)
def _stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "service.main", stub_app.MAIN)


def use_app(monkeypatch: pytest.MonkeyPatch, app: Any) -> None:
    monkeypatch.setitem(sys.modules, "service.main", SimpleNamespace(create_app=lambda _settings: app))


def get(target: str, output: Path | str = "-", data: str | None = None) -> int:
    return Get(target, str(output), data).run(Settings())


@contextmanager
def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> Iterator[None]:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    with io.TextIOWrapper(io.BufferedReader(io.FileIO(reader))) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        yield


def test_the_answer_is_the_file(tmp_path: Path) -> None:
    assert get("/big?blocks=3", tmp_path / "x") == 0
    assert (tmp_path / "x").read_bytes() == stub_app.BLOCK * 3
    assert os.listdir(tmp_path) == ["x"]


def test_the_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert get("/plain?status=200", tmp_path / "x") == 0
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    assert get("/plain?status=200&text=new", tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"


def test_a_device_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert get("/plain?status=200&text=new", tmp_path / "pipe") == 0
    assert os.read(reader, 100) == b"new"
    os.close(reader)


@pytest.mark.parametrize(("status", "code"), [(404, 2), (422, 2), (500, 1), (503, 3)])
def test_a_refusal_leaves_the_old_file_and_tells_every_fault(
    status: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("old")
    assert get(f"/refused?status={status}", tmp_path / "x") == code
    assert (tmp_path / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]
    assert capsys.readouterr().err == (
        f"posenc get: {status} lenght: is not known (did you mean length?)\n"
        f"posenc get: {status} /tensors/q: has 5 channels\n"
        f"posenc get: {status} dim is missing\n"
        f"posenc get: {status} request: too much\n"
    )


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("not JSON", "404"),
        ('{"detail":"Gone.","errors":[]}', "404 Gone."),
        ("[]", "404"),
        ('{"errors":[]}', "404"),
    ],
)
def test_a_refusal_in_few_words(body: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(f"/plain?status=404&text={body}") == 2
    assert capsys.readouterr().err == f"posenc get: {line}\n"


def test_an_answer_that_is_too_short_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get("/big?blocks=1&missing=1", tmp_path / "x") == 1
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().err == "posenc get: the answer broke off after 65536 bytes\n"


def test_a_fault_in_the_app_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        else:
            await send({"type": "http.response.start", "status": 200})
            raise ZeroDivisionError("halfway")

    use_app(monkeypatch, app)
    with pytest.raises(ZeroDivisionError, match="halfway"):
        get("/", tmp_path / "x")
    assert os.listdir(tmp_path) == []


async def lifespan(receive: Receive, send: Send) -> None:
    for event in ("startup", "shutdown"):
        assert (await receive())["type"] == f"lifespan.{event}"
        await send({"type": f"lifespan.{event}.complete"})


@pytest.mark.parametrize("ending", ["says so", "raises"])
def test_an_app_that_does_not_start(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if ending == "raises":
            raise ZeroDivisionError("no start")
        await send({"type": "lifespan.startup.failed", "message": "no start"})

    use_app(monkeypatch, app)
    expected = ZeroDivisionError if ending == "raises" else RuntimeError
    with pytest.raises(expected, match="no start"):
        get("/")


def test_the_start_is_seen_by_the_request(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope["state"]["pool"] = "ready"
            await lifespan(receive, send)
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["state"]["pool"].encode()})
            await send({"type": "http.response.debug"})

    use_app(monkeypatch, app)
    assert get("/") == 0
    assert capsysbinary.readouterr().out == b"ready"


def test_the_body_ends_and_then_nothing_more_comes() -> None:
    request = Request("POST", "/", body=io.BytesIO(b"x" * (2**20 + 1)))
    first, second = request.next_part(), request.next_part()
    assert (len(first["body"]), first["more_body"]) == (2**20, True)
    assert (second["body"], second["more_body"]) == (b"x", False)


def test_the_target_is_quoted_as_a_client_would(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert get("/asked/a b%20c/é?x=1,2&y=ü z&z=%26") == 0
    assert json.loads(capsysbinary.readouterr().out) == {
        "path": "/asked/a b c/é", "query": {"x": "1,2", "y": "ü z", "z": "&"}, "trailer": False,
    }  # fmt: skip


def test_a_target_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert get("http://localhost:8000/v1/encodings/rope") == 2
    assert capsys.readouterr().err.startswith("posenc get: 'http://localhost:8000/v1/encodings/rope': a path and ")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"tensors": {}}', "application/json"),
        (b"\n [1, 2]", "application/json"),
        (b"\x93NUMPY\x01\x00v\x00{'descr", "application/octet-stream"),
        (struct.pack("<Q", ord("{")) + b'{"q"', "application/octet-stream"),
        (struct.pack("<Q", ord("[")) + b'{"q"', "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_media_type(head: bytes, expected: str) -> None:
    assert media_type(head) == expected


def echoed(request: Request) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in request.headers()}


def test_a_file_is_posted_with_its_length(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "q.json").write_bytes(b'{"q": [1]}')
    assert get("/echo", data=str(tmp_path / "q.json")) == 0
    assert capsysbinary.readouterr().out == b'{"q": [1]}'


def test_standard_input_is_posted(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with standard_input(monkeypatch, b"\x93NUMPY"):
        assert get("/echo", data="-") == 0
    assert capsysbinary.readouterr().out == b"\x93NUMPY"


def test_what_a_request_tells() -> None:
    known = Request("POST", "/", media_type="application/json", body=io.BytesIO(b"{}"), size=2)
    assert echoed(known) == {
        "host": "localhost",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": "2",
    }
    assert echoed(Request("POST", "/", body=io.BytesIO()))["transfer-encoding"] == "chunked"
    assert echoed(Request("GET", "/")) == {"host": "localhost", "accept-encoding": "identity"}


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing" / "file")
    assert get("/plain?status=200", missing) == 1
    assert capsys.readouterr().err == f"posenc get: {missing}: No such file or directory\n"
    assert get("/echo", data=missing) == 1
    assert capsys.readouterr().err == f"posenc get: {missing}: No such file or directory\n"


def test_the_memory_stays_flat_while_an_answer_streams(tmp_path: Path) -> None:
    """256 MiB come through within 8 MiB of the memory that one block takes."""
    code = (
        "import resource, sys; from tests import stub_app; sys.modules['service.main'] = stub_app.MAIN;"
        "from service.command import main;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "file = sys.argv[1]; main(['get', '/big?blocks=1', '-o', file]); before = peak();"
        "main(['get', '/big?blocks=4096', '-o', file]); print(peak() - before)"
    )
    file = tmp_path / "big"
    run = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert file.stat().st_size == 2**28
    assert int(run.stdout) * 1024 < 2**23, resource.getpagesize()


ENDLESS = """
import asyncio, signal, sys
from types import SimpleNamespace
from tests import stub_app

async def app(scope, receive, send):
    if scope["type"] != "lifespan":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        print("begun", flush=True)
        await asyncio.sleep(60)

for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)  # under nohup, or behind a shell's &, some are ignored: then nothing ends here
sys.modules["service.main"] = SimpleNamespace(create_app=lambda _settings: app)
from service.command import main
sys.exit(main(["get", "/", "-o", sys.argv[1]]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_old_file_and_nothing_beside_it(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(number)
        assert process.communicate() == ("", "")
    assert process.returncode == -number
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x": "old"}


def test_a_signal_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in this process, with a signal that nothing dies of."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            signal.raise_signal(signal.SIGURG)

    use_app(monkeypatch, app)
    monkeypatch.setattr("service.get.STOPS", [signal.SIGURG])
    before = signal.getsignal(signal.SIGURG)
    assert get("/", tmp_path / "x") == 128 + signal.SIGURG
    assert os.listdir(tmp_path) == []
    assert signal.getsignal(signal.SIGURG) is before


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `nohup` has it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            signal.raise_signal(signal.SIGHUP)
            await send({"type": "http.response.body", "body": b"new"})

    use_app(monkeypatch, app)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert get("/", tmp_path / "x") == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_full_disk_is_one_line() -> None:
    command = [sys.executable, "-m", "service", "get", "/v1/encodings/rope.npy?length=200000&dim=64"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


def test_a_sink_that_fails_stops_the_app_without_blaming_it() -> None:
    parts: list[int] = []

    def sink(part: bytes) -> None:
        parts.append(len(part))
        if len(parts) > 1:
            raise OSError(28, "No space left on device")

    asked = Request("GET", "/v1/encodings/rope.npy", "length=200000&dim=64")
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(answer(create_app(Settings()), asked, sink))
    assert len(parts) == 2


def test_what_an_app_sends_after_the_sink_failed_is_dropped() -> None:
    async def insistent(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    parts: list[bytes] = []

    def sink(part: bytes) -> None:
        parts.append(part)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(answer(insistent, Request("GET", "/"), sink))
    assert parts == [b"x"]
