"""The tables of a store in one SQLite file, within a transaction; statements stand where they are used."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from eventsourcing.persistence import (
    Notification,
    StoredEvent,
)
from eventsourcing.sqlite import (
    SQLiteAggregateRecorder,
    SQLiteApplicationRecorder,
    SQLiteCursor,
)

from application.ports import Listed
from domain.errors import (
    StoreBusy,
    VersionConflict,
)
from domain.ids import Position, StreamId, TransactionId
from infrastructure.store.lane_tables import LaneTables
from infrastructure.store.records import Record
from infrastructure.store.sqlite_schema import (
    indexes,
    read_models,
    temporary_read_models,
)
from infrastructure.store.tables import (
    AGGREGATES,
    CLOCKS,
    COMMANDS,
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
    listing,
    refuse_transaction_control,
)

FORGET_ROWS_MAX: Final = 100
"""Expired commands forgotten with each one that is remembered."""
_SHADOW: Final = "rebuilt_"
"""How the names of read models begin that stand beside the live ones."""
PARTS_BATCH: Final = 500
"""Positions in one statement."""


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


class Recorder(SQLiteApplicationRecorder):
    """The library's recorder over a table whose positions are never given twice."""

    def construct_create_table_statements(self) -> list[str]:
        return []  # The schema is made with the rest of the store.

    def _insert_events(self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **_: Any) -> None:
        c.executemany(
            "INSERT INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?)", map(_event_row, stored_events)
        )

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        first = (start or 1) if inclusive_of_start or start is None else start + 1
        wanted = ",".join("?" * len(topics))
        with self.datastore.transaction(commit=False) as c:
            c.execute(
                "SELECT notification_id, originator_id, originator_version, topic, state FROM stored_events"
                " WHERE notification_id BETWEEN ? AND ?"
                + (f" AND topic IN ({wanted})" if topics else "")
                + " ORDER BY notification_id LIMIT ?",
                (first, stop or 2**63 - 1, *topics, limit),
            )
            return [Notification(row[1], row[2], row[3], row[4], row[0]) for row in c.fetchall()]


_EVENT = "e.notification_id, e.originator_id, e.originator_version, e.topic, e.state, e.previous_hash, e.hash"
_WITH_CONTENT = (
    f"SELECT {_EVENT}, c.salt, c.content FROM stored_events e"
    " LEFT JOIN contents c ON c.position = e.notification_id"
)
_WITHOUT = f"SELECT {_EVENT}, NULL, NULL FROM stored_events e"
_OUTBOX = "SELECT transaction_id, room, first_position, position, recorded_at, delta FROM outbox"


def _stored(row: Sequence[Any]) -> StoredRecord:
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
def _get_statement(prefix: str, table: Table) -> str:
    keys = " AND ".join(f"{column} = ?" for column in table.columns[: table.keys])
    return f"SELECT * FROM {prefix}{table.name} WHERE {keys}"


@cache
def _messages_statement(prefix: str, count: int) -> str:
    marks = ",".join("?" * count)
    return f"SELECT * FROM {prefix}{MESSAGES.name} WHERE key = ? AND message_id IN ({marks})"


@cache
def _put_statement(prefix: str, table: Table) -> str:
    """An insert that changes only what differs in a row that stands already."""
    keys, rest = ", ".join(table.columns[: table.keys]), table.columns[table.keys :]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    marks = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {prefix}{table.name} VALUES ({marks}) ON CONFLICT ({keys}) DO UPDATE SET {changes}"


@cache
def _clocks_statement(prefix: str) -> str:
    changes = ", ".join(f"{column} = ?" for column in CLOCKS)
    return f"UPDATE {prefix}sessions SET {changes} WHERE key = ?"


def _outbox_row(row: Sequence[Any]) -> OutboxRow:
    return OutboxRow(TransactionId(row[0]), row[1], Position(row[2]), Position(row[3]), row[4], row[5])


@cache
def _in_sqlite(statement: str) -> str:
    """A statement as SQLite has it: whoever writes has the whole file, and max takes two."""
    statement = statement.replace(" FOR UPDATE SKIP LOCKED", "").replace(" FOR UPDATE", "")
    return statement.replace("GREATEST(", "max(")


