"""The store in memory: the same tables as dictionaries, for tests and for trying things out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, RLock
from typing import Any
from uuid import uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.popo import POPOApplicationRecorder

from application.ports import Listed
from domain.errors import StoreBusy, VersionConflict
from domain.ids import Position, StreamId, TransactionId
from infrastructure.store.lane_tables import LaneTables
from infrastructure.store.memory_lanes import NEW_LANE, MemoryLanes
from infrastructure.store.records import Record
from infrastructure.store.tables import (
    AGGREGATES,
    COMMANDS,
    INTERACTIONS,
    LANES,
    MESSAGES,
    OPERATIONS,
    PARTS,
    READ_MODELS,
    SESSIONS,
    SUBSCRIPTIONS,
    TRIMS,
    TURNS,
    Answered,
    Head,
    OutboxRow,
    Row,
    StoredRecord,
    Table,
)

Models = dict[str, dict[Row, Row]]
Undo = list[Callable[[], None]]


class _Recorder(POPOApplicationRecorder):
    """The library's recorder, which can forget the end of its list when a transaction fails."""

    def truncate(self, length: int) -> None:
        for stored in self._stored_events[length:]:
            del self._stored_events_index[str(stored.originator_id)][stored.originator_version]
        del self._stored_events[length:]


def _empty_operations() -> Models:
    operations: Models = {table.name: {} for table in OPERATIONS}
    operations[TRIMS.name][("outbox",)] = ("outbox", 0)
    return operations


def _empty_models() -> Models:
    return {table.name: {} for table in READ_MODELS}


@dataclass
class _Data:
    """Everything that is kept."""

    recorder: _Recorder = field(default_factory=_Recorder)
    records: list[Record] = field(default_factory=list)
    contents: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    heads: dict[StreamId, Head] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    stores: dict[int, str] = field(default_factory=dict)
    snapshots: dict[StreamId, tuple[int, bytes]] = field(default_factory=dict)
    operations: Models = field(default_factory=_empty_operations)
    models: Models = field(default_factory=_empty_models)
    rebuilt: dict[str, Models] = field(default_factory=dict)


class MemoryDatabase:
    """A store that lives as long as the process."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        self.store_id = str(uuid4())
        self._data = _Data(stores={1: self.store_id})
        self._lock = RLock()
        self.committed = Condition(self._lock)
        self.commits = 0

    @contextmanager
    def write(self) -> Iterator["MemoryTables"]:
        """One writing transaction: what it did is undone when it fails."""
        with self._lock:
            undo: Undo = []
            try:
                yield MemoryTables(self._data, undo, self._data.models)
            except BaseException:
                for step in reversed(undo):
                    step()
                raise
            self.commits += 1
            self.committed.notify_all()

    @contextmanager
    def operate(self) -> Iterator[LaneTables]:
        """One transaction on the lanes."""
        with self.write() as tables:
            yield tables.lanes

    @contextmanager
    def read(self) -> Iterator["MemoryTables"]:
        """One consistent view."""
        with self._lock:
            yield MemoryTables(self._data, [], self._data.models)

    def watch(self) -> "MemoryWatch":
        return MemoryWatch(self)

    def schemas(self) -> tuple[int, int]:
        return 1, 1

    def close(self) -> None:
        """Nothing to close."""


class MemoryWatch:
    """Waits for the next transaction that ends well."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._seen = database.commits

    def wait(self, timeout_s: float) -> None:
        with self._database.committed:
            self._database.committed.wait_for(lambda: self._database.commits != self._seen, timeout_s)
            self._seen = self._database.commits

    def close(self) -> None:
        """Nothing to close."""


def _set(table: dict[Any, Any], key: Any, value: Any, undo: Undo) -> None:
    if key in table:
        before = table[key]
        undo.append(lambda: table.__setitem__(key, before))
    else:
        undo.append(lambda: table.pop(key, None))
    table[key] = value


