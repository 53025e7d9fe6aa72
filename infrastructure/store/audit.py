"""Reads the whole log again: to make the read models anew, and to check that everything fits."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, cast
from uuid import uuid4

from application.ports import Problem, Verification
from domain.delta import Committed, delta_of
from domain.errors import StoreError
from domain.ids import Position, StreamId
from domain.session import Purged, Session, SessionEvent
from domain.work import Draft, Work
from infrastructure.store.aggregates import FoldedAggregates
from infrastructure.store.records import GENESIS, Envelope, Opened, check, unseal
from infrastructure.store.rows import StoredRows, session_of, write_rows
from infrastructure.store.tables import READ_MODELS, SESSIONS, Database, OutboxRow, StoredRecord, Tables
from infrastructure.store.view import state_before

BATCH_EVENTS: Final = 2_000
"""Events folded in one transaction of a rebuild."""
OUTBOX_ROWS: Final = 1_000
"""Outbox rows read in one statement."""
PROBLEMS_MAX: Final = 100
"""Problems that `verify` names; there may be more behind them."""
_BEHIND_ALL: Final = 2**63 - 1
"""A position that no event has."""


@dataclass
class _Folded:
    """One session being folded again, and the events that its rows do not have yet."""

    draft: Draft
    key: int
    placed: list[tuple[Position, SessionEvent]] = field(default_factory=list)


class Refold:
    """Folds the log into read models, with the very functions that folded it the first time."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._folded: dict[StreamId, _Folded] = {}
        self._aggregates = FoldedAggregates()

    def apply(self, stored: StoredRecord, opened: Opened) -> None:
        """Fold one event."""
        if opened.envelope.key:
            self._aggregates.apply(self.tables, stored, opened)
            return
        stream = stored.record.stream
        folded = self._folded.get(stream)
        if folded is None:
            folded = self._folded[stream] = self._load(stored, opened.envelope)
        folded.draft.work.now = opened.envelope.recorded_at
        event = cast("SessionEvent", opened.event)
        folded.draft.add(event)
        folded.placed.append((stored.position, event))

    def _load(self, stored: StoredRecord, envelope: Envelope) -> _Folded:
        stream = stored.record.stream
        head = self.tables.head(stream)
        key = head.key if head else 0
        row = self.tables.get(SESSIONS, key)
        # Only children have named a session without a row, or its content was purged.
        state = (
            session_of(row)
            if row
            else state_before(self.tables, envelope.room, envelope.session, stored.record.version)
        )
        work = Work(envelope.room, envelope.recorded_at, _loads_nothing)
        return _Folded(Draft(state, StoredRows(self.tables, key), work), key)

    def flush(self) -> None:
        """Write the rows of all that was folded."""
        for folded in self._folded.values():
            write_rows(self.tables, folded.key, folded.draft, folded.placed)
        self._folded.clear()
        self._aggregates.flush(self.tables)


def _loads_nothing(*_: object) -> tuple[Session, StoredRows]:
    raise AssertionError("folding loads no other session")


def rebuild(database: Database) -> int:
    """Make the read models anew beside the live ones, then swap; the number of events read.

    Writers go on meanwhile and wait for one batch at the most. Rebuilds may overlap: the first one done
    swaps, the others are told so with StoreBusy.
    """
    name = uuid4().hex
    with database.write() as tables:
        refold = Refold(tables.shadow(name))
    position = read = 0
    while True:
        with database.write() as tables:
            refold.tables = tables.reopen_shadow(name)
            batch = 0
            for stored in tables.log(position, contents=True):
                refold.apply(stored, _opened(stored))
                position, batch = stored.position, batch + 1
                if batch == BATCH_EVENTS:
                    break
            refold.flush()
            read += batch
            if batch < BATCH_EVENTS:
                tables.swap_shadow(name)
                return read


def _opened(stored: StoredRecord) -> Opened:
    return unseal(stored.record.topic, stored.record.facts, stored.record.content)


def _outbox_rows(tables: Tables) -> Iterator[OutboxRow]:
    after = Position(0)
    while page := tables.outbox(after, OUTBOX_ROWS):
        yield from page
        after = page[-1].last_position


