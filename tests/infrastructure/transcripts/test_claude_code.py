"""Claude Code records become sessions, turns and messages: the rules, told one by one."""

import json
from typing import Any

import pytest

from application.transcript import Message, Session, Transcript, TurnStart
from infrastructure.transcripts.claude_code import read_claude_code
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
from tests.infrastructure.transcripts.script import SESSION, T0_MS, Script

OTHER = "5e550000-0000-4000-8000-000000000002"
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


@pytest.fixture
def script() -> Script:
    return Script()


def read(script: Script, path: str = f"{SESSION}.jsonl", meta: bytes = b"") -> Transcript:
    return read_claude_code(script.data, path, meta)


def session_of(script: Script) -> Session:
    (session,) = read(script).sessions
    return session


def message(session: Session, message_id: str) -> Message:
    (found,) = [m for m in messages_of(session) if m.message_id == message_id]
    return found


class TestTurns:
    def test_a_prompt_starts_a_turn_and_names_it_and_its_message(self, script: Script) -> None:
        prompt = script.user("hello")

        session = session_of(script)

        start = session.entries[0]
        assert isinstance(start, TurnStart)
        assert (start.turn_id, start.at_ms, start.origin) == (prompt, T0_MS, "user_prompt")
        assert message(session, prompt).payload == {"text": "hello"}
        assert message(session, prompt).turn_id == prompt

    def test_a_turn_left_open_is_completed_provisionally_after_a_text(self, script: Script) -> None:
        script.user("hello")
        script.text("m1", "hi")
        script.progress()

        assert turns_of(session_of(script)) == ["completed?"]

    @pytest.mark.parametrize("last", ["prompt", "thinking", "call", "result", "text beside an open call"])
    def test_a_turn_left_open_elsewhere_is_interrupted(self, script: Script, last: str) -> None:
        script.user("hello")
        match last:
            case "thinking":
                script.thinking("m1", "hm")
            case "call":
                script.call("m1", "c1")
            case "result":
                script.call("m1", "c1")
                script.result("c1")
            case "text beside an open call":
                script.call("m1", "c1")
                script.text("m1", "meanwhile")

        assert turns_of(session_of(script)) == ["interrupted?"]

    def test_the_next_prompt_ends_a_turn_for_good(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "1")
        script.user("two")
        script.user("three")

        assert turns_of(session_of(script)) == ["completed", "interrupted", "interrupted?"]

    def test_the_end_record_completes_a_turn(self, script: Script) -> None:
        script.user("one")
        script.thinking("m1", "hm")
        script.turn_end()

        assert turns_of(session_of(script)) == ["completed"]

    def test_the_interrupt_marker_ends_a_turn(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "I will")
        script.interrupt()

        session = session_of(script)

        assert turns_of(session) == ["interrupted"]
        assert texts_of(session) == ["one", "I will"]

    def test_a_quoted_interrupt_marker_is_a_prompt(self, script: Script) -> None:
        script.user("What does [Request interrupted by user] mean?")
        script.text("m1", "You pressed escape.")

        assert turns_of(session_of(script)) == ["completed?"]

    def test_late_content_stays_on_the_turn_that_ended(self, script: Script) -> None:
        prompt = script.user("one")
        script.turn_end()
        script.text("m1", "late")

        session = session_of(script)

        assert turns_of(session) == ["completed"]
        assert message(session, "m1").turn_id == prompt

    def test_a_file_that_begins_inside_a_turn_has_one_the_agent_began(self, script: Script) -> None:
        first = script.call("m1", "c1")
        script.result("c1")
        script.text("m2", "done")
        script.user("next")

        session = session_of(script)

        start = session.entries[0]
        assert isinstance(start, TurnStart)
        assert (start.turn_id, start.origin) == (first, "provider_initiated")
        assert turns_of(session) == ["completed", "interrupted?"]

    @pytest.mark.parametrize(
        ("content", "fields"),
        [
            ("Caveat: local commands follow.", {"isMeta": True}),
            ("This session is being continued.", {"isCompactSummary": True}),
            ("<command-name>/exit</command-name>", {}),
            ("<local-command-stdout>bye</local-command-stdout>", {}),
            ("<task-notification>done</task-notification>", {}),
            ("a task is done", {"origin": {"kind": "task-notification"}}),
            ("Operation stopped by hook: no", {}),
        ],
    )
    def test_what_the_client_wrote_is_a_note_and_no_prompt(
        self, script: Script, content: str, fields: dict[str, Any]
    ) -> None:
        uuid = script.user(content, **fields)

        session = session_of(script)

        note = message(session, uuid)
        assert turns_of(session) == []
        assert (note.kind, note.role, note.turn_id) == ("session_audit", "system", None)
        assert note.payload["text"] == content

    def test_a_slash_command_starts_a_turn_when_the_model_answers_it(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "1")
        command = script.user("<command-name>/review</command-name>")
        script.user("Review the change.", isMeta=True)
        script.text("m2", "Looks good.")

        session = session_of(script)

        assert turns_of(session) == ["completed", "completed?"]
        assert message(session, "m2").turn_id == command

    def test_a_slash_command_that_the_client_answered_starts_no_turn(self, script: Script) -> None:
        prompt = script.user("one")
        script.user("<command-name>/cost</command-name>")
        script.user("<local-command-stdout>cheap</local-command-stdout>")
        script.text("m1", "1")

        session = session_of(script)

        assert turns_of(session) == ["completed?"]
        assert message(session, "m1").turn_id == prompt

    def test_news_of_a_task_wakes_the_agent_after_a_turn_only(self, script: Script) -> None:
        prompt = script.user("one")
        script.user("<task-notification>half</task-notification>")
        script.text("m1", "1")
        script.turn_end()
        news = script.user("<task-notification>done</task-notification>")
        script.text("m2", "The task is done.")

        session = session_of(script)

        origins = [entry.origin for entry in session.entries if isinstance(entry, TurnStart)]
        assert origins == ["user_prompt", "provider_initiated"]
        assert (message(session, "m1").turn_id, message(session, "m2").turn_id) == (prompt, news)

    def test_a_prompt_typed_while_the_agent_works_joins_its_turn(self, script: Script) -> None:
        prompt = script.user("one")
        queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "and hurry"}
        steering = script.row("attachment", attachment=queued)
        script.text("m1", "1")

        session = session_of(script)

        assert turns_of(session) == ["completed?"]
        assert message(session, steering).turn_id == prompt
        assert texts_of(session) == ["one", "and hurry", "1"]

    def test_a_queued_prompt_starts_a_turn_when_none_is_open(self, script: Script) -> None:
        script.row(
            "attachment", attachment={"type": "queued_command", "prompt": [{"type": "text", "text": "go"}]}
        )

        assert texts_of(session_of(script)) == ["go"]

    def test_an_api_error_fails_the_turn_and_is_no_answer(self, script: Script) -> None:
        script.user("one")
        uuid = script.text(
            "m1", "Limit reached", isApiErrorMessage=True, error="rate_limit", apiErrorStatus=429
        )
        script.turn_end()

        session = session_of(script)

        end = session.entries[-1]
        assert turns_of(session) == ["failed"]
        assert (getattr(end, "error_code", ""), getattr(end, "error_message", "")) == (
            "rate_limit",
            "Limit reached",
        )
        assert message(session, uuid).kind == "notice"
        assert texts_of(session) == ["one"]

    def test_an_answer_after_an_api_error_heals_the_turn(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "Overloaded", isApiErrorMessage=True)
        script.text("m2", "1")

        assert turns_of(session_of(script)) == ["completed?"]


