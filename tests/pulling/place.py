"""A ledger on which pulls work, and a remote to pull from, both in this process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from application.reading import Reading, SessionReader
from application.remote import AgentsPage, Remote, RemoteSession
from application.views import MessageView, SessionView
from domain.ids import RoomId, SessionId
from domain.pull import Pull
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import open_ledger_async
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import Step

ROOM = RoomId("room-1")
SESSION = SessionId("session-1")
REMOTE = Remote("http://127.0.0.1:1")
START_MS = 1_710_000_000_000
HOME = "the remote"


@dataclass
class FakeClock:
    """Stands until it is moved."""

    now: int = START_MS + 10_000_000

    def now_ms(self) -> int:
        return self.now


@dataclass
class Mirror:
    """What stands on our side, and the remote it is read from."""

    ledger: AsyncLedger
    activity: FakeRemoteActivity
    clock: FakeClock

    async def shown(self, session: str = SESSION) -> RemoteSession:
        page = await self.activity.list_agents(REMOTE, ROOM)
        assert isinstance(page, AgentsPage)
        return next(row for row in page.rows if isinstance(row, RemoteSession) and row.id == session)

    async def read(self, session: str = SESSION) -> Reading:
        """One round of one session."""
        reader = SessionReader(
            self.ledger,
            self.activity,
            REMOTE,
            ROOM,
            await self.shown(session),
            home=HOME,
            pages_max=10,
        )
        return await reader.read()

    async def session(self, session: str = SESSION) -> SessionView:
        found = await self.ledger.session(ROOM, session)
        assert found is not None
        return found

    async def pull(self, session: str = SESSION) -> Pull:
        state = await self.ledger.state(ROOM, SessionId(session))
        assert state is not None
        return state.pull or Pull()

    async def messages(self, session: str = SESSION) -> list[MessageView]:
        found: list[MessageView] = []
        after = 0
        while (page := await self.ledger.messages(ROOM, session, after, 500)).messages:
            found += page.messages
            after = page.latest_version
        return sorted(found, key=lambda one: one.id)

    async def topics(self, session: str = SESSION) -> list[str]:
        return [event.topic async for event in self.ledger.events(ROOM, session)]


@asynccontextmanager
async def mirror(url: str, *steps: Step) -> AsyncIterator[Mirror]:
    """A ledger at a URL and a remote that has taken some steps."""
    clock = FakeClock()
    async with open_ledger_async(url, clock=clock) as ledger:
        yield Mirror(ledger, FakeRemoteActivity(*steps, now_ms=clock.now_ms), clock)


def play(story: Callable[[Mirror], Awaitable[None]], *steps: Step, url: str = "memory://") -> None:
    """Tell a story on a fresh ledger and a remote that has taken some steps."""

    async def run() -> None:
        async with mirror(url, *steps) as place:
            await story(place)

    asyncio.run(run())


def message(name: str, **fields: Any) -> Step:
    """The step that the remote's session has a message, or changes it."""
    given = {"turnId": "t1", "payload": {"text": name}, **fields}
    return {"do": "message", "room": ROOM, "session": SESSION, "message": name, "fields": given}


def listed(**fields: Any) -> Step:
    """The step that the remote lists the session with these fields."""
    return {"do": "session", "room": ROOM, "session": SESSION, "fields": fields}


def bad(name: str, raw: str) -> Step:
    """The step that a row of the remote cannot be read; VERSION stands for its version."""
    return {"do": "message", "room": ROOM, "session": SESSION, "message": name, "raw": raw}
