"""Decides and stores: one command, one transaction.

The state of a session is kept after a commit and trusted again only while the stream's head says that
nobody else wrote; else it is folded from the last snapshot and the events behind it.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

from application.ports import Clock, CommandKey, Committed, Decide, Decision, Participant, Remembered
from domain import jsontext
from domain.delta import CommitDelta, CommittedDelta, delta_of
from domain.delta import Committed as CommittedEvent
from domain.errors import VersionConflict
from domain.ids import Position, RoomId, SessionId, StreamId, TransactionId, session_stream, transaction_id
from domain.session import Purged, Session, SessionEvent, TurnEnd, evolve
from domain.work import Draft, Stored, Work
from infrastructure.crashpoints import crashpoint
from infrastructure.store.codec import pack
from infrastructure.store.kept import Payloads, States
from infrastructure.store.records import GENESIS, SALT_BYTES, Envelope, Record, seal, unseal
from infrastructure.store.rows import StoredRows, session_of, session_state, write_rows
from infrastructure.store.tables import Answered, Database, Head, OutboxRow, Tables

COMMANDS_KEPT_MS: Final = 24 * 60 * 60 * 1_000
"""How long a committed command's id is remembered (SPEC C4)."""
SNAPSHOT_EVERY: Final = 500
"""Events of a stream between two snapshots."""
SNAPSHOT_MEANING: Final = 1
"""Raise it when a field of the state comes to mean something else; a field's coming or going shows itself."""
SNAPSHOT_SCHEMA: Final = jsontext.digest(
    [SNAPSHOT_MEANING, *(one.name for kind in (Session, TurnEnd) for one in fields(kind))]
)
"""Which states a snapshot of this release holds; others are passed over."""


def load_state(tables: Tables, room: RoomId, session: SessionId, known: Session | None = None) -> Session:
    """The state as of now: from a state known before, or the last snapshot, and the events behind it."""
    stream = session_stream(room, session)
    state = known or _snapshot(tables, stream) or Session(room=room, session=session)
    for stored in tables.stream(stream, state.version):
        opened = unseal(stored.record.topic, stored.record.facts)
        state = evolve(state, cast("SessionEvent", opened.event), opened.envelope.recorded_at)
    return state


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
class _View:
    """What a decision may look at, within the transaction that will store it."""

    tables: Tables
    states: States
    payloads: Payloads
    now: int
    heads: dict[StreamId, Head | None] = field(default_factory=dict)

    def head(self, stream: StreamId) -> Head | None:
        """The end of a stream, which cannot move while this transaction holds the lock."""
        if stream not in self.heads:
            self.heads[stream] = self.tables.head(stream)
        return self.heads[stream]

    def session(self, room: RoomId, session: SessionId) -> tuple[Session, Stored]:
        stream = session_stream(room, session)
        head = self.head(stream)
        if head is None:
            return Session(room=room, session=session), StoredRows(self.tables, 0, self.payloads)
        state = self.states.get(stream)
        if state is None or state.version != head.version:
            usable = state if state and state.version < head.version else None
            state = load_state(self.tables, room, session, usable)
        return state, StoredRows(self.tables, head.key, self.payloads)

    def tree(self, room: RoomId, root: SessionId) -> Sequence[Session]:
        return [session_of(row) for row in self.tables.tree(room, root)]

    def by_provider_session(self, room: RoomId, provider_session_id: str) -> Sequence[Session]:
        rows = self.tables.by_provider_session(room, provider_session_id)
        return [session for session in map(session_of, rows) if not session.is_deleted]

    def remembered(self, key: CommandKey) -> Remembered | None:
        found = self.tables.remembered(_spelled(key), self.now)
        return (
            Remembered(found.digest, jsontext.from_bytes(found.answer), Position(found.position))
            if found
            else None
        )


def _spelled(key: CommandKey) -> str:
    parts = [key.caller, key.kind, key.room, key.session, key.id]
    return hashlib.sha256(jsontext.to_bytes(parts)).hexdigest()


def committed_delta(row: OutboxRow) -> CommittedDelta:
    """The delta of an outbox row in its envelope."""
    return CommittedDelta(
        delta=CommitDelta.from_json(row.delta),
        first_position=row.first_position,
        last_position=row.last_position,
        recorded_at=row.recorded_at,
    )


