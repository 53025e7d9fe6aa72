"""Plays histories on a ledger, and takes pictures of everything that is stored."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from application.ledger import Ledger
from application.ports import Decision, Loader, Participant
from application.views import MessageView, Reply
from domain.delta import CommittedDelta, Mutation
from domain.errors import Rejected
from domain.ids import RoomId, SessionId
from domain.interaction import Interaction
from domain.message import Message
from domain.session import Session
from domain.turn import Turn
from infrastructure.main import ObserverFailures, open_ledger
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.postgres import PostgresDatabase
from infrastructure.store.postgres_tables import PostgresTables
from infrastructure.store.rows import interaction_of_row, message_of_row, session_of, turn_of_row
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import INTERACTIONS, MESSAGES, READ_MODELS, SESSIONS, TURNS, Row
from tests.postgres import postgres_url
from tests.properties.histories import ROOM, T0, Step

Key = tuple[str, ...]
"""A session, and what of it: a turn, a message, or an interaction's turn and request."""


@dataclass
class FakeClock:
    """Stands until it is moved, backwards too."""

    now: int = T0

    def now_ms(self) -> int:
        return self.now


class Quiet(ObserverFailures):
    """Counts what observers did not take, and logs nothing."""

    def __call__(self, name: str, delta: CommittedDelta, error: Exception) -> None:
        self.by_subscription[name] += 1


@dataclass(frozen=True)
class Picture:
    """Every row of every table, operational ones included, at one moment."""

    tables: Mapping[str, Sequence[Any]]

    def rows(self, table: str) -> Sequence[Row]:
        return self.tables[table]

    @cached_property
    def models(self) -> Mapping[str, Sequence[Any]]:
        return {table.name: self.tables[table.name] for table in READ_MODELS}

    @cached_property
    def sessions(self) -> Mapping[str, Session]:
        return {row[2]: session_of(row) for row in self.rows(SESSIONS.name)}

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The session that a row's key stands for."""
        return {row[0]: row[2] for row in self.rows(SESSIONS.name)}

    @cached_property
    def turns(self) -> Mapping[Key, Turn]:
        return {(self.names[row[0]], row[1]): turn_of_row(row) for row in self.rows(TURNS.name)}

    @cached_property
    def messages(self) -> Mapping[Key, Message]:
        return {(self.names[row[0]], row[1]): message_of_row(row) for row in self.rows(MESSAGES.name)}

    @cached_property
    def interactions(self) -> Mapping[Key, Interaction]:
        rows = self.rows(INTERACTIONS.name)
        return {(self.names[row[0]], row[1], row[2]): interaction_of_row(row) for row in rows}

    def turns_of(self, session: str) -> dict[str, Turn]:
        return {key[1]: turn for key, turn in self.turns.items() if key[0] == session}


def _of_memory(database: MemoryDatabase) -> Picture:
    data = database._data
    kept = (data.contents, data.heads, data.outbox, data.stores, data.snapshots)
    tables: dict[str, Sequence[Any]] = {
        "stored_events": [*data.records],
        "recorder": [*data.recorder._stored_events],
        "kept": [dict(one) for one in kept],
    }
    tabled = data.operations | data.models
    models = {name: [rows[keys] for keys in sorted(rows)] for name, rows in tabled.items()}
    return Picture(tables | models)


def _of_sqlite(path: Path) -> Picture:
    with closing(sqlite3.connect(path)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return Picture({name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names})


def _of_postgres(tables: PostgresTables) -> Picture:
    names = tables._all("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()")
    return Picture({name: sorted(tables._all(f"SELECT * FROM {name}")) for (name,) in names})


@dataclass(frozen=True)
class Happened:
    """What one step came to."""

    step: Step
    at: int
    replies: tuple[Reply, ...]
    rejection: Rejected | None
    before: Picture
    after: Picture
    deltas: list[CommittedDelta]
    """Of what it committed; a repeated command commits nothing."""

    @property
    def mutations(self) -> list[Mutation]:
        return [mutation for delta in self.deltas for mutation in delta.delta.mutations]


@dataclass(frozen=True)
class House:
    """A ledger with its clock, and a look behind it."""

    ledger: Ledger
    clock: FakeClock

    @property
    def store(self) -> EventStore:
        assert isinstance(self.ledger.store, EventStore)
        return self.ledger.store

    def picture(self) -> Picture:
        database = self.store._database
        if isinstance(database, MemoryDatabase):
            return _of_memory(database)
        if isinstance(database, SQLiteDatabase):
            return _of_sqlite(database.path)
        assert isinstance(database, PostgresDatabase)
        with database.read() as tables:
            return _of_postgres(tables)

    def cached(self, session: str) -> Session | None:
        """The state that the next decision would rest on; None for a session of which nothing is stored."""
        seen: list[Session] = []

        def look(load: Loader) -> Decision:
            seen.append(load.session(RoomId(ROOM), SessionId(session))[0])
            return Decision({})

        self.store.submit(look)
        return seen[-1] if seen[-1].version else None

    def state(self, session: str) -> Session:
        """The state as the log folds to it."""
        return self.store.state(RoomId(ROOM), SessionId(session))

    def messages(self, session: str) -> tuple[MessageView, ...]:
        known = self.ledger.session(ROOM, session) is not None
        return self.ledger.messages(ROOM, session, limit=500).messages if known else ()

    def attempt(self, step: Step) -> tuple[tuple[Reply, ...], Rejected | None]:
        """Take a step; a refusal is an outcome, every other error is a failed test."""
        self.clock.now += step.moves_ms
        try:
            return step.take(self.ledger), None
        except Rejected as rejection:
            return (), rejection

    def play(self, history: Iterable[Step]) -> None:
        for step in history:
            self.attempt(step)

    def live(self, history: Iterable[Step]) -> Iterator[Happened]:
        """Play step by step, with a picture before and after each."""
        before = self.picture()
        committed: set[str] = set()
        for step in history:
            replies, rejection = self.attempt(step)
            after = self.picture()
            deltas = [
                one for reply in replies if (one := reply.delta) and one.transaction_id not in committed
            ]
            committed.update(delta.transaction_id for delta in deltas)
            yield Happened(step, self.clock.now, replies, rejection, before, after, deltas)
            before = after


@contextmanager
def opened(
    url: str = "memory://", *, participant: Participant | None = None, now: int = T0
) -> Iterator[House]:
    """A ledger of one's own, closed in the end."""
    clock = FakeClock(now)
    with open_ledger(url, clock=clock, participant=participant, failures=Quiet()) as ledger:
        yield House(ledger, clock)


SHARED = ("sqlite", "postgres")
"""The kinds of store that outlive a process."""


@contextmanager
def new_url(kind: str) -> Iterator[str]:
    """A place for a store of a kind, gone in the end."""
    if kind == "memory":
        yield "memory://"
    elif kind == "postgres":
        with postgres_url() as url:
            yield url
    else:
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/reprise.db"


@contextmanager
def opened_on(kind: str) -> Iterator[House]:
    with new_url(kind) as url, opened(url) as house:
        yield house
