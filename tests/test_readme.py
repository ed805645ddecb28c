"""The README runs: every block is executed in order in one folder, and what it shows is what comes out."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from service.formats import FORMATS
from service.formats.format import KEPT_BYTES
from service.main import create_app
from service.settings import Settings
from tests import gallery
from tests.benchmarks import serving
from tests.benchmarks.figures import HEADER
from tests.live import Live, answering, ask, free_port, live, wait_until
from tests.readme import PATH, ROOT, TABLES, Block, blocks, section
from tests.tools import program

BLOCKS = blocks()
INSTALL, TEST, CONTAINER = BLOCKS[:3]
ADDRESS = "http://127.0.0.1:8000"
SHOWN = ("json", "text", "yaml")
# How a program is built and run: the suffix of its file, and commands in which FILE is that file.
PROGRAMS = {
    "javascript": (".mjs", "node", "node FILE"),
    "c": (".c", "gcc", "gcc -Wall -Wextra -Werror -O2 -o read FILE && {pipe}"),
    "rust": (".rs", "rustc", "rustc -D warnings --edition 2021 -o read FILE && {pipe}"),
    "go": (".go", "go", "GOCACHE=$PWD/go-cache go run FILE"),
    "r": (".R", "Rscript", "Rscript FILE"),
    "julia": (".jl", "julia", "julia FILE"),
    "makefile": (".mk", "make", "make -s -f FILE"),
}
# What Debian has no package of may be missing in CI as well.
OPTIONAL = ("julia",)
RUN = [number for number, block in enumerate(BLOCKS) if number > 2 and block.language not in SHOWN]


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    settings = Settings(port=0, drain_seconds=0)
    with live(create_app(settings), settings) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader works: `.venv/bin/posenc` as the first command leaves it, and `python3` on the path."""
    place = tmp_path_factory.mktemp("reader")
    commands = place / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name, arguments in (("posenc", "-m service"), ("python3", "")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (commands / name).chmod(0o755)
    return place


def run(block: Block, folder: Path, server: Live) -> str:
    text = block.text.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
    command = ["bash", "-euo", "pipefail", "-c", text] if block.language == "bash" else [sys.executable, "-c", text]
    if block.language in PROGRAMS:
        command = ["bash", "-euo", "pipefail", "-c", program_command(block, text, folder)]
    variables = os.environ | {"PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def program_command(block: Block, text: str, folder: Path) -> str:
    """Writes a program of another language to its file; how it is run, with what its first line pipes into it."""
    suffix, tool, command = PROGRAMS[block.language]
    if block.language in OPTIONAL and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    program(tool)
    (folder / f"read{suffix}").write_text(text)
    piped = text.splitlines()[0].partition(" && ")[2]
    return command.replace("FILE", f"read{suffix}").replace("{pipe}", piped)


@pytest.mark.parametrize("number", RUN, ids=lambda number: f"line{BLOCKS[number].line}")
def test_a_block_runs_and_shows_what_comes_out(number: int, folder: Path, server: Live) -> None:
    block = BLOCKS[number]
    if "curl" in block.text:
        program("curl")
    told = run(block, folder, server)
    shown = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else None
    if shown is not None and shown.language == "text":
        assert told.strip() == shown.text.strip()
    elif shown is not None and shown.language == "json":
        assert json.loads(told) == json.loads(shown.text)
    else:
        assert not re.search(r'"status": ?[45]\d\d', told)


def test_the_rotated_vectors_are_those_of_the_formula(folder: Path) -> None:
    """What the blocks above left, against RoPE written with complex numbers."""
    sent, got = load_file(folder / "qk.safetensors"), load_file(folder / "rotated.safetensors")
    angles = np.outer(np.arange(100, 116), 10000.0 ** (-np.arange(0, 64, 2) / 64))
    for name in ("q", "k"):
        x = sent[name].astype(float)
        turned = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * angles)
        assert np.abs(got[name] - np.concatenate([turned.real, turned.imag], axis=-1)).max() < 1e-6


def test_the_makefile_left_the_tables_and_makes_them_once(folder: Path) -> None:
    assert np.load(folder / "bias.npy").shape == (8, 128, 128)
    assert load_file(folder / "rope.safetensors")["cos"].shape == (4096, 128)
    block = next(block for block in BLOCKS if block.language == "makefile")
    assert block.text.count("\n\t.venv/bin/posenc get '/v1/") == 2
    command = [program("make"), "-q", "-f", "read.mk"]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0


def yaml_block(first: str) -> Any:
    return yaml.safe_load(next(block.text for block in BLOCKS if block.text.startswith(first)))


def test_the_steps_of_the_service_container_run(server: Live, tmp_path: Path) -> None:
    """The workflow's steps against a real server; the container itself is that of docker-compose.yml."""
    job = yaml_block("jobs:")["jobs"]["port"]
    assert job["services"]["posenc"]["ports"] == ["8000:8000"]
    assert "posenc healthcheck" in job["services"]["posenc"]["options"]
    program("curl")
    for step in job["steps"]:
        text = step["run"].replace(ADDRESS, f"http://127.0.0.1:{server.port}").replace("python3", sys.executable)
        subprocess.run(["bash", "-euc", text], cwd=tmp_path, check=True)


def test_the_sidecar_is_the_service_of_docker_compose() -> None:
    services = yaml_block("services:")["services"]
    ours = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["posenc-1"]
    assert services["posenc"]["healthcheck"]["test"] == ours["healthcheck"]["test"]
    assert services["posenc"]["read_only"] is ours["read_only"] is True
    assert services["yours"]["depends_on"] == {"posenc": {"condition": "service_healthy"}}
    assert services["yours"]["environment"] == {"POSENC_URL": "http://posenc:8000"}


def test_blocks_are_of_known_languages() -> None:
    assert {block.language for block in BLOCKS} <= {"bash", "python", *PROGRAMS, *SHOWN}
    assert [block.language for block in BLOCKS[:3]] == ["bash"] * 3


def test_the_two_commands_are_one_line_each_on_the_first_screen() -> None:
    install = "python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir"
    assert INSTALL.text == f"{install} . && .venv/bin/posenc serve\n"
    assert TEST.text == f"{install} -e '.[test]' && .venv/bin/pytest\n"
    assert CONTAINER.text == "docker compose up\n"
    assert CONTAINER.line < 30


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_can_drift_is_that_of_the_code(name: str) -> None:
    assert section(name) == TABLES[name](), "run python -m tests.readme"


def test_the_formats_table_is_that_of_the_formats() -> None:
    rows = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in section("formats").splitlines()[2:]]
    told = [(address.removeprefix("."), media_type, ranges) for address, media_type, _, ranges in rows]
    assert told == [
        (
            "no extension" if name == "json" else name,
            each.media_type,
            {"bytes": "yes", "small": f"up to {KEPT_BYTES >> 20} MiB", "none": "no"}[each.ranges],
        )
        for name, each in FORMATS.items()
    ]


