"""Writes Claude Code transcripts for tests, row by row, as the client would."""

import json
from typing import Any

SESSION = "5e550000-0000-4000-8000-000000000001"
T0_MS = 1_772_355_600_000  # 2026-03-01T09:00:00Z


class Script:
    """Each method appends one row and answers its uuid; rows are a second apart and name their forerunner."""

    def __init__(self, session_id: str = SESSION) -> None:
        self.session_id = session_id
        self.rows: list[bytes] = []
        self.latest: str | None = None

    @property
    def data(self) -> bytes:
        return b"".join(row + b"\n" for row in self.rows)

    def raw(self, fields: Any) -> None:
        self.rows.append(json.dumps(fields).encode())

    def row(self, kind: str, **fields: Any) -> str:
        number = len(self.rows)
        uuid = f"0b000000-0000-4000-8000-{number:012d}"
        envelope = {
            "parentUuid": self.latest,
            "isSidechain": False,
            "cwd": "/srv/demo",
            "sessionId": self.session_id,
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-03-01T09:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        }
        self.raw(envelope | fields)
        self.latest = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self.row("user", message={"role": "user", "content": content}, **fields)

    def reply(self, message_id: str, *blocks: Any, output: int = 1, **fields: Any) -> str:
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 1000,
            "output_tokens": output,
        }
        message = {
            "id": message_id,
            "role": "assistant",
            "model": "claude-demo",
            "content": blocks,
            "usage": usage,
        }
        return self.row("assistant", message=message, **fields)

    def thinking(self, message_id: str, thought: str, output: int = 1) -> str:
        return self.reply(message_id, {"type": "thinking", "thinking": thought}, output=output)

    def text(self, message_id: str, text: str, output: int = 1, **fields: Any) -> str:
        return self.reply(message_id, {"type": "text", "text": text}, output=output, **fields)

    def call(
        self, message_id: str, call_id: str, name: str = "Bash", output: int = 1, **arguments: Any
    ) -> str:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        return self.reply(message_id, block, output=output)

    def result(self, call_id: str, content: Any = "ok", error: bool = False, **fields: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": error}
        return self.user([block], **fields)

    def interrupt(self) -> str:
        return self.user([{"type": "text", "text": "[Request interrupted by user]"}])

    def progress(self) -> str:
        return self.row("progress", data={"type": "hook_progress"})

    def turn_end(self) -> str:
        return self.row("system", subtype="turn_duration", durationMs=1000)
