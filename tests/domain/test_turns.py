"""Turns: how they start, go on, queue, overtake each other, end, and come back."""

from typing import Any

import pytest

from domain.turn import (
    TurnAdvanced,
    TurnAnnotated,
    TurnRevived,
    TurnSettled,
    TurnStarted,
)
from tests.domain.story import (
    ROOM,
    SESSION,
    T0,
    Story,
    became,
    named,
    outcomes,
    question,
    refused,
    tool,
    update,
)

# Phases.


@pytest.mark.parametrize("phase", ["submitted", "running", "waiting", "settling"])
def test_a_first_report_may_start_at_any_phase(phase: str, story: Story) -> None:
    """T1: A turn may be seen first at any phase; it is live from then on."""
    story.turn("t1", phase)

    assert story.the_turn().phase == phase
    assert story.session().active_turn_id == "t1"
    assert (story.the_turn().outcome, story.the_turn().settled_at_unix_ms) == (None, None)


@pytest.mark.parametrize("phase", ["submitted", "running", "waiting", "settling"])
def test_a_turn_may_settle_from_anywhere(phase: str, story: Story) -> None:
    """T1: Every phase may go to settled, which has an outcome and a time; completed is the default."""
    story.turn("t1", phase, at=0)

    story.turn("t1", "settled", at=5)

    turn = story.the_turn()
    assert (turn.phase, turn.outcome, turn.settled_at_unix_ms) == ("settled", "completed", T0 + 5)


def test_running_and_waiting_alternate(story: Story) -> None:
    """T1: A turn waits and runs again as often as it likes."""
    phases = ["running", "waiting", "running", "waiting", "settling", "settled"]
    replies = [story.turn("t1", phase, at=at) for at, phase in enumerate(phases)]

    assert [became(reply) for reply in replies] == ["applied"] * 6


@pytest.mark.parametrize(
    ("first", "then"), [("running", "submitted"), ("waiting", "submitted"), ("settling", "waiting")]
)
def test_a_phase_that_goes_backwards_is_late(first: str, then: str, story: Story) -> None:
    """T3: A turn never goes back to an earlier phase."""
    story.turn("t1", first, at=0)

    late = story.turn("t1", then, at=5)

    assert became(late) == "late"
    assert story.the_turn().phase == first
    assert story.wrote(late) == []


def test_a_live_phase_on_a_finally_settled_turn_is_late(story: Story) -> None:
    """T3: Nothing brings a turn back that has reported its own end."""
    story.turn("t1", "running", at=0)
    story.turn("t1", "completed", at=5)

    assert [became(story.turn("t1", "running", at=at)) for at in (4, 6, None)] == ["late"] * 3
    assert story.the_turn().phase == "settled"


def test_another_outcome_on_a_finally_settled_turn_is_late_as_a_whole(story: Story) -> None:
    """T3: A second end that tells another outcome changes nothing, whatever else it carries."""
    story.turn("t1", "completed", at=0)

    late = story.turn("t1", "failed", at=5, error_message="no", file_changes={"a.py": 1})

    assert became(late) == "late"
    assert story.wrote(late) == []
    assert (story.the_turn().outcome, story.the_turn().file_changes) == ("completed", None)


def test_waiting_that_was_over_before_it_is_told_is_late(story: Story) -> None:
    """T3: Between running and waiting the later one counts, not the one that arrives later."""
    story.turn("t1", "running", at=0)
    story.turn("t1", "waiting", at=10)
    story.turn("t1", "running", at=20)

    assert became(story.turn("t1", "waiting", at=15)) == "late"
    assert became(story.turn("t1", "waiting", at=20)) == "applied"


def test_a_part_that_changes_nothing_is_a_duplicate(story: Story) -> None:
    """T3: The same phase again is a duplicate, with news beside the phase it is a change."""
    story.turn("t1", "running", at=0)

    again = story.turn("t1", "running", at=5)
    news = story.turn("t1", "running", at=6, file_changes={"a.py": 1}, error={"message": "hm", "code": "E1"})

    assert (became(again), became(news)) == ("duplicate", "applied")
    assert story.event(news, TurnAnnotated).error_code == "E1"
    assert (story.the_turn().file_changes, story.the_turn().error) == ({"a.py": 1}, "hm")


