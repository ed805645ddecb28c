"""Where each address is answered, found by one look-up instead of asking some two hundred routes in turn.

Only what is written out is here, and a scheme's files by their known endings. Whatever has a free part in its path, an
unknown ending, another method, or no answer at all is left to the framework, whose routes these are.
"""

from collections.abc import Iterable, Iterator

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope

from service.api.answering import Answering
from service.api.gate import path_of
from service.api.meters import NO_STATUS
from service.api.refusals import refused

EXTENSION = ".{extension}"


class Directory:
    """The routes of an app by path and method, and the app for all other requests."""

    def __init__(self, app: ASGIApp, routes: Iterable[Route], extensions: Iterable[str]) -> None:
        self.app = app
        known = tuple(extensions)
        self.places = {
            (path, method): (route, path_params)
            for route in routes
            for path, path_params in _written_out(route.path, known)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, answering: Answering) -> None:
        """An error before the answer has begun becomes a problem document; after it, it must break the connection."""
        place = self.places.get((path_of(scope), scope["method"]))
        if place is None:
            await self.app(scope, receive, answering)
            return
        route, path_params = place
        scope["endpoint"], scope["path_params"] = route.endpoint, path_params
        request = Request(scope, receive, answering)
        try:
            response = await route.endpoint(request)
            await response(scope, receive, answering)
        except Exception as error:
            if answering.status != NO_STATUS:
                raise
            await refused(request, error)(scope, receive, answering)


def _written_out(path: str, extensions: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """The addresses of a route, with what they say of its free part."""
    if path.endswith(EXTENSION):
        stem = path.removesuffix(EXTENSION)
        yield from ((f"{stem}.{extension}", {"extension": extension}) for extension in extensions)
    elif "{" not in path:
        yield path, {}
