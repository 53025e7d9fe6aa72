"""Expected trouble is one line on stderr and an exit code of its own."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest

from domain import errors
from infrastructure.cli.failures import failure_of
from infrastructure.settings import BadSetting
from infrastructure.store import sqlite
from tests.cli.conftest import SAMPLE, Cli, run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("x"), 3),
        (errors.Rejected("conflict", "command", "", "x"), 4),
        (errors.Rejected("purged", "session", "", "x"), 4),
        (errors.Rejected("invalid", "command", "", "x"), 1),
        (errors.Malformed("x"), 1),
        (errors.VersionConflict("s", 1, 2), 4),
        (errors.StoreBusy("x"), 75),
        (errors.StoreFull("x"), 74),
        (errors.StoreUnavailable("x"), 69),
        (errors.ForeignStore("x"), 1),
        (errors.NewerStore("x"), 1),
        (errors.UnknownTopic("x"), 1),
        (errors.DamagedStore("x"), 1),
        (BadSetting("x"), 78),
        (OSError(28, "No space left on device"), 74),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
    ids=repr,
)
def test_each_kind_of_trouble_has_its_code(error: BaseException, code: int) -> None:
    failure = failure_of(error)

    assert failure is not None
    assert failure.exit_code == code
    assert str(failure)


def test_a_programmers_mistake_is_not_dressed_up() -> None:
    assert failure_of(ZeroDivisionError()) is None


def test_only_an_import_starts_a_store(cli: Cli) -> None:
    for verb in (
        ["sessions", "list"],
        ["sessions", "show", "s"],
        ["messages", "s"],
        ["outbox"],
        ["redeliver"],
        ["settle", "r"],
        ["rebuild"],
        ["verify"],
    ):
        ran = cli.run(*verb)

        assert (ran.code, ran.out) == (3, "")
        assert ran.err == f"error: {cli.file}: no store there; `reprise import` makes one\n"
    assert not cli.file.exists()


def test_a_database_of_another_program_is_left_alone(cli: Cli) -> None:
    db = sqlite3.connect(cli.file)
    db.execute("CREATE TABLE recipes (name)")
    db.commit()
    db.close()
    before = cli.file.read_bytes()

    ran = cli.run("import", SAMPLE)

    assert ran.code == 1
    assert ran.err.startswith(f"error: {cli.file}: this database was made by another program")
    assert cli.file.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(cli: Cli) -> None:
    cli.file.write_bytes(b"no database, " * 1_000)

    ran = cli.run("sessions", "list")

    assert ran.code == 1
    assert "no SQLite database" in ran.err
    assert cli.file.read_bytes() == b"no database, " * 1_000


def test_a_newer_store_is_refused(filled: Cli) -> None:
    db = sqlite3.connect(filled.file)
    db.execute("PRAGMA user_version = 99")
    db.close()

    ran = filled.run("sessions", "list")

    assert (ran.code, ran.out) == (1, "")
    assert "the store has schema 99" in ran.err


def test_a_store_that_is_held_for_too_long_means_try_again(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT_S", 0.05)
    holder = sqlite3.connect(filled.file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    ran = filled.run("import", SAMPLE)

    holder.close()
    assert ran.code == 75
    assert "another process" in ran.err


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    ran = run("--db", f"sqlite:///{tmp_path / 'missing' / 'reprise.db'}", "import", SAMPLE)

    assert ran.code == 69
    assert "no such folder" in ran.err


def test_a_setting_that_means_nothing_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_URL", "mysql://me:secret@host/db")

    ran = run("sessions", "list")

    assert ran.code == 78
    assert "REPRISE_DATABASE_URL" in ran.err
    assert "secret" not in ran.err


def test_the_option_goes_before_the_environment_and_may_stand_behind_the_verb(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_URL", "mysql://host")
    assert run("sessions", "list", "--db", filled.url).code == 0

    monkeypatch.setenv("REPRISE_DATABASE_URL", filled.url)
    assert run("sessions", "list").code == 0
    assert run("--db", "mysql://host", "sessions", "list").code == 78
    assert run("--db", "mysql://host", "sessions", "list", "--db", filled.url).code == 0


def test_an_interruption_is_told_by_its_code(filled: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("infrastructure.main.open_ledger", interrupted)

    ran = filled.run("verify")

    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_a_reader_that_goes_away_ends_it_quietly(filled: Cli) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.command", "--db", filled.url, "sessions", "list", "--json"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(write_end)

    assert (ran.returncode, ran.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_output_that_cannot_be_written_is_said(filled: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.cli.command", "--db", filled.url, "sessions", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )

    assert ran.returncode == 74
    assert ran.stderr.splitlines()[0] == "error: No space left on device"
    assert "Traceback" not in ran.stderr


def test_text_goes_through_any_locale_and_json_is_utf_8(filled: Cli) -> None:
    with filled.ledger() as ledger:
        ledger.report_state({"state": {"title": "Wöge ≈ 🌊"}}, room="r", session="s")
    arguments = [sys.executable, "-m", "tests.cli.command", "--db", filled.url, "sessions", "list"]
    env = {**os.environ, "PYTHONIOENCODING": "iso-8859-1"}

    text, lines = (
        subprocess.run([*arguments, *more], env=env, stdout=subprocess.PIPE, check=True).stdout
        for more in ([], ["--json"])
    )

    assert "Wöge ".encode("iso-8859-1") + rb"\u2248 \U0001f30a" in text
    assert '"title":"Wöge ≈ 🌊"'.encode() in lines
