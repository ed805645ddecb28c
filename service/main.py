"""The one place where everything is joined."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.api import advice, bundle, catalogue, docs, explained, health, inference, models, refusals, schemes
from service.api.bodies import Limits
from service.api.door import Door
from service.api.limits import Budget
from service.api.reply_cache import ReplyCache
from service.api.resources import Resources, cores, work_pool
from service.engine.tables import TableCache
from service.partner import Partner
from service.settings import Settings


class Service(FastAPI):
    """FastAPI behind the door: a repeated answer is sent without entering the framework."""

    door: Door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.door(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What lies behind the door."""
        await super().__call__(scope, receive, send)


def create_app(settings: Settings) -> Service:
    """The service as an ASGI application.

    >>> app = create_app(Settings())
    >>> app.state.draining
    False
    """
    resources = make_resources(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        resources.pool.shutdown(wait=False, cancel_futures=True)
        if resources.partner is not None:
            resources.partner.close()

    app = Service(
        title="Posenc", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.draining = False
    app.state.resources = resources
    app.door = Door(app.framework, resources)
    refusals.install(app)
    health.install(app)
    catalogue.install(app, resources)
    models.install(app, resources)
    advice.install(app)
    schemes.install(app, resources)
    bundle.install(app, resources)
    inference.install(app, resources)
    docs.install(app, settings.docs)
    explained.install(app, resources)
    return app


def make_resources(settings: Settings) -> Resources:
    """What the handlers share, as large as the settings say."""
    return Resources(
        result_bytes=settings.result_bytes,
        json_bytes=settings.json_bytes,
        stream_bytes=settings.stream_bytes,
        url_bytes=settings.url_bytes,
        header_bytes=settings.header_bytes,
        header_fields=settings.header_fields,
        body=Limits(settings.body_bytes, settings.json_body_bytes, settings.body_idle_seconds),
        tables=TableCache(settings.table_cache_bytes),
        replies=ReplyCache(settings.reply_cache_bytes),
        budget=Budget(settings.memory_bytes),
        pool=work_pool(settings.threads),
        partner=Partner() if _has_core_to_spare(settings) else None,
    )


def _has_core_to_spare(settings: Settings) -> bool:
    """Whether a second process would find a core that no server process needs, and may be started at all."""
    threads = min(settings.threads or cores(), cores())
    return settings.partner == "on" and threads > settings.workers and hasattr(os, "memfd_create")
