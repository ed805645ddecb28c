"""External programs that some tests need. Where CI_REQUIRE is set, a missing one is a failure instead of a skip."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails in CI."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI_REQUIRE"):
        pytest.fail(f"{name} is not installed")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found
