"""One transaction on a PostgreSQL schema: the library's recorder, and our tables beside it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, tuple_row

from application.ports import Listed
from domain.errors import StoreBusy, VersionConflict
from domain.ids import Position, RoomId, SessionId, StreamId, TransactionId, session_stream
from infrastructure.store.lane_tables import LaneTables
from infrastructure.store.postgres_connection import Place, connect
from infrastructure.store.postgres_schema import TEXT_COLUMNS
from infrastructure.store.records import Record
from infrastructure.store.tables import (
    AGGREGATES,
    ASIDES,
    CLOCKS,
    COMMANDS,
    INTERACTIONS,
    LANES,
    MESSAGES,
    PARTS,
    READ_MODELS,
    SECRETS,
    SESSIONS,
    SUBSCRIPTIONS,
    TOKENS,
    TRIMS,
    TURNS,
    Answered,
    Head,
    OutboxRow,
    Row,
    StoredRecord,
    Table,
    listing,
    refuse_transaction_control,
)

FORGET_ROWS_MAX: Final = 100
"""Expired commands forgotten with each one that is remembered."""
PAGE_ROWS: Final = 500
"""Rows of a long answer that are fetched at a time."""
GATHERED: Final = (*READ_MODELS, SUBSCRIPTIONS, LANES, ASIDES, TRIMS, TOKENS, SECRETS)
"""Tables whose changed rows are gathered, and written with one statement."""
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


def _event_row(stored: StoredEvent) -> Row:
    assert isinstance(stored, PlacedEvent)
    return (
        stored.position,
        stored.originator_id,
        stored.originator_version,
        stored.topic,
        stored.state,
        stored.previous_hash,
        stored.hash,
    )


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
        curs.execute(_INSERT_EVENTS, _columns_of(map(_event_row, stored_events)))

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


def _columns_of(rows: Iterable[Row]) -> list[list[Any]]:
    """Rows as the arrays of their columns, which one statement takes in."""
    return [list(column) for column in zip(*rows, strict=True)]


def _arrays(*types: str) -> str:
    """A table of parameters, one array for each column."""
    return "unnest(" + ", ".join(f"%b::{one}[]" for one in types) + ")"


def _array_types(columns: Sequence[str]) -> list[str]:
    return ["text" if column in TEXT_COLUMNS else "bigint" for column in columns]


def _changes(columns: Sequence[str]) -> str:
    return ", ".join(f"{column} = excluded.{column}" for column in columns)


@cache
def _put_statement(prefix: str, table: Table) -> str:
    columns = table.columns
    # As the table's unique index has it.
    keys = "key, request_id, md5(turn_id)" if table is INTERACTIONS else ", ".join(columns[: table.keys])
    return (
        f"INSERT INTO {prefix}{table.name} ({_columns(table)})"
        f" SELECT * FROM {_arrays(*_array_types(columns))}"
        f" ON CONFLICT ({keys}) DO UPDATE SET {_changes(columns[table.keys :])}"
    )


@cache
def _clocks_statement(prefix: str) -> str:
    changes = ", ".join(f"{column} = c.{column}" for column in CLOCKS)
    names = ", ".join(("key", *CLOCKS))
    arrays = _arrays(*_array_types(("key", *CLOCKS)))
    return f"UPDATE {prefix}sessions s SET {changes} FROM {arrays} AS c({names}) WHERE s.key = c.key"


_INSERT_EVENTS: Final = "INSERT INTO stored_events SELECT * FROM " + _arrays(
    "bigint", "text", "bigint", "text", "bytea", "bytea", "bytea"
)
_INSERT_CONTENTS: Final = "INSERT INTO contents SELECT * FROM " + _arrays("bigint", "bytea", "bytea")
_PUT_HEADS: Final = (
    "INSERT INTO streams (key, stream, version, hash) SELECT * FROM "
    + _arrays("bigint", "text", "bigint", "bytea")
    + " ON CONFLICT (key) DO UPDATE SET version = excluded.version, hash = excluded.hash"
)
_INSERT_OUTBOX: Final = (
    "INSERT INTO outbox (transaction_id, room, first_position, position, recorded_at, delta) SELECT * FROM "
    + _arrays("text", "text", "bigint", "bigint", "bigint", "text")
)
_PUT_COMMANDS: Final = (
    "INSERT INTO commands (key, stream, digest, answer, position, expires_at) SELECT * FROM "
    + _arrays("text", "text", "text", "text", "bigint", "bigint")
    + " ON CONFLICT (key) DO UPDATE SET "
    + _changes(("stream", "digest", "answer", "position", "expires_at"))
)


def _no_rows() -> dict[Table, dict[Row, Row]]:
    return {table: {} for table in GATHERED}


def _storable(text: str) -> str:
    """A text from outside, such as an exception's, as a text column can hold it."""
    return text.replace("\0", "\\u0000").encode("utf-8", "backslashreplace").decode()


