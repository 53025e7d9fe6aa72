"""One session of a transcript while it is read, for formats that tell it message by message.

Turns, texts, tool calls and usage come in file order and end as the neutral facts of a session.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Literal

from application.transcript import Entry, Json, KeptRecord, MessageStatus, Place, Session
from infrastructure.transcripts.drafts import CallDraft, Draft, Role, Standing, Usage
from infrastructure.transcripts.ids import derived_id
from infrastructure.transcripts.lines import KEPT_BYTES_MAX
from infrastructure.transcripts.turns import Turns


class Conversation:
    """Takes what the records of one session say, in file order."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.unknown: Counter[str] = Counter()
        self.rewound: set[str] = set()
        """Turns that the user took back."""
        self._entries: list[Entry | Draft] = []
        self.turns = Turns(session_id, self._entries.append)
        self._drafts: dict[str, Draft] = {}
        self._open_calls: defaultdict[str, list[CallDraft]] = defaultdict(list)
        self._numbers: Counter[str] = Counter()
        self.started_at_ms = 0
        self.last_at_ms = 0
        self.cwd = ""
        self.model = ""
        self.title = ""

    def saw(self, at_ms: int) -> None:
        """Something of the session happened at that time."""
        if at_ms:
            self.started_at_ms = min(self.started_at_ms or at_ms, at_ms)
            self.last_at_ms = max(self.last_at_ms, at_ms)

    def next_number(self, what: str) -> int:
        """Counts what has no id: files grow at their end, so counting from the start is stable."""
        self._numbers[what] += 1
        return self._numbers[what]

    def derived(self, what: str) -> str:
        return derived_id(self.session_id, what, self.next_number(what))

    def numbered(self, turn_id: str, what: str) -> str:
        """The id of a nameless message of a turn."""
        return f"{turn_id}:{what}-{self.next_number(f'{turn_id}:{what}')}"

    def text(
        self, row: Standing, message_id: str, turn_id: str, role: Role, text: str, kind: str = "text"
    ) -> Draft:
        draft = self.draft(row, message_id, turn_id, role, kind)
        if text:
            draft.texts[text] = None
        return draft

    def note(self, row: Standing, message_id: str, source: str, text: str) -> Draft:
        """What the client put in by itself: no part of any turn, never a prompt, never an answer."""
        draft = self.draft(row, message_id, None, "system", "session_audit")
        if text:
            draft.texts[text] = None
        draft.payload["source"] = source
        return draft

    def failure(self, row: Standing, message_id: str, code: str, text: str) -> None:
        """An error for display: no answer of the model, and the turn has failed by it."""
        turn_id = self.turns.join(row)
        self.text(row, message_id, turn_id, "assistant", text, "notice").payload["errorCode"] = code
        self.turns.failed(row, code, text)

    def draft(self, row: Standing, message_id: str, turn_id: str | None, role: Role, kind: str) -> Draft:
        found = self._drafts.get(message_id)
        if found and (found.role, found.kind) != (role, kind):  # the file gave two messages one id
            return self.draft(row, f"{message_id}:{role}-{kind}", turn_id, role, kind)
        if found is None:
            found = Draft(message_id, turn_id, role, kind, row.place, row.at_ms, row.at_ms)
            self._add(found)
        found.saw(row)
        return found

    def call(self, row: Standing, call_id: str, turn_id: str, name: str, arguments: Json) -> CallDraft:
        """A tool call; a repeated one adds nothing."""
        call = self.call_draft(row, call_id, turn_id)
        if not call.called:
            call.called = True
            call.tool_name = name
            call.payload["toolName"] = name
            call.payload["input"] = arguments
            if call.status == "running":
                self._open_calls[name].append(call)
        return call

    def finish(
        self,
        row: Standing,
        call: CallDraft,
        status: MessageStatus,
        body: Mapping[str, Json],
        refusal: str = "",
    ) -> None:
        """A tool's result; the first one counts. A refused tool is an approval answered with no."""
        if call.status != "running":
            return
        call.saw(row)
        call.status = status
        call.payload["output" if status == "completed" else "error"] = dict(body)
        if refusal:
            call.asks, call.answer = "approval", {"decision": "deny", "message": refusal}

    def has_text(self, turn_id: str) -> bool:
        """Whether the agent has said anything in a turn."""
        return bool(self._numbers[f"{turn_id}:assistant"])

    def open_call_named(self, name: str) -> str:
        """The id of the latest call of a tool that has no result, for results that name no call."""
        calls = self._open_calls[name]
        while calls and calls[-1].status != "running":
            calls.pop()
        return calls[-1].message_id if calls else ""

    def call_draft(self, row: Standing, call_id: str, turn_id: str) -> CallDraft:
        found = self._drafts.get(call_id)
        if isinstance(found, CallDraft):
            return found
        if found:
            return self.call_draft(row, f"{call_id}:tool-tool_call", turn_id)
        call = CallDraft(
            call_id, turn_id, "tool", "tool_call", row.place, row.at_ms, row.at_ms, status="running"
        )
        self._add(call)
        return call

    def heed(self, row: Standing, call: CallDraft) -> None:
        """What a call means for the turn: an open one keeps it from being completed."""
        if call.status == "running":
            self.turns.call_opened(call.message_id)
        else:
            self.turns.call_closed(call.message_id)
        self.turns.saw(row, "other")

    def calls_missing(self) -> list[Draft]:
        """Results whose call is not in the file."""
        return [d for d in self._drafts.values() if isinstance(d, CallDraft) and not d.called]

    def keep(
        self, place: Place, reason: Literal["unknown", "damaged", "conflict"], kind: str, raw: bytes
    ) -> None:
        """Bytes without a meaning here stay as they are, at most KEPT_BYTES_MAX of them."""
        if reason == "unknown":
            self.unknown[kind] += 1
        self._entries.append(KeptRecord(place, reason, kind, raw[:KEPT_BYTES_MAX]))

    def session(self, provider: str, **about: Any) -> Session | None:
        """All that was read, or None when that is nothing; the file ends here."""
        self.turns.close(provisional=True)
        entries: list[Entry] = []
        for entry in self._entries:
            if isinstance(entry, Draft):
                rewound = entry.rewound or entry.turn_id in self.rewound
                entries += entry.facts(rewound=rewound)
            else:
                entries.append(entry)
        if not entries:
            return None
        return Session(
            session_id=self.session_id,
            provider=provider,
            entries=tuple(entries),
            cwd=self.cwd,
            title=self.title,
            model=self.model,
            started_at_ms=self.started_at_ms,
            last_at_ms=self.last_at_ms,
            **about,
        )

    def _add(self, draft: Draft) -> None:
        self._drafts[draft.message_id] = draft
        self._entries.append(draft)


def add_usage(draft: Draft, more: Usage) -> None:
    """One more answer of the model is counted on this message."""
    draft.usage = Usage(*(one + other for one, other in zip(draft.usage, more, strict=True)))
