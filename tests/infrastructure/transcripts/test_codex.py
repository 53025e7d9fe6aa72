"""What a Codex rollout tells, record by record."""

import json
from typing import Any

import pytest

from application.transcript import Session, Transcript
from infrastructure.transcripts.codex import read_codex
from tests.infrastructure.transcripts.codex_script import SESSION, CodexScript
from tests.infrastructure.transcripts.outcome import (
    interactions_of,
    kept_of,
    messages_of,
    texts_of,
    tool_calls_of,
    turns_of,
    usage_of,
    warnings_of,
)

SHAPES = ("both", "both-reversed", "told", "shown")


def read(script: CodexScript) -> Transcript:
    return read_codex(script.data, f"rollout-2026-04-01T08-00-00-{script.session}.jsonl")


def only(script: CodexScript) -> Session:
    (session,) = read(script).sessions
    return session


def one_turn(**more: Any) -> CodexScript:
    script = CodexScript(**more)
    script.meta()
    script.started("t1")
    script.injected()
    script.context()
    script.user("count the files")
    script.thinks("look first")
    script.call("c1")
    script.output("c1", "3")
    script.says("3 files")
    script.tokens(100, 20, cached=60)
    script.complete("t1", last_agent_message="3 files")
    return script


@pytest.mark.parametrize("shape", SHAPES)
def test_a_text_told_twice_counts_once(shape: str) -> None:
    session = only(one_turn(shape=shape))

    assert texts_of(session) == ["count the files", "3 files"]
    assert [one.payload["text"] for one in messages_of(session) if one.kind == "reasoning"] == ["look first"]
    assert (turns_of(session), tool_calls_of(session)) == (["completed"], {"completed": 1})
    assert usage_of(session) == {"input": 40, "cachedInput": 60, "output": 20, "total": 120}


@pytest.mark.parametrize("shape", SHAPES)
def test_without_records_of_turns_a_prompt_begins_one(shape: str) -> None:
    script = CodexScript(shape=shape)
    script.meta()
    script.injected("<user_instructions>be brief</user_instructions>")
    for number in range(2):
        script.user(f"prompt {number}")
        script.context()
        script.says(f"answer {number}")

    session = only(script)

    assert turns_of(session) == ["completed", "completed?"]
    assert texts_of(session) == ["prompt 0", "answer 0", "prompt 1", "answer 1"]


def test_the_same_words_in_two_turns_are_two_messages() -> None:
    script = CodexScript()
    script.meta()
    for turn in ("t1", "t2"):
        script.started(turn)
        script.user("go on")
        script.says("done")
        script.complete(turn)

    assert texts_of(only(script)) == ["go on", "done", "go on", "done"]


def test_what_the_client_puts_under_the_users_name_is_no_prompt() -> None:
    script = CodexScript()
    script.meta()
    script.started("t1")
    script.message("developer", "rules")
    script.message("user", "a plugin's text that begins like no other")
    script.user("go")
    script.says("done")
    script.complete("t1")

    session = only(script)

    assert texts_of(session) == ["go", "done"]
    notes = [one.payload["text"] for one in messages_of(session) if one.kind == "session_audit"]
    assert notes == ["rules", "a plugin's text that begins like no other"]


def test_a_prompt_typed_while_the_agent_works_joins_its_turn() -> None:
    script = CodexScript()
    script.meta()
    script.started("t1")
    script.user("go")
    script.says("working")
    script.user("faster")
    script.says("done")
    script.complete("t1")

    session = only(script)

    assert turns_of(session) == ["completed"]
    assert texts_of(session) == ["go", "working", "faster", "done"]


def test_the_last_words_stand_alone_where_they_were_not_told() -> None:
    script = CodexScript()
    script.meta()
    script.started("t1")
    script.user("go")
    script.complete("t1", last_agent_message="done")

    assert texts_of(only(script)) == ["go", "done"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"cmd":"ls"}', {"cmd": "ls"}),
        ({"cmd": "ls"}, {"cmd": "ls"}),
        ("*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** End Patch"),
        ('{"cmd":', '{"cmd":'),
        ('{"n": NaN, "big": 123456789012345678901}', {"n": "NaN", "big": "123456789012345678901"}),
    ],
)
def test_arguments_are_kept_whatever_they_are(arguments: Any, kept: Any) -> None:
    script = one_turn()
    script.call("c2", arguments=arguments)

    (call,) = [one for one in messages_of(only(script)) if one.message_id == "c2"]
    assert call.payload["input"] == kept
    assert call.status == "running"


