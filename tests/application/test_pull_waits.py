"""Two processes that pull the same rooms, on one store: one of them wins, and both agree afterwards."""

from dataclasses import dataclass, replace

import pytest

from application.aggregates import change
from application.pull_calls import SERVICE_PACE, Call
from application.pull_schedule import PullSchedule, service_schedule
from application.pull_waits import claim, learn, settle
from domain.backoff import BACKOFF, LIST_LANE, Trouble
from domain.breaker import BREAKER, SERVICE_BREAKER
from domain.ids import RoomId
from domain.tracked_room import ROOM, track
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from tests.store.place import Place

DOWN = Trouble("status", True, "the remote answered 503", 503)
HOST = "h:80"


@dataclass
class Process:
    """One process that pulls: a store of its own on the shared place, and a schedule."""

    place: Place
    store: EventStore
    schedule: PullSchedule

    def look(self) -> None:
        """Look up how everything stands."""
        settle(self.store, self.schedule, learn(self.store, self.schedule, self.now), self.now)

    def begin(self) -> list[Call]:
        calls = list(self.schedule.plan(self.now).calls)
        for call in calls:
            self.schedule.begin(call, self.now)
        return calls

    def fail(self, call: Call) -> None:
        settle(self.store, self.schedule, self.schedule.failed(call, DOWN, self.now), self.now)

    def answer(self, call: Call) -> None:
        settle(self.store, self.schedule, self.schedule.listed(call, [], self.now), self.now)

    def probe(self) -> Call | None:
        """Try to get the probe that is due."""
        calls = self.schedule.plan(self.now).calls
        return claim(self.store, self.schedule, calls[0], SERVICE_BREAKER, self.now) if calls else None

    @property
    def now(self) -> int:
        return self.place.clock.now


@pytest.fixture
def place() -> Place:
    database = MemoryDatabase()
    return Place(lambda: database)


def start(place: Place, *rooms: str) -> Process:
    """A process begins; the rooms are tracked."""
    store = place.store()
    for room in rooms:
        change(store, ROOM, room, lambda state: track(state, "http://h"), place.clock.now)
    process = Process(place, store, service_schedule(pace=replace(SERVICE_PACE, spreads=False)))
    process.look()
    return process


def test_two_processes_that_fail_at_once_leave_one_wait(place: Place) -> None:
    """B8: The second failure is the same one, and both wait for the same instant."""
    first, second = start(place, "r"), start(place, "r")
    (one,), (other,) = first.begin(), second.begin()
    first.fail(one)
    second.fail(other)
    first.look()

    assert first.store.aggregate(BACKOFF, "r").version == 1
    until = first.store.aggregate(BACKOFF, "r").state.waits[LIST_LANE].until
    assert first.schedule.plan(first.now).wake_at == until == second.schedule.plan(second.now).wake_at
    place.clock.now = until
    assert len(first.begin()) == len(second.begin()) == 1


def test_a_process_that_starts_waits_for_what_is_left(place: Place) -> None:
    """B8: As the one did that failed."""
    first = start(place, "r")
    first.fail(first.begin()[0])
    until = first.store.aggregate(BACKOFF, "r").state.waits[LIST_LANE].until
    place.clock.now += 7_000
    second = start(place, "r")

    assert second.begin() == []
    assert second.schedule.plan(second.now).wake_at == until


def test_of_two_processes_one_gets_the_probe(place: Place) -> None:
    """B7: And when it is killed, the other gets it once the claim has ended."""
    rooms = [RoomId(name) for name in "abc"]
    first, second = start(place, *rooms), start(place, *rooms)
    for call in first.begin():
        first.fail(call)
    second.look()
    assert second.schedule.plan(second.now).calls == []

    place.clock.now = first.store.aggregate(BREAKER, HOST).state.until
    probe = first.probe()
    assert probe
    assert probe.probe == 1
    assert second.probe() is None
    assert second.probe() is None, "it knows now, and does not even ask"

    place.clock.now += 60_000
    again = second.probe()
    assert again
    assert again.probe == 2
    first.schedule.begin(probe, first.now)
    first.answer(probe)
    assert first.store.aggregate(BREAKER, HOST).state.is_open, "too late to say so"

    second.schedule.begin(again, second.now)
    second.answer(again)
    assert not first.store.aggregate(BREAKER, HOST).state.is_open
    assert all(not held.state.waits for held in first.store.aggregates(BACKOFF))


def test_what_a_killed_process_left_of_an_outage_is_taken_back_by_the_next(place: Place) -> None:
    """B7: The breaker was closed, the waits were not yet cleared."""
    first = start(place, *"abc")
    for call in first.begin():
        first.fail(call)
    assert first.store.aggregate(BACKOFF, "a").state.waits
    place.clock.now = first.store.aggregate(BREAKER, HOST).state.until
    probe = first.probe()
    assert probe
    first.schedule.begin(probe, first.now)
    close = first.schedule.listed(probe, [], first.now)[0]
    change(first.store, close.kind, close.key, close.rule, first.now)

    start(place)
    assert all(not held.state.waits for held in first.store.aggregates(BACKOFF))
