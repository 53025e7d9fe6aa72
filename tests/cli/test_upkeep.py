"""`verify` finds what does not fit together; `rebuild` makes the read models anew."""

import sqlite3

from tests.cli.conftest import Cli


def test_a_sound_store_is_ok(filled: Cli) -> None:
    (found,) = filled.run("verify", "--json").objects
    ran = filled.run("verify")

    assert list(found) == ["ok", "streams", "events", "outbox", "problems"]
    assert (found["ok"], found["streams"], found["outbox"], found["problems"]) == (True, 6, 6, [])
    assert (ran.code, ran.out) == (0, f"ok: 6 streams, {found['events']} events, 6 deltas\n")


def test_a_store_that_was_tampered_with_is_not(filled: Cli) -> None:
    db = sqlite3.connect(filled.file)
    db.execute("DELETE FROM outbox WHERE position = (SELECT min(position) FROM outbox)")
    db.commit()
    db.close()

    ran = filled.run("verify", "--json")
    text = filled.run("verify")

    assert (ran.code, text.code) == (1, 1)
    assert ran.objects[0]["ok"] is False
    assert list(ran.objects[0]["problems"][0]) == ["where", "what"]
    assert text.lines[0].startswith("problem: ")


def test_a_rebuild_changes_nothing_that_can_be_read(filled: Cli) -> None:
    before = filled.run("sessions", "list", "--json").out

    ran = filled.run("rebuild")

    assert ran.code == 0
    assert ran.out.startswith("rebuilt from ")
    assert filled.run("sessions", "list", "--json").out == before
