"""Decides and stores: commands one after the other, all that wait together in one transaction.

The state of a session is kept after a commit and trusted again only while the stream's head says that
nobody else wrote; else it is folded from the last snapshot and the events behind it.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

from application.ports import Clock, Committed, Decide, Decision, Participant
from domain import jsontext
from domain.delta import CommitDelta, CommittedDelta, delta_of
from domain.delta import Committed as CommittedEvent
from domain.errors import StoreBusy, StoreUnavailable, VersionConflict
from domain.ids import Position, SessionId, TransactionId, session_stream, transaction_id
from domain.session import Purged, Session, SessionEvent
from domain.work import Work
from infrastructure.crashpoints import crashpoint
from infrastructure.store.kept import Kept, Staged
from infrastructure.store.records import GENESIS, SALT_BYTES, Envelope, Record, seal
from infrastructure.store.rows import write_rows
from infrastructure.store.tables import Answered, Database, Head, OutboxRow, Tables, in_transaction
from infrastructure.store.view import View, snapshot_of
from infrastructure.store.view import spelled as spelled_key

COMMANDS_KEPT_MS: Final = 24 * 60 * 60 * 1_000
"""How long a committed command's id is remembered (SPEC C4)."""
SNAPSHOT_EVERY: Final = 500
"""Events of a stream between two snapshots."""
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
        salt: Callable[[], bytes] = lambda: os.urandom(SALT_BYTES),
        appended: Appended | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._participant = participant
        self._salt = salt
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
        if self._appended and works:
            topics = Counter(("session", decided.event.TOPIC) for work in works for decided in work.decided)
            self._appended(topics, monotonic() - began)
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
            if decision.repeats:
                done.append(_repeated(tables, decision))
            elif decision.work is None or not decision.work.decided:
                done.append(Committed({**decision.answer, "transactionId": ""}))
            else:
                done.append(self._store(view, decision, decision.work))
                works.append(decision.work)
        crashpoint("append.before_commit")
        return done, works, staged

    def take_snapshot(self, state: Session) -> None:
        """Keep a state, so that who loads the stream next folds only what came behind it."""
        stream, snapshot = session_stream(state.room, state.session), snapshot_of(state)
        in_transaction(self._database, lambda tables: tables.put_snapshot(stream, state.version, snapshot))

    def _store(self, view: View, decision: Decision, work: Work) -> Committed:
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
        _write_models(view, work, records, events)
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
            tables.remember(spelled_key(decision.key), stream, said, work.now, expires_at)
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


def _heads(view: View, work: Work) -> dict[SessionId, Head | None]:
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
    view: View, work: Work, records: Sequence[Record], events: Sequence[CommittedEvent]
) -> None:
    """Write the read-model rows that the commit changes, and let the next command of the batch see them."""
    by_session: dict[SessionId, list[tuple[Position, SessionEvent]]] = {}
    for one in events:
        by_session.setdefault(one.session, []).append((one.position, one.event))
    ends = {record.stream: record for record in records}
    for session, placed in by_session.items():
        stream, draft = session_stream(work.room, session), work.drafts[session]
        known = view.head(stream) or view.tables.head(stream)
        assert known is not None, "a stream that was appended to has a head"
        view.heads[stream] = Head(known.key, ends[stream].version, ends[stream].hash)
        write_rows(view.tables, known.key, draft, placed)
        for message, payload in draft.joined():
            view.staged.keep_payload(known.key, message, payload)
        if any(isinstance(event, Purged) for _, event in placed):
            view.tables.erase(stream)
            view.tables.forget(stream)
            view.staged.forget_payloads(known.key)
    for draft in work.drafts.values():
        view.staged.keep_state(session_stream(work.room, draft.state.session), draft.state)


def _repeated(tables: Tables, decision: Decision) -> Committed:
    row = tables.outbox_at(decision.repeats)
    return Committed(decision.answer, committed_delta(row) if row else None, repeats=True)
