"""The whole application of a service, called without a network."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from application import access
from application.access import Scope, Token
from infrastructure.asynchronous import AsyncLedger
from infrastructure.configuration import Settings
from infrastructure.http.service import Service, create_service
from infrastructure.main import open_ledger_async
from infrastructure.metrics import Metrics
from infrastructure.workers import Worker


@dataclass
class Called:
    """A service in this process, and a client of it."""

    ledger: AsyncLedger
    service: Service
    metrics: Metrics
    client: httpx.AsyncClient

    def token(self, *scopes: Scope, rooms: Sequence[str] = ()) -> dict[str, str]:
        """The header of a new token."""
        text, _ = access.create(self.ledger._store.tokens, os.urandom(32), scopes, rooms, "", 1)
        return {"Authorization": f"Bearer {text}"}

    async def tokens(self) -> Sequence[Token]:
        return await self.ledger.tokens()


@asynccontextmanager
async def called(
    url: str = "memory://", *, workers: Sequence[Worker] = (), **settings: Any
) -> AsyncIterator[Called]:
    metrics = Metrics("memory")
    async with open_ledger_async(url, appended=metrics.appended) as ledger:
        service = create_service(ledger, Settings(**settings), metrics, workers)
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Called(ledger, service, metrics, client)
        await service.live.close()
        await service.readiness.close()
