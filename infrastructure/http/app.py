"""Assembles the HTTP application: every router under its prefixes, problems, the OpenAPI document."""

from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from fastapi.routing import APIRoute

from application.destinations import Destinations
from infrastructure.asynchronous import AsyncLedger
from infrastructure.http import (
    ancestor,
    commands,
    deliveries,
    evidence,
    history,
    imports,
    openapi,
    probes,
    problem_pages,
    problems,
    read_models,
    reading,
    reports,
    stream,
    subscriptions,
    tokens,
    waits,
)
from infrastructure.http.guard import Guard
from infrastructure.http.health import Readiness
from infrastructure.http.live import Live
from infrastructure.http.routing import EncodedSlashes
from infrastructure.http.settings import HttpSettings
from infrastructure.metrics import Metrics

PREFIXES: Final = ("/v1", "/api/desktop/v1")
"""Where the routes are; the ancestor's clients use the second one for what is not on their own machine."""
ROUTERS: Final = (
    reports.router,
    ancestor.router,
    reading.router,
    history.router,
    evidence.router,
    commands.router,
    imports.router,
    stream.router,
    subscriptions.reading,
    subscriptions.operating,
    deliveries.reading,
    deliveries.operating,
    tokens.operating,
    read_models.reading,
    read_models.operating,
    waits.reading,
    waits.operating,
    probes.status,
)
"""The routes under each prefix; the ones that are called most come first, as routes are tried in order."""


def create_app(
    ledger: AsyncLedger,
    settings: HttpSettings | None = None,
    *,
    guard: Guard | None = None,
    readiness: Readiness | None = None,
    metrics: Metrics | None = None,
    destinations: Destinations | None = None,
) -> FastAPI:
    """The application over an open ledger, which whoever opened it also closes.

    Without a guard everybody may do everything: `service.create_service` gives it one, for what can be
    reached over a network. Streams end with `app.state.live.close()`.
    """
    settings = settings or HttpSettings()
    app = FastAPI(
        title="Reprise",
        version=version("reprise"),
        description=openapi.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation,
    )
    app.state.ledger = ledger
    app.state.settings = settings
    app.state.guard = guard
    app.state.live = Live(ledger)
    app.state.destinations = destinations
    app.state.readiness = readiness or Readiness(())
    app.state.metrics = metrics or Metrics("none")
    for prefix in PREFIXES:
        for router in ROUTERS:
            app.include_router(router, prefix=prefix, include_in_schema=prefix == PREFIXES[0])
    app.include_router(probes.router)
    app.include_router(problem_pages.router)
    problems.install(app, settings.retry_after_s)
    app.add_middleware(EncodedSlashes)
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def _operation(route: APIRoute) -> str:
    """The name of an operation, in code that is made from the OpenAPI document."""
    return "_".join((*map(str, route.tags), route.name))
