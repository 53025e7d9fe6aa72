"""Interactions: how an approval, a question or a plan is asked, answered and given up."""

from typing import Any

import pytest

from domain.interaction import InteractionSuperseded
from tests.domain.story import ROOM, SESSION, T0, Story, became, named, outcomes, refused

PART = "interaction"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *[("approval", "approval"), ("question", "question"), ("plan", "plan"), ("Approval", "approval")],
        *[("ask-user", "question"), ("ask_user", "question"), ("exit-plan", "plan"), ("exit_plan", "plan")],
    ],
)
def test_words_for_kinds_fold(word: str, kind: str, story: Story) -> None:
    """I1: An interaction is an approval, a question or a plan, under several names."""
    story.turn("t1", "running")

    story.ask("r1", kind=word, at=5, tool_name="Bash", input={"cmd": "ls"}, metadata={"a": 1})

    asked = story.asked("r1")
    assert (asked.kind, asked.status, asked.tool_name) == (kind, "pending", "Bash")
    assert (asked.input, asked.metadata, asked.requested_at_unix_ms) == ({"cmd": "ls"}, {"a": 1}, T0 + 5)


def test_its_turn_has_to_exist(story: Story) -> None:
    """I1: An interaction of an unknown turn is refused; a turn part of the same report counts."""
    with refused("unknown_turn", PART):
        story.ask("r1", "t9")

    part = {"request_id": "r1", "turn_id": "t1", "kind": "approval"}
    story.report(turn={"turn_id": "t1", "phase": "waiting"}, interactions=[part])

    assert story.asked("r1").status == "pending"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"kind": "riddle"}, "unknown_kind"),
        ({"kind": ""}, "missing_kind"),
        ({"status": "maybe"}, "unknown_status"),
        ({"request_id": ""}, "missing_identity"),
        ({"turn_id": ""}, "missing_identity"),
    ],
)
def test_what_nobody_can_mean_is_refused(said: dict[str, str], reason: str, story: Story) -> None:
    """I1: Unknown words, a first report without a kind, and a part without its ids are refused."""
    story.turn("t1", "running")

    with refused(reason, PART):
        story.ask("r1", **said)


def test_request_ids_repeat_across_turns(story: Story) -> None:
    """R1: The same request id in two turns is two interactions."""
    story.turn("t1", "running", at=0)
    story.ask("1", "t1")
    story.answer("1", {"a": 1}, "t1")
    story.turn("t2", "running", at=5)
    story.ask("1", "t2")

    assert (story.asked("1", "t1").status, story.asked("1", "t2").status) == ("answered", "pending")


@pytest.mark.parametrize("field", ["kind", "tool_name", "input", "metadata"])
def test_a_pending_report_that_differs_is_a_conflict(field: str, story: Story) -> None:
    """I2: What was asked is written once: a differing pending report changes nothing."""
    story.turn("t1", "running")
    first: dict[str, Any] = {"kind": "approval", "tool_name": "Bash", "input": {"a": 1}, "metadata": {"b": 1}}
    other = {"kind": "plan", "tool_name": "Read", "input": {"a": 2}, "metadata": {"b": 2}}
    story.ask("r1", **first)
    before = story.asked("r1")

    reply = story.ask("r1", **{**first, field: other[field]})

    assert became(reply, PART) == "conflict"
    assert story.asked("r1") == before


def test_a_pending_report_told_again_is_a_duplicate(story: Story) -> None:
    """I2: The same question again is no news, and what it leaves out it does not contradict."""
    story.turn("t1", "running")
    story.ask("r1", tool_name="Bash", input={"a": 1.0})

    assert became(story.ask("r1", tool_name="Bash", input={"a": 1}), PART) == "duplicate"
    assert became(story.ask("r1", kind=""), PART) == "duplicate"


@pytest.mark.parametrize("status", ["answered", "superseded"])
def test_a_terminal_report_ends_a_question_whatever_else_it_says(status: str, story: Story) -> None:
    """I2: Differing identity fields of a terminal report are ignored and its status counts."""
    story.turn("t1", "running")
    story.ask("r1", tool_name="Bash", input={"a": 1})

    story.ask("r1", kind="plan", status=status, tool_name="Read", input={"a": 2}, output={"ok": 1}, at=7)

    asked = story.asked("r1")
    assert (asked.status, asked.kind, asked.tool_name, asked.input) == (status, "approval", "Bash", {"a": 1})
    assert asked.output == ({"ok": 1} if status == "answered" else None)
    assert asked.ended_at_unix_ms == T0 + 7


def test_a_question_may_be_told_with_its_answer(story: Story) -> None:
    """I3: A first report may already be terminal."""
    story.turn("t1", "running")

    reply = story.ask("r1", status="answered", output={"ok": True})

    assert story.wrote(reply) == ["interaction_requested", "interaction_answered"]
    assert story.asked("r1").output == {"ok": True}


@pytest.mark.parametrize("then", ["pending", "answered", "superseded"])
def test_the_first_terminal_answer_wins(then: str, story: Story) -> None:
    """I3: An ended interaction takes no other report and keeps its answer."""
    story.turn("t1", "running")
    story.ask("r1")
    story.ask("r1", status="answered", output={"ok": True})

    reply = story.ask("r1", status=then, output={"ok": False})

    assert became(reply, PART) == "already_terminal"
    assert (story.asked("r1").status, story.asked("r1").output) == ("answered", {"ok": True})


