"""Liveness and readiness: async, on no pool, so that no amount of work delays them."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from service.api.caching import encoded
from service.api.gate import path_of
from service.api.replies import Bytes
from service.api.resources import Resources

PATHS = frozenset(("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"))
HEADERS = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]


def is_probe(scope: Scope) -> bool:
    """Whether a request asks for the health of the process, which no key, quota or name keeps from being told."""
    return path_of(scope) in PATHS


def install(app: FastAPI, resources: Resources) -> None:
    """`/health/live` says that the process answers; `/health/ready` that it wants requests."""

    async def live(_request: Request) -> Response:
        return _status(b'{"status":"live"}')

    async def ready(_request: Request) -> Response:
        problem = resources.readiness.not_ready(app.state.draining)
        if problem is not None:
            raise problem
        return _status(b'{"status":"ready"}')

    app.router.add_route("/health/live", live, methods=["GET"])
    app.router.add_route("/health/ready", ready, methods=["GET"])


def _status(body: bytes) -> Response:
    return Bytes(200, encoded([*HEADERS, ("Content-Length", str(len(body)))]), body)
