"""`/metrics` for Prometheus, in its own text format, or in OpenMetrics where Accept asks for that."""

import asyncio
import os
import re

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.caching import encoded
from service.api.replies import Bytes
from service.api.resources import Resources

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_WEIGHT = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.ASCII | re.IGNORECASE)


def install(app: FastAPI, resources: Resources, workers: int) -> None:
    """Add the route. With several workers a scrape reaches one of them: every metric says which."""
    worker = str(os.getpid()) if workers > 1 else None

    async def metrics(request: Request) -> Response:
        media_type = wanted_type(request.headers.get("accept", ""))
        # In a thread of its own: the work pool may have a queue, and the event loop has answers to send.
        content = await asyncio.to_thread(_exposition, resources, app.state.draining, worker, media_type)
        fields = [("Content-Type", media_type), ("Content-Length", str(len(content))), ("Cache-Control", "no-store")]
        return Bytes(200, encoded(fields), content)

    app.router.add_route("/metrics", metrics, methods=["GET"])


def _exposition(resources: Resources, draining: bool, worker: str | None, media_type: str) -> bytes:
    # Imported at the first scrape: it takes a while, and most processes of a test or a pipeline are never scraped.
    from service.api.exposition import Collected, written  # noqa: PLC0415

    return written(Collected(resources, draining, worker), openmetrics=media_type == OPENMETRICS)


def wanted_type(accept: str) -> str:
    """OpenMetrics where an Accept prefers it to text.

    >>> wanted_type("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
    'application/openmetrics-text; version=1.0.0; charset=utf-8'
    >>> wanted_type("*/*")
    'text/plain; version=0.0.4; charset=utf-8'
    """
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for part in accept.lower().split(","):
        name, *options = part.split(";")
        if name.strip() in weights:
            given = [float(match[1]) for each in options if (match := _WEIGHT.fullmatch(each))]
            weights[name.strip()] = max(weights[name.strip()], *given or [1.0])
    openmetrics, text = weights.values()
    return OPENMETRICS if openmetrics > 0 and openmetrics >= text else TEXT
