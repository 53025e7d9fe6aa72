"""One transaction on a PostgreSQL schema: the library's recorder, and our tables beside it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, tuple_row

from domain.errors import StoreBusy
from domain.ids import Position, RoomId, SessionId, StreamId, TransactionId, session_stream
from infrastructure.store.postgres_connection import Place, connect
from infrastructure.store.records import Record
from infrastructure.store.tables import (
    CLOCKS,
    INTERACTIONS,
    MESSAGES,
    PARTS,
    READ_MODELS,
    SESSIONS,
    TURNS,
    Answered,
    Head,
    OutboxRow,
    Row,
    StoredRecord,
    Table,
    refuse_transaction_control,
)

FORGET_ROWS_MAX: Final = 100
"""Expired commands forgotten with each one that is remembered."""
PAGE_ROWS: Final = 500
"""Rows of a long answer that are fetched at a time."""
_SHADOW: Final = "rebuilt_"
"""How the names of read models begin that stand beside the live ones."""


# The library's recorder.


class _Datastore(PostgresDatastore):
    """Gives the library's recorder connections of ours; it makes and pools none."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.schema = place.schema
        self.lock_timeout = 0
        self.originator_id_type = "text"
        self.single_row_tracking = True
        self.enable_db_functions = False
        self.db_type_names = set()
        self.psycopg_type_adapters = {}

    def register_type_adapters(self) -> None:
        """We have no composite types."""

    @contextmanager
    def get_connection(self) -> Iterator[Connection[DictRow]]:
        with connect(self._place) as connection:
            yield connection


@dataclass(frozen=True)
class PlacedEvent(StoredEvent):
    """A stored event at its position, with its link to the one before it."""

    position: int
    previous_hash: bytes
    hash: bytes


class Recorder(PostgresApplicationRecorder):
    """The library's recorder over a table whose positions are counted, not drawn from a sequence.

    A sequence gives its numbers in the order of asking, so that a reader of the log would pass over what
    commits late.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(_Datastore(place))
        self.sql_create_statements = []  # The schema is made with the rest of the store.
        self.channel_name = place.schema

    def _insert_stored_events(
        self, curs: Cursor[Any], stored_events: Sequence[StoredEvent], **_: Any
    ) -> None:
        """Store events; the lock is held already, since they were decided under it."""
        for stored in stored_events:
            assert isinstance(stored, PlacedEvent)
            curs.execute(
                "INSERT INTO stored_events VALUES (%s, %s, %s, %s, %s, %s, %s)",
                (
                    stored.position,
                    stored.originator_id,
                    stored.originator_version,
                    stored.topic,
                    stored.state,
                    stored.previous_hash,
                    stored.hash,
                ),
            )

    def notify(self, cursor: Cursor[Any]) -> None:
        """Wake whoever tails the log, once the transaction has committed."""
        self._notify_channel(cursor)


# Statements.

_EVENT = "e.notification_id, e.originator_id, e.originator_version, e.topic, e.state, e.previous_hash, e.hash"
_WITH_CONTENT = (
    f"SELECT {_EVENT}, c.salt, c.content FROM stored_events e"
    " LEFT JOIN contents c ON c.position = e.notification_id"
)
_WITHOUT = f"SELECT {_EVENT}, NULL::bytea, NULL::bytea FROM stored_events e"
_OUTBOX = "SELECT transaction_id, room, first_position, position, recorded_at, delta FROM outbox"


def _stored(row: Row) -> StoredRecord:
    record = Record(
        stream=StreamId(row[1]),
        version=row[2],
        topic=row[3],
        facts=row[4],
        previous_hash=row[5],
        hash=row[6],
        salt=row[7] or b"",
        content=row[8],
    )
    return StoredRecord(Position(row[0]), record)


@cache
def _columns(table: Table) -> str:
    return ", ".join(table.columns)


@cache
def _get_statement(prefix: str, table: Table) -> str:
    keys = " AND ".join(f"{column} = %s" for column in table.columns[: table.keys])
    return f"SELECT {_columns(table)} FROM {prefix}{table.name} WHERE {keys}"


@cache
def _put_statement(prefix: str, table: Table) -> str:
    rest = table.columns[table.keys :]
    keys = (
        "key, request_id, md5(turn_id)" if table is INTERACTIONS else ", ".join(table.columns[: table.keys])
    )
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    marks = ", ".join(["%s"] * len(table.columns))
    return (
        f"INSERT INTO {prefix}{table.name} ({_columns(table)}) VALUES ({marks})"
        f" ON CONFLICT ({keys}) DO UPDATE SET {changes}"
    )


@cache
def _clocks_statement(prefix: str) -> str:
    changes = ", ".join(f"{column} = %s" for column in CLOCKS)
    return f"UPDATE {prefix}sessions SET {changes} WHERE key = %s"


def _outbox_row(row: Row) -> OutboxRow:
    return OutboxRow(TransactionId(row[0]), row[1], Position(row[2]), Position(row[3]), row[4], row[5])


def _storable(text: str) -> str:
    """A text from outside, such as an exception's, as a text column can hold it."""
    return text.replace("\0", "\\u0000").encode("utf-8", "backslashreplace").decode()