def _remove(table: dict[Any, Any], key: Any, undo: Undo) -> None:
    before = table.pop(key)
    undo.append(lambda: table.__setitem__(key, before))


class MemoryTables:
    """One transaction on the dictionaries."""

    def __init__(self, data: _Data, undo: Undo, models: Models) -> None:
        self._data = data
        self._undo = undo
        self._models = models

    @property
    def lanes(self) -> LaneTables:
        return MemoryLanes(self)

    def remove_outbox(self, position: int) -> None:
        """Take a row out of the outbox."""
        _remove(self._data.outbox, position, self._undo)

    def remove(self, table: Table, keys: Row) -> None:
        """Take a row out of a table that is no read model."""
        _remove(self._rows(table), keys, self._undo)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        raise NotImplementedError("a participant needs a store with a database; use sqlite:///")

    # The log.

    def head(self, stream: StreamId) -> Head | None:
        return self._data.heads.get(stream)

    def append(self, records: Sequence[Record]) -> Sequence[Position]:
        before = len(self._data.records)
        heads = self._data.heads
        for record in records:
            head = heads.get(record.stream)
            current = head.version if head else 0
            if record.version != current + 1:
                raise VersionConflict(record.stream, record.version - 1, current)
            key = head.key if head else len(heads) + 1
            _set(heads, record.stream, Head(key, record.version, record.hash), self._undo)
        stored = [StoredEvent(one.stream, one.version, one.topic, one.facts) for one in records]
        self._undo.append(lambda: self._data.recorder.truncate(before))
        positions = self._data.recorder.insert_events(stored)
        assert positions is not None
        self._undo.append(lambda: self._data.records.__delitem__(slice(before, None)))
        self._data.records.extend(records)
        for position, record in zip(positions, records, strict=True):
            if record.content is not None:
                _set(self._data.contents, position, (record.salt, record.content), self._undo)
        return [Position(position) for position in positions]

    def _record(self, position: int, *, contents: bool) -> StoredRecord:
        one = self._data.records[position - 1]
        salt, content = self._data.contents.get(position, (b"", None)) if contents else (b"", None)
        record = Record(
            one.stream, one.version, one.topic, one.facts, one.previous_hash, one.hash, salt, content
        )
        return StoredRecord(Position(position), record)

    def stream(self, stream: StreamId, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        for position, one in enumerate(list(self._data.records), start=1):
            if one.stream == stream and one.version > after:
                yield self._record(position, contents=contents)

    def log(self, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        for position in range(after + 1, len(self._data.records) + 1):
            yield self._record(position, contents=contents)

    def heads(self) -> Iterator[tuple[StreamId, Head]]:
        return iter(sorted(self._data.heads.items()))

    def end(self) -> Position:
        return Position(len(self._data.records))

    def stores(self) -> Sequence[tuple[int, str]]:
        return sorted(self._data.stores.items())

    def put_store(self, from_position: int, store_id: str) -> None:
        for elsewhere in [at for at, known in self._data.stores.items() if known == store_id]:
            _remove(self._data.stores, elsewhere, self._undo)
        _set(self._data.stores, from_position, store_id, self._undo)

    def content(self, position: Position) -> bytes | None:
        return self._data.contents.get(position, (b"", None))[1]

    def erase(self, stream: StreamId) -> None:
        for position, one in enumerate(self._data.records, start=1):
            if one.stream == stream and position in self._data.contents:
                _remove(self._data.contents, position, self._undo)

    # The outbox and what is remembered.

    def put_outbox(self, row: OutboxRow) -> None:
        _set(self._data.outbox, row.last_position, row, self._undo)

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]:
        return [row for position, row in sorted(self._data.outbox.items()) if position > after][:limit]

    def outbox_at(self, position: int) -> OutboxRow | None:
        return self._data.outbox.get(position)

    def outbox_row(self, transaction: TransactionId) -> OutboxRow | None:
        return next((row for row in self._data.outbox.values() if row.transaction == transaction), None)

    def remembered(self, key: str, now: int) -> Answered | None:
        row = self.get(COMMANDS, key)
        return Answered(*row[2:5]) if row and row[5] > now else None

    def remember(self, key: str, stream: StreamId, said: Answered, now: int, expires_at: int) -> None:
        self._forget(lambda row: bool(row[5] <= now))
        self.put(COMMANDS, (key, stream, said.digest, said.answer, said.position, expires_at))

    def forget(self, stream: StreamId) -> None:
        self._forget(lambda row: bool(row[1] == stream))

    def _forget(self, is_meant: Callable[[Row], bool]) -> None:
        commands = self._data.operations[COMMANDS.name]
        for keys in [keys for keys, row in commands.items() if is_meant(row)]:
            _remove(commands, keys, self._undo)

    # Snapshots.

    def snapshot(self, stream: StreamId) -> tuple[int, bytes] | None:
        return self._data.snapshots.get(stream)

    def put_snapshot(self, stream: StreamId, version: int, state: bytes) -> None:
        newest = self.snapshot(stream)
        if newest is None or newest[0] < version:
            _set(self._data.snapshots, stream, (version, state), self._undo)

    # Deliveries.

    def put_subscription(self, name: str, after: int) -> None:
        if not self.get(SUBSCRIPTIONS, name):
            self.put(SUBSCRIPTIONS, (name, after, -1))

    def subscriptions(self) -> Sequence[str]:
        return [row[0] for row in self.rows(SUBSCRIPTIONS)]

    def pending(self, name: str, after: int, limit: int) -> Sequence[OutboxRow]:
        subscription = self.get(SUBSCRIPTIONS, name)
        if not subscription:
            return []
        after = max(after, subscription[1])
        rows = [row for position, row in sorted(self._data.outbox.items()) if position > after]
        return [row for row in rows if row.last_position > self._handed_over(name, row.room)][:limit]

    def _handed_over(self, name: str, room: str) -> int:
        lane = self.lane(name, room)
        return lane[0] if lane else 0

    def put_lane(self, name: str, room: str, position: int, attempts: int, error: str, at: int) -> None:
        position = max(position, self._handed_over(name, room))
        rest = (self.get(LANES, name, room) or (*[""] * 6, *NEW_LANE))[6:]
        self.put(LANES, (name, room, position, attempts, error, at, *rest))

    def lane(self, name: str, room: str) -> tuple[int, int, str] | None:
        row = self.get(LANES, name, room)
        return (row[2], row[3], row[4]) if row else None

    def outbox_end(self) -> int:
        return max(self._data.outbox, default=0)

    # Read models.

    def _rows(self, table: Table) -> dict[Row, Row]:
        return (self._data.operations if table in OPERATIONS else self._models)[table.name]

    def get(self, table: Table, *keys: Any) -> Row | None:
        return self._rows(table).get(keys)

    def put(self, table: Table, row: Row) -> None:
        _set(self._rows(table), row[: table.keys], row, self._undo)

    def put_clocks(self, key: int, clocks: Row) -> None:
        row = self._models[SESSIONS.name][(key,)]
        self.put(SESSIONS, (*row[: -len(clocks)], *clocks))

    def remove_session(self, key: int) -> None:
        for models in (self._models, *self._data.rebuilt.values()):
            for rows in models.values():
                for keys in [keys for keys in rows if keys[0] == key]:
                    _remove(rows, keys, self._undo)

    def rows(self, table: Table) -> Iterator[Row]:
        rows = self._rows(table)
        return iter([rows[keys] for keys in sorted(rows)])

    def _where(self, table: Table, **wanted: Any) -> list[Row]:
        columns = [(table.columns.index(name), value) for name, value in wanted.items()]
        return [row for row in self.rows(table) if all(row[at] == value for at, value in columns)]

    def session_by_id(self, room: str, session: str) -> Row | None:
        return next(iter(self._where(SESSIONS, room=room, session=session)), None)

    def sessions(
        self, room: str | None, *, deleted: bool, after: Listed | None, limit: int | None
    ) -> Sequence[Row]:
        rows = self.rows(SESSIONS) if room is None else self._where(SESSIONS, room=room)
        placed = sorted(((-row[9], row[1], row[2]), row) for row in rows if deleted or not row[8])
        if after is not None:
            place = (-after[0], *after[1:])
            placed = [one for one in placed if one[0] > place]
        return [row for _, row in placed][:limit]

    def rooms(self, after: str, limit: int) -> Sequence[Row]:
        times: dict[str, list[int]] = {}
        for row in self.rows(SESSIONS):
            if row[1] > after and not row[8]:
                times.setdefault(row[1], []).append(row[9])
        return [(room, len(times[room]), max(times[room])) for room in sorted(times)][:limit]

    def rooms_of(self, session: str) -> Sequence[str]:
        return sorted(row[1] for row in self._where(SESSIONS, session=session))

    def tree(self, room: str, root: str) -> Sequence[Row]:
        return sorted(self._where(SESSIONS, room=room, root_session=root), key=lambda row: row[2])

    def live_sessions(self, room: str) -> Sequence[Row]:
        return sorted(self._where(SESSIONS, room=room, is_live=1), key=lambda row: row[2])

    def by_provider_session(self, room: str, provider_session_id: str) -> Sequence[Row]:
        found = self._where(SESSIONS, room=room, provider_session_id=provider_session_id)
        return sorted(found, key=lambda row: row[2])

    def aggregates(self, kind: str) -> Sequence[Row]:
        return sorted(self._where(AGGREGATES, kind=kind), key=lambda row: row[2])

    def turns(self, key: int) -> Sequence[Row]:
        return self._where(TURNS, key=key)

    def interactions(self, key: int, turn_id: str | None = None) -> Sequence[Row]:
        wanted = {"key": key} if turn_id is None else {"key": key, "turn_id": turn_id}
        return self._where(INTERACTIONS, **wanted)

    def open_tools(self, key: int, turn_id: str) -> Sequence[Row]:
        found = self._where(MESSAGES, key=key, turn_id=turn_id, is_open_tool=1)
        return sorted(found, key=lambda row: row[4])

    def last_assistant_text(self, key: int, turn_id: str, after: int) -> Row | None:
        found = [row for row in self._where(MESSAGES, key=key, turn_id=turn_id, is_text=1) if row[2] > after]
        return max(found, key=lambda row: row[2], default=None)

    def messages_of(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        rows = (self.get(MESSAGES, key, message) for message in message_ids)
        return [row for row in rows if row]

    def messages_after(self, key: int, version: int, limit: int) -> Sequence[Row]:
        rows = sorted(self._where(MESSAGES, key=key), key=lambda row: row[2])
        return [row for row in rows if row[2] > version][:limit]

    def messages_before(self, key: int, version: int, limit: int) -> Sequence[Row]:
        rows = sorted(self._where(MESSAGES, key=key), key=lambda row: -row[2])
        return [row for row in rows if row[2] < version][:limit]

    def parts(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        return [row for row in self._where(PARTS, key=key) if row[1] in message_ids]

    def part_records(self, positions: Sequence[int]) -> Sequence[StoredRecord]:
        return [self._record(position, contents=True) for position in sorted(positions)]

    # Read models beside the live ones.

    def shadow(self, name: str = "") -> "MemoryTables":
        models = _empty_models()
        if name:
            self._data.rebuilt[name] = models
        return MemoryTables(self._data, self._undo, models)

    def reopen_shadow(self, name: str) -> "MemoryTables":
        if name not in self._data.rebuilt:
            raise StoreBusy("another rebuild was done in the meantime; the read models are fresh")
        return MemoryTables(self._data, self._undo, self._data.rebuilt[name])

    def swap_shadow(self, name: str) -> None:
        self._data.models = self._data.rebuilt[name]
        self._data.rebuilt.clear()
