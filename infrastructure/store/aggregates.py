"""Aggregates beside the sessions in the store: a row each holds the state as of its stream's end."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from domain import jsontext
from domain.aggregate import Held, Kind
from domain.ids import StreamId
from infrastructure.store.records import Opened
from infrastructure.store.tables import AGGREGATES, Row, StoredRecord, Tables
from infrastructure.store.topics import AGGREGATE_KINDS, kind_name

S = TypeVar("S")


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    """Spells and reads the states of one kind; made once, because that takes a while."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def row_of(key: int, kind: Kind[Any], held: Held[Any]) -> Row:
    """An aggregate as a row of AGGREGATES."""
    state = _adapter(type(held.state)).dump_python(held.state, mode="json", exclude_defaults=True)
    return (key, kind.name, held.key, held.version, jsontext.to_text(state))


def held_of(kind: Kind[S], row: Row) -> Held[S]:
    """The aggregate of a row."""
    _, _, name, version, state = row
    known: S = _adapter(type(kind.empty(name))).validate_python(jsontext.from_bytes(state))
    return Held(name, known, version)


def load(tables: Tables, kind: Kind[S], name: str) -> Held[S]:
    """An aggregate as it stands; an unknown one is at version 0."""
    head = tables.head(kind.stream(name))
    row = tables.get(AGGREGATES, head.key) if head else None
    return held_of(kind, row) if row else kind.unknown(name)


def load_all(tables: Tables, kind: Kind[S]) -> Sequence[Held[S]]:
    """All aggregates of a kind, by name."""
    return [held_of(kind, row) for row in tables.aggregates(kind.name)]


class FoldedAggregates:
    """Aggregates being folded again from the log, written when they are asked to be."""

    def __init__(self) -> None:
        self._held: dict[StreamId, tuple[Kind[Any], Held[Any]]] = {}

    def apply(self, tables: Tables, stored: StoredRecord, opened: Opened) -> None:
        """Fold one event."""
        stream = stored.record.stream
        if stream not in self._held:
            kind = AGGREGATE_KINDS[kind_name(stored.record.topic)]
            self._held[stream] = (kind, load(tables, kind, opened.envelope.key))
        kind, held = self._held[stream]
        self._held[stream] = (kind, held.after(kind, opened.event, opened.envelope.recorded_at))

    def flush(self, tables: Tables) -> None:
        """Write the rows of all that was folded."""
        for stream, (kind, held) in self._held.items():
            head = tables.head(stream)
            tables.put(AGGREGATES, row_of(head.key if head else 0, kind, held))
        self._held.clear()