def test_a_repeated_end_is_a_duplicate_and_may_bring_news(story: Story) -> None:
    """T3: The end told again with the same outcome is no change, but what it adds is kept."""
    story.turn("t1", "completed", at=0)

    assert became(story.turn("t1", "completed", at=9)) == "duplicate"
    assert became(story.turn("t1", "completed", at=9, file_changes={"a.py": 1})) == "applied"
    assert story.the_turn().settled_at_unix_ms == T0


# One live turn.


def test_the_turn_that_started_later_is_live(story: Story) -> None:
    """T2: A newer turn becomes live; the other settles as interrupted, provisionally, in the same commit,
    before the start that displaces it.
    """
    story.turn("t1", "running", at=0)

    reply = story.turn("t2", "running", at=10)

    assert story.wrote(reply) == ["turn_settled", "turn_started"]
    assert story.session().active_turn_id == "t2"
    first = story.the_turn("t1")
    assert (first.outcome, first.provisional, first.cause) == ("interrupted", True, "overtaken")
    assert first.settled_at_unix_ms == T0 + 10
    assert "turn t1 settle" in named(reply)


def test_a_turn_that_started_earlier_is_overtaken_at_once(story: Story) -> None:
    """T2: A report of an older turn arriving later does not displace the newer one."""
    story.turn("t2", "running", at=10)

    reply = story.turn("t1", "running", at=0)

    assert story.session().active_turn_id == "t2"
    assert became(reply) == "applied"
    assert (story.the_turn("t1").outcome, story.the_turn("t1").provisional) == ("interrupted", True)


@pytest.mark.parametrize("at", [10, None])
def test_of_two_turns_that_started_at_once_the_incoming_one_is_live(at: int | None, story: Story) -> None:
    """T2: An equal or an unknown start counts for the incoming turn."""
    story.turn("t1", "running", at=10)

    story.turn("t2", "running", at=at)

    assert story.session().active_turn_id == "t2"


def test_an_overtaken_turn_keeps_what_its_report_tells(story: Story) -> None:
    """T2: Annotations of a turn that is overtaken in its first report are kept."""
    story.turn("t2", "running", at=10)

    story.turn("t1", "running", at=0, file_changes={"a.py": 1}, error_message="slow", origin="user_prompt")

    turn = story.the_turn("t1")
    assert (turn.phase, turn.file_changes, turn.error) == ("settled", {"a.py": 1}, "slow")
    assert turn.origin == "user_prompt"


def test_an_overtaken_turn_tells_its_own_end_later(story: Story) -> None:
    """T2: The end of a displaced turn is a guess, and its own report replaces it."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "running", at=10)

    story.turn("t1", "completed", at=8)

    first = story.the_turn("t1")
    assert (first.outcome, first.provisional, first.cause) == ("completed", None, "reported")
    assert story.session().active_turn_id == "t2"


@pytest.mark.parametrize("phase", ["running", "waiting", "settling"])
def test_a_submitted_turn_queues_behind_one_at_work(phase: str, story: Story) -> None:
    """T2: A merely submitted turn displaces nothing that works; it is neither live nor settled."""
    story.turn("t1", phase, at=0)

    reply = story.turn("t2", "submitted", at=10)

    assert story.wrote(reply) == ["turn_started"]
    assert story.session().active_turn_id == "t1"
    assert (story.the_turn("t2").phase, story.the_turn("t2").outcome) == ("submitted", None)
    assert named(reply) == ["turn t2 upsert"]


def test_the_earliest_of_the_queue_follows_the_live_turn(story: Story) -> None:
    """T2: When the live turn settles, the queued turn that started first becomes live in the same commit."""
    story.turn("t1", "running", at=0)
    story.turn("t3", "submitted", at=30)
    story.turn("t2", "submitted", at=20)

    reply = story.turn("t1", "completed", at=40)

    assert story.event(reply, TurnSettled).next_turn_id == "t2"
    assert story.session().active_turn_id == "t2"
    assert story.session().status == "working"
    story.turn("t2", "completed", at=50)
    assert story.session().active_turn_id == "t3"


def test_a_queued_turn_that_settles_leaves_the_queue(story: Story) -> None:
    """T2: A queued turn may end without ever having been live."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=10)

    story.turn("t2", "canceled", at=15)
    story.turn("t1", "completed", at=20)

    assert story.session().active_turn_id is None


