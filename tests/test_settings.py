import re
from pathlib import Path
from typing import Any

import pytest

from service.access import new_key
from service.command import main
from service.settings import (
    Settings,
    SettingsError,
    flag,
    is_size,
    load,
    show_default,
    takes,
    variable,
)
from service.spelling import parse_bytes, show_bytes

NAMES = list(Settings.model_fields)
ENTRY, SECOND = new_key("ci")[1], new_key("team-b")[1]
# A value other than the default for every setting, as text and as it is held.
OTHER: dict[str, tuple[str, object]] = {
    "host": ("::", "::"),
    "port": ("0", 0),
    "workers": ("3", 3),
    "threads": ("7", 7),
    "partner": ("off", "off"),
    "drawer": ("off", "off"),
    "result_bytes": ("1GiB", 2**30),
    "json_bytes": ("1000", 1000),
    "body_bytes": ("2 MiB", 2**21),
    "json_body_bytes": ("1 MiB", 2**20),
    "memory_bytes": ("3tib", 3 * 2**40),
    "waiting_requests": ("64", 64),
    "queue_seconds": ("0.25", 0.25),
    "table_cache_bytes": ("0", 0),
    "reply_cache_bytes": ("0B", 0),
    "stream_bytes": ("64KiB", 65536),
    "url_bytes": ("64", 64),
    "header_bytes": ("16KiB", 16384),
    "header_fields": ("8", 8),
    "header_seconds": ("0.25", 0.25),
    "body_idle_seconds": ("1e1", 10.0),
    "answer_idle_seconds": ("0.5", 0.5),
    "keep_alive_seconds": ("5", 5),
    "drain_seconds": ("0", 0.0),
    "grace_seconds": ("30", 30),
    "access_log": ("all", "all"),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
    "metrics": ("off", "off"),
    "docs": ("off", "off"),
    "explorer": ("off", "off"),
    "root_path": ("/a/b", "/a/b"),
    "api_keys": (f"{ENTRY}, {SECOND}", f"{ENTRY}, {SECOND}"),
    "api_keys_file": ("FILE", "FILE"),
    "api_key": ("secret", "secret"),
    "rate_limit": ("2.5", 2.5),
    "rate_burst": ("7", 7),
    "trusted_proxies": ("10.0.0.0/8, ::1", "10.0.0.0/8, ::1"),
    "allowed_hosts": ("*.example.org,[::1]", "*.example.org,[::1]"),
    "cors_origins": ("*", "*"),
}
BAD: dict[str, list[str]] = {
    "host": [
        "",
        ".",
        "a..b",
        "a" * 64,
        "1.5",
        "0x10",
        "127.1",
        "1.2.3.4.",
        "a\nb",
        "a b",
        "[::1]",
        "::x",
        "::1%a\nb",
        "é..b",
    ],
    "port": ["-1", "65536", "http", "80.5", "80.0", "1_0", " 80", "+80", "٨١", ""],
    "workers": ["0", "257"],
    "threads": ["-1", "1025"],
    "partner": ["auto", ""],
    "drawer": ["no"],
    "result_bytes": ["0", "1PB", "-5", "1.5GiB", "1025TiB", "9" * 400],
    "json_bytes": ["0"],
    "body_bytes": ["none"],
    "json_body_bytes": ["-1"],
    "memory_bytes": ["MiB"],
    "waiting_requests": ["0", "1KiB"],
    "queue_seconds": ["0"],
    "table_cache_bytes": ["-1"],
    "reply_cache_bytes": ["-1"],
    "stream_bytes": ["0"],
    "url_bytes": ["63", "64KiB"],
    "header_bytes": ["1023"],
    "header_fields": ["7"],
    "header_seconds": ["0", "nan", "inf", "-1"],
    "body_idle_seconds": ["0"],
    "answer_idle_seconds": ["0"],
    "keep_alive_seconds": ["0", "0.5"],
    "drain_seconds": ["-1", "nan"],
    "grace_seconds": ["0"],
    "access_log": ["on"],
    "log_level": ["INFO", "trace"],
    "log_format": ["logfmt"],
    "metrics": ["9090"],
    "docs": ["yes", "1"],
    "explorer": ["yes"],
    "root_path": ["posenc", "/a/", "/a b", "/a?b", "/a#", "/é", "/a\n"],
    "api_keys": [
        "a-key-itself",
        f"{ENTRY[:-1]}",
        f":{ENTRY}",
        f"{ENTRY} {SECOND}",
        ",",
        " ",
        f"a b{ENTRY}",
        f"{ENTRY}é",
    ],
    "api_keys_file": [],
    "api_key": ["a b", "é", "a\n"],
    "rate_limit": ["-1", "nan", "inf", "10/s"],
    "rate_burst": ["0", "0.5"],
    "trusted_proxies": ["proxy", "10.0.0.1/8", "10.0.0.0/33", "*", ","],
    "allowed_hosts": ["a b", "*", "a.*.b", "http://a", "a:80", "a/b", "-a", ","],
    "cors_origins": [
        "https://a/",
        "a.example",
        "*, https://a",
        "https://*.a",
        "null",
        "HTTPS://A",
        "https://u@a",
        "https://é.org",
    ],
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.delenv(variable(name), raising=False)
    # The file of keys that the tests name.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text(f"# Who may ask.\n{ENTRY}\n\n{SECOND}  # until May\n")


def test_defaults() -> None:
    assert Settings().model_dump() == {
        "host": "127.0.0.1",
        "port": 8000,
        "workers": 1,
        "threads": 0,
        "partner": "on",
        "drawer": "on",
        "result_bytes": 8589934592,
        "json_bytes": 268435456,
        "body_bytes": 134217728,
        "json_body_bytes": 8388608,
        "memory_bytes": 2147483648,
        "waiting_requests": 1024,
        "queue_seconds": 5.0,
        "table_cache_bytes": 268435456,
        "reply_cache_bytes": 268435456,
        "stream_bytes": 4194304,
        "url_bytes": 8192,
        "header_bytes": 32768,
        "header_fields": 100,
        "header_seconds": 10.0,
        "body_idle_seconds": 20.0,
        "answer_idle_seconds": 30.0,
        "keep_alive_seconds": 75,
        "drain_seconds": 1.0,
        "grace_seconds": 15,
        "access_log": "misses",
        "log_format": "text",
        "log_level": "info",
        "metrics": "on",
        "docs": "on",
        "explorer": "on",
        "root_path": "",
        "api_keys": "",
        "api_keys_file": "",
        "api_key": "",
        "rate_limit": 0.0,
        "rate_burst": 100,
        "trusted_proxies": "",
        "allowed_hosts": "",
        "cors_origins": "",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_flag_sets_it(name: str) -> None:
    text, value = OTHER[name]
    assert getattr(load({name: text}), name) == value != Settings.model_fields[name].default


@pytest.mark.parametrize("name", NAMES)
def test_the_environment_sets_it_and_a_flag_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = OTHER[name]
    monkeypatch.setenv("POSENC_" + name.upper(), text)
    assert getattr(load({}), name) == value
    default = Settings.model_fields[name].default
    assert getattr(load({name: default}), name) == default


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in NAMES for text in BAD[name]])
def test_a_bad_value_is_one_line_with_name_value_and_cure(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(name), text)
    with pytest.raises(SettingsError) as error:
        load({})
    line = str(error.value)
    shown = repr(text) if len(text) < 60 else repr(text)[:61] + "..."
    shown = "not taken" if name in ("api_keys", "api_key") else shown
    assert line == f"{flag(name)} ({variable(name)}) is {shown}: {takes(name)} would do"
    assert "\n" not in line


