"""The libraries' numbers as fixtures: frozen in an ordinary run, computed anew in one marked `oracle`."""

from typing import Any

import httpx
import pytest

from tests.clients import Client
from tests.golden import make_alibi, make_rope, make_sinusoidal
from tests.golden.frozen import Numbers, load

SOURCES = ["frozen", pytest.param("live", marks=pytest.mark.oracle)]


@pytest.fixture(scope="session", params=SOURCES)
def rope(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_rope.py` describes."""
    return load("rope") if request.param == "frozen" else make_rope.build()


@pytest.fixture(scope="session", params=SOURCES)
def sinusoidal(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_sinusoidal.py` describes."""
    return load("sinusoidal") if request.param == "frozen" else make_sinusoidal.build()


@pytest.fixture(scope="session", params=SOURCES)
def alibi(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_alibi.py` describes."""
    return load("alibi") if request.param == "frozen" else make_alibi.build()


class Awaited:
    """The client of `tests.conftest` as those tests call it that have an event loop of their own."""

    def __init__(self, blocking: Client) -> None:
        self.blocking = blocking

    async def get(self, url: str, /, **options: Any) -> httpx.Response:
        return self.blocking.get(url, **options)

    async def post(self, url: str, /, **options: Any) -> httpx.Response:
        return self.blocking.post(url, **options)


@pytest.fixture(name="client", scope="session")
def awaited_client(client: Client) -> Awaited:
    """The service in this process, and then behind a real server."""
    return Awaited(client)
