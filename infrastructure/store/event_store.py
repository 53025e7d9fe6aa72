"""The store that the use cases see: writes through the writer, reads from the read models and the log."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from application.access import Tokens
from application.ports import (
    Clock,
    Committed,
    Decide,
    Extent,
    Listed,
    MessageRow,
    MessageRows,
    OutboxEntry,
    Participant,
    RoomRow,
    SealedEvent,
    SessionRow,
    StoredEvent,
    Verification,
    Watch,
)
from application.signing import SigningSecrets
from domain.aggregate import Held, Kind
from domain.delta import CommittedDelta
from domain.errors import StoreError, Trimmed
from domain.ids import MessageVersion, Position, RoomId, SessionId, StreamId, TransactionId, session_stream
from domain.interaction import Interaction
from domain.session import Session
from domain.turn import Turn
from infrastructure.store import aggregates, audit
from infrastructure.store.group import GroupCommit, Waiter, Wake
from infrastructure.store.lane_store import LaneStore
from infrastructure.store.records import unseal
from infrastructure.store.rows import (
    StoredRows,
    interaction_of_row,
    message_of_row,
    payload_of,
    records_of,
    session_of,
    turn_of_row,
)
from infrastructure.store.secrets import StoredSecrets
from infrastructure.store.tables import Database, Row, StoredRecord, Tables, in_transaction
from infrastructure.store.tokens import StoredTokens
from infrastructure.store.view import load_state
from infrastructure.store.writer import Appended, Done, Writer, committed_delta

MESSAGES_AT_ONCE: Final = 20
"""Messages of a page whose contents are read with one statement."""
PAGE_ROWS: Final = 500
"""Rows read from the log or the outbox in one transaction."""
_NEWEST: Final = 2**63 - 1

S = TypeVar("S")


class EventStore:
    """application.ports.Store and Deliveries over a database."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        participant: Participant | None = None,
        salt: Callable[[], bytes] | None = None,
        appended: Appended | None = None,
    ) -> None:
        self._database = database
        self.tokens: Tokens = StoredTokens(database)
        self._clock = clock
        self._writer = Writer(database, clock, participant, salt, appended)
        self._snapshots = Snapshots(self._writer)
        self._group = GroupCommit(self._store)
        self.lanes = LaneStore(database)
        self.secrets: SigningSecrets = StoredSecrets(database)

    # Writing.

    def submit(self, decide: Decide) -> Committed:
        return self._group.submit(decide).result()

    def enqueue(self, decide: Decide, waiter: Waiter, wake: Wake) -> None:
        """As `submit`, for whoever does not wait on a thread; see `GroupCommit.put`."""
        self._group.put(decide, waiter, wake)

    def finish(self) -> None:
        """Answer every command that was taken, and take no more; reading goes on."""
        self._group.close()

    def _store(self, decides: Sequence[Decide]) -> Sequence[Done]:
        done, due = self._writer.run(decides)
        for state in due:
            self._snapshots.take(state)
        return done

    def close(self) -> None:
        self.finish()
        self._snapshots.close()
        self._database.close()

    # Read models.

    def session(self, room: RoomId, session: SessionId) -> SessionRow | None:
        with self._database.read() as tables:
            row = tables.session_by_id(room, session)
            return _session_row(tables, row) if row else None

    def sessions(
        self,
        room: RoomId | None = None,
        *,
        deleted: bool = True,
        after: Listed | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        with self._database.read() as tables:
            rows = tables.sessions(room, deleted=deleted, after=after, limit=limit)
            return [_session_row(tables, row) for row in rows]

    def rooms_of(self, session: SessionId) -> Sequence[RoomId]:
        with self._database.read() as tables:
            return [RoomId(room) for room in tables.rooms_of(session)]

    def rooms(self, after: str, limit: int) -> Sequence[RoomRow]:
        with self._database.read() as tables:
            return [RoomRow(*row) for row in tables.rooms(after, limit)]

    def live_sessions(self, room: RoomId) -> Sequence[Session]:
        with self._database.read() as tables:
            return [session_of(row) for row in tables.live_sessions(room)]

    def turns(self, room: RoomId, session: SessionId) -> Sequence[Turn]:
        with self._database.read() as tables:
            turns = [turn_of_row(row) for row in tables.turns(_key(tables, room, session))]
        return sorted(turns, key=lambda turn: (turn.started_at, turn.first_seen_at, turn.turn_id))

    def interactions(self, room: RoomId, session: SessionId) -> Sequence[Interaction]:
        with self._database.read() as tables:
            found = [interaction_of_row(row) for row in tables.interactions(_key(tables, room, session))]
        return sorted(found, key=lambda one: (one.requested_at, one.turn_id, one.request_id))

    def messages_after(
        self, room: RoomId, session: SessionId, version: MessageVersion, limit: int, bytes_max: int
    ) -> MessageRows:
        with self._database.read() as tables:
            key = _key(tables, room, session)
            return _message_rows(
                tables, key, tables.messages_after(key, version, limit + 1), limit, bytes_max
            )

    def messages_before(
        self, room: RoomId, session: SessionId, version: MessageVersion, limit: int, bytes_max: int
    ) -> MessageRows:
        with self._database.read() as tables:
            key = _key(tables, room, session)
            rows = tables.messages_before(key, version or _NEWEST, limit + 1)
            return _message_rows(tables, key, rows, limit, bytes_max)

    def ids(self) -> Sequence[str]:
        with self._database.read() as tables:
            return [store_id for _, store_id in tables.stores()]

    def aggregate(self, kind: Kind[S], key: str) -> Held[S]:
        with self._database.read() as tables:
            return aggregates.load(tables, kind, key)

    def aggregates(self, kind: Kind[S]) -> Sequence[Held[S]]:
        with self._database.read() as tables:
            return aggregates.load_all(tables, kind)

    def watch(self) -> Watch:
        return self._database.watch()

    # The log.

    # Health.

    def check_write(self) -> None:
        """Take the lock that every commit takes, and give it back; raises StoreError."""
        in_transaction(self._database, lambda _: None)

    def schemas(self) -> tuple[int, int]:
        """How the tables are now, and how this release has them."""
        return self._database.schemas()

    def state(self, room: RoomId, session: SessionId) -> Session:
        """The state as a decision would see it, folded from the log."""
        with self._database.read() as tables:
            return load_state(tables, room, session)

    def events(self, room: RoomId, session: SessionId, after: int = 0) -> Iterator[StoredEvent]:
        return self._events_of(session_stream(room, session), after)

    def sealed(self, room: RoomId, session: SessionId) -> Iterator[SealedEvent]:
        return map(_sealed_event, self._records_of(session_stream(room, session), 0))

    def history(self, kind: Kind[Any], key: str, after: int = 0) -> Iterator[StoredEvent]:
        return self._events_of(kind.stream(key), after)

    def _events_of(self, stream: StreamId, after: int) -> Iterator[StoredEvent]:
        return map(_stored_event, self._records_of(stream, after))

    def _records_of(self, stream: StreamId, after: int) -> Iterator[StoredRecord]:
        while True:
            with self._database.read() as tables:
                page = list(islice(tables.stream(stream, after, contents=True), PAGE_ROWS))
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].record.version

    def deltas(self, after: Position = Position(0)) -> Iterator[CommittedDelta]:
        while True:
            with self._database.read() as tables:
                if after < (trimmed := tables.lanes.trimmed()):
                    raise Trimmed(after, trimmed)
                page = [committed_delta(row) for row in tables.outbox(after, PAGE_ROWS)]
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].last_position

    def deltas_page(self, after: Position, limit: int) -> Sequence[CommittedDelta]:
        """The next deltas behind a position; fewer than the limit when there are no more."""
        with self._database.read() as tables:
            return [committed_delta(row) for row in tables.outbox(after, limit)]

    def delta(self, transaction: TransactionId) -> CommittedDelta | None:
        with self._database.read() as tables:
            row = tables.outbox_row(transaction)
            return committed_delta(row) if row else None

    def extent(self) -> Extent:
        with self._database.read() as tables:
            return Extent(kept_behind=Position(tables.lanes.trimmed()), end=tables.end())

    def rebuild(self) -> int:
        return audit.rebuild(self._database)

    def verify(self) -> Verification:
        return audit.verify(self._database)

    # Deliveries.

    def subscribe(self, name: str, after: Position | None) -> None:
        def begin(tables: Tables) -> None:
            trimmed = tables.lanes.hold_trim()
            if after is not None and after < trimmed and name not in tables.subscriptions():
                raise Trimmed(after, trimmed)
            tables.put_subscription(name, tables.outbox_end() if after is None else after)

        in_transaction(self._database, begin)

    def subscriptions(self) -> Sequence[str]:
        with self._database.read() as tables:
            return tables.subscriptions()

    def pending(self, name: str, after: Position = Position(0), limit: int = 100) -> Sequence[CommittedDelta]:
        with self._database.read() as tables:
            return [committed_delta(row) for row in tables.pending(name, after, limit)]

    def delivered(self, name: str, room: RoomId, position: Position) -> None:
        now = self._clock.now_ms()
        in_transaction(self._database, lambda tables: tables.put_lane(name, room, position, 0, "", now))

    def failed(self, name: str, room: RoomId, error: str) -> None:
        now = self._clock.now_ms()

        def count_attempt(tables: Tables) -> None:
            position, attempts, _ = tables.lane(name, room) or (0, 0, "")
            tables.put_lane(name, room, position, attempts + 1, error, now)

        in_transaction(self._database, count_attempt)

    def end(self) -> Position:
        with self._database.read() as tables:
            return Position(tables.outbox_end())

    def outbox(self, *, pending: bool = False) -> Iterator[OutboxEntry]:
        waiting: dict[Position, list[str]] = {}
        for name in self.subscriptions():
            for committed in self._all_pending(name):
                waiting.setdefault(committed.last_position, []).append(name)
        for committed in self.deltas(self.extent().kept_behind):
            names = tuple(waiting.get(committed.last_position, ()))
            if names or not pending:
                yield OutboxEntry(committed, names)

    def _all_pending(self, name: str) -> Iterator[CommittedDelta]:
        after = Position(0)
        for _ in count():
            page = self.pending(name, after, PAGE_ROWS)
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].last_position


