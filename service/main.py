"""The one place where everything is joined."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.access import read_networks
from service.api import (
    advice,
    bundle,
    catalogue,
    docs,
    explained,
    health,
    inference,
    metrics,
    models,
    refusals,
    schemes,
)
from service.api.access import gate_of
from service.api.access_log import AccessLog
from service.api.bodies import Limits
from service.api.clients import Clients
from service.api.directory import Directory
from service.api.door import Door
from service.api.limits import Budget
from service.api.meters import route_label
from service.api.reply_cache import ReplyCache
from service.api.resources import Resources, work_pool
from service.drawer import Drawer
from service.engine.tables import TableCache
from service.formats.json_reader import OBJECT_FACTOR
from service.machine import cores, wants_partner
from service.partner import Partner
from service.settings import Settings


class Service(FastAPI):
    """FastAPI behind the door: a repeated answer is sent, and a scheme found, without entering the framework."""

    door: Door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.door(scope, receive, send)
        else:
            await self.framework(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI itself."""
        await super().__call__(scope, receive, send)


def create_app(settings: Settings) -> Service:
    """The service as an ASGI application.

    >>> app = create_app(Settings())
    >>> app.state.resources.readiness.state
    'untested'
    """
    resources = make_resources(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        testing = asyncio.ensure_future(resources.readiness.test(resources.work))
        yield
        testing.cancel()
        resources.close()

    app = Service(
        title="Posenc", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.draining = False
    app.state.resources = resources
    refusals.install(app)
    health.install(app, resources)
    catalogue.install(app, resources)
    models.install(app, resources)
    advice.install(app)
    schemes.install(app, resources)
    bundle.install(app, resources)
    inference.install(app, resources)
    if settings.metrics == "on":
        metrics.install(app, resources, settings.workers)
    docs.install(app, settings.docs, settings.explorer)
    if settings.explorer == "on":
        explained.install(app, resources)
    routes = [route for route in app.router.routes if isinstance(route, Route)]
    app.door = Door(Directory(app.framework, routes, schemes.EXTENSIONS), resources)
    app.door.methods = lambda path: refusals.methods_at(routes, path)
    app.door.routes = {route.endpoint: route_label(route.path) for route in routes}
    return app


def make_resources(settings: Settings) -> Resources:
    """What the handlers share, as large as the settings say."""
    gate, threads = gate_of(settings), settings.threads or cores()
    gate.access_log = AccessLog(settings.access_log, Clients(read_networks(settings.trusted_proxies)).address)
    return Resources(
        gate=gate,
        result_bytes=settings.result_bytes,
        json_bytes=settings.json_bytes,
        stream_bytes=settings.stream_bytes,
        url_bytes=settings.url_bytes,
        header_bytes=settings.header_bytes,
        header_fields=settings.header_fields,
        waiting_requests=settings.waiting_requests,
        queue_seconds=settings.queue_seconds,
        body=body_limits(settings),
        tables=TableCache(settings.table_cache_bytes),
        replies=ReplyCache(settings.reply_cache_bytes),
        budget=Budget(settings.memory_bytes),
        threads=threads,
        pool=work_pool(threads),
        partner=Partner() if wants_partner(settings, cores()) and hasattr(os, "memfd_create") else None,
        drawer=Drawer() if settings.drawer == "on" and os.name == "posix" else None,
    )


def body_limits(settings: Settings) -> Limits:
    """What is read of a body: nothing that there would be no memory for, whatever the settings allow."""
    memory = settings.memory_bytes
    sizes = min(settings.body_bytes, memory), min(settings.json_body_bytes, memory // OBJECT_FACTOR)
    return Limits(*sizes, settings.body_idle_seconds)