def test_a_queued_turn_that_begins_to_work_overtakes_the_live_one(story: Story) -> None:
    """T2: A later turn that runs is the live one, whatever the earlier one was last heard of."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=10)

    reply = story.turn("t2", "running", at=20)

    assert story.wrote(reply) == ["turn_settled", "turn_advanced"]
    assert story.session().active_turn_id == "t2"
    assert story.the_turn("t1").outcome == "interrupted"


def test_a_submitted_live_turn_gives_way_to_a_later_submitted_one(story: Story) -> None:
    """T2: Of two turns that merely were submitted the later one is live."""
    story.turn("t1", "submitted", at=0)
    story.turn("t2", "submitted", at=10)

    assert story.session().active_turn_id == "t2"
    assert (story.the_turn("t1").outcome, story.the_turn("t1").provisional) == ("interrupted", True)


def test_an_earlier_turn_at_work_sends_a_submitted_one_back_to_the_queue(story: Story) -> None:
    """T2: An earlier turn that runs takes over from a live one that was merely submitted, which queues
    again and follows it.
    """
    story.turn("t2", "submitted", at=10)

    reply = story.turn("t1", "running", at=0)

    started = story.event(reply, TurnStarted)
    assert (started.active, started.queued_turn_id, started.queued_began) == (True, "t2", T0 + 10)
    assert story.session().active_turn_id == "t1"
    assert story.the_turn("t2").phase == "submitted"
    story.turn("t1", "completed", at=20)
    assert story.session().active_turn_id == "t2"


def test_the_end_of_an_unknown_turn_displaces_nothing(story: Story) -> None:
    """T2: The settled report of a turn that nobody has heard of is stored beside the live one."""
    story.turn("t1", "running", at=0)

    reply = story.turn("t9", "failed", at=10)

    assert story.wrote(reply) == ["turn_started", "turn_settled"]
    assert story.session().active_turn_id == "t1"
    ended = story.the_turn("t9")
    assert (ended.phase, ended.outcome, ended.provisional) == ("settled", "failed", None)


def test_ends_are_judged_before_live_parts_of_one_report(story: Story) -> None:
    """T2: In one report a turn ends before another one goes on, in whatever order they stand, so the end
    is the reported one and displaces nothing.
    """
    story.turn("t1", "running", at=0)

    reply = story.report(
        at=10, turns=[{"turn_id": "t2", "phase": "running"}, {"turn_id": "t1", "phase": "completed"}]
    )

    assert outcomes(reply) == ["session ses-1: duplicate", "turn t1: applied", "turn t2: applied"]
    assert (story.the_turn("t1").outcome, story.the_turn("t1").provisional) == ("completed", None)
    assert story.session().active_turn_id == "t2"


def test_what_a_report_says_of_an_ending_turn_stands_before_its_end(story: Story) -> None:
    """T4: Messages and answers of the same report count before the end, which finds its final message and
    supersedes no question that is answered there. An update without a turn goes with its message's turn.
    """
    story.turn("t1", "running", at=0)
    story.say(update("m1", "to", at=1))
    story.ask("r1", at=2)

    reply = story.report(
        at=10,
        turn={"turn_id": "t1", "phase": "completed"},
        messages=[update("m1", "to the end", turn=""), update("m2", "bye")],
        interactions=[question("r1", status="answered", output={"ok": True})],
    )

    assert story.wrote(reply) == [
        "interaction_answered",
        "message_extended",
        "message_added",
        "turn_settled",
    ]
    assert story.the_turn().final_assistant_message_id == "m2"
    assert story.asked("r1").status == "answered"


def test_an_unknown_turn_that_ends_takes_messages_of_the_same_report(story: Story) -> None:
    """T4: A turn of which only the end is told is known to the messages beside it."""
    reply = story.report(
        at=10, turn={"turn_id": "t1", "phase": "completed"}, messages=[update("m1", "all", at=9)]
    )

    assert story.wrote(reply)[-3:] == ["turn_started", "message_added", "turn_settled"]
    assert story.the_turn().final_assistant_message_id == "m1"


# Ends.


def test_an_end_names_the_final_message_that_is_given(story: Story) -> None:
    """T4: The final message is the one given, if it is a stored assistant text of that turn."""
    story.turn("t1", "running")
    story.say(update("m1", "one"), update("m2", "two"))

    story.turn("t1", "completed", final_assistant_message_id="m1")

    assert story.the_turn().final_assistant_message_id == "m1"


@pytest.mark.parametrize("given", ["", "unknown", "prompt", "thought", "foreign"])
def test_an_end_chooses_the_assistant_text_with_the_highest_version(given: str, story: Story) -> None:
    """T4: Without a usable id the final message is the assistant text of that turn that changed last."""
    story.turn("t0", "completed")
    story.turn("t1", "running")
    story.say(update("foreign", "x", turn="t0"), update("prompt", "x", role="user"))
    story.say(update("m1", "one"), update("m2", "two"), update("thought", "x", kind="reasoning"))
    story.say(update("m1", "one more"))

    story.turn("t1", "completed", final_assistant_message_id=given)

    assert story.the_turn().final_assistant_message_id == "m1"


def test_a_turn_without_assistant_text_has_no_final_message(story: Story) -> None:
    """T4: None is said explicitly, and a later text of the turn does not become it."""
    story.turn("t1", "running")

    reply = story.turn("t1", "completed")
    story.say(update("m1", "late"))

    assert story.event(reply, TurnSettled).final_message_id is None
    assert story.the_turn().final_assistant_message_id is None


def test_the_final_message_of_a_final_end_never_moves(story: Story) -> None:
    """T4: The end told again with another final message changes nothing."""
    story.turn("t1", "running")
    story.say(update("m1", "one"), update("m2", "two"))
    story.turn("t1", "completed", final_assistant_message_id="m1")

    assert became(story.turn("t1", "completed", final_assistant_message_id="m2")) == "duplicate"
    assert story.the_turn().final_assistant_message_id == "m1"


def test_the_final_message_is_chosen_again_when_a_guess_is_replaced(story: Story) -> None:
    """T4: A provisional end's final message is a guess as well."""
    story.turn("t1", "running", at=0)
    story.say(update("m1", "one", at=1))
    story.turn("t2", "running", at=10)
    assert story.the_turn("t1").final_assistant_message_id == "m1"
    story.say(update("m2", "late", at=5))

    story.turn("t1", "completed", at=8)

    assert story.the_turn("t1").final_assistant_message_id == "m2"


