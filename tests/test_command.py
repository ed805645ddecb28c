import os
import runpy
import subprocess
import sys
from types import SimpleNamespace

import pytest

from service import __main__ as program
from service import __version__
from service.command import main, parse
from service.settings import Settings, flag, show_default, variable
from tests import stub_app
from tests.live import live


@pytest.fixture(autouse=True)
def _stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "service.main", stub_app.MAIN)
    monkeypatch.setitem(sys.modules, "service.api.openapi", stub_app.OPENAPI)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a command that ends with 2."""
    try:
        code: object = main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.strip()


@pytest.mark.parametrize("command", ["serve", "get", "openapi", "healthcheck"])
def test_help_has_a_line_for_every_setting(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        assert f"{flag(name)} " in text
        assert f"{variable(name)}; default: {show_default(name)})" in text
        assert str(field.description) in text


def test_help_of_the_whole_command_names_the_four(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in ("serve", "get", "openapi", "healthcheck"):
        assert f"\n    {command}" in text
    assert "Exit codes: 0 done; 2 " in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"posenc {__version__}\n"


def test_a_bad_setting(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["serve", "--port", "eighty"], capsys)
    assert line == "posenc: --port (POSENC_PORT) is 'eighty': a whole number from 0 to 65535 would do"


def test_an_unknown_flag_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["serve", "--result-byte=5"], capsys)
    assert line == "posenc: --result-byte is not known here; did you mean --result-bytes?; see posenc --help"


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'sevre'" in refusal(["sevre"], capsys)


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "COMMAND" in refusal([], capsys)


def test_flags_reach_the_settings_as_text() -> None:
    options = parse(["get", "/x", "-o", "f", "--json-bytes", "1MiB"])
    assert vars(options) == {
        "command": "get", "target": "/x", "output": "f", "data": None, "server": None, "json_bytes": "1MiB",
    }  # fmt: skip


def test_openapi_prints_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi", "--port", "77"]) == 0
    assert capsys.readouterr().out == stub_app.DOCUMENT


def test_get_answers(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["get", "/plain?status=200&text=hello"]) == 0
    assert capsysbinary.readouterr().out == b"hello"


def test_serve_hands_the_settings_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def serve(settings: Settings) -> int:
        seen.append(settings)
        return 7

    monkeypatch.setitem(sys.modules, "service.server", SimpleNamespace(serve=serve))
    assert main(["serve", "--port", "1234"]) == 7
    assert [settings.port for settings in seen] == [1234]


def test_arguments_come_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["posenc", "openapi", "--port", "78"])
    assert main() == 0
    assert capsys.readouterr().out == stub_app.DOCUMENT
    monkeypatch.setattr(sys, "argv", ["posenc", "openapi", "--port", "seventy-eight"])
    assert main() == 2


def test_healthcheck_of_a_live_server_and_of_none() -> None:
    settings = Settings(port=0)
    with live(stub_app.create_app(settings), settings) as server:
        port = str(server.port)
        assert main(["healthcheck", "--port", port]) == 0
        assert main(["healthcheck", "--port", port, "--host", "0.0.0.0"]) == 0
    assert main(["healthcheck", "--port", port]) == 1


def test_healthcheck_loads_neither_numpy_nor_a_server() -> None:
    code = (
        "import sys; from service.command import main; code = main(['healthcheck', '--port', '1']);"
        "print(code, sorted({'numpy', 'fastapi', 'starlette', 'uvicorn', 'service.main'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "1 []\n"


def test_python_m_service_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["service", "openapi", "--port", "79"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(program.__file__, run_name="__main__")
    assert exit_.value.code == 0
    assert capsys.readouterr().out == stub_app.DOCUMENT


def test_python_m_service_runs() -> None:
    run = subprocess.run([sys.executable, "-m", "service", "--version"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"posenc {__version__}\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_leaves_early_is_no_failure(unbuffered: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "service", "openapi"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(9)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_what_a_reader_did_not_take_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as left:
        monkeypatch.setattr(sys, "stdout", left)
        assert main(["key", "team-a"]) == 0
        assert main(["key", "team-a"]) == 0  # from here on it goes nowhere
