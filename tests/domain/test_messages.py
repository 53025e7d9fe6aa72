"""Messages: first sight, merging, appending, ends, versions and pages."""

from typing import Any

import pytest

from domain.errors import NotFound
from domain.message import MessageAdded, MessageChanged, MessageExtended
from tests.domain.story import (
    ROOM,
    SESSION,
    T0,
    Story,
    became,
    delta,
    named,
    outcomes,
    refused,
    told,
    tool,
    update,
)

# First sight.


def test_first_sight_adds_a_message(story: Story) -> None:
    """M1: A message has its fields from its first report, its sequence and its version from the service."""
    story.turn("t1", "running")

    reply = story.say(
        update(
            "m1",
            "hello",
            at=5,
            status="Streaming",
            semantics={"userVisibleAssistantResponse": True},
            usage={"input": 3, "cached_input": 2, "output": 1},
            started_at_unix_ms=T0 + 4,
            completed_at_unix_ms=T0 + 6,
        )
    )

    message = story.message("m1")
    assert (message.turn_id, message.role, message.kind, message.status) == (
        "t1",
        "assistant",
        "text",
        "streaming",
    )
    assert message.semantics == {"userVisibleAssistantResponse": True}
    assert message.usage == {"input": 3, "cachedInput": 2, "output": 1}
    assert (message.started_at_unix_ms, message.completed_at_unix_ms) == (T0 + 4, T0 + 6)
    assert (message.occurred_at_unix_ms, message.created_at_unix_ms) == (T0 + 5, story.clock.now)
    assert (message.id, message.version) == (1, 1)
    assert (reply.accepted_count, reply.latest_version) == (1, 1)


def test_the_sequence_is_fixed_at_first_sight(story: Story) -> None:
    """M1: A message keeps its place; only its version moves."""
    story.turn("t1", "running")
    story.say(update("m1", "one"), update("m2", "two"))

    story.say(update("m1", "one more"))

    assert (story.message("m1").id, story.message("m1").version) == (1, 3)
    assert (story.message("m2").id, story.message("m2").version) == (2, 2)


@pytest.mark.parametrize("missing", ["role", "kind"])
def test_a_first_report_names_role_and_kind(missing: str, story: Story) -> None:
    """M1: Without a role or a kind a message that nobody knows is refused; later reports need neither."""
    story.turn("t1", "running")
    with refused(f"missing_{missing}", "message"):
        story.say(update("m1", "x") | {missing: ""})
    story.say(update("m1", "x"))

    story.say(update("m1", "xy", role="", kind=""))

    assert (story.message("m1").role, story.text("m1")) == ("assistant", "xy")


def test_a_message_names_itself(story: Story) -> None:
    """C1: An update without a message id is refused."""
    with refused("missing_identity", "message"):
        story.say(update(" ", "x"))


# Versions.


def test_only_accepted_changes_take_a_version(story: Story) -> None:
    """M2: Versions are handed out to changes alone, strictly increasing; what is ignored takes none."""
    story.turn("t1", "running")
    story.say(update("a", "x", at=0, status="completed"))
    story.say(update("b", "x", at=1))
    story.say(update("a", "y", at=0), update("b", "x", at=1), delta("b", "z", 9), update("a", "x", turn="t2"))

    reply = story.say(update("b", "xy", at=2), update("c", "x", at=3))

    assert reply.latest_version == 4
    assert {name: one.version for name, one in story.messages().items()} == {"a": 1, "b": 3, "c": 4}


def test_one_update_takes_one_version_whatever_it_changes(story: Story) -> None:
    """M2: An update that makes several events gives them one version."""
    story.turn("t1", "running")
    story.say(update("m1", "a", at=0))

    reply = story.say(update("m1", at=1, payload={"text": "ab", "more": 1}, status="completed"))

    told = [one.event for one in story.commit(reply)]
    assert [type(event) for event in told] == [MessageExtended, MessageChanged]
    assert {getattr(event, "version", None) for event in told} == {2}
    assert story.message("m1").version == 2


