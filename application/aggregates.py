"""Changes aggregates beside the sessions: waits, breakers, tracked rooms, subscriptions."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from application.lanes import LaneWriter
from application.ports import Change, Decision, Loader, Store
from domain.aggregate import Held, Kind
from domain.errors import Outdated
from domain.event import Event

S = TypeVar("S")


class Changing(Generic[S]):
    """One change of an aggregate, to be decided by a store; `now` is the recorded time in ms."""

    def __init__(
        self,
        kind: Kind[S],
        key: str,
        rule: Callable[[S], Sequence[Event]],
        now: int,
        actor: str = "",
        operate: Callable[[LaneWriter], None] | None = None,
        if_version: int | None = None,
    ) -> None:
        self._kind = kind
        self._key = key
        self._rule = rule
        self._now = now
        self._actor = actor
        self._operate = operate
        self._if_version = if_version
        self.after = kind.unknown(key)
        """The aggregate as the last decision left it."""

    def decide(self, load: Loader) -> Decision:
        """The decision for a store, which may call it more than once."""
        held = load.aggregate(self._kind, self._key)
        if self._if_version is not None and self._if_version != held.version:
            raise Outdated(f"{self._kind.name} {self._key}", self._if_version, held.version)
        events = self._rule(held.state)
        self.after = held
        for event in events:
            self.after = self.after.after(self._kind, event, self._now)
        changes = [Change(self._kind, held, events, self._now, self._actor)]
        return Decision({}, changes=changes, operate=self._operate)


def change(
    store: Store,
    kind: Kind[S],
    key: str,
    rule: Callable[[S], Sequence[Event]],
    now: int,
    actor: str = "",
    operate: Callable[[LaneWriter], None] | None = None,
    if_version: int | None = None,
) -> Held[S]:
    """Let a rule decide on an aggregate as it stands, and store what it decides; the aggregate after that.

    `now` is the recorded time in ms. No events store nothing; else `operate` changes what is kept beside
    the log, in the same transaction. Raises what the rule raises, and Outdated when the aggregate is at
    another version than `if_version`.
    """
    changing = Changing(kind, key, rule, now, actor, operate, if_version)
    store.submit(changing.decide)
    return changing.after
