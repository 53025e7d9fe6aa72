"""A commit is stored whole or not at all, at one place in the order of everything."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Barrier, Thread
from typing import Any
from unittest.mock import patch

import pytest

from application.ports import Committed, Decision, Loader
from domain.delta import CommitDelta
from domain.errors import Rejected, VersionConflict
from domain.ids import SessionId, transaction_id
from domain.session import ChildLinked, Opened, Pinned, Unpinned
from domain.work import Work
from infrastructure.store import writer
from infrastructure.store.event_store import EventStore
from infrastructure.store.records import GENESIS, check, commitment_of, unseal
from tests.store.place import ROOM, SESSION, START_MS, Place, head_of, log_of, stream_of, titled

OTHER = SessionId("ses-2")


class Trouble(Exception):
    """What a test lets go wrong."""


def everything(store: EventStore) -> Any:
    """All that a command could have stored."""
    return (
        log_of(store),
        list(store.deltas()),
        store.sessions(),
        head_of(store),
        store.verify(),
    )


# One transaction.


def test_a_commit_stores_events_head_outbox_row_and_read_model_together(place: Place) -> None:
    store = place.store()
    committed = store.submit(place.decides(titled("a")))
    assert committed.events == 2
    assert committed.delta is not None
    assert list(store.deltas()) == [committed.delta]
    assert [stored.position for stored in log_of(store)] == [1, 2]
    assert head_of(store)[0] == 2
    row = store.session(ROOM, SESSION)
    assert row is not None
    assert row.content == {"title": "a"}
    assert row.state.version == 2
    assert store.verify().ok


@pytest.mark.parametrize("step", ["delta_of", "_write_models", "OutboxRow", "crashpoint"])
def test_whatever_fails_inside_a_commit_leaves_nothing_of_it(
    place: Place, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.store()
    store.submit(place.decides(titled("a")))
    before = everything(store)

    def fail(*_: object) -> None:
        raise Trouble(step)

    with monkeypatch.context() as broken:
        broken.setattr(writer, step, fail)
        with pytest.raises(Trouble):
            store.submit(place.decides(titled("b"), Pinned()))
    assert everything(store) == before
    committed = store.submit(place.decides(titled("c")))
    assert committed.delta is not None
    assert committed.delta.last_position == 3
    assert store.verify().ok


def test_a_rejected_command_leaves_nothing(place: Place) -> None:
    store = place.store()

    def decide(load: Loader) -> Decision:
        work = Work(ROOM, place.clock.now, load.session)
        work.session(SESSION).add(Opened(created_at=1))
        raise Rejected("unknown_turn", "turn", "t", "report it first")

    with pytest.raises(Rejected):
        store.submit(decide)
    assert log_of(store) == []
    assert store.session(ROOM, SESSION) is None


def test_a_command_without_news_stores_nothing_and_has_no_transaction(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(titled("a")))
    before = everything(store)
    committed = store.submit(place.decides())
    assert committed == Committed({"said": 0, "transactionId": ""})
    assert everything(store) == before


def test_a_commit_that_changes_no_entity_has_no_delta_and_no_outbox_row(place: Place) -> None:
    store = place.store()

    def decide(load: Loader) -> Decision:
        work = Work(ROOM, place.clock.now, load.session)
        work.session(SESSION).add(ChildLinked(child=OTHER))
        return Decision({}, work)

    committed = store.submit(decide)
    assert committed.events == 1
    assert committed.delta is None
    assert committed.answer["transactionId"]
    assert list(store.deltas()) == []
    assert store.session(ROOM, SESSION) is None
    assert store.verify().ok


# Order.


def test_positions_follow_the_order_of_commits_and_are_contiguous_inside_one(place: Place) -> None:
    store = place.store()

    def decide_both(load: Loader) -> Decision:
        work = Work(ROOM, place.clock.now, load.session)
        for session in (OTHER, SESSION, OTHER):
            draft = work.session(session)
            draft.add(titled("x") if draft.state.opened else Opened(created_at=1))
        return Decision({}, work)

    deltas = [
        store.submit(place.decides()).delta,
        store.submit(decide_both).delta,
        store.submit(place.decides(titled("b"), session=OTHER)).delta,
    ]
    assert [delta and (delta.first_position, delta.last_position) for delta in deltas] == [
        (1, 1),
        (2, 4),
        (5, 5),
    ]
    assert [(stored.record.stream, stored.record.version) for stored in log_of(store)] == [
        (stream_of(), 1),
        (stream_of(OTHER), 1),
        (stream_of(), 2),
        (stream_of(OTHER), 2),
        (stream_of(OTHER), 3),
    ]


def test_a_transaction_id_is_a_function_of_store_stream_and_version(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(titled("a")))
    committed = store.submit(place.decides(titled("b")))
    expected = transaction_id(store._database.store_id, stream_of(), 3)
    assert committed.answer["transactionId"] == expected
    assert [event.transaction for event in store.events(ROOM, SESSION, after=2)] == [expected]


def test_each_event_knows_its_place_in_its_commit(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(titled("a"), Pinned()))
    opened = [unseal(one.record.topic, one.record.facts) for one in log_of(store)]
    assert [(one.envelope.index, one.envelope.count) for one in opened] == [(0, 3), (1, 3), (2, 3)]
    assert {one.envelope.recorded_at for one in opened} == {START_MS}


# Two writers.


def stale(place: Place, store: EventStore) -> tuple[Callable[[Loader], Decision], Work]:
    """A decision made on what was loaded before; what happened in between it does not know."""
    loaded: list[Work] = []

    def look(load: Loader) -> Decision:
        loaded.append(Work(ROOM, place.clock.now, load.session))
        loaded[0].session(SESSION)
        return Decision({}, loaded[0])

    store.submit(look)
    return (lambda _: Decision({}, loaded[0])), loaded[0]


def test_a_writer_with_a_stale_version_is_stopped_and_told_the_current_one(place: Place) -> None:
    """Case G05: The log has the other writer's event alone; versions are compared, not times."""
    first, second = place.store(), place.store()
    first.submit(place.decides(titled("a")))
    decide, work = stale(place, first)
    work.session(SESSION).add(titled("of the stale writer"))
    second.submit(place.decides(titled("of the other writer")))
    with pytest.raises(VersionConflict) as caught:
        first.submit(decide)
    assert (caught.value.stream, caught.value.expected, caught.value.current) == (stream_of(), 2, 3)
    assert str(caught.value) == f"{stream_of()} is at version 3, the decision was made at 2: load it again"
    contents = [stored.record.content for stored in log_of(first)]
    assert contents == [None, b'{"title":"a"}', b'{"title":"of the other writer"}']
    assert [delta.last_position for delta in first.deltas()] == [2, 3]
    assert first.verify().ok


