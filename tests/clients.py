"""One blocking client over two transports: the app called in this process, and a real server on a port.

    with in_process(settings()) as client:
        assert client.get("/health/live").json() == {"status": "live"}

Both run on an event loop in a thread of their own, so tests stay plain functions; `client.together` puts many
requests at once, `client.run` runs a coroutine beside the app, and `client.app` is the app itself under either.
"""

import asyncio
import importlib.util
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from service.api.resources import Resources
from service.main import create_app
from service.server import Server, bind
from service.settings import Settings
from tests.live import is_tested, wait_until

if importlib.util.find_spec("sniffio") is None:
    # httpx looks for it in every folder of the path with every request, which takes longer than the request itself.
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # what Python takes for "it is not there"

T = TypeVar("T")
WAIT_SECONDS = 60.0

Call = tuple[str, str, dict[str, Any]]


def settings(**changes: Any) -> Settings:
    """The defaults, but for what is given by name; without other processes, whose computing no test could watch."""
    return Settings.model_validate({"partner": "off", "drawer": "off"} | changes)


class Client:
    """Blocking requests to one app; every keyword of `httpx.AsyncClient.request` is taken."""

    def __init__(
        self, app: FastAPI, http: httpx.AsyncClient, loop: asyncio.AbstractEventLoop, server: Server | None = None
    ) -> None:
        self.server = server
        self.transport = "in-process" if server is None else "server"
        self.app = app
        self.http = http
        self.loop = loop

    @property
    def resources(self) -> Resources:
        """Caches, budget and pool of the app."""
        resources: Resources = self.app.state.resources
        return resources

    @property
    def connections(self) -> int:
        """How many the server holds."""
        return 0 if self.server is None else len(self.server.server_state.connections)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """A coroutine on the client's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_SECONDS)

    def request(self, method: str, target: str, **options: Any) -> httpx.Response:
        return self.run(self.http.request(method, target, **options))

    def get(self, target: str, **options: Any) -> httpx.Response:
        return self.request("GET", target, **options)

    def head(self, target: str, **options: Any) -> httpx.Response:
        return self.request("HEAD", target, **options)

    def post(self, target: str, **options: Any) -> httpx.Response:
        """`json=`, or `content=` with a Content-Type of your own."""
        return self.request("POST", target, **options)

    def together(self, calls: Sequence[Call]) -> list[httpx.Response]:
        """Requests at the same time: (method, target, options) each."""

        async def all_of_them() -> list[httpx.Response]:
            return list(await asyncio.gather(*(self.http.request(m, t, **options) for m, t, options in calls)))

        return self.run(all_of_them())


@contextmanager
def in_process(given: Settings) -> Iterator[Client]:
    """The app, called without a network."""
    app = create_app(given)
    with _loop() as loop:

        @asynccontextmanager
        async def opened() -> AsyncIterator[httpx.AsyncClient]:
            # An exception that reaches the transport is a 500 to the caller: tests look at that.
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://testserver") as http,
            ):
                yield http

        with _entered(loop, opened) as http:
            wait_until(lambda: is_tested(app))
            yield Client(app, http, loop)


@contextmanager
def on_port(given: Settings) -> Iterator[Client]:
    """The app behind the real server on a free port of this machine."""
    app = create_app(given)
    sockets = bind(given.model_copy(update={"port": 0}))
    server = Server(app, given)
    thread = threading.Thread(target=server.run, args=(sockets,), name="server")
    thread.start()
    base_url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    try:
        with _loop() as loop:

            @asynccontextmanager
            async def opened() -> AsyncIterator[httpx.AsyncClient]:
                limits = httpx.Limits(max_connections=256)
                async with httpx.AsyncClient(base_url=base_url, limits=limits, timeout=WAIT_SECONDS) as http:
                    yield http

            with _entered(loop, opened) as http:
                wait_until(lambda: is_tested(app))
                yield Client(app, http, loop, server)
    finally:
        server.should_exit = True
        thread.join(WAIT_SECONDS)


TRANSPORTS: dict[str, Callable[[Settings], Any]] = {"in-process": in_process, "server": on_port}


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread for as long as the block lasts."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="client")
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(WAIT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_SECONDS)
        loop.close()


@contextmanager
def _entered(loop: asyncio.AbstractEventLoop, opened: Callable[[], Any]) -> Iterator[httpx.AsyncClient]:
    manager = opened()
    yield asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result(WAIT_SECONDS)
    asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result(WAIT_SECONDS)
