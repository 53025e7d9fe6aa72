"""What holds for every Codex and Gemini transcript: whole or cut, sound or senseless.

The players know the truth about the sessions they write: turns, texts, calls and tokens.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from application.transcript import Message, Session, Transcript
from infrastructure.transcripts.codex import read_codex
from infrastructure.transcripts.gemini import read_gemini
from tests.infrastructure.transcripts.codex_script import CodexScript
from tests.infrastructure.transcripts.outcome import (
    messages_of,
    texts_of,
    tool_calls_of,
    turns_of,
    usage_of,
)
from tests.infrastructure.transcripts.test_claude_code_properties import (
    ANYTHING,
    IDS,
    Truth,
    final_ends,
    starts,
    well_formed,
)
from tests.infrastructure.transcripts.test_codex import fork


class CodexPlayer:
    """Plays a random session in one of the shapes that Codex has had."""

    def __init__(self, draw: st.DrawFn, parent: CodexScript | None = None) -> None:
        self.draw = draw
        self.truth = Truth()
        shape = draw(st.sampled_from(["both", "both-reversed", "told", "shown"]))
        self.has_events = shape != "told"
        self.has_turn_records = self.has_events and draw(st.booleans())
        if parent is None:
            self.script = CodexScript(shape=shape)
            self.script.meta()
            self.prefix = "t"
        else:
            self.script = fork(parent)
            self.script.shape = shape
            self.script.at_ms += 60_000
            self.prefix = "own"
        self._calls = 0

    def turn(self, last: bool) -> None:
        number = len(self.truth.turns)
        if self.has_turn_records:
            self.script.started(f"{self.prefix}{number}")
        self.noise()
        text = self.draw(st.sampled_from(["go on", f"prompt {number}"]))
        self.script.user(text)
        self.truth.texts.append(text)
        judged, open_calls = "prompt", 0
        for _ in range(self.draw(st.integers(0, 3))):
            judged = self.draw(st.sampled_from(["text", "thought", "call", "open call"]))
            open_calls += self.step(judged)
            if self.has_events and self.draw(st.booleans()):
                self.tokens()
            self.noise()
        end = (
            "nothing"
            if not self.has_turn_records
            else self.draw(st.sampled_from(["end", "abort", "nothing"]))
        )
        guess = "completed" if judged == "text" and not open_calls else "interrupted"
        match end:
            case "end":
                self.script.complete(f"{self.prefix}{number}", last_agent_message=None)
                self.truth.turns.append("completed")
            case "abort":
                self.script.event("turn_aborted", reason="interrupted")
                self.truth.turns.append("interrupted")
            case _:
                self.truth.turns.append(guess + "?" * last)

    def step(self, what: str) -> bool:
        """One thing the agent does; True when it leaves a call open."""
        match what:
            case "text":
                text = self.draw(st.sampled_from(["done", f"answer {self._calls}"]))
                self.script.says(text)
                self.truth.texts.append(text)
            case "thought":
                self.script.thinks("hm")
            case _:
                self._calls += 1
                call_id = f"{self.prefix}-call{self._calls}"
                self.script.call(call_id, arguments=self.draw(st.sampled_from(['{"a":1}', "*** Begin", "{"])))
                if what == "open call":
                    self.truth.calls["running"] += 1
                    return True
                failed = self.draw(st.booleans())
                self.script.output(call_id, {"content": "x", "success": not failed})
                self.truth.calls["failed" if failed else "completed"] += 1
        return False

    def tokens(self) -> None:
        written = self.draw(st.integers(1, 50))
        self.script.tokens(10, written)
        self.truth.output_tokens += written

    def noise(self) -> None:
        match self.draw(st.integers(0, 7)):
            case 0:
                self.script.context()
            case 1 if self.has_events and self.script.total["total_tokens"]:
                self.script.tokens_again()
            case 2:
                self.script.rows.append(b"")
            case 3:
                self.script.injected()
            case 4:
                self.script.record("compacted", {"message": "so far"})


@st.composite
def codex_sessions(draw: st.DrawFn) -> CodexPlayer:
    player = CodexPlayer(draw)
    count = draw(st.integers(1, 4))
    for number in range(count):
        player.turn(last=number == count - 1)
    return player


@st.composite
def codex_forks(draw: st.DrawFn) -> tuple[CodexPlayer, CodexPlayer]:
    parent = draw(codex_sessions())
    player = CodexPlayer(draw, parent.script)
    count = draw(st.integers(1, 3))
    for number in range(count):
        player.turn(last=number == count - 1)
    return parent, player


def codex(data: bytes) -> Transcript:
    return read_codex(data, "rollout-x.jsonl")


class GeminiPlayer:
    """Plays a random session, as lines that are written again or as one document."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.truth = Truth()
        self.rows: list[Any] = [{"sessionId": "g", "projectHash": "h", "startTime": self.stamp(0)}]
        self.final: dict[str, Any] = {}
        self._seconds = 0
        self._calls = 0

    @property
    def data(self) -> bytes:
        return b"".join(json.dumps(row).encode() + b"\n" for row in self.rows)

    @property
    def document(self) -> bytes:
        return json.dumps({**self.rows[0], "messages": list(self.final.values())}, indent=1).encode()

    @staticmethod
    def stamp(seconds: int) -> str:
        return f"2026-05-01T10:{seconds // 60:02d}:{seconds % 60:02d}.000Z"

    def write(self, message_id: str, **fields: Any) -> None:
        row = {
            **self.final.get(message_id, {"id": message_id, "timestamp": self.stamp(self._seconds)}),
            **fields,
        }
        self.final[message_id] = row
        self.rows.append(row)
        self.noise()

    def turn(self, last: bool) -> None:
        number = len(self.truth.turns)
        self._seconds += 1
        self.write(f"u{number}", type="user", content=[{"text": f"prompt {number}"}])
        self.truth.texts.append(f"prompt {number}")
        judged, left_open = "prompt", False
        for step in range(self.draw(st.integers(0, 3))):
            self._seconds += 1
            judged, opened = self.answer(f"m{number}-{step}")
            left_open |= opened
        guess = "completed" if judged == "text" and not left_open else "interrupted"
        self.truth.turns.append(guess + "?" * last)

    def answer(self, message_id: str) -> tuple[str, bool]:
        text = self.draw(st.sampled_from(["", "short", "a longer answer"]))
        thoughts = [{"subject": "s", "description": "d"}] if self.draw(st.booleans()) else []
        first = text[: self.draw(st.integers(1, len(text)))] if text else ""
        self.write(message_id, type="gemini", content=first, thoughts=thoughts, tokens=None)
        self.write(message_id, content=text)
        calls = self.draw(
            st.lists(st.sampled_from(["success", "error", "cancelled", "executing"]), max_size=2)
        )
        if calls:
            self.calls(message_id, calls)
        if text:
            self.truth.texts.append(text)
        if text or thoughts or calls:
            output = self.draw(st.integers(1, 50))
            self.write(message_id, tokens={"input": 9, "output": 1, "cached": 3})
            self.write(message_id, tokens={"input": 9, "output": output, "cached": 3, "total": 9 + output})
            self.truth.output_tokens += output
        return ("text" if text and not calls else "other"), "executing" in calls

    def calls(self, message_id: str, statuses: list[str]) -> None:
        told = {"success": "completed", "error": "failed", "cancelled": "canceled", "executing": "running"}
        names = []
        for status in statuses:
            self._calls += 1
            names.append(f"c{self._calls}")
            self.truth.calls[told[status]] += 1
        open_calls = [{"id": name, "name": "sh", "status": "scheduled"} for name in names]
        self.write(message_id, toolCalls=open_calls)
        ended = [one | {"status": status} for one, status in zip(open_calls, statuses, strict=True)]
        self.write(message_id, toolCalls=ended)

    def noise(self) -> None:
        match self.draw(st.integers(0, 5)):
            case 0:
                self.rows.append({"$set": {"lastUpdated": self.stamp(self._seconds), "summary": "s"}})
            case 1:
                self.rows.append({"$rewindTo": "nobody"})
            case 2:
                self.rows.append(self.rows[-1])


