"""`reprise import` finds what agents leave, reads what is new, and keeps secrets out."""

import json
import shutil
from pathlib import Path

import pytest

from infrastructure.transcripts import files
from tests.cli.conftest import SAMPLE, Cli
from tests.cli.test_import import a_transcript, counts_of
from tests.infrastructure.transcripts.codex_script import CodexScript
from tests.infrastructure.transcripts.reading import OWN
from tests.infrastructure.transcripts.script import SESSION, Script

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
MARK = "[redacted: github-pat]"


@pytest.fixture
def agents(home: Path) -> Path:
    """A home in which three agents have worked, long ago."""
    shutil.copytree(SAMPLE / "projects", home / ".claude" / "projects")
    shutil.copytree(OWN / "codex", home / ".codex")
    shutil.copytree(OWN / "gemini", home / ".gemini")
    return home


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    seen: list[str] = []
    read = files.read_transcript

    def noting(path: Path, *more: object) -> object:
        seen.append(path.name)
        return read(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("infrastructure.transcripts.reading.read_transcript", noting)
    monkeypatch.setattr("infrastructure.transcripts.memo.SETTLED_NS", -(10**18))
    return seen


def test_the_folders_of_all_agents_are_searched(cli: Cli, agents: Path) -> None:
    ran = cli.run("import")

    assert ran.code == 0
    assert ran.out.startswith("14 transcripts: brought 14 sessions,")
    for agent, count in (("Claude Code", 6), ("Codex", 5), ("Gemini CLI", 3)):
        (line,) = [line for line in ran.lines if line.startswith(agent)]
        assert line.split()[-10:-6] == [str(count), str(count), "0", "0"]
    assert f"Codex: 4 transcripts, 0.0 MB, in {agents}/.codex/sessions" in ran.err
    assert "unknown kinds: event_msg/something_new ×1" in ran.lines


def test_the_agents_own_variables_are_honoured(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(OWN / "codex", tmp_path / "elsewhere" / "codex")
    shutil.copytree(OWN / "gemini", tmp_path / "elsewhere" / ".gemini")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere" / "codex"))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "elsewhere"))

    (counts,) = cli.run("import", "--json").objects

    assert counts_of(counts["agents"]) == {
        "codex": {"files": 5, "new": 5},
        "gemini": {"files": 3, "new": 3},
    }


def test_a_dry_run_tells_the_same_and_stores_nothing(cli: Cli, agents: Path) -> None:
    dry = cli.run("import", "--json", "--dry-run")

    assert not cli.file.exists()
    assert list(agents.joinpath(".local").rglob("*.json")) == []
    assert dry.objects == cli.run("import", "--json").objects


def test_a_second_run_reads_what_is_new_or_grew(cli: Cli, agents: Path, reads: list[str]) -> None:
    cli.run("import")
    grown = next((agents / ".codex").rglob("*c0de0003*.jsonl"))
    with grown.open("ab") as file:
        file.write(
            json.dumps({"type": "event_msg", "payload": {"type": "user_message", "message": "and?"}}).encode()
        )
        file.write(b"\n")
    new = a_transcript(agents / ".claude" / "projects" / "p" / f"{SESSION}.jsonl")
    reads.clear()

    (counts,) = cli.run("import", "--json").objects

    assert sorted(reads) == sorted([grown.name, new.name])
    assert counts_of(counts["agents"]) == {
        "claude-code": {"files": 7, "new": 1, "unchanged": 6},
        "codex": {"files": 5, "grown": 1, "unchanged": 4},
        "gemini": {"files": 3, "unchanged": 3},
    }
    reads.clear()
    cli.run("import")
    assert reads == []


def test_what_was_rewritten_or_cut_is_read_again(cli: Cli, agents: Path, reads: list[str]) -> None:
    cli.run("import")
    path = next((agents / ".claude").rglob("*5e550001*.jsonl"))
    for data in (path.read_bytes()[:-200], path.read_bytes()):
        reads.clear()
        path.write_bytes(data)
        assert cli.run("import", "--json").objects[0]["events"] == 0
        assert reads == [path.name]


def test_another_store_or_an_emptied_one_is_filled_whatever_was_remembered(
    cli: Cli, agents: Path, reads: list[str]
) -> None:
    cli.run("import")
    for one in cli.file.parent.glob("reprise.db*"):
        one.unlink()
    reads.clear()

    assert cli.run("import", "--json").objects[0]["sessions"] == 14
    assert len(reads) == 14


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"shape":1}', b"\xff\xfe\x00"])
def test_a_broken_memo_costs_time_alone(cli: Cli, agents: Path, reads: list[str], content: bytes) -> None:
    cli.run("import")
    (memo,) = agents.joinpath(".local").rglob("imports/*.json")
    memo.write_bytes(content)
    reads.clear()

    assert cli.run("import", "--json").objects[0]["events"] == 0
    assert len(reads) == 14


def test_a_file_that_changed_a_moment_ago_is_not_remembered(
    cli: Cli, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infrastructure.transcripts.memo.SETTLED_NS", 10**18)
    path = a_transcript(tmp_path / f"{SESSION}.jsonl")

    cli.run("import", path)
    cli.run("import", path)

    assert reads == [path.name] * 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (None, "Claude Code deletes transcripts after 30 days"),
        ('{"cleanupPeriodDays": 7}', "Claude Code deletes transcripts after 7 days"),
        ('{"cleanupPeriodDays": 99999}', ""),
        ("no JSON", "Claude Code deletes transcripts after 30 days"),
    ],
)
def test_agents_that_delete_are_named(cli: Cli, home: Path, settings: str | None, told: str) -> None:
    a_transcript(home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl")
    if settings is not None:
        (home / ".claude" / "settings.json").write_text(settings)

    (counts,) = cli.run("import", "--json").objects

    texts = [one["text"] for one in counts["warnings"] if one["code"] == "deletes"]
    assert len(texts) == bool(told)
    assert all(text.startswith(told) for text in texts)


def test_gemini_names_its_retention_when_it_is_on(cli: Cli, agents: Path) -> None:
    settings = {"general": {"sessionRetention": {"enabled": True, "maxAge": "30d"}}}
    (agents / ".gemini" / "settings.json").write_text(json.dumps(settings))

    assert "Gemini CLI deletes sessions older than 30d" in cli.run("import").err


# Secrets.


def with_secret(path: Path) -> Path:
    script = Script()
    script.user(f"use {SECRET} for it")
    script.call("msg_1", "call-1", env={"GITHUB_TOKEN": SECRET, "n": 1})
    script.result("call-1", f"pushed with {SECRET}")
    script.raw({"type": "new-thing", "token": SECRET})
    path.write_bytes(script.data)
    return path


def test_secrets_are_replaced_before_they_are_stored_and_counted(cli: Cli, tmp_path: Path) -> None:
    path = with_secret(tmp_path / f"{SESSION}.jsonl")

    ran = cli.run("import", path)

    assert "secrets redacted: github-pat ×4" in ran.lines
    stored = b"".join(one.read_bytes() for one in tmp_path.glob("reprise.db*"))
    assert SECRET.encode() not in stored
    prompt, call = cli.run("messages", SESSION, "--json").objects[:2]
    assert prompt["payload"]["text"] == f"use {MARK} for it"
    assert call["payload"]["input"]["env"] == {"GITHUB_TOKEN": MARK, "n": 1}


def test_secrets_stay_when_that_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    path = with_secret(tmp_path / f"{SESSION}.jsonl")

    counts = cli.run("import", path, "--no-redact", "--json").objects[0]

    assert counts["redacted"] == {}
    assert cli.run("messages", SESSION, "--json").objects[0]["payload"]["text"] == f"use {SECRET} for it"


def test_redaction_is_the_same_for_a_file_that_grows(cli: Cli, tmp_path: Path) -> None:
    script = CodexScript()
    script.meta()
    script.user(f"use {SECRET}")
    path = tmp_path / "rollout-1.jsonl"
    path.write_bytes(script.data)
    cli.run("import", path)
    script.says(f"used {SECRET}, twice {SECRET}")
    path.write_bytes(script.data)

    assert cli.run("import", path, "--json").objects[0]["messages"] == 1
    assert cli.run("import", path, "--json").objects[0]["events"] == 0
    said = [one["payload"]["text"] for one in cli.run("messages", script.session, "--json").objects]
    assert said == [f"use {MARK}", f"used {MARK}, twice {MARK}"]