class Snapshots:
    """Takes snapshots beside the commands, one at a time; losing one loses nothing."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._due: SimpleQueue[Session | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._start = Lock()

    def take(self, state: Session) -> None:
        """Let the thread take a snapshot; started with the first one."""
        with self._start:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="reprise-snapshots", daemon=True)
                self._thread.start()
        self._due.put(state)

    def _run(self) -> None:
        while (state := self._due.get()) is not None:
            try:
                self._writer.take_snapshot(state)
            except StoreError:
                continue  # The next one comes with the next events.

    def close(self) -> None:
        """Take what is due and stop."""
        if self._thread is not None:
            self._due.put(None)
            self._thread.join()
            self._thread = None


def _key(tables: Tables, room: RoomId, session: SessionId) -> int:
    head = tables.head(session_stream(room, session))
    return head.key if head else 0


def _session_row(tables: Tables, row: Row) -> SessionRow:
    return SessionRow(session_of(row), StoredRows(tables, row[0]).content())


def _message_rows(tables: Tables, key: int, rows: Sequence[Row], limit: int, bytes_max: int) -> MessageRows:
    """The messages of as many rows as may be; a few are read at once, since each may be large."""
    found: list[MessageRow] = []
    size = 0
    for start in range(0, min(len(rows), limit), MESSAGES_AT_ONCE):
        batch = rows[start : min(start + MESSAGES_AT_ONCE, limit)]
        for row, records in zip(batch, records_of(tables, key, batch), strict=True):
            size += sum(len(stored.record.content or b"") for stored in records)
            if found and size > bytes_max:
                return MessageRows(tuple(found), has_more=True)
            found.append(MessageRow(message_of_row(row), payload_of(records)))
    return MessageRows(tuple(found), has_more=len(found) < len(rows))


def _sealed_event(stored: StoredRecord) -> SealedEvent:
    record = stored.record
    return SealedEvent(
        event=_stored_event(stored),
        facts=record.facts,
        salt=record.salt,
        content=record.content,
        previous_hash=record.previous_hash,
        hash=record.hash,
    )


def _stored_event(stored: StoredRecord) -> StoredEvent:
    opened = unseal(stored.record.topic, stored.record.facts, stored.record.content)
    envelope = opened.envelope
    return StoredEvent(
        position=stored.position,
        version=stored.record.version,
        topic=stored.record.topic,
        recorded_at=envelope.recorded_at,
        room=envelope.room,
        session=envelope.session,
        transaction=envelope.transaction,
        event=opened.event,
        is_erased=bool(opened.content_length) and stored.record.content is None,
        key=envelope.key,
        command_id=envelope.command_id,
        actor=envelope.actor,
        source=envelope.source,
    )
