"""Importing a long Claude Code transcript."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from application.importing import import_transcript
from infrastructure.collector import spared
from infrastructure.main import open_ledger
from infrastructure.transcripts.claude_code import read_claude_code
from tests.benchmarks.figures import Figure, Table, timed
from tests.benchmarks.reports import TEXT

TURNS = 4_000
START_S = 1_772_355_600
SESSION = "5e550009-7a11-4c0d-8e57-000000000009"


def transcript() -> bytes:
    """Turns of a prompt, an answer, a tool call, its result and a last word: five records each."""
    lines = []
    for turn in range(TURNS):
        rows = (
            ("user", {"role": "user", "content": f"step {turn}"}),
            ("assistant", _said(turn, "a", [{"type": "text", "text": TEXT[:300]}])),
            (
                "assistant",
                _said(
                    turn,
                    "a",
                    [{"type": "tool_use", "id": f"call-{turn}", "name": "Bash", "input": {"command": "ls"}}],
                ),
            ),
            (
                "user",
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": f"call-{turn}", "content": TEXT[:600]}
                    ],
                },
            ),
            ("assistant", _said(turn, "b", [{"type": "text", "text": "done"}])),
        )
        for index, (kind, message) in enumerate(rows):
            number = turn * len(rows) + index
            lines.append(
                {
                    "type": kind,
                    "uuid": f"0c000000-0000-4000-8000-{number:012d}",
                    "parentUuid": f"0c000000-0000-4000-8000-{number - 1:012d}" if number else None,
                    "sessionId": SESSION,
                    "cwd": "/srv/demo",
                    "version": "2.1.0",
                    "isSidechain": False,
                    "timestamp": datetime.fromtimestamp(START_S + number, UTC).isoformat(),
                    "message": message,
                }
            )
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _said(turn: int, part: str, content: list[dict[str, object]]) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 20}
    return {
        "id": f"msg-{turn}-{part}",
        "role": "assistant",
        "model": "claude",
        "content": content,
        "usage": usage,
    }


def run(table: Table, folder: Path) -> None:
    data = transcript()
    name = f"{SESSION}.jsonl"
    digest = hashlib.sha256(data).hexdigest()
    with open_ledger(f"sqlite:///{folder}/import.db") as ledger:
        with timed() as first:
            told = read_claude_code(data, name)
            with spared():
                result = import_transcript(ledger, told, import_id=SESSION, digest=digest)
        with timed() as again:
            told = read_claude_code(data, name)
            with spared():
                repeated = import_transcript(
                    ledger, told, import_id=SESSION, digest="another name for the same"
                )
        assert repeated.events == 0
    rate = told.records / first.wall_s
    table.add(
        Figure(
            "import of Claude Code records",
            f"{rate:,.0f}/s",
            ">= 5,000/s",
            rate >= 5_000,
            f"{result.events:,} events",
        )
    )
    table.add(Figure("the same file again, nothing remembered", f"{told.records / again.wall_s:,.0f}/s"))
