"""The peers that the service is measured against: what one would write without it."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Response
from numpy.typing import NDArray
from starlette.types import Receive, Scope, Send

# What the service answered, by the names of files in a folder that the benchmark made.
FOLDER = os.environ.get("BENCHMARK_FILES")
BYTES = {f"/{file.name}": file.read_bytes() for file in Path(FOLDER).iterdir()} if FOLDER else {"/file": bytes(65536)}


def table(length: int, dim: int, offset: int, base: float = 10000.0) -> NDArray[np.float32]:
    """The sinusoidal table as everybody writes it."""
    angles = np.arange(offset, offset + length)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    values = np.empty((length, dim), np.float32)
    values[:, 0::2], values[:, 1::2] = np.sin(angles), np.cos(angles)
    return values


def as_npy(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


bare = FastAPI()


@bare.get("/bytes/{name}")
async def prepared(name: str) -> Response:
    """Prepared bytes from a plain FastAPI route."""
    return Response(BYTES["/" + name], media_type="application/octet-stream")


@bare.get("/npy")
def computed(length: int, dim: int, offset: int = 0, base: float = 10000.0) -> Response:
    """The table as npy, computed for each request."""
    return Response(as_npy(table(length, dim, offset, base)), media_type="application/octet-stream")


@bare.get("/json")
def listed(length: int, dim: int, offset: int = 0):  # type: ignore[no-untyped-def]  # a return type is what it lacks
    """The naive service: nested lists from a route without a return type."""
    return {"encoding": table(length, dim, offset).tolist()}


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    """Prepared bytes from a bare ASGI callable: what the server itself costs."""
    if scope["type"] == "lifespan":
        for answer in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{answer}.complete"})
        return
    body = BYTES[scope["path"]]
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})
