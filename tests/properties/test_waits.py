"""Waits and breakers, whatever happens: stored and folded again they are the same, and keep their bounds."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from domain import jsontext
from domain.aggregate import Held, Kind
from domain.backoff import (
    BACKOFF,
    LIST_LANE,
    Delayed,
    Parked,
    Refused,
    RoomBackoff,
    Trouble,
    fail,
    host_recovered,
    messages_lane,
    pause,
    reset,
    resume,
    succeed,
)
from domain.backoff_policy import SEED_POLICY, SERVICE_POLICY, BackoffPolicy
from domain.breaker import (
    BREAKER,
    SERVICE_BREAKER,
    HostBreaker,
    claim_probe,
    close_breaker,
    open_breaker,
    probe_answered,
    probe_failed,
)
from domain.event import Event
from domain.ids import RoomId, SessionId
from infrastructure.store.aggregates import held_of, row_of
from infrastructure.store.codec import pack, unpack

T0 = 1_772_355_600_000
S = TypeVar("S")
MANY = settings(max_examples=100_000 if os.environ.get("REPRISE_LONG") == "1" else 2_000)

LANES = st.sampled_from([LIST_LANE, messages_lane(SessionId("a")), messages_lane(SessionId("b"))])
TROUBLES = st.one_of(
    st.builds(
        Trouble,
        st.just("status"),
        st.just(True),
        st.just("down"),
        st.sampled_from([429, 500, 503]),
        st.sampled_from([None, 0.25, 45.5, 7_200.0, -1.0, float("nan")]),
    ),
    st.just(Trouble("transport", True, "refused \udcff")),
    st.just(Trouble("status", False, "gone", 404)),
    st.just(Trouble("canceled", False)),
)
GAPS = st.sampled_from([0, 1, 5_000, 9_999, 10_000, 40_000, 300_000, 375_000, 3_600_000, -30_000, -3_600_000])
POLICIES = st.sampled_from(
    [SEED_POLICY, SERVICE_POLICY, replace(SERVICE_POLICY, jitter=1.0, initial_s=0.001, multiplier=7.3)]
)
ROOM_STEPS = st.tuples(
    st.sampled_from(["fail", "progress", "succeed", "reset", "pause", "resume", "recover"]),
    LANES,
    TROUBLES,
    GAPS,
)
HOST_STEPS = st.tuples(
    st.sampled_from(["open", "claim", "probe_failed", "probe_answered", "close"]),
    st.integers(0, 3),
    TROUBLES,
    GAPS,
)


def decide(room: RoomBackoff, step: Any, policy: BackoffPolicy, now: int) -> Sequence[Event]:
    """What one step of a room's history decides."""
    what, lane, trouble, _ = step
    match what:
        case "fail" | "progress":
            return fail(room, lane, trouble, policy, now, seed="s", has_progressed=what == "progress")
        case "succeed":
            return succeed(room, lane)
        case "reset":
            return reset(room, lane)
        case "pause":
            return pause(room, lane)
        case "resume":
            return resume(room)
        case _:
            return host_recovered(room, now - 60_000, now)


def decide_host(breaker: HostBreaker, step: Any, now: int) -> Sequence[Event]:
    """What one step of a host's history decides."""
    what, number, trouble, _ = step
    probe = breaker.probes - number
    match what:
        case "open":
            return open_breaker(breaker, now - number, trouble, SERVICE_BREAKER, now, seed="s")
        case "claim":
            return claim_probe(breaker, RoomId(f"r{number}"), SERVICE_BREAKER, now)
        case "probe_failed":
            return probe_failed(breaker, probe, trouble, SERVICE_BREAKER, now, seed="s")
        case "probe_answered":
            return probe_answered(breaker, probe, SERVICE_BREAKER, now)
        case _:
            return close_breaker(breaker, SERVICE_BREAKER, now)


def stored(event: Event) -> Event:
    """The event as its facts alone tell it, spelled and read."""
    return unpack(type(event), jsontext.from_bytes(jsontext.to_bytes(pack(event))))


