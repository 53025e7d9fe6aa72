"""Workers are killed at any moment, again and again: nothing is lost, made up, or out of order in a room."""

import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from application.lanes import State
from application.ledger import Ledger
from domain.subscription import Added
from infrastructure.main import open_ledger
from tests.sinks.worker_process import DIGEST_LENGTH, deliver
from tests.store.writer_process import Child

KILLS = 20_000 if os.environ.get("REPRISE_LONG") == "1" else 50
WORKERS = 2
ROOMS = 12
LEASE_MS = 200
NAME = "recorder"
PATIENCE_S = 120


def say(ledger: Ledger, number: int, chance: Random) -> None:
    room = f"r{chance.randrange(ROOMS)}"
    ledger.report_state({"state": {"title": f"title {number}"}}, room=room, session="s")


def is_whole(line: str) -> bool:
    """Whether a line was written to its end; a death in the middle was one before the parcel arrived."""
    fields = line.split()
    return len(fields) == 3 and len(fields[-1]) == DIGEST_LENGTH


class Recorded:
    """What the consumer has been handed so far."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("r")
        self._begun = ""
        """A line of which so far only the beginning can be seen."""
        self.lines: list[str] = []
        self.transactions: set[str] = set()

    def __enter__(self) -> "Recorded":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def look(self) -> int:
        """Read what is new; how many lines there are."""
        *new, self._begun = (self._begun + self._file.read()).split("\n")
        whole = [line for line in new if is_whole(line)]
        self.lines += whole
        self.transactions.update(line.split()[1] for line in whole)
        return len(self.lines)

    def wait(self, count: int) -> None:
        """Until there are so many lines."""
        end = time.monotonic() + PATIENCE_S
        while self.look() < count:
            assert time.monotonic() < end, "nothing arrives any more"
            time.sleep(0.001)


def check(ledger: Ledger, recorded: Recorded) -> int:
    """Compare what was recorded with what was committed; how much came more than once."""
    committed: dict[str, list[str]] = defaultdict(list)
    for delta in ledger.deltas():
        committed[delta.room].append(str(delta.transaction_id))
    first_seen: dict[str, list[str]] = defaultdict(list)
    bodies: dict[str, str] = {}
    recorded.look()
    for line in recorded.lines:
        room, transaction, digest = line.split()
        if transaction in bodies:
            assert bodies[transaction] == digest, "a repetition is another delta"
            continue
        bodies[transaction] = digest
        first_seen[room].append(transaction)
    assert first_seen == committed
    return len(recorded.lines) - len(bodies)


def test_workers_killed_at_any_moment_lose_nothing_and_make_nothing_up(url: str, tmp_path: Path) -> None:
    """L2, L4: What comes again is the same, and each room is in order."""
    chance, path = Random(20261201), tmp_path / "recorded"
    with Recorded(path) as recorded, open_ledger(url) as ledger:
        ledger.subscriptions.add(Added(name=NAME, kind="recorder", from_position=0), after=0)
        workers = [Child(deliver, url, path, LEASE_MS) for _ in range(WORKERS)]
        committed = 0
        for _ in range(KILLS):
            victim = workers.pop(chance.randrange(len(workers)))
            victim.lines(1)
            before = recorded.look()
            for _ in range(chance.randrange(8)):
                committed += 1
                say(ledger, committed, chance)
            if chance.random() < 0.5 and len(recorded.transactions) < committed:
                recorded.wait(before + 1)
            victim.kill()
            assert victim.process.exitcode == -signal.SIGKILL
            workers.append(Child(deliver, url, path, LEASE_MS))
        end = time.monotonic() + PATIENCE_S
        while {one.state for one in ledger.subscriptions.list(NAME)} != {State.DELIVERED}:
            assert time.monotonic() < end, "something is never delivered"
            time.sleep(0.02)
        for worker in workers:
            worker.kill()

        assert committed > KILLS
        assert check(ledger, recorded) > 0, "no death was in between"
        assert ledger.verify().ok
