"""A command that committed is remembered with its answer, in the transaction that stored it."""

from typing import Any

import pytest

from application.ports import CommandKey
from domain.errors import Rejected
from domain.session import Pinned
from infrastructure.store.sqlite_tables import FORGET_ROWS_MAX
from infrastructure.store.writer import COMMANDS_KEPT_MS
from tests.store.place import ROOM, SESSION, Place, log_of, titled

HOUR_MS = 60 * 60 * 1_000
KEY = CommandKey("state", ROOM, SESSION, "c-1")


def report(title: str = "x", **state: Any) -> dict[str, Any]:
    return {"roomId": ROOM, "agentSessionId": SESSION, "state": {"title": title, **state}}


def test_the_same_command_again_gets_the_first_answer_and_stores_nothing(place: Place) -> None:
    ledger = place.ledger()
    first = ledger.report_state(report(), command_id="c-1")
    ledger.report_state(report("y"))
    before = list(ledger.deltas())
    again = ledger.report_state(report(), command_id="c-1")
    assert again == first
    assert again.delta == before[0]
    assert list(ledger.deltas()) == before


def test_it_is_remembered_across_a_restart(place: Place) -> None:
    ledger = place.ledger()
    first = ledger.report_state(report(), command_id="c-1")
    ledger.close()
    ledger = place.ledger()
    assert ledger.report_state(report(), command_id="c-1") == first
    assert len(list(ledger.deltas())) == 1


def test_the_same_id_with_other_content_is_a_conflict(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report(), command_id="c-1")
    with pytest.raises(Rejected) as caught:
        ledger.report_state(report("y"), command_id="c-1")
    assert caught.value.reason == "conflict"
    assert len(list(ledger.deltas())) == 1


def test_equality_does_not_depend_on_key_order_spelling_of_numbers_or_where_the_room_stands(
    place: Place,
) -> None:
    ledger = place.ledger()
    context: dict[str, Any] = {"runtimeContext": {"a": 1, "b": {"c": 2.0}}}
    first = ledger.report_state(report(**context), command_id="c-1")
    other_order: dict[str, Any] = {"runtimeContext": {"b": {"c": 2}, "a": 1.0}}
    body = {"workspaceId": ROOM, "state": {**other_order, "title": "x"}}
    assert ledger.report_state(body, session=SESSION, command_id="c-1") == first


def test_an_id_is_scoped_to_caller_room_session_and_kind(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report(), command_id="c-1")
    elsewhere = [
        ledger.report_state({"state": {"title": "other"}}, room="room-2", session=SESSION, command_id="c-1"),
        ledger.report_state({"state": {"title": "other"}}, room=ROOM, session="ses-2", command_id="c-1"),
        ledger.report_state(report("other caller"), command_id="c-1", caller="host-b"),
        ledger.set_title(ROOM, SESSION, "other kind", command_id="c-1"),
    ]
    assert all(reply.applied for reply in elsewhere)
    assert len(list(ledger.deltas())) == 5


def test_it_is_forgotten_when_its_time_is_up(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report(), command_id="c-1")
    place.clock.now += COMMANDS_KEPT_MS - 1
    with pytest.raises(Rejected):
        ledger.report_state(report("y"), command_id="c-1")
    place.clock.now += 1
    assert ledger.report_state(report("y"), command_id="c-1").applied
    assert COMMANDS_KEPT_MS >= 24 * HOUR_MS


def test_a_repeat_does_not_prolong_its_time(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report(), command_id="c-1")
    place.clock.now += COMMANDS_KEPT_MS - 1
    ledger.report_state(report(), command_id="c-1")
    place.clock.now += 1
    assert not ledger.report_state(report(), command_id="c-1").applied


def test_ignored_commands_are_decided_anew(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report())
    assert not ledger.report_state(report(), command_id="c-1").applied
    assert ledger.report_state(report("y"), command_id="c-1").applied


def test_rejected_commands_are_decided_anew(place: Place) -> None:
    ledger = place.ledger()
    message = {"messageId": "m", "turnId": "t", "role": "user", "kind": "text", "payload": {"text": "hi"}}
    with pytest.raises(Rejected):
        ledger.report_messages({"updates": [message]}, room=ROOM, session=SESSION, command_id="c-1")
    ledger.report_state(report(turn={"turnId": "t", "phase": "running"}))
    reply = ledger.report_messages({"updates": [message]}, room=ROOM, session=SESSION, command_id="c-1")
    assert reply.accepted_count == 1


def test_what_was_not_stored_is_not_remembered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()

    def fail(_: str) -> None:
        raise OSError("the power went")

    with monkeypatch.context() as broken:
        broken.setattr("infrastructure.store.writer.crashpoint", fail)
        with pytest.raises(OSError, match="power"):
            store.submit(place.decides(titled("x"), key=KEY))
    assert store.submit(place.decides(titled("x"), key=KEY)).events == 2


def test_each_remembering_forgets_a_bounded_number_of_old_ones(file: Place) -> None:
    store = file.store()
    for number in range(FORGET_ROWS_MAX + 2):
        store.submit(file.decides(titled(str(number)), key=CommandKey("k", ROOM, SESSION, str(number))))
    file.clock.now += COMMANDS_KEPT_MS

    def kept() -> int:
        with store._database.read() as tables:
            return int(tables._one("SELECT count(*) FROM commands")[0])  # type: ignore[attr-defined]

    store.submit(file.decides(Pinned(), key=CommandKey("k", ROOM, SESSION, "new")))
    assert kept() == 3
    store.submit(file.decides(titled("y"), key=CommandKey("k", ROOM, SESSION, "newer")))
    assert kept() == 2


def test_the_id_of_a_command_stands_in_its_events(place: Place) -> None:
    ledger = place.ledger()
    ledger.report_state(report(), command_id="c-1")
    assert {event.command_id for event in ledger.events(ROOM, SESSION)} == {"c-1"}
    assert b'"command":"c-1"' in log_of(ledger.store)[0].record.facts  # type: ignore[arg-type]
