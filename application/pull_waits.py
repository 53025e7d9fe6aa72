"""Brings a schedule and the store together: what outcomes cost is stored, and what is stored is known."""

from collections.abc import Sequence
from dataclasses import replace

from application.aggregates import change
from application.ports import Store
from application.pull_calls import Call, Step
from application.pull_schedule import PullSchedule
from domain.backoff import BACKOFF, RoomBackoff
from domain.breaker import BREAKER, BreakerEvent, BreakerPolicy, HostBreaker, claim_probe
from domain.tracked_room import ROOM, TrackedRoom


def learn(store: Store, schedule: PullSchedule, now: int) -> Sequence[Step]:
    """Tell the schedule how all rooms, waits and breakers stand; what is left to do about them."""
    steps: list[Step] = []
    for room in store.aggregates(ROOM):
        schedule.know_room(room.state, now)
    for backoff in store.aggregates(BACKOFF):
        schedule.know_backoff(backoff.state)
    for breaker in store.aggregates(BREAKER):
        steps += schedule.know_breaker(breaker.state)
    return steps


def settle(store: Store, schedule: PullSchedule, steps: Sequence[Step], now: int) -> None:
    """Store what the steps decide, and tell the schedule; a closed breaker brings further steps."""
    left = list(steps)
    while left:
        step = left.pop(0)
        state = change(store, step.kind, step.key, step.rule, now).state
        match state:
            case RoomBackoff():
                schedule.know_backoff(state)
            case HostBreaker():
                left += schedule.know_breaker(state)
            case TrackedRoom():
                schedule.know_room(state, now)


def claim(store: Store, schedule: PullSchedule, call: Call, policy: BreakerPolicy, now: int) -> Call | None:
    """The probe with the number of its claim; None if another process was quicker (SPEC B7)."""
    number = 0

    def rule(breaker: HostBreaker) -> tuple[BreakerEvent, ...]:
        nonlocal number
        events = claim_probe(breaker, call.room, policy, now)
        number = breaker.probes + 1 if events else 0
        return events

    schedule.know_breaker(change(store, BREAKER, call.host, rule, now).state)
    return replace(call, probe=number) if number else None
