"""Waits of a room: what failures cost a lane, what ends it, and what is no news."""

from collections.abc import Sequence

import pytest

from domain.backoff import (
    BACKOFF,
    LIST_LANE,
    BackoffEvent,
    Cleared,
    Delayed,
    Parked,
    Paused,
    Refused,
    Resumed,
    RoomBackoff,
    Trouble,
    fail,
    host_recovered,
    messages_lane,
    pause,
    reset,
    resume,
    session_of,
    succeed,
)
from domain.backoff_policy import SEED_POLICY, SERVICE_POLICY, BackoffPolicy
from domain.ids import RoomId, SessionId

T0 = 1_772_355_600_000
HOUR = 3_600_000
LANE = messages_lane(SessionId("s"))
DOWN = Trouble("status", True, "the remote answered 503", 503)
GONE = Trouble("status", False, "the remote answered 404", 404)
CANCELED = Trouble("canceled", False)
CALM = BackoffPolicy(
    initial_s=10.0, maximum_s=300.0, retry_after_max_s=3_600.0, refusals_max=3, forgives_progress=True
)
"""The service's policy without chance, so that instants can be named."""


def given(*told: tuple[int, BackoffEvent]) -> RoomBackoff:
    """The room after events, each with the ms after T0 at which it was recorded."""
    room = BACKOFF.empty("r")
    for at, event in told:
        room = BACKOFF.evolve(room, event, T0 + at)
    return room


def after(room: RoomBackoff, events: Sequence[BackoffEvent], at: int) -> RoomBackoff:
    for event in events:
        room = BACKOFF.evolve(room, event, T0 + at)
    return room


def failing(*at: int, trouble: Trouble = DOWN, policy: BackoffPolicy = CALM) -> RoomBackoff:
    """A room whose lane failed at these ms after T0."""
    room = given()
    for instant in at:
        room = after(room, fail(room, LANE, trouble, policy, T0 + instant), instant)
    return room


def delayed(step_s: float, at: int, **more: float) -> Delayed:
    until = T0 + at + round(max(step_s, more.get("retry_after_s", 0.0)) * 1_000)
    return Delayed(
        lane=LANE,
        kind="status",
        status=503,
        step_s=step_s,
        until=until,
        content={"reason": DOWN.reason},
        **more,
    )


def test_a_first_failure_waits_ten_seconds_and_not_a_millisecond_more() -> None:
    """B1, B2: The lane may be tried again at the very instant at which its wait ends."""
    events = fail(given(), LANE, DOWN, SEED_POLICY, T0)

    assert events == (delayed(10.0, 0),)
    room = given((0, events[0]))
    assert not room.allows(LANE, T0 + 9_999)
    assert room.allows(LANE, T0 + 10_000)
    assert (room.due_at(LANE, T0 + 1), room.due_at(LANE, T0 + 10_000)) == (T0 + 10_000, T0 + 10_000)


def test_each_lane_waits_for_itself() -> None:
    """B1: One wait per lane; the room's list call is one of them."""
    room = failing(0)

    assert room.allows(LIST_LANE, T0)
    assert room.allows(messages_lane(SessionId("other")), T0)
    assert (session_of(LANE), session_of(LIST_LANE)) == (SessionId("s"), None)


def test_the_step_grows_from_the_step_and_not_from_what_was_asked_for() -> None:
    """B6: A Retry-After is a floor under this wait, and no part of the escalation."""
    asking = Trouble("status", True, DOWN.reason, 503, 60.0)
    room = failing(0, trouble=asking)

    assert room.waits[LANE].until == T0 + 60_000
    assert fail(room, LANE, DOWN, CALM, T0 + 60_000) == (delayed(20.0, 60_000),)


def test_jitter_is_another_one_for_each_room_lane_and_try_and_the_same_again() -> None:
    """B6: From an injected seed: the same history draws the same waits."""

    def until(room: str, lane: str, seed: str) -> int:
        (event,) = fail(RoomBackoff(RoomId(room)), lane, DOWN, SERVICE_POLICY, T0, seed=seed)
        assert isinstance(event, Delayed)
        assert 10_000 <= event.until - T0 <= 12_500
        return event.until

    drawn = [
        until(*names) for names in (("r", "l", "x"), ("r2", "l", "x"), ("r", "l2", "x"), ("r", "l", "y"))
    ]
    assert len(set(drawn)) == 4
    assert until("r", "l", "x") == drawn[0]


def test_a_success_ends_wait_and_escalation() -> None:
    """B4: The next failure begins at the first step."""
    room = failing(0, 10_000)
    events = succeed(room, LANE)

    assert events == (Cleared(lane=LANE, by="success"),)
    room = after(room, events, 30_000)
    assert fail(room, LANE, DOWN, CALM, T0 + 30_000) == (delayed(10.0, 30_000),)


def test_a_success_without_a_wait_is_no_news() -> None:
    """B8: A healthy pull leaves no event."""
    assert succeed(given(), LANE) == ()


def test_another_lanes_success_resets_nothing() -> None:
    """B4: Only the lane's own success does."""
    room = failing(0)

    assert succeed(room, LIST_LANE) == ()


def test_a_round_that_stored_something_starts_the_escalation_over() -> None:
    """B4: Progress is not punished."""
    room = failing(0, 10_000)

    assert fail(room, LANE, DOWN, CALM, T0 + 30_000, has_progressed=True) == (
        Cleared(lane=LANE, by="progress"),
        delayed(10.0, 30_000),
    )


def test_in_the_seeds_profile_progress_counts_for_nothing() -> None:
    """B2: Every extra is off."""
    room = failing(0, policy=SEED_POLICY)

    assert fail(room, LANE, DOWN, SEED_POLICY, T0 + 10_000, has_progressed=True) == (delayed(20.0, 10_000),)


