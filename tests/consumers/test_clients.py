"""Clients of others' making call a real server: those generated from the committed document, and Triton's."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.main import create_app
from service.settings import Settings
from tests.live import live
from tests.tools import interpreter, node_modules, program

pytestmark = pytest.mark.tool

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "openapi" / "openapi.json"
COMPILE = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    settings = Settings(port=0, drain_seconds=0)
    with live(create_app(settings), settings) as server:
        yield server.port


def run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def turned(offset: int) -> Any:
    """The vectors of the scripts, rotated by the formula: channel i with channel i + 2."""
    q = (np.arange(24) / 8).reshape(2, 3, 4)
    angles = np.outer(np.arange(offset, offset + 3), [1.0, 0.01])
    pairs = (q[..., :2] + 1j * q[..., 2:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], axis=-1)


def sines() -> Any:
    return np.sin(np.outer(np.arange(3), [1.0, 0.01, 1.0, 0.01])).astype(np.float32)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, port: int) -> Any:
    """What the script told of openapi-python-client's package."""
    folder = tmp_path_factory.mktemp("python")
    found = interpreter("openapi_python_client", "numpy")
    options = ["--path", str(DOCUMENT), "--meta", "none", "--output-path", "generated"]
    told = run(found, "-m", "openapi_python_client", "generate", *options, folder=folder)
    assert "WARNING" not in told
    return json.loads(run(found, HERE / "generated_python.py", folder, f"http://127.0.0.1:{port}"))


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory, port: int) -> Any:
    """What the script told of openapi-typescript's types, which it was compiled with, strictly."""
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(node_modules("openapi-typescript"))
    run(program("openapi-typescript"), DOCUMENT, "-o", "generated.d.ts", folder=folder)
    shutil.copy(HERE / "generated.mts", folder)
    run(program("tsc"), *COMPILE, "--lib", "es2022,dom", "generated.mts", folder=folder)
    return json.loads(run(program("node"), "generated.mjs", f"http://127.0.0.1:{port}", folder=folder))


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_generated_client_calls_every_family(language: str, request: pytest.FixtureRequest) -> None:
    told = request.getfixturevalue(language)
    interleaved = sines()[:, [0, 2, 1, 3]]
    assert np.array_equal(np.array(told["encodings"], np.float32), interleaved)
    assert told["base"] == 10000
    assert np.array_equal(np.array(told["file"], np.float32).reshape(-1)[-12:], sines().reshape(-1))
    assert told["biases"] == [0.0625, 0.00390625, 0.25]
    assert told["masks"] == [[True, False], [True, True]]
    assert np.allclose(told["analyses"]["wavelengths"]["data"], [2 * np.pi, 200 * np.pi])
    assert told["permutations"]["permutation"]["data"] == [0, 2, 1, 3]
    assert told["learned"]["x"]["data"] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert told["positions"]["positions"]["data"] == [[0, 1, 0], [0, 0, 1]]
    rows = [
        [np.sin(5), np.cos(5), np.sin(0.05), np.cos(0.05)],
        [np.sin(6), np.cos(6), np.sin(0.06), np.cos(0.06)],
    ]
    added = np.arange(8.0).reshape(2, 4) + np.array(rows)
    assert np.allclose(np.array(told["upload"]).reshape(2, 4), added, atol=1e-6)
    assert told["bundle"] > 300
    assert told["catalogue"] == "Rotary position embedding: cos and sin tables"
    assert np.array_equal(np.array(told["inference"], np.float32), sines().reshape(-1))


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_an_error_is_a_typed_problem(language: str, request: pytest.FixtureRequest) -> None:
    told = request.getfixturevalue(language)
    assert (told["status"], told["fault"]) == (422, "odd")


