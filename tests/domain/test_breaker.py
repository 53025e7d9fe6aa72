"""A host's breaker: when it opens, who may probe, and how the rooms come back."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from domain.backoff import Trouble
from domain.breaker import (
    BREAKER,
    SERVICE_BREAKER,
    BreakerClosed,
    BreakerEvent,
    BreakerOpened,
    HostBreaker,
    ProbeFailed,
    ProbeStarted,
    Suspicion,
    claim_probe,
    close_breaker,
    is_of_the_host,
    open_breaker,
    probe_answered,
    probe_failed,
)
from domain.ids import RoomId

T0 = 1_772_355_600_000
ROOM = RoomId("r")
DOWN = Trouble("transport", True, "connection refused")
CALM = replace(SERVICE_BREAKER, probes=replace(SERVICE_BREAKER.probes, jitter=0.0))
"""The service's policy without chance, so that instants can be named."""


def after(breaker: HostBreaker, events: Sequence[BreakerEvent], at: int) -> HostBreaker:
    for event in events:
        breaker = BREAKER.evolve(breaker, event, T0 + at)
    return breaker


def opened() -> HostBreaker:
    """Opened at T0; the first probe is due five seconds later."""
    return after(HostBreaker("h"), open_breaker(HostBreaker("h"), T0 - 10, DOWN, CALM, T0), 0)


def probing(at: int = 5_000) -> HostBreaker:
    return after(opened(), claim_probe(opened(), ROOM, CALM, T0 + at), at)


def closed(at: int = 5_100) -> HostBreaker:
    return after(probing(), probe_answered(probing(), 1, CALM, T0 + at), at)


def test_a_host_is_suspected_until_three_rooms_failed_in_a_row() -> None:
    """B7: A host that fails for several rooms; one room that fails for ever is that room's matter."""
    one = Suspicion()
    for at in range(100):
        one = one.failed(ROOM, T0 + at)
    assert not one.is_enough(CALM)

    several = one.failed(RoomId("r2"), T0 + 100)
    assert not several.is_enough(CALM)
    assert several.failed(RoomId("r3"), T0 + 101).is_enough(CALM)
    assert several.since == T0


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (DOWN, True),
        (Trouble("status", True, status=429), True),
        (Trouble("status", True, status=500), True),
        (Trouble("protocol", True), True),
        (Trouble("too_large", True), False),
        (Trouble("status", False, status=404), False),
        (Trouble("malformed", False), False),
        (Trouble("canceled", False), False),
    ],
)
def test_only_what_another_room_would_meet_is_the_hosts(trouble: Trouble, expected: bool) -> None:
    assert is_of_the_host(trouble) == expected


def test_it_opens_once_and_says_since_when() -> None:
    """B7: Durable like the waits: an event in a stream of its own."""
    assert open_breaker(HostBreaker("h"), T0 - 10, DOWN, CALM, T0) == (
        BreakerOpened(
            kind="transport", since=T0 - 10, step_s=5.0, until=T0 + 5_000, content={"reason": DOWN.reason}
        ),
    )
    assert open_breaker(opened(), T0, DOWN, CALM, T0 + 1) == ()


def test_while_it_is_open_no_room_may_call() -> None:
    assert not opened().allows(ROOM, T0 + 5_000)
    assert (opened().may_probe(T0 + 4_999), opened().may_probe(T0 + 5_000)) == (False, True)


def test_there_is_one_probe_at_a_time() -> None:
    """B7: The claim is an event, so whoever comes second decides on a breaker that is being probed."""
    (started,) = claim_probe(opened(), ROOM, CALM, T0 + 5_000)

    assert started == ProbeStarted(probe=1, room=ROOM, until=T0 + 65_000)
    assert claim_probe(probing(), RoomId("r2"), CALM, T0 + 5_001) == ()
    assert claim_probe(opened(), ROOM, CALM, T0 + 4_999) == ()


def test_the_claim_of_a_killed_prober_ends() -> None:
    """B7: And what it says after that changes nothing."""
    again = claim_probe(probing(), RoomId("r2"), CALM, T0 + 65_000)
    assert again == (ProbeStarted(probe=2, room=RoomId("r2"), until=T0 + 125_000),)

    taken_over = after(probing(), again, 65_000)
    assert probe_answered(taken_over, 1, CALM, T0 + 66_000) == ()
    assert probe_failed(taken_over, 1, DOWN, CALM, T0 + 66_000) == ()


