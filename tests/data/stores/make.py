"""Makes the store file that every later release has to read; run it before a release, never after.

    .venv/bin/python -m tests.data.stores.make tests/data/stores/0.1.0.db

The story holds every topic of the release. Clock, salts and store id are fixed, so the same code makes the
same rows; the file's own bytes also depend on the SQLite at hand.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from application.aggregates import change
from application.ledger import Ledger
from application.message_pages import Page
from application.mirroring import mirror, note_absence
from application.ports import Decision, Loader
from application.remote import BadRow, MessagesPage, RemoteMessage, RemoteSession
from domain import backoff, breaker, subscription, tracked_room
from domain.backoff import BACKOFF, LIST_LANE, Trouble, messages_lane
from domain.backoff_policy import SERVICE_POLICY
from domain.breaker import BREAKER, SERVICE_BREAKER
from domain.ids import RemoteCursor, RoomId, SessionId, TransactionId
from domain.session import Imported, RecordKept
from domain.subscription import SUBSCRIPTION
from domain.tracked_room import ROOM as PULLED
from domain.work import Source, Work
from infrastructure.store.sqlite import SQLiteDatabase
from tests.store.place import START_MS, Place

STORE_ID = UUID("0a6e1c2e-5c1b-4f0e-9d0a-5e1f5e1f5e1f")
ROOM = "tidewatch"
ROOT = "root"
CHILD = "child"
GONE = "gone"
IMPORTED = "imported"
MIRRORED = "mirrored"
PULLED_ROOM = RoomId("harbour")
HOST = "far.example:443"
SUBSCRIBER = "crm"
MINUTE_MS = 60_000


def at(minute: int) -> int:
    return START_MS + minute * MINUTE_MS


def message(id_: str, turn: str, role: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "messageId": id_,
        "turnId": turn,
        "role": role,
        "kind": "text",
        "payload": {"text": text},
        **more,
    }


class Teller:
    """Reports into one room, a minute apart."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.ledger = ledger

    def state(self, session: str, *, command_id: str = "", **state: Any) -> None:
        self.place.clock.now += MINUTE_MS
        self.ledger.report_state(
            {"userId": "mira", "source": {"cwd": "/home/mira/tidewatch"}, "state": state},
            room=ROOM,
            session=session,
            command_id=command_id,
        )

    def messages(self, session: str, *updates: dict[str, Any]) -> None:
        self.place.clock.now += MINUTE_MS
        self.ledger.report_messages({"updates": list(updates)}, room=ROOM, session=session)


def tell_root(teller: Teller) -> None:
    """A session whose first turn asks, waits for a child and ends; the second is given up and revived."""
    teller.state(ROOT, provider="codex", providerSessionId="p-1", model="large", command_id="open")
    teller.state(
        ROOT,
        kind="root",
        title="Tide tables",
        capabilities=["resume"],
        settings={"sandbox": "read-only"},
        runtimeContext={"branch": "main"},
        currentPhase="working",
        lifecycleStatus="running",
        startedAtUnixMs=at(1),
        turn={"turnId": "t-1", "phase": "submitted", "origin": "user_prompt", "startedAtUnixMs": at(1)},
        messages=[message("m-1", "t-1", "user", "Which tide is at noon?", status="completed")],
    )
    teller.state(
        ROOT, runtimeContextPatch={"set": {"dirty": True}}, turn={"turnId": "t-1", "phase": "running"}
    )
    tool = {
        "messageId": "m-2",
        "turnId": "t-1",
        "role": "assistant",
        "kind": "tool_call",
        "status": "running",
        "payload": {"name": "shell", "input": {"command": "tides --at 12:00"}},
    }
    teller.messages(ROOT, tool)
    asked = {
        "requestId": "q-1",
        "turnId": "t-1",
        "kind": "approval",
        "status": "pending",
        "toolName": "shell",
        "input": {"command": "tides --at 12:00"},
    }
    teller.state(ROOT, turn={"turnId": "t-1", "phase": "waiting"}, interactionTransition=asked)
    teller.ledger.answer(ROOM, ROOT, "t-1", "q-1", {"decision": "allow"})
    teller.state(ROOT, turn={"turnId": "t-1", "phase": "running", "fileChanges": {"files": 2}})
    teller.messages(
        ROOT, {**tool, "status": "completed", "payload": {"output": {"stdout": "high, 4.2 m \ud83c\udf0a"}}}
    )
    provider = {"rootTurnId": "t-1", "providerTurnId": "p-t-1", "phase": "running"}
    teller.state(ROOT, rootProviderTurn=provider)
    tell_child(teller)
    teller.messages(ROOT, {**message("m-3", "t-1", "assistant", "High"), "usage": {"output": 3}})
    teller.messages(ROOT, {"messageId": "m-3", "turnId": "t-1", "contentDelta": " water, 4.2 m."})
    teller.state(ROOT, rootProviderTurn={**provider, "phase": "completed", "outcome": "completed"})
    teller.state(CHILD, turn={"turnId": "c-1", "phase": "settled", "outcome": "completed"})
    teller.ledger.set_title(ROOM, ROOT, "Tides of March", command_id="title")
    teller.ledger.set_pin(ROOM, ROOT, pinned=True)
    teller.ledger.set_pin(ROOM, ROOT, pinned=False)
    teller.state(ROOT, turn={"turnId": "t-2", "phase": "running"})
    teller.ledger.request_cancel(ROOM, ROOT, "t-2")
    teller.state(ROOT, interactionTransition={**asked, "requestId": "q-2", "turnId": "t-2"})
    teller.place.clock.now += MINUTE_MS
    teller.ledger.settle(ROOM)
    teller.state(ROOT, turn={"turnId": "t-2", "phase": "running"})
    teller.state(
        ROOT, turn={"turnId": "t-2", "phase": "settled", "outcome": "failed", "errorMessage": "lost"}
    )
    teller.state(ROOT, lifecycleStatus="completed", endedAtUnixMs=at(40))
    teller.state(ROOT, turn={"turnId": "t-3", "phase": "running"})