def folded(kind: Kind[S], key: str, told: Sequence[tuple[int, Event]]) -> Held[S]:
    """The aggregate as a process finds it that reads the log."""
    held = kind.unknown(key)
    for now, event in told:
        held = held.after(kind, stored(event), now)
    return held


def found(kind: Kind[S], held: Held[S]) -> Held[S]:
    """The aggregate as a process finds it that reads its row."""
    key, name, own, version, state = row_of(7, kind, held)
    return held_of(kind, (key, name, own, version, jsontext.to_bytes(jsontext.from_bytes(state))))


@MANY
@given(st.lists(ROOM_STEPS, max_size=14), POLICIES)
def test_waits_are_after_a_restart_what_they_were_before(history: list[Any], policy: BackoffPolicy) -> None:
    """B8: From the log and from the row, to the millisecond; facts alone decide."""
    held, told, now = BACKOFF.unknown("r"), list[tuple[int, Event]](), T0
    for step in history:
        now += step[-1]
        before = held
        for event in decide(held.state, step, policy, now):
            told.append((now, event))
            held = held.after(BACKOFF, event, now)
        check_bounds(before.state, held.state, told[before.version :], policy)
    assert folded(BACKOFF, "r", told) == held == found(BACKOFF, held)
    assert held.state.version == held.version


def check_bounds(
    before: RoomBackoff, after: RoomBackoff, told: Sequence[tuple[int, Event]], policy: BackoffPolicy
) -> None:
    """No wait passes its cap; only failures touch a lane's wait; parking needs its refusals."""
    for now, event in told:
        if isinstance(event, Delayed):
            assert event.step_s <= policy.cap_s
            assert event.step_s * 1_000 <= event.until - now <= policy.longest_s * 1_000 + 1
            assert event.retry_after_s * 1_000 <= event.until - now
            assert after.due_at(event.lane, now) in (event.until, None)
        if isinstance(event, Parked):
            assert event.next_probe - now >= policy.parked_s * 1_000
            assert event.count >= policy.refusals_max
        if isinstance(event, Refused):
            assert event.count < policy.refusals_max
    touched = {getattr(event, "lane", None) for _, event in told}
    assert {lane: wait for lane, wait in before.waits.items() if lane not in touched} == {
        lane: wait for lane, wait in after.waits.items() if lane not in touched
    }


@MANY
@given(st.lists(HOST_STEPS, max_size=14))
def test_a_breaker_is_after_a_restart_what_it_was_before(history: list[Any]) -> None:
    """B7, B8: A claim survives whoever made it, and there is never a second one while it holds."""
    held, told, now = BREAKER.unknown("h"), list[tuple[int, Event]](), T0
    for step in history:
        now += step[-1]
        claimed = held.state.probe
        for event in decide_host(held.state, step, now):
            told.append((now, event))
            held = held.after(BREAKER, event, now)
        if claimed and held.state.probe and claimed != held.state.probe:
            assert now >= claimed.until or now < claimed.began - 60_000
        assert held.state.probe is None or held.state.is_open
        assert held.state.until - held.state.began <= 3_600_000
    assert folded(BREAKER, "h", told) == held == found(BREAKER, held)


@given(POLICIES, st.integers(1, 12))
def test_every_stage_of_the_curve_is_reached_and_left(policy: BackoffPolicy, failures: int) -> None:
    """B2, B4: So many failures in a row reach the stage, and one success leaves it."""
    room, now = RoomBackoff(RoomId("r")), T0
    steps = [policy.next(0.0)]
    for _ in range(failures):
        (event,) = fail(room, LIST_LANE, Trouble("transport", True), policy, now, seed="s")
        room = BACKOFF.evolve(room, event, now)
        assert room.waits[LIST_LANE].step_s == steps[-1]
        steps.append(policy.next(steps[-1]))
        now = room.waits[LIST_LANE].until
        assert room.allows(LIST_LANE, now)
        assert not room.allows(LIST_LANE, now - 1)
    for event in succeed(room, LIST_LANE):
        room = BACKOFF.evolve(room, event, now)
    assert room.waits == {}
