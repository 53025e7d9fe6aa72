"""Faults that others have met with waits: schedules over hours, without waiting for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from application.aggregates import change
from domain.backoff import BACKOFF, LIST_LANE, BackoffEvent, Parked, RoomBackoff, Trouble, fail, succeed
from domain.backoff_policy import SEED_POLICY, SERVICE_POLICY, BackoffPolicy
from domain.ids import RoomId
from infrastructure.store.memory import MemoryDatabase
from tests.simulation.remote import Fault, Remote, rooms
from tests.simulation.world import MINUTE, SECOND, SEED, SERVICE, Profile, World
from tests.store.place import START_MS, Place

ROOM = RoomId("room-000")
HOUR = 60 * MINUTE


def status(code: int, retry_after_s: float | None = None) -> Trouble:
    retryable = code == 429 or code >= 500
    return Trouble("status", retryable, f"the remote answered {code}", code, retry_after_s)


@dataclass
class Poll:
    """One lane that is polled every second."""

    policy: BackoffPolicy
    answer: Callable[[int], Trouble | None]
    """What the n-th attempt, from 0, is answered; None is a success."""

    def run(self, for_s: int) -> list[int]:
        """The seconds in which there was an attempt."""
        self.room = RoomBackoff(ROOM)
        attempts: list[int] = []
        for second in range(for_s):
            now = START_MS + second * SECOND
            if self.room.allows(LIST_LANE, now):
                trouble = self.answer(len(attempts))
                attempts.append(second)
                events = (
                    fail(self.room, LIST_LANE, trouble, self.policy, now)
                    if trouble
                    else succeed(self.room, LIST_LANE)
                )
                for event in events:
                    self.room = BACKOFF.evolve(self.room, event, now)
        return attempts


def test_e01_a_day_of_502_is_292_calls() -> None:
    """Case E01: 0, 10, 30, 70, 150, 310, and every 300 s from there."""
    attempts = Poll(SEED_POLICY, lambda _: status(502)).run(86_400)

    assert attempts[:8] == [0, 10, 30, 70, 150, 310, 610, 910]
    assert len(attempts) == 292


def test_e01_the_schedule_makes_the_same_calls() -> None:
    """Case E01: Driven by the schedule of pulls instead of a poll."""
    fault = Fault(START_MS, START_MS + 24 * HOUR, status(502), latency_ms=0)
    world = World(Remote("tide", START_MS, rooms("tide", 1, 0), [fault]), SEED)
    world.run(START_MS + 24 * HOUR)

    at = [(one.at - START_MS) // SECOND for one in world.requests]
    assert at[:8] == [0, 10, 30, 70, 150, 310, 610, 910]
    assert len(at) == 292


def test_e02_too_many_requests_is_a_failure() -> None:
    """Case E02: Three calls in 40 s, the next not before 70 s."""
    answers: Sequence[Trouble | None] = [*(6 * [status(429)]), None]

    assert Poll(SEED_POLICY, lambda attempt: answers[attempt]).run(40) == [0, 10, 30]
    assert Poll(SEED_POLICY, lambda attempt: answers[attempt]).run(71) == [0, 10, 30, 70]


def test_e03_retry_after_is_a_floor() -> None:
    """Case E03: An hour; an hour and a half, cut at the ceiling; and what makes no sense follows the own
    schedule, which a smaller Retry-After never shortens.
    """
    answers = [
        status(429, 3_600.0),
        status(503, 5_400.0),
        status(429),
        status(429, -5.0),
        status(429, 1.0),
    ]
    poll = Poll(SERVICE_POLICY, lambda attempt: answers[attempt] if attempt < 5 else None)
    attempts = poll.run(4 * 3_600)
    waits = [later - earlier for earlier, later in pairwise(attempts)][:5]

    floors = [3_600, 3_600, 40, 80, 160]
    assert all(floor <= wait <= floor + 76 for floor, wait in zip(floors, waits, strict=True))
    assert poll.room.waits == {}


def test_e04_a_room_that_is_gone_is_parked() -> None:
    """Case E04: Three calls in an hour, with a reason that is seen, and the other rooms go on."""
    gone = Fault(START_MS, START_MS + HOUR, status(404), rooms=frozenset([ROOM]))
    world = World(Remote("tide", START_MS, rooms("tide", 3, 1), [gone]))
    world.run(START_MS + HOUR)

    asked = [one for one in world.requests if one.room == ROOM]
    assert len(asked) == 3
    told = list(world.store.history(BACKOFF, ROOM))
    assert [one.topic for one in told] == ["backoff.refused", "backoff.refused", "backoff.parked"]
    assert isinstance(told[-1].event, Parked)
    assert told[-1].event.content == {"reason": "the remote answered 404"}
    others = [one for one in world.requests if one.room != ROOM and one.lane == LIST_LANE]
    assert len(others) >= 2 * (HOUR // (5 * SECOND) - 1)


@pytest.mark.parametrize("profile", [SEED, SERVICE], ids=["seed", "service"])
def test_e05_restarts_change_nothing(profile: Profile) -> None:
    """Case E05: Ten restarts, 20 s apart, make no call more; what is left of a wait is left."""
    down = Fault(START_MS, START_MS + HOUR, status(500))

    def asked(*, restarts: bool) -> list[int]:
        world = World(Remote("tide", START_MS, rooms("tide", 1, 1), [down]), profile)
        for number in range(1, 11):
            world.run(START_MS + number * 20 * SECOND)
            if restarts:
                world.start()
        return [one.at for one in world.requests]

    assert asked(restarts=True) == asked(restarts=False)
    assert len(asked(restarts=True)) == 5


def test_what_is_left_of_a_wait_is_left_for_who_opens_the_store_next() -> None:
    """B8: To the millisecond, as text in a row."""
    database = MemoryDatabase()
    place = Place(lambda: database)

    def fails(room: RoomBackoff) -> Sequence[BackoffEvent]:
        return fail(room, LIST_LANE, status(500), SERVICE_POLICY, START_MS, seed="tide")

    before = change(place.store(), BACKOFF, ROOM, fails, START_MS)

    assert place.store().aggregate(BACKOFF, ROOM) == before
    assert not before.state.allows(LIST_LANE, before.state.waits[LIST_LANE].until - 1)
