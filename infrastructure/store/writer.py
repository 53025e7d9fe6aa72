"""Decides and stores: commands one after the other, all that wait together in one transaction.

The state of a session is kept after a commit and trusted again only while the stream's head says that
nobody else wrote; else it is folded from the last snapshot and the events behind it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple

from application.ports import Change, Clock, Committed, Decide, Decision, Participant
from domain import jsontext
from domain.delta import CommitDelta, CommittedDelta, delta_of
from domain.delta import Committed as CommittedEvent
from domain.errors import StoreBusy, StoreUnavailable, VersionConflict
from domain.event import Event
from domain.ids import (
    Position,
    RoomId,
    SessionId,
    StreamId,
    TransactionId,
    kind_of,
    session_stream,
    transaction_id,
)
from domain.session import Purged, Session, SessionEvent
from domain.work import Source, Work
from infrastructure.crashpoints import crashpoint
from infrastructure.store.aggregates import row_of
from infrastructure.store.kept import Kept, Staged
from infrastructure.store.records import GENESIS, Envelope, Record, Salts, seal
from infrastructure.store.rows import write_rows
from infrastructure.store.tables import (
    AGGREGATES,
    Answered,
    Database,
    OutboxRow,
    Tables,
    in_transaction,
)
from infrastructure.store.view import View, snapshot_of
from infrastructure.store.view import spelled as spelled_key

COMMANDS_KEPT_MS: Final = 24 * 60 * 60 * 1_000
"""How long a committed command's id is remembered (SPEC C4)."""
SNAPSHOT_EVERY: Final = 500
"""Events of a stream between two snapshots."""


class _Entry(NamedTuple):
    """One event that is to be stored: of a session in a room, or of what a key names."""

    stream: StreamId
    event: Event
    recorded_at: int
    room: RoomId = RoomId("")
    session: SessionId = SessionId("")
    key: str = ""
    actor: str = ""
    source: Source | None = None


Done = Committed | BaseException
"""What became of a command: its answer, or why it was refused."""
Appended = Callable[[Mapping[tuple[str, str], int], float], None]
"""Is told of each group that was committed: events by aggregate and topic, and the seconds it took."""


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
        salt: Callable[[], bytes] | None = None,
        appended: Appended | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._participant = participant
        self._salt = salt or Salts()
        self._appended = appended
        self._kept = Kept()

    def run(self, decides: Sequence[Decide]) -> tuple[list[Done], list[Session]]:
        """Decide commands one after the other under the store's write lock and store them with one commit.

        A command that is refused costs the others nothing. One that cannot be stored takes the transaction
        with it: then each is decided and stored again by itself, and the guilty one alone fails. Gives
        what became of each, and the sessions of which a snapshot is due.
        """
        try:
            return self._together(decides)
        except (StoreBusy, StoreUnavailable) as error:
            return [error for _ in decides], []
        except Exception as error:
            if len(decides) == 1:
                return [error], []
        done: list[Done] = []
        due: list[Session] = []
        for decide in decides:
            one, crossed = self.run([decide])
            done += one
            due += crossed
        return done, due

    def _together(self, decides: Sequence[Decide]) -> tuple[list[Done], list[Session]]:
        began = monotonic()
        done, works, staged = in_transaction(self._database, partial(self._decide, decides))
        crashpoint("append.after_commit")
        if self._appended and staged.appended:
            self._appended(staged.appended, monotonic() - began)
        staged.publish()
        crossed = {
            session_stream(work.room, draft.state.session): draft.state
            for work in works
            for draft in work.drafts.values()
            if draft.loaded.version // SNAPSHOT_EVERY < draft.state.version // SNAPSHOT_EVERY
        }
        return done, list(crossed.values())

    def _decide(self, decides: Sequence[Decide], tables: Tables) -> tuple[list[Done], list[Work], Staged]:
        """Decide and store in one transaction; what became of each, and what to keep after the commit."""
        done: list[Done] = []
        works: list[Work] = []
        staged = Staged(self._kept)
        view = View(tables, staged, self._clock.now_ms())
        for decide in decides:
            try:
                decision = decide(view)
            except self._database.errors:
                raise
            except BaseException as error:
                done.append(error)
                continue
            work = decision.work if decision.work and decision.work.decided else None
            changes = [change for change in decision.changes if change.events]
            if decision.repeats:
                done.append(_repeated(tables, decision))
            elif work or changes:
                done.append(self._store(view, decision, work, changes))
                works += [work] if work else []
            else:
                done.append(Committed({**decision.answer, "transactionId": ""}))
        crashpoint("append.before_commit")
        return done, works, staged

    def take_snapshot(self, state: Session) -> None:
        """Keep a state, so that who loads the stream next folds only what came behind it."""
        stream, snapshot = session_stream(state.room, state.session), snapshot_of(state)
        in_transaction(self._database, lambda tables: tables.put_snapshot(stream, state.version, snapshot))

    def _store(
        self, view: View, decision: Decision, work: Work | None, changes: Sequence[Change]
    ) -> Committed:
        """Store the events of a command that has some, with all that follows from them."""
        tables = view.tables
        entries = [*(_told(work) if work else ()), *_changed(changes)]
        ends = _ends(view, work, changes)
        first = entries[0].stream
        transaction = transaction_id(self._database.store_id, first, ends[first][0] + 1)
        command_id = decision.key.id if decision.key else ""
        records = self._records(entries, ends, transaction, command_id)
        positions = tables.append(records)
        view.staged.appended.update((kind_of(record.stream), record.topic) for record in records)
        committed = None
        if work:
            committed = self._write_session_rows(view, work, transaction, records, positions)
        for change in changes:
            _write_aggregate(view, change)
        if decision.operate:
            decision.operate(tables.lanes)
        answer: Mapping[str, Any] = {**decision.answer, "transactionId": transaction}
        if decision.key:
            now = entries[0].recorded_at
            said = Answered(decision.digest, jsontext.to_text(answer), positions[-1])
            stream = session_stream(decision.key.room, decision.key.session)
            tables.remember(spelled_key(decision.key), stream, said, now, now + COMMANDS_KEPT_MS)
        return Committed(answer, committed, len(entries))

    def _write_session_rows(
        self,
        view: View,
        work: Work,
        transaction: TransactionId,
        records: Sequence[Record],
        positions: Sequence[Position],
    ) -> CommittedDelta | None:
        """Write the read models and the outbox row of what a command did to sessions; its delta, if any."""
        events = [
            CommittedEvent(decided.session, record.version, position, decided.event)
            for decided, record, position in zip(work.decided, records, positions, strict=False)
        ]
        delta = delta_of(transaction, work.room, events)
        _write_models(view, work, events)
        if delta is None:
            return None
        row = OutboxRow(transaction, work.room, positions[0], positions[-1], work.now, delta.to_json())
        view.tables.put_outbox(row)
        if self._participant:
            self._participant.participate(view.tables.execute, delta)
        return CommittedDelta(delta, positions[0], positions[-1], work.now)

    def _records(
        self,
        entries: Sequence[_Entry],
        ends: dict[StreamId, tuple[int, bytes]],
        transaction: TransactionId,
        command_id: str,
    ) -> list[Record]:
        """The decided events as they are stored, each chained to the one before it in its stream."""
        records = []
        for index, entry in enumerate(entries):
            version, previous = ends[entry.stream]
            envelope = Envelope(
                room=entry.room,
                session=entry.session,
                recorded_at=entry.recorded_at,
                transaction=transaction,
                index=index,
                count=len(entries),
                command_id=command_id,
                actor=entry.actor,
                source=entry.source,
                key=entry.key,
            )
            salt = b"" if entry.event.content is None else self._salt()
            record = seal(entry.event, envelope, entry.stream, version + 1, previous, salt)
            ends[entry.stream] = (record.version, record.hash)
            records.append(record)
        return records


