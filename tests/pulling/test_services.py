"""Reprise pulls Reprise: services that pull each other over HTTP show the same, and come to rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from application.ledger import Ledger
from application.pull_calls import Pace
from application.pull_schedule import service_schedule
from application.rooms import Rooms
from domain.ids import RoomId
from infrastructure.main import SystemClock, open_ledger, open_ledger_async
from infrastructure.pulls import PullLoop
from infrastructure.remote import HttpRemoteActivity
from tests.http.listening import listening

ROOM = RoomId("room-1")


@dataclass
class Side:
    """One service: its store, and the loop that pulls into it."""

    ledger: Ledger
    url: str
    loop: PullLoop

    async def round(self) -> None:
        await self.loop.refresh()
        self.loop.trigger(ROOM)
        await self.loop.once()

    def report(self, session: str, **state: Any) -> None:
        self.ledger.report_state({"state": state}, room=ROOM, session=session)

    def say(self, session: str, name: str, text: str, turn: str = "t1") -> None:
        update = {
            "messageId": name,
            "turnId": turn,
            "role": "assistant",
            "kind": "text",
            "payload": {"text": text},
        }
        self.ledger.report_messages({"updates": [update]}, room=ROOM, session=session)

    def texts(self, session: str) -> dict[str, str]:
        page = self.ledger.messages(ROOM, session, limit=500).messages
        return {one.message_id: one.payload["text"] for one in page}

    def events(self) -> int:
        return self.ledger.verify().events

    def shown(self, session: str) -> tuple[str, str, str | None]:
        view = self.ledger.session(ROOM, session)
        assert view is not None
        return view.status, view.title, view.active_turn_id


@asynccontextmanager
async def side(file: Path, own: str, other: str) -> AsyncIterator[Side]:
    """A service on a store that serves at one address and pulls from another."""
    url, clock = f"sqlite:///{file}", SystemClock()
    with open_ledger(url) as ledger:
        Rooms(ledger.store, clock).track(ROOM, other)
        async with open_ledger_async(url) as pulling, HttpRemoteActivity(clock) as activity:
            loop = PullLoop(pulling, activity, service_schedule(pace=Pace(spreads=False)), clock)
            yield Side(ledger, own, loop)


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[tuple[Side, Side]]:
    """Two services that pull each other."""
    files = [folder / "a.db", folder / "b.db"]
    with listening(f"sqlite:///{files[0]}") as first, listening(f"sqlite:///{files[1]}") as second:
        async with side(files[0], first, second) as a, side(files[1], second, first) as b:
            yield a, b


def test_two_services_that_pull_each_other_show_the_same_and_come_to_rest(tmp_path: Path) -> None:
    """P6: each takes what the other has, and nothing comes back home."""

    async def story() -> None:
        async with two(tmp_path) as (a, b):
            a.report("of-a", title="Of A", turn={"turnId": "t1", "phase": "running"})
            b.report("of-b", title="Of B", turn={"turnId": "t1", "phase": "running"})
            for number in range(30):
                a.say("of-a", f"m{number}", f"A says {number}")
                b.say("of-b", f"m{number}", f"B says {number}")
            await _settled(a, b)
            assert a.texts("of-b") == b.texts("of-b") == {f"m{n}": f"B says {n}" for n in range(30)}
            assert a.texts("of-a") == b.texts("of-a")
            assert b.shown("of-a") == a.shown("of-a") == ("working", "Of A", "t1")

            a.say("of-a", "m1", "A says more")
            a.report("of-a", title="Of A, now", turn={"turnId": "t1", "phase": "settled"})
            await _settled(a, b)
            assert b.texts("of-a")["m1"] == "A says more"
            assert b.shown("of-a") == a.shown("of-a") == ("idle", "Of A, now", None)

    asyncio.run(story())


def test_a_session_that_was_reported_to_both_comes_to_rest(tmp_path: Path) -> None:
    """P6: each keeps what was reported to it, and takes what only the other has."""

    async def story() -> None:
        async with two(tmp_path) as (a, b):
            for one, name in ((a, "A"), (b, "B")):
                one.report("both", title=name, turn={"turnId": "t1", "phase": "running"})
                one.say("both", "same", f"{name} says")
                one.say("both", f"only-{name}", name)
            await _settled(a, b)
            for one in (a, b):
                assert {"only-A", "only-B"} <= one.texts("both").keys()
                assert one.shown("both")[2] == "t1"

    asyncio.run(story())


def test_a_child_is_pulled_with_its_root(tmp_path: Path) -> None:
    async def story() -> None:
        async with two(tmp_path) as (a, b):
            a.report("root", kind="root", title="Root", turn={"turnId": "t1", "phase": "running"})
            a.report(
                "child",
                kind="child",
                root_agent_session_id="root",
                parent_agent_session_id="root",
                root_turn_id="t1",
                turn={"turnId": "c1", "phase": "running"},
            )
            a.say("child", "m", "from the child", turn="c1")
            await _settled(a, b)
            view = b.ledger.session(ROOM, "child")
            assert view is not None
            assert (view.kind, view.parent) == ("child", "root")

    asyncio.run(story())


async def _settled(a: Side, b: Side) -> None:
    """Let both pull until a round stores nothing; a few rounds have to be enough."""
    for _ in range(6):
        before = a.events(), b.events()
        await a.round()
        await b.round()
        if (a.events(), b.events()) == before:
            return
    raise AssertionError("they never come to rest")
