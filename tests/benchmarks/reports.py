"""The reports that the benchmarks make."""

from typing import Any

from application.ledger import Ledger

ROOM = "room-1"
TEXT = ("The tide table lists high and low water for each harbour. " * 20)[:1000]
"""A text of 1 KB."""
START_MS = 1_772_355_600_000


def start_turn(ledger: Ledger, session: str) -> None:
    ledger.report_state({"state": {"turn": {"turnId": "t1", "phase": "running"}}}, room=ROOM, session=session)


def update(number: int) -> dict[str, Any]:
    return {
        "messageId": f"0b000000-0000-4000-8000-{number:012d}",
        "turnId": "t1",
        "role": "assistant",
        "kind": "text",
        "status": "completed",
        "payload": {"text": TEXT},
        "occurredAtUnixMs": START_MS + number,
    }


def report_message(ledger: Ledger, session: str, number: int) -> None:
    """One report of one 1 KB message."""
    ledger.report_messages({"updates": [update(number)]}, room=ROOM, session=session)


def fill(ledger: Ledger, session: str, messages: int, a_report: int = 500) -> None:
    """A session with so many messages, in as few commits as may be."""
    start_turn(ledger, session)
    for first in range(0, messages, a_report):
        batch = [update(number) for number in range(first, min(first + a_report, messages))]
        ledger.report_messages({"updates": batch}, room=ROOM, session=session)
