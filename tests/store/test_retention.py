"""What is old and was delivered is removed, nothing else, and who reads below that is told (SPEC O3)."""

import pytest

from application.lanes import Choice, Mark, State, Want
from application.ledger import Ledger
from domain.errors import Trimmed
from domain.ids import Position
from domain.subscription import Added, Filter
from infrastructure.store.copying import copy
from infrastructure.store.memory import MemoryDatabase
from tests.store.place import Place, in_memory

NAME = "crm"


def subscribe(ledger: Ledger, name: str = NAME, after: int = 0) -> None:
    ledger.subscriptions.add(Added(name=name, kind="test", from_position=0), after=after)


def say(ledger: Ledger, title: str, room: str = "r1") -> int:
    delta = ledger.report_state({"state": {"title": title}}, room=room, session="s").delta
    assert delta is not None
    return delta.last_position


def deliver(place: Place, ledger: Ledger, room: str = "", name: str = NAME) -> None:
    """Claim everything and deliver a room, or all of them; the others stay claimed."""
    now, lanes = place.clock.now, ledger.store.lanes
    for claim in lanes.claim([Want(name, Position(0), Filter(), 100)], "w", now, now + 1):
        if room in ("", claim.lease.room):
            assert not lanes.settle([Mark(claim.lease, claim.through)], "w", now, now)


def trim(place: Place, ledger: Ledger, limit: int = 100) -> int:
    return ledger.store.lanes.trim(place.clock.now, limit)


def positions(ledger: Ledger) -> list[int]:
    return [delta.last_position for delta in ledger.deltas(ledger.store.extent().kept_behind)]


def test_what_was_delivered_goes_when_its_time_has_passed(place: Place) -> None:
    """O3: A time must have passed, and everybody must have had it."""
    ledger = place.ledger()
    subscribe(ledger)
    for title in "ab":
        say(ledger, title)
    deliver(place, ledger)
    assert trim(place, ledger) == 0
    place.clock.now += 1
    late = say(ledger, "c")
    assert trim(place, ledger) == 2
    assert positions(ledger) == [late]
    assert ledger.store.extent().kept_behind == late - 1


@pytest.mark.parametrize("hold", ["new", "claimed", "observer", "asked"])
def test_nothing_goes_that_a_subscription_has_not_had(place: Place, hold: str) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    if hold == "observer":
        ledger.store.subscribe("observer", Position(0))  # type: ignore[attr-defined]
    first = say(ledger, "a", "r1")
    if hold != "new":
        deliver(place, ledger)
    second = say(ledger, "b", "r2")
    match hold:
        case "claimed":
            deliver(place, ledger, "nothing")
        case "asked":
            deliver(place, ledger)
            ledger.subscriptions.redeliver(NAME, Choice(room="r2"))
        case _:
            pass
    place.clock.now += 1

    removed = trim(place, ledger)

    kept = [first, second] if hold in ("new", "observer") else [second]
    assert positions(ledger) == kept
    assert removed == 2 - len(kept)
    assert trim(place, ledger) == 0


def test_what_was_skipped_goes_too(place: Place) -> None:
    ledger = place.ledger()
    subscribe(ledger)
    say(ledger, "a")
    ledger.subscriptions.skip(NAME, Choice(room="r1"))
    deliver(place, ledger)
    place.clock.now += 1
    assert [one.state for one in ledger.subscriptions.list(NAME)] == [State.SKIPPED]
    assert trim(place, ledger) == 1
    assert list(ledger.subscriptions.list(NAME)) == []


def test_it_goes_in_slices(place: Place) -> None:
    ledger = place.ledger()
    for number in range(5):
        say(ledger, str(number))
    place.clock.now += 1
    assert [trim(place, ledger, 2) for _ in range(4)] == [2, 2, 1, 0]


def test_who_reads_below_the_floor_is_told_where_to_go_on(place: Place) -> None:
    ledger = place.ledger()
    last = [say(ledger, title) for title in "abc"][-1]
    place.clock.now += 1
    trim(place, ledger)

    with pytest.raises(Trimmed, match=f"go on behind {last}") as told:
        list(ledger.deltas(0))
    assert (told.value.asked, told.value.earliest) == (0, last)
    with ledger.follow(0) as following, pytest.raises(Trimmed):
        following.page()
    assert list(ledger.deltas(last)) == []
    assert list(ledger.outbox()) == []


def test_a_subscription_cannot_begin_below_the_floor(place: Place) -> None:
    ledger = place.ledger()
    last = say(ledger, "a")
    place.clock.now += 1
    trim(place, ledger)

    with pytest.raises(Trimmed):
        subscribe(ledger)
    with pytest.raises(Trimmed):
        ledger.subscribe(lambda _: None, "observer", after=0)

    assert ledger.subscriptions.all() == []
    subscribe(ledger, after=last)


def test_an_observer_that_was_there_before_goes_on(place: Place) -> None:
    ledger, seen = place.ledger(), list[int]()
    ledger.subscribe(lambda delta: seen.append(delta.last_position), "observer", after=0)
    say(ledger, "a")
    place.clock.now += 1
    assert trim(place, ledger) == 1
    ledger.close()
    ledger = place.ledger()
    ledger.subscribe(lambda delta: seen.append(delta.last_position), "observer", after=0)
    last = say(ledger, "b")
    assert seen[-1] == last


def test_verify_and_copies_know_what_is_no_longer_kept(place: Place) -> None:
    ledger = place.ledger()
    say(ledger, "a")
    place.clock.now += 1
    trim(place, ledger)
    say(ledger, "b")

    assert ledger.verify().problems == ()
    assert ledger.rebuild() == 3
    target = MemoryDatabase()
    copy(place.database(), target)
    there = in_memory()
    there.make = lambda: target
    assert there.ledger().verify().problems == ()
    assert there.store().extent().kept_behind == ledger.store.extent().kept_behind


def test_a_missing_delta_above_the_floor_is_still_found(shared: Place) -> None:
    ledger = shared.ledger()
    say(ledger, "a")
    with ledger.store._database.write() as tables:  # type: ignore[attr-defined]
        tables.lanes._all("DELETE FROM outbox")
    assert "missing from the outbox" in ledger.verify().problems[0].what
