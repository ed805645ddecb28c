"""Clients that any test can take; see `tests.clients`."""

from collections.abc import Iterator

import hypothesis
import pytest

from tests.clients import TRANSPORTS, Client, settings

# A loaded machine is no fault of the code: nothing here is judged by the clock.
hypothesis.settings.register_profile("posenc", deadline=None)
hypothesis.settings.load_profile("posenc")


@pytest.fixture(scope="session", params=list(TRANSPORTS))
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The service with its default settings, in this process and then behind a real server."""
    with TRANSPORTS[request.param](settings()) as opened:
        yield opened


@pytest.fixture(scope="session")
def direct() -> Iterator[Client]:
    """The same in this process only, for what no transport changes."""
    with TRANSPORTS["in-process"](settings()) as opened:
        yield opened
