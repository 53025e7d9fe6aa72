"""`evidence export` writes a session's history to a file, and `evidence verify` checks it."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.conftest import PARENT, ROOM, Cli, run
from tests.http.serving import served


def test_a_session_is_exported_and_its_evidence_holds(filled: Cli, tmp_path: Path) -> None:
    file = tmp_path / "here.zip"

    ran = filled.run("evidence", "export", PARENT, "--output", file)

    assert (ran.code, ran.out, ran.err) == (0, "", f"written: {file}\n")
    checked = run("evidence", "verify", file)
    assert checked.code == 0
    assert checked.out.startswith(f"holds: 12 events of {PARENT} in {ROOM}; head ")
    (told,) = run("evidence", "verify", file, "--json").objects
    assert (told["ok"], told["session"], told["events"]) == (True, PARENT, 12)


def test_it_has_a_name_of_its_own_and_overwrites_nothing(
    filled: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    first, second = filled.run("evidence", "export", PARENT), filled.run("evidence", "export", PARENT)

    assert first.err == f"written: {PARENT}.evidence.zip\n"
    assert (second.code, second.err) == (74, f"error: {PARENT}.evidence.zip: File exists\n")


def test_a_service_exports_the_same(filled: Cli, home: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here.zip", tmp_path / "there.zip"
    filled.run("evidence", "export", PARENT, "--output", here)

    with served(filled.url) as service:
        ran = run("evidence", "export", PARENT, "--output", there, "--url", service.url)
        nobody = run("evidence", "export", "nobody", "--url", service.url)
        unknown = run("evidence", "export", "nobody", "--room", "r", "--url", service.url, "--output", "-")

    assert ran.code == 0, ran.err
    with ZipFile(here) as one, ZipFile(there) as other:
        for name in set(one.namelist()) - {"manifest.json"}:
            assert one.read(name) == other.read(name)
    assert run("evidence", "verify", there).code == 0
    assert (nobody.code, unknown.code) == (3, 3)


def test_what_does_not_hold_is_named(filled: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bundle.zip"
    filled.run("evidence", "export", PARENT, "--output", file)
    with ZipFile(file, "a") as archive:
        archive.writestr("more.txt", "")

    ran = run("evidence", "verify", file)

    assert (ran.code, ran.out) == (1, "BROKEN: more.txt: not listed in the manifest\n")
    assert run("evidence", "verify", file, "--json").objects == [
        {"ok": False, "problem": "more.txt: not listed in the manifest"}
    ]
    assert run("evidence", "verify", tmp_path / "nothing.zip").code == 2


def test_a_session_that_is_not_there_leaves_no_file(filled: Cli, tmp_path: Path) -> None:
    ran = filled.run("evidence", "export", "nobody", "--output", tmp_path / "nobody.zip")

    assert ran.code == 3
    assert not (tmp_path / "nobody.zip").exists()