def test_a_decision_conflicts_on_every_session_it_looked_at(place: Place) -> None:
    store = place.store()
    store.submit(place.decides())
    decide, work = stale(place, store)
    work.session(OTHER).add(Opened(created_at=1))
    store.submit(place.decides(Pinned()))
    with pytest.raises(VersionConflict):
        store.submit(decide)
    assert store.session(ROOM, OTHER) is None


def test_two_stores_on_one_place_see_each_other_at_once(place: Place) -> None:
    first, second = place.store(), place.store()
    for number in range(5):
        for store in (first, second):
            store.submit(place.decides(titled(f"title {number}"), Pinned(), Unpinned()))
    assert head_of(first)[0] == 31
    assert first.state(ROOM, SESSION) == second.state(ROOM, SESSION)
    assert first.verify().ok


def test_threads_share_a_store_without_conflict_or_loss(place: Place) -> None:
    store = place.store()
    start = Barrier(4)
    troubles: list[Exception] = []

    def write(writer: int) -> None:
        start.wait()
        try:
            for number in range(25):
                store.submit(place.decides(titled(f"{writer} {number}")))
                store.sessions(ROOM)
        except Exception as error:
            troubles.append(error)

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert head_of(store)[0] == 1 + 4 * 25
    assert store.verify().ok