@cache
def _in_postgres(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class PostgresStatements:
    """Runs the statements of the lanes in one transaction."""

    def __init__(self, connection: Connection[DictRow]) -> None:
        self._db = connection

    def _cursor(self) -> Cursor[TupleRow]:
        return self._db.cursor(row_factory=tuple_row)

    def all(self, statement: str, *parameters: object) -> list[Row]:
        cursor = self._cursor().execute(_in_postgres(statement), _values(parameters))
        return cursor.fetchall() if cursor.description else []

    def each(self, statement: str, parameters: Iterable[Sequence[object]]) -> list[list[Row]]:
        """Sends them all, then takes the answers."""
        rows = list(map(_values, parameters))
        if not rows:
            return []
        cursor = self._cursor()
        gives = statement.startswith("SELECT") or " RETURNING " in statement
        cursor.executemany(_in_postgres(statement), rows, returning=gives)
        if not gives:
            return [[] for _ in rows]
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found


def _values(parameters: Sequence[object]) -> tuple[object, ...]:
    return tuple(_storable(one) if isinstance(one, str) else one for one in parameters)


class PostgresTables:
    """One transaction on the schema. Statements stand where they are used.

    What a commit stores is gathered and written with a statement for each table, before the commit or before
    a question whose answer may depend on it: each statement is a message to the server and back.
    """

    def __init__(
        self,
        connection: Connection[DictRow],
        recorder: Recorder,
        scratch: Callable[[], Connection[DictRow]],
        *,
        ends: tuple[int, int] = (0, 0),
        heads: dict[StreamId, Head | None] | None = None,
        prefix: str = "",
    ) -> None:
        self._db = connection
        self._asking = self._cursor()
        """For whatever is answered at once."""
        self._recorder = recorder
        self._scratch = scratch
        """A connection that sees what this one does, and may make temporary tables."""
        self._end, self._last_key = ends
        """The last position and the last key of a stream that were given."""
        self._prefix = prefix
        self._beside: list[PostgresTables] = []
        """The same transaction with other read models."""
        self.appended: PlacedEvent | None = None
        """The last event that was appended."""
        self.failure: psycopg.Error | None = None
        """What failed first, and the transaction with it."""
        self.heads_known: dict[StreamId, Head | None] = {} if heads is None else heads
        """Ends of streams as they are in this transaction."""
        self._events: list[PlacedEvent] = []
        self._contents: list[Row] = []
        self._moved: dict[StreamId, Head] = {}
        self._outbox: list[Row] = []
        self._commands: dict[str, Row] = {}
        self._rows = _no_rows()
        self._clocks: dict[int, Row] = {}

    @property
    def lanes(self) -> LaneTables:
        self.flush()
        return LaneTables(PostgresStatements(self._db))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a host's own statement in the transaction, with %s for its parameters; it reads nothing."""
        refuse_transaction_control(statement)
        self.flush()
        self._run(statement, parameters or None)

    def _run(
        self, statement: str, parameters: Sequence[Any] | None, cursor: Cursor[TupleRow] | None = None
    ) -> Cursor[TupleRow]:
        try:
            return (cursor or self._cursor()).execute(statement.encode(), parameters)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise

    def _cursor(self) -> Cursor[TupleRow]:
        return self._db.cursor(row_factory=tuple_row, binary=True)

    def _all(self, statement: str, *parameters: Any) -> list[Row]:
        return self._run(statement, parameters, self._asking).fetchall()

    def _one(self, statement: str, *parameters: Any) -> Row | None:
        return self._run(statement, parameters, self._asking).fetchone()

    def _do(self, statement: str, *parameters: Any) -> None:
        self._run(statement, parameters)

    # What was gathered.

    def flush(self) -> None:
        """Write what was gathered, without waiting for one answer before the next statement."""
        if any(self._gathered()):
            try:
                with self._db.pipeline():
                    self.write_gathered()
            except psycopg.Error as error:
                self.failure = self.failure or error
                raise

    def _gathered(self) -> tuple[Collection[Any], ...]:
        rows = self._rows.values()
        return (
            self._events,
            self._contents,
            self._moved,
            self._outbox,
            self._commands,
            self._clocks,
            *rows,
        )

    def write_gathered(self) -> None:
        """Send what was gathered, on a connection in pipeline mode."""
        if self._events:
            cursor = self._cursor()
            self._recorder._insert_stored_events(cursor, self._events)  # noqa: SLF001 - the library's seam
        self._write(_INSERT_CONTENTS, self._contents)
        self._write(_PUT_HEADS, [(h.key, stream, h.version, h.hash) for stream, h in self._moved.items()])
        self._write(_INSERT_OUTBOX, self._outbox)
        self._write(_PUT_COMMANDS, list(self._commands.values()))
        for table, rows in self._rows.items():
            self._write(_put_statement(self._prefix, table), list(rows.values()))
        self._write(_clocks_statement(self._prefix), [(key, *row) for key, row in self._clocks.items()])
        self._events, self._contents, self._outbox = [], [], []
        self._moved, self._commands, self._clocks = {}, {}, {}
        self._rows = _no_rows()

    def _write(self, statement: str, rows: Sequence[Row]) -> None:
        if rows:
            self._run(statement, _columns_of(rows))

    def finish(self) -> None:
        """What comes last before the commit: the position that was given last, and a word to who waits."""
        for tables in (self, *self._beside):
            tables.write_gathered()
        if self.appended:
            self._do("UPDATE streams SET version = %s WHERE key = 0", self.appended.position)
            self._recorder.notify(self._cursor())

    # The log.

    def head(self, stream: StreamId) -> Head | None:
        if stream not in self.heads_known:
            row = self._one("SELECT key, version, hash FROM streams WHERE stream = %s", stream)
            self.heads_known[stream] = Head(*row) if row else None
        return self.heads_known[stream]

    def append(self, records: Sequence[Record]) -> Sequence[Position]:
        positions = []
        for record in records:
            head = self.head(record.stream)
            current = head.version if head else 0
            if record.version != current + 1:
                raise VersionConflict(record.stream, record.version - 1, current)
            if head is None:
                self._last_key += 1
            key = head.key if head else self._last_key
            self.heads_known[record.stream] = self._moved[record.stream] = Head(
                key, record.version, record.hash
            )
            self._end += 1
            self.appended = PlacedEvent(
                record.stream,
                record.version,
                record.topic,
                record.facts,
                self._end,
                record.previous_hash,
                record.hash,
            )
            self._events.append(self.appended)
            if record.content is not None:
                self._contents.append((self._end, record.salt, record.content))
            positions.append(Position(self._end))
        return positions

    def _pages(self, statement: str, *before: Any, after: int, key: int) -> Iterator[Row]:
        """A long answer, page by page; `key` is the column that goes on where a page ended."""
        self.flush()
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
        self.flush()
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
        return Position(self._end)

    def stores(self) -> Sequence[tuple[int, str]]:
        rows = self._all("SELECT from_position, store_id FROM stores ORDER BY from_position")
        return [(row[0], row[1]) for row in rows]

    def put_store(self, from_position: int, store_id: str) -> None:
        self._do("DELETE FROM stores WHERE from_position = %s OR store_id = %s", from_position, store_id)
        self._do("INSERT INTO stores VALUES (%s, %s)", from_position, store_id)

    def content(self, position: Position) -> bytes | None:
        self.flush()
        row = self._one("SELECT content FROM contents WHERE position = %s", position)
        return row[0] if row else None

    def erase(self, stream: StreamId) -> None:
        self.flush()
        self._do(
            "DELETE FROM contents c USING stored_events e"
            " WHERE e.notification_id = c.position AND e.originator_id = %s",
            stream,
        )

    # The outbox and what is remembered.

    def put_outbox(self, row: OutboxRow) -> None:
        self._outbox.append(
            (
                row.transaction,
                row.room,
                row.first_position,
                row.last_position,
                row.recorded_at,
                row.delta,
            )
        )

    def _outbox_rows(self, rest: str, *parameters: Any) -> list[OutboxRow]:
        self.flush()
        rows = self._all(
            "SELECT o.transaction_id, o.room, o.first_position, o.position, o.recorded_at, o.delta"
            f" FROM outbox o {rest}",
            *parameters,
        )
        return [
            OutboxRow(TransactionId(row[0]), row[1], Position(row[2]), Position(row[3]), row[4], row[5])
            for row in rows
        ]

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]:
        return self._outbox_rows("WHERE position > %s ORDER BY position LIMIT %s", after, limit)

    def outbox_at(self, position: int) -> OutboxRow | None:
        return next(iter(self._outbox_rows("WHERE position = %s", position)), None)

    def outbox_row(self, transaction: TransactionId) -> OutboxRow | None:
        found = self._outbox_rows("WHERE transaction_id = %s ORDER BY position DESC LIMIT 1", transaction)
        return next(iter(found), None)

    def remembered(self, key: str, now: int) -> Answered | None:
        if key in self._commands:
            self.flush()
        row = self._one(
            "SELECT digest, answer, position FROM commands WHERE key = %s AND expires_at > %s", key, now
        )
        return Answered(*row) if row else None

    def remember(self, key: str, stream: StreamId, said: Answered, now: int, expires_at: int) -> None:
        if not self._commands:
            expired = "SELECT key FROM commands WHERE expires_at <= %s LIMIT %s"
            self._do(f"DELETE FROM commands WHERE key IN ({expired})", now, FORGET_ROWS_MAX)
        self._commands[key] = (key, stream, said.digest, said.answer, said.position, expires_at)

    def forget(self, stream: StreamId) -> None:
        self.flush()
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
        self._do("INSERT INTO subscriptions VALUES (%s, %s, -1) ON CONFLICT DO NOTHING", name, after)

    def subscriptions(self) -> Sequence[str]:
        return [row[0] for row in self._all("SELECT name FROM subscriptions ORDER BY name")]

    def pending(self, name: str, after: int, limit: int) -> Sequence[OutboxRow]:
        return self._outbox_rows(
            "JOIN subscriptions s ON s.name = %s AND o.position > greatest(s.after, %s)"
            " LEFT JOIN lanes l ON l.name = s.name AND l.room = o.room"
            " WHERE o.position > coalesce(l.position, 0) ORDER BY o.position LIMIT %s",
            name,
            after,
            limit,
        )

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
        self.flush()
        row = self._one("SELECT max(position) FROM outbox")
        return (row and row[0]) or 0

    # Read models.

    def get(self, table: Table, *keys: Any) -> Row | None:
        gathered = self._rows[table].get(keys)
        if gathered is not None:
            return gathered
        if table is SESSIONS and keys[0] in self._clocks:
            self.flush()
        return self._one(_get_statement(self._prefix, table), *keys)

    def put(self, table: Table, row: Row) -> None:
        if table is COMMANDS:
            self._commands[row[0]] = row
            return
        if table in (LANES, ASIDES):
            row = tuple(_storable(one) if isinstance(one, str) else one for one in row)
        self._rows[table][row[: table.keys]] = row
        if table is SESSIONS:
            self._clocks.pop(row[0], None)

    def put_clocks(self, key: int, clocks: Row) -> None:
        row = self._rows[SESSIONS].get((key,))
        if row is None:
            self._clocks[key] = clocks
        else:
            self._rows[SESSIONS][key,] = (*row[: -len(CLOCKS)], *clocks)

    def remove_session(self, key: int) -> None:
        self.flush()
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
        self.flush()
        statement = f"SELECT {_columns(table)} FROM {self._prefix}{table.name} {rest}"
        return self._all(statement, *parameters)

    def session_by_id(self, room: str, session: str) -> Row | None:
        found = self._select(
            SESSIONS,
            "WHERE key = (SELECT key FROM streams WHERE stream = %s)",
            session_stream(RoomId(room), SessionId(session)),
        )
        return found[0] if found else None

    def sessions(
        self, room: str | None, *, deleted: bool, after: Listed | None, limit: int | None
    ) -> Sequence[Row]:
        rest, parameters = listing("%s", room, after, limit, deleted=deleted)
        return self._select(SESSIONS, rest, *parameters)

    def rooms(self, after: str, limit: int) -> Sequence[Row]:
        self.flush()
        return self._all(
            f"SELECT room, COUNT(*), MAX(updated_at) FROM {self._prefix}sessions"
            " WHERE is_deleted = 0 AND room > %s GROUP BY room ORDER BY room LIMIT %s",
            after,
            limit,
        )

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

    def aggregates(self, kind: str) -> Sequence[Row]:
        return self._select(AGGREGATES, "WHERE kind = %s ORDER BY name", kind)

    def turns(self, key: int) -> Sequence[Row]:
        return self._select(TURNS, "WHERE key = %s ORDER BY turn_id", key)

    def interactions(self, key: int, turn_id: str | None = None) -> Sequence[Row]:
        if turn_id is None:
            return self._select(INTERACTIONS, "WHERE key = %s ORDER BY turn_id, request_id", key)
        return self._select(INTERACTIONS, "WHERE key = %s AND turn_id = %s ORDER BY request_id", key, turn_id)

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

    def messages_of(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        gathered = self._rows[MESSAGES]
        found = [row for one in message_ids if (row := gathered.get((key, one)))]
        asked = [one for one in message_ids if (key, one) not in gathered]
        if asked:
            table = f"{self._prefix}{MESSAGES.name}"
            wanted = "WHERE key = %s AND message_id = ANY(%s)"
            found += self._all(f"SELECT {_columns(MESSAGES)} FROM {table} {wanted}", key, asked)
        return found

    def messages_after(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = %s AND version > %s ORDER BY version LIMIT %s", key, version, limit
        )

    def messages_before(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = %s AND version < %s ORDER BY version DESC LIMIT %s", key, version, limit
        )

    def parts(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        return self._select(PARTS, "WHERE key = %s AND message_id = ANY(%s)", key, list(message_ids))

    def part_records(self, positions: Sequence[int]) -> Sequence[StoredRecord]:
        self.flush()
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
        scratch = self._scratch()
        for table in READ_MODELS:
            like = f"(LIKE {table.name} INCLUDING ALL) ON COMMIT DROP"
            scratch.execute(f"CREATE TEMPORARY TABLE checked_{table.name} {like}".encode())
        return self._with("pg_temp.checked_", scratch)

    def reopen_shadow(self, name: str) -> "PostgresTables":
        if f"{_SHADOW}{name}" not in self._shadows():
            raise StoreBusy("another rebuild was done in the meantime; the read models are fresh")
        return self._with(f"{_SHADOW}{name}_")

    def swap_shadow(self, name: str) -> None:
        """Change the live rows that differ, so that nobody waits who is reading them, nor sees half."""
        for tables in (self, *self._beside):
            tables.flush()
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
            "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()"
            " AND starts_with(tablename, %s) AND right(tablename, %s::int) = %s",
            _SHADOW,
            len(ending),
            ending,
        )
        return [row[0].removesuffix(ending) for row in rows]

    def _with(self, prefix: str, connection: Connection[DictRow] | None = None) -> "PostgresTables":
        db = connection or self._db
        other = PostgresTables(db, self._recorder, self._scratch, heads=self.heads_known, prefix=prefix)
        if connection is None:
            self._beside.append(other)
        return other
