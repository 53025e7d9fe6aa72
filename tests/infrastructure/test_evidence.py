"""Evidence of a session holds when nothing was changed, and names the first thing that was."""

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from application.lanes import Choice
from application.ledger import Ledger
from domain.errors import NotFound
from domain.subscription import Added
from infrastructure.evidence.bundle import bundle_of
from infrastructure.evidence.verify import MANIFEST, Broken, check
from tests.store.place import Place, at

ROOM, SESSION = "room/1", "s 1"
Files = dict[str, bytes]
TEXT = "x\u2028 \ud800 \0 \r\n é"
"""What a line of JSON has to survive."""


@pytest.fixture
def place(url: str) -> Iterator[Place]:
    place = at(url)
    yield place
    place.close()


@pytest.fixture
def ledger(place: Place) -> Ledger:
    """A session with a turn, messages, a growing one among them, and a request that was answered."""
    ledger = place.ledger()
    asked = {"requestId": "r1", "turnId": "t1", "kind": "approval", "input": {"a": TEXT}}
    turn = {"turnId": "t1", "phase": "running"}
    ledger.subscriptions.add(Added(name="crm", kind="recorder", from_position=0), after=0)
    report = ledger.report_state
    report({"state": {"title": TEXT, "turn": turn}}, room=ROOM, session=SESSION)
    report({"state": {"interactions": [asked]}}, room=ROOM, session=SESSION)
    for number in range(3):
        told = {"messageId": f"m{number % 2}/~", "turnId": "t1", "role": "assistant", "kind": "text"}
        updates = [{**told, "contentDelta": f"{TEXT}{number}"}]
        ledger.report_messages({"updates": updates}, room=ROOM, session=SESSION)
    ledger.answer(ROOM, SESSION, "t1", "r1", {"ok": True})
    report(
        {"state": {"turn": {**turn, "phase": "settled", "outcome": "completed"}}}, room=ROOM, session=SESSION
    )
    report({"state": {"title": "another"}}, room=ROOM, session="s2")
    return ledger


def files_of(ledger: Ledger, session: str = SESSION) -> Files:
    with bundle_of(ledger, ROOM, session) as bundle, ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(files: Files, folder: Path) -> Path:
    for name, content in files.items():
        path = folder / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / "bundle"


