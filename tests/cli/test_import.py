"""`reprise import` takes in what it can read, names what it cannot, and counts the news."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import PARENT, ROOM, SAMPLE, Cli, run
from tests.infrastructure.transcripts.script import SESSION, Script

NOTHING = {
    "sessions": 0,
    "messages": 0,
    "turns": 0,
    "events": 0,
    "damaged": 0,
    "unknown": 0,
    "duplicates": 0,
    "redacted": {},
    "unknownKinds": {},
    "agents": {},
    "warnings": [],
}
PARTS = ("files", "new", "grown", "unchanged", "leftOut")


def counts_of(agents: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The counts of files that are not zero, by agent."""
    return {kind: {part: one[part] for part in PARTS if one[part]} for kind, one in agents.items()}


def nothing_of(count: int, kind: str = "claude-code") -> dict[str, object]:
    """What is told of so many files without news."""
    zeros = dict.fromkeys(list(NOTHING)[:7], 0)
    files = {"files": count, "new": 0, "grown": 0, "unchanged": count, "leftOut": 0}
    return NOTHING | {"agents": {kind: files | zeros}}


def a_transcript(path: Path, *, said: str = "hello") -> Path:
    script = Script()
    script.user(said)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(script.data)
    return path


def test_the_sample_is_taken_in_and_counted(cli: Cli) -> None:
    ran = cli.run("import", SAMPLE, "--json")

    (counts,) = ran.objects
    assert ran.code == 0
    assert list(counts) == list(NOTHING)
    assert (counts["sessions"], counts["turns"], counts["messages"]) == (6, 9, 20)
    assert counts["events"] > 0
    assert counts["warnings"] == []


def test_a_second_time_brings_nothing(filled: Cli) -> None:
    assert filled.run("import", SAMPLE, "--json").objects == [nothing_of(6)]
    first, _, row = filled.run("import", SAMPLE).lines
    assert first == "6 transcripts: nothing new"
    assert row.split()[:6] == ["Claude", "Code", "6", "0", "0", "6"]


def test_a_dry_run_counts_the_same_and_stores_nothing(cli: Cli) -> None:
    dry = cli.run("import", SAMPLE, "--json", "--dry-run")

    assert not cli.file.exists()
    assert dry.objects == cli.run("import", SAMPLE, "--json").objects


def test_a_dry_run_on_a_store_stores_nothing(filled: Cli, tmp_path: Path) -> None:
    grown = a_transcript(tmp_path / "new.jsonl")

    first, second = (filled.run("import", grown, "--dry-run", "--json").objects[0] for _ in range(2))

    assert first["sessions"] == 1
    assert first == second
    assert filled.run("sessions", "show", SESSION).code == 3


def test_a_transcript_that_grew_brings_the_difference(cli: Cli, tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(script.data)
    cli.run("import", path)
    script.reply("msg_1", {"type": "text", "text": "two"})
    path.write_bytes(script.data)

    (counts,) = cli.run("import", path, "--json").objects

    assert (counts["sessions"], counts["turns"], counts["messages"]) == (0, 0, 1)


def test_a_transcript_that_moved_is_the_same_import(cli: Cli, tmp_path: Path) -> None:
    path = a_transcript(tmp_path / "here" / f"{SESSION}.jsonl")
    cli.run("import", path)

    moved = shutil.move(path, tmp_path / f"{SESSION}.jsonl")

    assert cli.run("import", moved, "--json").objects == [nothing_of(1)]


def test_rooms_are_folders_unless_one_is_named(cli: Cli, tmp_path: Path) -> None:
    transcript = a_transcript(tmp_path / f"{SESSION}.jsonl")

    cli.run("import", SAMPLE)
    cli.run("import", transcript, "--room", "team")

    rooms = {line["session"]: line["room"] for line in cli.run("sessions", "list", "--json").objects}
    assert rooms[PARENT] == ROOM
    assert rooms[SESSION] == "team"


def test_without_a_path_the_agents_own_folder_is_searched(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_transcript(home / ".claude" / "projects" / "-srv-demo" / f"{SESSION}.jsonl")
    assert cli.run("import", "--json").objects[0]["sessions"] == 1

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    shutil.copytree(SAMPLE / "projects", tmp_path / "elsewhere" / "projects")
    assert cli.run("import", "--json").objects[0]["sessions"] == 6


def test_without_a_path_and_without_agents_there_is_nothing_to_find(cli: Cli) -> None:
    ran = cli.run("import")

    assert (ran.code, ran.out) == (3, "")
    for folder in ("/.claude/projects", "/.codex/sessions", "/.gemini/tmp"):
        assert folder in ran.err
    assert not cli.file.exists()


def test_a_path_that_is_not_there_stops_the_import_before_it_begins(cli: Cli, tmp_path: Path) -> None:
    ran = cli.run("import", SAMPLE, tmp_path / "missing.jsonl")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"error: {tmp_path / 'missing.jsonl'}: no such file or folder\n"
    assert not cli.file.exists()


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40, b"# Notes\n\nnone\n"])
def test_a_file_that_is_no_transcript_is_named_and_the_others_are_taken_in(
    cli: Cli, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "in" / "program.jsonl").parent.mkdir()
    (tmp_path / "in" / "program.jsonl").write_bytes(content)
    a_transcript(tmp_path / "in" / f"{SESSION}.jsonl")

    ran = cli.run("import", tmp_path / "in", "--json")

    assert ran.code == 1
    assert ran.objects[0]["sessions"] == 1
    (warning,) = ran.objects[0]["warnings"]
    assert warning["code"] == "unreadable"
    assert "program.jsonl: no transcript" in warning["text"]