def test_an_interrupted_decision_lets_the_next_one_through(place: Place) -> None:
    store = place.store()

    def interrupt(_: Loader) -> Decision:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.submit(interrupt)
    assert store.submit(place.decides()).events == 1


# Chains.


def test_each_event_is_chained_to_the_one_before_it_in_its_stream(place: Place) -> None:
    store = place.store()
    for session in (SESSION, OTHER):
        store.submit(place.decides(titled("a"), session=session))
    store.submit(place.decides(titled("b")))
    ends = {stream_of(): GENESIS, stream_of(OTHER): GENESIS}
    for stored in log_of(store):
        record = stored.record
        assert record.previous_hash == ends[record.stream]
        assert check(record, unseal(record.topic, record.facts, record.content)) == ""
        ends[record.stream] = record.hash
    assert {head_of(store, session)[1] for session in (SESSION, OTHER)} == set(ends.values())


def test_the_hash_covers_everything_but_the_position(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(titled("a")))
    record = log_of(store)[1].record
    opened = unseal(record.topic, record.facts, record.content)
    changes: list[dict[str, Any]] = [
        {"previous_hash": GENESIS},
        {"stream": stream_of(OTHER)},
        {"version": 3},
        {"topic": "session.pinned"},
        {"facts": record.facts.replace(b"room-1", b"room-2")},
    ]
    for change in changes:
        assert check(replace(record, **change), opened) == "its hash does not fit its bytes"


def test_the_facts_commit_to_salted_content(place: Place) -> None:
    store = place.store()
    store.submit(place.decides(titled("same"), titled("other"), titled("same")))
    records = [stored.record for stored in log_of(store)[1:]]
    opened = [unseal(record.topic, record.facts, record.content) for record in records]
    for record, one in zip(records, opened, strict=True):
        assert record.content is not None
        assert b"title" not in record.facts
        assert one.commitment == commitment_of(record.salt, record.content)
        assert one.content_length == len(record.content)
    assert len({one.commitment for one in opened}) == 3


# A host's own part.


class Host:
    """Takes part in each commit; raises as often as a test wants."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.deltas: list[CommitDelta] = []

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        if self.failures:
            self.failures -= 1
            raise Trouble("no room in the host's table")
        self.deltas.append(delta)


def test_a_participant_is_called_once_for_each_commit_with_a_delta(place: Place) -> None:
    host = Host()
    store = place.store(host)
    committed = [
        store.submit(place.decides(titled("a"))),
        store.submit(place.decides()),
        store.submit(place.decides(Pinned())),
    ]
    assert host.deltas == [one.delta.delta for one in committed if one.delta]
    assert len(host.deltas) == 2


def test_when_the_participant_fails_nothing_is_stored_and_no_version_is_consumed(place: Place) -> None:
    store = place.store(Host(failures=1))
    with pytest.raises(Trouble):
        store.submit(place.decides(titled("x")))
    assert log_of(store) == []
    assert list(store.deltas()) == []
    assert store.session(ROOM, SESSION) is None
    assert head_of(store)[0] == 0
    committed = store.submit(place.decides(titled("x")))
    assert committed.delta is not None
    assert (committed.delta.first_position, committed.delta.last_position) == (1, 2)
    assert head_of(store)[0] == 2


def test_when_the_outbox_row_cannot_be_written_nothing_is_stored(place: Place) -> None:
    """Case F02: No event without its outbox row, no row without its event, and no version is used up."""
    store = place.store()
    with store._database.write() as tables:
        kind = type(tables)
    with patch.object(kind, "put_outbox", side_effect=Trouble("disk")), pytest.raises(Trouble):
        store.submit(place.decides(titled("x")))
    assert log_of(store) == []
    assert head_of(store)[0] == 0
    assert store.submit(place.decides(titled("x"))).events == 2
    assert store.verify().ok