class PostgresTables:
    """One transaction on the schema. Statements stand where they are used."""

    def __init__(
        self,
        connection: Connection[DictRow],
        recorder: Recorder,
        scratch: Callable[[], Connection[DictRow]],
        *,
        end: int | None = None,
        prefix: str = "",
    ) -> None:
        self._db = connection
        self._recorder = recorder
        self._scratch = scratch
        """A connection that sees what this one does, and may make temporary tables."""
        self._end = end
        """The last position that was given, while it cannot change; None in a transaction that reads."""
        self._prefix = prefix
        self.began: tuple[StreamId, int] | None = None
        """Stream and version of the first event that was appended."""
        self.appended: Row | None = None
        """Position and hash of the last event that was appended."""
        self.failure: psycopg.Error | None = None
        """What failed first, and the transaction with it."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a host's own statement in the transaction, with %s for its parameters; it reads nothing."""
        refuse_transaction_control(statement)
        self._run(statement, parameters or None).nextset()  # Waits, so that a failure is this statement's.

    def _run(self, statement: str, parameters: Sequence[Any] | None) -> Cursor[TupleRow]:
        cursor = self._cursor()
        with self._noting_failure():
            cursor.execute(statement.encode(), parameters)
        return cursor

    def _cursor(self) -> Cursor[TupleRow]:
        return self._db.cursor(row_factory=tuple_row, binary=True)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise

    def _all(self, statement: str, *parameters: Any) -> list[Row]:
        cursor = self._run(statement, parameters)
        with self._noting_failure():
            return cursor.fetchall()

    def _one(self, statement: str, *parameters: Any) -> Row | None:
        cursor = self._run(statement, parameters)
        with self._noting_failure():
            return cursor.fetchone()

    def _do(self, statement: str, *parameters: Any) -> None:
        """Run a statement whose failure shows with the next answer, or with the commit."""
        self._run(statement, parameters)

    # The log.

    def head(self, stream: StreamId) -> Head | None:
        row = self._one("SELECT key, version, hash FROM streams WHERE stream = %s", stream)
        return Head(*row) if row else None

    def append(self, records: Sequence[Record]) -> Sequence[Position]:
        assert self._end is not None, "only a writing transaction appends"
        positions = [Position(self._end + number) for number in range(1, len(records) + 1)]
        events = [
            PlacedEvent(
                one.stream, one.version, one.topic, one.facts, position, one.previous_hash, one.hash
            )
            for position, one in zip(positions, records, strict=True)
        ]
        self.began = self.began or (records[0].stream, records[0].version)
        with self._noting_failure():
            self._recorder._insert_stored_events(self._cursor(), events)  # noqa: SLF001 - the library's seam
        self.appended, self._end = (positions[-1], records[-1].hash), positions[-1]
        for position, record in zip(positions, records, strict=True):
            if record.content is not None:
                self._do("INSERT INTO contents VALUES (%s, %s, %s)", position, record.salt, record.content)
        for last in {record.stream: record for record in records}.values():
            self._do(
                "INSERT INTO streams (key, stream, version, hash)"
                " SELECT max(key) + 1, %s, %s, %s FROM streams"
                " ON CONFLICT (stream) DO UPDATE SET version = excluded.version, hash = excluded.hash",
                last.stream,
                last.version,
                last.hash,
            )
        return positions

    def _pages(self, statement: str, *before: Any, after: int, key: int) -> Iterator[Row]:
        """A long answer, page by page; `key` is the column that goes on where a page ended."""
        while page := self._all(statement, *before, after, PAGE_ROWS):
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1][key]

    def stream(self, stream: StreamId, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        rows = self._pages(
            (_WITH_CONTENT if contents else _WITHOUT) + " WHERE e.originator_id = %s AND"
            " e.originator_version > %s ORDER BY e.originator_version LIMIT %s",
            stream,
            after=after,
            key=2,
        )
        return map(_stored, rows)

    def log(self, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        rows = self._pages(
            (_WITH_CONTENT if contents else _WITHOUT)
            + " WHERE e.notification_id > %s ORDER BY e.notification_id LIMIT %s",
            after=after,
            key=0,
        )
        return map(_stored, rows)

    def heads(self) -> Iterator[tuple[StreamId, Head]]:
        after = ""
        while page := self._all(
            "SELECT stream, key, version, hash FROM streams WHERE key > 0 AND stream > %s"
            " ORDER BY stream LIMIT %s",
            after,
            PAGE_ROWS,
        ):
            yield from ((StreamId(row[0]), Head(*row[1:])) for row in page)
            after = page[-1][0]

    def end(self) -> Position:
        if self._end is not None:
            return Position(self._end)
        row = self._one("SELECT version FROM streams WHERE key = 0")
        return Position(row[0] if row else 0)

    def content(self, position: Position) -> bytes | None:
        row = self._one("SELECT content FROM contents WHERE position = %s", position)
        return row[0] if row else None

    def erase(self, stream: StreamId) -> None:
        self._do(
            "DELETE FROM contents c USING stored_events e"
            " WHERE e.notification_id = c.position AND e.originator_id = %s",
            stream,
        )

    # The outbox and what is remembered.

    def put_outbox(self, row: OutboxRow) -> None:
        self._do(
            "INSERT INTO outbox (position, first_position, transaction_id, room, recorded_at, delta)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            row.last_position,
            row.first_position,
            row.transaction,
            row.room,
            row.recorded_at,
            row.delta,
        )

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]:
        rows = self._all(f"{_OUTBOX} WHERE position > %s ORDER BY position LIMIT %s", after, limit)
        return [_outbox_row(row) for row in rows]

    def outbox_at(self, position: int) -> OutboxRow | None:
        row = self._one(f"{_OUTBOX} WHERE position = %s", position)
        return _outbox_row(row) if row else None

    def outbox_row(self, transaction: TransactionId) -> OutboxRow | None:
        row = self._one(f"{_OUTBOX} WHERE transaction_id = %s ORDER BY position DESC LIMIT 1", transaction)
        return _outbox_row(row) if row else None

    def remembered(self, key: str, now: int) -> Answered | None:
        row = self._one(
            "SELECT digest, answer, position FROM commands WHERE key = %s AND expires_at > %s", key, now
        )
        return Answered(*row) if row else None

    def remember(self, key: str, stream: StreamId, said: Answered, now: int, expires_at: int) -> None:
        self._do(
            "DELETE FROM commands WHERE key IN (SELECT key FROM commands WHERE expires_at <= %s LIMIT %s)",
            now,
            FORGET_ROWS_MAX,
        )
        self._do(
            "INSERT INTO commands (key, stream, digest, answer, position, expires_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (key) DO UPDATE SET stream = excluded.stream, digest = excluded.digest,"
            " answer = excluded.answer, position = excluded.position, expires_at = excluded.expires_at",
            key,
            stream,
            said.digest,
            said.answer,
            said.position,
            expires_at,
        )

    def forget(self, stream: StreamId) -> None:
        self._do("DELETE FROM commands WHERE stream = %s", stream)

    # Snapshots.

    def snapshot(self, stream: StreamId) -> tuple[int, bytes] | None:
        row = self._one(
            "SELECT originator_version, state FROM snapshots WHERE originator_id = %s"
            " ORDER BY originator_version DESC LIMIT 1",
            stream,
        )
        return (row[0], row[1]) if row else None

    def put_snapshot(self, stream: StreamId, version: int, state: bytes) -> None:
        newest = self.snapshot(stream)
        if newest and newest[0] >= version:
            return
        self._do("DELETE FROM snapshots WHERE originator_id = %s", stream)
        self._do("INSERT INTO snapshots VALUES (%s, %s, 'snapshot', %s)", stream, version, state)

    # Deliveries.

    def put_subscription(self, name: str, after: int) -> None:
        self._do("INSERT INTO subscriptions VALUES (%s, %s) ON CONFLICT DO NOTHING", name, after)

    def subscriptions(self) -> Sequence[str]:
        return [row[0] for row in self._all("SELECT name FROM subscriptions ORDER BY name")]

    def pending(self, name: str, after: int, limit: int) -> Sequence[OutboxRow]:
        rows = self._all(
            "SELECT o.transaction_id, o.room, o.first_position, o.position, o.recorded_at, o.delta"
            " FROM subscriptions s JOIN outbox o ON o.position > greatest(s.after, %s)"
            " LEFT JOIN lanes l ON l.name = s.name AND l.room = o.room"
            " WHERE s.name = %s AND o.position > coalesce(l.position, 0)"
            " ORDER BY o.position LIMIT %s",
            after,
            name,
            limit,
        )
        return [_outbox_row(row) for row in rows]

    def put_lane(self, name: str, room: str, position: int, attempts: int, error: str, at: int) -> None:
        self._do(
            "INSERT INTO lanes (name, room, position, attempts, error, at) VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (name, room) DO UPDATE SET"
            " position = greatest(lanes.position, excluded.position), attempts = excluded.attempts,"
            " error = excluded.error, at = excluded.at",
            name,
            room,
            position,
            attempts,
            _storable(error),
            at,
        )

    def lane(self, name: str, room: str) -> tuple[int, int, str] | None:
        row = self._one(
            "SELECT position, attempts, error FROM lanes WHERE name = %s AND room = %s", name, room
        )
        return (row[0], row[1], row[2]) if row else None

    def outbox_end(self) -> int:
        row = self._one("SELECT max(position) FROM outbox")
        return (row and row[0]) or 0

    # Read models.

    def get(self, table: Table, *keys: Any) -> Row | None:
        return self._one(_get_statement(self._prefix, table), *keys)

    def put(self, table: Table, row: Row) -> None:
        self._do(_put_statement(self._prefix, table), *row)

    def put_clocks(self, key: int, clocks: Row) -> None:
        self._do(_clocks_statement(self._prefix), *clocks, key)

    def remove_session(self, key: int) -> None:
        for prefix in (self._prefix, *(f"{name}_" for name in self._shadows())):
            for table in READ_MODELS:
                self._do(f"DELETE FROM {prefix}{table.name} WHERE key = %s", key)

    def rows(self, table: Table) -> Iterator[Row]:
        keys = ", ".join(table.columns[: table.keys])
        marks = ", ".join(["%s"] * table.keys)
        page = self._select(table, f"ORDER BY {keys} LIMIT %s", PAGE_ROWS)
        while page:
            yield from page
            last = page[-1][: table.keys]
            page = self._select(
                table, f"WHERE ({keys}) > ({marks}) ORDER BY {keys} LIMIT %s", *last, PAGE_ROWS
            )

    def _select(self, table: Table, rest: str, *parameters: Any) -> list[Row]:
        statement = f"SELECT {_columns(table)} FROM {self._prefix}{table.name} {rest}"
        return self._all(statement, *parameters)

    def session_by_id(self, room: str, session: str) -> Row | None:
        found = self._select(
            SESSIONS,
            "WHERE key = (SELECT key FROM streams WHERE stream = %s)",
            session_stream(RoomId(room), SessionId(session)),
        )
        return found[0] if found else None

    def sessions(self, room: str | None) -> Sequence[Row]:
        if room is None:
            return self._select(SESSIONS, "ORDER BY updated_at DESC, room, session")
        return self._select(SESSIONS, "WHERE room = %s ORDER BY updated_at DESC, session", room)

    def rooms_of(self, session: str) -> Sequence[str]:
        return [row[1] for row in self._select(SESSIONS, "WHERE session = %s ORDER BY room", session)]

    def tree(self, room: str, root: str) -> Sequence[Row]:
        return self._select(SESSIONS, "WHERE room = %s AND root_session = %s ORDER BY session", room, root)

    def live_sessions(self, room: str) -> Sequence[Row]:
        return self._select(SESSIONS, "WHERE room = %s AND is_live = 1 ORDER BY session", room)

    def by_provider_session(self, room: str, provider_session_id: str) -> Sequence[Row]:
        return self._select(
            SESSIONS,
            "WHERE room = %s AND provider_session_id = %s ORDER BY session",
            room,
            provider_session_id,
        )

    def turns(self, key: int) -> Sequence[Row]:
        return self._select(TURNS, "WHERE key = %s ORDER BY turn_id", key)

    def interactions(self, key: int, turn_id: str | None = None) -> Sequence[Row]:
        if turn_id is None:
            return self._select(INTERACTIONS, "WHERE key = %s ORDER BY turn_id, request_id", key)
        return self._select(
            INTERACTIONS, "WHERE key = %s AND turn_id = %s ORDER BY request_id", key, turn_id
        )

    def open_tools(self, key: int, turn_id: str) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = %s AND turn_id = %s AND is_open_tool = 1 ORDER BY sequence", key, turn_id
        )

    def last_assistant_text(self, key: int, turn_id: str, after: int) -> Row | None:
        # Newest first, so it seldom looks at more than a few rows; an index would cost every commit a page.
        found = self._select(
            MESSAGES,
            "WHERE key = %s AND version > %s AND turn_id = %s AND is_text = 1 ORDER BY version DESC LIMIT 1",
            key,
            after,
            turn_id,
        )
        return found[0] if found else None

    def messages_after(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = %s AND version > %s ORDER BY version LIMIT %s", key, version, limit
        )

    def messages_before(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = %s AND version < %s ORDER BY version DESC LIMIT %s", key, version, limit
        )

    def parts(self, key: int, message_id: str) -> Sequence[Row]:
        return self._select(PARTS, "WHERE key = %s AND message_id = %s ORDER BY position", key, message_id)

    def part_records(self, positions: Sequence[int]) -> Sequence[StoredRecord]:
        rows = self._all(
            f"{_WITH_CONTENT} WHERE e.notification_id = ANY(%s::bigint[]) ORDER BY e.notification_id",
            list(positions),
        )
        return [_stored(row) for row in rows]

    # Read models beside the live ones.

    def shadow(self, name: str = "") -> "PostgresTables":
        if name:
            for table in READ_MODELS:
                self._do(f"CREATE TABLE {_SHADOW}{name}_{table.name} (LIKE {table.name} INCLUDING ALL)")
            return self._with(f"{_SHADOW}{name}_")
        scratch = self._with("pg_temp.checked_", self._scratch())
        for table in READ_MODELS:
            scratch._do(
                f"CREATE TEMPORARY TABLE checked_{table.name} (LIKE {table.name} INCLUDING ALL) ON COMMIT DROP"
            )
        return scratch

    def reopen_shadow(self, name: str) -> "PostgresTables":
        if f"{_SHADOW}{name}" not in self._shadows():
            raise StoreBusy("another rebuild was done in the meantime; the read models are fresh")
        return self._with(f"{_SHADOW}{name}_")

    def swap_shadow(self, name: str) -> None:
        """Change the live rows that differ, so that nobody waits who is reading them, nor sees half."""
        for table in READ_MODELS:
            fresh = f"{_SHADOW}{name}_{table.name}"
            self._do(
                f"DELETE FROM {table.name} l WHERE NOT EXISTS"
                f" (SELECT FROM {fresh} f WHERE ROW(f.*) = ROW(l.*))"
            )
            self._do(f"INSERT INTO {table.name} SELECT * FROM {fresh} ON CONFLICT DO NOTHING")
        for leftover in self._shadows():
            for table in READ_MODELS:
                self._do(f"DROP TABLE {leftover}_{table.name}")

    def _shadows(self) -> list[str]:
        """Read models that are being made anew, or were when a process died."""
        ending = f"_{SESSIONS.name}"
        rows = self._all(
            "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            " AND relkind = 'r' AND starts_with(relname, %s) AND right(relname, %s::int) = %s",
            _SHADOW,
            len(ending),
            ending,
        )
        return [row[0].removesuffix(ending) for row in rows]

    def _with(self, prefix: str, connection: Connection[DictRow] | None = None) -> "PostgresTables":
        db = connection or self._db
        return PostgresTables(db, self._recorder, self._scratch, end=self._end, prefix=prefix)

    # The end of the transaction.

    def finish(self) -> None:
        """What comes last before the commit: the position that was given last, and a word to who waits."""
        if self.appended:
            self._do("UPDATE streams SET version = %s WHERE key = 0", self.appended[0])
            self._recorder.notify(self._cursor())
