"""Lanes: every row stands in exactly one state for a subscription, and nothing unfinished is forgotten."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from application.lane_run import LaneRun
from application.lanes import NEVER, UNFINISHED, Choice, Claim, Mark, State, Want
from application.ledger import Ledger
from application.sinks import Receipt, Trouble
from domain.ids import Position, RoomId, TransactionId
from domain.subscription import Added, Filter
from tests.store.place import Place

NAME = "crm"
LEASE_MS = 1_000
FAILED = Receipt(Trouble.ENDPOINT, "not well", 503)
REFUSED = Receipt(Trouble.MESSAGE, "not this", 400)


def subscribe(ledger: Ledger, name: str = NAME, after: int | None = 0, **more: Any) -> None:
    ledger.subscriptions.add(Added(name=name, kind="test", from_position=0, **more), after=after)


def say(ledger: Ledger, title: str, room: str = "r1") -> int:
    delta = ledger.report_state({"state": {"title": title}}, room=room, session="s").delta
    assert delta is not None
    return delta.last_position


def claim(
    place: Place, ledger: Ledger, owner: str = "w1", lanes: int = 100, filter_: Filter | None = None
) -> list[Claim]:
    now = place.clock.now
    want = Want(NAME, Position(0), filter_ or Filter(), lanes)
    return list(ledger.store.lanes.claim([want], owner, now, now + LEASE_MS))


def settle(place: Place, ledger: Ledger, *marks: Mark, owner: str = "w1", wake: Iterable[str] = ()) -> int:
    """Set marks; how many leases were lost."""
    now = place.clock.now
    return len(ledger.store.lanes.settle(marks, owner, now, now + LEASE_MS, set(wake)))


def states(ledger: Ledger, name: str = NAME) -> list[State]:
    return [one.state for one in ledger.subscriptions.list(name)]


def fail(place: Place, ledger: Ledger, one: Claim, receipt: Receipt = FAILED) -> None:
    """Tell of a lane whose first parcel failed."""
    after = LaneRun(one, "w1", "go_on").failed(receipt, place.clock.now, 0)
    if isinstance(after, Mark):
        settle(place, ledger, after)
    else:
        ledger.subscriptions.park(after, one.due[0].committed.transaction_id)


def deliver(place: Place, ledger: Ledger, one: Claim, count: int = 1_000) -> None:
    """Deliver a claim, or its first few."""
    run = LaneRun(one, "w1", "go_on")
    marks = []
    while run.next and count:
        marks.append(run.arrived())
        count -= 1
    last = run.left(place.clock.now) if run.next else run.done(place.clock.now)
    for mark in (*marks, last):
        assert settle(place, ledger, mark) == 0


# States.


def test_a_row_goes_from_state_to_state(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    assert states(ledger) == [State.PENDING]
    (one,) = claim(place, ledger)
    assert states(ledger) == [State.CLAIMED]
    fail(place, ledger, one)
    assert states(ledger) == [State.WAITING]
    place.clock.now += 5_000
    assert states(ledger) == [State.PENDING]
    (one,) = claim(place, ledger)
    deliver(place, ledger, one)
    assert states(ledger) == [State.DELIVERED]


FINISHED_BY_LANE = "o.position <= l.position AND a.state IS NULL"
IS_OPEN = "(l.target > l.position OR l.asked > 0)"
IN_LANE = f"l.room IS NOT NULL AND {IS_OPEN} AND (o.position > l.position OR a.state = 'asked')"
KNOWN = "(o.position <= s.seen OR a.state = 'asked') AND (a.state IS NULL OR a.state = 'asked')"
BY_STATE = {
    State.PENDING: (
        f"(o.position > s.seen AND a.state IS NULL) OR ({IN_LANE} AND {KNOWN} AND l.due_at <= :now)"
    ),
    State.CLAIMED: f"{IN_LANE} AND {KNOWN} AND l.due_at > :now AND l.due_at = l.until",
    State.WAITING: f"{IN_LANE} AND {KNOWN} AND l.due_at > :now AND l.due_at <> l.until",
    State.DELIVERED: f"({FINISHED_BY_LANE}) OR a.state = 'delivered'",
    State.PARKED: "a.state = 'parked'",
    State.SKIPPED: "a.state IN ('skipped', 'skipping')",
}
"""For each state the rows in it, told apart by what workers ask for: what lies behind the tail or in a lane
that is due is claimed now, what has a lease or a wait is claimed when that has ended."""


def by_sql(ledger: Ledger, now: int) -> dict[State, list[str]]:
    """The rooms of the rows in each state, as the database says."""
    found = {}
    with ledger.store._database.read() as tables:  # type: ignore[attr-defined]
        for state, condition in BY_STATE.items():
            rows = tables.lanes._all(
                "SELECT o.room FROM outbox o JOIN subscriptions s ON o.position > s.after"
                " LEFT JOIN lanes l ON l.name = s.name AND l.room = o.room"
                " LEFT JOIN asides a ON a.name = s.name AND a.position = o.position"
                f" WHERE {condition.replace(':now', str(now))}"
            )
            found[state] = sorted(row[0] for row in rows)
    return found


def test_every_row_is_in_exactly_one_state_and_for_each_state_a_query_of_workers_selects_it(
    shared: Place,
) -> None:
    """L3: Asked of the database itself."""
    ledger = shared.ledger()
    subscribe(ledger)
    rooms = ("delivered", "parked", "claimed", "waiting", "skipped", "again")
    for room in rooms:
        say(ledger, "a", room)
    lanes = {one.lease.room: one for one in claim(shared, ledger)}
    for room in ("delivered", "claimed", "again"):
        deliver(shared, ledger, lanes[RoomId(room)])
    for _ in range(3):
        fail(shared, ledger, lanes[RoomId("parked")], REFUSED)
        shared.clock.now += 10**7
        lanes |= {one.lease.room: one for one in claim(shared, ledger)}
    settle(
        shared, ledger, *(LaneRun(lanes[RoomId(one)], "w1", "go_on").left(shared.clock.now) for one in rooms)
    )
    say(ledger, "b", "claimed")
    ledger.subscriptions.skip(NAME, Choice(room="skipped"))
    lanes = {one.lease.room: one for one in claim(shared, ledger)}
    fail(shared, ledger, lanes[RoomId("waiting")])
    ledger.subscriptions.redeliver(NAME, Choice(room="again"))
    say(ledger, "c", "new")

    stand = by_sql(ledger, shared.clock.now)

    assert stand == {
        State.PENDING: ["again", "new"],
        State.CLAIMED: ["claimed"],
        State.WAITING: ["waiting"],
        State.DELIVERED: ["claimed", "delivered"],
        State.PARKED: ["parked"],
        State.SKIPPED: ["skipped"],
    }
    assert sum(map(len, stand.values())) == len(list(ledger.deltas()))
    listed = [(one.state, one.committed.room) for one in ledger.subscriptions.list(NAME)]
    assert sorted(listed) == sorted((state, room) for state, found in stand.items() for room in found)

    shared.clock.now += 10**9
    left = sorted(room for state in UNFINISHED for room in stand[state])
    assert sorted(one.lease.room for one in claim(shared, ledger, "w2") if one.due) == left


def test_whatever_happens_every_row_ends_in_exactly_one_state_and_none_is_lost(place: Place) -> None:
    """A walk over claims, failures, deaths, operators and commits; in the end all can be delivered."""
    ledger, chance = place.ledger(), Random(5)
    subscribe(ledger)
    held: list[Claim] = []
    rooms = ("r1", "r2", "r3")
    for step in range(150):
        match chance.randrange(8):
            case 0 | 1:
                say(ledger, str(step), chance.choice(rooms))
            case 2:
                held += claim(place, ledger, lanes=chance.randrange(1, 4))
            case 3 if held:
                one = held.pop(chance.randrange(len(held)))
                settle(place, ledger, LaneRun(one, "w1", "go_on").done(place.clock.now))
            case 4 if held:
                one = held.pop(chance.randrange(len(held)))
                if one.due:
                    after = LaneRun(one, "w1", "go_on").failed(FAILED, place.clock.now, chance.random())
                    if isinstance(after, Mark):
                        settle(place, ledger, after)
            case 5:
                place.clock.now += chance.choice((10, 500, 6_000))
            case 6:
                state = chance.choice(list(State))
                ledger.subscriptions.skip(NAME, Choice(room=chance.choice(rooms), states=frozenset([state])))
            case 7:
                ledger.subscriptions.redeliver(NAME, Choice(states=frozenset([State.SKIPPED])))
            case _:
                pass
        assert len(states(ledger)) == len(list(ledger.deltas()))
    place.clock.now += 10**9
    for _ in range(200):
        claims = claim(place, ledger, "w1")
        if not claims:
            break
        for one in claims:
            deliver(place, ledger, one)
    assert set(states(ledger)) <= {State.DELIVERED, State.SKIPPED}


# Leases.


def test_a_lane_is_somebodys_until_its_lease_has_ended(place: Place) -> None:
    """L4: Another worker gets it then, and what the first one says changes nothing."""
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    (first,) = claim(place, ledger, "w1")
    place.clock.now += LEASE_MS - 1
    assert claim(place, ledger, "w2") == []
    place.clock.now += 1
    (second,) = claim(place, ledger, "w2")
    assert second.lease.token > first.lease.token
    assert settle(place, ledger, Mark(first.lease, first.through), owner="w1") == 1
    assert states(ledger) == [State.CLAIMED]


def test_a_heartbeat_keeps_a_lease(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    (one,) = claim(place, ledger, "w1")
    for _ in range(3):
        place.clock.now += LEASE_MS - 1
        assert settle(place, ledger, Mark(one.lease)) == 0
        assert claim(place, ledger, "w2") == []


def test_what_comes_while_a_lane_is_held_is_claimed_when_it_is_given_back(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    (one,) = claim(place, ledger)
    last = say(ledger, "b")
    assert claim(place, ledger, "w2") == []
    deliver(place, ledger, one)
    (one,) = claim(place, ledger, "w2")
    assert [due.committed.last_position for due in one.due] == [last]


def test_the_lanes_that_are_due_longest_come_first(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    for number in range(5):
        say(ledger, "a", f"r{number}")
        assert claim(place, ledger, lanes=0) == []
        place.clock.now += 10
    assert [{one.lease.room for one in claim(place, ledger, lanes=2)} for _ in range(3)] == [
        {"r0", "r1"},
        {"r2", "r3"},
        {"r4"},
    ]


def test_a_long_lane_is_claimed_in_parts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infrastructure.store.lane_store.LANE_ROWS", 3)
    monkeypatch.setattr("infrastructure.store.lane_store.TAIL_ROWS", 4)
    ledger = place.ledger()
    subscribe(ledger)
    said = [say(ledger, str(number)) for number in range(8)]
    seen = []
    while claims := claim(place, ledger):
        (one,) = claims
        assert len(one.due) <= 3
        seen += [due.committed.last_position for due in one.due]
        deliver(place, ledger, one)
    assert seen == said


def test_rows_that_a_filter_leaves_out_are_passed(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger, entity_kinds=("turn",))
    say(ledger, "a")
    turn = {"state": {"turn": {"turnId": "t", "phase": "running"}}}
    wanted = ledger.report_state(turn, room="r1", session="s").delta
    say(ledger, "c")
    assert wanted is not None
    (one,) = claim(place, ledger, filter_=Filter(entity_kinds=frozenset(["turn"])))
    assert [due.committed.last_position for due in one.due] == [wanted.last_position]
    deliver(place, ledger, one)
    assert claim(place, ledger, filter_=Filter(entity_kinds=frozenset(["turn"]))) == []
    assert [one.committed.last_position for one in ledger.subscriptions.list(NAME)] == [wanted.last_position]


def test_the_next_lane_is_due_when_the_first_wait_or_lease_ends(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    lanes, start = ledger.store.lanes, place.clock.now
    assert lanes.next_due([NAME], start) is None
    say(ledger, "a", "r1")
    say(ledger, "b", "r2")
    first, second = claim(place, ledger)
    assert lanes.next_due([NAME], start) == start + LEASE_MS
    fail(place, ledger, first)
    deliver(place, ledger, second)
    assert lanes.next_due([NAME], start) == start + 5_000


# Operators.


def test_a_stopped_lane_is_due_when_an_operator_has_decided(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger, on_parked="stop")
    say(ledger, "a")
    say(ledger, "b")
    for _ in range(3):
        (one,) = claim(place, ledger)
        after = LaneRun(one, "w1", "stop").failed(REFUSED, place.clock.now, 0)
        if isinstance(after, Mark):
            settle(place, ledger, after)
        else:
            assert after.due_at == NEVER
            ledger.subscriptions.park(after, one.due[0].committed.transaction_id)
        place.clock.now += 10**7
    place.clock.now += 10**9
    say(ledger, "c")
    assert claim(place, ledger) == []
    assert states(ledger) == [State.PARKED, State.WAITING, State.WAITING]
    ledger.subscriptions.redeliver(NAME, Choice(states=frozenset([State.PARKED])))
    (one,) = claim(place, ledger)
    assert [due.redelivery for due in one.due] == [1, 0, 0]
    deliver(place, ledger, one)
    assert states(ledger) == [State.DELIVERED] * 3


def test_a_choice_by_time_room_state_and_id(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a", "r1")
    place.clock.now += 1_000
    say(ledger, "b", "r1")
    say(ledger, "c", "r2")
    every = list(ledger.subscriptions.list(NAME))
    ids: tuple[TransactionId, ...] = (every[0].committed.transaction_id, every[2].committed.transaction_id)

    def chosen(choice: Choice) -> list[int]:
        return [every.index(one) for one in ledger.subscriptions.list(NAME, choice)]

    assert chosen(Choice(room="r1")) == [0, 1]
    assert chosen(Choice(since=place.clock.now)) == [1, 2]
    assert chosen(Choice(transactions=ids)) == [0, 2]
    assert chosen(Choice(transactions=ids, room="r2", states=frozenset([State.PENDING]))) == [2]
    assert chosen(Choice(states=frozenset([State.PARKED]))) == []


def test_what_a_delta_waits_for_is_the_first_unfinished_one_of_its_room(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    say(ledger, "b")
    first, second = ledger.subscriptions.list(NAME)
    assert ledger.subscriptions.before(first) is None
    assert ledger.subscriptions.before(second) == first


def test_an_observer_in_the_process_has_its_lanes_beside_those_of_workers(place: Place) -> None:
    """L1: It is a subscription like the others, served by who commits."""
    ledger = place.ledger()
    subscribe(ledger)
    ledger.subscribe(lambda _: None, "observer")
    say(ledger, "a")
    assert [entry.pending for entry in ledger.outbox()] == [(NAME,)]
    (one,) = claim(place, ledger)
    deliver(place, ledger, one)
    assert [entry.pending for entry in ledger.outbox()] == [()]
