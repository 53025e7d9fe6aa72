"""Reprise pulls Reprise over HTTP, and two services that pull each other come to rest (SPEC P6)."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from application.pull_calls import Pace
from application.pull_schedule import service_schedule
from domain import tracked_room
from domain.ids import RoomId
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import SystemClock, open_ledger_async
from infrastructure.pulls import PullLoop
from infrastructure.remote import HttpRemoteActivity
from tests.http.listening import listening

ROOM = RoomId("room-1")
ROUNDS = 4


def report(session: str, phase: str = "running", **more: str) -> dict[str, Any]:
    named = {"messageId": f"{session}-m", "turnId": "t1", "role": "assistant", "kind": "text"}
    said: dict[str, Any] = {**named, "payload": {"text": f"said in {session}"}}
    return {
        "state": {
            "title": f"About {session}",
            "turn": {"turnId": "t1", "phase": phase, **more},
            "messages": [said],
        }
    }


class Side:
    """One of the two: its store, and the loop that pulls from the other."""

    def __init__(self, ledger: AsyncLedger, activity: HttpRemoteActivity) -> None:
        self.ledger = ledger
        clock = SystemClock()
        self.loop = PullLoop(ledger, activity, service_schedule(pace=Pace(spreads=False)), clock)

    async def track(self, url: str) -> None:
        await self.ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, url))

    async def round(self) -> None:
        await self.loop.refresh()
        self.loop.trigger(ROOM)
        await self.loop.once()
        assert self.loop.failures == 0

    async def events(self) -> int:
        return (await self.ledger.verify()).events

    async def shown(self) -> dict[str, str]:
        return {one.session: one.status for one in await self.ledger.sessions(ROOM)}


async def both(urls: list[str], addresses: list[str]) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        activity = await stack.enter_async_context(HttpRemoteActivity(clock))
        ledgers = [await stack.enter_async_context(open_ledger_async(url, clock=clock)) for url in urls]
        one, other = (Side(ledger, activity) for ledger in ledgers)
        await one.track(addresses[1])
        await other.track(addresses[0])
        await one.ledger.report_state(report("of-one"), room=ROOM, session="of-one")
        await other.ledger.report_state(report("of-other"), room=ROOM, session="of-other")
        before = [event.topic async for event in one.ledger.events(ROOM, "of-one")]

        for _ in range(ROUNDS):
            await one.round()
            await other.round()

        assert await one.shown() == await other.shown() == {"of-one": "working", "of-other": "working"}
        assert [event.topic async for event in one.ledger.events(ROOM, "of-one")] == before
        [message] = (await other.ledger.messages(ROOM, "of-one")).messages
        assert message.payload == {"text": "said in of-one"}
        rest = [await one.events(), await other.events()]
        for _ in range(ROUNDS):
            await one.round()
            await other.round()
        assert [await one.events(), await other.events()] == rest

        ended = report("of-one", "settled", outcome="failed")
        await one.ledger.report_state(ended, room=ROOM, session="of-one")
        await other.round()
        await one.round()
        assert (await one.shown())["of-one"] == "failed"
        assert (await other.shown())["of-one"] == "idle", "outcomes of turns are not on these routes"


def test_two_services_that_pull_each_other_come_to_rest(tmp_path: Path) -> None:
    """P6: each shows what the other has, nobody takes its own back, and then nothing is stored any more."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "other")]
    with listening(urls[0]) as first, listening(urls[1]) as second:
        asyncio.run(both(urls, [first, second]))