@st.composite
def gemini_sessions(draw: st.DrawFn) -> GeminiPlayer:
    player = GeminiPlayer(draw)
    count = draw(st.integers(1, 3))
    for number in range(count):
        player.turn(last=number == count - 1)
    return player


def gemini(data: bytes) -> Transcript:
    return read_gemini(data, "session-x.jsonl")


def found(session: Session) -> Truth:
    calls = Counter(tool_calls_of(session))
    return Truth(turns_of(session), texts_of(session), calls, usage_of(session).get("output", 0))


@given(codex_sessions())
def test_the_truth_about_a_codex_session_is_found(player: CodexPlayer) -> None:
    transcript = codex(player.script.data)

    (session,) = transcript.sessions
    assert found(session) == player.truth
    assert (transcript.warnings, transcript.unknown) == ((), {})


@given(codex_forks())
def test_the_truth_about_a_codex_fork_is_found(family: tuple[CodexPlayer, CodexPlayer]) -> None:
    parent, own = family

    (session,) = codex(own.script.data).sessions

    assert found(session) == own.truth
    assert session.forked_from_session_id == parent.script.session


@given(gemini_sessions())
def test_the_truth_about_a_gemini_session_is_found(player: GeminiPlayer) -> None:
    (session,) = gemini(player.data).sessions
    (document,) = read_gemini(player.document, "session-x.json").sessions

    assert found(session) == found(document) == player.truth


