"""What holds for every Claude Code transcript: whole or cut, sound or senseless."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from application.transcript import Message, Session, Transcript, TurnEnd, TurnStart
from infrastructure.transcripts.claude_code import read_claude_code
from infrastructure.transcripts.ids import ID_CHARS_MAX
from tests.infrastructure.transcripts.outcome import (
    messages_of,
    texts_of,
    tool_calls_of,
    turns_of,
    usage_of,
)
from tests.infrastructure.transcripts.script import SESSION, Script


@dataclass
class Truth:
    """What the generated transcript must be found to tell."""

    turns: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    output_tokens: int = 0


class Player:
    """Plays a random session: writes its rows and notes the truth about them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.script = Script()
        self.truth = Truth()
        self._replies = self._calls = 0

    def turn(self) -> None:
        text = f"prompt {len(self.truth.turns)}"
        self.script.user(text)
        self.truth.texts.append(text)
        last, open_calls = "prompt", False
        for _ in range(self.draw(st.integers(0, 3))):
            last, leaves_open = self.reply()
            open_calls |= leaves_open
        end = self.draw(st.sampled_from(["end record", "interrupt", "nothing"]))
        self.noise()
        if end == "end record":
            self.script.turn_end()
        elif end == "interrupt":
            self.script.interrupt()
        judged = "completed" if last == "text" and not open_calls else "interrupted"
        outcome = {"end record": "completed", "interrupt": "interrupted", "nothing": judged + "?"}
        self.truth.turns.append(outcome[end])

    def reply(self) -> tuple[str, bool]:
        """One API message: a thought, texts and calls in any order, then the results in any order."""
        self._replies += 1
        message_id = f"msg{self._replies}"
        blocks = self.draw(st.lists(st.sampled_from(["thinking", "text", "call"]), min_size=1, max_size=5))
        texts, calls, output = [], [], 0
        for number, block in enumerate(blocks):
            output += self.draw(st.integers(0, 50))
            match block:
                case "thinking":
                    self.script.thinking(message_id, f"thought {number}", output)
                case "text":
                    texts.append(f"text {number} of {message_id}")
                    self.script.text(message_id, texts[-1], output)
                case "call":
                    self._calls += 1
                    calls.append(f"call{self._calls}")
                    self.script.call(message_id, calls[-1], output=output)
            self.noise()
        if texts:
            self.truth.texts.append("\n\n".join(texts))
        self.truth.output_tokens += output
        results = [self.result(call_id) for call_id in self.draw(st.permutations(calls))]
        return "result" if any(results) else blocks[-1], not all(results)

    def result(self, call_id: str) -> bool:
        status = self.draw(st.sampled_from(["completed", "failed", "running"]))
        self.truth.calls[status] += 1
        if status != "running":
            self.script.result(call_id, error=status == "failed")
        self.noise()
        return status != "running"

    def noise(self) -> None:
        match self.draw(st.integers(0, 6)):
            case 0:
                self.script.progress()
            case 1:
                self.script.raw({"type": "file-history-snapshot", "messageId": self.script.latest})
            case 2:
                self.script.rows.append(b"")
            case 3:
                self.script.user("<local-command-stdout>ok</local-command-stdout>")


@st.composite
def sessions(draw: st.DrawFn) -> Player:
    player = Player(draw)
    for _ in range(draw(st.integers(1, 4))):
        player.turn()
    *earlier, last = player.truth.turns
    player.truth.turns = [turn.removesuffix("?") for turn in earlier] + [last]
    return player


def read(data: bytes) -> Transcript:
    return read_claude_code(data, f"{SESSION}.jsonl")


@given(sessions())
def test_the_truth_about_a_session_is_found(player: Player) -> None:
    transcript = read(player.script.data)

    (session,) = transcript.sessions
    assert session.session_id == SESSION
    assert (
        Truth(
            turns_of(session),
            texts_of(session),
            Counter(tool_calls_of(session)),
            usage_of(session).get("output", 0),
        )
        == player.truth
    )
    assert transcript.warnings == ()


@given(sessions(), st.floats(0, 1))
def test_a_prefix_tells_nothing_that_the_whole_denies(player: Player, share: float) -> None:
    data = player.script.data
    whole = read(data).sessions[0]
    by_id = {message.message_id: message for message in messages_of(whole)}

    for session in read(data[: int(len(data) * share)]).sessions:
        assert starts(session) == starts(whole)[: len(starts(session))]
        assert final_ends(session) == final_ends(whole)[: len(final_ends(session))]
        for message in messages_of(session):
            grown = by_id[message.message_id]
            assert (message.turn_id, message.role, message.kind) == (grown.turn_id, grown.role, grown.kind)
            assert text(grown).startswith(text(message))
            assert message.usage is None or grown.usage is not None


