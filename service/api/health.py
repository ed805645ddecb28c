"""Liveness and readiness: async, on no pool, so that no amount of work delays them."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.caching import encoded
from service.api.replies import Bytes
from service.api.resources import Resources

HEADERS = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]


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
