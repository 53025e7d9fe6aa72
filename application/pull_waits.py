"""Brings a schedule and the store together: what outcomes cost is stored, and what is stored is known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from application.aggregates import change
from application.ports import Store
from application.pull_calls import Call, Step
from application.pull_schedule import PullSchedule
from domain.aggregate import Kind
from domain.backoff import BACKOFF
from domain.breaker import BREAKER, BreakerEvent, BreakerPolicy, HostBreaker, claim_probe
from domain.tracked_room import ROOM

KINDS: Final[Sequence[Kind[Any]]] = (ROOM, BACKOFF, BREAKER)
"""The aggregates that pulls rest on; rooms first, since the others are about them."""


class Claim:
    """Asks for a probe in a breaker's own stream, so that of two processes one gets it (SPEC B7)."""

    def __init__(self, call: Call, policy: BreakerPolicy, now: int) -> None:
        self._call = call
        self._policy = policy
        self._now = now
        self._number = 0

    def rule(self, breaker: HostBreaker) -> Sequence[BreakerEvent]:
        """The rule to ask of the host's breaker."""
        events = claim_probe(breaker, self._call.room, self._policy, self._now)
        self._number = breaker.probes + 1 if events else 0
        return events

    @property
    def granted(self) -> Call | None:
        """The call with the number of its claim; None if somebody else was quicker."""
        return replace(self._call, probe=self._number) if self._number else None


def learn(store: Store, schedule: PullSchedule, now: int) -> Sequence[Step]:
    """Tell the schedule how all rooms, waits and breakers stand; what is left to do about them."""
    held = [held for kind in KINDS for held in store.aggregates(kind)]
    return [step for one in held for step in schedule.know(one.state, now)]


def settle(store: Store, schedule: PullSchedule, steps: Sequence[Step], now: int) -> None:
    """Store what the steps decide, and tell the schedule; a closed breaker brings further steps."""
    left = list(steps)
    while left:
        step = left.pop(0)
        left += schedule.know(change(store, step.kind, step.key, step.rule, now).state, now)


def claim(store: Store, schedule: PullSchedule, call: Call, policy: BreakerPolicy, now: int) -> Call | None:
    """The probe with the number of its claim; None if another process was quicker."""
    claim = Claim(call, policy, now)
    schedule.know(change(store, BREAKER, call.host, claim.rule, now).state, now)
    return claim.granted