def test_two_processes_that_fail_at_once_failed_once() -> None:
    assert fail(failing(0), LANE, DOWN, CALM, T0 + 5) == ()


def test_a_longer_retry_after_within_a_wait_still_counts() -> None:
    asking = Trouble("status", True, DOWN.reason, 503, 60.0)

    assert fail(failing(0), LANE, asking, CALM, T0 + 5) == (delayed(10.0, 5, retry_after_s=60.0),)


def test_what_we_gave_up_ourselves_costs_nothing() -> None:
    """B3: Cancellation says nothing about the remote."""
    assert fail(given(), LANE, CANCELED, CALM, T0) == ()


def test_the_third_refusal_parks_the_lane_for_an_hour() -> None:
    """B5: Permanent answers are not retried at full rate, and say why."""
    reason = {"reason": GONE.reason}
    room = given()
    told: list[BackoffEvent] = []
    for at in (0, 5_000, 10_000):
        assert room.allows(LANE, T0 + at)
        events = fail(room, LANE, GONE, CALM, T0 + at)
        told += events
        room = after(room, events, at)

    assert told == [
        Refused(lane=LANE, kind="status", status=404, count=1, content=reason),
        Refused(lane=LANE, kind="status", status=404, count=2, content=reason),
        Parked(lane=LANE, kind="status", status=404, count=3, next_probe=T0 + 10_000 + HOUR, content=reason),
    ]
    assert not room.allows(LANE, T0 + 10_000 + HOUR - 1)
    assert room.allows(LANE, T0 + 10_000 + HOUR)


def parked() -> RoomBackoff:
    return failing(0, 5_000, 10_000, trouble=GONE)


@pytest.mark.parametrize("trouble", [GONE, DOWN])
def test_a_parked_lane_that_fails_again_stays_parked(trouble: Trouble) -> None:
    """B5: Until it works, or somebody resets it; that the host is down proves nothing about the refusal."""
    (event,) = fail(parked(), LANE, trouble, CALM, T0 + 2 * HOUR)

    assert isinstance(event, Parked)
    assert event.next_probe == T0 + 3 * HOUR


@pytest.mark.parametrize("by", ["success", "operator"])
def test_a_parked_lane_comes_back(by: str) -> None:
    """B5: By an answer, or by a person."""
    room = parked()
    events = succeed(room, LANE) if by == "success" else reset(room)

    assert events == (Cleared(lane=LANE, by=by),)
    assert after(room, events, HOUR).waits == {}


def test_refusals_are_counted_over_failures_in_between() -> None:
    """B5: In a row means: without a success."""
    room = given()
    for at, trouble in ((0, GONE), (5_000, DOWN), (15_000, GONE), (20_000, GONE)):
        room = after(room, fail(room, LANE, trouble, CALM, T0 + at), at)

    assert room.waits[LANE].is_parked


def test_a_refusal_leaves_the_waits_of_the_seeds_profile_untouched() -> None:
    """B2, B5: There, what cannot be retried is tried with every tick, as the ancestor does."""
    assert fail(given(), LANE, GONE, SEED_POLICY, T0) == ()


def test_what_an_outage_of_the_host_cost_is_taken_back() -> None:
    """B7: A wait that began before the outage or behind it is the room's own."""
    room = failing(1_000)

    assert host_recovered(room, T0 + 1_000, T0 + 60_000) == (Cleared(lane=LANE, by="host"),)
    assert host_recovered(room, T0 + 1_001, T0 + 60_000) == ()
    assert host_recovered(room, T0, T0 + 999) == ()
    assert host_recovered(parked(), T0, T0 + 60_000) == ()


def test_a_paused_lane_is_never_due() -> None:
    room = given((0, Paused(lane=LANE)))

    assert not room.allows(LANE, T0 + 100 * HOUR)
    assert room.due_at(LANE, T0) is None
    assert room.allows(LIST_LANE, T0)


def test_a_paused_room_has_no_lane_that_is_due_until_it_is_resumed() -> None:
    room = given((0, Paused(lane=LANE)), (1, Paused()))

    assert not room.allows(LIST_LANE, T0)
    assert (pause(room), pause(room, LANE)) == ((), ())
    assert resume(room) == (Resumed(),)
    assert given((0, Paused(lane=LANE)), (1, Paused()), (2, Resumed())).allows(LANE, T0)


def test_pausing_and_resuming_twice_is_once() -> None:
    assert pause(given(), LANE) == (Paused(lane=LANE),)
    assert pause(given((0, Paused(lane=LANE))), LANE) == ()
    assert resume(given((0, Paused(lane=LANE))), LANE) == (Resumed(lane=LANE),)
    assert resume(given(), LANE) == resume(given()) == ()


def test_a_pause_keeps_the_wait_and_a_reset_keeps_the_pause() -> None:
    room = after(failing(0), pause(given(), LANE), 1)

    assert reset(room) == (Cleared(lane=LANE, by="operator"),)
    assert not after(room, reset(room), 2).allows(LANE, T0 + HOUR)
    assert not after(room, resume(room, LANE), 2).allows(LANE, T0 + 3)


def test_a_reset_of_one_lane_leaves_the_others() -> None:
    room = failing(0)

    assert reset(room, LIST_LANE) == ()
    assert reset(room, LANE) == reset(room)


def test_a_wait_is_over_when_the_clock_is_set_back_by_an_hour() -> None:
    """B8: Else a wait of ten seconds would last an hour."""
    assert failing(0).allows(LANE, T0 - HOUR)
