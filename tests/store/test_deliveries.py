"""What an observer gets: each delta at least once, in order inside a room, and nothing that is not stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import pytest

from application.ledger import Ledger
from domain.delta import CommitDelta, CommittedDelta
from domain.errors import NotFound
from domain.ids import Position, RoomId
from tests.store.place import ROOM, SESSION, Place


@dataclass
class Observer:
    """Keeps what it is handed; fails on demand, by room or as often as a test wants."""

    failures: int = 0
    refuses: set[str] = field(default_factory=set)
    handed: list[CommittedDelta] = field(default_factory=list)
    taken: list[CommittedDelta] = field(default_factory=list)

    def __call__(self, delta: CommittedDelta) -> None:
        self.handed.append(delta)
        if self.failures or delta.room in self.refuses:
            self.failures = max(self.failures - 1, 0)
            raise ConnectionError("nobody is there")
        self.taken.append(delta)

    def positions(self, room: str = "") -> list[int]:
        return [delta.last_position for delta in self.taken if room in ("", delta.room)]


def say(ledger: Ledger, title: str, room: str = ROOM) -> CommittedDelta:
    delta = ledger.report_state({"state": {"title": title}}, room=room, session=SESSION).delta
    assert delta is not None
    return delta


def pending(ledger: Ledger) -> list[tuple[int, tuple[str, ...]]]:
    return [(entry.committed.last_position, entry.pending) for entry in ledger.outbox(pending=True)]


# Live.


def test_an_observer_is_handed_each_delta_when_it_is_stored(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    stored: list[bool] = []
    ledger.subscribe(lambda delta: stored.append(ledger.store.delta(delta.transaction_id) == delta), "b")
    deltas = [say(ledger, title) for title in "abc"]
    assert observer.taken == deltas
    assert stored == [True] * 3
    assert pending(ledger) == []


def test_a_command_without_news_calls_no_observer(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    say(ledger, "a")
    ledger.subscribe(observer, "a")
    assert not ledger.report_state({"state": {"title": "a"}}, room=ROOM, session=SESSION).applied
    assert observer.handed == []


def test_a_new_subscription_begins_at_the_end_or_where_it_is_told(place: Place) -> None:
    ledger = place.ledger()
    first = say(ledger, "a")
    second = say(ledger, "b")
    at_end, behind_first, at_start = Observer(), Observer(), Observer()
    ledger.subscribe(at_end, "at-end")
    ledger.subscribe(behind_first, "behind-first", after=first.last_position)
    ledger.subscribe(at_start, "at-start", after=0)
    assert [ledger.redeliver(name) for name in ("at-end", "behind-first", "at-start")] == [0, 1, 2]
    assert behind_first.taken == [second]
    assert at_start.taken == [first, second]


def test_what_is_committed_while_a_subscription_begins_is_handed_over_with_the_next(place: Place) -> None:
    ledger, observer, other = place.ledger(), Observer(), place.ledger()
    begin = ledger.delivery.deliveries.subscribe
    between: list[CommittedDelta] = []

    def subscribe(name: str, after: Position | None) -> None:
        begin(name, after)
        between.append(say(other, "between"))

    ledger.delivery.deliveries.subscribe = subscribe  # type: ignore[method-assign]
    ledger.subscribe(observer, "a")
    last = say(ledger, "last")
    assert observer.taken == [*between, last]
    assert pending(ledger) == []


def test_what_another_process_committed_comes_with_the_next_commit_here(place: Place) -> None:
    here, elsewhere, observer = place.ledger(), place.ledger(), Observer()
    here.subscribe(observer, "a")
    deltas = [say(elsewhere, "a"), say(elsewhere, "b"), say(here, "c")]
    assert observer.taken == deltas


# Failure.


def test_an_observer_that_fails_three_times_has_it_at_the_fourth(place: Place) -> None:
    """Case F01: The report succeeds, nothing is lost, and what comes at last equals what came first."""
    ledger, observer = place.ledger(), Observer(failures=3)
    ledger.subscribe(observer, "a")
    marks: list[Position] = []
    mark = ledger.delivery.deliveries.delivered

    def delivered(name: str, room: RoomId, position: Position) -> None:
        marks.append(position)
        mark(name, room, position)

    ledger.delivery.deliveries.delivered = delivered  # type: ignore[method-assign]
    reply = ledger.report_state({"state": {"title": "x"}}, room=ROOM, session=SESSION)
    assert reply.applied
    view = ledger.session(ROOM, SESSION)
    assert view is not None
    assert view.title == "x"
    assert [ledger.redeliver("a") for _ in range(4)] == [0, 0, 1, 0]
    assert len(observer.handed) == 4
    assert observer.handed == [reply.delta] * 4
    assert marks == [2]
    assert len(list(ledger.outbox())) == 1
    assert pending(ledger) == []
    assert place.failures.seen == [("a", reply.transaction_id, "nobody is there")] * 3


def test_failed_attempts_are_counted_until_one_succeeds(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(failures=2)
    ledger.subscribe(observer, "a")
    store = ledger.store

    def lane() -> Any:
        with store._database.read() as tables:  # type: ignore[attr-defined]
            return tables.lane("a", ROOM)

    say(ledger, "x")
    assert lane() == (0, 1, "nobody is there")
    ledger.redeliver("a")
    assert lane() == (0, 2, "nobody is there")
    ledger.redeliver("a")
    assert lane() == (2, 0, "")


def test_one_observer_that_fails_keeps_nothing_from_another(place: Place) -> None:
    ledger, failing, working = place.ledger(), Observer(refuses={ROOM}), Observer()
    ledger.subscribe(failing, "failing")
    ledger.subscribe(working, "working")
    deltas = [say(ledger, "a"), say(ledger, "b")]
    assert working.taken == deltas
    assert pending(ledger) == [(2, ("failing",)), (3, ("failing",))]


# Order.


def test_a_later_delta_never_overtakes_a_pending_one_of_its_room(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(failures=1)
    ledger.subscribe(observer, "a")
    deltas = [say(ledger, title) for title in "abc"]
    assert observer.handed == deltas[:1]
    assert ledger.redeliver("a") == 3
    assert observer.taken == deltas
    deltas.append(say(ledger, "d"))
    assert observer.taken == deltas


def test_a_room_that_fails_does_not_hold_up_another(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(refuses={"room-1"})
    ledger.subscribe(observer, "a")
    for title in "abc":
        for room in ("room-1", "room-2"):
            say(ledger, title, room)
    assert observer.positions() == observer.positions("room-2") == [4, 6, 8]
    assert ledger.redeliver("a") == 0
    assert [delta.last_position for delta in observer.handed] == [2, 4, 6, 8, 2]
    observer.refuses.clear()
    assert ledger.redeliver("a") == 3
    assert observer.positions("room-1") == [2, 5, 7]


def test_the_first_failure_of_a_pass_holds_the_rest_of_its_room(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    for title in "abc":
        for room in ("room-1", "room-2"):
            say(ledger, title, room)
    ledger.subscribe(observer, "a", after=0)
    observer.failures = 1
    assert ledger.redeliver("a") == 3
    assert observer.positions() == [4, 6, 8]


def test_more_than_a_page_is_handed_over_in_one_pass(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("application.delivery.PAGE_MAX", 3)
    monkeypatch.setattr("infrastructure.store.event_store.PAGE_ROWS", 3)
    ledger, observer = place.ledger(), Observer()
    deltas = [say(ledger, str(number), f"room-{number % 2}") for number in range(10)]
    ledger.subscribe(observer, "a", after=0)
    assert pending(ledger) == [(delta.last_position, ("a",)) for delta in deltas]
    assert list(ledger.deltas()) == deltas
    assert ledger.redeliver("a") == 10
    assert observer.taken == deltas


# Restart.


def test_a_subscription_remembers_across_restarts_what_was_taken(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    deltas = [say(ledger, "a")]
    observer.failures = 1
    deltas.append(say(ledger, "b"))
    ledger.close()
    ledger = place.ledger()
    deltas.append(say(ledger, "c"))
    ledger.subscribe(observer, "a")
    assert pending(ledger) == [(3, ("a",)), (4, ("a",))]
    assert ledger.redeliver("a") == 2
    assert observer.taken == deltas


def test_subscribing_again_does_not_move_a_subscription(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    say(ledger, "a")
    ledger.close()
    ledger = place.ledger()
    ledger.subscribe(observer, "a", after=0)
    assert ledger.redeliver("a") == 0
    assert len(observer.taken) == 1


def test_a_redelivered_delta_is_the_stored_one_and_equals_the_first(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(failures=1)
    ledger.subscribe(observer, "a")
    live = say(ledger, "a \ud800 \0 \u2028")
    ledger.close()
    ledger = place.ledger()
    ledger.subscribe(observer, "a")
    ledger.redeliver("a")
    assert observer.taken == [live]
    assert observer.taken[0].delta.to_json() == live.delta.to_json()
    assert CommitDelta.from_json(live.delta.to_json()) == live.delta


# Observers that act.


def test_an_observer_may_report_and_gets_its_own_delta_when_it_has_returned(place: Place) -> None:
    ledger = place.ledger()
    seen: list[tuple[str, int]] = []
    depth = 0

    def observer(delta: CommittedDelta) -> None:
        nonlocal depth
        depth += 1
        seen.append((delta.delta.mutations[0].agent_session_id, depth))
        if len(seen) < 4:
            ledger.report_state({"state": {"title": str(len(seen))}}, room=ROOM, session="of-observer")
        depth -= 1

    ledger.subscribe(observer, "a")
    say(ledger, "a")
    assert seen == [(SESSION, 1), ("of-observer", 1), ("of-observer", 1), ("of-observer", 1)]
    assert pending(ledger) == []


@pytest.mark.parametrize("names", [("acts", "listens"), ("listens", "acts")])
def test_what_one_observer_reports_reaches_every_other(place: Place, names: tuple[str, ...]) -> None:
    ledger, listening = place.ledger(), Observer()

    def acting(delta: CommittedDelta) -> None:
        if delta.room == ROOM:
            say(ledger, "from the observer", "room-2")

    observers: dict[str, Callable[[CommittedDelta], None]] = {"acts": acting, "listens": listening}
    for name in names:
        ledger.subscribe(observers[name], name)
    say(ledger, "a")
    assert [delta.room for delta in listening.taken] == [ROOM, "room-2"]
    assert pending(ledger) == []


@pytest.mark.parametrize("room", ["room-1", "room-2"])
def test_an_observer_may_report_while_it_is_redelivered_to(place: Place, room: str) -> None:
    """It is never called while it is being called, and what it reported reaches the others too."""
    ledger, listening = place.ledger(), Observer()
    seen: list[tuple[int, int]] = []
    depth = 0

    def observer(delta: CommittedDelta) -> None:
        nonlocal depth
        depth += 1
        seen.append((delta.last_position, depth))
        if len(seen) == 1:
            say(ledger, "from the observer", room)
        depth -= 1

    first, second = say(ledger, "a"), say(ledger, "b")
    ledger.subscribe(observer, "a", after=0)
    ledger.subscribe(listening, "b")
    assert ledger.redeliver("a") >= 2
    last = ledger.store.delta(listening.taken[0].transaction_id)
    assert last is not None
    assert seen == [(delta.last_position, 1) for delta in (first, second, last)]
    assert pending(ledger) == []


def test_one_thread_at_a_time_calls_observers(place: Place) -> None:
    """Nobody waits for it, and nothing overtakes or comes twice: it goes on with what others commit."""
    ledger, entered, leave = place.ledger(), Event(), Event()
    seen: list[int] = []

    def observer(delta: CommittedDelta) -> None:
        seen.append(delta.last_position)
        if len(seen) == 1:
            entered.set()
            assert leave.wait(60)

    say(ledger, "a")
    ledger.subscribe(observer, "a", after=0)
    redelivering = Thread(target=lambda: ledger.redeliver("a"))
    redelivering.start()
    assert entered.wait(60)
    reporting = [Thread(target=say, args=(ledger, title, "room-2")) for title in "bc"]
    for thread in reporting:
        thread.start()
    for thread in reporting:
        thread.join(60)
        assert not thread.is_alive()
    before = list(seen)
    leave.set()
    redelivering.join()
    assert before == [2]
    assert seen == [2, 4, 5]
    assert pending(ledger) == []


# One again.


def test_one_transaction_can_be_delivered_again(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    deltas = [say(ledger, "a"), say(ledger, "b")]
    assert ledger.redeliver("a", deltas[0].transaction_id) == 1
    assert observer.taken == [*deltas, deltas[0]]
    assert pending(ledger) == []
    assert ledger.redeliver("a") == 0


def test_an_observer_may_report_while_it_gets_one_again(place: Place) -> None:
    ledger = place.ledger()
    seen: list[str] = []

    def observer(delta: CommittedDelta) -> None:
        seen.append(delta.room)
        if len(seen) == 2:
            say(ledger, "from the observer", "room-2")
            assert len(seen) == 2

    ledger.subscribe(observer, "a")
    first = say(ledger, "a")
    assert ledger.redeliver("a", first.transaction_id) == 1
    assert seen == [ROOM, ROOM, "room-2"]


def test_the_rooms_next_one_is_marked_when_it_was_delivered_alone(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(failures=1)
    ledger.subscribe(observer, "a")
    first, second = say(ledger, "a"), say(ledger, "b")
    assert ledger.redeliver("a", second.transaction_id) == 1
    assert pending(ledger) == [(2, ("a",)), (3, ("a",))]
    assert ledger.redeliver("a", first.transaction_id) == 1
    assert pending(ledger) == [(3, ("a",))]


def test_a_room_goes_on_live_when_its_only_pending_one_was_delivered_alone(place: Place) -> None:
    ledger, observer = place.ledger(), Observer(failures=1)
    ledger.subscribe(observer, "a")
    first = say(ledger, "a")
    ledger.redeliver("a", first.transaction_id)
    second = say(ledger, "b")
    assert observer.taken == [first, second]
    assert pending(ledger) == []


def test_one_delivered_again_in_vain_holds_up_nothing(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    first = say(ledger, "a")
    observer.failures = 1
    ledger.redeliver("a", first.transaction_id)
    second = say(ledger, "b")
    assert observer.taken == [first, second]
    assert pending(ledger) == []


def test_one_that_fails_alone_stays_as_it_was(place: Place) -> None:
    ledger, observer = place.ledger(), Observer()
    ledger.subscribe(observer, "a")
    delta = say(ledger, "a")
    observer.failures = 1
    assert ledger.redeliver("a", delta.transaction_id) == 0
    assert pending(ledger) == []


def test_nobody_can_be_redelivered_to_who_is_not_here(place: Place) -> None:
    ledger = place.ledger()
    delta = say(ledger, "a")
    with pytest.raises(NotFound, match="'a'"):
        ledger.redeliver("a")
    with pytest.raises(NotFound, match="'a'"):
        ledger.redeliver("a", delta.transaction_id)
    ledger.subscribe(Observer(), "a")
    with pytest.raises(NotFound, match="no delta of transaction t-1"):
        ledger.redeliver("a", "t-1")


# A host's own outbox.


def test_a_participant_writes_in_the_transaction_of_the_commit(file: Place) -> None:
    class Host:
        def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
            execute("INSERT INTO host_outbox VALUES (?, ?)", (delta.transaction_id, delta.to_json()))
            if "fail" in delta.workspace_id:
                raise ConnectionError("the host failed after its write")

    ledger = file.ledger(Host())
    with ledger.store._database.write() as tables:  # type: ignore[attr-defined]
        tables.execute("CREATE TABLE host_outbox (id TEXT PRIMARY KEY, payload TEXT NOT NULL)")
    delta = say(ledger, "a")
    with pytest.raises(ConnectionError):
        say(ledger, "b", "room-fail")
    with ledger.store._database.read() as tables:  # type: ignore[attr-defined]
        rows = tables._all("SELECT * FROM host_outbox")
    assert rows == [(delta.transaction_id, delta.delta.to_json())]
    assert ledger.sessions("room-fail") == ()
    assert ledger.verify().ok