@pytest.mark.parametrize(("name", "rows"), [("speed", serving.TABLE), ("pictures", ("pictures",))])
def test_a_table_of_speed_has_the_rows_that_its_command_prints(name: str, rows: tuple[str, ...]) -> None:
    """By their names: what they hold is measured, on a quiet machine."""
    head, _, *lines = section(name).splitlines()
    assert head == HEADER.splitlines()[0]
    assert [line.split("|")[1].strip() for line in lines] == [work for row in rows for work in serving.ROWS[row].works]


def test_every_row_that_is_measured_is_in_a_table() -> None:
    assert {*serving.TABLE, "pictures"} == set(serving.ROWS)


def test_the_benchmarks_that_it_names_are_there() -> None:
    named = re.findall(r"python -m\s+tests\.benchmarks\.(\w+)", PATH.read_text())
    assert {"serving", "engine", "costs"} <= set(named)
    assert [name for name in named if not (ROOT / f"tests/benchmarks/{name}.py").exists()] == []


@pytest.mark.parametrize("name", gallery.PICTURES)
def test_a_picture_is_what_the_service_answers(name: str, server: Live) -> None:
    """Byte for byte, where matplotlib and zlib are those that made it; with others its size and colours are due."""
    kept = (gallery.FOLDER / f"{name}.png").read_bytes()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{gallery.PICTURES[name]}") as reply:
        drawn = reply.read()
    if gallery.REVISION.read_text().strip() == FORMATS["png"].revision:
        assert drawn == kept, "run python -m tests.gallery"
    else:
        assert not os.environ.get("CI_REQUIRE"), "run python -m tests.gallery"
        assert drawn[:41] == kept[:41]
    assert f"`{gallery.PICTURES[name]}`" in PATH.read_text()


def test_links_to_files_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", PATH.read_text())
    assert "LICENSE" in links
    assert [link for link in links if not link.startswith("http") and not (ROOT / link).exists()] == []


@pytest.mark.tool
def test_the_first_command_installs_and_serves(tmp_path: Path) -> None:
    """As written, in a copy of what git holds, on a port that is free here."""
    copy = tmp_path / "posenc"
    files = subprocess.run([program("git"), "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, files.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    port = free_port()
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    variables |= {"POSENC_PORT": str(port), "POSENC_DRAIN_SECONDS": "0", "HOME": str(tmp_path / "home")}
    process = subprocess.Popen(["bash", "-c", INSTALL.text], cwd=copy, env=variables, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or answering(port), 180)
        assert ask(port, "/v1/encodings/rope.npy?length=4&dim=8") == 200
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert not [name for name in (".cache", ".config", ".local") if (tmp_path / "home" / name).exists()]
