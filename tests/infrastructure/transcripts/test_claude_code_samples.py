"""Whole Claude Code transcripts and what they must tell.

`tests/data/sample` is written for this project and always there. The collection of found transcripts is
read where it is, beside the repository, and skipped where it is not.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from application.transcript import Message, Transcript
from infrastructure.transcripts.claude_code import read_claude_code
from tests.infrastructure.transcripts.outcome import (
    interactions_of,
    is_text,
    kept_of,
    messages_of,
    summary,
    texts_of,
    tool_calls_of,
    turns_of,
    usage_of,
    warnings_of,
)

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
FOUND = Path(__file__).parents[3] / "../shared/transcripts/claude-code"
needs_found = pytest.mark.skipif(not FOUND.is_dir(), reason="the collection of found transcripts is not here")


def read(path: Path, size: int | None = None) -> Transcript:
    meta = path.with_suffix(".meta.json")
    return read_claude_code(path.read_bytes()[:size], str(path), meta.read_bytes() if meta.exists() else b"")


def sample_files() -> list[Path]:
    return sorted(SAMPLE.rglob("*.jsonl"))


def found_files() -> list[Path]:
    return sorted(FOUND.glob("*.jsonl"))


def test_the_sample_tells_its_golden_outcome() -> None:
    golden = json.loads((SAMPLE / "golden.json").read_text(encoding="utf-8"))

    told = {
        path.relative_to(SAMPLE).as_posix(): [summary(session) for session in read(path).sessions]
        for path in sample_files()
    }

    assert told == golden


def test_the_sample_is_sound() -> None:
    for path in sample_files():
        transcript = read(path)

        assert (transcript.warnings, transcript.damaged, transcript.unknown) == ((), 0, {})


@dataclass(frozen=True)
class Told:
    """The right outcome of a file with one session."""

    turns: list[str]
    messages: int
    tool_calls: dict[str, int] = field(default_factory=dict)
    output_tokens: int = 0
    records: int = 0
    damaged: int = 0
    duplicates: int = 0
    torn: bool = False
    warnings: list[str] = field(default_factory=list)


TOLD = {
    "01-say-lol-v1.0.56": Told(["completed?"], 2, output_tokens=5, records=2),
    # The first turn is a copy of file 01, which owns it.
    "02-resumed-copy-then-tool-v1.0.56": Told(
        ["completed?"], 2, {"completed": 1}, output_tokens=95, records=7, duplicates=2,
        warnings=["copied_records"],
    ),
    # The second row of one message.id repeats its text.
    "03-same-message-id-two-roots-v1.0.51": Told(
        ["completed", "completed?"], 4, output_tokens=11, records=5, duplicates=1
    ),
    "04-permission-denied-then-interrupt-v1.0.51": Told(
        ["interrupted"], 2, {"canceled": 1}, output_tokens=5, records=5
    ),
    "06-api-error-429-v2.1.179": Told(["failed?"], 1, records=2),
    # A cut line with a newline behind it will never be whole: damage, not a torn tail.
    "09-truncated-last-line": Told(
        ["completed?"], 2, output_tokens=5, records=2, damaged=1, warnings=["damaged_line"]
    ),
    "10-tool-call-pending": Told(["interrupted?"], 2, {"running": 1}, output_tokens=50, records=2),
    # The queued commands are task notifications: notes, no prompts.
    "11-queued-system-messages": Told(["interrupted?"], 1, records=3),
    # The second user record is a task notification by its origin, and nobody answers it.
    "13-schema-drift-1.9.0-to-2.1.112": Told(["completed"], 2, {"completed": 1}, records=10),
    # A window: it begins inside a turn. The answer stands twice, the second time with another envelope.
    "15-two-objects-on-one-line-v2.1.7": Told(
        ["completed", "completed?"], 3, {"completed": 3}, output_tokens=1 + 1 + 1 + 67 + 4, records=19,
        damaged=1, warnings=["damaged_line", "conflict", "unknown_parent"],
    ),
    # A hook stopped the first prompt; the user interrupted the second; the file ends in a thought.
    "16-interrupted-turns-v2.1.29": Told(
        ["interrupted", "interrupted", "interrupted?"], 8, {"failed": 1, "completed": 5, "canceled": 1},
        output_tokens=18, records=51, warnings=["unknown_parent"],
    ),
    # Begins with local commands, is compacted inside the second turn.
    "17-compaction-v2.0.76": Told(
        ["completed", "completed?"], 11, {"completed": 10}, output_tokens=2038, records=54,
        warnings=["unknown_parent"],
    ),
    "made-dangling-parent": Told(
        ["completed", "completed", "completed?"], 6, output_tokens=3, records=7, warnings=["unknown_parent"]
    ),
    "made-hostile-text": Told(
        ["interrupted", "interrupted?"], 3, {"completed": 1}, output_tokens=1, records=4,
        warnings=["invalid_utf8", "unknown_tool_call"],
    ),
    "made-one-message-many-rows": Told(["completed?"], 3, {"completed": 2}, output_tokens=643, records=9),
    "made-spliced-lines": Told(
        ["interrupted", "completed?"], 4, {"completed": 1}, output_tokens=64 + 6, records=6, damaged=3,
        warnings=["damaged_line"] * 3 + ["unknown_parent"],
    ),
    "made-torn-tail": Told(["interrupted?"], 2, {"completed": 1}, output_tokens=64, records=4, torn=True),
}  # fmt: skip


@needs_found
@pytest.mark.parametrize("name", TOLD)
def test_a_found_transcript_tells_its_outcome(name: str) -> None:
    transcript = read(FOUND / f"{name}.jsonl")

    (session,) = transcript.sessions
    assert (
        Told(
            turns=turns_of(session),
            messages=len(texts_of(session)),
            tool_calls=tool_calls_of(session),
            output_tokens=usage_of(session).get("output", 0),
            records=transcript.records,
            damaged=transcript.damaged,
            duplicates=transcript.duplicates,
            torn=transcript.torn,
            warnings=warnings_of(transcript),
        )
        == TOLD[name]
    )
    assert transcript.unknown == {}


@needs_found
def test_every_found_transcript_has_a_stated_outcome() -> None:
    assert {path.stem for path in found_files()} == set(TOLD) | {"05-task-sidechain-interleaved-v1.0.71"}


@needs_found
def test_side_chains_in_the_file_of_their_parent() -> None:
    main, child = read(FOUND / "05-task-sidechain-interleaved-v1.0.71.jsonl").sessions

    assert (turns_of(main), len(texts_of(main)), tool_calls_of(main)) == (["completed?"], 3, {"completed": 1})
    assert (turns_of(child), len(texts_of(child)), tool_calls_of(child)) == (
        ["completed?"],
        4,
        {"completed": 2},
    )
    assert (usage_of(main)["output"], usage_of(child)["output"]) == (170 + 49, 85 + 127 + 732)
    assert child.parent_session_id == main.session_id
    assert child.parent_tool_call_id == "toolu_01EmKA8FJ7B2Ah9seGxK1Wct"


@needs_found
def test_spliced_lines_keep_their_order_and_the_lost_bytes() -> None:
    transcript = read(FOUND / "made-spliced-lines.jsonl")

    (session,) = transcript.sessions
    assert texts_of(session) == ["Add a test", "I will add one.", "Thanks", "You are welcome."]
    assert [kept.reason for kept in kept_of(session)] == ["damaged", "damaged"]
    assert [len(kept.raw) for kept in kept_of(session)] == [149, 64]
    damaged = [remark.place for remark in transcript.warnings if remark.code == "damaged_line"]
    assert [place and place.offset for place in damaged] == [937, 2060, 2557]


@needs_found
def test_a_resumed_copy_names_the_session_it_came_from() -> None:
    (original,) = read(FOUND / "01-say-lol-v1.0.56.jsonl").sessions
    (copy,) = read(FOUND / "02-resumed-copy-then-tool-v1.0.56.jsonl").sessions

    assert copy.forked_from_session_id == original.session_id
    assert not {m.message_id for m in messages_of(original)} & {m.message_id for m in messages_of(copy)}


@needs_found
def test_refused_tools_are_approvals_answered_with_no() -> None:
    for name in ("04-permission-denied-then-interrupt-v1.0.51", "16-interrupted-turns-v2.1.29"):
        (session,) = read(FOUND / f"{name}.jsonl").sessions

        (approval,) = interactions_of(session)
        assert (approval.kind, (approval.output or {})["decision"]) == ("approval", "deny")


@needs_found
def test_the_torn_tail_adds_one_record_when_it_is_whole() -> None:
    path = FOUND / "made-torn-tail.jsonl"
    data = path.read_bytes()
    rest = b'in","type":"assistant","message":{"id":"msg_b","content":[{"type":"text","text":"Done."}]}}\n'

    torn = read_claude_code(data, str(path))
    whole = read_claude_code(data + rest, str(path))

    assert (whole.records, whole.torn) == (torn.records + 1, False)
    assert texts_of(whole.sessions[0]) == [*texts_of(torn.sessions[0]), "Done."]


@pytest.mark.parametrize("path", sample_files() + found_files(), ids=lambda path: path.stem)
def test_an_earlier_state_of_a_file_tells_nothing_that_a_later_one_denies(path: Path) -> None:
    whole = told_by_id(read(path))
    size = path.stat().st_size

    for cut in range(0, size, max(1, size // 60)):
        for key, message in told_by_id(read(path, cut)).items():
            if key[0] in whole_sessions(whole):
                agrees(message, whole[key])


def told_by_id(transcript: Transcript) -> dict[tuple[str, str], Message]:
    return {
        (session.session_id, message.message_id): message
        for session in transcript.sessions
        for message in messages_of(session)
    }


def whole_sessions(told: dict[tuple[str, str], Message]) -> set[str]:
    """Sessions of the whole file: one that was renamed may seem to be another's while it is shorter."""
    return {session_id for session_id, _ in told}


def agrees(earlier: Message, later: Message) -> None:
    def identity(message: Message) -> tuple[Any, ...]:
        return message.turn_id, message.role, message.kind, message.place, message.at_ms

    assert identity(earlier) == identity(later)
    if is_text(earlier):
        assert later.payload["text"].startswith(earlier.payload["text"])
    if earlier.usage:
        assert later.usage
        assert all(later.usage[name] >= count for name, count in earlier.usage.items())
