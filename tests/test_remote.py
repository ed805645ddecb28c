"""`posenc get --server`: the same files and exit codes as in one process; and the progress that a terminal sees."""

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.access import new_key
from service.command import main
from service.get import Get
from service.inprocess import Answer
from service.main import create_app
from service.remote import Progress, is_terminal, line
from service.settings import Settings
from tests import stub_app
from tests.live import free_port, live


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(port=0, drain_seconds=0)
    with live(stub_app.create_app(settings), settings) as server:
        yield f"http://127.0.0.1:{server.port}"


def get(url: str, target: str, *more: str) -> int:
    return main(["get", target, "--server", url, *more])


def test_the_answer_is_the_file(url: str, tmp_path: Path) -> None:
    assert get(url, "/big?blocks=50", "-o", str(tmp_path / "x")) == 0
    assert (tmp_path / "x").read_bytes() == stub_app.BLOCK * 50
    assert os.listdir(tmp_path) == ["x"]


def test_a_slash_at_the_end_and_what_is_quoted(url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert get(f"{url}/", "/asked/a b%20c/é?x=1,2&y=ü z&z=%26") == 0
    assert json.loads(capsysbinary.readouterr().out)["query"] == {"x": "1,2", "y": "ü z", "z": "&"}


def test_a_body_is_posted(url: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "q.json").write_bytes(b'{"q": [1]}' + b" " * (3 << 20))
    assert get(url, "/echo", "--data", str(tmp_path / "q.json")) == 0
    assert capsysbinary.readouterr().out == b'{"q": [1]}' + b" " * (3 << 20)


@pytest.mark.parametrize(("status", "code"), [(404, 2), (422, 2), (429, 3), (500, 1), (503, 3)])
def test_a_refusal_leaves_the_old_file(
    status: int, code: int, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("old")
    assert get(url, f"/refused?status={status}", "-o", str(tmp_path / "x")) == code
    assert (tmp_path / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]
    assert capsys.readouterr().err.startswith(f"posenc get: {status} lenght: is not known (did you mean length?)\n")


def test_no_server_is_another_code_than_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert get(url, "/v1/x", "-o", str(tmp_path / "x")) == 3
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().err == f"posenc get: {url}: [Errno 111] Connection refused\n"


@pytest.mark.parametrize("wrong", ["localhost:8000", "ftp://x", ""])
def test_an_address_that_is_none(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(wrong, "/v1/x") == 2
    told = f"posenc get: --server {wrong!r}: an address such as http://127.0.0.1:8000 would do\n"
    assert capsys.readouterr().err == told


def test_an_answer_that_breaks_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert get(url, "/v1/x", "-o", str(tmp_path / "x")) == 1
        thread.join()
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().err == "posenc get: the answer broke off after 3 bytes\n"


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, wanted: bool = True) -> str:
    """What three updates, the second of them too early, leave on the stream."""
    times = iter([10.0, 10.05, 10.2])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    reply = Answer(expected=4 << 20)
    progress = Progress(stream, reply, wanted)
    for received in (1 << 20, 2 << 20, 4 << 20):
        reply.received = received
        progress.update()
    progress.clear()
    return stream.getvalue()


def test_a_terminal_sees_a_bar_which_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, Terminal()) == (
        f"\r 25 % [{'#' * 6}{' ' * 18}] 1.0 of 4.0 MiB\x1b[K\r100 % [{'#' * 24}] 4.0 of 4.0 MiB\x1b[K\r\x1b[K"
    )


def test_an_answer_of_unknown_length() -> None:
    assert line(3 << 19, None) == "1.5 MiB"


def test_a_log_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, io.StringIO()) == ""
    assert drawn(monkeypatch, Terminal(), wanted=False) == ""


def test_a_terminal_that_went_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:  # noqa: ARG002
            raise OSError(5, "Input/output error")

    assert drawn(monkeypatch, Gone()) == ""


def test_a_bar_is_in_the_way_of_an_answer_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.isatty", lambda number: number == 1)
    assert is_terminal("-", "-")
    assert not is_terminal("x", "-")
    monkeypatch.setattr("os.isatty", lambda _number: False)
    assert not is_terminal("-", "-")


def test_a_real_terminal(url: str, tmp_path: Path) -> None:
    """The command on a pseudo-terminal: a bar on it, nothing of it in the file."""
    import pty  # noqa: PLC0415 - where there are terminals
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "service", "get", "/big?blocks=8", "--server", url, "-o", str(tmp_path / "x")]
    done = subprocess.run(command, stdout=follower, stderr=follower, check=False)
    os.close(follower)
    seen = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.returncode == 0
    assert " of 0.5 MiB" in seen
    assert seen.endswith("\r\x1b[K")
    assert (tmp_path / "x").read_bytes() == stub_app.BLOCK * 8


def test_a_key_is_sent_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, entry = new_key("ci")
    settings = Settings(port=0, drain_seconds=0, api_keys=entry)
    with live(create_app(settings), settings) as server:
        url, target = f"http://127.0.0.1:{server.port}", "/v1/biases/alibi-slopes.npy?heads=3"
        monkeypatch.setenv("POSENC_API_KEY", key)
        assert get(url, target, "-o", str(tmp_path / "x")) == 0
        assert get(url, target, "-o", str(tmp_path / "y"), "--api-key", "another") == 2
        assert (tmp_path / "x").read_bytes()[:6] == b"\x93NUMPY"
        assert os.listdir(tmp_path) == ["x"]
        told = capsys.readouterr().err
        assert told.startswith("posenc get: 401 the API key is not known here: ")
        assert "another" not in told
        assert key not in repr(Get(target, server=url, key=key))


def test_who_runs_the_command_needs_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the environment is that of a server, as in its container."""
    monkeypatch.setenv("POSENC_API_KEYS", new_key("ci")[1])
    monkeypatch.setenv("POSENC_ALLOWED_HOSTS", "example.org")
    assert main(["get", "/v1/biases/alibi-slopes.npy?heads=3", "-o", str(tmp_path / "x")]) == 0
