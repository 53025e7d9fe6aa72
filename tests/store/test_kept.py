"""What a writer keeps between commands never decides anything that the store does not say."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from application.ledger import Ledger
from domain.delta import CommitDelta
from domain.ids import MessageId, MessageVersion
from domain.message import Message
from infrastructure.store.kept import Kept, Staged
from tests.store.place import ROOM, SESSION, Place, in_file

SNAPSHOTS = 300


def _begin(ledger: Ledger) -> None:
    ledger.report_state({"state": {"turn": {"turnId": "t1", "phase": "running"}}}, room=ROOM, session=SESSION)


def _snapshot(ledger: Ledger, text: str, **payload: Any) -> None:
    update = {
        "messageId": "m1",
        "turnId": "t1",
        "role": "assistant",
        "kind": "text",
        "status": "streaming",
        "payload": {"text": text, **payload},
    }
    ledger.report_messages({"updates": [update]}, room=ROOM, session=SESSION)


def _text(ledger: Ledger) -> str:
    (message,) = ledger.messages(ROOM, SESSION).messages
    return str(message.payload["text"])


def test_a_text_that_grows_by_single_reports_is_joined_once_in_the_end(place: Place) -> None:
    """M6: Each snapshot is compared with what the writer knows the text to be; the last one is read back."""
    ledger = place.ledger()
    _begin(ledger)
    text = ""
    for number in range(SNAPSHOTS):
        text += f"{number} \ud83d\ude00 "
        _snapshot(ledger, text)

    assert _text(ledger) == text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert ledger.verify().ok


def test_what_another_process_wrote_is_not_overlooked(tmp_path: Path) -> None:
    """A payload kept at one version is not used once the message has moved on."""
    place = in_file(tmp_path / "store.db")
    ours, theirs = place.ledger(), place.ledger()
    _begin(ours)
    _snapshot(ours, "a")
    _snapshot(ours, "ab")
    _snapshot(theirs, "abc", note="theirs")
    _snapshot(ours, "abcd")

    (message,) = ours.messages(ROOM, SESSION).messages
    assert message.payload == {"text": "abcd", "note": "theirs"}
    assert ours.verify().ok
    place.close()


def test_what_a_transaction_stages_is_kept_when_it_is_published_and_for_its_version_alone() -> None:
    """Of a transaction that failed nothing is known, and of a destroyed session nothing is left."""
    kept = Kept(payloads_max=1)
    message = Message(message_id=MessageId("m1"), version=MessageVersion(2))
    failed, staged = Staged(kept), Staged(kept)
    failed.keep_payload(7, message, {"text": "never stored"})
    staged.keep_payload(7, message, {"text": "a"})
    staged.publish()

    assert Staged(kept).payload(7, message.message_id, 2) == {"text": "a"}
    assert Staged(kept).payload(7, message.message_id, 3) is None
    staged = Staged(kept)
    staged.forget_payloads(7)
    staged.publish()
    assert Staged(kept).payload(7, message.message_id, 2) is None


def test_a_purge_forgets_what_commands_of_the_session_said(place: Place) -> None:
    """A4: An unsalted digest of erased content does not stay behind."""
    ledger = place.ledger()
    report = {"roomId": ROOM, "agentSessionId": SESSION, "state": {"title": "secret"}}
    ledger.report_state(report, command_id="c-1")
    ledger.purge(ROOM, SESSION)

    again = ledger.report_state(report, command_id="c-1")

    assert again.transaction_id == ""
    assert not again.accepted


@pytest.mark.parametrize("statement", ["COMMIT", "  rollback;", "Begin immediate", "SAVEPOINT x"])
def test_a_participant_does_not_end_the_transaction_it_takes_part_in(file: Place, statement: str) -> None:
    """O1: It writes; whether the commit stands is not for it to say."""

    class Meddling:
        def participate(self, execute: Callable[[str, Sequence[Any]], None], _: CommitDelta) -> None:
            execute(statement, ())

    with pytest.raises(ValueError, match="the transaction is the ledger's"):
        _begin(file.ledger(Meddling()))
    assert not file.ledger().sessions()


def test_a_lane_does_not_go_back(place: Place) -> None:
    """What one process has handed over, a slower one does not make pending again."""
    store = place.store()
    store.subscribe("crm", None)
    store.delivered("crm", ROOM, 9)  # type: ignore[arg-type]
    store.delivered("crm", ROOM, 4)  # type: ignore[arg-type]
    with store._database.read() as tables:
        assert tables.lane("crm", ROOM) == (9, 0, "")