def starts(session: Session) -> list[TurnStart]:
    return [entry for entry in session.entries if isinstance(entry, TurnStart)]


def final_ends(session: Session) -> list[TurnEnd]:
    return [entry for entry in session.entries if isinstance(entry, TurnEnd) and not entry.provisional]


def text(message: Message) -> str:
    return str(message.payload.get("text", ""))


@given(st.binary(max_size=300), st.text(max_size=60), st.binary(max_size=40))
def test_any_bytes_under_any_name_give_a_report(data: bytes, path: str, meta: bytes) -> None:
    well_formed(read_claude_code(data, path, meta))


IDS = st.sampled_from(["", "a", "b", "c", "a\0", "\ud800", "x" * 900])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | IDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["text", "thinking", "tool_use", "tool_result", "image", "web_search_tool_result"]
        )
    },
    optional={
        "text": st.text(max_size=5) | ANYTHING,
        "thinking": st.text(max_size=5) | ANYTHING,
        "id": IDS | ANYTHING,
        "tool_use_id": IDS | ANYTHING,
        "name": st.sampled_from(["Bash", "Task", "AskUserQuestion", "ExitPlanMode"]) | ANYTHING,
        "input": st.fixed_dictionaries({"prompt": IDS}) | ANYTHING,
        "content": st.text(max_size=5) | ANYTHING,
        "is_error": ANYTHING,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS | ANYTHING,
        "content": st.lists(BLOCKS | ANYTHING, max_size=3) | st.text(max_size=5) | ANYTHING,
        "usage": st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), ANYTHING) | ANYTHING,
        "model": st.just("<synthetic>") | ANYTHING,
    },
)
ROWS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "user",
                "assistant",
                "system",
                "attachment",
                "tool_use",
                "tool_result",
                "summary",
                "custom-title",
            ]
        )
        | ANYTHING
    },
    optional={
        "uuid": IDS | ANYTHING,
        "parentUuid": IDS | ANYTHING,
        "sessionId": IDS | ANYTHING,
        "agentId": IDS | ANYTHING,
        "isSidechain": ANYTHING,
        "isMeta": ANYTHING,
        "isApiErrorMessage": ANYTHING,
        "timestamp": ANYTHING,
        "subtype": st.sampled_from(["turn_duration", "compact_boundary", "local_command"]) | ANYTHING,
        "message": MESSAGES | ANYTHING,
        "attachment": st.fixed_dictionaries({"type": st.just("queued_command"), "prompt": ANYTHING})
        | ANYTHING,
        "forkedFrom": st.fixed_dictionaries({"sessionId": IDS}) | ANYTHING,
        "toolUseResult": ANYTHING,
        "name": ANYTHING,
        "origin": ANYTHING,
        "error": ANYTHING,
        "apiErrorStatus": ANYTHING,
    },
)


@given(st.lists(ROWS | ANYTHING, max_size=12), st.sampled_from(["", "a.jsonl", "agent-x.jsonl"]))
def test_senseless_records_give_a_report_that_makes_sense(rows: list[Any], path: str) -> None:
    well_formed(read_claude_code(b"".join(json.dumps(row).encode() + b"\n" for row in rows), path))


def well_formed(transcript: Transcript) -> None:
    """What the importer's caller relies on."""
    ids = [session.session_id for session in transcript.sessions]
    assert len(set(ids)) == len(ids)
    for session in transcript.sessions:
        turns_in_order(session)
        message_ids = [message.message_id for message in messages_of(session)]
        assert len(set(message_ids)) == len(message_ids)
        for told in (session.session_id, *message_ids):
            assert told.strip() == told != ""
            assert told.isprintable()
            assert len(told) <= ID_CHARS_MAX + 112
        for message in messages_of(session):
            json.dumps(message.payload, allow_nan=False)


def turns_in_order(session: Session) -> None:
    """One turn at a time, each ended, and none named before it starts."""
    known: set[str] = set()
    live: str | None = None
    for entry in session.entries:
        match entry:
            case TurnStart():
                assert live is None
                live = entry.turn_id
                known.add(live)
            case TurnEnd():
                assert live == entry.turn_id
                live = None
            case Message():
                assert entry.turn_id in known or (entry.turn_id is None and entry.kind == "session_audit")
    assert live is None
