"""Faults that others have met with transcripts, written anew as bytes and taken in."""

import json
from hashlib import sha256
from typing import Any

import pytest

from application.importing import ImportResult, import_transcript
from application.transcript import Transcript
from domain import jsontext
from domain.session import RecordKept
from infrastructure.transcripts.claude_code import read_claude_code
from infrastructure.transcripts.codex import read_codex
from tests.domain.story import ROOM, Story
from tests.infrastructure.transcripts.codex_script import CodexScript
from tests.infrastructure.transcripts.script import SESSION, Script
from tests.infrastructure.transcripts.test_codex import fork


def take(story: Story, data: bytes) -> tuple[Transcript, ImportResult]:
    transcript = read_claude_code(data, f"{SESSION}.jsonl")
    digest = sha256(data).hexdigest()
    return transcript, import_transcript(
        story.ledger, transcript, import_id="file-1", digest=digest, room=ROOM
    )


def texts(story: Story) -> list[Any]:
    messages = sorted(story.messages(SESSION).values(), key=lambda message: message.id)
    return [one.payload["text"] for one in messages if one.kind == "text"]


def kept(story: Story) -> list[RecordKept]:
    return [one.event for one in story.events(SESSION) if isinstance(one.event, RecordKept)]


def test_a01_spliced_lines(story: Story) -> None:
    """Case A01: Two records on one line, a record glued to a cut one, and a record behind NUL bytes are all
    found; the damaged bytes are kept with their places, and the session can be read.
    """
    script = Script()
    script.user("Add a test")
    script.text("msg-a", "I will add one.")
    script.call("msg-a", "call-1", "Write", path="t.py")
    script.result("call-1", "ok")
    script.user("A record that was cut")
    script.user("Thanks")
    script.text("msg-c", "You are welcome.")
    prompt, answer, call, result, cut, thanks, last = script.rows
    data = b"\n".join([prompt, answer, call + result, cut[:150] + thanks, b"\0" * 64 + last]) + b"\n"

    transcript, imported = take(story, data)

    assert (transcript.records, imported.damaged) == (6, 3)
    assert texts(story) == ["Add a test", "I will add one.", "Thanks", "You are welcome."]
    assert story.session(SESSION).status == "idle"
    assert story.message("call-1", SESSION).status == "completed"
    raw = [(one.content or {})["raw"].encode() for one in kept(story)]
    assert raw == [cut[:150], b"\0" * 64]
    assert [data[one.offset : one.offset + one.length] for one in kept(story)] == raw
    assert [one.code for one in imported.warnings].count("damaged_line") == 3


def test_a02_a_torn_tail_and_then_the_file_grows(story: Story) -> None:
    """Case A02: A record that was cut at the end of the file is read when it is whole, exactly once."""
    script = Script()
    script.user("Add a test")
    script.text("msg-a", "I will add one.")
    script.call("msg-a", "call-1", "Write", path="t.py")
    script.result("call-1", "ok")
    whole = len(script.data)
    script.text("msg-b", "Done.")
    torn = script.data[: whole + 150]

    before, first = take(story, torn)
    grown, second = take(story, script.data)
    _, third = take(story, script.data)

    assert (before.records, before.torn, first.damaged) == (4, True, 0)
    assert (grown.records, grown.torn, second.messages) == (5, False, 1)
    assert (third.events, third.messages) == (0, 0)
    assert texts(story) == ["Add a test", "I will add one.", "Done."]


def take_rollout(story: Story, name: str, data: bytes) -> ImportResult:
    transcript = read_codex(data, f"{name}.jsonl")
    digest = sha256(data).hexdigest()
    return import_transcript(story.ledger, transcript, import_id=f"codex:{name}", digest=digest, room=ROOM)


def test_a03_a_record_cut_and_written_again_whole(story: Story) -> None:
    """Case A03: A record that was cut, with its line end, and written again whole, is read once; the rest of
    the session is there.
    """
    script = CodexScript()
    script.meta()
    script.event("user_message", message="go on")
    script.item("reasoning", summary=[], encrypted_content="QUJDREVG")
    whole = script.rows[-1]
    script.rows[-1:] = [whole[:-8], b"", whole]
    script.event("agent_message", message="done")

    imported = take_rollout(story, "r", script.data)

    spoken = [one.kind for one in story.messages(script.session).values()]
    assert (spoken.count("text"), spoken.count("reasoning"), imported.damaged) == (2, 1, 1)
    assert [one.session for one in story.ledger.sessions(ROOM)] == [script.session]