class _Audit:
    """What `verify` has found so far."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.problems: list[Problem] = []
        self.ends: dict[StreamId, tuple[int, bytes]] = {}
        self.events = 0
        self.outbox = 0
        self._commit: list[tuple[StoredRecord, Opened]] = []
        self._purged: set[StreamId] = set()
        self._rows = _outbox_rows(tables)
        self._row = next(self._rows, None)
        self._trimmed = tables.lanes.trimmed()

    def problem(self, where: str, what: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(where, what))

    def read(self, stored: StoredRecord) -> Opened | None:
        """Check one event against its bytes and the one before it."""
        record = stored.record
        where = f"position {stored.position}, {record.stream} version {record.version}"
        self.events += 1
        version, previous = self.ends.get(record.stream, (0, GENESIS))
        if record.version != version + 1:
            self.problem(where, f"follows version {version}: an event is missing")
        if record.previous_hash != previous:
            self.problem(where, "its link does not fit the event before it")
        self.ends[record.stream] = (record.version, record.hash)
        try:
            opened = _opened(stored)
        except StoreError as error:
            self.problem(where, str(error))
            return None
        if wrong := check(record, opened):
            self.problem(where, wrong)
        if isinstance(opened.event, Purged):
            self._purged.add(record.stream)
        return opened

    def commit(self, stored: StoredRecord, opened: Opened) -> None:
        """Collect a commit; when it is whole, compare its delta with the outbox."""
        self._commit.append((stored, opened))
        if opened.envelope.index == 0 and len(self._commit) > 1:
            self.problem(f"position {stored.position}", "the commit before it is not whole")
            self._commit = [(stored, opened)]
        if len(self._commit) == opened.envelope.count:
            self._compare_delta()
            self._commit = []

    def _compare_delta(self) -> None:
        (first, opened_first), (last, _) = self._commit[0], self._commit[-1]
        envelope = opened_first.envelope
        events = [
            Committed(
                opened.envelope.session,
                stored.record.version,
                stored.position,
                cast("SessionEvent", opened.event),
            )
            for stored, opened in self._commit
            if not opened.envelope.key
        ]
        delta = delta_of(envelope.transaction, envelope.room, events)
        row = self._outbox_at(last.position)
        where = f"transaction {envelope.transaction}"
        if delta is None or row is None:
            if delta is not None and last.position > self._trimmed:
                self.problem(where, "its delta is missing from the outbox")
            if row is not None:
                self.problem(where, "the outbox has a delta, its events make none")
            return
        self.outbox += 1
        expected = OutboxRow(
            envelope.transaction,
            envelope.room,
            first.position,
            last.position,
            envelope.recorded_at,
            delta.to_json(),
        )
        if row != expected:
            self.problem(where, "its delta in the outbox is not the one its events make")

    def erased(self, stored: StoredRecord, opened: Opened) -> None:
        """Content may be gone only after a purge of the session."""
        missing = bool(opened.content_length) and stored.record.content is None
        if missing and stored.record.stream not in self._purged and not self._is_purged(stored.record.stream):
            self.problem(f"position {stored.position}", "its content is gone, but nothing was purged")

    def _is_purged(self, stream: StreamId) -> bool:
        if any(one.record.topic == Purged.TOPIC for one in self.tables.stream(stream)):
            self._purged.add(stream)
            return True
        return False

    def heads(self) -> int:
        """Compare the streams' heads with the events; the number of streams."""
        streams = 0
        for stream, head in self.tables.heads():
            streams += 1
            if self.ends.pop(stream, (0, GENESIS)) != (head.version, head.hash):
                self.problem(str(stream), "its head does not fit its last event: the end was cut off")
        for stream in self.ends:
            self.problem(str(stream), "it has events and no head")
        return streams

    def log_end(self, last: Position) -> None:
        """The end of the log is where the last position was given."""
        if last != self.tables.end():
            where = f"position {self.tables.end()}"
            self.problem(where, f"the log ends at position {last}: the end was cut off")

    def _outbox_at(self, position: int) -> OutboxRow | None:
        """The outbox row that stands at the end of a commit; names those before it that belong to none."""
        while self._row and self._row.last_position < position:
            what = "its delta is in the outbox, its events are not in the log"
            self.problem(f"transaction {self._row.transaction}", what)
            self._row = next(self._rows, None)
        found = self._row
        if found is None or found.last_position != position:
            return None
        self._row = next(self._rows, None)
        return found

    def outbox_end(self) -> None:
        """Name the rows that stand behind the last commit."""
        self._outbox_at(_BEHIND_ALL)

    def models(self, expected: Tables) -> None:
        """Compare the read models with freshly folded ones, row by row."""
        for table in READ_MODELS:
            for live, folded in zip_longest(self.tables.rows(table), expected.rows(table)):
                if live != folded:
                    odd = live or folded
                    assert odd is not None
                    keys = ", ".join(map(str, odd[: table.keys]))
                    self.problem(f"{table.name} {keys}", "the row is not what the log folds to; run rebuild")
                    break


def verify(database: Database) -> Verification:
    """Check streams, hashes, contents, outbox and read models; writes nothing (SPEC A3)."""
    with database.read() as tables:
        audit = _Audit(tables)
        refold = Refold(tables.shadow())
        last = Position(0)
        for count, stored in enumerate(tables.log(contents=True), start=1):
            last = stored.position
            opened = audit.read(stored)
            if opened is None:
                continue
            audit.commit(stored, opened)
            audit.erased(stored, opened)
            _fold_if_whole(audit, refold, stored, opened)
            if count % BATCH_EVENTS == 0:
                refold.flush()
        refold.flush()
        audit.log_end(last)
        streams = audit.heads()
        audit.outbox_end()
        if not audit.problems:
            audit.models(refold.tables)
        return Verification(streams, audit.events, audit.outbox, tuple(audit.problems))


def _fold_if_whole(audit: _Audit, refold: Refold, stored: StoredRecord, opened: Opened) -> None:
    """Fold on while nothing is wrong; a damaged log folds to nothing worth comparing."""
    if not audit.problems:
        refold.apply(stored, opened)