@pytest.mark.parametrize(
    ("output", "status", "text"),
    [
        ("fine", "completed", "fine"),
        ({"content": "fine", "success": True}, "completed", "fine"),
        ({"content": "bad", "success": False}, "failed", "bad"),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "completed", "a\n\n[input_image]"),
        ('{"output":"no such file","metadata":{"exit_code":2}}', "failed", "no such file"),
        ('{"output":"fine","metadata":{"exit_code":0}}', "completed", "fine"),
        ("Exit code: 1\nOutput:\nno", "failed", "Exit code: 1\nOutput:\nno"),
        ("Exit code: 0\nOutput:\nyes", "completed", "Exit code: 0\nOutput:\nyes"),
        ("aborted by user after 1.2s", "canceled", "aborted by user after 1.2s"),
    ],
)
def test_outputs_of_every_shape(output: Any, status: str, text: str) -> None:
    script = one_turn()
    script.call("c2")
    script.output("c2", output)

    (call,) = [one for one in messages_of(only(script)) if one.message_id == "c2"]
    body = call.payload["output" if status == "completed" else "error"]
    assert (call.status, body["text"]) == (status, text)


def test_a_refused_call_is_an_approval_answered_with_no() -> None:
    script = one_turn()
    script.call("c2")
    script.output("c2", "exec command rejected by user")

    (approval,) = interactions_of(only(script))
    assert (approval.kind, approval.request_id, (approval.output or {})["decision"]) == (
        "approval",
        "c2",
        "deny",
    )


def test_a_tool_that_ended_badly_failed_whatever_its_output_says() -> None:
    script = one_turn()
    script.call("c2")
    script.event("exec_command_end", call_id="c2", exit_code=127, aggregated_output="x" * 9)
    script.output("c2", "x" * 9)

    assert tool_calls_of(only(script)) == {"completed": 1, "failed": 1}


def test_calls_that_bring_their_own_result() -> None:
    script = one_turn()
    script.item("web_search_call", status="completed", action={"type": "search", "query": "tides"})
    script.item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["ls"]})
    script.output("c3")
    script.item("custom_tool_call", call_id="c4", name="apply_patch", input="*** Begin Patch")
    script.item("custom_tool_call_output", call_id="c4", output="Done")

    session = only(script)

    assert tool_calls_of(session) == {"completed": 4}
    names = [one.payload["toolName"] for one in messages_of(session) if one.kind == "tool_call"]
    assert names == ["exec_command", "web_search", "local_shell", "apply_patch"]


def test_a_killed_agent_leaves_a_turn_and_a_call_open() -> None:
    script = CodexScript()
    script.meta()
    script.started("t1")
    script.user("go")
    script.call("c1")

    session = only(script)

    assert (turns_of(session), tool_calls_of(session)) == (["interrupted?"], {"running": 1})


def test_an_aborted_turn_was_interrupted_and_an_error_fails_one() -> None:
    script = CodexScript()
    script.meta()
    script.started("t1")
    script.user("go")
    script.event("turn_aborted", turn_id="t1", reason="interrupted")
    script.started("t2")
    script.user("again")
    script.event("error", message="usage limit reached", codex_error_info="usage_limit_exceeded")
    script.complete("t2")

    session = only(script)

    assert turns_of(session) == ["interrupted", "failed"]
    (notice,) = [one for one in messages_of(session) if one.kind == "notice"]
    assert notice.payload == {"text": "usage limit reached", "errorCode": "usage_limit_exceeded"}


def test_totals_told_again_cost_nothing() -> None:
    script = one_turn()
    script.tokens_again()
    script.event("token_count", info=None)
    script.started("t2")
    script.user("more")
    script.says("more")
    script.tokens(10, 1)

    assert usage_of(only(script))["total"] == 131


def test_a_compaction_is_a_note_and_history_stays() -> None:
    script = one_turn()
    script.record("compacted", {"message": "what was said", "replacement_history": []})
    script.event("context_compacted")

    session = only(script)

    (note,) = [one for one in messages_of(session) if one.payload.get("source") == "compacted"]
    assert note.payload["text"] == "what was said"
    assert texts_of(session) == ["count the files", "3 files"]


