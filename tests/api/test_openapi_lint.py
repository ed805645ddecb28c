"""Two linters find nothing in the committed document: no error, no warning."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.tools import program

pytestmark = pytest.mark.tool

FOLDER = Path(__file__).parents[2] / "openapi"
# No account of the run is sent anywhere, and no newer version is asked for.
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}

SPECTRAL = ["lint", "--ruleset", ".spectral.yaml", "--fail-severity", "hint"]
REDOCLY = ["lint", "--config", "redocly.yaml"]


def run(name: str, arguments: list[str], document: Path) -> subprocess.CompletedProcess[str]:
    command = [program(name), *arguments, str(document)]
    return subprocess.run(
        command, cwd=FOLDER, env=os.environ | QUIET, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(("name", "arguments"), [("spectral", SPECTRAL), ("redocly", REDOCLY)])
def test_the_document_is_clean(name: str, arguments: list[str]) -> None:
    done = run(name, arguments, FOLDER / "openapi.json")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "arguments"), [("spectral", SPECTRAL), ("redocly", REDOCLY)])
def test_the_linter_would_find_a_fault(name: str, arguments: list[str], tmp_path: Path) -> None:
    """In a document of one path, for reading the whole one takes the linters half a minute."""
    document = json.loads((FOLDER / "openapi.json").read_bytes())
    item = document["paths"]["/v1/schemes/{scheme}"]
    assert item["get"]["operationId"] == "schemes_get"
    twice = document["paths"]["/v1/schemes"]["get"]["operationId"]
    item["get"]["operationId"] = twice
    document["paths"] = {path: document["paths"][path] for path in ("/v1/schemes", "/v1/schemes/{scheme}")}
    faulty = tmp_path / "openapi.json"
    faulty.write_text(json.dumps(document), encoding="utf-8")
    done = run(name, arguments, faulty)
    assert done.returncode == 1
    assert "operationId" in done.stdout + done.stderr
