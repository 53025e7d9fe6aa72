"""What decisions may look at within the transaction that will store them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from itertools import islice
from typing import Final, TypeVar, cast

from application.ports import CommandKey, Remembered
from domain import jsontext
from domain.aggregate import Held, Kind
from domain.ids import Position, RoomId, SessionId, StreamId, session_stream
from domain.pull import Pull
from domain.session import Session, SessionEvent, TurnEnd, evolve
from domain.work import Stored
from infrastructure.store import aggregates
from infrastructure.store.codec import pack
from infrastructure.store.kept import Staged
from infrastructure.store.records import unseal
from infrastructure.store.rows import StoredRows, session_of, session_state
from infrastructure.store.tables import StoredRecord, Tables

S = TypeVar("S")

SNAPSHOT_MEANING: Final = 1
"""Raise it when a field of the state comes to mean something else; a field's coming or going shows itself."""
SNAPSHOT_SCHEMA: Final = jsontext.digest(
    [SNAPSHOT_MEANING, *(one.name for kind in (Session, TurnEnd, Pull) for one in fields(kind))]
)
"""Which states a snapshot of this release holds; others are passed over."""


def snapshot_of(state: Session) -> bytes:
    """A state as it is kept in a snapshot."""
    return jsontext.to_bytes({"schema": SNAPSHOT_SCHEMA, "state": pack(state)})


def load_state(tables: Tables, room: RoomId, session: SessionId, known: Session | None = None) -> Session:
    """The state as of now: from a state known before, or the last snapshot, and the events behind it."""
    stream = session_stream(room, session)
    state = known or _snapshot(tables, stream) or Session(room=room, session=session)
    for stored in tables.stream(stream, state.version):
        state = _evolved(state, stored)
    return state


def state_before(tables: Tables, room: RoomId, session: SessionId, version: int) -> Session:
    """The state as it was before a version, from the log alone."""
    state = Session(room=room, session=session)
    if version > 1:
        stored = tables.stream(session_stream(room, session))
        state = reduce(_evolved, islice(stored, version - 1), state)
    return state


def _evolved(state: Session, stored: StoredRecord) -> Session:
    opened = unseal(stored.record.topic, stored.record.facts)
    return evolve(state, cast("SessionEvent", opened.event), opened.envelope.recorded_at)


def _snapshot(tables: Tables, stream: StreamId) -> Session | None:
    """The state of the last snapshot; None when there is none that this release can read."""
    found = tables.snapshot(stream)
    if found is None:
        return None
    version, kept = found
    try:
        snapshot = jsontext.from_bytes(kept)
        state = session_state(snapshot["state"]) if snapshot["schema"] == SNAPSHOT_SCHEMA else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    fits = state and state.version == version and session_stream(state.room, state.session) == stream
    return state if fits else None


@dataclass(frozen=True, slots=True)
class View:
    """The store as one command after another of a batch finds it: each sees what those before it stored."""

    tables: Tables
    staged: Staged
    now: int

    def session(self, room: RoomId, session: SessionId) -> tuple[Session, Stored]:
        stream = session_stream(room, session)
        head = self.tables.head(stream)
        if head is None:
            return Session(room=room, session=session), StoredRows(self.tables, 0)
        state = self.staged.state(stream)
        if state is None or state.version != head.version:
            usable = state if state and state.version < head.version else None
            state = load_state(self.tables, room, session, usable)
        return state, StoredRows(self.tables, head.key, self.staged.payload)

    def tree(self, room: RoomId, root: SessionId) -> Sequence[Session]:
        return [session_of(row) for row in self.tables.tree(room, root)]

    def by_provider_session(self, room: RoomId, provider_session_id: str) -> Sequence[Session]:
        rows = self.tables.by_provider_session(room, provider_session_id)
        return [session for session in map(session_of, rows) if not session.is_deleted]

    def remembered(self, key: CommandKey) -> Remembered | None:
        found = self.tables.remembered(spelled(key), self.now)
        if found is None:
            return None
        return Remembered(found.digest, jsontext.from_bytes(found.answer), Position(found.position))

    def aggregate(self, kind: Kind[S], key: str) -> Held[S]:
        return aggregates.load(self.tables, kind, key)


def spelled(key: CommandKey) -> str:
    """The key of a command in the table of remembered ones."""
    parts = [key.caller, key.kind, key.room, key.session, key.id]
    return hashlib.sha256(jsontext.to_bytes(parts)).hexdigest()
