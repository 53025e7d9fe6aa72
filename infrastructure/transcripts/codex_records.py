"""What one record of a Codex rollout is, whichever version wrote it.

Today a record is `{timestamp, type, payload}`. Before that (2025-09) the payload stood alone, and some
tools wrote records of their own with `role` at the top. All of them become an `Item`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from application.transcript import Json, MessageStatus, Place
from infrastructure.transcripts.drafts import Usage
from infrastructure.transcripts.fields import as_count, as_object, as_text
from infrastructure.transcripts.lines import Record, read_value
from infrastructure.transcripts.times import time_ms

ENVELOPES = frozenset(
    {
        "compacted",
        "event_msg",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "response_item",
        "session_meta",
        "turn_context",
        "world_state",
    }
)
QUIET_RECORDS = frozenset(
    {"inter_agent_communication", "inter_agent_communication_metadata", "state", "world_state"}
)
"""Known records that are no part of the conversation."""
QUIET_ITEMS = frozenset(
    {"compaction", "compaction_summary", "compaction_trigger", "context_compaction", "ghost_snapshot"}
)
"""The same for response items."""
QUIET_EVENTS = frozenset(
    {
        "account/rateLimits/updated",
        "agent_reasoning_section_break",
        "context_compacted",
        "dynamic_tool_call_request",
        "dynamic_tool_call_response",
        "entered_review_mode",
        "exited_review_mode",
        "guardian_assessment",
        "image_generation_end",
        "plan_update",
        "session_configured",
        "stream_error",
        "sub_agent_activity",
        "thread_goal_updated",
        "thread_settings_applied",
        "turn_diff",
        "undo_completed",
        "view_image_tool_call",
        "warning",
        "web_search_end",
    }
)
"""The same for events: what they tell stands in the response items as well, or is the client's own."""

CALLS = frozenset(
    {
        "custom_tool_call",
        "function_call",
        "image_generation_call",
        "local_shell_call",
        "tool_call",
        "tool_search_call",
        "web_search_call",
    }
)
RESULTS = frozenset(
    {
        "custom_tool_call_output",
        "function_call_output",
        "function_result",
        "mcp_tool_call_output",
        "tool_result",
        "tool_search_output",
    }
)

_EVENT_PREFIX = "codex/event/"
_INJECTED_STARTS = (
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<environment_context>",
    "<environments_instructions>",
    "<permissions instructions>",
    "<recommended_plugins>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_action>",
    "<user_instructions>",
    "<user_shell_command>",
)
"""How texts begin that the client put in under the user's name."""

_HEADER_CHARS = 400
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_REFUSED = re.compile(
    r"(?:[\w`'-]+ ){0,4}(?:rejected by (?:the )?user|user (?:rejected|cancelled) )", re.IGNORECASE
)
_ABORTED = re.compile(r"aborted(?: by (?:the )?user)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Item:
    """A record out of its envelope."""

    kind: str
    """What the envelope says, or would have said."""
    type: str
    payload: Mapping[str, Json]
    place: Place
    raw: bytes
    at_ms: int
    uuid: str = ""
    """No record of a rollout has an id."""

    @classmethod
    def of(cls, record: Record) -> "Item":
        fields = as_object(record.value)
        kind, payload = _out_of_envelope(fields)
        at_ms = time_ms(fields.get("timestamp")) or time_ms(fields.get("created_at"))
        kind_of_payload = as_text(payload.get("type")).removeprefix(_EVENT_PREFIX)
        return cls(kind, kind_of_payload, payload, record.place, record.raw, at_ms)

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.type}" if self.type and self.type != self.kind else self.kind

    @property
    def is_prompt(self) -> bool:
        """Whether a user may have typed this."""
        if self.kind == "event_msg":
            return self.type == "user_message" and not is_injected(as_text(self.payload.get("message")))
        return (
            self.kind == "response_item"
            and self.type == "message"
            and self.payload.get("role") == "user"
            and not is_injected(joined(texts_of(self.payload)))
        )


