"""The root provider's own turn behind a turn: whose end counts, and what it waits for."""

import pytest

from domain.turn import ProviderTurnReported, TurnSettled
from tests.domain.story import T0, Story, became, outcomes, refused

PART = "provider_turn"


def test_running_starts_an_unknown_turn(story: Story) -> None:
    """T9: A provider's turn that runs runs the turn in front of it, also one that nobody reported."""
    reply = story.provider("t1", "running", at=5)

    assert became(reply, PART) == "applied"
    assert story.wrote(reply)[-2:] == ["turn_started", "provider_turn_reported"]
    assert (story.the_turn().phase, story.the_turn().started_at_unix_ms) == ("running", T0 + 5)


def test_running_moves_a_known_turn_on(story: Story) -> None:
    """T9: A submitted or waiting turn runs when its provider's turn does."""
    story.turn("t1", "submitted", at=0)

    reply = story.provider("t1", "running", at=5)

    assert story.wrote(reply) == ["provider_turn_reported", "turn_advanced"]
    assert story.the_turn().phase == "running"


def test_running_told_again_is_a_duplicate(story: Story) -> None:
    """T9: The same provider turn running again changes nothing."""
    story.provider("t1", "running", at=5)

    assert became(story.provider("t1", "running", at=6), PART) == "duplicate"


def test_completed_settles_the_turn_at_the_reports_time(story: Story) -> None:
    """T9: A completed provider turn settles its turn for good, with its outcome, error and time."""
    story.turn("t1", "running", at=0)

    reply = story.provider("t1", "completed", at=9, outcome="failed", error_message="no", error_code="E1")

    assert story.wrote(reply) == ["provider_turn_reported", "turn_settled"]
    turn = story.the_turn()
    assert (turn.outcome, turn.cause, turn.provisional) == ("failed", "reported", None)
    assert (turn.settled_at_unix_ms, turn.error, turn.error_code) == (T0 + 9, "no", "E1")


@pytest.mark.parametrize(("phase", "outcome"), [("failed", "failed"), ("settled", "completed")])
def test_a_word_for_an_end_carries_its_outcome(phase: str, outcome: str, story: Story) -> None:
    """T9: Words for ends fold as they do for turns."""
    story.turn("t1", "running")

    story.provider("t1", phase)

    assert story.the_turn().outcome == outcome


def test_a_completed_part_told_again_is_a_duplicate(story: Story) -> None:
    """T9: A provider turn is completed once."""
    story.turn("t1", "running", at=0)
    story.provider("t1", "completed", at=5)

    assert became(story.provider("t1", "completed", at=6), PART) == "duplicate"


def test_another_provider_turn_that_runs_becomes_current(story: Story) -> None:
    """T9: The provider may begin another turn of its own behind the same turn; then that one counts."""
    story.provider("t1", "running", at=0)

    reply = story.provider("t1", "running", at=5, provider_turn_id="p-2")
    other = story.provider("t1", "completed", at=6, provider_turn_id="p-1")

    assert became(reply, PART) == "applied"
    assert became(other, PART) == "other_provider_turn"
    assert story.the_turn().phase == "running"
    assert (story.the_turn().provider_turn or {})["providerTurnId"] == "p-2"
    story.provider("t1", "completed", at=7, provider_turn_id="p-2")
    assert story.the_turn().phase == "settled"


def test_a_blank_id_means_the_current_provider_turn(story: Story) -> None:
    """T9: Running with a blank id is told once, and is the turn that a named end completes later."""
    first = story.provider("t1", "running", at=0, provider_turn_id="")
    again = story.provider("t1", "running", at=1, provider_turn_id="")
    end = story.provider("t1", "completed", at=2, provider_turn_id="")

    assert [became(reply, PART) for reply in (first, again, end)] == ["applied", "duplicate", "applied"]
    assert story.the_turn().phase == "settled"


def test_a_blank_id_after_a_named_one_keeps_the_name(story: Story) -> None:
    """T9: Who does not say which provider turn means the one that is current."""
    story.provider("t1", "running", at=0, provider_turn_id="p-1")

    story.provider("t1", "completed", at=1, provider_turn_id="")

    assert (story.the_turn().provider_turn or {})["providerTurnId"] == "p-1"