class Writer:
    """Stores what decisions come to."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        participant: Participant | None = None,
        salt: Callable[[], bytes] = lambda: os.urandom(SALT_BYTES),
    ) -> None:
        self._database = database
        self._clock = clock
        self._participant = participant
        self._salt = salt
        self._states = States()
        self._payloads = Payloads()

    def submit(self, decide: Decide) -> tuple[Committed, Sequence[Session]]:
        """Decide under the store's write lock and store the outcome, all of it or nothing.

        Gives the answer, and the sessions of which a snapshot is due.
        """
        with self._database.write() as tables:
            view = _View(tables, self._states, self._payloads, self._clock.now_ms())
            decision = decide(view)
            work = decision.work
            if decision.repeats:
                return _repeated(tables, decision), ()
            if work is None or not work.decided:
                return Committed({**decision.answer, "transactionId": ""}), ()
            committed = self._store(view, decision, work)
            crashpoint("append.before_commit")
        crashpoint("append.after_commit")
        due = []
        for draft in work.drafts.values():
            stream = session_stream(work.room, draft.state.session)
            self._states.put(stream, draft.state)
            self._keep_payloads(view.heads[stream], draft)
            if draft.loaded.version // SNAPSHOT_EVERY < draft.state.version // SNAPSHOT_EVERY:
                due.append(draft.state)
        return committed, due

    def _keep_payloads(self, head: Head | None, draft: Draft) -> None:
        """Keep what messages say that this command joined and changed; a new session's next one begins it."""
        if head is None:
            return
        if draft.state.purged:
            self._payloads.forget(head.key)
            return
        for message, payload in draft.joined():
            self._payloads.put(head.key, message, payload)

    def take_snapshot(self, state: Session) -> None:
        """Keep a state, so that who loads the stream next folds only what came behind it."""
        with self._database.write() as tables:
            stream = session_stream(state.room, state.session)
            kept = {"schema": SNAPSHOT_SCHEMA, "state": pack(state)}
            tables.put_snapshot(stream, state.version, jsontext.to_bytes(kept))

    def _store(self, view: _View, decision: Decision, work: Work) -> Committed:
        tables = view.tables
        heads = _heads(view, work)
        first = work.decided[0].session
        transaction = transaction_id(
            self._database.store_id, session_stream(work.room, first), work.drafts[first].loaded.version + 1
        )
        records = self._records(work, heads, transaction, decision.key.id if decision.key else "")
        positions = tables.append(records)
        events = [
            CommittedEvent(decided.session, record.version, position, decided.event)
            for decided, record, position in zip(work.decided, records, positions, strict=True)
        ]
        delta = delta_of(transaction, work.room, events)
        _write_models(tables, work, heads, events)
        committed = None
        if delta is not None:
            row = OutboxRow(transaction, work.room, positions[0], positions[-1], work.now, delta.to_json())
            tables.put_outbox(row)
            committed = CommittedDelta(delta, positions[0], positions[-1], work.now)
            if self._participant:
                self._participant.participate(tables.execute, delta)
        answer: Mapping[str, Any] = {**decision.answer, "transactionId": transaction}
        if decision.key:
            expires_at = work.now + COMMANDS_KEPT_MS
            spelled = jsontext.to_text(answer)
            said = Answered(decision.digest, spelled, positions[-1])
            stream = session_stream(work.room, decision.key.session)
            tables.remember(_spelled(decision.key), stream, said, work.now, expires_at)
        return Committed(answer, committed, len(events))

    def _records(
        self,
        work: Work,
        heads: Mapping[SessionId, Head | None],
        transaction: TransactionId,
        command_id: str,
    ) -> list[Record]:
        """The decided events as they are stored, each chained to the one before it in its stream."""
        ends = {
            session: (head.version, head.hash) if head else (0, GENESIS) for session, head in heads.items()
        }
        records = []
        for index, decided in enumerate(work.decided):
            version, previous = ends[decided.session]
            envelope = Envelope(
                room=work.room,
                session=decided.session,
                recorded_at=work.now,
                transaction=transaction,
                index=index,
                count=len(work.decided),
                command_id=command_id,
                actor=work.actor,
                source=decided.source,
            )
            salt = b"" if decided.event.content is None else self._salt()
            stream = session_stream(work.room, decided.session)
            record = seal(decided.event, envelope, stream, version + 1, previous, salt)
            ends[decided.session] = (record.version, record.hash)
            records.append(record)
        return records


def _heads(view: _View, work: Work) -> dict[SessionId, Head | None]:
    """The end of every stream the decision looked at; VersionConflict where it is no longer what it saw."""
    heads = {}
    for session, version in work.loaded_versions.items():
        stream = session_stream(work.room, session)
        head = heads[session] = view.head(stream)
        current = head.version if head else 0
        if current != version:
            raise VersionConflict(stream, version, current)
    return heads


def _write_models(
    tables: Tables, work: Work, heads: Mapping[SessionId, Head | None], events: Sequence[CommittedEvent]
) -> None:
    """Write the read-model rows that the commit changes."""
    by_session: dict[SessionId, list[tuple[Position, SessionEvent]]] = {}
    for one in events:
        by_session.setdefault(one.session, []).append((one.position, one.event))
    for session, placed in by_session.items():
        stream = session_stream(work.room, session)
        head = heads[session] or tables.head(stream)
        assert head is not None, "a stream that was appended to has a head"
        write_rows(tables, head.key, work.drafts[session], placed)
        if any(isinstance(event, Purged) for _, event in placed):
            tables.erase(stream)
            tables.forget(stream)


def _repeated(tables: Tables, decision: Decision) -> Committed:
    row = tables.outbox_at(decision.repeats)
    return Committed(decision.answer, committed_delta(row) if row else None)
