"""Whole transcripts of Codex and Gemini, and what they must tell.

`tests/data/transcripts` is written for this project and always there. The collection of found transcripts
is read where it is, beside the repository, and skipped where it is not.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from application.transcript import Message, Transcript
from infrastructure.transcripts.formats import FORMATS, format_of
from tests.infrastructure.transcripts.outcome import (
    interactions_of,
    is_text,
    messages_of,
    summary,
    texts_of,
    tool_calls_of,
    turns_of,
    usage_of,
    warnings_of,
)
from tests.infrastructure.transcripts.reading import FOUND, OWN, SAMPLE, found_files, own_files, read

needs_found = pytest.mark.skipif(not FOUND.is_dir(), reason="the collection of found transcripts is not here")


def outcome(transcript: Transcript) -> dict[str, Any]:
    return {
        "sessions": [
            summary(session)
            | {
                "forkedFrom": session.forked_from_session_id,
                "room": session.cwd,
                "model": session.model,
                "rewound": [one.message_id for one in messages_of(session) if one.rewound],
            }
            for session in transcript.sessions
        ],
        "records": transcript.records,
        "torn": transcript.torn,
        "damaged": transcript.damaged,
        "duplicates": transcript.duplicates,
        "unknown": dict(transcript.unknown),
        "warnings": dict(Counter(warnings_of(transcript))),
    }


def test_our_own_transcripts_tell_their_golden_outcomes() -> None:
    golden = json.loads((OWN / "golden.json").read_text(encoding="utf-8"))

    assert {path.relative_to(OWN).as_posix(): outcome(read(path)) for path in own_files()} == golden


def test_the_format_is_told_by_the_content() -> None:
    kinds = {path: format_of(Path(path.name), path.read_bytes()).kind for path in own_files() + found_files()}

    assert all(kind in path.parts for path, kind in kinds.items())
    for path in SAMPLE.rglob("*.jsonl"):
        assert format_of(Path(path.name), path.read_bytes()).kind == FORMATS[0].kind


@dataclass(frozen=True)
class Told:
    """The right outcome of a found file with one session."""

    turns: list[str]
    messages: int
    tool_calls: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    records: int = 0
    damaged: int = 0
    torn: bool = False
    warnings: list[str] = field(default_factory=list)


TOLD = {
    # The error comes after the answer and ends the file: the turn failed.
    "01-pre-envelope-2025-09": Told(["failed?"], 2, {"completed": 1}, records=5),
    # Two ends without a beginning, each with its last words.
    "02-v0.50-legacy": Told(["completed", "completed"], 2, tokens=1420 + 910, records=5),
    # Tokens of an answer that is not in the file stand on a note.
    "04-v0.53-rate-limit": Told(["failed?"], 0, tokens=12273, records=5),
    "06-schema-drift": Told(["completed?"], 2, {"completed": 1}, records=5),
    # One of the user texts was never shown: the client's own.
    "07-real-open-tool-call-v0.147": Told(["interrupted?"], 3, {"completed": 2, "running": 1}, records=24),
    "08-malformed-last-record": Told(
        ["completed?"], 2, records=3, damaged=1, warnings=["damaged_line"]
    ),
    "12-arguments-as-object": Told(["interrupted?"], 1, {"running": 1}, records=3),
    "made-parent": Told(["completed"], 2, {"completed": 1}, tokens=1050, records=10),
    "made-fork-of-parent": Told(["completed"], 2, tokens=910, records=16, warnings=["copied_records"]),
    "01-jsonl-v0.40": Told(["completed?"], 2, {"completed": 1}, tokens=11936 + 12216, records=5),
    "04-real-same-session-early": Told(["completed?"], 3, {"completed": 1}, tokens=24917, records=1),
    "05-real-same-session-later": Told(["completed?"], 6, {"completed": 4}, tokens=63668, records=1),
    # Going back to a message that nobody knows erases nothing.
    "made-set-rewind-upsert": Told(
        ["completed", "completed", "interrupted?"], 5, tokens=12, records=10, warnings=["unknown_rewind"]
    ),
}  # fmt: skip


@needs_found
@pytest.mark.parametrize("path", found_files(), ids=lambda path: path.stem)
def test_a_found_transcript_tells_its_outcome(path: Path) -> None:
    transcript = read(path)

    (session,) = transcript.sessions
    assert TOLD[path.stem] == Told(
        turns=turns_of(session),
        messages=len(texts_of(session)),
        tool_calls=tool_calls_of(session),
        tokens=usage_of(session).get("total", 0),
        records=transcript.records,
        damaged=transcript.damaged,
        torn=transcript.torn,
        warnings=warnings_of(transcript),
    )
    assert transcript.unknown == {}


@needs_found
def test_every_found_transcript_has_a_stated_outcome() -> None:
    assert {path.stem for path in found_files()} == set(TOLD)


@pytest.mark.parametrize("path", own_files() + found_files(), ids=lambda path: path.stem)
def test_an_earlier_state_of_a_file_tells_nothing_that_a_later_one_denies(path: Path) -> None:
    whole = told_by_id(read(path))
    size = path.stat().st_size

    for cut in range(0, size, max(1, size // 60)):
        for key, message in told_by_id(read(path, cut)).items():
            agrees(message, whole[key])


def told_by_id(transcript: Transcript) -> dict[tuple[str, str], Message]:
    return {
        (session.session_id, message.message_id): message
        for session in transcript.sessions
        for message in messages_of(session)
    }


def agrees(earlier: Message, later: Message) -> None:
    def identity(message: Message) -> tuple[Any, ...]:
        return message.turn_id, message.role, message.kind, message.place, message.at_ms

    assert identity(earlier) == identity(later)
    if is_text(earlier):
        assert later.payload["text"].startswith(earlier.payload["text"])
    if earlier.usage:
        assert later.usage
        assert all(later.usage[name] >= count for name, count in earlier.usage.items())


@needs_found
def test_snapshots_that_grow_add_the_difference() -> None:
    early, later = (
        read(FOUND / "gemini" / name)
        for name in ("04-real-same-session-early.json", "05-real-same-session-later.json")
    )

    assert told_by_id(early).keys() < told_by_id(later).keys()


def test_a_refused_tool_is_an_approval_answered_with_no() -> None:
    approvals = {
        path.stem: [(one.request_id, (one.output or {})["decision"]) for one in interactions_of(session)]
        for path in own_files()
        for session in read(path).sessions
        if interactions_of(session)
    }

    assert sorted(approvals.values()) == [[("call_tw2", "deny")], [("tide-2", "deny")]]
