"""A small app that stands in for the service where only the process around it is tested."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from service.settings import Settings

BLOCK = bytes(range(256)) * 256
PROBLEM = {
    "type": "/problems/invalid-parameters",
    "detail": "Correct the parameters.",
    "errors": [
        {"parameter": "lenght", "code": "unknown", "detail": "is not known", "did_you_mean": "length"},
        {"pointer": "/tensors/q", "code": "shape", "detail": "has 5 channels"},
        {"parameter": "dim", "code": "missing", "detail": "dim is missing"},
        {"code": "other", "detail": "too much"},
    ],
}


async def live(request: Request) -> Response:  # noqa: ARG001
    return JSONResponse({"status": "live"})


async def ready(request: Request) -> Response:
    draining = getattr(request.app.state, "draining", False)
    return JSONResponse({"draining": draining}, 503 if draining else 200)


async def slow(request: Request) -> Response:
    await asyncio.sleep(float(request.query_params["seconds"]))
    return PlainTextResponse("slept")


async def echo(request: Request) -> Response:
    told = {
        "media-type": request.headers.get("content-type", ""),
        "length": request.headers.get("content-length", ""),
    }
    return Response(await request.body(), headers=told)


async def asked(request: Request) -> Response:
    return JSONResponse(
        {"path": request.url.path, "query": dict(request.query_params), "trailer": "x" in request.headers}
    )


async def big(request: Request) -> Response:
    blocks = int(request.query_params["blocks"])
    size = blocks + int(request.query_params.get("missing", "0"))

    async def body() -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield BLOCK

    return StreamingResponse(body(), headers={"content-length": str(size * len(BLOCK))})


async def refused(request: Request) -> Response:
    return JSONResponse(PROBLEM, int(request.query_params["status"]), media_type="application/problem+json")


async def plain(request: Request) -> Response:
    return PlainTextResponse(request.query_params.get("text", ""), int(request.query_params["status"]))


def create_app(settings: Settings) -> Starlette:
    endpoints = {
        "/health/live": live,
        "/health/ready": ready,
        "/slow": slow,
        "/": asked,
        "/asked/{rest:path}": asked,
        "/big": big,
    }
    endpoints |= {"/refused": refused, "/plain": plain}
    routes = [Route(path, endpoint) for path, endpoint in endpoints.items()]
    app = Starlette(routes=[*routes, Route("/echo", echo, methods=["POST"])])
    app.state.settings = settings
    return app


DOCUMENT = '{"openapi": "3.1.0"}\n'
MAIN = SimpleNamespace(create_app=create_app)
OPENAPI = SimpleNamespace(text=lambda: DOCUMENT)
