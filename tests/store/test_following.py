"""Whoever follows sees every delta once, in order, whoever commits it."""

import sys
from collections.abc import Iterator
from subprocess import run
from threading import Barrier, Thread

import pytest

from application.following import Following
from domain.delta import CommittedDelta
from domain.ids import Position, SessionId
from infrastructure.main import open_ledger
from infrastructure.store.event_store import EventStore
from tests.store.place import ROOM, Place, titled

WRITERS = 4
EACH = 25


def follow(store: EventStore, after: int = 0) -> Following:
    return Following(store, Position(after))


def taken(following: Following, count: int) -> list[CommittedDelta]:
    """So many deltas; waits for them."""
    deltas: Iterator[CommittedDelta] = iter(following)
    return [next(deltas) for _ in range(count)]


def test_what_is_there_comes_first_and_then_what_is_committed(place: Place) -> None:
    store = place.store()
    for title in ("a", "b"):
        store.submit(place.decides(titled(title)))
    with follow(store) as following:
        first = taken(following, 2)
        later = Thread(target=lambda: store.submit(place.decides(titled("c"))))
        later.start()
        third = taken(following, 1)
        later.join()

    assert [*first, *third] == list(store.deltas())


def test_it_goes_on_behind_the_position_that_the_caller_kept(place: Place) -> None:
    store = place.store()
    for title in ("a", "b", "c"):
        store.submit(place.decides(titled(title)))
    with follow(store) as following:
        kept = taken(following, 1)[0].last_position
    with follow(store, kept) as following:
        assert taken(following, 2) == list(store.deltas())[1:]


def test_a_follower_beside_writers_misses_nothing_and_sees_nothing_twice(place: Place) -> None:
    store = place.store()
    start = Barrier(WRITERS + 1)

    def write(number: int) -> None:
        start.wait(30)
        for index in range(EACH):
            store.submit(place.decides(titled(str(index)), session=SessionId(f"ses-{number}")))

    threads = [Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    with follow(store) as following:
        start.wait(30)
        seen = taken(following, WRITERS * EACH)
    for thread in threads:
        thread.join()

    assert seen == list(store.deltas())


def test_stop_ends_a_follower_that_waits_and_one_in_the_middle(place: Place) -> None:
    store = place.store()
    for title in ("a", "b"):
        store.submit(place.decides(titled(title)))
    with follow(store) as following:
        for _ in following:
            following.stop()
        assert taken_all(following) == []
    with follow(store, 99) as following:
        waiting = Thread(target=taken_all, args=(following,))
        waiting.start()
        following.stop()
        waiting.join(30)
        assert not waiting.is_alive()


def taken_all(following: Following) -> list[CommittedDelta]:
    return list(following)


def test_a_commit_of_another_process_is_followed(url: str) -> None:
    report = {"state": {"turn": {"turnId": "t1", "phase": "running"}}}
    script = (
        "import sys; from infrastructure.main import open_ledger\n"
        "with open_ledger(sys.argv[1]) as ledger:\n"
        f"    ledger.report_state({report!r}, room={str(ROOM)!r}, session='elsewhere')\n"
    )
    with open_ledger(url) as ledger, ledger.follow() as following:
        ledger.report_state(report, room=ROOM, session="here")
        here = taken(following, 1)
        other = Thread(target=lambda: run([sys.executable, "-c", script, url], check=True))
        other.start()
        there = taken(following, 1)
        other.join()

        assert [*here, *there] == list(ledger.deltas())
        assert there[0].delta.mutations[0].agent_session_id == "elsewhere"


@pytest.mark.parametrize("count", [1, 3])
def test_pages_hold_what_is_there(place: Place, count: int) -> None:
    store = place.store()
    for title in range(count):
        store.submit(place.decides(titled(str(title))))
    with follow(store) as following:
        assert len(following.page()) == count