def signed(files: Files) -> Files:
    """The files with a manifest that lists them, as a forger would make it."""
    manifest = json.loads(files[MANIFEST])
    listed = {name: content for name, content in files.items() if name != MANIFEST}
    manifest["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in listed.items()}
    return {**listed, MANIFEST: json.dumps(manifest).encode()}


def lines_of(files: Files, name: str = "events.ndjson") -> list[Any]:
    return [json.loads(line) for line in files[name].splitlines()]


def with_lines(files: Files, lines: list[Any], name: str = "events.ndjson") -> Files:
    return signed({**files, name: b"".join(json.dumps(line).encode() + b"\n" for line in lines)})


def test_a_bundle_holds_wherever_it_is_checked(ledger: Ledger, tmp_path: Path) -> None:
    """A3: With nothing of ours installed, too."""
    files = files_of(ledger)
    folder = written(files, tmp_path)

    ran = subprocess.run(
        [sys.executable, "-I", folder / "verify.py"], capture_output=True, text=True, check=False
    )

    checked = check(folder)
    assert (ran.returncode, ran.stdout) == (0, checked.told() + "\n"), ran.stderr
    events = list(ledger.events(ROOM, SESSION))
    assert (checked.events, checked.erased) == (len(events), 0)
    assert [line["topic"] for line in lines_of(files)] == [one.topic for one in events]
    assert [json.loads(line["content"]) if line["content"] else None for line in lines_of(files)] == [
        one.event.content for one in events
    ]


def test_the_state_in_it_is_the_one_that_its_readers_see(ledger: Ledger) -> None:
    state = json.loads(files_of(ledger)["state.json"])
    view = ledger.session(ROOM, SESSION)

    assert view is not None
    shown = view.to_dict()
    assert {name: state[name] for name in ("title", "status", "version", "messageVersion")} == {
        name: json.loads(json.dumps(shown[name])) for name in ("title", "status", "version", "messageVersion")
    }
    assert set(state["messages"]) == {"m0/~", "m1/~"}
    assert state["turns"]["t1"]["outcome"] == "completed"


def test_it_holds_what_became_of_the_deltas_of_the_session_alone(ledger: Ledger) -> None:
    ledger.subscriptions.skip("crm", Choice(room=ROOM))

    told = lines_of(files_of(ledger), "deliveries.ndjson")

    assert {one["state"] for one in told} == {"skipped"}
    assert len(told) == len({one["transactionId"] for one in told}) == 7


def test_the_same_history_at_the_same_time_makes_the_same_bytes(ledger: Ledger) -> None:
    with bundle_of(ledger, ROOM, SESSION) as one, bundle_of(ledger, ROOM, SESSION) as other:
        assert one.read() == other.read()


def test_of_a_purged_session_the_chain_still_holds(ledger: Ledger, tmp_path: Path) -> None:
    """A4: What was destroyed is marked, and is not there."""
    ledger.purge(ROOM, SESSION)

    files = files_of(ledger)

    checked = check(written(files, tmp_path))
    assert checked.erased == sum(one.is_erased for one in ledger.events(ROOM, SESSION)) > 3
    assert not any(line["content"] or line["salt"] for line in lines_of(files))


def test_there_is_no_evidence_of_a_session_that_never_was(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="nobody"):
        bundle_of(ledger, ROOM, "nobody")


Forge = Callable[[Files], Files]


def _changed_line(number: int, **changed: Any) -> Forge:
    def forge(files: Files) -> Files:
        lines = lines_of(files)
        lines[number] |= changed
        return with_lines(files, lines)

    return forge


def _without(number: int) -> Forge:
    def forge(files: Files) -> Files:
        lines = lines_of(files)
        del lines[number]
        return with_lines(files, lines)

    return forge


def _told_otherwise(files: Files) -> Files:
    """A fact of the second event changed, with the hashes of all that follow made anew, but not the head."""
    lines = lines_of(files)
    lines[1]["facts"] = lines[1]["facts"].replace('"at":', '"at":1')
    return with_lines(files, lines)


def _reordered(files: Files) -> Files:
    lines = lines_of(files)
    lines[1], lines[2] = lines[2], lines[1]
    return with_lines(files, lines)


def _without_the_last_diff(files: Files) -> Files:
    return with_lines(files, lines_of(files, "diffs.ndjson")[:-1], "diffs.ndjson")


def _with_state(files: Files) -> Files:
    state = json.loads(files["state.json"]) | {"title": "better"}
    return signed({**files, "state.json": json.dumps(state).encode()})


def _with_head(files: Files) -> Files:
    manifest = json.loads(files[MANIFEST])
    manifest["head"]["hash"] = "00" * 32
    return {**files, MANIFEST: json.dumps(manifest).encode()}


@pytest.mark.parametrize(
    ("forge", "named"),
    [
        (lambda files: {**files, "state.json": b"{}"}, "state.json: not the file that the manifest lists"),
        (lambda files: {**files, "more.txt": b""}, "more.txt: not listed"),
        (
            lambda files: {name: said for name, said in files.items() if name != "VERIFY.md"},
            "VERIFY.md: missing",
        ),
        (_without(3), "version 5: version 4 is missing"),
        (_without(-1), "it ends at version"),
        (_reordered, "version 3: version 2 is missing"),
        (_told_otherwise, "version 2: its hash is not that of what it says"),
        (_changed_line(2, hash="00" * 32), "version 3: its hash is not"),
        (_changed_line(2, previousHash="00" * 32), "version 3: it does not follow"),
        (_changed_line(2, position=1), "version 3: its position"),
        (_changed_line(1, content='{"title":"better"}'), "version 2: its content has"),
        (_changed_line(1, salt="00" * 16), "version 2: its content is not the one"),
        (_changed_line(1, content=None), "version 2: its content is missing"),
        (
            _changed_line(1, content=None, salt="", erased=True),
            "version 2: its content is missing, and nothing",
        ),
        (_changed_line(0, content="{}"), "version 1: it has a content"),
        (_without_the_last_diff, "diffs.ndjson: it ends at version"),
        (_with_state, "state.json: not what the differences make"),
        (_with_head, "the manifest's head is another"),
        (lambda files: signed({**files, "events.ndjson": b"{"}), "events.ndjson, line 1: no JSON"),
        (lambda files: {**files, MANIFEST: b"{}"}, "not of the format"),
        (lambda files: {**files, MANIFEST: b"nope"}, "no bundle"),
        (lambda files: signed({**files, "events.ndjson": b"[1]\n"}), "not as a bundle is"),
    ],
)
def test_what_was_changed_is_named(ledger: Ledger, tmp_path: Path, forge: Forge, named: str) -> None:
    files = files_of(ledger)
    if lines_of(files)[1]["content"] is None:
        pytest.fail("the second event is to have a content")

    with pytest.raises(Broken, match=named.replace("(", r"\(")):
        check(written(forge(files), tmp_path))


def test_a_zip_is_checked_as_it_is_and_one_with_a_file_twice_is_none(ledger: Ledger, tmp_path: Path) -> None:
    packed = tmp_path / "bundle.zip"
    with bundle_of(ledger, ROOM, SESSION) as bundle:
        packed.write_bytes(bundle.read())
    assert check(packed).session == SESSION

    twice = io.BytesIO(packed.read_bytes())
    with ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("state.json", archive.read("state.json"))
    packed.write_bytes(twice.getvalue())
    with pytest.raises(Broken, match="twice"):
        check(packed)
    packed.write_bytes(b"PK nothing")
    with pytest.raises(Broken, match="no bundle"):
        check(packed)
