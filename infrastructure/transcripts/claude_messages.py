"""Messages of a Claude Code conversation: rows joined, tool results attached, usage counted once.

The client writes one row per content block of an API message and repeats its usage on each. A message here
is a draft until the file ends: more rows may join it, and the result of a tool comes in a later record.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from application.transcript import Json
from infrastructure.transcripts.claude_records import Row, is_refusal, usage_of
from infrastructure.transcripts.drafts import NO_USAGE, CallDraft, Draft, InteractionKind, Role, Usage
from infrastructure.transcripts.fields import as_object, as_text, bounded, content_blocks, joined_text
from infrastructure.transcripts.ids import derived_id, reasoning_id, usable_id

ASKING_TOOLS: Mapping[str, InteractionKind] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
"""Tools whose call is a question to the user."""

CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
NO_CONTENT_TYPES = frozenset({"fallback", "redacted_thinking"})
"""Blocks of a reply that carry nothing a person could read."""


class Messages:
    """The drafts of one session, told to `emit` in the order of their first rows."""

    def __init__(self, session_id: str, emit: Callable[[Draft], None]) -> None:
        self._session_id = session_id
        self._emit = emit
        self._drafts: dict[str, Draft] = {}
        self._calls_by_name: defaultdict[str, list[CallDraft]] = defaultdict(list)
        self._nameless = 0
        self._usage: dict[str, Usage] = {}
        self._carriers: dict[str, Draft] = {}
        self.repeated_blocks = 0
        self.unknown_blocks: list[str] = []
        """Types of content blocks without a meaning here, until the conversation takes them."""

    def next_id(self, what: str) -> str:
        """For what has no id of its own: files grow at their end, so counting from the start is stable."""
        self._nameless += 1
        return derived_id(self._session_id, what, self._nameless)

    def text(
        self, row: Row, message_id: str, turn_id: str, role: Role, text: str, kind: str = "text"
    ) -> Draft:
        """Add a text row to its message; a row that repeats a text of the message adds nothing."""
        draft = self._draft(row, message_id, turn_id, role, kind)
        self.repeated_blocks += text in draft.texts
        draft.texts[text] = None
        return draft

    def prompt(self, row: Row, message_id: str, turn_id: str, blocks: list[Mapping[str, Json]]) -> None:
        """What the user typed and attached."""
        draft = self.text(row, message_id, turn_id, "user", joined_text(blocks))
        attached = [block for block in blocks if block.get("type") != "text"]
        if attached:
            draft.payload["attachments"] = bounded(attached, row.place.length)

    def note(self, row: Row, message_id: str, source: str, text: str) -> None:
        """What the client put in by itself: no part of any turn, never a prompt, never an answer."""
        draft = self._draft(row, message_id, None, "system", "session_audit")
        draft.texts[text] = None
        draft.payload["source"] = source
        if details := as_object(row.fields.get("compactMetadata")):
            draft.payload["details"] = bounded(details, row.place.length)

    def reply(self, row: Row, reply_id: str, turn_id: str) -> list[CallDraft]:
        """A row of an API message; the tool calls it makes, or brings results of, are handed back."""
        calls = []
        for block in row.blocks:
            draft = self._reply_block(row, block, reply_id, turn_id)
            if draft:
                self._carriers.setdefault(reply_id, draft)
            if isinstance(draft, CallDraft):
                calls.append(draft)
        self._usage[reply_id] = self._usage.get(reply_id, NO_USAGE).at_greatest(usage_of(row))
        return calls

    def _reply_block(self, row: Row, block: Mapping[str, Json], reply_id: str, turn_id: str) -> Draft | None:
        kind = as_text(block.get("type"))
        match kind:
            case "text":
                text = as_text(block.get("text"))
                return self.text(row, reply_id, turn_id, "assistant", text) if text else None
            case "thinking":
                thought, thought_id = as_text(block.get("thinking")), reasoning_id(reply_id)
                return (
                    self.text(row, thought_id, turn_id, "assistant", thought, "reasoning")
                    if thought
                    else None
                )
            case _ if kind in CALL_TYPES:
                return self.call(row, block, turn_id)
            case _ if kind.endswith("tool_result"):
                return self.result(row, block, turn_id)
            case _ if kind not in NO_CONTENT_TYPES:
                self.unknown_blocks.append(kind)
        return None

    def call(self, row: Row, block: Mapping[str, Json], turn_id: str) -> CallDraft:
        """A tool call; a repeated one adds nothing."""
        call_id = usable_id(as_text(block.get("id"))) or self.next_id("call")
        call = self._call_draft(row, call_id, turn_id)
        if call.called:
            self.repeated_blocks += 1
            return call
        call.called = True
        call.tool_name = as_text(block.get("name"))
        call.asks = ASKING_TOOLS.get(call.tool_name, call.asks)
        self._calls_by_name[call.tool_name].append(call)
        call.payload["toolName"] = call.tool_name
        call.payload["input"] = block.get("input")
        return call

    def result(self, row: Row, block: Mapping[str, Json], turn_id: str) -> CallDraft:
        """A tool's result joins its call; without one in the file it stands alone."""
        call_id = usable_id(as_text(block.get("tool_use_id"))) or self.next_id("result")
        call = self._call_draft(row, call_id, turn_id)
        if "output" in call.payload or "error" in call.payload:
            self.repeated_blocks += 1
            return call
        call.saw(row)
        text = _result_text(block.get("content"))
        body = {"text": text} | _details(row, text)
        failed = block.get("is_error") is True
        if failed and text in _INTERRUPTED_RESULTS:
            call.status = "canceled"
        elif failed and is_refusal(row, text):
            call.status = "canceled"
            call.asks = call.asks or "approval"
            call.answer = {"decision": "deny", "message": text}
        else:
            call.status = "failed" if failed else "completed"
            call.answer = None if failed else _answer(call.asks, row, text)
        call.payload["error" if failed else "output"] = body
        return call

    def open_call_named(self, name: str) -> str:
        """The id of the latest call of a tool that has no result: before 2.0 results named no call."""
        calls = self._calls_by_name[name]
        while calls and calls[-1].status != "running":
            calls.pop()
        return calls[-1].message_id if calls else ""

    def calls_missing(self) -> list[Draft]:
        """Results whose call is not in the file."""
        return [d for d in self._drafts.values() if isinstance(d, CallDraft) and not d.called]

    def count_usage(self) -> None:
        """Put each API message's usage on the message of its first row that made one.

        The first row alone stays the first when the file grows: on the text message, which may come after
        a thought, an earlier import and a later one would count the same usage on two messages.
        """
        for reply_id, carrier in self._carriers.items():
            carrier.usage = carrier.usage.at_greatest(self._usage[reply_id])

    def _draft(self, row: Row, message_id: str, turn_id: str | None, role: Role, kind: str) -> Draft:
        draft = self._drafts.get(message_id)
        if draft and (draft.role, draft.kind) != (role, kind):  # the file gave two messages one id
            return self._draft(row, f"{message_id}:{role}-{kind}", turn_id, role, kind)
        if draft is None:
            draft = Draft(message_id, turn_id, role, kind, row.place, row.at_ms, row.at_ms)
            self._add(draft)
        draft.saw(row)
        return draft

    def _call_draft(self, row: Row, call_id: str, turn_id: str) -> CallDraft:
        draft = self._drafts.get(call_id)
        if isinstance(draft, CallDraft):
            return draft
        if draft:
            return self._call_draft(row, f"{call_id}:tool-tool_call", turn_id)
        at_ms = row.at_ms
        call = CallDraft(call_id, turn_id, "tool", "tool_call", row.place, at_ms, at_ms, status="running")
        self._add(call)
        return call

    def _add(self, draft: Draft) -> None:
        self._drafts[draft.message_id] = draft
        self._emit(draft)