def test_a_reader_sees_every_messages_latest_state(story: Story) -> None:
    """M2: Who reads upwards from its cursor, page by page, misses nothing, whatever is stored meanwhile."""
    story.turn("t1", "running")
    seen: dict[str, Any] = {}
    cursor = 0
    for number in range(30):
        story.say(update(f"m{number % 7}", "x" * (number + 1)), update(f"n{number}", "y"))
        page = story.ledger.messages(ROOM, SESSION, cursor, limit=3)
        seen |= {message.message_id: message for message in page.messages}
        cursor = page.latest_version
    while (page := story.ledger.messages(ROOM, SESSION, cursor, limit=3)).messages:
        seen |= {message.message_id: message for message in page.messages}
        cursor = page.latest_version

    assert seen == story.messages()


# Merging.


def test_payloads_merge_deeply(story: Story) -> None:
    """M3: Objects merge key by key, everything else is replaced by what comes in."""
    story.turn("t1", "running")
    story.say(update("m1", payload={"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}))

    story.say(update("m1", payload={"a": {"y": [3], "w": None}, "b": {"n": 1}, "c": 5}))

    expected = {"a": {"x": 1, "y": [3], "w": None}, "b": {"n": 1}, "c": 5}
    assert story.message("m1").payload == expected


def test_blank_fields_and_absent_semantics_keep(story: Story) -> None:
    """M3: Blank turn, role and kind keep what is stored, and so do absent semantics."""
    story.turn("t1", "running")
    story.say(update("m1", "x", semantics={"turnSettling": True}))

    story.say({"message_id": "m1", "payload": {"text": "xy"}})

    message = story.message("m1")
    assert (message.turn_id, message.role, message.kind) == ("t1", "assistant", "text")
    assert message.semantics == {"turnSettling": True}
    story.say({"message_id": "m1", "semantics": {}})
    assert story.message("m1").semantics == {}


def test_a_message_stays_in_its_turn(story: Story) -> None:
    """M3: An update that names another turn is a conflict, and nothing of it counts."""
    story.turn("t1", "completed")
    story.turn("t2", "running")
    story.say(update("m1", "x", turn="t1"))

    reply = story.say(update("m1", "xy", turn="t2", status="completed"))

    assert outcomes(reply) == ["message m1: turn_conflict"]
    assert story.text("m1") == "x"


def test_times_keep_the_earliest_start_and_the_latest_end(story: Story) -> None:
    """M3: startedAt is the earliest, completedAt and occurredAt are the latest, beside other news."""
    story.turn("t1", "running")
    times: dict[str, Any] = {"started_at_unix_ms": T0 + 10, "completed_at_unix_ms": T0 + 20}
    story.say(update("m1", "a", at=20, **times))

    early: dict[str, Any] = {"started_at_unix_ms": T0 + 5, "completed_at_unix_ms": T0 + 15}
    story.say(update("m1", "ab", at=15, **early))

    message = story.message("m1")
    assert (message.started_at_unix_ms, message.completed_at_unix_ms) == (T0 + 5, T0 + 20)
    assert message.occurred_at_unix_ms == T0 + 20


def test_what_a_user_submitted_is_written_once(story: Story) -> None:
    """M3: On a user's text with clientSubmitId, content, contentMode, displayPrompt and text stay."""
    story.turn("t1", "running")
    payload = {"clientSubmitId": "c1", "text": "do it", "contentMode": "plain"}
    story.say(update("m1", role="user", payload=payload))

    other = story.say(update("m1", role="user", payload={"text": "do something else"}))
    delta_ = story.say(delta("m1", " now", role="user"))
    same = story.say(update("m1", role="user", payload={"text": "do it"}))
    beside = story.say(update("m1", role="user", payload={"text": "no", "displayPrompt": "Do it", "x": 1}))

    replies = (other, delta_, same, beside)
    kinds = ["protected", "protected", "duplicate", "applied"]
    assert [became(reply, "message") for reply in replies] == kinds
    assert [reply.accepted_count for reply in replies] == [0, 0, 1, 1]
    assert story.message("m1").payload == {**payload, "displayPrompt": "Do it", "x": 1}


def test_a_write_once_field_may_be_filled_later(story: Story) -> None:
    """M3: What a user's submission left out is taken once, and stays from then on."""
    story.turn("t1", "running")
    story.say(update("m1", role="user", payload={"clientSubmitId": "c1", "text": "do it"}))
    story.say(update("m1", role="user", payload={"content": ["a"]}))

    reply = story.say(update("m1", role="user", payload={"content": ["b"]}))

    assert became(reply, "message") == "protected"
    assert story.message("m1").payload["content"] == ["a"]


def test_a_user_text_without_submit_id_is_no_submission(story: Story) -> None:
    """M3: Other texts of users change as messages do."""
    story.turn("t1", "running")
    story.say(update("m1", "one", role="user"))

    story.say(update("m1", "two", role="user"))

    assert story.text("m1") == "two"


def test_usage_counts_each_message_once_at_its_greatest(story: Story) -> None:
    """M1: Token counts of a message only grow, and the session adds up each message's greatest."""
    story.turn("t1", "running")
    story.say(update("m1", "a", usage={"input": 10, "output": 5}))
    story.say(update("m1", "ab", usage={"input": 8, "output": 9}), update("m2", "x", usage={"output": 1}))

    again = story.say(update("m1", "ab", usage={"output": 9}))

    assert story.message("m1").usage == {"input": 10, "output": 9}
    assert story.session().usage == {"input": 10, "output": 10}
    assert became(again, "message") == "duplicate"


def test_the_first_start_or_end_is_news(story: Story) -> None:
    """C3: A message's first startedAt or completedAt makes an event; a better one alone does not."""
    story.turn("t1", "running")
    story.say(update("m1", "a", at=1))

    first = story.say(update("m1", "a", at=1, started_at_unix_ms=T0 + 5, completed_at_unix_ms=T0 + 6))
    better = story.say(update("m1", "a", at=1, started_at_unix_ms=T0 + 4, completed_at_unix_ms=T0 + 7))

    assert [became(reply, "message") for reply in (first, better)] == ["applied", "duplicate"]
    assert story.message("m1").started_at_unix_ms == T0 + 5


# Turns of messages.


@pytest.mark.parametrize("kind", ["session_audit", "collaboration"])
def test_some_kinds_have_no_turn(kind: str, story: Story) -> None:
    """M4: Audits and collaboration belong to the session; a turn that they name is dropped."""
    story.say(update("m1", "x", turn="", kind=kind), update("m2", "x", turn="t9", kind=kind))

    assert {message.turn_id for message in story.messages().values()} == {None}
    assert became(story.say(update("m1", "xy", turn="t9", kind=kind)), "message") == "applied"
    assert story.message("m1").turn_id is None


@pytest.mark.parametrize("turn", ["", "t9"])
def test_every_other_kind_needs_its_turn(turn: str, story: Story) -> None:
    """M4: A message of an unknown turn is refused, and with it the whole report."""
    story.turn("t1", "running")

    with refused("unknown_turn", "message"):
        story.say(update("m1", "x"), update("m2", "x", turn=turn))

    assert story.messages() == {}


def test_a_turn_part_of_the_same_report_counts(story: Story) -> None:
    """M4: A report may bring a turn and its messages together."""
    story.report(turn={"turn_id": "t1", "phase": "running"}, messages=[update("m1", "x")])

    assert story.message("m1").turn_id == "t1"


def test_a_kind_does_not_cross_the_turnless_line(story: Story) -> None:
    """M4: A message with a turn becomes no message without one, nor the other way round; other kinds may
    change.
    """
    story.turn("t1", "running")
    story.say(update("m1", "x"), update("audit", "x", turn="", kind="session_audit"))

    story.say(update("m1", "xy", kind="collaboration"), update("audit", "xy", kind="text"))
    assert (story.message("m1").kind, story.message("audit").kind) == ("text", "session_audit")
    story.say(update("m1", "xyz", kind="reasoning"))

    assert (story.message("m1").kind, story.message("m1").turn_id) == ("reasoning", "t1")


# Appending.


def test_deltas_append_white_space_included(story: Story) -> None:
    """M5: A delta is appended as it is."""
    story.turn("t1", "running")
    story.say(delta("m1", " Hello"))

    reply = story.say(delta("m1", " \n"), delta("m1", "world "))

    assert story.wrote(reply) == ["message_extended", "message_extended"]
    assert story.text("m1") == " Hello \nworld "


def test_an_offset_counts_code_points(story: Story) -> None:
    """M5: The stored length in code points is where the next delta goes; halves of a pair join first."""
    story.turn("t1", "running")
    story.say(delta("m1", "aé😀", 0), delta("m1", "\ud83d", 3))

    story.say(delta("m1", "\ude00", 4), delta("m1", "!", 4))

    assert story.text("m1") == "aé😀😀!"


def test_an_append_at_the_right_offset_counts_on_a_terminal_message(story: Story) -> None:
    """M5: A late piece of a final text still finds its place."""
    story.turn("t1", "running")
    story.say(update("m1", "abc", at=5, status="completed"))

    at_offset = story.say(delta("m1", "de", 3, at=4))
    without = story.say(delta("m1", "fg", at=6))

    assert became(at_offset, "message") == "applied"
    assert became(without, "message") == "late"
    assert (story.text("m1"), story.message("m1").status) == ("abcde", "completed")


def test_a_lower_offset_with_matching_text_is_a_duplicate(story: Story) -> None:
    """M5: What the text has already is not appended twice."""
    story.turn("t1", "running")
    story.say(update("m1", "abcdef"))

    assert became(story.say(delta("m1", "cd", 2)), "message") == "duplicate"
    assert became(story.say(delta("m1", "abcdef", 0)), "message") == "duplicate"
    assert story.text("m1") == "abcdef"


def test_a_partial_overlap_appends_the_remainder(story: Story) -> None:
    """M5: A delta that begins inside the text and goes on behind it adds what is new."""
    story.turn("t1", "running")
    story.say(update("m1", "abcd"))

    reply = story.say(delta("m1", "cdef", 2))

    extended = story.event(reply, MessageExtended)
    assert (extended.offset, extended.length_after, extended.content) == (4, 6, {"added": "ef"})
    assert story.text("m1") == "abcdef"


def test_a_lower_offset_with_other_text_is_late(story: Story) -> None:
    """M5: A delta that contradicts the text changes nothing."""
    story.turn("t1", "running")
    story.say(update("m1", "abcd"))

    assert became(story.say(delta("m1", "xyz", 2)), "message") == "late"
    assert story.text("m1") == "abcd"


def test_a_gap_is_answered_with_the_expected_offset(story: Story) -> None:
    """M5: A delta behind the end of the text is ignored, and the answer says where the text ends."""
    story.turn("t1", "running")
    story.say(update("m1", "abcd"))

    reply = story.say(delta("m1", "xyz", 9), update("m2", "fine"))

    gap, fine = reply.outcomes
    assert (gap.reason, gap.expected_offset, fine.outcome) == ("gap", 4, "applied")
    assert reply.accepted_count == 1


def test_updates_behind_a_gap_in_one_report_stay_gaps(story: Story) -> None:
    """M5: Once a piece is missing, nothing that the same report says of that message counts."""
    story.turn("t1", "running")
    story.say(update("m1", "abcd"))

    reply = story.say(
        delta("m1", "xyz", 9), delta("m1", "efgh", 4), update("m1", "abcdefgh", status="completed")
    )

    assert [one.expected_offset for one in reply.outcomes] == [4, 4, 4]
    assert (reply.accepted_count, story.text("m1")) == (0, "abcd")
    assert became(story.say(delta("m1", "efgh", 4)), "message") == "applied"


def test_a_gap_in_an_unknown_message_begins_nothing(story: Story) -> None:
    """M5: A message, and a session, do not begin with a piece from the middle."""
    story.turn("t1", "running")

    reply = story.say(delta("m1", "xyz", 9))
    nobody = story.say(delta("m1", "xyz", 9), session="nobody")

    assert [one.expected_offset for one in (*reply.outcomes, *nobody.outcomes)] == [0, 0]
    assert story.messages() == {}
    assert story.ledger.session(ROOM, "nobody") is None


def test_a_delta_without_offset_counts_again_unless_its_time_repeats(story: Story) -> None:
    """M5: Only the same text with the same known time is taken for a retry."""
    story.turn("t1", "running")
    story.say(delta("m1", "ha", at=1))

    replies = [story.say(delta("m1", "ha", at=at)) for at in (1, 2, 2, None, None)]

    kinds = ["duplicate", "applied", "duplicate", "applied", "applied"]
    assert [became(reply, "message") for reply in replies] == kinds
    assert story.text("m1") == "ha" * 4


def test_a_delta_goes_before_a_text_beside_it(story: Story) -> None:
    """M5: On a known message the delta counts and payload.text beside it does not; other keys merge."""
    story.turn("t1", "running")
    story.say(delta("m1", "ab"))

    story.say(delta("m1", "cd", 2, payload={"text": "something else", "lang": "en"}))

    assert story.message("m1").payload == {"text": "abcd", "lang": "en"}


def test_a_first_delta_goes_behind_the_text_beside_it(story: Story) -> None:
    """M5: At first sight there is no other text, so the delta continues the one it comes with."""
    story.turn("t1", "running")

    story.say(delta("m1", "cd", payload={"text": "ab"}))

    assert story.text("m1") == "abcd"


def test_a_terminal_status_beside_an_append_ends_the_message(story: Story) -> None:
    """M5: The last piece may carry the end; one event says both."""
    story.turn("t1", "running")
    story.say(delta("m1", "ab", status="streaming"))

    reply = story.say(delta("m1", "cd", status="completed", completed_at_unix_ms=T0 + 9))

    assert story.event(reply, MessageExtended).status == "completed"
    message = story.message("m1")
    assert (message.status, message.completed_at_unix_ms) == ("completed", T0 + 9)


def test_a_newer_terminal_status_beside_an_append_replaces_an_end(story: Story) -> None:
    """M7: A later end of its own is believed although it comes with text."""
    story.turn("t1", "running")
    story.say(update("m1", "ab", at=1, status="failed"))

    story.say(delta("m1", "cd", 2, at=5, status="completed"))

    assert (story.message("m1").status, story.text("m1")) == ("completed", "abcd")


# Snapshots.


def test_a_growing_snapshot_stores_what_was_added(story: Story) -> None:
    """M6: When a text of the payload grows by its end, the event carries the added part only, at whatever
    depth the text stands.
    """
    story.turn("t1", "running")
    story.say(update("m1", payload={"text": "one", "output": {"stdout": "a"}}))

    reply = story.say(update("m1", payload={"text": "one two", "output": {"stdout": "ab"}}))

    added = [one.event for one in story.commit(reply)]
    assert all(isinstance(event, MessageExtended) for event in added)
    assert [(event.field, event.content) for event in added if isinstance(event, MessageExtended)] == [
        ("/text", {"added": " two"}),
        ("/output/stdout", {"added": "b"}),
    ]


def test_a_snapshot_that_ends_its_message_is_one_event(story: Story) -> None:
    """M6: Growth and end together are one small event."""
    story.turn("t1", "running")
    story.say(update("m1", "one"))

    reply = story.say(update("m1", "one two", status="completed"))

    assert story.wrote(reply) == ["message_extended"]
    assert story.event(reply, MessageExtended).status == "completed"


def test_any_other_change_is_stored_as_what_is_set_and_unset(story: Story) -> None:
    """M6: Other changes carry the keys that changed, by JSON pointer, and not the whole payload."""
    story.turn("t1", "running")
    story.say(update("m1", payload={"text": "one", "a/b": {"~": 1}, "keep": "x" * 100}))

    reply = story.say(update("m1", payload={"text": "two", "a/b": {"~": 2}}))

    changed = story.event(reply, MessageChanged)
    assert changed.content == {"set": {"/text": "two", "/a~1b/~0": 2}}
    assert changed.text_length == 3


def test_a_thousand_snapshots_store_their_text_about_once(story: Story) -> None:
    """M6: The stored content of growing snapshots is as long as the last one."""
    story.turn("t1", "running")
    piece = "0123456789"
    for number in range(1, 201):
        story.say(update("m1", piece * number))

    stored = sum(len(str(one.event.content)) for one in story.events() if one.event.content)
    assert story.text("m1") == piece * 200
    assert stored < 4 * len(piece) * 200


# Ends.


@pytest.mark.parametrize("end", ["completed", "failed", "canceled", "errored", "cancelled"])
@pytest.mark.parametrize("then", ["streaming", "running", ""])
def test_a_terminal_message_never_goes_back(end: str, then: str, story: Story) -> None:
    """M7: A non-terminal, blank or older report changes nothing that stands in an ended message."""
    story.turn("t1", "running")
    story.say(update("m1", "the end", at=5, status=end))

    reply = story.say(update("m1", "the", at=9, status=then))

    assert became(reply, "message") == "late"
    assert reply.accepted_count == 1
    assert story.text("m1") == "the end"
    assert story.message("m1").status == ("canceled" if end == "cancelled" else end)


def test_a_terminal_message_takes_what_is_absent(story: Story) -> None:
    """M7: Late news of an ended message fills keys and fields that are blank so far, at any depth."""
    story.turn("t1", "running")
    story.say(update("m1", at=5, status="completed", payload={"text": "end", "meta": {"a": 1}}))

    payload = {"text": "other", "meta": {"a": 2, "b": 3}, "lang": "en"}
    reply = story.say(update("m1", at=3, status="streaming", payload=payload, semantics={"x": 1}))

    assert became(reply, "message") == "applied"
    message = story.message("m1")
    assert message.payload == {"text": "end", "meta": {"a": 1, "b": 3}, "lang": "en"}
    assert (message.status, message.semantics) == ("completed", {"x": 1})


@pytest.mark.parametrize(("at", "becomes"), [(4, "late"), (5, "late"), (6, "applied"), (None, "applied")])
def test_only_a_strictly_newer_end_changes_an_end(at: int | None, becomes: str, story: Story) -> None:
    """M7: Present values change by a terminal report with a later time; an unknown time counts as newest."""
    story.turn("t1", "running")
    story.say(update("m1", "one", at=5, status="failed"))

    reply = story.say(update("m1", "two", at=at, status="completed"))

    assert became(reply, "message") == becomes
    ended = ("two", "completed") if becomes == "applied" else ("one", "failed")
    assert (story.text("m1"), story.message("m1").status) == ended


def test_the_same_end_again_is_a_duplicate(story: Story) -> None:
    """M7: An end told again with nothing new is no change."""
    story.turn("t1", "running")
    story.say(update("m1", "one", at=5, status="completed"))

    assert [
        became(story.say(update("m1", "one", at=at, status="completed")), "message") for at in (4, 5, 6)
    ] == ["duplicate"] * 3


def test_late_output_is_stored_and_does_not_reopen_the_turn(story: Story) -> None:
    """M8: A message of a settled turn is kept; the turn stays settled, and its final message too."""
    story.turn("t1", "running", at=0)
    story.say(update("m1", "one", at=1))
    story.turn("t1", "completed", at=5)

    reply = story.say(update("m2", "late", at=4), update("m3", "later", at=9))

    assert [one.outcome for one in reply.outcomes] == ["applied", "applied"]
    assert story.the_turn().phase == "settled"
    assert story.the_turn().final_assistant_message_id == "m1"


# Tool calls.


def test_a_tools_payload_is_normalised(story: Story) -> None:
    """M9: Nulls, blank texts, empty lists and objects are dropped; false and 0 stay."""
    story.turn("t1", "running")

    story.say(tool("call", payload={"a": None, "b": " ", "c": [], "d": {}, "e": 0, "f": False, "g": [{}, 1]}))

    assert story.message("call").payload == {"e": 0, "f": False, "g": [1]}


def test_a_completed_tool_has_no_error(story: Story) -> None:
    """M9: A tool call that completes drops its error."""
    story.turn("t1", "running")
    story.say(tool("call", payload={"error": {"text": "try again"}, "name": "Bash"}))

    story.say(tool("call", "completed", payload={"error": {"text": "still"}, "output": {"text": "ok"}}))

    assert story.message("call").payload == {"name": "Bash", "output": {"text": "ok"}}


def test_a_completed_tool_takes_no_error_later(story: Story) -> None:
    """M9: A late report does not fill the error of a tool call that has completed."""
    story.turn("t1", "running")
    story.say(tool("call", "completed", at=5, payload={"name": "Bash"}))

    late = story.say(tool("call", "running", at=3, payload={"error": {"text": "no"}}))
    alone = story.say({"message_id": "call", "payload": {"error": {"text": "no"}}})

    assert "error" not in story.message("call").payload
    assert story.wrote(late) == story.wrote(alone) == []


def test_a_failed_tool_keeps_its_error(story: Story) -> None:
    """M9: Only completion drops an error."""
    story.turn("t1", "running")
    story.say(tool("call", payload={"error": {"text": "no"}}))

    story.say(tool("call", "failed"))

    assert story.message("call").payload == {"error": {"text": "no"}}


# Pages.


def filled(story: Story, count: int) -> None:
    story.turn("t1", "running")
    story.say(*(update(f"m{number}", "x") for number in range(1, count + 1)))


def versions(messages: Any) -> list[int]:
    return [message.version for message in messages]


def test_ascending_takes_the_lowest_above_the_cursor(story: Story) -> None:
    """M10: A page above a cursor begins with the lowest version and says how far it goes."""
    filled(story, 5)

    page = story.ledger.messages(ROOM, SESSION, 1, limit=2)

    assert (versions(page.messages), page.latest_version, page.has_more) == ([2, 3], 3, True)
    last = story.ledger.messages(ROOM, SESSION, 3, limit=2)
    assert (versions(last.messages), last.latest_version, last.has_more) == ([4, 5], 5, False)


def test_descending_takes_the_highest_below_the_cursor(story: Story) -> None:
    """M10: A page below a cursor begins with the highest version; 0 begins at the end."""
    filled(story, 5)

    end = story.ledger.messages(ROOM, SESSION, limit=2, before=0)
    before = story.ledger.messages(ROOM, SESSION, limit=2, before=4)

    assert (versions(end.messages), end.latest_version, end.has_more) == ([5, 4], 5, True)
    assert versions(before.messages) == [3, 2]


def test_an_empty_page_gives_the_cursor_back(story: Story) -> None:
    """M10: Without news a reader's cursor stays where it is."""
    filled(story, 2)

    page = story.ledger.messages(ROOM, SESSION, 2)

    assert (page.messages, page.latest_version, page.has_more) == ((), 2, False)


def test_a_page_has_100_messages_by_default_and_500_at_most(story: Story) -> None:
    """M10: A limit above 500 counts as 500; one below 1 is refused."""
    filled(story, 510)

    sizes = [
        len(story.ledger.messages(ROOM, SESSION).messages),
        len(story.ledger.messages(ROOM, SESSION, limit=500).messages),
        len(story.ledger.messages(ROOM, SESSION, limit=9999).messages),
    ]

    assert sizes == [100, 500, 500]
    for limit in (0, -1):
        with refused("invalid"):
            story.ledger.messages(ROOM, SESSION, limit=limit)


def test_a_page_ends_early_at_its_size(story: Story) -> None:
    """M10: A page is at most 1.5 MiB, but never empty while there is more."""
    story.turn("t1", "running")
    for number in range(4):
        story.say(update(f"m{number}", "x" * 700_000))
    story.say(update("large", "x" * 2_000_000))

    first = story.ledger.messages(ROOM, SESSION)
    large = story.ledger.messages(ROOM, SESSION, 4)

    assert (versions(first.messages), first.has_more) == ([1, 2], True)
    assert (versions(large.messages), large.has_more) == ([5], False)


def test_an_unknown_session_has_no_page(story: Story) -> None:
    """M10: Messages of a session that nobody reported are not found."""
    with pytest.raises(NotFound):
        story.ledger.messages(ROOM, "nobody")


# Counting.


def test_accepted_are_applied_duplicate_and_late_updates(story: Story) -> None:
    """M11: What a sender need not send again is accepted; conflicts, gaps and protected texts are not."""
    story.turn("t0", "completed")
    story.turn("t1", "running")
    story.say(update("done", "x", at=1, status="completed"), update("open", "abc", at=1))
    story.say(update("mine", role="user", payload={"clientSubmitId": "c", "text": "x"}))

    reply = story.say(
        update("new", "x", at=2),
        update("open", "abc", at=1),
        update("done", "y", at=0, status="streaming"),
        update("open", "abcd", turn="t0"),
        update("mine", "y", role="user"),
        delta("open", "z", 99),
    )

    reasons = [one.reason or one.outcome for one in reply.outcomes]
    assert reasons == ["applied", "duplicate", "late", "turn_conflict", "protected", "gap"]
    assert reply.accepted_count == 3


def test_an_empty_report_is_valid(story: Story) -> None:
    """M11: No update is nothing accepted, and no session is begun by it."""
    reply = story.say()

    assert (reply.accepted_count, reply.latest_version, reply.transaction_id) == (0, 0, "")
    assert story.ledger.session(ROOM, SESSION) is None


def test_a_delta_names_messages_by_their_version(story: Story) -> None:
    """D4: A message's mutation carries its message version, as its row does."""
    story.turn("t1", "running")
    story.say(update("m1", "a"))

    reply = story.say(update("m1", "ab"), update("m2", "x"))

    assert reply.delta is not None
    named_versions = {one.entity_id: one.version for one in reply.delta.delta.mutations}
    assert named(reply) == ["message m1 upsert", "message m2 upsert"]
    assert named_versions == {name: one.version for name, one in story.messages().items()}


def test_one_event_tells_a_first_sight(story: Story) -> None:
    """M3: The first report of a message is one event with its whole payload."""
    with told() as other:
        other.turn("t1", "running")
        reply = other.say(update("m1", payload={"a": {"b": 1}}))
        assert other.event(reply, MessageAdded).content == {"payload": {"a": {"b": 1}}}
