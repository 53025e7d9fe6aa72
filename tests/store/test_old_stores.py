"""Store files of every release, kept as they were written: this release reads them all."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application.ledger import Ledger
from application.ports import StoredEvent
from domain import jsontext
from domain.delta import CommitDelta
from infrastructure.store.codec import pack
from infrastructure.store.sqlite_schema import APPLICATION_ID
from infrastructure.store.tables import READ_MODELS
from infrastructure.store.topics import AGGREGATE_KINDS, KINDS
from tests.data.stores.make import (
    CHILD,
    GONE,
    HOST,
    IMPORTED,
    MIRRORED,
    PULLED_ROOM,
    ROOM,
    ROOT,
    STORE_ID,
    SUBSCRIBER,
)
from tests.store.place import Place, in_file, log_of
from tests.store.test_topics import DATA, GOLDEN

RELEASES = ("0.1.0",)
EVENTS = 102
SESSIONS = (ROOT, CHILD, GONE, IMPORTED, MIRRORED)
AGGREGATES = {"room": PULLED_ROOM, "backoff": PULLED_ROOM, "breaker": HOST, "subscription": SUBSCRIBER}
"""By kind, the aggregate of each that the file holds."""


@pytest.fixture(params=RELEASES)
def kept(request: pytest.FixtureRequest, path: Path) -> Iterator[Place]:
    """A copy of a release's file, which opening may migrate."""
    shutil.copy(DATA / f"{request.param}.db", path)
    place = in_file(path)
    yield place
    place.close()


def test_a_kept_file_is_a_store_of_ours() -> None:
    for release in RELEASES:
        head = (DATA / f"{release}.db").read_bytes()[:100]
        assert head.startswith(b"SQLite format 3\0")
        assert int.from_bytes(head[68:72], "big") == APPLICATION_ID


def test_it_verifies(kept: Place) -> None:
    found = kept.ledger().verify()
    assert found.problems == ()
    assert (found.streams, found.events, found.outbox) == (9, EVENTS, 32)


def beside_the_sessions(kept: Place) -> list[StoredEvent]:
    """The events of the aggregates beside the sessions."""
    store = kept.store()
    return [event for name, key in AGGREGATES.items() for event in store.history(AGGREGATE_KINDS[name], key)]


def test_its_sessions_are_there(kept: Place) -> None:
    ledger = kept.ledger()
    told = [
        (one.session, one.kind, one.status, one.title, one.turns, one.messages, one.tool_calls)
        for one in ledger.sessions(ROOM, deleted=True)
    ]
    assert told == [
        (MIRRORED, "", "idle", "Read the far chart", 1, 1, 0),
        (IMPORTED, "", "idle", "", 0, 0, 0),
        (ROOT, "root", "working", "Tides of March", 3, 2, 1),
        (CHILD, "child", "idle", "Read the chart", 1, 0, 0),
    ]
    assert ledger.session(ROOM, GONE) is None


def test_its_turns_and_interactions_are_there(kept: Place) -> None:
    view = kept.ledger().session(ROOM, ROOT)
    assert view is not None
    assert [(turn.turn_id, turn.phase, turn.outcome, turn.cause) for turn in view.turn_list] == [
        ("t-1", "settled", "completed", "root"),
        ("t-2", "settled", "failed", "reported"),
        ("t-3", "running", None, None),
    ]
    assert view.turn_list[0].final_assistant_message_id == "m-3"
    assert [(one.request_id, one.status, one.output) for one in view.interaction_list] == [
        ("q-1", "answered", {"decision": "allow"}),
        ("q-2", "superseded", None),
    ]
    assert view.active_turn_id == "t-3"
    assert view.settings == {"sandbox": "read-only"}
    assert view.runtime_context == {"branch": "main", "dirty": True}
    assert view.capabilities == ("resume",)
    assert view.cwd == "/home/mira/tidewatch"
    assert view.usage == {"output": 3}


def test_its_messages_are_there(kept: Place) -> None:
    page = kept.ledger().messages(ROOM, ROOT)
    assert [(one.message_id, one.version, one.status, one.payload) for one in page.messages[:3]] == [
        ("m-1", 1, "completed", {"text": "Which tide is at noon?"}),
        (
            "m-2",
            3,
            "completed",
            {
                "name": "shell",
                "input": {"command": "tides --at 12:00"},
                "output": {"stdout": "high, 4.2 m \N{WATER WAVE}"},
            },
        ),
        ("m-3", 5, None, {"text": "High water, 4.2 m."}),
    ]
    assert page.latest_version == 6


def test_every_event_is_read_whole_and_knows_its_place(kept: Place) -> None:
    """Nothing that is stored gets lost in today's shape."""
    ledger = kept.ledger()
    read = [event for session in SESSIONS for event in ledger.events(ROOM, session)]
    read += beside_the_sessions(kept)
    assert sorted(event.position for event in read) == list(range(1, EVENTS + 1))
    assert {event.topic for event in read} == set(GOLDEN)
    by_position: dict[int, Any] = {event.position: event for event in read}
    kinds = {kind.TOPIC: kind for kind in KINDS}
    for stored in log_of(ledger.store):  # type: ignore[arg-type]
        event = by_position[stored.position]
        facts = jsontext.from_bytes(stored.record.facts)
        if facts.get("v", 1) == kinds[event.topic].SHAPE:
            assert jsontext.from_bytes(jsontext.to_bytes(pack(event.event))) == facts["facts"]
        assert event.is_erased == (event.session == GONE and "content" in facts)


def test_its_deltas_are_there_and_were_delivered(kept: Place) -> None:
    ledger = kept.ledger()
    deltas = list(ledger.deltas())
    assert [str(delta.transaction_id) for delta in deltas[:2]] == [
        "2b25d656-108f-5b2d-aae2-466f9e5f3571",
        "d9ddefc7-a657-53ea-998e-e29482280b28",
    ]
    assert deltas[-3].last_position == 60, "what only an import leaves makes no delta"
    assert all(CommitDelta.from_json(delta.delta.to_json()) == delta.delta for delta in deltas)
    assert list(ledger.outbox(pending=True)) == []
    ledger.subscribe(lambda _: None, "listener", after=0)
    assert ledger.redeliver("listener") == 0


def test_a_rebuild_gives_the_rows_that_stand(kept: Place) -> None:
    store = kept.store()

    def rows() -> list[list[Any]]:
        with store._database.read() as tables:
            return [list(tables.rows(table)) for table in READ_MODELS]

    before = rows()
    assert store.rebuild() == EVENTS
    assert rows() == before


def goes_on(ledger: Ledger) -> None:
    settled = {"turnId": "t-3", "phase": "settled", "outcome": "completed"}
    assert ledger.report_state({"state": {"turn": settled}}, room=ROOM, session=ROOT).applied
    assert not ledger.report_state({"state": {"title": "x"}}, room=ROOM, session=GONE).accepted


def test_it_goes_on(kept: Place) -> None:
    store = kept.store()
    assert store._database.store_id == str(STORE_ID)
    store.close()
    ledger = kept.ledger()
    goes_on(ledger)
    found = ledger.verify()
    assert found.ok
    assert found.events == EVENTS + 1


def test_its_commands_are_remembered(kept: Place) -> None:
    ledger = kept.ledger()
    first = next(ledger.deltas())
    body = {
        "userId": "mira",
        "source": {"cwd": "/home/mira/tidewatch"},
        "state": {"provider": "codex", "providerSessionId": "p-1", "model": "large"},
    }
    reply = ledger.report_state(body, room=ROOM, session=ROOT, command_id="open")
    assert reply.delta == first
