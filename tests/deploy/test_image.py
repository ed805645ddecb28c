"""The Dockerfile's commands, run without a container engine: in a clean root, as the image's user, nothing writable.

`bwrap` makes a root file system of this machine's system folders and this Python (as /usr/local, where the base image
has it). The build stage runs as root with a writable /src and /opt; the final stage as the image's user with a root
that is read-only, no capabilities and a process namespace of its own, in which the server is process 1.
"""

import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.dockerfile import ROOT, Instruction, Stage, build_and_final
from tests.live import free_port
from tests.tools import program

pytestmark = pytest.mark.tool

SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc"]
# What a build needs to know of this machine: where packages come from.
BUILD_VARIABLES = ("PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


def sandbox(*binds: str) -> list[str]:
    """bwrap with this machine's system folders and Python, read-only."""
    system = [word for path in SYSTEM if Path(path).exists() for word in ("--ro-bind", path, path)]
    python = ["--ro-bind", sys.base_prefix, "/usr/local", "--setenv", "LD_LIBRARY_PATH", "/usr/local/lib"]
    return [
        program("bwrap"),
        "--clearenv",
        *system,
        *python,
        *("--perms", "0755", "--dir", "/opt"),
        *binds,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--die-with-parent",
    ]


def environment(stage: Stage) -> list[str]:
    return [word for name, value in stage.environment().items() for word in ("--setenv", name, value)]


def copy_sources(stage: Stage, into: Path) -> None:
    """COPY, for instructions that stand before any RUN needing them: all land in the work folder."""
    for instruction in stage.all("COPY"):
        *sources, target = instruction.value.split()
        for source in sources:
            place = into / target if len(sources) == 1 and not target.endswith("/") else into / target / source
            _copy(ROOT / source, place)


def _copy(source: Path, place: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, place)


@pytest.fixture(scope="module")
def environment_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage leaves in /opt/posenc."""
    build, final = build_and_final()
    folder = tmp_path_factory.mktemp("image")
    source, opt = folder / "src", folder / "opt"
    source.mkdir()
    opt.mkdir()
    copy_sources(build, source)
    workdir = build.one("WORKDIR").value
    variables = {name: value for name, value in os.environ.items() if name.startswith(BUILD_VARIABLES)}
    variables |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"}
    given = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    binds = [
        "--tmpfs",
        "/tmp",
        "--bind",
        str(source),
        workdir,
        "--bind",
        str(opt),
        "/opt/posenc",
        "--chdir",
        workdir,
        *given,
    ]
    for run in build.all("RUN"):
        subprocess.run([*sandbox(*binds), *run.words()], check=True, stdout=subprocess.DEVNULL)
    assert final.one("COPY").value.split()[0] == "/opt/posenc"
    return opt


def final_command(opt: Path, port: int, words: list[str], *more: str) -> list[str]:
    """The command of the final stage, as its user, with nothing writable."""
    _, final = build_and_final()
    user, _, group = final.one("USER").value.partition(":")
    become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    return [
        *sandbox("--ro-bind", str(opt), "/opt/posenc", *environment(final)),
        *("--setenv", "POSENC_PORT", str(port), "--setenv", "POSENC_DRAIN_SECONDS", "0"),
        *("--unshare-pid", "--as-pid-1", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
        *("--remount-ro", "/", "--chdir", "/", *more, *become, *words),
    ]


@contextmanager
def running(opt: Path, port: int) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The server as the container would start it, and the server's own process id."""
    _, final = build_and_final()
    words = [*final.one("ENTRYPOINT").words(), *final.one("CMD").words()]
    reader, writer = os.pipe()
    command = final_command(opt, port, words, "--info-fd", str(writer))
    process = subprocess.Popen(command, pass_fds=[writer])
    os.close(writer)
    with os.fdopen(reader) as info:
        pid = int(json.load(info)["child-pid"])
    try:
        yield process, pid
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str, seconds: float = 10) -> tuple[int, bytes]:
    """Ask until somebody listens."""
    end = time.monotonic() + seconds
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.02)
        finally:
            connection.close()


def test_the_image_serves_and_stops(environment_folder: Path) -> None:
    port = free_port()
    _, final = build_and_final()
    check = Instruction("CMD", {}, final.one("HEALTHCHECK").value.partition(" ")[2]).words()
    with running(environment_folder, port) as (process, pid):
        assert get(port, "/health/live")[0] == 200
        status, body = get(port, "/v1/encodings/rope.npy?length=3&dim=4")
        assert status == 200
        cos, sin = np.load(io.BytesIO(body))
        assert cos[1].tolist() == np.cos(np.array([1, 0.01, 1, 0.01])).astype(np.float32).tolist()
        assert sin[0].tolist() == [0, 0, 0, 0]
        status, body = get(port, "/v1/encodings/sinusoidal.png?length=50&dim=128")
        assert (status, body[:8]) == (200, b"\x89PNG\r\n\x1a\n")
        assert Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[:4] == ["10001"] * 4
        assert subprocess.run(final_command(environment_folder, port, check), check=False).returncode == 0
        os.kill(pid, signal.SIGTERM)
        assert process.wait(10) == 0
    assert subprocess.run(final_command(environment_folder, port, check), check=False).returncode == 1


def test_nothing_in_the_image_can_be_written(environment_folder: Path) -> None:
    code = (
        "import os, pathlib, sys;"
        "print(sys.prefix, sorted(str(p) for p in [*pathlib.Path('/').iterdir(), pathlib.Path('/opt/posenc')]"
        " if os.access(p, os.W_OK) and p.is_dir() and str(p) not in ('/dev', '/proc')))"
    )
    words = ["python", "-c", code]
    told = subprocess.run(final_command(environment_folder, 1, words), check=True, capture_output=True, text=True)
    assert told.stdout == "/opt/posenc []\n"


def test_the_image_has_its_bytecode_and_no_installer(environment_folder: Path) -> None:
    installed = next(environment_folder.glob("lib/python3*/site-packages"))
    sources = list((installed / "service").rglob("*.py"))
    assert len(sources) > 30
    for source in sources:
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")), source
    assert not (installed / "pip").exists()
    assert not (installed / "setuptools").exists()
    assert not list(environment_folder.glob("bin/pip*"))


def test_the_image_answers_one_request_without_a_server(environment_folder: Path) -> None:
    words = ["posenc", "get", "/v1/encodings/sinusoidal.npy?length=2&dim=4"]
    told = subprocess.run(final_command(environment_folder, 1, words), check=True, capture_output=True)
    assert np.load(io.BytesIO(told.stdout))[0].tolist() == [0, 1, 0, 1]
