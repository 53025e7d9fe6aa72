"""Snapshots are taken beside the commands, and losing one loses nothing."""

from dataclasses import fields
from threading import Barrier, Thread, current_thread, main_thread
from typing import Any, cast

import pytest

from domain import jsontext
from domain.errors import StoreBusy
from domain.ids import StreamId
from domain.session import Pinned, Session, SessionEvent, TurnEnd, Unpinned, evolve
from infrastructure.store.event_store import EventStore, Snapshots
from infrastructure.store.view import SNAPSHOT_MEANING
from infrastructure.store.writer import SNAPSHOT_EVERY, Writer
from tests.store.place import ROOM, SESSION, Place, stream_of, titled

HALF = SNAPSHOT_EVERY // 2


def flips(first: int, behind: int) -> list[SessionEvent]:
    """The smallest events there are, as those of the versions from `first` on."""
    return [Pinned() if version % 2 else Unpinned() for version in range(first, behind)]


def fill(place: Place, store: EventStore, events: int) -> None:
    """Bring the session to this version, in commits that end at hundreds."""
    version = store.state(ROOM, SESSION).version
    while version < events:
        end = min(version - version % 100 + 100, events)
        store.submit(place.decides(*flips(max(version, 1), end)))
        version = end


def folded(store: EventStore) -> Session:
    """The state folded from every event, without any snapshot."""
    state = Session(room=ROOM, session=SESSION)
    for stored in store.events(ROOM, SESSION):
        state = evolve(state, cast("SessionEvent", stored.event), stored.recorded_at)
    return state


def snapshot_of(store: EventStore) -> tuple[int, bytes] | None:
    with store._database.read() as tables:
        return tables.snapshot(stream_of())


def replace_snapshot(store: EventStore, version: int, state: bytes) -> None:
    """Put other bytes in a snapshot's place, newer than the one that stands."""
    with store._database.write() as tables:
        tables.put_snapshot(stream_of(), version, state)


def filled(place: Place, events: int) -> EventStore:
    """A store just opened, whose session has this many events and the snapshots that were due."""
    store = place.store()
    fill(place, store, events)
    store.close()
    return place.store()


def test_there_is_none_before_five_hundred_events(place: Place) -> None:
    assert snapshot_of(filled(place, SNAPSHOT_EVERY - 1)) is None


def test_there_is_one_after_five_hundred_events(place: Place) -> None:
    found = snapshot_of(filled(place, SNAPSHOT_EVERY))
    assert found is not None
    assert found[0] == SNAPSHOT_EVERY


def test_snapshot_and_tail_give_the_state_that_all_events_give(place: Place) -> None:
    store = filled(place, SNAPSHOT_EVERY + HALF)
    state = store.state(ROOM, SESSION)
    assert state == folded(store)
    assert state.version == SNAPSHOT_EVERY + HALF


def test_a_cold_load_reads_the_tail_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(place, SNAPSHOT_EVERY + 3)
    with store._database.read() as tables:
        kind = type(tables)
    asked: list[int] = []
    read = kind.stream

    def stream(tables: Any, stream: StreamId, after: int = 0, *, contents: bool = False) -> Any:
        asked.append(after)
        return read(tables, stream, after, contents=contents)

    monkeypatch.setattr(kind, "stream", stream)
    assert store.submit(place.decides(titled("x"))).events == 1
    assert asked == [SNAPSHOT_EVERY]


def test_a_newer_snapshot_takes_the_place_of_the_older(place: Place) -> None:
    store = filled(place, 2 * SNAPSHOT_EVERY)
    found = snapshot_of(store)
    assert found is not None
    assert found[0] == 2 * SNAPSHOT_EVERY
    replace_snapshot(store, SNAPSHOT_EVERY, b"late")
    assert snapshot_of(store) == found


def test_a_lost_snapshot_loses_nothing(file: Place) -> None:
    store = filled(file, SNAPSHOT_EVERY + 3)
    before = store.state(ROOM, SESSION)
    with store._database.write() as tables:
        tables.execute("DELETE FROM snapshots")
    assert store.state(ROOM, SESSION) == before


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"schema":"other","state":{}}',
        b'{"room":"room-1","session":"ses-1","version":510,"opened":true}',
    ],
    ids=["empty", "noise", "null", "list", "bare", "other schema", "without schema"],
)
def test_an_unreadable_snapshot_is_passed_over(place: Place, state: bytes) -> None:
    store = filled(place, SNAPSHOT_EVERY + 3)
    before = folded(store)
    replace_snapshot(store, SNAPSHOT_EVERY + 1, state)
    assert store.state(ROOM, SESSION) == before
    assert store.submit(place.decides(titled("x"))).events == 1


