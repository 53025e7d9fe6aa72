"""TestDurableMarkerSurvivesObserverFailureAndCanReplay, step by step on a real database.

Once with our own outbox as the durable marker, once with a marker that a host keeps in a table of its own.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from application.ledger import Ledger
from application.views import StateReply
from domain.delta import CommitDelta, CommittedDelta
from infrastructure.main import open_ledger

SUBSCRIPTION = "host"
REPORT = {
    "workspaceId": "workspace-1",
    "agentSessionId": "session-1",
    "state": {"provider": "codex", "occurredAtUnixMs": 1},
}


@dataclass
class ReplayObserver:
    """Fails while it is told to, and keeps every delta that it was called with."""

    fail: bool = True
    deltas: list[CommitDelta] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.deltas)

    def __call__(self, committed: CommittedDelta) -> None:
        self.observe(committed.delta)

    def observe(self, delta: CommitDelta) -> None:
        self.deltas.append(delta)
        if self.fail:
            raise ConnectionError("observer unavailable")


@dataclass(frozen=True)
class HostDatabase:
    """The host's own connection to the database of the store."""

    url: str
    connection: sqlite3.Connection | psycopg.Connection[Any]

    @property
    def mark(self) -> str:
        """How a parameter stands in a statement."""
        return "?" if self.url.startswith("sqlite") else "%s"

    def execute(self, statement: str, *parameters: Any) -> Any:
        return self.connection.execute(statement.replace("?", self.mark), parameters)


@dataclass
class DurableMarkerParticipant:
    """Writes each delta into the host's own table, in the transaction of the commit."""

    mark: str

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        values = f"{self.mark}, {self.mark}, 0"
        execute(
            f"INSERT INTO test_durable_outbox (transaction_id, payload_json, delivered) VALUES ({values})",
            (delta.transaction_id, delta.to_json()),
        )


@pytest.fixture
def db(url: str) -> Iterator[HostDatabase]:
    if url.startswith("sqlite"):
        connected: Any = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        server, schema = re.split(r"[?&]schema=", url)
        connected = psycopg.connect(server, autocommit=True, options=f"-c search_path={schema}")
    with closing(connected) as connection:
        yield HostDatabase(url, connection)


def found(ledger: Ledger) -> bool:
    """Whether the canonical fact is there."""
    view = ledger.session("workspace-1", "session-1")
    return view is not None and view.provider == "codex"


def committed(reply: StateReply) -> CommitDelta:
    assert reply.delta is not None
    assert reply.delta.transaction_id == reply.transaction_id
    return reply.delta.delta


class TestDurableMarkerSurvivesObserverFailureAndCanReplay:
    def test_with_our_outbox(self, url: str, db: HostDatabase) -> None:
        observer = ReplayObserver(fail=True)
        with open_ledger(url) as ledger:
            ledger.subscribe(observer, SUBSCRIPTION)

            # The observer fails after the commit; the command does not.
            result = ledger.report_state(REPORT)
            delta = committed(result)
            assert observer.calls == 1

            # The marker is there and undelivered.
            waiting = [entry.committed.transaction_id for entry in ledger.outbox(pending=True)]
            assert waiting == [result.transaction_id]

            # It decodes to the delta that was committed.
            (payload_json,) = db.execute(
                "SELECT delta FROM outbox WHERE transaction_id = ?", result.transaction_id
            ).fetchone()
            replayed = CommitDelta.from_json(payload_json)
            assert replayed.transaction_id == result.transaction_id
            assert len(replayed.mutations) == len(delta.mutations)
            assert replayed == delta

            # The canonical fact is there.
            assert found(ledger)

            # The observer is called a second time, with the equal delta, and the marker is delivered.
            observer.fail = False
            assert ledger.redeliver(SUBSCRIPTION) == 1
            assert observer.calls == 2
            assert observer.deltas == [delta, delta]
            assert list(ledger.outbox(pending=True)) == []
            assert ledger.redeliver(SUBSCRIPTION) == 0
            assert observer.calls == 2

    def test_with_a_host_that_keeps_its_own_marker(self, url: str, db: HostDatabase) -> None:
        observer = ReplayObserver(fail=True)
        with open_ledger(url, participant=DurableMarkerParticipant(db.mark)) as ledger:
            db.execute(
                "CREATE TABLE test_durable_outbox"
                " (transaction_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL, delivered INTEGER NOT NULL)"
            )
            ledger.subscribe(observer, SUBSCRIPTION)

            # The observer fails after the commit; the command does not.
            result = ledger.report_state(REPORT)
            delta = committed(result)
            assert observer.calls == 1

            # The marker is there and undelivered.
            payload_json, delivered = db.execute(
                "SELECT payload_json, delivered FROM test_durable_outbox WHERE transaction_id = ?",
                result.transaction_id,
            ).fetchone()
            assert delivered == 0

            # It decodes to the delta that was committed.
            replayed = CommitDelta.from_json(payload_json)
            assert replayed.transaction_id == result.transaction_id
            assert len(replayed.mutations) == len(delta.mutations)
            assert replayed == delta

            # The canonical fact is there.
            assert found(ledger)

            # The host hands the decoded delta over by itself and marks it in its own table.
            observer.fail = False
            observer.observe(replayed)
            assert observer.calls == 2
            assert observer.deltas == [delta, delta]
            marked = db.execute(
                "UPDATE test_durable_outbox SET delivered = 1 WHERE transaction_id = ?",
                result.transaction_id,
            )
            assert marked.rowcount == 1
            assert db.execute("SELECT count(*) FROM test_durable_outbox").fetchone() == (1,)
            assert ledger.verify().ok

    def test_the_marker_outlives_the_process(self, url: str) -> None:
        with open_ledger(url) as ledger:
            ledger.subscribe(ReplayObserver(fail=True), SUBSCRIPTION)
            delta = committed(ledger.report_state(REPORT))
        observer = ReplayObserver(fail=False)
        with open_ledger(url) as ledger:
            ledger.subscribe(observer, SUBSCRIPTION)
            assert observer.calls == 0
            assert ledger.redeliver(SUBSCRIPTION) == 1
            assert observer.deltas == [delta]
            assert list(ledger.outbox(pending=True)) == []
            assert found(ledger)