def test_turns_taken_back_stay_in_history() -> None:
    script = one_turn()
    for turn in ("t2", "t3"):
        script.started(turn)
        script.user(f"wrong {turn}")
        script.complete(turn)
    script.event("thread_rolled_back", num_turns=2)
    script.started("t4")
    script.user("right")

    messages = [one for one in messages_of(only(script)) if one.kind == "text"]

    assert [one.payload["text"] for one in messages if one.rewound] == ["wrong t2", "wrong t3"]
    assert [one.payload["text"] for one in messages if not one.rewound][-1] == "right"


def test_unknown_records_are_kept_and_counted() -> None:
    script = one_turn()
    script.event("brand_new", x=1)
    script.item("brand_new_item")
    script.record("brand_new_record", {})
    script.raw([1])

    transcript = read(script)

    assert transcript.unknown == {
        "event_msg/brand_new": 1,
        "response_item/brand_new_item": 1,
        "brand_new_record": 1,
        "no object": 1,
    }
    assert len(kept_of(transcript.sessions[0])) == 4


# Forks and sub-agents.


def fork(parent: CodexScript, own: str = "0d000000-0000-7000-8000-0000000000bb") -> CodexScript:
    """A fork of the parent, ten minutes later: the copy is written in one go."""
    script = CodexScript(own)
    script.at_ms = 600_000
    script.meta(forked_from_id=parent.session)

    for row in filter(None, parent.rows):
        fields = json.loads(row)
        script.raw({**fields, "timestamp": f"2026-04-01T08:10:00.{len(script.rows):03d}Z"})
    script.total = dict(parent.total)
    return script


def test_a_fork_owns_what_came_after_the_copy() -> None:
    parent = one_turn()
    script = fork(parent)
    script.at_ms = 660_000
    script.started("t2")
    script.user("and the folders?")
    script.says("1 folder")
    script.tokens(900, 10, cached=900)
    script.complete("t2")

    transcript = read(script)

    (session,) = transcript.sessions
    assert (session.session_id, session.forked_from_session_id) == (script.session, parent.session)
    assert texts_of(session) == ["and the folders?", "1 folder"]
    assert usage_of(session)["total"] == 910
    assert warnings_of(transcript) == ["copied_records"]


def test_a_fork_of_a_time_without_records_of_turns() -> None:
    parent = CodexScript()
    parent.meta()
    parent.user("count the files")
    parent.says("3 files")
    script = fork(parent)
    script.at_ms = 660_000
    script.user("and the folders?")
    script.says("1 folder")

    assert texts_of(only(script)) == ["and the folders?", "1 folder"]


def test_a_sub_agent_names_its_parent() -> None:
    script = CodexScript()
    spawn = {"parent_thread_id": "parent-1", "depth": 1, "agent_nickname": "Scout", "agent_role": "explorer"}
    script.meta(source={"subagent": {"thread_spawn": spawn}})
    script.started("t1")
    script.user("look around")
    script.says("seen")
    script.complete("t1")

    session = only(script)

    assert (session.parent_session_id, session.root_session_id, session.title) == (
        "parent-1",
        "parent-1",
        "Scout",
    )
    assert texts_of(session) == ["look around", "seen"]


def test_a_sub_agent_that_starts_in_the_second_of_its_fork_owns_its_turn() -> None:
    parent = one_turn()
    script = fork(parent)
    script.step_ms = 5
    script.at_ms = 600_050
    script.event("task_started", turn_id="t2", started_at=1_775_031_000)
    script.user("look around")
    script.says("seen")

    assert texts_of(only(script)) == ["look around", "seen"]


# Before the envelope.


def test_bare_records_of_the_first_rollouts() -> None:
    script = CodexScript()
    script.raw({"id": SESSION, "timestamp": "2025-09-01T10:00:00Z", "instructions": None, "git": {}})
    script.raw({"record_type": "state"})
    content = [{"type": "input_text", "text": "<environment_context>zsh</environment_context>"}]
    script.raw({"type": "message", "id": None, "role": "user", "content": content})
    script.raw({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]})
    script.raw({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]})
    script.raw({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"})
    script.raw({"type": "function_call_output", "call_id": "c1", "output": "ok"})
    script.raw({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]})

    transcript = read(script)

    (session,) = transcript.sessions
    assert (session.session_id, transcript.unknown, transcript.warnings) == (SESSION, {}, ())
    assert (texts_of(session), tool_calls_of(session)) == (["go", "done"], {"completed": 1})
    assert turns_of(session) == ["completed?"]