class SQLiteStatements:
    """Runs the statements of the lanes in one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def all(self, statement: str, *parameters: object) -> list[Row]:
        return [tuple(row) for row in self._db.execute(_in_sqlite(statement), parameters)]

    def each(self, statement: str, parameters: Iterable[Sequence[object]]) -> list[list[Row]]:
        return [self.all(statement, *one) for one in parameters]


class SQLiteTables:
    """One transaction on the file. Statements stand where they are used.

    What a commit stores is gathered and written with a statement for each table, before the commit or before
    a question whose answer may depend on it: one kind of row after the other takes half the time of one
    report after the other.
    """

    def __init__(
        self,
        cursor: SQLiteCursor,
        recorder: Recorder,
        snapshots: SQLiteAggregateRecorder,
        prefix: str = "",
    ) -> None:
        self._cursor = cursor
        self._db = cursor.sqlite_cursor.connection
        self._recorder = recorder
        self._snapshots = snapshots
        self._prefix = prefix
        self._end: Position | None = None
        """The position that was given last, once somebody has asked."""
        self.heads_known: dict[StreamId, Head | None] = {}
        """Ends of streams as they are in this transaction."""
        self._moved: dict[StreamId, Head] = {}
        self._events: list[PlacedEvent] = []
        self._contents: list[Row] = []
        self._outbox: list[Row] = []
        self._rows: dict[Table, dict[Row, Row]] = {}
        self._clocks: dict[int, Row] = {}
        self._beside: list[SQLiteTables] = []
        """The same transaction with other read models."""

    @property
    def lanes(self) -> LaneTables:
        self.flush()
        return LaneTables(SQLiteStatements(self._db))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a host's own statement in the transaction; it reads nothing, and the transaction is ours."""
        refuse_transaction_control(statement)
        self.flush()
        self._db.execute(statement, parameters)

    def _one(self, statement: str, *parameters: Any) -> Row | None:
        row = self._db.execute(statement, parameters).fetchone()
        return None if row is None else tuple(row)

    def _all(self, statement: str, *parameters: Any) -> list[Row]:
        return [tuple(row) for row in self._db.execute(statement, parameters)]

    # What was gathered.

    def flush(self) -> None:
        """Write what was gathered."""
        if self._events:
            self._recorder._insert_events(self._cursor, self._events)  # noqa: SLF001 - the library's seam
            self._db.executemany("INSERT INTO contents VALUES (?, ?, ?)", self._contents)
            self._db.executemany(
                "UPDATE streams SET version = ?, hash = ? WHERE key = ?",
                [(head.version, head.hash, head.key) for head in self._moved.values()],
            )
            self._db.execute("UPDATE streams SET version = ? WHERE key = 0", (self._end,))
            self._events, self._contents, self._moved = [], [], {}
        if self._outbox:
            self._db.executemany(
                "INSERT INTO outbox (position, first_position, transaction_id, room, recorded_at, delta)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                self._outbox,
            )
            self._outbox = []
        for table, rows in self._rows.items():
            self._db.executemany(_put_statement(self._prefix, table), rows.values())
        if self._clocks:
            clocks = [(*row, key) for key, row in self._clocks.items()]
            self._db.executemany(_clocks_statement(self._prefix), clocks)
        self._rows, self._clocks = {}, {}
        for tables in self._beside:
            tables.flush()

    # The log.

    def head(self, stream: StreamId) -> Head | None:
        if stream not in self.heads_known:
            row = self._one("SELECT key, version, hash FROM streams WHERE stream = ?", stream)
            self.heads_known[stream] = Head(*row) if row else None
        return self.heads_known[stream]

    def append(self, records: Sequence[Record]) -> Sequence[Position]:
        first = self.end() + 1
        for position, record in enumerate(records, first):
            self._move_head(record)
            self._end = Position(position)
            self._events.append(
                PlacedEvent(
                    record.stream,
                    record.version,
                    record.topic,
                    record.facts,
                    position,
                    record.previous_hash,
                    record.hash,
                )
            )
            if record.content is not None:
                self._contents.append((position, record.salt, record.content))
        return [Position(position) for position in range(first, first + len(records))]

    def _move_head(self, record: Record) -> None:
        """Let the record be the last one of its stream, which may begin with it."""
        head = self.head(record.stream)
        current = head.version if head else 0
        if record.version != current + 1:
            raise VersionConflict(record.stream, record.version - 1, current)
        if head:
            moved = self._moved[record.stream] = Head(head.key, record.version, record.hash)
        else:
            begun = "INSERT INTO streams (stream, version, hash) VALUES (?, ?, ?)"
            key = self._db.execute(begun, (record.stream, record.version, record.hash)).lastrowid
            assert key is not None, "an inserted row has a key"
            moved = Head(key, record.version, record.hash)
        self.heads_known[record.stream] = moved

    def stream(self, stream: StreamId, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        self.flush()
        rows = self._db.execute(
            (_WITH_CONTENT if contents else _WITHOUT)
            + " WHERE e.originator_id = ? AND e.originator_version > ? ORDER BY e.originator_version",
            (stream, after),
        )
        return map(_stored, rows)

    def log(self, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        self.flush()
        rows = self._db.execute(
            (_WITH_CONTENT if contents else _WITHOUT)
            + " WHERE e.notification_id > ? ORDER BY e.notification_id",
            (after,),
        )
        return map(_stored, rows)

    def heads(self) -> Iterator[tuple[StreamId, Head]]:
        self.flush()
        rows = self._db.execute(
            "SELECT stream, key, version, hash FROM streams WHERE key > 0 ORDER BY stream"
        )
        return ((StreamId(row[0]), Head(row[1], row[2], row[3])) for row in rows)

    def end(self) -> Position:
        if self._end is None:
            row = self._one("SELECT version FROM streams WHERE key = 0")
            self._end = Position(row[0] if row else 0)
        return self._end

    def stores(self) -> Sequence[tuple[int, str]]:
        rows = self._all("SELECT from_position, store_id FROM stores ORDER BY from_position")
        return [(row[0], row[1]) for row in rows]

    def put_store(self, from_position: int, store_id: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO stores VALUES (?, ?)", (from_position, store_id))

    def content(self, position: Position) -> bytes | None:
        self.flush()
        row = self._one("SELECT content FROM contents WHERE position = ?", position)
        return row[0] if row else None

    def erase(self, stream: StreamId) -> None:
        self.flush()
        self._db.execute(
            "DELETE FROM contents WHERE position IN"
            " (SELECT notification_id FROM stored_events WHERE originator_id = ?)",
            (stream,),
        )

    # The outbox and what is remembered.

    def put_outbox(self, row: OutboxRow) -> None:
        self._outbox.append(
            (row.last_position, row.first_position, row.transaction, row.room, row.recorded_at, row.delta)
        )

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]:
        self.flush()
        rows = self._all(f"{_OUTBOX} WHERE position > ? ORDER BY position LIMIT ?", after, limit)
        return [_outbox_row(row) for row in rows]

    def outbox_at(self, position: int) -> OutboxRow | None:
        self.flush()
        row = self._one(f"{_OUTBOX} WHERE position = ?", position)
        return _outbox_row(row) if row else None

    def outbox_row(self, transaction: TransactionId) -> OutboxRow | None:
        self.flush()
        row = self._one(f"{_OUTBOX} WHERE transaction_id = ? ORDER BY position DESC LIMIT 1", transaction)
        return _outbox_row(row) if row else None

    def remembered(self, key: str, now: int) -> Answered | None:
        if (key,) in self._rows.get(COMMANDS, {}):
            self.flush()
        row = self._one(
            "SELECT digest, answer, position FROM commands WHERE key = ? AND expires_at > ?", key, now
        )
        return Answered(*row) if row else None

    def remember(self, key: str, stream: StreamId, said: Answered, now: int, expires_at: int) -> None:
        if COMMANDS not in self._rows:
            self._db.execute(
                "DELETE FROM commands WHERE key IN (SELECT key FROM commands WHERE expires_at <= ? LIMIT ?)",
                (now, FORGET_ROWS_MAX),
            )
        self.put(COMMANDS, (key, stream, said.digest, said.answer, said.position, expires_at))

    def forget(self, stream: StreamId) -> None:
        self.flush()
        self._db.execute("DELETE FROM commands WHERE stream = ?", (stream,))

    # Snapshots.

    def snapshot(self, stream: StreamId) -> tuple[int, bytes] | None:
        row = self._one(
            "SELECT originator_version, state FROM snapshots WHERE originator_id = ?"
            " ORDER BY originator_version DESC LIMIT 1",
            stream,
        )
        return (row[0], row[1]) if row else None

    def put_snapshot(self, stream: StreamId, version: int, state: bytes) -> None:
        newest = self.snapshot(stream)
        if newest and newest[0] >= version:
            return
        self._db.execute("DELETE FROM snapshots WHERE originator_id = ?", (stream,))
        snapshot = StoredEvent(stream, version, "snapshot", state)
        self._snapshots._insert_events(self._cursor, [snapshot])  # noqa: SLF001 - the library's seam

    # Deliveries.

    def put_subscription(self, name: str, after: int) -> None:
        self._db.execute("INSERT OR IGNORE INTO subscriptions VALUES (?, ?, -1)", (name, after))

    def subscriptions(self) -> Sequence[str]:
        return [row[0] for row in self._all("SELECT name FROM subscriptions ORDER BY name")]

    def pending(self, name: str, after: int, limit: int) -> Sequence[OutboxRow]:
        self.flush()
        rows = self._all(
            "SELECT o.transaction_id, o.room, o.first_position, o.position, o.recorded_at, o.delta"
            " FROM subscriptions s JOIN outbox o ON o.position > max(s.after, ?)"
            " LEFT JOIN lanes l ON l.name = s.name AND l.room = o.room"
            " WHERE s.name = ? AND o.position > coalesce(l.position, 0)"
            " ORDER BY o.position LIMIT ?",
            after,
            name,
            limit,
        )
        return [_outbox_row(row) for row in rows]

    def put_lane(self, name: str, room: str, position: int, attempts: int, error: str, at: int) -> None:
        self._db.execute(
            "INSERT INTO lanes (name, room, position, attempts, error, at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (name, room) DO UPDATE SET"
            " position = max(position, excluded.position), attempts = excluded.attempts,"
            " error = excluded.error, at = excluded.at",
            (name, room, position, attempts, error, at),
        )

    def lane(self, name: str, room: str) -> tuple[int, int, str] | None:
        row = self._one("SELECT position, attempts, error FROM lanes WHERE name = ? AND room = ?", name, room)
        return (row[0], row[1], row[2]) if row else None

    def outbox_end(self) -> int:
        self.flush()
        row = self._one("SELECT max(position) FROM outbox")
        return (row and row[0]) or 0

    # Read models.

    def get(self, table: Table, *keys: Any) -> Row | None:
        gathered = self._rows.get(table, {}).get(keys)
        if gathered is not None:
            return gathered
        if table is SESSIONS and keys[0] in self._clocks:
            self.flush()
        return self._one(_get_statement(self._prefix, table), *keys)

    def put(self, table: Table, row: Row) -> None:
        self._rows.setdefault(table, {})[row[: table.keys]] = row
        if table is SESSIONS:
            self._clocks.pop(row[0], None)

    def put_clocks(self, key: int, clocks: Row) -> None:
        row = self._rows.get(SESSIONS, {}).get((key,))
        if row is None:
            self._clocks[key] = clocks
        else:
            self._rows[SESSIONS][key,] = (*row[: -len(CLOCKS)], *clocks)

    def remove_session(self, key: int) -> None:
        self.flush()
        for prefix in (self._prefix, *(f"{name}_" for name in self._shadows())):
            for table in READ_MODELS:
                self._db.execute(f"DELETE FROM {prefix}{table.name} WHERE key = ?", (key,))

    def rows(self, table: Table) -> Iterator[Row]:
        self.flush()
        order = ", ".join(table.columns[: table.keys])
        return map(tuple, self._db.execute(f"SELECT * FROM {self._prefix}{table.name} ORDER BY {order}"))

    def _select(self, table: Table, rest: str, *parameters: Any) -> list[Row]:
        self.flush()
        return self._all(f"SELECT * FROM {self._prefix}{table.name} {rest}", *parameters)

    def session_by_id(self, room: str, session: str) -> Row | None:
        found = self._select(SESSIONS, "WHERE room = ? AND session = ?", room, session)
        return found[0] if found else None

    def sessions(
        self, room: str | None, *, deleted: bool, after: Listed | None, limit: int | None
    ) -> Sequence[Row]:
        # The sign keeps SQLite from collecting all sessions of the room to sort them.
        rest, parameters = listing("?", room, after, limit, deleted=deleted, column="+room")
        return self._select(SESSIONS, rest, *parameters)

    def rooms(self, after: str, limit: int) -> Sequence[Row]:
        return self._all(
            f"SELECT room, COUNT(*), MAX(updated_at) FROM {self._prefix}sessions"
            " WHERE is_deleted = 0 AND room > ? GROUP BY room ORDER BY room LIMIT ?",
            after,
            limit,
        )

    def rooms_of(self, session: str) -> Sequence[str]:
        return [row[1] for row in self._select(SESSIONS, "WHERE session = ? ORDER BY room", session)]

    def tree(self, room: str, root: str) -> Sequence[Row]:
        return self._select(SESSIONS, "WHERE room = ? AND root_session = ? ORDER BY session", room, root)

    def live_sessions(self, room: str) -> Sequence[Row]:
        return self._select(SESSIONS, "WHERE room = ? AND is_live ORDER BY session", room)

    def by_provider_session(self, room: str, provider_session_id: str) -> Sequence[Row]:
        return self._select(
            SESSIONS, "WHERE room = ? AND provider_session_id = ? ORDER BY session", room, provider_session_id
        )

    def aggregates(self, kind: str) -> Sequence[Row]:
        return self._select(AGGREGATES, "WHERE kind = ? ORDER BY name", kind)

    def turns(self, key: int) -> Sequence[Row]:
        return self._select(TURNS, "WHERE key = ? ORDER BY turn_id", key)

    def interactions(self, key: int, turn_id: str | None = None) -> Sequence[Row]:
        if turn_id is None:
            return self._select(INTERACTIONS, "WHERE key = ? ORDER BY turn_id, request_id", key)
        return self._select(INTERACTIONS, "WHERE key = ? AND turn_id = ? ORDER BY request_id", key, turn_id)

    def open_tools(self, key: int, turn_id: str) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = ? AND turn_id = ? AND is_open_tool ORDER BY sequence", key, turn_id
        )

    def last_assistant_text(self, key: int, turn_id: str, after: int) -> Row | None:
        # Newest first, so it seldom looks at more than a few rows; an index would cost every commit a page.
        found = self._select(
            MESSAGES,
            "WHERE key = ? AND version > ? AND turn_id = ? AND is_text ORDER BY version DESC LIMIT 1",
            key,
            after,
            turn_id,
        )
        return found[0] if found else None

    def messages_of(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        gathered = self._rows.get(MESSAGES, {})
        found = [row for one in message_ids if (row := gathered.get((key, one)))]
        asked = [one for one in message_ids if (key, one) not in gathered]
        for start in range(0, len(asked), PARTS_BATCH):
            batch = asked[start : start + PARTS_BATCH]
            found += self._all(_messages_statement(self._prefix, len(batch)), key, *batch)
        return found

    def messages_after(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = ? AND version > ? ORDER BY version LIMIT ?", key, version, limit
        )

    def messages_before(self, key: int, version: int, limit: int) -> Sequence[Row]:
        return self._select(
            MESSAGES, "WHERE key = ? AND version < ? ORDER BY version DESC LIMIT ?", key, version, limit
        )

    def parts(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        marks = ",".join("?" * len(message_ids))
        return self._select(PARTS, f"WHERE key = ? AND message_id IN ({marks})", key, *message_ids)

    def part_records(self, positions: Sequence[int]) -> Sequence[StoredRecord]:
        self.flush()
        found: list[StoredRecord] = []
        for start in range(0, len(positions), PARTS_BATCH):
            batch = positions[start : start + PARTS_BATCH]
            marks = ",".join("?" * len(batch))
            rows = self._db.execute(
                f"{_WITH_CONTENT} WHERE e.notification_id IN ({marks}) ORDER BY e.notification_id", batch
            )
            found.extend(map(_stored, rows))
        return found

    # Read models beside the live ones.

    def shadow(self, name: str = "") -> "SQLiteTables":
        if name:
            self._run(read_models(f"{_SHADOW}{name}_"))
            return self._with(f"{_SHADOW}{name}_")
        self._drop("temp.checked_")
        self._run(temporary_read_models("checked_"))
        return self._with("temp.checked_")

    def reopen_shadow(self, name: str) -> "SQLiteTables":
        if f"{_SHADOW}{name}" not in self._shadows():
            raise StoreBusy("another rebuild was done in the meantime; the read models are fresh")
        return self._with(f"{_SHADOW}{name}_")

    def swap_shadow(self, name: str) -> None:
        self.flush()
        self._drop("")
        for table in READ_MODELS:
            self._db.execute(f"ALTER TABLE {_SHADOW}{name}_{table.name} RENAME TO {table.name}")
        self._run(indexes())
        for leftover in self._shadows():
            self._drop(f"{leftover}_")

    def _shadows(self) -> list[str]:
        """Read models that are being made anew, or were when a process died."""
        ending = f"_{SESSIONS.name}"
        rows = self._all("SELECT name FROM sqlite_master WHERE name GLOB ?", f"{_SHADOW}*{ending}")
        return [row[0].removesuffix(ending) for row in rows]

    def _with(self, prefix: str) -> "SQLiteTables":
        self.flush()
        other = SQLiteTables(self._cursor, self._recorder, self._snapshots, prefix)
        self._beside.append(other)
        return other

    def _drop(self, prefix: str) -> None:
        self._run(";".join(f"DROP TABLE IF EXISTS {prefix}{table.name}" for table in READ_MODELS))

    def _run(self, script: str) -> None:
        for statement in script.split(";"):
            self._db.execute(statement)
