"""Several processes on one store: nobody fails, nothing is lost."""

import os
from collections import Counter

from tests.store.place import Place
from tests.store.writer_process import ROOM, SHARED, Child, context, end_child, report_both, report_same

WRITERS = 8
ROUNDS = 1_000 if os.environ.get("REPRISE_LONG") == "1" else 200
"""Roots whose children end at once."""
REPORTS = 200
REPORTS_MAX = 100_000
"""More than a busy process will live to make."""
OVERTAKEN_MAX = 500
"""Commits of others while one process wants to commit."""


def test_eight_processes_report_on_one_store(shared: Place, url: str) -> None:
    """Case G01: None is failed or locked out, at its start or later, and every report is one commit."""
    start = context().Barrier(WRITERS)
    children = [Child(report_both, url, f"own-{number}", REPORTS, start) for number in range(WRITERS)]
    answered = [child.end() for child in children]
    assert [child.process.exitcode for child in children] == [0] * WRITERS
    assert [len(lines) for lines in answered] == [REPORTS] * WRITERS

    ledger = shared.ledger()
    transactions = Counter(line for lines in answered for line in lines)
    assert len(transactions) == WRITERS * REPORTS
    assert Counter(delta.transaction_id for delta in ledger.deltas()) == transactions
    assert ledger.verify().ok

    half = REPORTS // 2
    both = list(ledger.events(ROOM, SHARED))
    assert [event.version for event in both] == list(range(1, 2 + WRITERS * half))
    assert [event.topic for event in both].count("session.opened") == 1
    for number in range(WRITERS):
        own = f"own-{number}"
        titles = [(event.event.content or {}).get("title") for event in ledger.events(ROOM, own)]
        assert titles == [None, *(f"{own} {turn}" for turn in range(1, REPORTS, 2))]
        theirs = [
            title
            for event in both
            if (title := (event.event.content or {}).get("title", "")).startswith(f"{own} ")
        ]
        assert theirs == [f"{own} {turn}" for turn in range(0, REPORTS, 2)]


def test_a_session_that_twenty_processes_create_at_once_is_created_once(shared: Place, url: str) -> None:
    start = context().Barrier(20)
    children = [Child(report_same, url, start) for _ in range(20)]
    answered = [line for child in children for line in child.end()]
    assert [child.process.exitcode for child in children] == [0] * 20
    assert len(answered) == 20
    assert len([line for line in answered if line]) == 1
    ledger = shared.ledger()
    assert [event.topic for event in ledger.events(ROOM, SHARED)] == ["session.opened", "session.titled"]
    assert len(ledger.sessions(ROOM)) == 1
    assert ledger.verify().ok


def test_a_root_whose_last_two_children_end_at_once_settles_every_time(shared: Place, url: str) -> None:
    """Whoever comes second sees that the other has ended, whichever process it is."""
    ledger = shared.ledger()
    running = {"turnId": "t1", "phase": "running"}
    for number in range(ROUNDS):
        root = f"root-{number}"
        relations = {"kind": "child", "rootAgentSessionId": root, "rootTurnId": "t1"}
        ledger.report_state({"state": {"turn": running}}, room=ROOM, session=root)
        for child in ("left", "right"):
            state = {**relations, "parentAgentSessionId": root, "turn": running}
            ledger.report_state({"state": state}, room=ROOM, session=f"{child}-{number}")
        provider = {"rootTurnId": "t1", "providerTurnId": "p-1", "phase": "completed"}
        ledger.report_state({"state": {"rootProviderTurn": provider}}, room=ROOM, session=root)
        view = ledger.session(ROOM, root)
        assert view is not None
        assert view.turn_list[0].phase != "settled"

    start = context().Barrier(2)
    children = [Child(end_child, url, child, ROUNDS, start) for child in ("left", "right")]
    assert [child.end() for child in children] == [[], []]
    assert [child.process.exitcode for child in children] == [0, 0]

    views = [ledger.session(ROOM, f"root-{number}") for number in range(ROUNDS)]
    assert [view and view.turn_list[0].phase for view in views] == ["settled"] * ROUNDS
    assert ledger.verify().ok


def test_a_process_that_writes_without_a_pause_keeps_nobody_out(shared: Place, url: str) -> None:
    """Counted in commits: between wanting the lock and having it others make few."""
    ledger = shared.ledger()
    busy = Child(report_both, url, "busy", REPORTS_MAX)
    busy.lines(10)
    overtaken = []
    for number in range(100):
        end = ledger.delivery.deliveries.end()
        delta = ledger.report_state({"state": {"title": str(number)}}, room=ROOM, session="patient").delta
        assert delta is not None
        overtaken.append(delta.first_position - end)
        busy.lines(1)
    busy.kill()
    assert len(list(ledger.deltas())) > 200
    assert max(overtaken) < OVERTAKEN_MAX
