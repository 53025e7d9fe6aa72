"""Changes aggregates beside the sessions: waits, breakers, tracked rooms, subscriptions."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from application.lanes import LaneWriter
from application.ports import Change, Decision, Loader, Store
from domain.aggregate import Held, Kind
from domain.event import Event

S = TypeVar("S")


def change(
    store: Store,
    kind: Kind[S],
    key: str,
    rule: Callable[[S], Sequence[Event]],
    now: int,
    actor: str = "",
    operate: Callable[[LaneWriter], None] | None = None,
) -> Held[S]:
    """Let a rule decide on an aggregate as it stands, and store what it decides; the aggregate after that.

    `now` is the recorded time in ms. No events store nothing; else `operate` changes what is kept beside
    the log, in the same transaction. Raises what the rule raises.
    """
    after = kind.unknown(key)

    def decide(load: Loader) -> Decision:
        nonlocal after
        held = load.aggregate(kind, key)
        events = rule(held.state)
        after = held
        for event in events:
            after = after.after(kind, event, now)
        return Decision({}, changes=[Change(kind, held, events, now, actor)], operate=operate)

    store.submit(decide)
    return after
