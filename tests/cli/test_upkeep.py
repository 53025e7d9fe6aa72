"""`verify` finds what does not fit together, `rebuild` makes read models anew, stores are moved and kept."""

import hashlib
import re
import sqlite3
from pathlib import Path

from tests.cli.conftest import PARENT, Cli, run


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


def test_a_backup_is_restored_beside_the_store_it_was_made_of(filled: Cli, tmp_path: Path) -> None:
    file, again = tmp_path / "backup.db", Cli(tmp_path / "again.db")
    made = filled.run("backup", file)
    restored = again.run("restore", file)

    assert (made.code, restored.code) == (0, 0)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert re.fullmatch(rf"backed up to {file}: position \d+, sha256 {digest}\n", made.out)
    position = made.out.split("position ")[1].split(",")[0]
    expected = f"restored to {again.file}: position {position}, sha256 of the backup {digest}\n"
    assert restored.out == expected
    assert again.run("sessions", "list", "--json").out == filled.run("sessions", "list", "--json").out
    assert again.run("verify").code == 0


def test_a_backup_is_not_restored_over_a_store_nor_rehearsed(filled: Cli, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    filled.run("backup", file)

    over = filled.run("restore", file)
    rehearsed = Cli(tmp_path / "again.db").run("restore", "--dry-run", file)

    assert over.code != 0
    assert over.err == f"error: {filled.file}: there is something already; name a file that is not there\n"
    assert rehearsed.code == 2
    assert not (tmp_path / "again.db").exists()


def test_restore_with_an_id_is_about_a_session(filled: Cli) -> None:
    filled.run("delete", PARENT)
    ran = filled.run("restore", PARENT)

    assert ran.code == 0
    assert ran.lines[0] == f"restored: {PARENT}"


def test_a_store_is_copied_and_the_copy_goes_on(filled: Cli, tmp_path: Path) -> None:
    again = Cli(tmp_path / "again.db")
    copied = run("copy", "--from", filled.url, "--to", again.url)
    filled.run("delete", PARENT)
    more = run("copy", "--from", filled.url, "--to", again.url)

    assert (copied.code, more.code) == (0, 0)
    assert re.match(
        r"\d+ events copied; both end at position \d+; the new store's id is [0-9a-f-]{36}\n", copied.out
    )
    assert again.run("outbox", "--json").out == filled.run("outbox", "--json").out
    assert again.run("verify").code == 0


def test_a_copy_needs_two_stores_that_can_be(cli: Cli, tmp_path: Path) -> None:
    absent = run("copy", "--from", cli.url, "--to", f"sqlite:///{tmp_path}/again.db")
    wrong = run("copy", "--from", "nonsense", "--to", cli.url)

    assert (absent.code, wrong.code) == (3, 78)
    assert absent.err == f"error: {cli.file}: no store there; name the one to copy with --from\n"
    assert wrong.err.startswith("error: --from names no store; give sqlite:///path/to/file.db, ")
    assert not cli.file.exists()