def test_completed_then_running_of_one_id_is_late(story: Story) -> None:
    """T9: A provider turn that has completed does not run again."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    story.turn("k1", "running", session="kid", at=2)
    story.provider("t1", "completed", at=3)

    assert became(story.provider("t1", "running", at=4), PART) == "late"


def test_running_on_a_settled_turn_is_late(story: Story) -> None:
    """T9: The provider's part brings no settled turn back, whatever its id."""
    story.turn("t1", "completed", at=0)

    assert became(story.provider("t1", "running", at=1, provider_turn_id="p-9"), PART) == "late"
    assert story.the_turn().phase == "settled"


def test_completed_on_a_settled_turn_changes_only_this_part(story: Story) -> None:
    """T9: What the provider says of an ended turn is kept and decides nothing."""
    story.turn("t1", "failed", at=0)

    reply = story.provider("t1", "completed", at=1)

    assert story.wrote(reply) == ["provider_turn_reported"]
    assert (story.the_turn().provider_turn or {})["phase"] == "completed"
    assert (story.the_turn().outcome, story.the_turn().settled_at_unix_ms) == ("failed", T0)


def test_a_blank_phase_replaces_the_binding_of_the_current_id(story: Story) -> None:
    """T9: Without a phase only the binding counts, and only the current provider turn's."""
    story.provider("t1", "running", at=0, provider_turn_binding_json={"a": 1})

    new = story.provider("t1", "", at=1, provider_turn_binding_json={"a": 2})
    same = story.provider("t1", "", at=2, provider_turn_binding_json={"a": 2})
    other = story.provider("t1", "", at=3, provider_turn_id="p-9", provider_turn_binding_json={"a": 3})

    kinds = ["applied", "duplicate", "other_provider_turn"]
    assert [became(reply, PART) for reply in (new, same, other)] == kinds
    assert (story.the_turn().provider_turn or {})["binding"] == {"a": 2}


def test_what_cannot_be_meant_is_refused_or_ignored(story: Story) -> None:
    """T9: A part without its turn, or of an unknown turn, is refused; an unknown phase is ignored."""
    with refused("missing_identity", PART):
        story.provider("", "running")
    for phase in ("completed", ""):
        with refused("unknown_turn", PART):
            story.provider("t9", phase)
    story.turn("t1", "running")
    with refused("unknown_outcome", PART):
        story.provider("t1", "completed", outcome="fine")
    assert became(story.provider("t1", "waiting"), PART) == "unknown_phase"
    assert became(story.provider("t1", "pondering"), PART) == "unknown_phase"


# Waiting for children.


def work_in_a_child(story: Story, child: str = "kid", turn: str = "t1") -> None:
    story.child(child, at=1, turn=turn)
    story.turn("k1", "running", session=child, at=2)


def test_a_completed_root_turn_waits_for_its_children(story: Story) -> None:
    """T8: A root turn whose provider completes while a child is at work stays live; the child's last
    settlement settles it in the same commit, at the recorded time.
    """
    story.turn("t1", "running", at=0)
    work_in_a_child(story)

    waits = story.provider("t1", "completed", at=3, outcome="failed")
    ends = story.turn("k1", "completed", session="kid", at=9)

    assert story.wrote(waits) == ["provider_turn_reported"]
    assert story.event(waits, ProviderTurnReported).awaiting
    assert story.wrote(ends) == ["kid:turn_settled", "child_quiet", "turn_settled"]
    turn = story.the_turn()
    assert (turn.outcome, turn.cause, turn.provisional) == ("failed", "root", None)
    assert turn.settled_at_unix_ms == story.clock.now