def _out_of_envelope(fields: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    kind, payload = as_text(fields.get("type")), as_object(fields.get("payload"))
    if kind in ENVELOPES:
        if kind == "response_item" and "type" not in payload and "role" in payload:
            return kind, {"type": "message", **payload}
        if payload.get("type") == f"{_EVENT_PREFIX}raw_item":
            return "response_item", as_object(payload.get("item"))
        return kind, payload
    if "record_type" in fields:
        return as_text(fields["record_type"]), fields
    if kind == "error":
        return "event_msg", fields
    if kind in CALLS | RESULTS | {"message", "reasoning"} | QUIET_ITEMS:
        return "response_item", fields
    if not kind and "role" in fields:
        content = fields.get("content", fields.get("message"))
        return "response_item", {**fields, "type": "message", "content": content}
    if not kind and as_text(fields.get("id")) and "timestamp" in fields:
        return "session_meta", fields
    return kind, payload


def is_codex(fields: Mapping[str, Json]) -> bool:
    """Whether the first record of a file looks like one of a rollout; others have `message` and `uuid`."""
    if fields.get("type") in ENVELOPES:
        return isinstance(fields.get("payload"), dict)
    if "uuid" in fields or "sessionId" in fields:
        return False
    return _out_of_envelope(fields)[0] in {"session_meta", "state"} or "role" in fields


def is_injected(text: str) -> bool:
    return text.lstrip().startswith(_INJECTED_STARTS)


def texts_of(payload: Mapping[str, Json], name: str = "content") -> list[str]:
    """The texts of a message or a thought, one per block."""
    content = payload.get(name)
    if isinstance(content, str):
        return [content] if content.strip() else []
    if not isinstance(content, list):
        return []
    texts = [block if isinstance(block, str) else as_text(as_object(block).get("text")) for block in content]
    return [text for text in texts if text.strip()]


def attachments_of(payload: Mapping[str, Json]) -> list[Json]:
    """What stands in a message beside its texts."""
    content = payload.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and not isinstance(block.get("text"), str)]


def joined(texts: list[str]) -> str:
    return "\n\n".join(texts)


def arguments_of(payload: Mapping[str, Json]) -> Json:
    """What a tool was called with: JSON where it is an object, else as it stands."""
    for name in ("arguments", "input", "action"):
        given = payload.get(name)
        if isinstance(given, str) and given.lstrip().startswith("{"):
            try:
                return read_value(given)
            except ValueError:
                return given
        if given is not None:
            return given
    return None


def tool_name_of(item: Item) -> str:
    payload = item.payload
    name = as_text(payload.get("name")) or as_text(as_object(payload.get("function")).get("name"))
    space = as_text(payload.get("namespace"))
    return f"{space}.{name}" if space and name else name or item.type.removesuffix("_call")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a tool call."""

    text: str
    status: MessageStatus
    refusal: str = ""


def result_of(payload: Mapping[str, Json], *, known_to_fail: bool = False) -> Result:
    """Read a tool's output: text, blocks or an object, perhaps JSON inside a text."""
    output = payload.get("output", payload.get("result"))
    text, failed = _output(output)
    failed = failed or known_to_fail or payload.get("status") in {"failed", "error"}
    if _REFUSED.match(text):
        return Result(text, "canceled", refusal=text)
    if _ABORTED.match(text):
        return Result(text, "canceled")
    return Result(text, "failed" if failed else "completed")


def _output(output: Json) -> tuple[str, bool]:
    """The text of an output, and whether it says that the tool failed."""
    if isinstance(output, str):
        if output.startswith('{"output"'):
            try:
                return _output(read_value(output))
            except ValueError:
                pass
        code = _EXIT_CODE.search(output[:_HEADER_CHARS])
        return output, bool(code and int(code.group(1)))
    if isinstance(output, list):
        return "\n\n".join(_block_text(block) for block in output), False
    fields = as_object(output)
    text = next((fields[name] for name in ("output", "content", "text") if name in fields), "")
    code = as_object(fields.get("metadata")).get("exit_code")
    inner, failed = _output(text) if not isinstance(text, dict) else ("", False)
    return inner, failed or fields.get("success") is False or code not in (None, 0)


def _block_text(block: Json) -> str:
    if isinstance(block, str):
        return block
    fields = as_object(block)
    return as_text(fields.get("text")) or f"[{as_text(fields.get('type'))}]"


def usage_of(counts: Mapping[str, Json]) -> Usage:
    """Tokens as Codex counts them: input with what came from the cache, output with the thoughts."""
    read = as_count(counts.get("input_tokens")) or as_count(counts.get("prompt"))
    written = as_count(counts.get("output_tokens")) or as_count(counts.get("completion"))
    cached = min(as_count(counts.get("cached_input_tokens")), read)
    return Usage(input=read - cached, cached_input=cached, output=written)
