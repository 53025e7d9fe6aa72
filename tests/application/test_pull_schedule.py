"""Which calls are due: places in the tick, what is skipped, bounds, triggers, and what outcomes cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from application.pull_calls import SEED_PACE, SERVICE_PACE, Call, Listed, Pace, Step
from application.pull_schedule import PullSchedule
from domain.aggregate import Kind
from domain.backoff import BACKOFF, LIST_LANE, Paused, RoomBackoff, Trouble, messages_lane
from domain.backoff_policy import SERVICE_POLICY, BackoffPolicy
from domain.breaker import BREAKER, SERVICE_BREAKER, HostBreaker, claim_probe
from domain.ids import RoomId, SessionId
from domain.tracked_room import ROOM, SessionHidden, Tracked, Untracked

T0 = 1_772_355_600_000
TICK = 5_000
DOWN = Trouble("status", True, "the remote answered 503", 503)
GONE = Trouble("status", False, "the remote answered 404", 404)
AT_ONCE = replace(SERVICE_PACE, spreads=False)
CALM = replace(SERVICE_POLICY, jitter=0.0)


class Pulls:
    """A schedule, and the aggregates it is told of."""

    def __init__(
        self, *rooms: str, pace: Pace = AT_ONCE, waits: BackoffPolicy | None = CALM, url: str = "http://h"
    ) -> None:
        self.now = T0
        self.schedule = PullSchedule(pace, waits, SERVICE_BREAKER, "seed")
        self.states: dict[tuple[str, str], Any] = {}
        for room in rooms:
            self.tell(ROOM, room, Tracked(url=url.format(room)))

    def state(self, kind: Kind[Any], key: str) -> Any:
        return self.states.get((kind.name, key)) or kind.empty(key)

    def tell(self, kind: Kind[Any], key: str, *events: Any) -> None:
        """Store events of an aggregate, and let the schedule know."""
        state = self.state(kind, key)
        for event in events:
            state = kind.evolve(state, event, self.now)
        self.states[kind.name, key] = state
        match state:
            case RoomBackoff():
                self.schedule.know_backoff(state)
            case HostBreaker():
                self.settle(self.schedule.know_breaker(state))
            case _:
                self.schedule.know_room(state, self.now)

    def settle(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.tell(step.kind, step.key, *step.rule(self.state(step.kind, step.key)))

    def due(self) -> list[tuple[str, str]]:
        """Room and lane of what is due, without making the calls."""
        return [(call.room, call.lane) for call in self.schedule.plan(self.now).calls]

    def begin(self) -> list[Call]:
        """Make the calls that are due."""
        calls = list(self.schedule.plan(self.now).calls)
        for call in calls:
            self.schedule.begin(call, self.now)
        return calls

    def list_all(self, *sessions: Listed) -> None:
        """Make the list calls that are due, and no others, and answer them."""
        for call in self.schedule.plan(self.now).calls:
            if call.is_list:
                self.schedule.begin(call, self.now)
                self.settle(self.schedule.listed(call, sessions, self.now))

    def read_all(self, *, has_more: bool = False) -> list[str]:
        """Read the sessions that are due; their lanes."""
        calls = [call for call in self.begin() if not call.is_list]
        for call in calls:
            self.settle(self.schedule.read(call, self.now, has_more=has_more))
        return [call.lane for call in calls]

    def fail_all(self, trouble: Trouble) -> list[tuple[str, str]]:
        """Make the calls that are due, and let them fail."""
        calls = self.begin()
        for call in calls:
            self.settle(self.schedule.failed(call, trouble, self.now))
        return [(call.room, call.lane) for call in calls]


def seen(session: str, updated_at: int = 1, *, live: bool = False) -> Listed:
    return Listed(SessionId(session), updated_at, live)


# When rooms are listed.


def test_a_room_is_listed_once_in_each_tick() -> None:
    pulls = Pulls("r")
    times = []
    for _ in range(30):
        if pulls.due():
            times.append(pulls.now - T0)
            pulls.list_all()
        pulls.now += 500

    assert times == [0, 5_000, 10_000]


def test_rooms_have_places_of_their_own_in_the_tick() -> None:
    pulls = Pulls(*(f"r{number}" for number in range(200)), pace=SERVICE_PACE)
    found = []
    for _ in range(50):
        found.append(len(pulls.begin()))
        pulls.now += 100

    assert sum(found[:10]) < 60
    assert pulls.schedule.plan(T0).wake_at is not None


def test_a_slow_list_call_is_not_made_a_second_time() -> None:
    pulls = Pulls("r")
    (call,) = pulls.begin()
    pulls.now += 60_000
    assert pulls.due() == []

    pulls.schedule.listed(call, [], pulls.now)
    assert pulls.due() == [("r", LIST_LANE)]


def test_it_says_when_to_ask_again() -> None:
    pulls = Pulls("r")
    pulls.list_all()

    assert pulls.schedule.plan(pulls.now).wake_at == T0 + TICK
    assert PullSchedule().plan(T0).wake_at is None


def test_an_untracked_room_is_not_called_and_its_late_answer_is_no_trouble() -> None:
    pulls = Pulls("r")
    (call,) = pulls.begin()
    pulls.tell(ROOM, "r", Untracked())
    pulls.settle(pulls.schedule.listed(call, [seen("s")], pulls.now))
    pulls.now += TICK

    assert pulls.due() == []


def test_triggers_are_one_wish_and_do_not_shorten_a_wait() -> None:
    pulls = Pulls("r")
    pulls.list_all()
    pulls.now += 100
    for _ in range(3):
        pulls.schedule.trigger(RoomId("r"), pulls.now)
    (call,) = pulls.begin()
    for _ in range(3):
        pulls.schedule.trigger(RoomId("r"), pulls.now)
    assert pulls.due() == []
    pulls.settle(pulls.schedule.failed(call, DOWN, pulls.now))
    assert pulls.due() == []

    pulls.now += 10_000
    assert pulls.due() == [("r", LIST_LANE)]


def test_a_clock_that_is_set_back_by_an_hour_stops_no_room() -> None:
    pulls = Pulls("r")
    pulls.list_all()
    pulls.now -= 3_600_000
    pulls.due()
    pulls.now += TICK

    assert pulls.due() == [("r", LIST_LANE)]


# Which sessions are read.


def test_a_session_is_read_until_nothing_can_be_new() -> None:
    """Only a complete reading of the same state rules news out (SPEC P3)."""
    pulls = Pulls("r")
    read = []
    for session, has_more in (
        (seen("s", 1), True),
        (seen("s", 1), False),
        (seen("s", 1), False),
        (seen("s", 2), False),
        (seen("s", 2), False),
        (seen("s", 2, live=True), False),
        (seen("s", 2, live=True), False),
        (seen("s", 0), False),
        (seen("s", 0), False),
    ):
        pulls.list_all(session)
        read.append(bool(pulls.read_all(has_more=has_more)))
        pulls.now += TICK

    assert read == [True, True, False, True, False, True, True, True, True]


def test_what_changed_while_it_was_read_is_read_again() -> None:
    pulls = Pulls("r")
    pulls.list_all(seen("s", 1))
    (reading,) = pulls.begin()
    pulls.now += TICK
    pulls.list_all(seen("s", 2))
    pulls.settle(pulls.schedule.read(reading, pulls.now))
    pulls.now += TICK
    pulls.list_all(seen("s", 2))

    assert pulls.read_all() == [messages_lane(SessionId("s"))]


def test_hidden_and_missing_sessions_are_not_read() -> None:
    pulls = Pulls("r")
    pulls.tell(ROOM, "r", SessionHidden(session=SessionId("hidden")))
    pulls.list_all(seen("s"), seen("hidden"), seen("gone"))
    assert sorted(pulls.due()) == [("r", "messages:gone"), ("r", "messages:s")]

    pulls.now += TICK
    pulls.list_all(seen("s"))
    assert pulls.due() == [("r", "messages:s")]


def test_in_the_ancestors_pace_every_session_is_read_with_every_tick() -> None:
    pulls = Pulls("r", pace=SEED_PACE)
    for _ in range(3):
        pulls.list_all(seen("s", 1), seen("t", 1))
        assert len(pulls.read_all()) == 2
        pulls.now += TICK


def test_no_session_is_read_while_its_room_cannot_be_listed() -> None:
    pulls = Pulls("r")
    pulls.list_all(seen("s", live=True))
    pulls.read_all()
    pulls.now += TICK
    pulls.fail_all(DOWN)
    pulls.now += TICK
    assert pulls.due() == []

    pulls.now += TICK
    assert pulls.due() == [("r", LIST_LANE)]


# Bounds.


def test_a_slow_room_leaves_the_others_a_way() -> None:
    """The calls of one room are bounded, and so are those of a host (SPEC P9)."""
    pulls = Pulls("slow", "quick")
    pulls.list_all(*(seen(f"s{number}") for number in range(50)))
    calls = pulls.begin()

    assert sum(call.room == "slow" for call in calls) == 4
    assert sum(call.room == "quick" for call in calls) == 4


def test_a_host_gets_no_more_calls_at_once_than_its_bound() -> None:
    pulls = Pulls(*(f"r{number}" for number in range(30)))
    first = pulls.begin()
    assert len(first) == 16
    assert pulls.due() == []

    pulls.schedule.listed(first[0], [], pulls.now)
    assert len(pulls.due()) == 1


def test_hosts_do_not_share_a_bound() -> None:
    pulls = Pulls(*(f"r{number}" for number in range(30)), url="http://{}")

    assert len(pulls.begin()) == 30


# What outcomes cost.


def test_without_a_policy_every_tick_tries_again() -> None:
    """B1: No policy means no backoff."""
    pulls = Pulls("r", waits=None)
    for _ in range(3):
        pulls.list_all(seen("s"))
        assert pulls.fail_all(DOWN) == [("r", "messages:s")]
        assert pulls.due() == []
        pulls.now += TICK
    assert pulls.state(BACKOFF, "r").version == 0


def test_a_failed_session_waits_and_is_tried_at_the_instant_its_wait_ends() -> None:
    """B2: Not with the next tick behind it."""
    pulls = Pulls("r")
    pulls.list_all(seen("s"))
    pulls.now += 1_234
    assert pulls.fail_all(DOWN) == [("r", "messages:s")]
    pulls.now = T0 + TICK
    pulls.list_all(seen("s"))
    pulls.now = T0 + 10_000
    pulls.list_all(seen("s"))
    pulls.now = T0 + 11_233
    assert pulls.due() == []
    assert pulls.schedule.plan(pulls.now).wake_at == T0 + 11_234

    pulls.now += 1
    assert pulls.due() == [("r", "messages:s")]


def test_a_refused_session_is_tried_three_times_a_tick_apart() -> None:
    """B5: And then every hour."""
    pulls = Pulls("r")
    tries = 0
    for _ in range(720):
        pulls.list_all(seen("s"))
        tries += len(pulls.fail_all(GONE))
        assert pulls.due() == []
        pulls.now += TICK
    assert tries == 3

    pulls.now += TICK * 3
    pulls.list_all(seen("s"))
    assert pulls.fail_all(GONE) == [("r", "messages:s")]


def test_success_of_a_lane_that_waited_is_a_step_and_else_there_is_none() -> None:
    """B8: A healthy round asks nothing of the store."""
    pulls = Pulls("r")
    (call,) = pulls.begin()
    pulls.settle(pulls.schedule.failed(call, DOWN, pulls.now))
    pulls.now += 10_000
    (call,) = pulls.begin()
    steps = pulls.schedule.listed(call, [], pulls.now)
    assert [step.kind.name for step in steps] == ["backoff"]
    pulls.settle(steps)

    pulls.now += TICK
    (call,) = pulls.begin()
    assert list(pulls.schedule.listed(call, [], pulls.now)) == []


def test_a_paused_room_is_not_called() -> None:
    pulls = Pulls("r")
    pulls.tell(BACKOFF, "r", Paused())

    assert pulls.due() == []
    assert pulls.schedule.plan(pulls.now).wake_at is None


# The breaker.


def opened() -> Pulls:
    """Five rooms, three of which found their host down."""
    pulls = Pulls(*"abcde")
    calls = pulls.begin()
    for call in calls[:3]:
        pulls.settle(pulls.schedule.failed(call, DOWN, pulls.now))
    assert pulls.state(BREAKER, "h:80").is_open
    for call in calls[3:]:
        pulls.settle(pulls.schedule.failed(call, DOWN, pulls.now))
    return pulls


def probe(pulls: Pulls) -> Call:
    """Claim and begin the probe that is due."""
    (call,) = pulls.schedule.plan(pulls.now).calls
    assert call.is_probe
    pulls.tell(
        BREAKER,
        call.host,
        *claim_probe(pulls.state(BREAKER, call.host), call.room, SERVICE_BREAKER, pulls.now),
    )
    call = replace(call, probe=pulls.state(BREAKER, call.host).probes)
    pulls.schedule.begin(call, pulls.now)
    return call


def charged(pulls: Pulls) -> list[str]:
    return [room for room in "abcde" if pulls.state(BACKOFF, room).waits]


def test_the_third_room_that_fails_opens_the_breaker_and_no_further_one_is_charged() -> None:
    """B7: Calls that were under way charge no lane either."""
    assert charged(opened()) == ["a", "b"]


def test_an_answer_to_any_room_takes_the_suspicion_away() -> None:
    """B7: Even if it is a refusal."""
    pulls = Pulls(*"abcde")
    calls = pulls.begin()
    for call, trouble in zip(calls, (DOWN, DOWN, GONE, DOWN, DOWN), strict=True):
        pulls.settle(pulls.schedule.failed(call, trouble, pulls.now))

    assert not pulls.state(BREAKER, "h:80").is_open
    assert charged(pulls) == list("abcde")


def test_one_room_that_fails_for_ever_opens_nothing() -> None:
    pulls = Pulls("r")
    for _ in range(20):
        pulls.fail_all(DOWN)
        pulls.now += 300_000

    assert not pulls.state(BREAKER, "h:80").is_open


def test_while_it_is_open_one_room_probes_for_all() -> None:
    """B7: Nothing else is due, before the probe and while it is at work."""
    pulls = opened()
    assert pulls.due() == []
    probed_at: int = pulls.state(BREAKER, "h:80").until
    assert pulls.schedule.plan(pulls.now).wake_at == probed_at

    pulls.now = probed_at
    call = probe(pulls)
    pulls.now += 1
    assert pulls.due() == []

    pulls.settle(pulls.schedule.failed(call, DOWN, pulls.now))
    assert charged(pulls) == ["a", "b"]
    assert pulls.state(BREAKER, "h:80").step_s == 10


@pytest.mark.parametrize("trouble", [None, GONE])
def test_an_answered_probe_takes_back_what_the_outage_cost(trouble: Trouble | None) -> None:
    """B7: All rooms are due within the ramp; a refusal is an answer, too."""
    pulls = opened()
    pulls.now = pulls.state(BREAKER, "h:80").until
    call = probe(pulls)
    pulls.settle(
        pulls.schedule.failed(call, trouble, pulls.now)
        if trouble
        else pulls.schedule.listed(call, [], pulls.now)
    )

    assert charged(pulls) == ([call.room] if trouble else [])
    came_back = set()
    until = pulls.now + 8_000
    while pulls.now < until:
        pulls.now += 50
        for one in pulls.begin():
            came_back.add(str(one.room))
            pulls.settle(pulls.schedule.listed(one, [], pulls.now))
    assert came_back == set("abcde")


def test_paused_rooms_do_not_probe_and_parked_ones_only_if_there_is_no_other() -> None:
    pulls = opened()
    for room in "abcd":
        pulls.tell(BACKOFF, room, Paused())
    pulls.now = pulls.state(BREAKER, "h:80").until
    assert [(call.room, call.is_probe) for call in pulls.schedule.plan(pulls.now).calls] == [("e", True)]

    pulls.tell(BACKOFF, "e", Paused())
    assert pulls.due() == []
