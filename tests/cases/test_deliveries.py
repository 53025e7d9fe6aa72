"""A delivery that a dead worker has claimed, and one that two want at once."""

from threading import Barrier, Thread

from application.lanes import Choice, Claim, Lanes, Mark, State, Want
from domain.ids import Position
from domain.subscription import Added, Filter
from tests.domain.story import Story

NAME = "sink"
LEASE_MS = 30_000


def claim(lanes: Lanes, owner: str, now: int) -> list[Claim]:
    return list(lanes.claim([Want(NAME, Position(0), Filter(), 10)], owner, now, now + LEASE_MS))


def test_f07_what_a_dead_worker_claimed_is_claimed_again_by_one_and_marked_by_that_one(story: Story) -> None:
    """Case F07: neither stranded for ever nor delivered by both."""
    ledger = story.ledger
    added = Added(name=NAME, kind="webhook", target="https://sink.example", from_position=0)
    ledger.subscriptions.add(added, after=0)
    ledger.report_state({"state": {"title": "x"}}, room="room-a", session="s")
    lanes, now = ledger.store.lanes, story.clock.now
    (dead,) = claim(lanes, "w1", now)
    assert claim(lanes, "w2", now + LEASE_MS - 1) == []

    later, start = now + LEASE_MS + 1_000, Barrier(2)
    found: dict[str, list[Claim]] = {}

    def race(owner: str) -> None:
        start.wait()
        found[owner] = claim(lanes, owner, later)

    threads = [Thread(target=race, args=(owner,)) for owner in ("w2", "w3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(len, found.values())) == [0, 1]
    winner = next(owner for owner, claims in found.items() if claims)
    (claimed,) = found[winner]
    late = lanes.settle([Mark(dead.lease, dead.through)], "w1", later, later + LEASE_MS)
    assert late == [dead.lease], "a stale lease is refused"
    assert lanes.settle([Mark(claimed.lease, claimed.through)], winner, later, later + LEASE_MS) == []
    told = lanes.deliveries(NAME, Filter(), Choice(), later, Position(0), 10)
    assert [one.state for one in told] == [State.DELIVERED]
