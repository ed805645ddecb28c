"""A page of a real server, what it asked for, and what it complained of."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.applications import Starlette
from starlette.routing import Mount

from service.main import create_app
from tests.clients import settings
from tests.live import live

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT_MS = 60_000


class Watched:
    """A page, what it asked for, and what it complained of."""

    def __init__(self, page: "Page", base: str) -> None:
        self.page = page
        self.base = base
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.answers: list[tuple[int, str]] = []
        page.set_default_timeout(WAIT_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("response", lambda reply: self.answers.append((reply.status, reply.url)))
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def forget(self) -> None:
        """What was seen so far is none of what comes."""
        for each in (self.requests, self.complaints, self.answers):
            each.clear()

    def went_outside(self) -> list[str]:
        outside = [url for url in self.requests if not url.startswith((f"{self.base}/", "data:", "blob:"))]
        assert self.requests
        return outside


W = TypeVar("W", bound=Watched)


@contextmanager
def watched(kind: type[W], browser: "Browser", prefix: str = "", api_keys: str = "", **options: Any) -> Iterator[W]:
    """A page in a context of its own; the app lies below a path prefix, and may want keys."""
    app = create_app(settings(api_keys=api_keys))
    outer = Starlette(routes=[Mount(prefix, app)]) if prefix else app
    outer.state.draining = False
    with live(outer, settings(port=0)) as server:
        context = browser.new_context(**options)
        yield kind(context.new_page(), f"http://127.0.0.1:{server.port}{prefix}")
        context.close()