class TestMessages:
    def test_the_rows_of_one_api_message_are_one_message(self, script: Script) -> None:
        script.user("one")
        script.thinking("m1", "first")
        script.text("m1", "A")
        script.progress()
        script.thinking("m1", "second")
        script.text("m1", "B")

        session = session_of(script)

        assert message(session, "m1").payload == {"text": "A\n\nB"}
        assert message(session, "m1:reasoning").payload == {"text": "first\n\nsecond"}
        assert message(session, "m1").completed_at_ms == T0_MS + 5_000

    def test_a_row_that_repeats_a_text_adds_nothing(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "lol")
        script.text("m1", "lol", parentUuid=None)

        transcript = read(script)

        assert texts_of(transcript.sessions[0]) == ["one", "lol"]
        assert transcript.duplicates == 1

    def test_usage_is_counted_once_at_its_greatest(self, script: Script) -> None:
        script.user("one")
        script.thinking("m1", "hm", output=5)
        script.text("m1", "A", output=5)
        script.call("m1", "c1", output=631)
        script.text("m2", "B", output=12)

        assert usage_of(session_of(script)) == {
            "input": 220,
            "cachedInput": 2000,
            "output": 643,
            "total": 2863,
        }

    def test_usage_stands_on_the_message_of_the_first_row(self, script: Script) -> None:
        """A later row must not move it, or an earlier import and a later one would count it twice."""
        script.user("one")
        script.thinking("m1", "hm")
        script.text("m1", "A")

        session = session_of(script)

        assert message(session, "m1:reasoning").usage == {
            "input": 110,
            "cachedInput": 1000,
            "output": 1,
            "total": 1111,
        }
        assert message(session, "m1").usage is None

    def test_a_row_without_message_id_is_named_by_its_request_then_by_itself(self, script: Script) -> None:
        script.user("one")
        script.text("", "A", requestId="req1")
        script.text("", "B", requestId="req1")
        alone = script.text("", "C")

        session = session_of(script)

        assert message(session, "req1").payload == {"text": "A\n\nB"}
        assert message(session, alone).payload == {"text": "C"}

    def test_an_id_that_no_store_carries_is_derived(self, script: Script) -> None:
        script.user("one", uuid="a\0b")
        script.text("x" * 2000, "A")

        ids = [m.message_id for m in messages_of(session_of(script))]

        assert all(len(message_id) == 36 for message_id in ids)
        assert ids == [m.message_id for m in messages_of(session_of(script))]

    def test_an_attached_image_stays_with_the_prompt(self, script: Script) -> None:
        image = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
        uuid = script.user([{"type": "text", "text": "look"}, image])

        assert message(session_of(script), uuid).payload == {"text": "look", "attachments": [image]}

    def test_an_unknown_content_block_is_kept_and_counted(self, script: Script) -> None:
        script.user("one")
        script.reply("m1", {"type": "hologram"}, {"type": "text", "text": "A"})

        transcript = read(script)

        assert transcript.unknown == {"assistant/hologram": 1}
        assert texts_of(transcript.sessions[0]) == ["one", "A"]
        assert [kept.reason for kept in kept_of(transcript.sessions[0])] == ["unknown"]


