"""One session of a Claude Code transcript while it is read: its records become turns and messages."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from application.transcript import Entry, Json, KeptRecord, Place, Session
from infrastructure.transcripts.claude_messages import Messages
from infrastructure.transcripts.claude_records import (
    Kind,
    Row,
    note_source,
    note_text,
)
from infrastructure.transcripts.drafts import CallDraft, Draft
from infrastructure.transcripts.fields import as_text, content_blocks
from infrastructure.transcripts.ids import usable_id
from infrastructure.transcripts.lines import KEPT_BYTES_MAX
from infrastructure.transcripts.turns import Turns

PROVIDER = "claude-code"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a sub-agent was started, as far as it is known; blank for a session of its own."""

    parent_session_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    root_session_id: str = ""
    root_turn_id: str = ""


class Conversation:
    """Takes the records of one session in file order."""

    def __init__(
        self,
        session_id: str,
        provider_session_id: str,
        link: Link,
        title: str = "",
    ) -> None:
        self.session_id = session_id
        self.link = link
        self.title = title
        self.forked_from = ""
        self.unknown: Counter[str] = Counter()
        self._provider_session_id = provider_session_id
        self._entries: list[Entry | Draft] = []
        self.turns = Turns(session_id, self._entries.append)
        self.messages = Messages(session_id, self._entries.append)
        self._cwd = ""
        self._model = ""
        self._started_at_ms = 0
        self._last_at_ms = 0

    def take(self, row: Row, kind: Kind) -> Sequence[CallDraft]:
        """Read one record; the tool calls it makes are handed back, for they may start sub-agents."""
        self._saw(row)
        match kind:
            case Kind.PROMPT:
                self._prompt(row)
            case Kind.STEERING:
                self._steering(row)
            case Kind.COMMAND:
                self.turns.await_answer(self._note(row, kind), "user_prompt")
            case Kind.COMMAND_OUTPUT:
                self.turns.answered_locally()
                self._note(row, kind)
            case Kind.TASK_NOTE:
                self.turns.await_answer(self._note(row, kind), "provider_initiated")
            case Kind.NOTE:
                self._note(row, kind)
            case Kind.INTERRUPT:
                self._results(row)
                self.turns.end(row, "interrupted")
                self._note(row, kind)
            case Kind.RESULTS:
                self._results(row)
                self._beside_results(row)
            case Kind.REPLY:
                return self._reply(row)
            case Kind.API_ERROR:
                self._api_error(row)
            case Kind.OLD_CALL:
                return self._old_call(row)
            case Kind.OLD_RESULT:
                self._old_result(row)
            case Kind.TURN_END:
                self.turns.end(row, "completed")
            case Kind.UNKNOWN:
                self._unknown(row, f"{row.type}/{row.subtype}" if row.subtype else row.type)
            case Kind.QUIET:
                pass
        return ()

    def keep(
        self, place: Place, reason: Literal["unknown", "damaged", "conflict"], kind: str, raw: bytes
    ) -> None:
        """Bytes without a meaning here stay as they are, at most KEPT_BYTES_MAX of them."""
        self._entries.append(KeptRecord(place, reason, kind, raw[:KEPT_BYTES_MAX]))

    def session(self, rewound_turns: Set[str]) -> Session | None:
        """All that was read, or None when that is nothing; the file ends here."""
        self.turns.close(provisional=True)
        self.messages.count_usage()
        entries: list[Entry] = []
        for entry in self._entries:
            if isinstance(entry, Draft):
                entries += entry.facts(rewound=entry.turn_id in rewound_turns)
            else:
                entries.append(entry)
        if not entries:
            return None
        return Session(
            session_id=self.session_id,
            provider=PROVIDER,
            entries=tuple(entries),
            provider_session_id=self._provider_session_id,
            parent_session_id=self.link.parent_session_id,
            parent_turn_id=self.link.parent_turn_id,
            parent_tool_call_id=self.link.parent_tool_call_id,
            root_session_id=self.link.root_session_id,
            root_turn_id=self.link.root_turn_id,
            forked_from_session_id=self.forked_from,
            cwd=self._cwd,
            title=self.title,
            model=self._model,
            started_at_ms=self._started_at_ms,
            last_at_ms=self._last_at_ms,
        )

    def _saw(self, row: Row) -> None:
        if not self._cwd:
            self._cwd = as_text(row.fields.get("cwd"))
        if row.at_ms:
            self._started_at_ms = min(self._started_at_ms or row.at_ms, row.at_ms)
            self._last_at_ms = max(self._last_at_ms, row.at_ms)

    def _row_id(self, row: Row) -> str:
        return usable_id(row.uuid) or self.messages.next_id(row.type)

    def _prompt(self, row: Row) -> None:
        """A prompt's record names both its turn and its message."""
        row_id = self._row_id(row)
        self.turns.start(row_id, row)
        self.messages.prompt(row, row_id, row_id, _prompt_blocks(row))

    def _steering(self, row: Row) -> None:
        if self.turns.open is None:
            self._prompt(row)
            return
        self.messages.prompt(row, self._row_id(row), self.turns.join(row), _prompt_blocks(row))
        self.turns.saw(row, "other")

    def _note(self, row: Row, kind: Kind) -> str:
        row_id = self._row_id(row)
        self.messages.note(row, row_id, note_source(row, kind), note_text(row))
        return row_id

    def _results(self, row: Row) -> None:
        results = [block for block in row.blocks if block.get("type") == "tool_result"]
        if results:
            turn_id = self.turns.join(row)
            self._heed(row, [self.messages.result(row, block, turn_id) for block in results])

    def _beside_results(self, row: Row) -> None:
        """What the user said along with a tool's result."""
        if row.text:
            blocks = [block for block in row.blocks if block.get("type") != "tool_result"]
            self.messages.prompt(row, self._row_id(row), self.turns.join(row), blocks)

    def _reply(self, row: Row) -> Sequence[CallDraft]:
        self._model = row.model or self._model
        message_id = usable_id(as_text(row.message.get("id")))
        reply_id = message_id or usable_id(as_text(row.fields.get("requestId"))) or self._row_id(row)
        calls = self.messages.reply(row, reply_id, self.turns.answer(row))
        self._heed(row, calls)
        if row.blocks[-1].get("type") == "text":
            self.turns.saw(row, "text")
        unknown, self.messages.unknown_blocks = self.messages.unknown_blocks, []
        if unknown:
            self._unknown(row, f"{row.type}/{unknown[0]}")
        return calls

    def _heed(self, row: Row, calls: Sequence[CallDraft]) -> None:
        """What a row's calls mean for the turn: open ones keep it from being completed."""
        for call in calls:
            if call.status == "running":
                self.turns.call_opened(call.message_id)
            else:
                self.turns.call_closed(call.message_id)
        self.turns.saw(row, "other")

    def _api_error(self, row: Row) -> None:
        """Text for display: no answer of the model, so no text message, and the turn has failed by it."""
        text = row.text
        draft = self.messages.text(
            row, self._row_id(row), self.turns.answer(row), "assistant", text, kind="notice"
        )
        draft.payload["errorCode"] = row.error_code
        self.turns.failed(row, row.error_code, text)

    def _old_call(self, row: Row) -> Sequence[CallDraft]:
        block = {**row.fields, "id": row.fields.get("id") or row.uuid}
        calls = [self.messages.call(row, block, self.turns.answer(row))]
        self._heed(row, calls)
        return calls

    def _old_result(self, row: Row) -> None:
        """Before 2.0 a result named the tool, not the call."""
        fields = row.fields
        named, tool = as_text(fields.get("tool_use_id")), as_text(fields.get("name"))
        call_id = named or self.messages.open_call_named(tool) or row.uuid
        block = {**fields, "tool_use_id": call_id, "content": fields.get("output")}
        self._heed(row, [self.messages.result(row, block, self.turns.join(row))])

    def _unknown(self, row: Row, kind: str) -> None:
        self.unknown[kind] += 1
        self.keep(row.place, "unknown", kind, row.raw)


def _prompt_blocks(row: Row) -> list[Mapping[str, Json]]:
    return row.blocks if row.queued_prompt is None else content_blocks(row.queued_prompt)
