"""Clients that any test can take; see `tests.clients`."""

from collections.abc import Iterator

import pytest

from service.settings import Settings
from tests.clients import TRANSPORTS, Client


@pytest.fixture(scope="session", params=list(TRANSPORTS))
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The service with its default settings, in this process and then behind a real server."""
    with TRANSPORTS[request.param](Settings()) as opened:
        yield opened


@pytest.fixture(scope="session")
def direct() -> Iterator[Client]:
    """The same in this process only, for what no transport changes."""
    with TRANSPORTS["in-process"](Settings()) as opened:
        yield opened
