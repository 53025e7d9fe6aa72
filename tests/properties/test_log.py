"""The log says everything: states, deltas and read models all follow from it."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import jsontext
from domain.delta import Committed, CommittedDelta, delta_of
from domain.ids import RoomId, SessionId, TransactionId
from domain.session import Session, SessionEvent, evolve
from infrastructure.store.codec import pack
from infrastructure.store.rows import session_state
from infrastructure.store.tables import OutboxRow
from infrastructure.store.topics import TOPICS
from tests.properties.histories import ROOM, SESSIONS, Step, histories
from tests.properties.playing import SHARED, House, opened, opened_on

FEWER = settings(max_examples=max(5, settings().max_examples // 6))
"""For properties that are tried on a file, too."""


def committed_events(house: House) -> dict[str, list[Committed]]:
    """The events of the log by transaction, in the order of writing."""
    stored = [event for session in SESSIONS for event in house.ledger.events(ROOM, session)]
    commits: dict[str, list[Committed]] = {}
    for one in sorted(stored, key=lambda event: event.position):
        event = cast("SessionEvent", one.event)
        commits.setdefault(one.transaction, []).append(
            Committed(one.session, one.version, one.position, event)
        )
    return commits


# States.


@given(histories())
def test_folding_any_prefix_gives_the_state_that_the_ledger_had_at_that_version(history: list[Step]) -> None:
    with opened() as house:
        had: dict[tuple[str, int], Session] = {}
        for _ in house.live(history):
            live = {name: state for name in SESSIONS if (state := house.cached(name))}
            had |= {(name, state.version): state for name, state in live.items()}
            assert all(house.state(name) == state for name, state in live.items())
        for name in SESSIONS:
            folded = Session(room=RoomId(ROOM), session=SessionId(name))
            for stored in house.ledger.events(ROOM, name):
                folded = evolve(folded, cast("SessionEvent", stored.event), stored.recorded_at)
                assert had.get((name, stored.version), folded) == folded
            assert (name, folded.version) in had or not folded.version


@given(histories(), st.integers(0, 30))
def test_a_snapshot_of_any_version_and_the_events_behind_it_give_the_whole_fold(
    history: list[Step], cut: int
) -> None:
    with opened() as house:
        house.play(history)
        for name in SESSIONS:
            folded, snapshot = Session(room=RoomId(ROOM), session=SessionId(name)), None
            for stored in house.ledger.events(ROOM, name):
                folded = evolve(folded, cast("SessionEvent", stored.event), stored.recorded_at)
                assert session_state(jsontext.from_bytes(jsontext.to_bytes(pack(folded)))) == folded
                snapshot = folded if stored.version <= cut else snapshot
            if snapshot:
                house.store._writer.take_snapshot(snapshot)
            assert house.state(name) == folded


# Deltas.


def check_deltas(house: House, history: list[Step]) -> None:
    live = [delta for happened in house.live(history) for delta in happened.deltas]
    assert list(house.ledger.deltas()) == live
    commits = committed_events(house)
    assert [delta.transaction_id for delta in live] == list(commits)
    spelled = {row.transaction: row.delta for row in outbox_of(house)}
    for delta in live:
        events = commits[delta.transaction_id]
        again = delta_of(TransactionId(delta.transaction_id), RoomId(ROOM), events)
        assert again is not None
        assert again.to_json() == delta.delta.to_json() == spelled[delta.transaction_id]
        assert (events[0].position, events[-1].position) == (delta.first_position, delta.last_position)
        assert events[-1].position - events[0].position == len(events) - 1


def outbox_of(house: House) -> list[OutboxRow]:
    with house.store._database.read() as tables:
        return list(tables.outbox())


@given(histories())
def test_a_delta_is_the_same_live_from_the_outbox_and_from_the_log_byte_for_byte(history: list[Step]) -> None:
    with opened() as house:
        check_deltas(house, history)


@pytest.mark.parametrize("kind", SHARED)
@FEWER
@given(histories())
def test_a_delta_is_the_same_live_from_a_databases_outbox_and_log(kind: str, history: list[Step]) -> None:
    with opened_on(kind) as house:
        check_deltas(house, history)


class Moody:
    """An observer that takes a delta or not, as its moods say, over and over."""

    def __init__(self, moods: list[bool]) -> None:
        self.moods = moods
        self.tried: list[CommittedDelta] = []
        self.taken: list[CommittedDelta] = []

    def __call__(self, delta: CommittedDelta) -> None:
        self.tried.append(delta)
        if not self.moods[len(self.tried) % len(self.moods)]:
            raise OSError("not now")
        self.taken.append(delta)


@given(histories(), st.lists(st.booleans(), min_size=1, max_size=4), st.integers(0, 5))
def test_observers_get_every_delta_in_order_and_the_same_again(
    history: list[Step], moods: list[bool], redeliver_at: int
) -> None:
    observer = Moody(moods)
    with opened() as house:
        house.ledger.subscribe(observer, "observer")
        for index, step in enumerate(history):
            house.attempt(step)
            if index == redeliver_at:
                house.ledger.redeliver("observer")
        observer.moods = [True]
        house.ledger.redeliver("observer")
        stored = list(house.ledger.deltas())
        assert observer.taken == stored
        assert [delta.delta.to_json() for delta in observer.taken] == [row.delta for row in outbox_of(house)]
        assert all(delta in stored for delta in observer.tried)
        assert not list(house.ledger.outbox(pending=True))
        for delta in stored:
            house.ledger.redeliver("observer", delta.transaction_id)
        assert observer.taken == stored * 2


# Read models.


def check_read_models(house: House, history: list[Step]) -> None:
    house.play(history)
    before = house.picture()
    checked = house.ledger.verify()
    assert checked.problems == ()
    assert house.picture() == before
    house.ledger.rebuild()
    assert house.picture().models == before.models
    assert house.ledger.verify().ok


@given(histories())
def test_a_rebuild_ends_in_the_rows_that_the_commits_wrote(history: list[Step]) -> None:
    with opened() as house:
        check_read_models(house, history)


@pytest.mark.parametrize("kind", SHARED)
@FEWER
@given(histories())
def test_a_rebuild_of_a_database_ends_in_the_rows_that_the_commits_wrote(
    kind: str, history: list[Step]
) -> None:
    with opened_on(kind) as house:
        check_read_models(house, history)


# The histories themselves.


NOT_REPORTED = {
    *("session.record_kept", "session.imported"),
    *("session.pulled", "session.epoch_started", "session.row_parked"),
    *("session.vanished", "session.reappeared"),
}
"""Events of imports and of pulls."""


def test_the_histories_reach_every_kind_of_event() -> None:
    """No property holds for want of trying."""
    seen: set[str] = set()

    @settings(max_examples=400, derandomize=True)
    @given(histories())
    def play(history: list[Step]) -> None:
        with opened() as house:
            house.play(history)
            seen.update(event.topic for name in SESSIONS for event in house.ledger.events(ROOM, name))

    play()
    told = {topic for topic in TOPICS if topic.startswith("session.")}
    assert seen == told - NOT_REPORTED