def test_failed_probes_come_further_apart_up_to_half_a_minute() -> None:
    """B7: The cap is 30 s, jitter included."""
    breaker, at, gaps = opened(), 0, []
    for _ in range(8):
        gap = breaker.until - T0 - at
        at += gap
        gaps.append(gap / 1_000)
        breaker = after(breaker, claim_probe(breaker, ROOM, SERVICE_BREAKER, T0 + at), at)
        number = breaker.probes
        failed = probe_failed(breaker, number, DOWN, SERVICE_BREAKER, T0 + at, seed="tide")
        assert isinstance(failed[0], ProbeFailed)
        breaker = after(breaker, failed, at)

    assert gaps[0] == 5
    assert [
        step <= gap <= min(step * 1.2, 30) for step, gap in zip([10, 20] + 5 * [25], gaps[1:], strict=True)
    ]
    assert len(set(gaps[3:])) == 5


def test_the_wait_behind_a_probe_counts_from_its_beginning() -> None:
    """A host that lets calls hang is asked as often as one that refuses them."""
    (hung,) = probe_failed(probing(), 1, DOWN, CALM, T0 + 8_000)
    (longer,) = probe_failed(probing(), 1, DOWN, CALM, T0 + 25_000)

    assert isinstance(hung, ProbeFailed)
    assert isinstance(longer, ProbeFailed)
    assert (hung.until, longer.until) == (T0 + 15_000, T0 + 30_000)


def test_a_retry_after_holds_the_next_probe() -> None:
    """B6: A host that asks for ten minutes gets them."""
    asking = Trouble("status", True, status=503, retry_after_s=600.0)
    (failed,) = probe_failed(probing(), 1, asking, CALM, T0 + 6_000)

    assert isinstance(failed, ProbeFailed)
    assert failed.until == T0 + 606_000


def test_an_answer_closes_it_and_the_rooms_come_back_along_a_ramp() -> None:
    """B7: All rooms are due, each at its own place; the same ramp has the same places."""
    assert probe_answered(probing(), 1, CALM, T0 + 5_100) == (BreakerClosed(ramp_until=T0 + 13_100),)

    rooms = [RoomId(f"r{number}") for number in range(200)]
    places = [closed().place_of(room) for room in rooms]
    assert all(T0 + 5_100 <= place < T0 + 13_100 for place in places)
    in_each_second = [
        sum(start <= place - T0 - 5_100 < start + 1_000 for place in places)
        for start in range(0, 8_000, 1_000)
    ]
    assert sum(in_each_second) == 200
    assert max(in_each_second) < 45
    for room, place in zip(rooms, places, strict=True):
        assert not closed().allows(room, place - 1)
        assert closed().allows(room, place)


def test_a_breaker_that_never_opened_holds_nobody() -> None:
    assert HostBreaker("h").allows(ROOM, 0)
    assert not HostBreaker("h").may_probe(T0)


def test_a_person_may_close_it() -> None:
    assert close_breaker(opened(), CALM, T0 + 1) == (BreakerClosed(by="operator", ramp_until=T0 + 8_001),)
    assert close_breaker(closed(), CALM, T0 + 6_000) == ()
    assert close_breaker(HostBreaker("h"), CALM, T0) == ()


def test_it_opens_again_from_the_first_step() -> None:
    (event,) = open_breaker(closed(), T0 + 7_000, DOWN, CALM, T0 + 7_000)

    assert isinstance(event, BreakerOpened)
    assert event.step_s == 5.0
    assert after(closed(), [event], 7_000).probes == 1, "probes are counted for ever"


def test_rooms_take_turns_at_probing() -> None:
    """One room may fail for reasons of its own; the host is not judged by it alone."""
    rooms = [RoomId("b"), RoomId("a"), RoomId("c")]
    turns = [replace(opened(), probes=number).prober(rooms) for number in range(4)]

    assert turns == ["a", "b", "c", "a"]


def test_a_probe_that_we_gave_up_ourselves_ends_its_claim() -> None:
    (failed,) = probe_failed(probing(), 1, Trouble("canceled", False), CALM, T0 + 5_100)

    assert isinstance(failed, ProbeFailed)
    assert (failed.step_s, failed.until) == (5.0, T0 + 10_100)