NONSENSE = [
    "\udcff",
    "http://\udcff",
    "a\nb",
    "\x1b[0m",
    "٣",
    "1_0",
    "0x10",
    " ",
    "a..b",
    "9" * 400,
    "é",
    "nan",
    "1e999",
    ",",
]
# Not so for these: names and keys look like anything.
SENSIBLE = {
    "host": ["1_0", "٣", "é", "nan", "1e999"],
    "allowed_hosts": ["1_0", "0x10", "nan", "1e999", "a\nb"],
    "api_key": ["1_0", "0x10", "a..b", "9" * 400, "nan", "1e999", ","],
}


@pytest.mark.parametrize("text", NONSENSE, ids=ascii)
@pytest.mark.parametrize("name", NAMES)
def test_nonsense_is_answered_in_one_line_and_with_2(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for given in ([flag(name), text], []):
        code = main(["key", "ci", *given])
        told = capsys.readouterr().err
        if text in SENSIBLE.get(name, []):
            assert (code, told) == (0, "")
        else:
            assert code == 2
            assert re.fullmatch(rf"posenc: {flag(name)} \({variable(name)}\) is [ -~٣é]+ would do\n", told)
        monkeypatch.setenv(variable(name), text)


def test_what_is_no_setting_is_told_in_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["key", "ci", "--po\nrt"])
    assert left.value.code == 2
    monkeypatch.setenv("POSENC_A\nB\udcff", "1")
    assert main(["key", "ci"]) == 2
    assert re.fullmatch(r"posenc: --po\\nrt is .*\nposenc: POSENC_A\\nB\\udcff is .*\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (b"", "nothing is in it"),
        (b"# nothing\n\n", "nothing is in it"),
        (f"{ENTRY}\nposenc_secret\n".encode(), "entry 2 is not NAME:DIGEST"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_without_keys_is_told_and_not_shown(held: bytes | None, reason: str, tmp_path: Path) -> None:
    """A list that came to nothing would let everyone in."""
    if held is not None:
        (tmp_path / "keys").write_bytes(held)
    with pytest.raises(SettingsError) as error:
        load({"api_keys_file": "keys"})
    assert str(error.value) == (
        f"--api-keys-file (POSENC_API_KEYS_FILE) is 'keys': {reason}; "
        "a file with NAME:DIGEST on each line, as `posenc key NAME` prints it, would do"
    )


def test_keys_are_those_of_both_places() -> None:
    third = f"ci:{'0f' * 32}"
    found = load({"api_keys": third.upper().replace("CI", "ci"), "api_keys_file": "FILE"}).keys()
    assert [(name, digest.hex()) for name, digest in found] == [
        tuple(each.split(":")) for each in (third, ENTRY, SECOND)
    ]  # fmt: skip


def test_no_key_is_shown() -> None:
    settings = load({"api_key": "secret", "api_keys": ENTRY})
    assert "secret" not in repr(settings)
    assert ENTRY not in str(settings)


def test_who_runs_it_is_not_kept_out() -> None:
    given = load({"api_keys": ENTRY, "api_keys_file": "FILE", "rate_limit": "1", "allowed_hosts": "a", "port": "1"})
    assert given.for_its_owner() == load({"port": "1"})


def test_what_they_take() -> None:
    assert takes("port") == "a whole number from 0 to 65535"
    assert takes("header_seconds") == "a number from 0.01 to 86400"
    assert takes("json_bytes") == "a number of bytes from 1 to 1024TiB, such as 256MiB"
    assert takes("access_log") == "off, misses or all"
    assert takes("host") == "a host name or an address"
    assert takes("root_path") == "a path such as /posenc"


def test_draining_fits_into_the_grace_period() -> None:
    assert load({"drain_seconds": "2", "grace_seconds": "2"}).drain_seconds == 2
    with pytest.raises(SettingsError) as error:
        load({"drain_seconds": "3", "grace_seconds": "2"})
    assert str(error.value) == (
        "--drain-seconds (POSENC_DRAIN_SECONDS) is 3: at most --grace-seconds, which is 2, would do"
    )


def test_an_unknown_variable_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_RESULT_BYTE", "5")
    with pytest.raises(
        SettingsError, match=r"^POSENC_RESULT_BYTE is not a setting; did you mean POSENC_RESULT_BYTES\?$"
    ):
        load({})


def test_an_unknown_variable_that_is_like_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_ZQJXV", "5")
    with pytest.raises(SettingsError, match=r"^POSENC_ZQJXV is not a setting$"):
        load({})


def test_what_a_kubernetes_service_leaves_behind_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    links = {
        "POSENC_PORT": "tcp://10.96.0.7:80",
        "POSENC_SERVICE_HOST": "10.96.0.7",
        "POSENC_SERVICE_PORT": "80",
        "POSENC_SERVICE_PORT_HTTP": "80",
        "POSENC_PORT_80_TCP": "tcp://10.96.0.7:80",
        "POSENC_PORT_80_TCP_PROTO": "tcp",
        "POSENC_PORT_80_TCP_PORT": "80",
        "POSENC_PORT_80_TCP_ADDR": "10.96.0.7",
    }
    for name, value in links.items():
        monkeypatch.setenv(name, value)
    assert load({}) == Settings()
    assert load({}).port == 8000


def test_an_unknown_flag_name_and_a_change_afterwards_are_refused() -> None:
    unknown: dict[str, Any] = {"prot": 1}
    with pytest.raises(ValueError, match="prot"):
        Settings(**unknown)
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1


def test_no_env_file_is_looked_for(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("POSENC_PORT=1\n")
    monkeypatch.chdir(tmp_path)
    assert Settings().port == 8000


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("12KiB", 12288), ("1 gib", 2**30), ("1kB", "1kB"), ("1.5MiB", "1.5MiB"), (7, 7), ("", "")],
)
def test_parse_bytes(text: object, value: object) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("name", [name for name in NAMES if is_size(name)])
def test_a_size_shown_reads_back(name: str) -> None:
    assert parse_bytes(show_default(name)) == Settings.model_fields[name].default


def test_show_bytes() -> None:
    assert [show_bytes(count) for count in (0, 1, 1023, 1024, 2**20 + 2**10, 2**41)] == [
        "0", "1", "1023", "1KiB", "1025KiB", "2TiB",
    ]  # fmt: skip


def test_every_setting_is_described_in_a_few_words() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert re.fullmatch(r"[a-z].{10,100}[^.]", field.description), name