def test_an_end_supersedes_pending_questions_of_its_turn_alone(story: Story) -> None:
    """T4: Nobody waits for the answers of an ended turn; answered ones stay, other turns' stay open."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ask("r2", at=1)
    story.answer("r2", {"ok": True})

    reply = story.turn("t1", "completed", at=5)

    assert story.wrote(reply) == ["turn_settled", "interaction_superseded"]
    assert (story.asked("r1").status, story.asked("r2").status) == ("superseded", "answered")


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("failed", "canceled"), ("canceled", "canceled"), ("interrupted", "canceled"), ("completed", "running")],
)
def test_an_end_that_is_no_completion_closes_open_tools(outcome: str, status: str, story: Story) -> None:
    """T4: An end other than completed closes the tool calls of its turn that have not ended as canceled."""
    story.turn("t1", "running", at=0)
    story.say(tool("open"), tool("done", "completed"), update("m1", "x", status="streaming"))

    story.turn("t1", "settled", outcome=outcome, at=9)

    assert story.message("open").status == status
    assert (story.message("done").status, story.message("m1").status) == ("completed", "streaming")
    if status == "canceled":
        assert story.message("open").completed_at_unix_ms == T0 + 9


def test_a_tool_that_a_guess_has_closed_tells_its_own_end(story: Story) -> None:
    """T4: After a provisional end a tool's next own report replaces its status and its time."""
    story.turn("t1", "running", at=0)
    story.say(tool("call", at=1))
    story.turn("t2", "running", at=50)
    assert story.message("call").status == "canceled"

    story.say(tool("call", "completed", at=20, completed_at_unix_ms=T0 + 20))

    assert story.message("call").status == "completed"
    assert story.message("call").completed_at_unix_ms == T0 + 20


def test_a_tool_that_a_guess_has_closed_goes_on(story: Story) -> None:
    """T4: Its own report that it runs counts as well."""
    story.turn("t1", "running", at=0)
    story.say(tool("call", at=1))
    story.turn("t2", "running", at=50)

    story.say(tool("call", "running", at=20))

    assert story.message("call").status == "running"


