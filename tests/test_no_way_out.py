"""Whatever is asked of it, the service opens no connection and reads nothing that could run."""

import ast
import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service
from tests.api.problems import refused
from tests.api.requests import EXAMPLES, Asked
from tests.clients import Client
from tests.live import answering, wait_until

ROOT = Path(service.__file__).parents[1]
SOURCES = sorted(Path(service.__file__).parent.rglob("*.py"))
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel that can forbid it is Linux")
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}


def one_of_each_family(method: str) -> list[Asked]:
    return list({each.scheme.family: each for each in EXAMPLES if each.method == method}.values())


PAGES = ["/", "/docs", "/openapi.json", "/problems", "/v1/schemes/alibi", "/v1/models/llama",
         "/v1/advice?modality=text", "/v2", "/health/ready", "/nothing"]  # fmt: skip
FILES = [".npy", ".npz", ".safetensors", ".bin", ".csv", ".png", ".svg"]
TARGETS = [each.target for each in one_of_each_family("GET")] + [
    f"/v1/encodings/sinusoidal{ending}?length=5&dim=4" for ending in FILES
]
BODIES = [(each.target, each.example.body) for each in one_of_each_family("POST")] + [
    ("/v1/models/resolve", LLAMA),
    ("/v1/bundle.npz", {"a": "/v1/biases/alibi-slopes?heads=3"}),
    ("/v2/models/biases.alibi-slopes/infer", {"parameters": {"heads": 3}, "inputs": []}),
]
# A table that is computed by two processes, where there are cores for it.
LARGE = "/v1/encodings/sinusoidal.npy?length=200000&dim=64"


def sealed(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.sealed", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def status(port: int, method: str, target: str, body: object = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, target, content, {} if body is None else {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@LINUX
def test_a_process_that_reaches_out_is_ended() -> None:
    process = sealed("reach-out")
    assert process.communicate(timeout=30)[0] == "sealed\n"
    assert process.returncode == -signal.SIGSYS


@LINUX
def test_a_server_that_cannot_reach_out_answers_everything() -> None:
    process = sealed("serve")
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        wait_until(lambda: answering(port))
        for target in [*PAGES, *TARGETS, LARGE]:
            assert status(port, "GET", target) == (404 if target == "/nothing" else 200), target
        for target, body in BODIES:
            assert status(port, "POST", target, body) == 200, target
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


@LINUX
def test_a_command_that_cannot_reach_out_answers_everything(tmp_path: Path) -> None:
    process = sealed("get", str(tmp_path), *TARGETS)
    assert process.wait(60) == 0
    process.communicate()
    assert len(list(tmp_path.iterdir())) == len(TARGETS)


# Nothing that could run is read

READS_CODE = {"cloudpickle", "code", "codeop", "dill", "joblib", "marshal", "pickle", "runpy", "shelve", "yaml"}
RUNS_CODE = {"__import__", "compile", "eval", "exec", "input"}
# Where a module is named, it alone may: it starts this package, and nothing that a request says.
STARTS_PROCESSES = {"child.py"}


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def imported(node: ast.AST) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return {name.partition(".")[0] for name in names}


def faults(path: Path) -> Iterator[str]:
    """What a file does that none may."""
    for node in nodes(path):
        modules = imported(node)
        yield from (f"imports {name}" for name in modules & READS_CODE)
        if path.name not in STARTS_PROCESSES:
            yield from (f"imports {name}" for name in modules & {"subprocess", "multiprocessing", "pty"})
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RUNS_CODE:
            yield f"calls {node.func.id}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # `send` and `recv` of a connection between processes pickle; `send_bytes` and `recv_bytes` do not.
            pickling = node.func.attr in ("recv", "send_pyobj", "loads_pickle")
            if pickling or node.func.attr in ("system", "popen", "spawnl", "execv", "execve", "fromfile", "memmap"):
                yield f"calls .{node.func.attr}"
            if ast.unparse(node.func) == "np.load":
                yield "calls np.load"
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            yield f"says {node.arg}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_reads_pickles_or_runs_what_it_reads(path: Path) -> None:
    assert list(faults(path)) == []


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from pickle import loads", "import subprocess", "eval(x)", "exec(x)", "compile(x, '', 'exec')",
     "np.load(file)", "f(allow_pickle=True)", "run(x, shell=True)", "os.system(x)", "connection.recv()",
     "__import__(x)"],
)  # fmt: skip
def test_the_search_finds_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(line)
    assert list(faults(tmp_path / "x.py"))


@pytest.mark.parametrize("dtype", [object, [("a", object)], np.dtype(("O", (2,)))])
@pytest.mark.parametrize("target", ["/v1/apply/rope", "/v1/encodings/sinusoidal?dim=4", "/v1/learned/lookup"])
def test_an_array_of_objects_is_refused_unread(dtype: object, target: str, direct: Client, tmp_path: Path) -> None:
    """A pickle that would leave a trace if anything loaded it."""
    trace = tmp_path / "trace"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (trace,))

    array = np.empty(2, np.dtype(dtype))  # type: ignore[call-overload]
    array.flat[0] = Trap() if array.dtype.names is None else (Trap(),)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", array)
    octets = {"Content-Type": "application/octet-stream"}
    for name in ("x.npy", "x.npz"):
        content = (tmp_path / name).read_bytes()
        refused(direct.post(target, content=content, headers=octets), "bad-request")
    assert not trace.exists()


def test_a_bare_pickle_is_named_for_what_it_is(direct: Client) -> None:
    octets = {"Content-Type": "application/octet-stream"}
    answer = direct.post("/v1/apply/rope", content=b"\x80\x04\x95\x00\x00.", headers=octets)
    assert "pickle" in refused(answer, "bad-request")["detail"]