@pytest.mark.parametrize("fork_first", [False, True])
def test_a07_a_fork_carries_a_copy_of_its_parent(story: Story, fork_first: bool) -> None:
    """Case A07: The copied turn stays its parent's, whichever file comes first; tokens are counted once."""
    parent = CodexScript(shape="both")
    parent.meta()
    parent.started("t1")
    parent.user("count the files")
    parent.call("c1")
    parent.output("c1", "3")
    parent.says("3 files")
    parent.tokens(1000, 50)
    parent.complete("t1", last_agent_message="3 files")
    own = fork(parent)
    own.shape, own.at_ms = "shown", 660_000
    own.started("t2")
    own.user("and the folders?")
    own.says("1 folder")
    own.tokens(900, 10, cached=900)
    own.complete("t2")

    for script in (own, parent) if fork_first else (parent, own):
        take_rollout(story, script.session, script.data)

    source, forked = story.session(parent.session), story.session(own.session)
    assert forked.forked_from == {"session": parent.session}
    assert (forked.turns, forked.messages, forked.usage["total"]) == (1, 2, 910)
    assert (source.turns, source.messages, source.usage["total"]) == (1, 2, 1050)


def test_a05_a_parent_that_was_never_written(story: Story) -> None:
    """Case A05: A record whose parent is not in the file breaks no conversation: file order is the order."""
    script = Script()
    for number, text in enumerate(("one", "two", "three")):
        if number == 1:
            script.latest = "0c000000-0000-4000-8000-00000000dead"
        prompt = script.user(text)
        script.text(f"msg-{number}", str(number + 1))
        if number == 1:
            script.raw({"type": "file-history-snapshot", "messageId": prompt, "snapshot": {}})

    _, imported = take(story, script.data)

    view = story.session(SESSION)
    assert (view.messages, view.turns, imported.messages) == (6, 3, 6)
    assert texts(story) == ["one", "1", "two", "2", "three", "3"]
    assert [one.code for one in imported.warnings] == ["unknown_parent"]


def test_a06_one_api_message_on_many_rows(story: Story) -> None:
    """Case A06: Rows of one API message are one message, and its growing usage is counted once; the second
    import adds nothing.
    """
    script = Script()
    script.user("List and read")
    script.thinking("msg-a", "look first", output=5)
    script.text("msg-a", "I will look.", output=5)
    script.progress()
    fork = script.call("msg-a", "call-1", "Bash", output=631, command="ls")
    script.call("msg-a", "call-2", "Read", output=631, file_path="a.py")
    script.result("call-2", "1: x = 1")
    script.latest = fork
    script.result("call-1", "a.py")
    script.text("msg-b", "One file, a.py.", output=12)

    take(story, script.data)
    _, again = take(story, script.data)

    spoken = [one for one in story.messages(SESSION).values() if one.kind == "text"]
    assert [one.role for one in spoken].count("assistant") == 2
    view = story.session(SESSION)
    assert (view.tool_calls, view.usage["output"]) == (2, 643)
    assert story.message("call-1", SESSION).payload["output"]
    assert again.events == 0


HOSTILE = (
    "show me 😀 and e\u0301 (combining) \u202eabc",
    "cut emoji \ud83d, nul \0, esc \x1b[31mred, sep \u2028",
    "bad bytes: \udcff\udcfe id 2512292042121000001 float 1e400",
)


def test_g07_hostile_text(story: Story) -> None:
    """Case G07: Lone surrogates, NUL, escapes, bytes that are no UTF-8 and a result without its call: every
    record is stored and comes back by one rule; the bad bytes are flagged and can be told back.
    """
    script = Script()
    prompt, answer, result = HOSTILE
    script.user(prompt)
    script.text("msg-a", answer)
    script.result("call-9", result)
    script.user("raw invalid utf-8 XX end")
    data = script.data.replace(b"utf-8 XX end", b"utf-8 \xff\xfe end")

    transcript, imported = take(story, data)
    story.ledger.rebuild()

    assert transcript.records == 4
    assert {one.code for one in imported.warnings} == {"invalid_utf8", "unknown_tool_call"}
    spoken = texts(story)
    assert spoken[:2] == [prompt, answer]
    assert spoken[2].encode("utf-8", "surrogateescape") == b"raw invalid utf-8 \xff\xfe end"
    assert result in json.dumps(story.message("call-9", SESSION).payload, ensure_ascii=False)
    for message in story.messages(SESSION).values():
        spelled = jsontext.to_bytes(message.payload)
        assert spelled.decode("utf-8")
        assert jsontext.from_bytes(spelled) == message.payload


@pytest.mark.parametrize("tail", [b"", b"\n", b'{"type":'])
def test_a_file_that_tells_nothing_makes_no_session(tail: bytes, story: Story) -> None:
    """Case A02: A file that has only begun brings no blank session."""
    take(story, tail)

    assert story.ledger.sessions(ROOM) == ()
