"""Exceptions become problem documents here, whichever layer raised them."""

import logging
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from service.api.access_log import request_fields
from service.api.door import send_problem
from service.api.gate import path_of
from service.api.names import nearest_names
from service.api.problems import Problem, echo, problem_from
from service.engine.errors import EngineError
from service.formats.errors import FormatError

log = logging.getLogger("posenc")


class Refused(Response):
    """An answer that is a problem document."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_problem(self.problem, scope, send)


def install(app: FastAPI) -> None:
    """Give every exception that can reach the framework its problem document."""
    for kind in (Problem, EngineError, FormatError):
        app.add_exception_handler(kind, _any)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, _any)


def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that was refused, or that met a bug, which is logged."""
    problem = problem_from(error)
    return _bug(request, error) if problem is None else Refused(problem)


async def _any(request: Request, error: Exception) -> Response:
    return refused(request, error)


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return _wrong_method(request)
    return Refused(_unknown_path(request))


def _bug(request: Request, error: Exception) -> Response:
    admitted = request.scope.get("admitted")
    fields = {} if admitted is None else request_fields(admitted)
    log.error("request %s failed", request.scope.get("request_id", ""), exc_info=error, extra={"fields": fields})
    return Refused(Problem("internal-error", "the server made a mistake; the log holds it under this request id"))


def _wrong_method(request: Request) -> Response:
    """405 with every verb of the path; OPTIONS is answered with the same list."""
    names = methods_at(request.app.router.routes, path_of(request.scope))
    if request.method == "OPTIONS":
        return _Allowed(names)
    detail = f"{echo(request.method)} is not possible here; {names} are"
    return Refused(Problem("method-not-allowed", detail, headers={"Allow": names}))


def methods_at(routes: Iterable[Any], path: str) -> str:
    """The verbs of a path; none where there is nothing."""
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
    met = [route for route in routes if route.matches(scope)[0] != Match.NONE]
    # A name that is written out goes before one that stands for any.
    own = [route for route in met if route.path == path] or met
    return ", ".join(sorted({"OPTIONS"}.union(*(route.methods or () for route in own)))) if met else ""


class _Allowed(Response):
    """204 with the verbs of a path."""

    def __init__(self, names: str) -> None:
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", self.names.encode())]})
        await send({"type": "http.response.body", "body": b""})


def _unknown_path(request: Request) -> Problem:
    """404 that names what is known, nearest first."""
    # Files have the address of their scheme with an ending: half as many names to compare, and to read.
    paths = {route.path for route in request.app.router.routes}
    known = sorted(_shown(each) for each in paths if not each.endswith(".{extension}"))
    # Not request.url, which is put together from the Host header, whatever that may be.
    path: str = request.scope["path"]
    family = [entry for entry in known if entry.startswith("/".join(path.split("/")[:3]) + "/")]
    near = nearest_names(path, family or known)
    listed = list(dict.fromkeys([*near, *family]))[:12] or known[:12]
    detail = f"there is nothing at {echo(path)}; known are {', '.join(listed)}"
    fault = {"parameter": "path", "code": "unknown", "detail": detail}
    return Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])


def _shown(path: str) -> str:
    return path.replace(":path}", "}")
