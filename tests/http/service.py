"""The service's application over a real store, called through its own interface without a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from application.ports import Participant
from infrastructure.asynchronous import AsyncLedger
from infrastructure.http.app import create_app
from infrastructure.http.settings import HttpSettings
from infrastructure.main import open_ledger_async
from tests.store.place import Clock

BASE = "http://reprise.test"
ROOM = "room-1"
START_MS = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""


@dataclass
class Service:
    """A running service and a client of it."""

    client: httpx.AsyncClient
    ledger: AsyncLedger
    clock: Clock

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.post(path, **options)

    async def report(self, session: str, state: dict[str, Any], **options: Any) -> httpx.Response:
        """Report a state at the clock's time, which must be taken."""
        body = json.dumps({"state": {"occurredAtUnixMs": self.clock.now, **state}})
        path = f"/v1/rooms/{ROOM}/agents/sessions/{session}/state"
        reply = await self.client.post(path, content=body, **options)
        assert reply.status_code == 200, reply.text
        return reply

    async def say(self, session: str, *updates: dict[str, Any], **options: Any) -> httpx.Response:
        """Report messages, which must be taken."""
        path = f"/v1/rooms/{ROOM}/agents/sessions/{session}/messages"
        body = json.dumps({"updates": updates})  # Halves of characters as escapes.
        reply = await self.client.post(path, content=body, **options)
        assert reply.status_code == 200, reply.text
        return reply


@asynccontextmanager
async def running(
    url: str, settings: HttpSettings | None = None, participant: Participant | None = None
) -> AsyncIterator[Service]:
    """The service on a store, with a clock that a test moves."""
    clock = Clock()
    async with open_ledger_async(url, clock=clock, participant=participant) as ledger:
        app = create_app(ledger, settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            yield Service(client, ledger, clock)


def serve(
    url: str,
    use: Callable[[Service], Awaitable[None]],
    settings: HttpSettings | None = None,
    participant: Participant | None = None,
) -> None:
    """Use a service, and stop it."""

    async def main() -> None:
        async with running(url, settings, participant) as service:
            await use(service)

    asyncio.run(main())


def text(message: str, says: str, *, turn: str = "t1", **more: Any) -> dict[str, Any]:
    """An update of an assistant's text."""
    named = {"messageId": message, "turnId": turn, "role": "assistant", "kind": "text"}
    return {**named, "status": "completed", "payload": {"text": says}, **more}


RUNNING = {"title": "Tides", "turn": {"turnId": "t1", "phase": "running"}}
"""A session with a turn at work."""