def tell_child(teller: Teller) -> None:
    relations = {
        "kind": "child",
        "rootAgentSessionId": ROOT,
        "parentAgentSessionId": ROOT,
        "rootTurnId": "t-1",
    }
    teller.state(CHILD, **relations, title="Read the chart", turn={"turnId": "c-1", "phase": "running"})


def tell_gone(teller: Teller) -> None:
    """A session that was deleted, brought back, and purged."""
    teller.state(
        GONE,
        title="Nobody may read this",
        turn={"turnId": "g-1", "phase": "settled"},
        messages=[message("g-m", "g-1", "user", "nor this")],
    )
    teller.ledger.delete(ROOM, GONE)
    teller.ledger.restore(ROOM, GONE)
    teller.ledger.purge(ROOM, GONE)


def tell_imported(teller: Teller) -> None:
    """What an import leaves besides reports."""
    teller.messages(IMPORTED, {"messageId": "i-1", "role": "system", "kind": "session_audit"})
    digest = "00" * 32
    source = Source("codex", "i", digest, 120)

    def decide(load: Loader) -> Decision:
        work = Work(RoomId(ROOM), teller.place.clock.now, load.session, source=source)
        draft = work.session(SessionId(IMPORTED))
        kept = RecordKept(
            import_id="i", offset=120, length=9, reason="damaged", content={"raw": '{"type":\udcff'}
        )
        draft.add(kept)
        draft.add(Imported(import_id="i", digest=digest, read_to=129, records=1, damaged=1))
        return Decision({}, work)

    teller.ledger.store.submit(decide)