def test_a_final_end_makes_provisionally_canceled_tools_final(story: Story) -> None:
    """T4: When the turn itself reports that it was canceled, its tools' ends are no guess any more."""
    story.turn("t1", "running", at=0)
    story.say(tool("call", at=1))
    story.turn("t2", "running", at=50)

    story.turn("t1", "canceled", at=40)
    late = story.say(tool("call", "running", at=45))

    assert outcomes(late) == ["message call: late"]
    assert story.message("call").status == "canceled"


def test_the_last_end_is_the_one_that_happened_last(story: Story) -> None:
    """S6: An end that lies before another turn's end is past: it does not become the session's last end."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "running", at=10)
    story.turn("t2", "failed", at=30)
    assert story.session().status == "failed"

    reply = story.turn("t1", "completed", at=20)

    assert story.event(reply, TurnSettled).is_past
    assert story.session().status == "failed"
    assert named(reply) == ["turn t1 upsert"]


# Words.


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        *[(word, "running") for word in ("running", "working", "streaming", "in_progress", "active")],
        *[(word, "waiting") for word in ("waiting", "waiting_approval", "awaiting_approval")],
        *[("waiting_input", "waiting"), ("Running", "running"), (" settling ", "settling")],
    ],
)
def test_words_for_phases_fold(word: str, phase: str, story: Story) -> None:
    """T5: Runtimes' words for a phase mean one of five."""
    story.turn("t1", word)

    assert story.the_turn().phase == phase


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        *[(word, "completed") for word in ("completed", "complete", "success", "succeeded", "settled")],
        *[(word, "failed") for word in ("failed", "failure", "error", "errored", "ERROR")],
        *[("canceled", "canceled"), ("cancelled", "canceled"), ("interrupted", "interrupted")],
    ],
)
def test_words_for_ends_fold(word: str, outcome: str, story: Story) -> None:
    """T5: A word for an outcome in the phase's place settles the turn with it."""
    story.turn("t1", word)

    assert (story.the_turn().phase, story.the_turn().outcome) == ("settled", outcome)


def test_an_outcome_alone_settles_and_goes_before_the_phase_word(story: Story) -> None:
    """T5: An outcome without a phase is an end; beside a phase that is one, the outcome counts."""
    story.turn("t1", "", outcome="errored")
    story.turn("t2", "completed", outcome="cancelled")

    assert (story.the_turn("t1").outcome, story.the_turn("t2").outcome) == ("failed", "canceled")


@pytest.mark.parametrize(
    ("phase", "becomes"), [("running", "settling"), ("", "settling"), ("completed", "settled")]
)
def test_settling_true_means_settling_unless_settled(phase: str, becomes: str, story: Story) -> None:
    """T5: The flag `settling` moves a live phase to settling and leaves an end alone."""
    story.turn("t1", phase, settling=True)

    assert story.the_turn().phase == becomes


def test_an_unknown_phase_is_ignored_and_named(story: Story) -> None:
    """T5: A word nobody knows leaves the turn part out, and the answer repeats it; the rest stands."""
    reply = story.report(title="x", turn={"turn_id": "t1", "phase": "pondering"})

    (_, outcome) = reply.outcomes
    assert (outcome.outcome, outcome.reason, outcome.word) == ("ignored", "unknown_phase", "pondering")
    assert story.session().title == "x"
    assert story.turns() == {}


def test_an_unknown_outcome_is_refused(story: Story) -> None:
    """C1: A word for an outcome that nobody knows can never be stored."""
    with refused("unknown_outcome", "turn"):
        story.turn("t1", "settled", outcome="fine")


def test_a_blank_phase_merges_what_it_carries(story: Story) -> None:
    """T5: Without a phase only what stands beside it counts; the turn has to be known."""
    story.turn("t1", "running")

    story.turn("t1", capability_refs=[{"capability": "web", "source": "user"}])

    assert story.the_turn().capability_refs == ({"capability": "web", "source": "user"},)
    with refused("unknown_turn", "turn"):
        story.turn("t9", capability_refs=[{"capability": "web", "source": "user"}])


