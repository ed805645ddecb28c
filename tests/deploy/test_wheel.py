"""The wheel holds everything that is served: installed in another place, it answers like the source tree."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, ignore_patterns
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.tool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """Asks the `posenc` command of a wheel that was built and installed outside the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # A build leaves files beside its sources, and takes up old ones: it gets a copy.
    source = copytree(ROOT, folder / "source", ignore=ignore_patterns(".*", "build", "tests", "*.egg-info"))
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], folder)
    (wheel,) = folder.glob("posenc-*.whl")
    assert not [name for name in ZipFile(wheel).namelist() if name.startswith(("tests/", "openapi/"))]
    site = folder / "site"
    _run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], folder)
    return lambda target: _run(
        [sys.executable, "-m", "service", "get", target], folder, env=os.environ | {"PYTHONPATH": str(site)}
    )


def _run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_the_wheel_serves_the_committed_document(installed: Callable[[str], bytes]) -> None:
    assert installed("/openapi.json") == (ROOT / "openapi" / "openapi.json").read_bytes()


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/docs",
        "/web/swagger-ui-bundle.js",
        "/web/swagger-ui.css",
        "/web/docs.js",
        "/web/explorer/main.js",
        "/web/explorer.css",
    ],
)
def test_the_wheel_has_the_pages(installed: Callable[[str], bytes], target: str) -> None:
    assert len(installed(target)) > 400