def _told(work: Work) -> Iterator[_Entry]:
    """What a command decided about sessions."""
    for decided in work.decided:
        yield _Entry(
            stream=session_stream(work.room, decided.session),
            event=decided.event,
            recorded_at=work.now,
            room=work.room,
            session=decided.session,
            actor=work.actor,
            source=decided.source,
        )


def _changed(changes: Sequence[Change]) -> Iterator[_Entry]:
    """What a command decided about other aggregates."""
    for change in changes:
        stream, key = change.kind.stream(change.held.key), change.held.key
        for event in change.events:
            yield _Entry(stream, event, change.recorded_at, key=key, actor=change.actor)


def _ends(view: View, work: Work | None, changes: Sequence[Change]) -> dict[StreamId, tuple[int, bytes]]:
    """The ends of all streams the decision looked at; VersionConflict where one is not what it saw."""
    seen = {session_stream(work.room, one): at for one, at in work.loaded_versions.items()} if work else {}
    seen |= {change.kind.stream(change.held.key): change.held.version for change in changes}
    ends = {}
    for stream, version in seen.items():
        head = view.tables.head(stream)
        ends[stream] = (head.version, head.hash) if head else (0, GENESIS)
        if ends[stream][0] != version:
            raise VersionConflict(stream, version, ends[stream][0])
    return ends


def _write_aggregate(view: View, change: Change) -> None:
    """Write the row of a changed aggregate, whose head has moved already."""
    head = view.tables.head(change.kind.stream(change.held.key))
    assert head is not None, "a stream that was appended to has a head"
    held = change.held
    for event in change.events:
        held = held.after(change.kind, event, change.recorded_at)
    view.tables.put(AGGREGATES, row_of(head.key, change.kind, held))


def _write_models(view: View, work: Work, events: Sequence[CommittedEvent]) -> None:
    """Write the rows of sessions that the commit changes, and let the next command of the batch see them."""
    by_session: dict[SessionId, list[tuple[Position, SessionEvent]]] = {}
    for one in events:
        by_session.setdefault(one.session, []).append((one.position, one.event))
    for session, placed in by_session.items():
        stream, draft = session_stream(work.room, session), work.drafts[session]
        head = view.tables.head(stream)
        assert head is not None, "a stream that was appended to has a head"
        write_rows(view.tables, head.key, draft, placed)
        for message, payload in draft.joined():
            view.staged.keep_payload(head.key, message, payload)
        if any(isinstance(event, Purged) for _, event in placed):
            view.tables.erase(stream)
            view.tables.forget(stream)
            view.staged.forget_payloads(head.key)
    for draft in work.drafts.values():
        view.staged.keep_state(session_stream(work.room, draft.state.session), draft.state)


def _repeated(tables: Tables, decision: Decision) -> Committed:
    row = tables.outbox_at(decision.repeats)
    return Committed(decision.answer, committed_delta(row) if row else None, repeats=True)
