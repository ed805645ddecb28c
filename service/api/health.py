"""Liveness and readiness: async, on no pool, so that no amount of work delays them."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from service.api.caching import encoded
from service.api.gate import path_of
from service.api.problems import Problem
from service.api.replies import Bytes

PATHS = frozenset(("/health/live", "/health/ready"))
HEADERS = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]


def is_probe(scope: Scope) -> bool:
    """Whether a request asks for the health of the process, which no key, quota or name keeps from being told."""
    return path_of(scope) in PATHS


def install(app: FastAPI) -> None:
    """`/health/live` says that the process answers; `/health/ready` that it wants requests."""

    async def live(_request: Request) -> Response:
        return _status(b'{"status":"live"}')

    async def ready(_request: Request) -> Response:
        if app.state.draining:
            raise Problem("overloaded", "the server is draining: it takes no new work", headers={"Retry-After": "1"})
        return _status(b'{"status":"ready"}')

    app.router.add_route("/health/live", live, methods=["GET"])
    app.router.add_route("/health/ready", ready, methods=["GET"])


def _status(body: bytes) -> Response:
    return Bytes(200, encoded([*HEADERS, ("Content-Length", str(len(body)))]), body)
