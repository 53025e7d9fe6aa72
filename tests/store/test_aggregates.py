"""Aggregates beside the sessions: stored, found again, checked and made anew like everything else."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from application.aggregates import change
from application.ports import Change, Decide, Decision, Loader
from domain.aggregate import Held, Kind
from domain.event import Event
from infrastructure.store import topics
from infrastructure.store.copying import copy
from infrastructure.store.memory import MemoryDatabase
from tests.store.place import ROOM, SESSION, Place, in_memory, titled


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung(Event):
    """Somebody rang a bell. Content: `why`."""

    TOPIC: ClassVar[str] = "bell.rung"
    loud: int


@dataclass(frozen=True, slots=True)
class Ring:
    loud: int
    at: int


@dataclass(frozen=True, slots=True)
class Bell:
    name: str
    rings: Mapping[str, Ring]
    last: Ring | None = None


def ring(bell: Bell, event: Rung, recorded_at: int) -> Bell:
    rung = Ring(event.loud, recorded_at)
    why = str(event.content["why"]) if event.content else ""
    return replace(bell, rings={**bell.rings, why: rung}, last=rung)


BELL = Kind("bell", lambda name: Bell(name, {}), ring)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topics.TOPICS, Rung.TOPIC, Rung)
    monkeypatch.setitem(topics.AGGREGATE_KINDS, BELL.name, BELL)


def rings(place: Place, key: str, *loud: int) -> Decide:
    def decide(load: Loader) -> Decision:
        held = load.aggregate(BELL, key)
        events = [Rung(loud=one, content={"why": f"because of {one}"}) for one in loud]
        return Decision({}, changes=[Change(BELL, held, events, place.clock.now, "me")])

    return decide


def test_what_was_decided_is_found_by_who_opens_the_store_next(place: Place) -> None:
    at = place.clock.now
    place.store().submit(rings(place, "a", 1, 2))

    last = Ring(2, at)
    state = Bell("a", {"because of 1": Ring(1, at), "because of 2": last}, last)
    assert place.store().aggregate(BELL, "a") == Held("a", state, 2)
    assert place.store().aggregate(BELL, "b") == Held("b", Bell("b", {}), 0)


def test_a_decision_sees_what_those_before_it_stored(place: Place) -> None:
    store = place.store()
    store.submit(rings(place, "a", 1))
    store.submit(rings(place, "a", 2))

    assert store.aggregate(BELL, "a").version == 2


def test_all_of_a_kind_are_listed_by_name(place: Place) -> None:
    store = place.store()
    for key in ("b", "a", "c"):
        store.submit(rings(place, key, 1))

    assert [held.key for held in store.aggregates(BELL)] == ["a", "b", "c"]


def test_the_history_tells_each_event_and_who_made_it(place: Place) -> None:
    store = place.store()
    store.submit(rings(place, "a", 1, 2))

    told = list(store.history(BELL, "a"))
    assert [(one.version, one.topic, one.key, one.actor) for one in told] == [
        (1, "bell.rung", "a", "me"),
        (2, "bell.rung", "a", "me"),
    ]
    assert [one.event.content for one in told] == [{"why": "because of 1"}, {"why": "because of 2"}]
    assert [one.version for one in store.history(BELL, "a", 1)] == [2]


def test_no_events_are_no_news(place: Place) -> None:
    store = place.store()
    answer = store.submit(rings(place, "a"))

    assert (answer.events, answer.answer["transactionId"]) == (0, "")
    assert list(store.aggregates(BELL)) == []


def test_it_makes_no_delta(place: Place) -> None:
    """Deliveries and waits never cause deliveries (SPEC C9)."""
    store = place.store()
    answer = store.submit(rings(place, "a", 1))

    assert answer.delta is None
    assert list(store.deltas()) == []


def test_an_aggregate_and_a_session_can_change_in_one_commit(place: Place) -> None:
    store = place.store()

    def both(load: Loader) -> Decision:
        told = place.decides(titled("both"))(load)
        return replace(told, changes=rings(place, "a", 1)(load).changes)

    committed = store.submit(both)

    assert committed.delta is not None
    assert (committed.delta.first_position, committed.delta.last_position) == (1, 3)
    assert store.aggregate(BELL, "a").version == 1
    assert {one.transaction for one in [*store.events(ROOM, SESSION), *store.history(BELL, "a")]} == {
        committed.answer["transactionId"]
    }
    assert store.verify().problems == ()


def test_a_rebuild_and_an_audit_read_them(place: Place) -> None:
    store = place.store()
    store.submit(rings(place, "a", 1))
    store.submit(place.decides(titled("between")))
    store.submit(rings(place, "a", 2))
    before = store.aggregate(BELL, "a")

    assert store.verify().problems == ()
    assert store.rebuild() == 4
    assert place.store().aggregate(BELL, "a") == before
    assert store.verify().problems == ()


def test_they_are_copied_with_the_rest(place: Place) -> None:
    store = place.store()
    store.submit(rings(place, "a", 1, 2))
    target = MemoryDatabase()
    copy(place.database(), target)

    there = in_memory()
    there.make = lambda: target
    assert there.store().aggregate(BELL, "a") == store.aggregate(BELL, "a")
    assert there.store().verify().problems == ()


def test_a_rule_decides_on_an_aggregate_as_it_stands(place: Place) -> None:
    store = place.store()

    def louder(bell: Bell) -> list[Rung]:
        return [Rung(loud=(bell.last.loud if bell.last else 0) + 1)]

    changed = [change(store, BELL, "a", louder, place.clock.now) for _ in range(3)]

    assert [held.version for held in changed] == [1, 2, 3]
    assert store.aggregate(BELL, "a") == changed[-1]
    assert changed[-1].state.last == Ring(3, place.clock.now)


def test_a_failing_command_leaves_nothing_of_it(place: Place) -> None:
    store = place.store()

    def fails(load: Loader) -> Decision:
        seen = rings(place, "a", 1)(load)
        kind: Kind[Any] = Kind("bell", BELL.empty, lambda *_: 1 / 0)
        return Decision({}, changes=[replace(seen.changes[0], kind=kind)])

    with pytest.raises(ZeroDivisionError):
        store.submit(fails)
    assert store.aggregate(BELL, "a").version == 0
    assert store.verify().events == 0