def prefix_denies_nothing(data: bytes, share: float, read: Callable[[bytes], Transcript]) -> None:
    whole = read(data).sessions[0]
    by_id = {message.message_id: message for message in messages_of(whole)}
    for session in read(data[: int(len(data) * share)]).sessions:
        assert starts(session) == starts(whole)[: len(starts(session))]
        assert final_ends(session) == final_ends(whole)[: len(final_ends(session))]
        for message in messages_of(session):
            agrees(message, by_id[message.message_id])


def agrees(message: Message, grown: Message) -> None:
    assert (message.turn_id, message.role, message.kind) == (grown.turn_id, grown.role, grown.kind)
    assert grown.payload.get("text", "").startswith(message.payload.get("text", ""))
    for name, count in (message.usage or {}).items():
        assert (grown.usage or {})[name] >= count


@given(codex_sessions(), st.floats(0, 1))
def test_a_prefix_of_a_rollout_tells_nothing_that_the_whole_denies(player: CodexPlayer, share: float) -> None:
    prefix_denies_nothing(player.script.data, share, codex)


@given(codex_forks(), st.floats(0, 1))
def test_a_prefix_of_a_fork_tells_nothing_that_the_whole_denies(
    family: tuple[CodexPlayer, CodexPlayer], share: float
) -> None:
    prefix_denies_nothing(family[1].script.data, share, codex)


@given(gemini_sessions(), st.floats(0, 1))
def test_a_prefix_of_a_gemini_file_tells_nothing_that_the_whole_denies(
    player: GeminiPlayer, share: float
) -> None:
    prefix_denies_nothing(player.data, share, gemini)


READERS = pytest.mark.parametrize("read", [read_codex, read_gemini])
Read = Callable[[bytes, str], Transcript]


@READERS
@given(st.binary(max_size=300), st.sampled_from(["", "a.jsonl", "session-a.json"]) | st.text(max_size=60))
def test_any_bytes_under_any_name_give_a_report(read: Read, data: bytes, path: str) -> None:
    well_formed(read(data, path))