def tell_pulled(teller: Teller) -> None:
    """A room that is pulled from a host, which fails, refuses, and comes back."""
    store, lane = teller.ledger.store, messages_lane(SessionId(ROOT))
    down = Trouble("status", True, "the remote answered 503", 503, 20.0)
    gone = Trouble("status", False, "the remote answered 404", 404)

    def tell(kind: Any, key: str, rule: Any, *given: Any, **more: Any) -> None:
        teller.place.clock.now += MINUTE_MS
        change(store, kind, key, lambda state: rule(state, *given, **more), teller.place.clock.now, "mira")

    def now() -> int:
        return teller.place.clock.now + MINUTE_MS

    tell(PULLED, PULLED_ROOM, tracked_room.track, "https://far.example", token_ref="FAR", user_id="mira")
    tell(PULLED, PULLED_ROOM, tracked_room.track, "https://far.example/x", allows_private=True)
    tell(PULLED, PULLED_ROOM, tracked_room.hide, SessionId(CHILD))
    tell(PULLED, PULLED_ROOM, tracked_room.unhide, SessionId(CHILD))
    tell(BACKOFF, PULLED_ROOM, backoff.fail, LIST_LANE, down, SERVICE_POLICY, now(), seed="chart")
    for _ in range(3):
        tell(BACKOFF, PULLED_ROOM, backoff.fail, lane, gone, SERVICE_POLICY, now())
    tell(BACKOFF, PULLED_ROOM, backoff.pause)
    tell(BACKOFF, PULLED_ROOM, backoff.resume)
    tell(BREAKER, HOST, breaker.open_breaker, now(), down, SERVICE_BREAKER, now(), seed="chart")
    tell(BREAKER, HOST, breaker.claim_probe, PULLED_ROOM, SERVICE_BREAKER, now())
    tell(BREAKER, HOST, breaker.probe_failed, 1, down, SERVICE_BREAKER, now(), seed="chart")
    tell(BREAKER, HOST, breaker.claim_probe, PULLED_ROOM, SERVICE_BREAKER, now())
    tell(BREAKER, HOST, breaker.probe_answered, 2, SERVICE_BREAKER, now())
    tell(BACKOFF, PULLED_ROOM, backoff.host_recovered, 0, now())
    tell(PULLED, PULLED_ROOM, tracked_room.untrack)


def tell_subscribed(teller: Teller) -> None:
    """A destination that comes, rests, refuses, is gone, comes back, and is taken away."""
    added = subscription.Added(name=SUBSCRIBER, kind="webhook", target="https://crm.example", from_position=0)
    chosen = {"room": ROOM, "states": ("parked",), "count": 1}

    def tell(rule: Any, *given: Any) -> None:
        teller.place.clock.now += MINUTE_MS
        now = teller.place.clock.now
        change(teller.ledger.store, SUBSCRIPTION, SUBSCRIBER, lambda state: rule(state, *given), now, "mira")

    tell(subscription.add, added)
    tell(subscription.pause, "upkeep")
    tell(subscription.resume)
    tell(subscription.rotate, "s-2", teller.place.clock.now)
    tell(subscription.park, RoomId(ROOM), TransactionId("t"), 3, "400")
    tell(subscription.request_redelivery, subscription.RedeliveryRequested(**chosen))  # type: ignore[arg-type]
    tell(subscription.skip, subscription.Skipped(**chosen))  # type: ignore[arg-type]
    tell(subscription.disable, "410")
    tell(subscription.remove)


def tell_mirrored(teller: Teller) -> None:
    """A session that lives on that host: it is read, begins anew, vanishes and reappears."""

    def tell(rule: Any) -> None:
        teller.place.clock.now += MINUTE_MS
        teller.ledger.run(RoomId(ROOM), rule)

    def page(cursor: int, *rows: RemoteMessage | BadRow, epoch: int = 1) -> Page:
        read = MessagesPage(rows, latest_version=len(rows), has_more=False, epoch="e", home=HOST)
        return Page(epoch, RemoteCursor(cursor), RemoteCursor(max(0, cursor - 1)), read)

    shown = RemoteSession(
        id=MIRRORED, title="Read the far chart", status="working", lifecycle_status="active"
    )
    said = {"turn_id": "m-t", "role": "assistant", "kind": "text", "payload": {"text": "Far water."}}
    first = RemoteMessage(sequence=1, message_id="r-1", version=1, **said)  # type: ignore[arg-type]
    bad = BadRow(1, b'{"version": 2, "messageId": []}', "messageId: text is wanted", 2)
    tell(mirror(SessionId(MIRRORED), shown, HOST, page(0, first, bad)))
    tell(mirror(SessionId(MIRRORED), shown, HOST, page(2)))
    tell(note_absence(SessionId(MIRRORED)))
    tell(mirror(SessionId(MIRRORED), replace(shown, status="idle"), HOST, page(0, first, epoch=2)))


def make(path: Path) -> None:
    """Tell the story into a new file."""
    with patch("infrastructure.store.sqlite.uuid4", return_value=STORE_ID):
        place = Place(lambda: SQLiteDatabase(path))
        ledger = place.ledger()
    teller = Teller(place, ledger)
    ledger.subscribe(lambda _: None, "listener", after=0)
    for tell in (tell_root, tell_gone, tell_imported, tell_pulled, tell_mirrored, tell_subscribed):
        tell(teller)
    assert ledger.verify().ok
    place.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