def test_the_answer_given_twice_is_given_once(story: Story) -> None:
    """I3: The same answer again is ignored, another one is refused as a conflict, both without an event."""
    story.turn("t1", "running")
    story.ask("r1")
    story.answer("r1", {"ok": True, "n": 1})
    before = story.count()

    again = story.answer("r1", {"n": 1.0, "ok": True})

    assert became(again, PART) == "duplicate"
    with refused("conflict", PART):
        story.answer("r1", {"ok": False})
    assert story.count() == before


def test_only_what_was_asked_can_be_answered(story: Story) -> None:
    """I3: An answer names a session, a turn and a request that are known."""
    with refused("unknown_session"):
        story.answer("r1", {})
    story.turn("t1", "running")
    with refused("unknown_interaction", PART):
        story.answer("r1", {})
    with refused("unknown_turn", PART):
        story.answer("r1", {}, "t9")


def test_a_superseded_question_takes_no_answer(story: Story) -> None:
    """I3: What the turn's own end superseded stays so."""
    story.turn("t1", "running")
    story.ask("r1")
    story.turn("t1", "completed")

    assert became(story.answer("r1", {"ok": True}), PART) == "already_terminal"
    assert story.asked("r1").status == "superseded"


def test_a_late_question_is_visible_and_not_lost(story: Story) -> None:
    """I4: A new pending request on a finally settled turn is stored as superseded at once."""
    story.turn("t1", "completed", at=5)

    reply = story.ask("r1", at=6)

    assert story.wrote(reply) == ["interaction_requested", "interaction_superseded"]
    superseded = story.event(reply, InteractionSuperseded)
    assert (superseded.cause, superseded.provisional) == ("late", False)
    assert story.asked("r1").status == "superseded"
    assert became(story.answer("r1", {"ok": True}), PART) == "already_terminal"


def test_a_new_question_brings_a_guessed_end_back(story: Story) -> None:
    """I4: On a provisionally ended turn a new request is pending, and the turn waits for its answer."""
    story.turn("t1", "running", at=0)
    story.ledger.settle(ROOM)

    reply = story.ask("r1", at=6)

    assert story.wrote(reply) == ["turn_revived", "interaction_requested"]
    assert (story.the_turn().phase, story.session().status) == ("waiting", "waiting")


def test_a_new_question_behind_another_live_turn_is_superseded_for_now(story: Story) -> None:
    """I4: While another turn is at work the guessed end stands, and so does the question's, as a guess."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "running", at=5)

    reply = story.ask("r1", at=6)

    assert story.event(reply, InteractionSuperseded).provisional
    assert story.session().active_turn_id == "t2"


def test_a_question_asked_again_brings_a_guessed_end_back(story: Story) -> None:
    """T10: The same request pending again says that its turn still waits."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ledger.settle(ROOM)

    reply = story.ask("r1", at=6)

    assert story.wrote(reply) == ["turn_revived", "interaction_reopened"]
    assert story.asked("r1").status == "pending"


def test_a_guessed_supersession_can_be_answered_by_a_person(story: Story) -> None:
    """T10: A question that only a guess has closed takes an answer; the turn stays as it is."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ledger.settle(ROOM)

    reply = story.answer("r1", {"ok": True})

    assert story.wrote(reply) == ["interaction_reopened", "interaction_answered"]
    assert (story.asked("r1").status, story.asked("r1").output) == ("answered", {"ok": True})
    assert story.the_turn().phase == "settled"
    with refused("conflict", PART):
        story.answer("r1", {"ok": False})


def test_a_guessed_supersession_can_be_answered_by_a_report(story: Story) -> None:
    """T10: A report of the answer counts too; a report that it was superseded makes the guess final."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ask("r2", at=1)
    story.ledger.settle(ROOM)

    answered = story.ask("r1", status="answered", output={"ok": True}, at=6)
    superseded = story.ask("r2", status="superseded", at=6)

    assert story.asked("r1").output == {"ok": True}
    assert (became(answered, PART), became(superseded, PART)) == ("applied", "applied")
    story.turn("t1", "running", at=7)
    assert story.asked("r2").status == "superseded"


def test_a_final_end_makes_a_guessed_supersession_final(story: Story) -> None:
    """T10: When the turn reports its own end, its superseded questions take no answer any more."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ledger.settle(ROOM)

    reply = story.turn("t1", "completed", at=5)

    assert story.wrote(reply) == ["turn_settled", "interaction_superseded"]
    assert became(story.answer("r1", {"ok": True}), PART) == "already_terminal"


def test_an_answer_stays_when_its_turn_comes_back(story: Story) -> None:
    """T10: Only what the guess superseded opens again."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ledger.settle(ROOM)
    story.answer("r1", {"ok": True})

    story.turn("t1", "running", at=9)

    assert story.asked("r1").status == "answered"


def test_an_answer_names_the_question_and_its_tree(story: Story) -> None:
    """D2: An interaction's id is the JSON text of turn and request; its root's tree is dirty once."""
    story.turn("t1", "running")
    story.ask("r1")
    story.ask("r2")

    reply = story.turn("t1", "completed")

    assert named(reply) == [
        "turn t1 upsert",
        f"session {SESSION} upsert",
        'interaction ["t1","r1"] upsert',
        f"interaction_tree {SESSION} dirty",
        'interaction ["t1","r2"] upsert',
    ]


def test_interactions_stand_before_their_turns_end_in_one_report(story: Story) -> None:
    """I3: A report that answers a question and ends its turn has the answer count first."""
    story.turn("t1", "running")
    story.ask("r1")

    part = {"request_id": "r1", "turn_id": "t1", "status": "answered", "output": {"ok": 1}}
    reply = story.report(turn={"turn_id": "t1", "phase": "completed"}, interaction_transition=part)

    assert outcomes(reply)[1:] == ["interaction r1: applied", "turn t1: applied"]
    assert story.asked("r1").status == "answered"
