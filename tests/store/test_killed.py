"""A process dies on any line: what was answered is there, and nothing is there by half."""

import signal
from pathlib import Path
from random import Random

import pytest

import application
import infrastructure
from domain.ids import TransactionId
from infrastructure import crashpoints
from tests.store.place import Place, log_of
from tests.store.writer_process import ROOM, SHARED, SUBSCRIPTION, Child, die_at, report_both

ROUNDS = 80
"""Rounds of two processes each, both of which are killed."""
REPORTS_MAX = 10_000
"""More than any of them will live to make."""


def check_whole(place: Place, answered: list[str]) -> None:
    """Every answered report is there; every stream and every commit is whole."""
    store = place.store()
    for transaction in answered:
        assert store.delta(TransactionId(transaction)) is not None, transaction
    positions = [stored.position for stored in log_of(store)]
    assert positions == list(range(1, len(positions) + 1))
    found = store.verify()
    assert found.problems == ()
    ends = [delta.last_position for delta in store.deltas()]
    starts = [delta.first_position for delta in store.deltas()]
    assert starts == [1, *(end + 1 for end in ends[:-1])]
    assert ends[-1] == positions[-1]
    store.close()


def test_processes_killed_at_any_moment_lose_nothing_they_were_answered(shared: Place, url: str) -> None:
    chance = Random(20260301)
    answered: list[str] = []
    for number in range(ROUNDS):
        pair = [Child(report_both, url, f"own-{number}-{one}", REPORTS_MAX) for one in "ab"]
        for child in pair:
            answered += child.lines(chance.randrange(12))
            for _ in range(chance.randrange(20_000)):
                pass  # Somewhere between two answers.
            answered += child.kill()
            assert child.process.exitcode == -signal.SIGKILL
        if number % 20 == 19:
            check_whole(shared, answered)
    assert len(answered) > ROUNDS
    assert len(set(answered)) == len(answered)
    ledger = shared.ledger()
    assert len(list(ledger.deltas())) >= len(answered)
    assert ledger.report_state({"state": {"title": "on"}}, room=ROOM, session=SHARED).applied
    assert ledger.verify().ok


def test_a_killed_writer_holds_up_nobody(shared: Place, url: str) -> None:
    """It dies with the lock in its hand, while this process has the store open."""
    ledger = shared.ledger()
    child = Child(die_at, url, "append.before_commit", 0, ["never answered"])
    assert child.end() == []
    assert child.process.exitcode == -signal.SIGKILL
    assert list(ledger.deltas()) == []
    assert ledger.report_state({"state": {"title": "on"}}, room=ROOM, session=SHARED).applied
    assert ledger.verify().ok


TITLES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("deaths_after", [0, 2])
@pytest.mark.parametrize("crash_point", crashpoints.NAMES)
def test_after_a_death_at_a_crash_point_all_is_whole_and_everything_arrives(
    shared: Place, url: str, crash_point: str, deaths_after: int
) -> None:
    child = Child(die_at, url, crash_point, deaths_after, TITLES)
    said = child.end()
    assert child.process.exitcode == -signal.SIGKILL
    answered = [line.removeprefix("answered ") for line in said if line.startswith("answered ")]
    handed_before = [line.removeprefix("handed ") for line in said if line.startswith("handed ")]
    stored_before = deaths_after if crash_point == "append.before_commit" else deaths_after + 1
    assert len(answered) == deaths_after
    if stored_before:
        check_whole(shared, answered)

    # The caller tries again with the same command ids and gets the answers of what was stored.
    ledger = shared.ledger()
    stored = [str(delta.transaction_id) for delta in ledger.deltas()]
    assert len(stored) == stored_before
    handed: list[str] = []
    ledger.subscribe(lambda delta: handed.append(str(delta.transaction_id)), SUBSCRIPTION, after=0)
    ledger.redeliver(SUBSCRIPTION)
    again = [
        ledger.report_state({"state": {"title": title}}, room=ROOM, session=SHARED, command_id=title)
        for title in TITLES
    ]
    transactions = [reply.transaction_id for reply in again]
    assert transactions[:stored_before] == stored
    assert [str(delta.transaction_id) for delta in ledger.deltas()] == transactions

    # Everything was handed over in order, and twice only what was not marked before the death.
    twice = set(handed_before) & set(handed)
    assert [one for one in handed_before if one not in twice] + handed == transactions
    assert len(twice) == (crash_point == "outbox.after_send")
    assert list(ledger.outbox(pending=True)) == []
    assert ledger.verify().ok


def test_every_crash_point_is_somewhere_in_the_product() -> None:
    sources = "".join(
        source.read_text("utf-8")
        for package in (application, infrastructure)
        for source in Path(package.__path__[0]).rglob("*.py")
        if source.name != "crashpoints.py"
    )
    for name in crashpoints.NAMES:
        assert f'crashpoint("{name}")' in sources, name


def test_crash_points_do_nothing_unless_they_are_armed() -> None:
    passed: list[str] = []
    for name in crashpoints.NAMES:
        crashpoints.crashpoint(name)
        crashpoints.arm(name, lambda name=name: passed.append(name))  # type: ignore[misc]
    for name in crashpoints.NAMES:
        crashpoints.crashpoint(name)
    crashpoints.disarm()
    crashpoints.crashpoint(crashpoints.NAMES[0])
    assert passed == list(crashpoints.NAMES)
    with pytest.raises(AssertionError, match="no crash point"):
        crashpoints.arm("nowhere", lambda: None)