class TestToolCalls:
    def test_results_join_their_calls_in_whatever_order(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1", command="ls")
        script.call("m1", "c2", "Read")
        script.result("c2", "text of the file")
        script.result("c1", [{"type": "text", "text": "a.py"}], toolUseResult={"stdout": "a.py", "code": 0})

        session = session_of(script)

        assert message(session, "c1").payload == {
            "toolName": "Bash",
            "input": {"command": "ls"},
            "output": {"text": "a.py", "details": {"code": 0}},
        }
        assert message(session, "c2").payload["output"] == {"text": "text of the file"}
        assert tool_calls_of(session) == {"completed": 2}

    def test_a_failed_tool_has_an_error(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1")
        script.result("c1", "Exit code 1", error=True)

        call = message(session_of(script), "c1")

        assert (call.status, call.payload["error"]) == ("failed", {"text": "Exit code 1"})

    def test_a_call_without_a_result_is_running(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1")

        assert tool_calls_of(session_of(script)) == {"running": 1}

    def test_a_result_without_a_call_stands_alone(self, script: Script) -> None:
        script.user("one")
        script.result("c9", "ok")

        transcript = read(script)

        assert message(transcript.sessions[0], "c9").payload == {"output": {"text": "ok"}}
        assert warnings_of(transcript) == ["unknown_tool_call"]

    def test_a_refused_tool_is_an_approval_answered_with_no(self, script: Script) -> None:
        prompt = script.user("one")
        script.call("m1", "c1", command="rm")
        script.result("c1", REFUSED, error=True)
        script.interrupt()

        session = session_of(script)

        (approval,) = interactions_of(session)
        assert (approval.kind, approval.turn_id, approval.request_id) == ("approval", prompt, "c1")
        assert (approval.tool_name, approval.input) == ("Bash", {"command": "rm"})
        assert approval.output == {"decision": "deny", "message": REFUSED}
        assert tool_calls_of(session) == {"canceled": 1}
        assert turns_of(session) == ["interrupted"]

    def test_a_question_is_open_until_it_is_answered(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1", "AskUserQuestion", questions=["Which?"])

        (asked,) = interactions_of(session_of(script))
        script.result("c1", "Blue", toolUseResult={"answers": {"Which?": "Blue"}})
        (answered,) = interactions_of(session_of(script))

        assert (asked.kind, asked.output) == ("question", None)
        assert answered.output == {"answers": {"Which?": "Blue"}}

    @pytest.mark.parametrize(("error", "decision"), [(False, "allow"), (True, "deny")])
    def test_a_plan_is_allowed_or_denied(self, script: Script, error: bool, decision: str) -> None:
        script.user("one")
        script.call("m1", "c1", "ExitPlanMode", plan="1. Do it.")
        script.result("c1", REFUSED if error else "approved", error=error)

        (plan,) = interactions_of(session_of(script))

        assert (plan.kind, (plan.output or {})["decision"]) == ("plan", decision)

    def test_a_plan_tool_that_failed_was_not_answered(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1", "ExitPlanMode", plan="1. Do it.")
        script.result("c1", "Not in plan mode", error=True)

        (plan,) = interactions_of(session_of(script))

        assert plan.output is None

    def test_a_tool_stopped_while_it_ran_was_not_refused(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1")
        script.result("c1", "[Request interrupted by user for tool use]", error=True)

        session = session_of(script)

        assert tool_calls_of(session) == {"canceled": 1}
        assert interactions_of(session) == []

    def test_the_text_beside_a_result_is_the_users(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1")
        block = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
        script.user([block, {"type": "text", "text": "well done"}])

        assert texts_of(session_of(script)) == ["one", "well done"]

    def test_a_large_result_keeps_its_shape_with_its_texts_cut(self, script: Script) -> None:
        script.user("one")
        script.call("m1", "c1")
        script.result("c1", "ok", toolUseResult={"originalFile": "x" * 100_000, "lines": 3})

        details = message(session_of(script), "c1").payload["output"]["details"]

        assert details["lines"] == 3
        assert details["originalFile"] == "x" * 4_096 + "[Output truncated]"

    def test_calls_before_2_0_are_records_of_their_own(self, script: Script) -> None:
        script.user("one")
        call = script.row("tool_use", name="bash", input={"command": "ls"})
        script.row("tool_result", name="bash", output="a.py")

        assert message(session_of(script), call).payload == {
            "toolName": "bash",
            "input": {"command": "ls"},
            "output": {"text": "a.py"},
        }


class TestSessions:
    def test_the_file_is_named_for_its_session(self, script: Script) -> None:
        script.user("one")

        assert read(script, f"/home/dev/{SESSION}.jsonl").sessions[0].session_id == SESSION
        assert read(script, "renamed.jsonl").sessions[0].session_id == SESSION

    def test_records_without_a_session_belong_to_the_file(self, script: Script) -> None:
        script.user("one", sessionId=None, uuid=None)

        assert read(script, "notes.jsonl").sessions[0].session_id == "notes"
        assert read(script, f"{OTHER}.jsonl").sessions[0].session_id == OTHER

    def test_a_file_without_any_name_has_an_id_all_the_same(self, script: Script) -> None:
        script.user("one", sessionId=None)
        short = read(script, "").sessions[0].session_id
        script.text("m1", "1", sessionId=None)

        assert read(script, "").sessions[0].session_id == short

    def test_a_file_without_conversation_tells_no_session(self, script: Script) -> None:
        script.raw({"type": "summary", "summary": "Another session", "leafUuid": "x"})

        assert read(script).sessions == ()

    def test_a_session_knows_its_folder_model_and_times(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "1")

        session = session_of(script)

        assert (session.cwd, session.model, session.provider) == ("/srv/demo", "claude-demo", "claude-code")
        assert (session.started_at_ms, session.last_at_ms) == (T0_MS, T0_MS + 1_000)

    def test_a_name_by_the_user_goes_before_one_by_the_model_before_a_summary(self, script: Script) -> None:
        leaf = script.user("one")
        titles = []
        for fields in (
            {"type": "summary", "summary": "a stranger's", "leafUuid": "elsewhere"},
            {"type": "summary", "summary": "own", "leafUuid": leaf},
            {"type": "summary", "summary": "a later stranger's", "leafUuid": "elsewhere"},
            {"type": "ai-title", "aiTitle": "generated"},
            {"type": "custom-title", "customTitle": "custom"},
        ):
            script.raw(fields)
            titles.append(session_of(script).title)

        assert titles == ["a stranger's", "own", "own", "generated", "custom"]

    def test_a_resumed_copy_owns_what_is_its_own(self, script: Script) -> None:
        script.user("old prompt", sessionId=OTHER)
        script.text("m1", "old answer")
        script.user("new prompt")
        script.text("m2", "new answer")

        transcript = read(script)

        (session,) = transcript.sessions
        assert texts_of(session) == ["new prompt", "new answer"]
        assert session.forked_from_session_id == OTHER
        assert transcript.duplicates == 2
        assert warnings_of(transcript) == ["copied_records"]

    def test_a_branched_session_owns_what_is_not_marked_as_copied(self, script: Script) -> None:
        copied: dict[str, Any] = {"forkedFrom": {"sessionId": OTHER, "messageUuid": "x"}}
        script.user("old prompt", **copied)
        script.text("m1", "old answer", **copied)
        script.user("new prompt")

        session = session_of(script)

        assert texts_of(session) == ["new prompt"]
        assert session.forked_from_session_id == OTHER

    def test_a_foreign_session_id_among_its_own_records_changes_nothing(self, script: Script) -> None:
        script.user("one")
        script.user("two", sessionId=OTHER)

        assert texts_of(session_of(script)) == ["one", "two"]


class TestSubAgents:
    def test_a_sub_agents_file_is_a_child_session(self, script: Script) -> None:
        script.user("look around", isSidechain=True, agentId="a1b2")
        script.text("m1", "seen", isSidechain=True, agentId="a1b2")
        meta = b'{"agentType":"Explore","description":"Look around","toolUseId":"c1"}'

        (child,) = read(script, f"{SESSION}/subagents/agent-a1b2.jsonl", meta).sessions

        assert child.session_id == f"{SESSION}:agent-a1b2"
        assert (child.parent_session_id, child.root_session_id) == (SESSION, SESSION)
        assert (child.parent_tool_call_id, child.title) == ("c1", "Look around")
        assert turns_of(child) == ["completed?"]

    @pytest.mark.parametrize("meta", [b"", b"\xff", b"[1]", b"{"])
    def test_a_missing_or_broken_meta_file_is_no_harm(self, script: Script, meta: bytes) -> None:
        script.user("look around", isSidechain=True, sessionId=None)

        (child,) = read(script, f"{SESSION}\\subagents\\agent-a1b2.jsonl", meta).sessions

        assert child.session_id == f"{SESSION}:agent-a1b2"

    def test_a_side_chain_is_a_child_of_the_call_that_gave_its_prompt(self, script: Script) -> None:
        prompt = script.user("go")
        script.call("m1", "c1", "Task", prompt="same task", description="First")
        script.call("m1", "c2", "Task", prompt="same task", description="Second")
        script.latest = None
        first = script.user("same task", isSidechain=True)
        script.text("s1", "first done", isSidechain=True)
        script.latest = None
        second = script.user("same task", isSidechain=True)
        script.text("s2", "second done", isSidechain=True)
        script.text("s1", "more of the first", isSidechain=True, parentUuid=first)
        script.result("c1")
        script.result("c2")
        script.text("m2", "both done")

        main, *children = read(script).sessions

        assert [child.session_id for child in children] == [
            f"{SESSION}:agent-{uuid}" for uuid in (first, second)
        ]
        assert [child.parent_tool_call_id for child in children] == ["c1", "c2"]
        assert [child.parent_turn_id for child in children] == [prompt, prompt]
        assert [child.title for child in children] == ["First", "Second"]
        assert texts_of(main) == ["go", "both done"]
        assert texts_of(children[0]) == ["same task", "first done\n\nmore of the first"]

    def test_a_sub_agents_sub_agent_is_its_child(self, script: Script) -> None:
        prompt = script.user("go")
        script.call("m1", "c1", "Task", prompt="outer")
        outer = script.user("outer", isSidechain=True, parentUuid=None)
        block = {"type": "tool_use", "id": "c2", "name": "Task", "input": {"prompt": "inner"}}
        script.reply("s1", block, isSidechain=True)
        script.user("inner", isSidechain=True, parentUuid=None)

        _, _, inner = read(script).sessions

        assert inner.parent_session_id == f"{SESSION}:agent-{outer}"
        assert (inner.root_session_id, inner.root_turn_id) == (SESSION, prompt)


class TestOddRecords:
    def test_the_same_record_twice_counts_once(self, script: Script) -> None:
        script.user("one")
        script.rows.append(script.rows[0])

        transcript = read(script)

        assert (transcript.records, transcript.duplicates) == (2, 1)
        assert texts_of(transcript.sessions[0]) == ["one"]

    def test_of_two_records_with_one_uuid_the_first_counts_and_the_other_is_kept(
        self, script: Script
    ) -> None:
        uuid = script.user("one")
        script.user("other", uuid=uuid)

        transcript = read(script)

        (kept,) = kept_of(transcript.sessions[0])
        assert texts_of(transcript.sessions[0]) == ["one"]
        assert (kept.reason, kept.raw) == ("conflict", script.rows[1])
        assert "conflict" in warnings_of(transcript)

    def test_missing_parents_are_one_warning_and_no_loss(self, script: Script) -> None:
        script.user("one", parentUuid="gone")
        script.text("m1", "1", parentUuid="gone too")

        transcript = read(script)

        assert texts_of(transcript.sessions[0]) == ["one", "1"]
        assert warnings_of(transcript) == ["unknown_parent"]
        assert transcript.warnings[0].text.endswith(": 2")

    def test_an_abandoned_branch_is_rewound(self, script: Script) -> None:
        script.user("one")
        parent = script.text("m1", "1")
        script.user("two")
        script.progress()
        script.text("m2", "2")
        script.user("three")
        script.text("m3", "3")
        script.user("two, again", parentUuid=parent)
        script.text("m4", "2 again")

        rewound = {m.payload["text"]: m.rewound for m in messages_of(session_of(script))}

        assert rewound == {
            "one": False, "1": False, "two": True, "2": True, "three": True, "3": True,
            "two, again": False, "2 again": False,
        }  # fmt: skip

    def test_parallel_results_and_progress_rewind_nothing(self, script: Script) -> None:
        script.user("one")
        parent = script.call("m1", "c1")
        script.progress()
        script.result("c1", parentUuid=parent)
        script.user("two")

        assert not any(m.rewound for m in messages_of(session_of(script)))

    def test_compaction_keeps_what_came_before_and_starts_no_turn(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "1")
        boundary = script.row(
            "system", subtype="compact_boundary", content="Conversation compacted", parentUuid=None,
            compactMetadata={"trigger": "auto"},
        )  # fmt: skip
        script.user("In short: one.", isCompactSummary=True)
        script.text("m2", "2")

        session = session_of(script)

        assert turns_of(session) == ["completed?"]
        assert texts_of(session) == ["one", "1", "2"]
        assert message(session, boundary).payload["details"] == {"trigger": "auto"}

    def test_unknown_records_are_kept_with_their_place_and_counted(self, script: Script) -> None:
        script.user("one")
        script.row("hologram")
        script.row("system", subtype="new_thing")
        script.raw([1, 2])

        transcript = read(script)

        kept = kept_of(transcript.sessions[0])
        assert transcript.unknown == {"hologram": 1, "system/new_thing": 1, "no object": 1}
        assert [record.raw for record in kept] == script.rows[1:]
        assert kept[0].place.offset == len(script.rows[0]) + 1

    def test_telemetry_is_neither_kept_nor_unknown(self, script: Script) -> None:
        script.user("one")
        for kind in ("progress", "queue-operation", "file-history-snapshot", "pr-link", "attachment"):
            script.row(kind)
        script.row("system", subtype="stop_hook_summary")

        transcript = read(script)

        assert transcript.unknown == {}
        assert kept_of(transcript.sessions[0]) == []

    @pytest.mark.parametrize(
        ("written", "at_ms"),
        [
            (T0_MS, T0_MS),
            (T0_MS // 1000, T0_MS),
            (str(T0_MS), T0_MS),
            ("2026-03-01T10:00:00+01:00", T0_MS),
            ("soon", 0),
        ],
    )
    def test_times_are_read_leniently(self, script: Script, written: object, at_ms: int) -> None:
        script.user("one", timestamp=written)

        transcript = read(script)

        assert messages_of(transcript.sessions[0])[0].at_ms == at_ms
        assert warnings_of(transcript) == ([] if at_ms else ["unknown_time"])

    def test_numbers_beyond_64_bits_are_warned_about(self, script: Script) -> None:
        script.user("one")
        script.rows.append(b'{"type":"progress","big":1e400}')

        assert warnings_of(read(script)) == ["number_as_text"]

    def test_a_file_of_damage_does_not_make_a_report_of_its_size(self) -> None:
        transcript = read_claude_code(b"junk\n" * 1_000)

        assert transcript.damaged == 1_000
        assert len(transcript.warnings) == 101
        assert transcript.warnings[-1].text == "900 more of the same"

    def test_a_torn_tail_is_read_when_the_file_has_grown(self, script: Script) -> None:
        script.user("one")
        script.text("m1", "1")
        cut = len(script.data) - 20

        torn = read_claude_code(script.data[:cut], f"{SESSION}.jsonl")
        whole = read(script)

        assert (torn.records, torn.torn, torn.read_to) == (1, True, len(script.rows[0]) + 1)
        assert (whole.records, whole.torn, whole.read_to) == (2, False, len(script.data))

    def test_everything_told_is_json(self, script: Script) -> None:
        script.user("lone \ud83d nul \0")
        script.call("m1", "c1", number=2**64 - 1)

        for told in messages_of(session_of(script)):
            json.dumps(told.payload, allow_nan=False)
