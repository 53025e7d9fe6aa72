"""What operators do with subscriptions and their deliveries; each change is an event (SPEC L7)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from application.aggregates import change
from application.lanes import UNFINISHED, Choice, Delivered, Lanes, LaneWriter, Parking, State
from application.ports import Clock, Deliveries, Store, StoredEvent
from domain import subscription as rules
from domain.aggregate import Held
from domain.errors import NotFound, Rejected
from domain.ids import Position, TransactionId
from domain.subscription import (
    SUBSCRIPTION,
    Added,
    RedeliveryRequested,
    Skipped,
    Subscription,
    SubscriptionEvent,
)

PAGE_MAX: Final = 500
"""Deliveries that are read at once."""
CHOSEN_MAX: Final = 10_000
"""Deliveries that one skip or redelivery may choose; for more, choose again."""
EVERY: Final = Choice()
Rule = Callable[[Subscription], Sequence[SubscriptionEvent]]


@dataclass(frozen=True)
class Subscriptions:
    """The destinations of deltas on one store, and what has become of their deltas."""

    store: Store
    lanes: Lanes
    deliveries: Deliveries
    clock: Clock

    # Destinations. What is meant for another version than a subscription has raises Outdated.

    def add(self, added: Added, *, after: int | None = None, actor: str = "") -> Held[Subscription]:
        """Begin a subscription behind a position, by default at the end; the same one again stays as it is.

        Raises Rejected for a name that is taken, or a filter that means nothing.
        """
        end = self.deliveries.end()
        begun = rules.starts_behind(after, end)
        named = Added(
            name=added.name,
            kind=added.kind,
            target=added.target,
            rooms=added.rooms,
            entity_kinds=added.entity_kinds,
            from_position=begun,
            secret_ref=added.secret_ref,
            on_parked=added.on_parked,
        )
        return self._change(
            added.name, lambda one: rules.add(one, named), actor, lambda lanes: lanes.begin(added.name, begun)
        )

    def all(self) -> Sequence[Held[Subscription]]:
        """Every subscription that is there, by name."""
        return [held for held in self.store.aggregates(SUBSCRIPTION) if held.state.is_known]

    def observers(self) -> Sequence[str]:
        """The names under which observers in some process subscribed; no worker serves them."""
        served = {held.key for held in self.all()}
        return [name for name in self.deliveries.subscriptions() if name not in served]

    def counts(self, name: str) -> dict[State, int]:
        """How many of a subscription's deltas that are kept stand in each state."""
        counts = dict.fromkeys(State, 0)
        for one in self.list(name):
            counts[one.state] += 1
        return counts

    def show(self, name: str) -> Held[Subscription]:
        """One subscription; raises NotFound when there is none."""
        held = self.store.aggregate(SUBSCRIPTION, name)
        if not held.state.is_known:
            raise NotFound(f"no subscription {name}; `reprise subscriptions list` shows them")
        return held

    def history(self, name: str) -> Iterator[StoredEvent]:
        """What happened to a subscription, oldest first, also to one that was removed."""
        return self.store.history(SUBSCRIPTION, name)

    def pause(
        self, name: str, reason: str = "", *, actor: str = "", if_version: int | None = None
    ) -> Held[Subscription]:
        """Deliver nothing until it is resumed; what a worker has begun is finished."""
        self.show(name)
        return self._change(name, lambda one: rules.pause(one, reason), actor, if_version=if_version)

    def resume(
        self, name: str, reason: str = "", *, actor: str = "", if_version: int | None = None
    ) -> Held[Subscription]:
        """Deliver again."""
        self.show(name)
        return self._change(name, lambda one: rules.resume(one, reason), actor, if_version=if_version)

    def rotate(
        self, name: str, secret_ref: str, previous_until: int, *, actor: str = ""
    ) -> Held[Subscription]:
        """Sign with another secret, and until a time in ms with the one before as well."""
        self.show(name)
        return self._change(name, lambda one: rules.rotate(one, secret_ref, previous_until), actor)

    def remove(self, name: str, *, actor: str = "", if_version: int | None = None) -> Held[Subscription]:
        """End a subscription and forget its progress; its history stays. Also one of an observer."""
        is_observer = name in self.observers()
        if not is_observer:
            self.show(name)
        return self._change(
            name,
            lambda one: rules.remove(one, is_observer=is_observer),
            actor,
            lambda lanes: lanes.end(name),
            if_version,
        )

    # Deliveries.

    def list(self, name: str, choice: Choice = EVERY, after: int = 0) -> Iterator[Delivered]:
        """A subscription's deliveries that are chosen, oldest first, behind a position."""
        filter_ = self.show(name).state.filter
        position = Position(after)
        while True:
            now = self.clock.now_ms()
            page = self.lanes.deliveries(name, filter_, choice, now, position, PAGE_MAX)
            yield from page
            if len(page) < PAGE_MAX:
                return
            position = page[-1].committed.last_position

    def page(self, name: str, choice: Choice, after: Position, limit: int) -> Sequence[Delivered]:
        """At most so many of them."""
        filter_ = self.show(name).state.filter
        return self.lanes.deliveries(name, filter_, choice, self.clock.now_ms(), after, limit)

    def delivery(self, name: str, transaction: str) -> Delivered:
        """One delta as a subscription has it; raises NotFound when it has none of that transaction."""
        choice = Choice(transactions=(TransactionId(transaction),))
        found = next(self.list(name, choice), None)
        if found is None:
            raise NotFound(f"{name} has no delivery of transaction {transaction}")
        return found

    def before(self, delivered: Delivered) -> Delivered | None:
        """The delta of its room that an unfinished one waits for; None when it is the next one itself."""
        if delivered.state not in UNFINISHED:
            return None
        choice = Choice(room=delivered.committed.room, states=UNFINISHED)
        first = next(self.list(delivered.subscription, choice), None)
        is_itself = first and first.committed.last_position == delivered.committed.last_position
        return None if is_itself else first

    def redeliver(
        self, name: str, choice: Choice, *, expected: int | None = None, actor: str = ""
    ) -> Sequence[Delivered]:
        """Deliver chosen deltas again, or at once what waits; which they were.

        Raises Rejected("conflict") when there are not as many as expected.
        """
        rows = self.chosen(name, choice, expected)
        event = RedeliveryRequested(**_said(choice), count=len(rows))
        now = self.clock.now_ms()
        self._change(
            name,
            lambda one: rules.request_redelivery(one, event),
            actor,
            lambda lanes: lanes.ask(name, rows, now),
        )
        return rows

    def skip(
        self, name: str, choice: Choice, *, expected: int | None = None, actor: str = ""
    ) -> Sequence[Delivered]:
        """Leave chosen deltas out that are unfinished or parked; which they were.

        Raises Rejected("conflict") when there are not as many as expected.
        """
        rows = self.chosen(name, skippable(choice), expected)
        event = Skipped(**_said(choice), count=len(rows))
        now = self.clock.now_ms()
        self._change(
            name, lambda one: rules.skip(one, event), actor, lambda lanes: lanes.skip(name, rows, now)
        )
        return rows

    def chosen(self, name: str, choice: Choice, expected: int | None = None) -> Sequence[Delivered]:
        """The deliveries that an operator means; raises Rejected when they are others than expected."""
        rows = []
        for one in self.list(name, choice):
            rows.append(one)
            if len(rows) > CHOSEN_MAX:
                detail = f"more than {CHOSEN_MAX} deltas are chosen; choose by room or time"
                raise Rejected("too_large", "subscription", name, detail)
        if expected is not None and len(rows) != expected:
            detail = f"{len(rows)} deltas are chosen, {expected} were expected; look again"
            raise Rejected("conflict", "subscription", name, detail)
        return rows

    # What the worker finds.

    def disable(self, name: str, reason: str) -> None:
        """The destination says that it is no more."""
        self._change(name, lambda one: rules.disable(one, reason), "")

    def park(self, parking: Parking, transaction: TransactionId) -> None:
        """Give a delta up; raises LeaseLost when somebody else has its lane by now."""
        lease = parking.lease
        self._change(
            lease.subscription,
            lambda one: rules.park(one, lease.room, transaction, parking.attempts, parking.error),
            "",
            lambda lanes: lanes.park(parking),
        )

    def _change(
        self,
        name: str,
        rule: Rule,
        actor: str,
        operate: Callable[[LaneWriter], None] | None = None,
        if_version: int | None = None,
    ) -> Held[Subscription]:
        now = self.clock.now_ms()
        return change(self.store, SUBSCRIPTION, name, rule, now, actor, operate, if_version)


def skippable(choice: Choice) -> Choice:
    """Of what is chosen, what can still be left out."""
    states = UNFINISHED | {State.PARKED}
    return Choice(choice.transactions, choice.room, choice.since, (choice.states or states) & states)


def _said(choice: Choice) -> dict[str, Any]:
    return {
        "transactions": tuple(map(str, choice.transactions)),
        "room": choice.room,
        "since": choice.since,
        "states": tuple(sorted(map(str, choice.states))),
    }