def test_an_empty_file_is_no_trouble(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()

    ran = cli.run("import", tmp_path / "empty.jsonl", "--json")

    assert (ran.code, ran.objects) == (0, [nothing_of(1)])


def test_a_pipe_is_not_waited_for(cli: Cli, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")

    ran = cli.run("import", tmp_path / "pipe.jsonl")

    assert ran.code == 1
    assert "pipe.jsonl: no regular file" in ran.err


@pytest.mark.skipif(sys.platform != "linux", reason="the file is Linux's")
def test_a_file_that_cannot_be_read_is_named(cli: Cli) -> None:
    ran = cli.run("import", "/proc/self/mem")

    assert (ran.code, ran.lines[0]) == (1, "1 transcript: nothing new")
    assert "warning: /proc/self/mem: cannot be read: " in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_without_rights_is_named(cli: Cli, tmp_path: Path) -> None:
    closed = tmp_path / "in" / "closed"
    closed.mkdir(parents=True, mode=0)
    a_transcript(tmp_path / "in" / f"{SESSION}.jsonl")

    ran = cli.run("import", tmp_path / "in")

    assert ran.code == 1
    assert f"warning: {closed}: cannot be read: " in ran.err
    assert ran.out.startswith("1 transcript: brought 1 session,")


def test_what_two_paths_lead_to_is_read_once(cli: Cli, tmp_path: Path) -> None:
    path = a_transcript(tmp_path / "in" / f"{SESSION}.jsonl")
    (tmp_path / "in" / "again.jsonl").symlink_to(path)
    (tmp_path / "in" / "folder.jsonl").mkdir()

    assert cli.run("import", tmp_path, path).out.startswith("1 transcript: ")


def test_warnings_say_where(cli: Cli, tmp_path: Path) -> None:
    path = a_transcript(tmp_path / f"{SESSION}.jsonl")
    path.write_bytes(
        path.read_bytes() + b'{"type":"user", oh\n' + json.dumps({"type": "new"}).encode() + b"\n"
    )

    (counts,) = cli.run("import", path, "--json", "--dry-run").objects
    ran = cli.run("import", path)

    assert (counts["damaged"], counts["unknown"]) == (1, 1)
    assert counts["warnings"][0]["file"] == str(path)
    assert counts["warnings"][0]["offset"] > 0
    assert ran.code == 0
    assert f"warning: {path}: " in ran.err
    assert ran.lines[-1] == "on the way: 1 damaged line, 1 unknown record"


def test_the_default_store_lies_in_the_users_data_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    a_transcript(home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl")

    assert run("import").code == 0

    assert (tmp_path / "data" / "reprise" / "reprise.db").is_file()
    assert (tmp_path / "data" / "reprise").stat().st_mode & 0o077 == 0
    assert run("sessions", "list", "--json").objects[0]["session"] == SESSION