def test_a_lifecycle_snapshot_changes_no_turn(story: Story) -> None:
    """T5: `turnLifecycle` is accepted and means nothing."""
    story.turn("t1", "completed")

    reply = story.report(turn_lifecycle={"activeTurnId": "t1", "phase": "running", "settling": False})

    assert outcomes(reply) == ["session ses-1: duplicate"]
    assert story.the_turn().phase == "settled"


# Fields.


def test_the_start_is_the_earliest_that_is_known_beside_news(story: Story) -> None:
    """T6: An earlier start is kept when the report has other news; alone it is a heartbeat."""
    story.turn("t1", "running", started_at_unix_ms=T0 + 50)

    heartbeat = story.turn("t1", "running", started_at_unix_ms=T0 + 40)
    beside = story.turn("t1", "waiting", started_at_unix_ms=T0 + 30)
    story.turn("t1", "running", started_at_unix_ms=T0 + 90)

    assert became(heartbeat) == "duplicate"
    assert story.wrote(beside) == ["turn_advanced", "turn_annotated"]
    assert story.the_turn().started_at_unix_ms == T0 + 30


def test_a_blank_error_keeps_the_stored_one(story: Story) -> None:
    """T6: An error is replaced by another one, never by none."""
    story.turn("t1", "running", error_message="one", error_code="E1")
    story.turn("t1", "waiting", error_message="", error_code="")
    assert (story.the_turn().error, story.the_turn().error_code) == ("one", "E1")

    story.turn("t1", "running", error_message="two", error_code="E2")

    assert (story.the_turn().error, story.the_turn().error_code) == ("two", "E2")


def test_changes_and_command_are_replaced_only_when_present(story: Story) -> None:
    """T6: File changes and the completed command are replaced as a whole, and kept when absent."""
    first: dict[str, Any] = {"a.py": {"added": 1}}
    story.turn("t1", "running", file_changes=first, completed_command={"kind": "run", "status": "ok"})
    story.turn("t1", "waiting")
    assert story.the_turn().file_changes == first
    assert story.the_turn().completed_command == {"kind": "run", "status": "ok"}

    story.turn("t1", "running", file_changes={"b.py": 1}, completed_command={"kind": "run", "status": "no"})

    assert story.the_turn().file_changes == {"b.py": 1}
    assert story.the_turn().completed_command == {"kind": "run", "status": "no"}


def test_capability_refs_only_grow(story: Story) -> None:
    """T6: References to capabilities add up, each once, also on a settled turn."""
    web, shell = ({"capability": name, "source": "user"} for name in ("web", "shell"))
    story.turn("t1", "running", capability_refs=[web])
    story.turn("t1", "completed", capability_refs=[])

    reply = story.turn("t1", "running", capability_refs=[web, shell])

    assert became(reply) == "applied"
    assert story.the_turn().capability_refs == (web, shell)
    assert story.the_turn().phase == "settled"


def test_a_late_phase_fills_only_what_is_absent(story: Story) -> None:
    """T6: What stands beside a phase that comes too late is kept where nothing stood before."""
    story.turn("t1", "completed", error_message="first")

    story.turn("t1", "running", error_message="second", error_code="E1", file_changes={"a.py": 1})

    turn = story.the_turn()
    assert (turn.error, turn.error_code, turn.file_changes) == ("first", "E1", {"a.py": 1})


def test_the_origin_is_written_once(story: Story) -> None:
    """T6: A turn's origin is one of five words and stays what it was first."""
    story.turn("t1", "running")
    story.turn("t1", "waiting", origin="goal_arm")
    story.turn("t1", "running", origin="user_prompt")

    assert story.the_turn().origin == "goal_arm"
    with refused("unknown_origin", "turn"):
        story.turn("t2", "running", origin="elsewhere")


def test_fields_that_decide_nothing_are_kept(story: Story) -> None:
    """T6: The goal's fields of the wire stand with the turn as data."""
    story.turn("t1", "running", source_goal_operation_id="op", source_goal_revision=3, active_turn_id="t0")

    data = {"sourceGoalOperationId": "op", "sourceGoalRevision": 3, "activeTurnId": "t0"}
    assert story.the_turn().data == data


def test_a_turn_names_itself(story: Story) -> None:
    """C1: A turn part without an id is refused."""
    with refused("missing_identity", "turn"):
        story.turn(" ", "running")


# Cancel.