_INTERRUPTED_RESULTS = frozenset(
    {"[Request interrupted by user for tool use]", "[Request interrupted by user]"}
)
"""The tool was running when the user stopped it: nobody was asked."""


def _answer(asks: InteractionKind | None, row: Row, text: str) -> Mapping[str, Json] | None:
    """What the result of an asking tool says the user answered."""
    if asks == "plan":
        return {"decision": "allow", "message": text}
    if asks == "question":
        answers = as_object(row.fields.get("toolUseResult")).get("answers")
        return {"answers": bounded(answers, row.place.length)} if answers else {"message": text}
    return None


def _result_text(content: Json) -> str:
    """What the model saw of a result; images are named, not shown."""
    blocks = content_blocks(content)
    texts = [
        as_text(block.get("text")) if block.get("type") == "text" else f"[{as_text(block.get('type'))}]"
        for block in blocks
    ]
    return "\n\n".join(texts)


def _details(row: Row, text: str) -> dict[str, Json]:
    """The client's own, richer form of a result, without what repeats the text."""
    if len(row.blocks) > 1:
        return {}  # it cannot be told whose details they are
    details = {
        key: value
        for key, value in as_object(row.fields.get("toolUseResult")).items()
        if value not in (text, None, "")
    }
    return {"details": bounded(details, row.place.length)} if details else {}
