"""A place that keeps a store, so that tests can open it, close it and open it again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import RLock

from application.delivery import Delivery
from application.ledger import Ledger
from application.ports import CommandKey, Decide, Decision, Loader, Participant
from domain.delta import CommittedDelta
from domain.event import Content
from domain.ids import RoomId, SessionId, StreamId, session_stream
from domain.session import Opened, SessionEvent, Titled
from domain.work import Work
from infrastructure.main import open_database
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.records import SALT_BYTES
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import Database, StoredRecord

ROOM = RoomId("room-1")
SESSION = SessionId("ses-1")
START_MS = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""


@dataclass
class Clock:
    """Stands still until a test moves it."""

    now: int = START_MS

    def now_ms(self) -> int:
        return self.now


@dataclass
class Salts:
    """Salts that can be foretold: of 1, 2, 3 and so on."""

    given: int = 0

    def __call__(self) -> bytes:
        self.given += 1
        return sha256(str(self.given).encode()).digest()[:SALT_BYTES]


@dataclass
class Failures:
    """Remembers what observers raised."""

    seen: list[tuple[str, str, str]] = field(default_factory=list)

    def __call__(self, name: str, delta: CommittedDelta, error: Exception) -> None:
        self.seen.append((name, delta.transaction_id, str(error)))


@dataclass
class Place:
    """Where one store is kept. Each opening starts cold, as a new process would."""

    make: Callable[[], Database]
    clock: Clock = field(default_factory=Clock)
    failures: Failures = field(default_factory=Failures)
    _open: list[EventStore | Database] = field(default_factory=list)

    def database(self) -> Database:
        """The place alone, without a store on it."""
        database = self.make()
        self._open.append(database)
        return database

    def store(self, participant: Participant | None = None) -> EventStore:
        store = EventStore(self.make(), self.clock, participant, Salts())
        self._open.append(store)
        return store

    def ledger(self, participant: Participant | None = None) -> Ledger:
        store = self.store(participant)
        return Ledger(store, Delivery(store, self.failures, RLock()), self.clock)

    def close(self) -> None:
        """Close whatever is open; also what a test has closed already."""
        for opened in self._open:
            opened.close()
        self._open.clear()

    def decides(
        self,
        *events: SessionEvent,
        session: SessionId = SESSION,
        key: CommandKey | None = None,
    ) -> Decide:
        """The decision to store these events, behind the one that opens the session if it is new."""

        def decide(load: Loader) -> Decision:
            work = Work(ROOM, self.clock.now, load.session)
            draft = work.session(session)
            if not draft.state.opened:
                draft.add(Opened(created_at=self.clock.now))
            for event in events:
                draft.add(event)
            return Decision({"said": len(events)}, work, key, "digest" if key else "")

        return decide


def in_memory() -> Place:
    """A place that keeps its store in memory, across openings."""
    database = MemoryDatabase()
    return Place(lambda: database)


def in_file(path: Path) -> Place:
    """A place that keeps its store in a file."""
    return Place(lambda: SQLiteDatabase(path))


def at(url: str) -> Place:
    """A place that keeps its store where an address says."""
    return Place(lambda: open_database(url))


def titled(title: str) -> Titled:
    """The event of a new title, the smallest one with content."""
    content: Content = {"title": title}
    return Titled(content=content)


def stream_of(session: str = SESSION, room: str = ROOM) -> StreamId:
    return session_stream(RoomId(room), SessionId(session))


def log_of(store: EventStore) -> list[StoredRecord]:
    """Every stored event with its content, by position."""
    with store._database.read() as tables:
        return list(tables.log(contents=True))


def head_of(store: EventStore, session: str = SESSION) -> tuple[int, bytes]:
    """Version and hash at the end of a session's stream; version 0 when it has none."""
    with store._database.read() as tables:
        head = tables.head(stream_of(session))
        return (head.version, head.hash) if head else (0, b"")