def test_a_request_to_cancel_is_recorded_and_settles_nothing(story: Story) -> None:
    """T6: Who asks for a turn's end is noted with the time; the runtime's own report settles it."""
    story.turn("t1", "running")

    first = story.ledger.request_cancel(ROOM, SESSION, "t1")
    again = story.ledger.request_cancel(ROOM, SESSION, "t1")

    assert (became(first), became(again)) == ("applied", "duplicate")
    assert story.the_turn().cancel_requested_at_unix_ms == story.clock.now
    assert story.the_turn().phase == "running"
    story.turn("t1", "canceled")
    assert became(story.ledger.request_cancel(ROOM, SESSION, "t1")) == "late"
    with refused("unknown_turn", "turn"):
        story.ledger.request_cancel(ROOM, SESSION, "t9")


# Guessed ends.


def test_a_live_phase_takes_a_guessed_end_back(story: Story) -> None:
    """T10: A turn that ended without saying so is live again when it says that it works."""
    story.turn("t1", "running", at=0)
    story.ledger.settle(ROOM)

    reply = story.turn("t1", "running", at=50)

    assert story.wrote(reply) == ["turn_revived"]
    turn = story.the_turn()
    assert (turn.phase, turn.outcome, turn.settled_at_unix_ms) == ("running", None, None)
    assert story.session().active_turn_id == "t1"


def test_questions_open_again_with_their_turn(story: Story) -> None:
    """T10: What a guessed end superseded waits again; what was superseded before stays so."""
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.ask("r2", at=1)
    story.ask("r2", at=2, status="superseded")
    story.ledger.settle(ROOM)

    reply = story.turn("t1", "waiting", at=50)

    assert story.wrote(reply) == ["turn_revived", "interaction_reopened"]
    assert (story.asked("r1").status, story.asked("r2").status) == ("pending", "superseded")


@pytest.mark.parametrize(("phase", "at"), [("running", 5), ("waiting", 9), ("submitted", 50)])
def test_an_old_live_phase_does_not_revive(phase: str, at: int, story: Story) -> None:
    """T10: A live phase from before the turn's last one, or of an earlier rank, takes no end back."""
    story.turn("t1", "running", at=0)
    story.turn("t1", "waiting", at=10)
    story.ledger.settle(ROOM)

    assert became(story.turn("t1", phase, at=at)) == "late"
    assert story.the_turn().phase == "settled"


def test_a_guessed_end_stays_while_another_turn_works(story: Story) -> None:
    """T10: No turn comes back in the way of one at work."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "running", at=10)

    assert became(story.turn("t1", "running", at=20)) == "late"
    assert story.session().active_turn_id == "t2"


def test_a_submitted_turn_makes_way_for_one_that_comes_back(story: Story) -> None:
    """T10: A live turn that was merely submitted queues again behind the one that is alive after all."""
    story.turn("t1", "running", at=0)
    story.ledger.settle(ROOM)
    story.turn("t2", "submitted", at=10)

    reply = story.turn("t1", "running", at=20)

    assert story.event(reply, TurnRevived).queued_turn_id == "t2"
    assert story.session().active_turn_id == "t1"
    story.turn("t1", "completed", at=30)
    assert story.session().active_turn_id == "t2"


def test_a_reported_end_replaces_a_guess_whenever_it_comes(story: Story) -> None:
    """T10: Outcome and times of a guessed end are replaced by the turn's own, also by an older report."""
    story.turn("t1", "running", at=0)
    story.ledger.settle(ROOM)

    reply = story.turn("t1", "failed", at=3, error_message="lost")

    turn = story.the_turn()
    assert (turn.outcome, turn.provisional, turn.settled_at_unix_ms) == ("failed", None, T0 + 3)
    assert turn.error == "lost"
    assert became(story.turn("t1", "running", at=9)) == "late"
    assert "turn t1 upsert" in named(reply)