def test_types_are_checked(tmp_path: Path) -> None:
    """A misspelt parameter is no TypeScript."""
    (tmp_path / "node_modules").symlink_to(node_modules("openapi-typescript"))
    run(program("openapi-typescript"), DOCUMENT, "-o", "generated.d.ts", folder=tmp_path)
    text = (HERE / "generated.mts").read_text().replace("heads: 3", "head: 3")
    (tmp_path / "generated.mts").write_text(text)
    command = [program("tsc"), *COMPILE, "--lib", "es2022,dom", "generated.mts"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "'head' does not exist" in done.stdout


# Debian's validator is what openapi-generator's Go code asks for besides the standard library.
GO_PACKAGES = Path("/usr/share/gocode")
GO_OPTIONS = "packageName=posenc,enumClassPrefix=true"
GO_PARTS = "apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"


def test_a_generated_go_client_is_compiled_and_run(tmp_path: Path, port: int) -> None:
    package = tmp_path / "src" / "posenc"
    code = "import openapi_generator_cli as cli; print(cli.__path__[0])"
    jar = Path(run(interpreter("openapi_generator_cli"), "-c", code).strip()) / "openapi-generator.jar"
    generate: list[str | Path] = [program("java"), "-jar", jar, "generate", "-i", DOCUMENT, "-g", "go", "-o", package]
    run(*generate, "--additional-properties", GO_OPTIONS, "--global-property", GO_PARTS)
    variables = {"GO111MODULE": "off", "GOPATH": f"{tmp_path}:{GO_PACKAGES}", "GOCACHE": str(tmp_path / "cache")}
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), program("go"), "run"]
    told = json.loads(run(*command, HERE / "generated.go", f"http://127.0.0.1:{port}"))
    assert np.array_equal(np.array(told["rope"], np.float32), sines())
    assert np.array_equal(np.array(told["file"], np.float32), sines().reshape(-1))
    assert (told["base"], told["biases"]) == (10000, [0.0625, 0.00390625, 0.25])
    assert told["learned"] == [[0, 1], [0.4, 1.8], [1, 3], [2.8, 4.2], [4, 5]]
    assert (told["status"], told["fault"]) == (422, "odd")


# The Open Inference Protocol


@pytest.fixture(scope="module")
def triton(port: int) -> Any:
    found = interpreter("tritonclient.http", "ml_dtypes")
    return json.loads(run(found, HERE / "triton.py", f"127.0.0.1:{port}"))


def test_triton_reads_health_and_metadata(triton: Any) -> None:
    assert (triton["live"], triton["not ready"], triton["version"]) == (True, False, True)
    assert triton["server"]["extensions"] == ["binary_tensor_data", "parameters", "model_repository"]
    assert triton["model"]["outputs"] == [{"name": "slopes", "datatype": "FP32", "shape": [-1]}]
    assert triton["index"] > 60


def test_triton_infers_in_json_and_in_bytes(triton: Any) -> None:
    assert np.array_equal(np.array(triton["sin"], np.float32), sines())
    assert np.allclose(triton["cos"], np.cos(np.outer(np.arange(3), [1.0, 0.01, 1.0, 0.01])), atol=1e-7)
    assert triton["id"] == "7"
    for datatype, tolerance in {"FP16": 4e-3, "BF16": 3e-2, "FP32": 1e-6, "FP64": 1e-14}.items():
        assert np.abs(triton["vectors"][datatype] - turned(5)).max() < tolerance
    assert triton["plain"] == triton["vectors"]["FP32"]
    assert np.array_equal(np.array(triton["table"], np.float32)[:, :2], sines()[:, :2])
    assert triton["mask"] == np.tril(np.ones((3, 3), bool)).tolist()


def test_triton_reads_the_error_object(triton: Any) -> None:
    assert triton["unknown model"][0] == "404"
    assert triton["unknown model"][1].startswith("there is no model encodings.rop; nearest are encodings.rope")
    assert triton["unknown parameter"][0] == "400"
    assert triton["unknown parameter"][1].endswith("did you mean length?")
    assert triton["unknown output"][1] == "/outputs/0/name: there is no output 'tan'; known are cos, sin"
    assert triton["wrong input"][1].startswith("query is no input of apply.rope; ")