def test_the_last_child_settles_the_root(story: Story) -> None:
    """T8: While one of several children works the root turn waits."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story, "kid-1")
    work_in_a_child(story, "kid-2")
    story.provider("t1", "completed", at=3)

    story.turn("k1", "completed", session="kid-1", at=4)
    assert story.the_turn().phase == "running"
    story.turn("k1", "failed", session="kid-2", at=5)

    assert story.the_turn().phase == "settled"


def test_a_queued_turn_keeps_a_child_active(story: Story) -> None:
    """T8: A child is active while it has a live or a queued turn."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.turn("k2", "submitted", session="kid", at=3)
    story.provider("t1", "completed", at=4)

    story.turn("k1", "completed", session="kid", at=5)
    assert story.the_turn().phase == "running"
    story.turn("k2", "completed", session="kid", at=6)

    assert story.the_turn().phase == "settled"


def test_descendants_of_any_depth_count_for_the_root_turn_they_name(story: Story) -> None:
    """T8: A grandchild at work holds the root turn that it names."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.child("grandkid", parent="kid", at=2)
    story.turn("g1", "running", session="grandkid", at=3)
    story.turn("k1", "completed", session="kid", at=4)
    story.provider("t1", "completed", at=5)
    assert story.the_turn().phase == "running"

    story.turn("g1", "completed", session="grandkid", at=6)

    assert story.the_turn().phase == "settled"


@pytest.mark.parametrize("turn", ["", "t0"])
def test_a_child_that_names_no_turn_or_another_holds_none(turn: str, story: Story) -> None:
    """T8: Only children that name the very turn hold it."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story, turn=turn)

    story.provider("t1", "completed", at=3)

    assert story.the_turn().phase == "settled"


def test_a_child_that_settles_by_its_own_provider_part_tells_its_root(story: Story) -> None:
    """T8: Whatever settles a child's last turn, the root hears of it in the same commit."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.provider("t1", "completed", at=3)

    reply = story.provider("k1", "completed", session="kid", at=4)

    assert story.wrote(reply) == [
        "kid:provider_turn_reported",
        "kid:turn_settled",
        "child_quiet",
        "turn_settled",
    ]
    assert story.the_turn().phase == "settled"


def test_a_deleted_child_settles_the_root(story: Story) -> None:
    """T8: A child that is deleted while it works holds its root turn no longer."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.provider("t1", "completed", at=3)

    reply = story.delete("kid")

    assert story.wrote(reply)[-2:] == ["child_quiet", "turn_settled"]
    assert story.the_turn().cause == "root"


def test_a_child_of_a_queued_root_turn_holds_it(story: Story) -> None:
    """T8: Each turn of a root waits for its own children."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=1)
    work_in_a_child(story, turn="t2")
    story.provider("t2", "completed", at=3)
    story.turn("t1", "completed", at=4)
    assert story.session().active_turn_id == "t2"

    story.turn("k1", "completed", session="kid", at=5)

    assert story.the_turn("t2").phase == "settled"


def test_the_turn_itself_may_end_before_its_children(story: Story) -> None:
    """T8: The turn's own report ends it whoever is at work; the children change nothing any more."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.provider("t1", "completed", at=3)

    story.turn("t1", "canceled", at=4)
    reply = story.turn("k1", "completed", session="kid", at=5)

    assert story.wrote(reply) == ["kid:turn_settled", "child_quiet"]
    assert story.the_turn().outcome == "canceled"


def test_another_part_of_the_provider_ends_the_waiting(story: Story) -> None:
    """T9: When another provider turn runs behind a turn that waits for children, it waits no longer."""
    story.turn("t1", "running", at=0)
    work_in_a_child(story)
    story.provider("t1", "completed", at=3)

    story.provider("t1", "running", at=4, provider_turn_id="p-2")
    story.turn("k1", "completed", session="kid", at=5)

    assert story.the_turn().phase == "running"
    reply = story.provider("t1", "completed", at=6, provider_turn_id="p-2")
    assert story.event(reply, TurnSettled).cause == "reported"


def test_one_report_may_carry_the_turn_and_its_provider_part(story: Story) -> None:
    """T9: The provider's part is judged behind the turns of its report."""
    reply = story.report(
        at=5,
        turn={"turn_id": "t1", "phase": "running"},
        root_provider_turn={"root_turn_id": "t1", "provider_turn_id": "p-1", "phase": "completed"},
    )

    assert outcomes(reply)[1:] == ["turn t1: applied", "provider_turn t1: applied"]
    assert story.the_turn().phase == "settled"
