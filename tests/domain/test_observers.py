"""The outbox and those who are handed what it holds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from domain.delta import CommitDelta, CommittedDelta
from tests.domain.story import Story, told


class Observer:
    """Takes deltas, or raises as often as it is told to."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.taken: list[CommittedDelta] = []

    def __call__(self, delta: CommittedDelta) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError("unreachable")
        self.taken.append(delta)


class Participant:
    """Writes with the commit, or refuses to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.calls: list[CommitDelta] = []

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        self.calls.append(delta)
        if self.refuses:
            raise OSError("no")
        execute("CREATE TABLE IF NOT EXISTS host (id TEXT)", ())
        execute("INSERT INTO host VALUES (?)", (delta.transaction_id,))


def test_each_commit_has_its_outbox_row(story: Story) -> None:
    """O1: The row holds transaction id, room, position range, delta and recorded time."""
    reply = story.report(title="x", cwd="/a")

    (entry,) = story.ledger.outbox()

    assert entry.committed == reply.delta
    positions = [event.position for event in story.commit(reply)]
    assert (entry.committed.transaction_id, entry.committed.room) == (reply.transaction_id, "room-1")
    assert [entry.committed.first_position, entry.committed.last_position] == [positions[0], positions[-1]]


def test_a_participant_takes_part_once_per_commit(tmp_path: Path) -> None:
    """O1: A host in the process is called once for each commit, with the delta."""
    participant = Participant()
    with told(f"sqlite:///{tmp_path}/store.db", participant) as story:
        replies = [story.report(title=title) for title in ("a", "b", "b")]

    ids = [reply.transaction_id for reply in replies if reply.applied]
    assert [delta.transaction_id for delta in participant.calls] == ids


def test_a_participant_that_raises_fails_the_command(tmp_path: Path) -> None:
    """O1: If the host refuses, nothing is stored and no version is used."""
    participant = Participant(refuses=True)
    with told(f"sqlite:///{tmp_path}/store.db", participant) as story:
        with pytest.raises(OSError, match="no"):
            story.report(title="x")
        assert (story.count(), list(story.ledger.outbox())) == (0, [])
        participant.refuses = False

        assert story.commit(story.report(title="x"))[0].version == 1


def test_an_observer_that_fails_changes_nothing(story: Story) -> None:
    """O2: The report succeeds, its state stands, the failure is counted, and the row stays pending."""
    observer = Observer(fails=1)
    story.ledger.subscribe(observer, "observer")

    reply = story.report(title="x")

    assert (reply.applied, story.session().title) == (True, "x")
    assert story.failures.by_subscription["observer"] == 1
    assert [entry.pending for entry in story.ledger.outbox()] == [("observer",)]


def test_nothing_is_tried_again_by_itself(story: Story) -> None:
    """O2: A failed delta waits, and holds what comes behind it in its room, until it is redelivered."""
    observer = Observer(fails=1)
    story.ledger.subscribe(observer, "observer")
    story.report(title="x")

    story.report(title="y")

    assert observer.taken == []
    assert story.ledger.redeliver("observer") == 2
    assert [entry.pending for entry in story.ledger.outbox()] == [(), ()]


def test_success_marks_the_row_delivered(story: Story) -> None:
    """O2: What an observer took is not pending for it."""
    story.ledger.subscribe(Observer(), "observer")
    story.report(title="x")

    assert list(story.ledger.outbox(pending=True)) == []
    assert story.ledger.redeliver("observer") == 0


def test_a_redelivered_delta_equals_the_first(story: Story) -> None:
    """O3: The stored delta is decoded and handed over, equal to the one that came live; then it is marked."""
    live, late = Observer(), Observer(fails=1)
    story.ledger.subscribe(live, "live")
    story.ledger.subscribe(late, "late")
    story.turn("t1", "running")

    assert story.ledger.redeliver("late") == 1

    assert live.taken == late.taken == list(story.ledger.deltas())
    assert list(story.ledger.outbox(pending=True)) == []