@pytest.mark.parametrize("damage", [{"room": None}, {"version": 7}, {"unheardOf": 1}, {"lastEnd": {"x": 1}}])
def test_a_snapshot_of_todays_schema_that_contradicts_itself_is_passed_over(
    place: Place, damage: dict[str, object]
) -> None:
    store = filled(place, SNAPSHOT_EVERY + 3)
    before = folded(store)
    found = snapshot_of(store)
    assert found is not None
    kept = jsontext.from_bytes(found[1])
    kept["state"] |= damage
    if "room" in damage:
        del kept["state"]["room"]
    replace_snapshot(store, SNAPSHOT_EVERY + 1, jsontext.to_bytes(kept))
    assert store.state(ROOM, SESSION) == before


def test_a_snapshot_of_another_schema_is_passed_over_however_well_it_reads(place: Place) -> None:
    store = filled(place, SNAPSHOT_EVERY + 3)
    before = folded(store)
    found = snapshot_of(store)
    assert found is not None
    kept = jsontext.from_bytes(found[1])
    other = {**kept["state"], "version": SNAPSHOT_EVERY + 1, "activeTurn": "meant something else then"}
    replace_snapshot(store, SNAPSHOT_EVERY + 1, jsontext.to_bytes({"schema": "other", "state": other}))
    assert store.state(ROOM, SESSION) == before
    replace_snapshot(
        store, SNAPSHOT_EVERY + 2, jsontext.to_bytes({**kept, "state": other | {"version": 502}})
    )
    assert store.state(ROOM, SESSION).active_turn, "of today's schema it would have been read"


def test_a_snapshot_is_taken_beside_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    take = Writer.take_snapshot

    def take_snapshot(writer: Writer, state: Session) -> None:
        threads.append(current_thread())
        take(writer, state)

    monkeypatch.setattr(Writer, "take_snapshot", take_snapshot)
    store = filled(place, SNAPSHOT_EVERY)
    assert len(threads) == 1
    assert threads[0] is not main_thread()
    assert snapshot_of(store) is not None


def test_a_snapshot_that_fails_disturbs_nobody_and_the_next_one_comes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Writer.take_snapshot
    states: list[int] = []

    def take_snapshot(writer: Writer, state: Session) -> None:
        states.append(state.version)
        if len(states) == 1:
            raise StoreBusy("another process has the store")
        take(writer, state)

    monkeypatch.setattr(Writer, "take_snapshot", take_snapshot)
    store = place.store()
    fill(place, store, SNAPSHOT_EVERY)
    fill(place, store, 2 * SNAPSHOT_EVERY)
    store.close()
    assert states == [SNAPSHOT_EVERY, 2 * SNAPSHOT_EVERY]
    found = snapshot_of(place.store())
    assert found is not None
    assert found[0] == 2 * SNAPSHOT_EVERY


def test_sessions_that_come_due_at_once_share_one_thread(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them would wait for the one sign to stop, and closing would wait for ever."""
    threads = set()

    def take_snapshot(_: Writer, state: Session) -> None:
        threads.add(current_thread())

    monkeypatch.setattr(Writer, "take_snapshot", take_snapshot)
    snapshots = Snapshots(place.store()._writer)
    start = Barrier(8)

    def take() -> None:
        start.wait()
        snapshots.take(Session(room=ROOM, session=SESSION))

    takers = [Thread(target=take) for _ in range(8)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    snapshots.close()
    assert len(threads) == 1


def test_a_commit_that_leaps_over_a_boundary_makes_one_due(place: Place) -> None:
    store = place.store()
    fill(place, store, SNAPSHOT_EVERY - 10)
    store.submit(place.decides(*flips(0, 20)))
    store.close()
    found = snapshot_of(place.store())
    assert found is not None
    assert found[0] == SNAPSHOT_EVERY + 10


def test_the_shape_of_a_state_is_known_to_its_snapshots() -> None:
    """Fields are recognised by their names; when a field comes to mean something else, raise the number."""
    assert SNAPSHOT_MEANING == 1
    assert [one.name for one in fields(TurnEnd)] == ["turn_id", "outcome", "settled_at", "provisional"]
