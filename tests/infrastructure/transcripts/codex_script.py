"""Writes Codex rollouts for tests, record by record, as the client would."""

import json
from typing import Any

SESSION = "0d000000-0000-7000-8000-0000000000aa"
START_S = 1_775_030_400  # 2026-04-01T08:00:00Z


def stamp(ms: int) -> str:
    minutes, rest = divmod(ms, 60_000)
    return f"2026-04-01T08:{minutes:02d}:{rest // 1000:02d}.{rest % 1000:03d}Z"


class CodexScript:
    """Each method appends one record; records are a second apart. `shape` says how a text is told."""

    def __init__(self, session: str = SESSION, shape: str = "both", step_ms: int = 1_000) -> None:
        self.session = session
        self.shape = shape
        self.rows: list[bytes] = []
        self.at_ms = 0
        self.step_ms = step_ms
        self.total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 0}

    @property
    def data(self) -> bytes:
        return b"".join(row + b"\n" for row in self.rows)

    def raw(self, fields: Any) -> None:
        self.rows.append(json.dumps(fields).encode())

    def record(self, kind: str, payload: dict[str, Any]) -> None:
        self.at_ms += self.step_ms
        self.raw({"timestamp": stamp(self.at_ms), "type": kind, "payload": payload})

    def meta(self, **more: Any) -> None:
        payload = {"id": self.session, "timestamp": stamp(self.at_ms), "cwd": "/srv/demo", "source": "cli"}
        self.raw({"timestamp": stamp(self.at_ms), "type": "session_meta", "payload": payload | more})

    def event(self, kind: str, **payload: Any) -> None:
        self.record("event_msg", {"type": kind, **payload})

    def item(self, kind: str, **payload: Any) -> None:
        self.record("response_item", {"type": kind, **payload})

    def started(self, turn: str | None) -> None:
        self.event("task_started", turn_id=turn, started_at=START_S + self.at_ms // 1000 + 1)

    def complete(self, turn: str | None, **more: Any) -> None:
        self.event("task_complete", turn_id=turn, **more)

    def context(self, model: str = "gpt-demo") -> None:
        self.record("turn_context", {"cwd": "/srv/demo", "model": model, "effort": "high"})

    def injected(self, text: str = "<environment_context>zsh</environment_context>") -> None:
        self.message("user", text)

    def message(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self.item("message", role=role, content=[{"type": kind, "text": text}])

    def user(self, text: str) -> None:
        self._twice("user", "user_message", text)

    def says(self, text: str) -> None:
        self._twice("assistant", "agent_message", text)

    def thinks(self, text: str) -> None:
        if self.shape != "told":
            self.event("agent_reasoning", text=text)
        if self.shape != "shown":
            self.item("reasoning", summary=[{"type": "summary_text", "text": text}], encrypted_content="QUJD")

    def call(self, call_id: str, name: str = "exec_command", arguments: Any = '{"cmd":"ls"}') -> None:
        self.item("function_call", name=name, arguments=arguments, call_id=call_id)

    def output(self, call_id: str, output: Any = "ok") -> None:
        self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, read: int, written: int, cached: int = 0) -> None:
        last = {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written}
        last["total_tokens"] = read + written
        self.total = {name: self.total[name] + last[name] for name in last}
        self.event("token_count", info={"total_token_usage": self.total, "last_token_usage": last})

    def tokens_again(self) -> None:
        """The same totals are told once more, as with news of rate limits."""
        last = {"input_tokens": 7, "cached_input_tokens": 0, "output_tokens": 7, "total_tokens": 14}
        self.event("token_count", info={"total_token_usage": self.total, "last_token_usage": last})

    def _twice(self, role: str, event: str, text: str) -> None:
        shown, told = self.shape != "told", self.shape != "shown"
        if told and self.shape == "both-reversed":
            self.message(role, text)
        if shown:
            self.event(event, message=text)
        if told and self.shape != "both-reversed":
            self.message(role, text)
