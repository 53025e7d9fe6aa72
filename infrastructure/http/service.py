"""The whole application of a service: its routes, and what every request passes on its way there."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from infrastructure.asynchronous import AsyncLedger
from infrastructure.configuration import Settings
from infrastructure.http.app import create_app
from infrastructure.http.gate import Draining, KnownHosts, Observed, is_loopback
from infrastructure.http.guard import Guard
from infrastructure.http.health import HEARTBEAT_S_MAX, Check, Failing, Readiness
from infrastructure.http.live import Live
from infrastructure.http.settings import HttpSettings
from infrastructure.main import destinations, surroundings
from infrastructure.metrics import Metrics
from infrastructure.workers import Worker


@dataclass(frozen=True, slots=True)
class Service:
    """An application with the parts of it that have an end of their own."""

    app: ASGIApp
    routes: FastAPI
    draining: Draining
    readiness: Readiness
    live: Live


def create_service(
    ledger: AsyncLedger, settings: Settings, metrics: Metrics, workers: Sequence[Worker] = ()
) -> Service:
    """Put a service together; nothing runs yet."""
    readiness = Readiness(checks_of(ledger, settings, workers))
    is_local = is_loopback(settings.host) and not settings.require_token
    routes = create_app(
        ledger,
        HttpSettings(read_only=settings.read_only, require_if_match=settings.require_if_match),
        guard=Guard(ledger.token, is_local=is_local, origins=settings.cors_origins),
        readiness=readiness,
        metrics=metrics,
        destinations=destinations(ledger.blocking, surroundings(ledger.blocking, settings), is_local=False),
    )
    live: Live = routes.state.live
    metrics.count_clients(lambda: live.clients)
    app: ASGIApp = routes
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID"],
            expose_headers=["ETag", "Link", "Retry-After", "Idempotency-Replayed"],
        )
    draining = Draining(KnownHosts(app, settings.allowed_hosts))
    return Service(Observed(draining, metrics), routes, draining, readiness, live)


def checks_of(ledger: AsyncLedger, settings: Settings, workers: Sequence[Worker]) -> Sequence[Check]:
    """What has to be well for requests to come here."""

    async def schema() -> str:
        found, known = await ledger.schemas()
        if found != known:
            raise Failing(f"the store has schema {found}, this release has {known}; restart a newer one")
        return f"schema {known}"

    async def writes() -> str:
        await ledger.check_write()
        return "the store can be written"

    stored = [Check("schema", schema)]
    if not settings.read_only:
        stored.append(Check("store", writes))
    return [*stored, *map(_heartbeat, workers)]


def _heartbeat(worker: Worker) -> Check:
    async def beats() -> str:
        age_s = worker.beat_age_s()
        if age_s is None:
            raise Failing("it has not begun to work")
        if age_s > HEARTBEAT_S_MAX:
            raise Failing(f"no sign of it for {age_s:.0f} s")
        return f"seen {age_s:.1f} s ago"

    return Check(worker.name, beats)