def test_a_turn_whose_provider_is_done_does_not_come_back(story: Story) -> None:
    """T10: With its provider's part completed and no child at work, a turn's guessed end stays."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1, turn="t1")
    story.turn("k1", "running", session="kid", at=2)
    story.provider("t1", "completed", at=3)
    story.turn("t2", "running", at=10)
    story.turn("t2", "completed", at=11)
    story.turn("k1", "completed", session="kid", at=12)

    assert became(story.turn("t1", "running", at=20)) == "late"


def test_a_turn_that_waits_for_children_comes_back_and_still_waits(story: Story) -> None:
    """T10: While a child is at work the turn comes back even with its provider's part completed, and the
    child's end settles it.
    """
    story.turn("t1", "running", at=0)
    story.child("kid", at=1, turn="t1")
    story.turn("k1", "running", session="kid", at=2)
    story.provider("t1", "completed", at=3)
    story.turn("t2", "running", at=10)
    story.turn("t2", "completed", at=11)

    reply = story.turn("t1", "running", at=20)
    assert story.event(reply, TurnRevived).awaiting
    story.turn("k1", "completed", session="kid", at=30)

    turn = story.the_turn("t1")
    assert (turn.phase, turn.cause, turn.provisional) == ("settled", "root", None)


# What a host left over.


def test_settling_a_room_ends_what_was_left_over(story: Story) -> None:
    """T7: Every live or queued turn is settled as interrupted, provisionally; questions are superseded, and
    one message for each session says so, without a turn and never as a final message.
    """
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=5)
    story.ask("r1", at=6)

    (reply,) = story.ledger.settle(ROOM)

    assert outcomes(reply) == ["turn t2: applied", "turn t1: applied"]
    assert story.wrote(reply) == ["turn_settled", "turn_settled", "interaction_superseded", "message_added"]
    for turn in story.turns().values():
        assert (turn.outcome, turn.provisional, turn.cause) == ("interrupted", True, "stale")
        assert turn.final_assistant_message_id is None
    (notice,) = story.messages().values()
    assert (notice.role, notice.kind, notice.turn_id) == ("system", "session_audit", None)
    assert (story.session().active_turn_id, story.session().status) == (None, "idle")


def test_settling_a_room_twice_is_settling_it_once(story: Story) -> None:
    """T7: What is settled stays as it is; a deleted session is left alone."""
    story.turn("t1", "running", at=0)
    story.turn("t1", "running", session="other", at=0)
    story.delete("other")
    story.ledger.settle(ROOM)
    before = story.count()

    assert all(not reply.applied for reply in story.ledger.settle(ROOM))
    assert story.count() == before


def test_settling_a_room_settles_children_before_their_parents(story: Story) -> None:
    """T7: A child's end comes first; a root turn that only waited for it then ends by its own rule."""
    story.turn("t1", "running", at=0)
    story.child("a-kid", at=1)
    story.turn("k1", "running", session="a-kid", at=2)
    story.child("z-kid", at=1, turn="")
    story.turn("k1", "running", session="z-kid", at=2)
    story.provider("t1", "completed", at=3)

    replies = story.ledger.settle(ROOM)

    ended = {session: story.turns(session) for session in ("a-kid", "z-kid", SESSION)}
    assert [reply.applied for reply in replies] == [True, True, False]
    assert ended["a-kid"]["k1"].cause == ended["z-kid"]["k1"].cause == "stale"
    assert (ended[SESSION]["t1"].cause, ended[SESSION]["t1"].outcome) == ("root", "completed")


def test_settling_a_room_begins_with_the_deepest(story: Story) -> None:
    """T7: A grandchild settles before its parent, whatever their ids are, and ties go by session id."""
    story.turn("t1", "running", at=0)
    for session, parent in (("a", SESSION), ("c", SESSION), ("b", "a")):
        story.child(session, parent=parent, at=1)
        story.turn("k1", "running", session=session, at=2)

    replies = story.ledger.settle(ROOM)

    order = [story.commit(reply)[0].session for reply in replies]
    assert order == ["b", "a", "c", SESSION]


def test_another_notice_is_written_for_another_turn_only(story: Story) -> None:
    """T7: The notice's id is a function of session and turn, so the same turn is spoken of once."""
    story.turn("t1", "running", at=0)
    story.ledger.settle(ROOM)
    story.turn("t1", "running", at=10)
    story.ledger.settle(ROOM)
    assert len(story.messages()) == 1

    story.turn("t2", "running", at=20)
    story.ledger.settle(ROOM)

    assert len(story.messages()) == 2


def test_a_move_names_whether_the_turn_is_live(story: Story) -> None:
    """T2: The event of a turn that goes on says that it is the live one."""
    story.turn("t1", "submitted")

    assert story.event(story.turn("t1", "running"), TurnAdvanced).active
