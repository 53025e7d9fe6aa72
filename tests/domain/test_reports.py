"""Reports from outside: what is accepted, how it is trimmed and filled, and how a refusal reads."""

import copy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake

from domain import jsontext
from domain.errors import Rejected
from domain.reports import (
    UPDATE_BYTES_MAX,
    CapabilityRef,
    CompletedCommand,
    ContextPatch,
    InteractionReport,
    MessageReport,
    MessageUpdate,
    ProviderTurnReport,
    SessionState,
    Source,
    StateReport,
    TurnReport,
    parse_message_report,
    parse_state_report,
    update_bytes,
)

HOSTILE = " \ud800 \0 \u2028 \ude00 "


def state_of(**state: Any) -> SessionState:
    return parse_state_report({"state": state}, "r", "s").state


def update_of(**update: Any) -> MessageUpdate:
    return parse_message_report({"updates": [{"messageId": "m", **update}]}, "r", "s").updates[0]


def refused(**state: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        state_of(**state)
    return caught.value


def refused_update(**update: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        update_of(**update)
    return caught.value


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


WHOLE_STATE: dict[str, Any] = {
    "kind": "child",
    "rootAgentSessionId": "root",
    "rootTurnId": "rt",
    "parentAgentSessionId": "parent",
    "parentTurnId": "pt",
    "parentToolCallId": "call",
    "agentTargetId": "target",
    "deviceId": "device",
    "provider": "claude",
    "providerSessionId": "ps",
    "model": "m1",
    "settings": {"a": 1},
    "capabilities": {"values": ["goal", "plan"]},
    "runtimeContextPatch": {"set": {"a": 1}, "unset": ["b"]},
    "cwd": "/home",
    "title": "A title",
    "lifecycleStatus": "active",
    "currentPhase": "running",
    "lastError": "none",
    "occurredAtUnixMs": 1,
    "startedAtUnixMs": 2,
    "endedAtUnixMs": 3,
    "turn": {
        "turnId": "t",
        "phase": "settled",
        "outcome": "failed",
        "settling": True,
        "origin": "user_prompt",
        "capabilityRefs": [{"capability": "goal", "source": "user"}],
        "completedCommand": {"kind": "compact", "status": "completed"},
        "fileChanges": {"a.py": "added"},
        "errorMessage": "no",
        "errorCode": "E1",
        "startedAtUnixMs": 4,
        "completedAtUnixMs": 5,
        "finalAssistantMessageId": "fm",
        "activeTurnId": "at",
        "sourceGoalOperationId": "go",
        "sourceGoalRevision": 6,
        "sourceGoalRepairEpoch": 7,
    },
    "rootProviderTurn": {
        "rootTurnId": "t",
        "providerTurnId": "p",
        "providerTurnBindingJson": {"x": [1]},
        "phase": "completed",
        "outcome": "completed",
        "completedCommand": {"kind": "compact", "status": "completed"},
        "errorMessage": "no",
        "errorCode": "E2",
    },
    "interactionTransition": {
        "requestId": "q",
        "turnId": "t",
        "kind": "approval",
        "status": "pending",
        "toolName": "Bash",
        "input": {"command": "ls"},
        "output": {"answer": True},
        "metadata": {"k": None},
    },
    "turns": [{"turnId": "t2"}],
    "interactions": [{"requestId": "q2"}],
    "messages": [
        {
            "messageId": "m",
            "turnId": "t",
            "role": "assistant",
            "kind": "text",
            "status": "completed",
            "semantics": {"userVisibleAssistantResponse": True},
            "contentDelta": " more",
            "contentOffset": 3,
            "payload": {"text": "abc"},
            "usage": {"input": 1, "cachedInput": 2, "output": 3, "total": 6},
            "occurredAtUnixMs": 8,
            "startedAtUnixMs": 9,
            "completedAtUnixMs": 10,
        }
    ],
}

EXPECTED_STATE = SessionState(
    kind="child",
    root_agent_session_id="root",
    root_turn_id="rt",
    parent_agent_session_id="parent",
    parent_turn_id="pt",
    parent_tool_call_id="call",
    agent_target_id="target",
    device_id="device",
    provider="claude",
    provider_session_id="ps",
    model="m1",
    settings={"a": 1},
    capabilities=("goal", "plan"),
    runtime_context_patch=ContextPatch(set={"a": 1}, unset=("b",)),
    cwd="/home",
    title="A title",
    lifecycle_status="active",
    current_phase="running",
    last_error="none",
    occurred_at_unix_ms=1,
    started_at_unix_ms=2,
    ended_at_unix_ms=3,
    turn=TurnReport(
        turn_id="t",
        phase="settled",
        outcome="failed",
        settling=True,
        origin="user_prompt",
        capability_refs=(CapabilityRef(capability="goal", source="user"),),
        completed_command=CompletedCommand(kind="compact", status="completed"),
        file_changes={"a.py": "added"},
        error_message="no",
        error_code="E1",
        started_at_unix_ms=4,
        completed_at_unix_ms=5,
        final_assistant_message_id="fm",
        active_turn_id="at",
        source_goal_operation_id="go",
        source_goal_revision=6,
        source_goal_repair_epoch=7,
    ),
    root_provider_turn=ProviderTurnReport(
        root_turn_id="t",
        provider_turn_id="p",
        provider_turn_binding_json={"x": [1]},
        phase="completed",
        outcome="completed",
        completed_command=CompletedCommand(kind="compact", status="completed"),
        error_message="no",
        error_code="E2",
    ),
    interaction_transition=InteractionReport(
        request_id="q",
        turn_id="t",
        kind="approval",
        status="pending",
        tool_name="Bash",
        input={"command": "ls"},
        output={"answer": True},
        metadata={"k": None},
    ),
    turns=(TurnReport(turn_id="t2"),),
    interactions=(InteractionReport(request_id="q2"),),
    messages=(
        MessageUpdate(
            message_id="m",
            turn_id="t",
            role="assistant",
            kind="text",
            status="completed",
            semantics={"userVisibleAssistantResponse": True},
            content_delta=" more",
            content_offset=3,
            payload={"text": "abc"},
            usage={"input": 1, "cachedInput": 2, "output": 3, "total": 6},
            occurred_at_unix_ms=8,
            started_at_unix_ms=9,
            completed_at_unix_ms=10,
        ),
    ),
)

CONTENT = frozenset(("settings", "fileChanges", "input", "output", "metadata", "semantics", "payload", "set"))


def snake(value: Any) -> Any:
    """The same document with the envelope's names in snake_case, its contents untouched."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {to_snake(key): item if key in CONTENT else snake(item) for key, item in value.items()}


# Names.


def test_every_field_is_read_under_its_camel_case_name() -> None:
    assert state_of(**WHOLE_STATE) == EXPECTED_STATE


def test_every_field_is_read_under_its_snake_case_name() -> None:
    assert state_of(**snake(WHOLE_STATE)) == EXPECTED_STATE


def test_camel_case_wins_when_both_names_stand() -> None:
    update = update_of(turn_id="snake", turnId="camel", usage={"cached_input": 1, "cachedInput": 2})

    assert update.turn_id == "camel"
    assert update.usage == {"cachedInput": 2}


def test_unknown_keys_are_ignored_around_content_and_kept_inside_it() -> None:
    state = state_of(
        settings={"unknown": 1},
        runtimeContext={"unknown": {"a": None}},
        railPlacement={"x": 1},
        runtimeActivity="?",
        submitAvailability=[],
        turnLifecycle=5,
    )

    assert state == SessionState(settings={"unknown": 1}, runtime_context={"unknown": {"a": None}})


def test_the_connector_is_ignored() -> None:
    assert parse_message_report({"connector": {"id": 5}}, "r", "s").updates == ()


def test_a_turns_error_may_come_nested() -> None:
    turn = state_of(turn={"turnId": "t", "error": {"message": " broke ", "code": " E9 "}}).turn

    assert turn is not None
    assert (turn.error_message, turn.error_code) == (" broke ", "E9")


@pytest.mark.parametrize("given_error", ["broke", {"message": "broke"}])
def test_the_last_error_may_come_as_text_or_as_an_object(given_error: object) -> None:
    assert state_of(lastError=given_error).last_error == "broke"


# Identity.


def test_the_address_names_room_and_session() -> None:
    report = parse_state_report({}, " r ", " s ")

    assert (report.room_id, report.agent_session_id) == ("r", "s")


@pytest.mark.parametrize("name", ["roomId", "room_id", "workspaceId", "workspace_id"])
def test_without_an_address_the_body_names_them(name: str) -> None:
    report = parse_message_report({name: "r", "agentSessionId": "s"})

    assert (report.room_id, report.agent_session_id) == ("r", "s")


def test_a_blank_body_id_gives_way_to_the_address() -> None:
    body = {"roomId": " ", "workspaceId": None, "agentSessionId": ""}

    assert parse_state_report(body, "r", "s") == parse_state_report({}, "r", "s")


@pytest.mark.parametrize("body", [{"roomId": "x"}, {"workspaceId": "x"}, {"agent_session_id": "x"}])
def test_a_body_id_that_differs_from_the_address_is_refused(body: dict[str, str]) -> None:
    with pytest.raises(Rejected) as caught:
        parse_state_report(body, "r", "s")

    assert (caught.value.reason, caught.value.part) == ("id_mismatch", "command")
    assert "'x'" in caught.value.detail


def test_two_different_names_of_the_room_are_refused() -> None:
    with pytest.raises(Rejected, match="id_mismatch"):
        parse_state_report({"roomId": "a", "workspaceId": "b"}, session="s")


@pytest.mark.parametrize(("room", "session"), [("", "s"), ("r", ""), (" ", " ")])
def test_a_report_without_room_or_session_is_refused(room: str, session: str) -> None:
    with pytest.raises(Rejected, match="missing_identity"):
        parse_message_report({}, room, session)


@pytest.mark.parametrize("bad", ["x" * 513, "a\0b", "a\ud800"])
def test_an_id_that_no_store_could_carry_is_refused(bad: str) -> None:
    for arguments in ((bad, "s"), ("r", bad)):
        with pytest.raises(Rejected, match="invalid_id"):
            parse_state_report({}, *arguments)
    assert refused_update(messageId=bad).reason == "invalid_id"
    assert refused(turn={"turnId": bad}).reason == "invalid_id"
    assert refused(model=bad).reason == "invalid"


def test_an_id_of_512_characters_is_accepted_whatever_stands_around_it() -> None:
    assert update_of(turnId=f" {'é' * 512}\n").turn_id == "é" * 512


# Filling (S2).


def test_blank_state_fields_are_filled_from_the_top_level_then_from_the_source() -> None:
    source = {
        "agentTargetId": "source target",
        "deviceId": "source device",
        "provider": "codex",
        "providerSessionId": "ps",
        "cwd": " /src ",
        "sessionOrigin": "import",
        "sessionCreatedAtUnixMs": "77",
    }
    body = {"deviceId": "top device", "userId": " u ", "source": source, "state": {"provider": "claude"}}

    report = parse_state_report(body, "r", "s")

    assert report.state == SessionState(
        agent_target_id="source target",
        device_id="top device",
        provider="claude",
        provider_session_id="ps",
        cwd="/src",
    )
    assert (report.agent_target_id, report.device_id) == ("source target", "top device")
    assert (report.origin, report.user_id, report.created_at_unix_ms) == ("import", "u", 77)


def test_the_reports_own_origin_wins_over_its_sources() -> None:
    body = {"sessionOrigin": "own", "source": {"sessionOrigin": "source"}}

    assert parse_message_report(body, "r", "s").origin == "own"
    assert parse_message_report({}, "r", "s").origin == ""


def test_a_message_report_is_filled_from_its_source_too() -> None:
    report = parse_message_report({"source": {"agentTargetId": "a", "deviceId": "d"}}, "r", "s")

    assert (report.agent_target_id, report.device_id) == ("a", "d")


def test_parts_beside_the_state_follow_those_inside_it() -> None:
    body = {
        "state": {
            "turn": {"turnId": "1"},
            "turns": [{"turnId": "2"}],
            "interactionTransition": {"requestId": "1"},
            "messages": [{"messageId": "1"}],
        },
        "turns": [{"turnId": "3"}],
        "interactions": [{"requestId": "2"}],
        "messages": [{"messageId": "2"}],
    }

    state = parse_state_report(body, "r", "s").state

    assert [turn.turn_id for turn in state.all_turns] == ["1", "2", "3"]
    assert [interaction.request_id for interaction in state.all_interactions] == ["1", "2"]
    assert [update.message_id for update in state.messages] == ["1", "2"]


def test_a_state_without_parts_has_none() -> None:
    assert state_of().all_turns == ()
    assert state_of().all_interactions == ()


def test_a_parsed_report_may_be_parsed_again() -> None:
    body = {"state": WHOLE_STATE, "turns": [{"turnId": "3"}], "source": {"cwd": "/"}, "workspaceId": "r"}
    state_report = parse_state_report(body, "r", "s")
    message_report = parse_message_report({"updates": WHOLE_STATE["messages"]}, "r", "s")

    assert parse_state_report(state_report) == state_report
    assert parse_message_report(message_report, "r", "s") == message_report


# Texts, numbers, absence.


def test_ids_and_words_are_trimmed() -> None:
    state = state_of(provider=" claude\n", cwd=" /x ", turn={"turnId": "\tt ", "phase": " running "})

    assert (state.provider, state.cwd) == ("claude", "/x")
    assert state.turn == TurnReport(turn_id="t", phase="running")


def test_what_people_wrote_keeps_its_white_space() -> None:
    assert state_of(title=" a  b ").title == " a  b "
    assert update_of(contentDelta="\n ").content_delta == "\n "


def test_a_title_of_white_space_is_blank() -> None:
    assert state_of(title=" \n").title == ""


def test_hostile_text_is_accepted_in_everything_that_is_not_a_name() -> None:
    document = {HOSTILE: [HOSTILE]}
    state = state_of(
        title=HOSTILE,
        lastError=HOSTILE,
        cwd=HOSTILE,
        settings=document,
        runtimeContextPatch={"set": document, "unset": [HOSTILE]},
        turn={"fileChanges": document, "errorMessage": HOSTILE},
        rootProviderTurn={"providerTurnBindingJson": HOSTILE, "errorMessage": HOSTILE},
        interactionTransition={"input": document, "output": document, "metadata": document},
    )
    update = update_of(contentDelta=HOSTILE, payload=document, semantics=document)

    assert (state.title, state.last_error, state.cwd) == (HOSTILE, HOSTILE, HOSTILE.strip())
    assert (state.settings, update.payload, update.content_delta) == (document, document, HOSTILE)
    assert update_bytes(update) > 0


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        *((5, 5), (-5, -5), ("5", 5), (" +5 ", 5), ("-5", -5), (5.0, 5), (None, 0), ("", 0), (" ", 0)),
        *((2**63 - 1, 2**63 - 1), (str(-(2**63)), -(2**63))),
    ],
)
def test_integers_may_be_numbers_or_decimal_text(sent: object, read: int) -> None:
    turn = state_of(turn={"turnId": "t", "sourceGoalRevision": sent}).turn
    assert turn is not None
    assert turn.source_goal_revision == read


@pytest.mark.parametrize("sent", [-1, "-1", -(2**63), 0, None])
def test_a_time_before_1970_is_unknown(sent: object) -> None:
    """R4: A time below 0 counts as none."""
    state = state_of(occurredAtUnixMs=sent, turn={"turnId": "t", "completedAtUnixMs": sent})

    assert state.turn is not None
    assert (state.occurred_at_unix_ms, state.turn.completed_at_unix_ms) == (0, 0)
    assert update_of(startedAtUnixMs=sent).started_at_unix_ms == 0


@pytest.mark.parametrize(
    "sent",
    [
        *(True, False, 1.5, float("inf"), float("nan"), "1.0", "1e3", "0x1", "1_0", "٣", "-", "+", [], {}),
        *(2**63, -(2**63) - 1, 1e300, "9" * 20, "9" * 5000),
    ],
)
def test_anything_else_is_no_integer(sent: object) -> None:
    error = refused(occurredAtUnixMs=sent)

    assert (error.reason, error.part, error.id) == ("invalid", "session", "s")
    assert error.detail.startswith("state.occurredAtUnixMs: expected an integer")


@pytest.mark.parametrize("sent", [0, 1, "true", "false", "", []])
def test_settling_is_true_or_false(sent: object) -> None:
    assert refused(turn={"turnId": "t", "settling": sent}).detail.startswith(
        "state.turn.settling: expected true or false, got"
    )
    assert state_of(turn={"settling": None}).turn == TurnReport()


@pytest.mark.parametrize("sent", [None, "", " "])
def test_a_blank_offset_is_unknown_and_not_the_beginning(sent: object) -> None:
    assert update_of(contentOffset=sent).content_offset is None
    assert update_of(contentOffset=0).content_offset == 0


def test_offsets_and_token_counts_are_never_negative() -> None:
    assert (
        refused_update(contentOffset=-1).detail
        == "updates[0].contentOffset: expected an integer of at least 0"
    )
    assert (
        refused_update(usage={"output": "-1"}).detail == "updates[0].usage: expected an integer of at least 0"
    )


def test_usage_keeps_four_counts() -> None:
    usage = {"input": "1", "cached_input": 2.0, "output": None, "total": 3, "reasoning": "much"}

    assert update_of(usage=usage).usage == {"input": 1, "cachedInput": 2, "total": 3}


def test_null_means_absent_everywhere() -> None:
    nulls = dict.fromkeys(WHOLE_STATE)

    assert state_of(**nulls) == SessionState()
    assert state_of(turns=[dict.fromkeys(WHOLE_STATE["turn"])]).turns == (TurnReport(),)
    assert update_of(**dict.fromkeys(WHOLE_STATE["messages"][0]) | {"messageId": "m"}) == MessageUpdate(
        message_id="m"
    )
    nothing = {"source": None, "state": None, "turns": None, "interactions": None, "messages": None}
    assert parse_state_report(nothing, "r", "s") == parse_state_report({}, "r", "s")
    assert parse_message_report({"updates": None}, "r", "s").updates == ()


def test_absent_and_empty_documents_differ() -> None:
    state = state_of(settings={}, runtimeContext={}, capabilities={"values": []})

    assert (state.settings, state.runtime_context, state.capabilities) == ({}, {}, ())
    assert state_of(capabilities={}).capabilities == ()
    assert state_of(capabilities={"values": None}).capabilities == ()
    assert state_of().capabilities is None


# Content.


def test_content_may_nest_64_levels_wherever_it_stands() -> None:
    assert update_of(payload=nested(64)).payload == nested(64)
    assert state_of(runtimeContextPatch={"set": nested(64)}).runtime_context_patch is not None

    error = refused_update(payload=nested(65))
    assert (error.reason, error.part, error.id) == ("malformed", "message", "m")
    assert error.detail == "updates[0].payload: nested more than 64 levels deep; flatten it"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 2**64, {1: 2}, {1, 2}, object()])
def test_content_that_json_cannot_carry_is_malformed(bad: object) -> None:
    assert refused(settings={"a": [bad]}).reason == "malformed"
    assert refused(rootProviderTurn={"providerTurnBindingJson": [bad]}).reason == "malformed"


@pytest.mark.parametrize("bad", ["text", 5, [], True])
def test_a_document_has_to_be_an_object(bad: object) -> None:
    error = refused(interactionTransition={"requestId": " q ", "input": bad})

    assert (error.reason, error.part, error.id) == ("invalid", "interaction", "q")
    assert error.detail.startswith("state.interactionTransition.input: expected an object, got")


def test_any_mapping_is_a_document() -> None:
    body = MappingProxyType({"state": MappingProxyType({"settings": MappingProxyType({"a": 1})})})

    assert parse_state_report(body, "r", "s").state.settings == {"a": 1}


def test_context_and_patch_together_are_refused() -> None:
    error = refused(runtimeContext={}, runtimeContextPatch={"set": {"a": 1}})

    assert (error.reason, error.part, error.id) == ("context_and_patch", "session", "s")


@pytest.mark.parametrize(
    "key", ["visible", "imported", "capabilities", "capabilitiesReported", "usage", "goal"]
)
def test_a_patch_leaves_protected_keys_alone(key: str) -> None:
    for patch in ({"set": {key: 1}}, {"unset": [key]}):
        error = refused(runtimeContextPatch=patch)
        assert (error.reason, error.part) == ("protected_context", "session")
        assert key in error.detail
    assert state_of(runtimeContext={key: 1}).runtime_context == {key: 1}


# Size.


def test_an_update_above_four_mebibytes_is_refused() -> None:
    spare = UPDATE_BYTES_MAX - update_bytes(update_of(payload={"text": ""}))

    assert update_bytes(update_of(payload={"text": "x" * spare})) == UPDATE_BYTES_MAX
    error = refused_update(payload={"text": "x" * (spare + 1)})
    assert (error.reason, error.part, error.id) == ("too_large", "message", "m")


def test_messages_of_a_state_report_are_bounded_too() -> None:
    assert refused(messages=[{"contentDelta": "x" * UPDATE_BYTES_MAX}]).reason == "too_large"


def test_text_counts_as_it_is_stored() -> None:
    assert refused_update(payload={"text": "\0" * (UPDATE_BYTES_MAX // 6)}).reason == "too_large"


def test_tool_calls_are_measured_after_their_texts_are_cut() -> None:
    update = update_of(kind="tool_call", payload={"output": {"text": "x" * UPDATE_BYTES_MAX}})

    assert update_bytes(update) > UPDATE_BYTES_MAX


# Refusals.


@pytest.mark.parametrize(
    ("state", "part", "name", "path"),
    [
        ({"title": 5}, "session", "s", "state.title"),
        ({"turn": {"turn_id": "t", "phase": 5}}, "turn", "t", "state.turn.phase"),
        ({"turns": [{}, {"turnId": "t", "phase": 5}]}, "turn", "t", "state.turns[1].phase"),
        ({"turns": [5]}, "turn", "", "state.turns[0]"),
        ({"turns": "t"}, "turn", "", "state.turns"),
        ({"turn": {"turnId": "t\0"}}, "turn", "", "state.turn.turnId"),
        ({"turn": {"turnId": 5}}, "turn", "", "state.turn.turnId"),
        ({"turn": {"turnId": "t", "error": {"code": 5}}}, "turn", "t", "state.turn.error.code"),
        (
            {"turn": {"turnId": "t", "capabilityRefs": [{"source": 5}]}},
            "turn",
            "t",
            "state.turn.capabilityRefs[0].source",
        ),
        (
            {"root_provider_turn": {"providerTurnId": "p", "phase": 5}},
            "provider_turn",
            "p",
            "state.root_provider_turn.phase",
        ),
        ({"interactions": [{"requestId": "q", "kind": 5}]}, "interaction", "q", "state.interactions[0].kind"),
        ({"messages": [{"messageId": "m", "role": 5}]}, "message", "m", "state.messages[0].role"),
        ({"capabilities": {"values": [5]}}, "session", "s", "state.capabilities"),
        ({"capabilities": {"values": "goal"}}, "session", "s", "state.capabilities"),
        ({"runtimeContextPatch": {"unset": [5]}}, "session", "s", "state.runtimeContextPatch.unset[0]"),
    ],
)
def test_a_refusal_names_part_id_and_field(state: dict[str, Any], part: str, name: str, path: str) -> None:
    error = refused(**state)

    assert (error.part, error.id) == (part, name)
    assert error.detail.startswith(f"{path}: expected ")


@pytest.mark.parametrize("body", [[], "text", 5, None])
def test_a_body_has_to_be_an_object(body: Any) -> None:
    with pytest.raises(Rejected) as caught:
        parse_state_report(body, "r", "s")

    assert caught.value.detail.startswith("body: expected an object, got")


def test_a_refused_session_is_named_by_the_body_without_an_address() -> None:
    with pytest.raises(Rejected) as caught:
        parse_state_report({"roomId": "r", "agentSessionId": "mine", "state": 5})

    assert (caught.value.part, caught.value.id) == ("session", "mine")


def test_a_refusal_shows_neither_values_nor_the_library() -> None:
    text = str(refused_update(turnId=["my secret"]))

    assert text == "message m: updates[0].turnId: expected text, got a list (invalid)"


def test_a_list_of_mistakes_costs_one() -> None:
    with pytest.raises(ValidationError) as caught:
        MessageReport.model_validate({"updates": [5] * 1000})

    assert caught.value.error_count() == 1


# Properties.

SHAPES: tuple[type[BaseModel], ...] = (
    CapabilityRef,
    CompletedCommand,
    ContextPatch,
    InteractionReport,
    MessageReport,
    MessageUpdate,
    ProviderTurnReport,
    SessionState,
    Source,
    StateReport,
    TurnReport,
)
NAMES = sorted(
    {
        name
        for shape in SHAPES
        for key, field in shape.model_fields.items()
        for name in (key, field.alias or key)
    }
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(("", " t ", "12", HOSTILE))
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)
BODIES = st.fixed_dictionaries(
    {}, optional={"state": DOCUMENTS, "updates": DOCUMENTS, "messages": DOCUMENTS, "source": DOCUMENTS}
)


def spelled(value: object) -> str:
    """A spelling to compare by, since NaN does not equal itself."""
    return ascii(value)


@given(BODIES)
def test_whatever_comes_in_is_a_report_or_a_refusal_and_stays_as_it_was(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    for parse in (parse_state_report, parse_message_report):
        try:
            parse(body, "r", "s")
        except Rejected as refusal:
            str(refusal).encode()
    assert spelled(body) == spelled(before)


@given(DOCUMENTS)
def test_an_accepted_payload_is_stored_and_comes_back_equal(value: Any) -> None:
    try:
        payload = update_of(payload={"value": value}).payload
    except Rejected:
        return

    assert jsontext.same(jsontext.from_bytes(jsontext.to_bytes(payload)), {"value": value})


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trusted_shape_has_the_defaults_of_a_checked_one(shape: type[BaseModel]) -> None:
    assert shape.model_construct() == shape() == shape.model_validate({})


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_frozen(shape: type[BaseModel]) -> None:
    name = next(iter(shape.model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(shape(), name, "x")
