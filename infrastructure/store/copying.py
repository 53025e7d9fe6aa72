"""Copies a store into another database: events byte for byte at their positions, hashes checked on the way.

What has been copied is the source as it once was, at any time: each transaction takes whole commits with
their read models and deltas. So a copy that was cut off goes on where it ended, and one that was done takes
over what has come since. Only content that the source has destroyed is missing from the start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from domain.errors import DamagedStore, StoreError
from domain.ids import Position, StreamId
from domain.session import Purged
from infrastructure.store.audit import Refold
from infrastructure.store.records import GENESIS, Opened, check, unseal
from infrastructure.store.tables import OPERATIONS, Database, OutboxRow, StoredRecord, Tables

CHUNK_EVENTS: Final = 2_000
"""Events copied in one transaction, and the rest of their last commit."""

Chunk = list[tuple[StoredRecord, Opened]]


@dataclass(frozen=True)
class Copied:
    """What a copy has come to."""

    events: int
    """Copied this time."""
    end: Position
    """The last position, now in both stores."""
    store_id: str
    """The new store's own, with which its next transaction ids are made."""


def copy(source: Database, target: Database, progress: Callable[[int], object] = lambda _: None) -> Copied:
    """Copy all that the target does not have; `progress` is told how many events each step copied.

    Raises StoreError when the target has events of its own, and DamagedStore when what is read does not fit
    its hashes; what was copied before stays.
    """
    end = _common_end(source, target)
    copied = 0
    while True:
        with source.read() as there:
            chunk, deltas = _read(there, end)
            stores = there.stores()
            operations = [] if chunk else [(table, list(there.rows(table))) for table in OPERATIONS]
        with target.write() as here:
            if here.end() != end:
                raise StoreError("somebody else writes to the new store; let the copy finish first")
            if not chunk:
                for table, rows in operations:
                    for row in rows:
                        here.put(table, row)
                return Copied(copied, end, target.store_id)
            end = _write(here, chunk, deltas)
            for position, store_id in stores:
                if position <= end and store_id != target.store_id:
                    here.put_store(position, store_id)
            here.put_store(end + 1, target.store_id)
        copied += len(chunk)
        progress(len(chunk))


def _common_end(source: Database, target: Database) -> Position:
    """Where the target ends, if all of it is the beginning of the source."""
    with source.read() as there, target.read() as here:
        end = here.end()
        if end == 0:
            return end
        last = [next(tables.log(end - 1), None) for tables in (there, here)]
        if last[0] != last[1]:
            raise StoreError("the new store has events of its own; copy into an empty one")
        return end


def _read(there: Tables, after: Position) -> tuple[Chunk, list[OutboxRow]]:
    """The next commits, whole, each event read back and checked by itself; and their deltas."""
    chunk: Chunk = []
    for stored in there.log(after, contents=True):
        opened = _checked(stored)
        if len(chunk) >= CHUNK_EVENTS and opened.envelope.index == 0:
            break
        chunk.append((stored, opened))
    last = chunk[-1][0].position if chunk else after
    return chunk, list(_deltas(there, after, last))


def _checked(stored: StoredRecord) -> Opened:
    record = stored.record
    opened = unseal(record.topic, record.facts, record.content)
    if wrong := check(record, opened):
        raise DamagedStore(f"position {stored.position}: {wrong}; `reprise verify` tells more")
    return opened


def _deltas(there: Tables, after: Position, last: Position) -> Iterator[OutboxRow]:
    while page := there.outbox(after):
        for row in page:
            if row.last_position > last:
                return
            yield row
        after = page[-1].last_position


def _write(here: Tables, chunk: Chunk, deltas: list[OutboxRow]) -> Position:
    """Store the commits with their deltas and read models; the new end."""
    records = [stored.record for stored, _ in chunk]
    _check_links(here, chunk)
    positions = here.append(records)
    if positions != [stored.position for stored, _ in chunk]:
        raise DamagedStore(f"an event is missing behind position {chunk[0][0].position - 1}")
    for row in deltas:
        here.put_outbox(row)
    refold = Refold(here)
    for stored, opened in chunk:
        refold.apply(stored, opened)
    refold.flush()
    for stored, opened in chunk:
        if isinstance(opened.event, Purged):
            here.erase(stored.record.stream)
            here.forget(stored.record.stream)
    return Position(positions[-1])


def _check_links(here: Tables, chunk: Chunk) -> None:
    ends: dict[StreamId, tuple[int, bytes]] = {}
    for stored, _ in chunk:
        record = stored.record
        if record.stream not in ends:
            head = here.head(record.stream)
            ends[record.stream] = (head.version, head.hash) if head else (0, GENESIS)
        if ends[record.stream] != (record.version - 1, record.previous_hash):
            raise DamagedStore(f"position {stored.position}: its link does not fit the event before it")
        ends[record.stream] = (record.version, record.hash)