TEXTS = st.text(max_size=5) | ANYTHING
CONTENT = (
    st.lists(st.fixed_dictionaries({}, optional={"type": TEXTS, "text": TEXTS}) | ANYTHING, max_size=3)
    | TEXTS
)
CODEX_PAYLOADS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message",
                "reasoning",
                "function_call",
                "function_call_output",
                "web_search_call",
                "user_message",
                "agent_message",
                "agent_reasoning",
                "item_completed",
                "task_started",
                "task_complete",
                "turn_aborted",
                "token_count",
                "error",
                "thread_rolled_back",
                "exec_command_end",
            ]
        )
        | ANYTHING
    },
    optional={
        "id": IDS | ANYTHING,
        "role": st.sampled_from(["user", "assistant", "developer"]) | ANYTHING,
        "content": CONTENT,
        "summary": CONTENT,
        "message": TEXTS,
        "text": TEXTS,
        "last_agent_message": TEXTS,
        "call_id": IDS | ANYTHING,
        "turn_id": IDS | ANYTHING,
        "name": TEXTS,
        "arguments": st.just('{"a":1}') | ANYTHING,
        "output": st.just('{"output":"x"}') | ANYTHING,
        "started_at": ANYTHING,
        "timestamp": ANYTHING,
        "forked_from_id": IDS | ANYTHING,
        "source": ANYTHING,
        "num_turns": ANYTHING,
        "exit_code": ANYTHING,
        "info": st.fixed_dictionaries(
            {}, optional={"total_token_usage": ANYTHING, "last_token_usage": st.just({"output_tokens": 3})}
        )
        | ANYTHING,
        "item": st.fixed_dictionaries(
            {"type": st.sampled_from(["UserMessage", "AgentMessage", "Reasoning"])},
            optional={"content": CONTENT},
        )
        | ANYTHING,
        "codex_error_info": ANYTHING,
    },
)
CODEX_ROWS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["session_meta", "turn_context", "response_item", "event_msg", "compacted"])
        | ANYTHING
    },
    optional={"timestamp": ANYTHING, "payload": CODEX_PAYLOADS | ANYTHING, "role": ANYTHING, "id": IDS},
)
GEMINI_MESSAGES = st.fixed_dictionaries(
    {
        "id": IDS | ANYTHING,
        "type": st.sampled_from(["user", "gemini", "info", "error", "warning"]) | ANYTHING,
    },
    optional={
        "timestamp": ANYTHING,
        "content": CONTENT,
        "thoughts": st.lists(st.fixed_dictionaries({"subject": TEXTS}), max_size=2) | ANYTHING,
        "tokens": st.just({"output": 3}) | ANYTHING,
        "toolCalls": st.lists(
            st.fixed_dictionaries(
                {}, optional={"id": IDS, "status": TEXTS, "result": ANYTHING, "name": TEXTS}
            ),
            max_size=2,
        )
        | ANYTHING,
    },
)
GEMINI_ROWS = (
    GEMINI_MESSAGES
    | st.fixed_dictionaries({"$rewindTo": IDS | ANYTHING})
    | st.fixed_dictionaries(
        {
            "$set": st.fixed_dictionaries(
                {}, optional={"messages": st.lists(GEMINI_MESSAGES, max_size=2) | ANYTHING}
            )
        }
    )
    | st.fixed_dictionaries(
        {"sessionId": IDS | ANYTHING}, optional={"kind": st.just("subagent"), "directories": ANYTHING}
    )
)


@pytest.mark.parametrize(("read", "rows"), [(read_codex, CODEX_ROWS), (read_gemini, GEMINI_ROWS)])
@given(st.data(), st.sampled_from(["", "a.jsonl", "session-x.jsonl"]))
def test_senseless_records_give_a_report_that_makes_sense(
    read: Read, rows: st.SearchStrategy[Any], data: st.DataObject, path: str
) -> None:
    drawn = data.draw(st.lists(rows | ANYTHING, max_size=12))

    well_formed(read(b"".join(json.dumps(row).encode() + b"\n" for row in drawn), path))
