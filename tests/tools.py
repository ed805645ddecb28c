"""External programs that some tests need. Where CI_REQUIRE is set, a missing one is a failure instead of a skip."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def program(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails in CI."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI_REQUIRE"):
        pytest.fail(f"{name} is not installed")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def interpreter(*modules: str) -> str:
    """The Python of an environment that has these modules: CLIENTS_PYTHON, which the external stage makes."""
    found = os.environ.get("CLIENTS_PYTHON", "")
    imports = "; ".join(f"import {module}" for module in modules)
    there = found and subprocess.run([found, "-c", imports], capture_output=True, check=False).returncode == 0
    if not there and os.environ.get("CI_REQUIRE"):
        pytest.fail(f"CLIENTS_PYTHON has no {', '.join(modules)}")
    if not there:
        pytest.skip(f"CLIENTS_PYTHON has no {', '.join(modules)}")
    return found


def node_modules(name: str) -> Path:
    """The folder of npm packages that a program is one of."""
    return Path(program(name)).parents[1]
