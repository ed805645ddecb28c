"""Chromium whose only network is this machine."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.tools import program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name is looked up: what is not on this machine does not exist.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    path = program("chromium")
    if find_spec("playwright") is None and not os.environ.get("CI_REQUIRE"):
        pytest.skip("playwright is not installed")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where the browser is wanted

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="package", autouse=True)
def _the_process_goes_on() -> Iterator[None]:
    """A server that stops ends its process after a while; here that is pytest's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("service.server.end_at_the_latest", lambda _seconds: None)
        yield
