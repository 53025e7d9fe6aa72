"""Aggregates beside the sessions: small ones, each known by one key and kept as one state."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from domain.event import Event
from domain.ids import StreamId, stream_id

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Kind(Generic[S]):
    """One kind of aggregate: what its streams and topics are called, and how its events are folded."""

    name: str
    """Stands in stream ids and before the dot of every topic of its events."""
    empty: Callable[[str], S]
    """The state of a key of which nothing has been stored."""
    evolve: Callable[[S, Any, int], S]
    """Folds an event, recorded at a time in ms, into the state."""

    def stream(self, key: str) -> StreamId:
        """The stream of the aggregate with a key, such as a room, a host, or a name."""
        return stream_id(self.name, key)

    def unknown(self, key: str) -> "Held[S]":
        """An aggregate of which nothing has been stored."""
        return Held(key, self.empty(key))


@dataclass(frozen=True, slots=True)
class Held(Generic[S]):
    """An aggregate as it stands."""

    key: str
    state: S
    version: int = 0
    """Of its stream; 0 when nothing has been stored."""

    def after(self, kind: Kind[S], event: Event, recorded_at: int) -> "Held[S]":
        """The aggregate after one more event."""
        state = kind.evolve(self.state, event, recorded_at)
        return replace(self, state=state, version=self.version + 1)
