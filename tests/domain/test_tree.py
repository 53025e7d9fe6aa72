"""Roots and children: relations, commits over several sessions, delete, restore and purge."""

import pytest

from application.ledger import Ledger
from application.views import Reply
from domain.session import ChildActive, ChildLinked, Deleted, Purged, Related, Restored
from tests.domain.story import (
    ROOM,
    SESSION,
    Story,
    became,
    named,
    outcomes,
    refused,
    update,
)


def family(story: Story) -> None:
    """A root at work, two children, and a grandchild below the first."""
    story.report(at=0, title="root")
    story.turn("t1", "running", at=0)
    story.child("kid-1", at=1)
    story.child("kid-2", at=1)
    story.child("grandkid", parent="kid-1", at=1)


# Relations.


def test_a_child_links_itself_to_its_root(story: Story) -> None:
    """C7: A child's relation is an event of the root as well, stored in the same commit."""
    story.turn("t1", "running", at=0)

    reply = story.child("kid", at=1, parent_tool_call_id="call-1", parent_turn_id="p1")

    assert story.wrote(reply) == ["kid:opened", "child_linked"]
    link = story.event(reply, ChildLinked)
    assert (link.child, link.parent, link.root_turn, link.tool_call) == ("kid", SESSION, "t1", "call-1")
    view = story.session("kid")
    assert (view.kind, view.parent, view.root, view.root_turn) == ("child", SESSION, SESSION, "t1")
    assert (view.parent_turn, view.parent_tool_call) == ("p1", "call-1")


def test_a_child_between_active_and_quiet_is_told_to_its_root(story: Story) -> None:
    """C7: Only changes between active and quiet are events of the root."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)

    replies = [story.turn("k1", phase, session="kid") for phase in ("running", "waiting", "completed")]

    assert [story.wrote(reply)[1:] for reply in replies] == [["child_active"], [], ["child_quiet"]]


def test_the_named_session_stands_before_its_root(story: Story) -> None:
    """C6: What a command does to the session it names is written before its effects on the root, and no
    end of a child is told twice.
    """
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    story.turn("k1", "running", session="kid", at=2)
    story.turn("k2", "submitted", session="kid", at=3)
    story.provider("t1", "completed", at=4)

    reply = story.report(
        "kid", at=9, turns=[{"turn_id": "k1", "phase": "completed"}, {"turn_id": "k2", "phase": "failed"}]
    )

    assert story.wrote(reply) == ["kid:turn_settled", "kid:turn_settled", "child_quiet", "turn_settled"]
    assert story.topics().count("child_quiet") == 1


def test_a_commit_over_several_sessions_has_one_id_and_one_range(story: Story) -> None:
    """C6: One transaction, one delta and contiguous positions, however many sessions it changes."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    story.turn("k1", "running", session="kid", at=2)
    story.provider("t1", "completed", at=4)

    reply = story.turn("k1", "completed", session="kid", at=9)

    positions = [event.position for event in story.commit(reply)]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
    assert reply.delta is not None
    assert (reply.delta.first_position, reply.delta.last_position) == (positions[0], positions[-1])
    assert len({event.transaction for event in story.commit(reply)}) == 1
    sessions = [one.agent_session_id for one in reply.delta.delta.mutations]
    assert list(dict.fromkeys(sessions)) == ["kid", SESSION]


def test_a_childs_root_may_be_reported_later(story: Story) -> None:
    """S8: Relations are stored before the root exists; until then the root is no session, and its stream
    of child events makes no mutation.
    """
    reply = story.child("kid", at=1)

    assert story.topics() == ["child_linked"]
    assert story.ledger.session(ROOM, SESSION) is None
    assert named(reply) == ["session kid upsert"]
    story.turn("k1", "running", session="kid", at=2)
    story.turn("t1", "running", at=0)
    story.provider("t1", "completed", at=5)
    assert story.the_turn().phase == "running"


def test_relations_are_written_once(story: Story) -> None:
    """S8: A different kind or relation is ignored for that part, blank keeps, and the rest stands."""
    story.child("kid", at=1)

    reply = story.child("kid", root="other", at=2, title="x")
    blank = story.report("kid", at=3, cwd="/a")

    assert outcomes(reply) == ["relation kid: relation", "session kid: applied"]
    assert outcomes(blank) == ["session kid: applied"]
    assert (story.session("kid").root, story.session("kid").title) == (SESSION, "x")
    assert story.topics("other") == []


def test_missing_relations_are_filled_in(story: Story) -> None:
    """S8: What was blank is taken, and the root hears which of its turns the child belongs to."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1, turn="")
    story.turn("k1", "running", session="kid", at=2)

    reply = story.child("kid", at=3, turn="t1", parent_tool_call_id="call-1")

    assert story.event(reply, Related).root_turn == "t1"
    assert story.event(reply, ChildLinked).root_turn == "t1"
    story.provider("t1", "completed", at=4)
    assert story.the_turn().phase == "running"


def test_an_undecided_session_may_become_a_child(story: Story) -> None:
    """S8: A session whose kind nobody has said is a child when it names its root; its work counts then."""
    story.turn("t1", "running", at=0)
    story.turn("k1", "running", session="kid", at=1)
    assert story.session("kid").kind == ""

    reply = story.child("kid", at=2)

    assert story.wrote(reply) == ["kid:related", "child_linked", "child_active"]
    assert story.event(reply, ChildActive).root_turn == "t1"


def test_relations_alone_make_a_child(story: Story) -> None:
    """S8: Who names a root and a parent is a child without saying so."""
    story.report("kid", root_agent_session_id=SESSION, parent_agent_session_id=SESSION)

    assert story.session("kid").kind == "child"


@pytest.mark.parametrize(
    "relations",
    [
        {"kind": "root", "root_agent_session_id": "x"},
        {"kind": "child", "root_agent_session_id": "x"},
        {"kind": "child", "parent_agent_session_id": "x"},
        {"root_turn_id": "t1"},
        {"kind": "child", "root_agent_session_id": "kid", "parent_agent_session_id": "x"},
        {"kind": "child", "root_agent_session_id": "x", "parent_agent_session_id": "kid"},
    ],
)
def test_relations_that_cannot_be_are_refused(relations: dict[str, str], story: Story) -> None:
    """S8: A root has no relations, a child has a root and a parent, and nobody is above himself."""
    with refused("relation", "session"):
        story.report("kid", **relations)  # type: ignore[arg-type]


def test_an_unknown_kind_is_refused(story: Story) -> None:
    """S8: A session is a root or a child."""
    with refused("unknown_kind", "session"):
        story.report("kid", kind="cousin")


def test_no_child_is_born_under_a_deleted_root(story: Story) -> None:
    """S8: A child reported under a deleted root is ignored as deleted, and nothing of it is stored."""
    story.turn("t1", "running", at=0)
    story.delete()

    reply = story.child("kid", at=5)

    assert outcomes(reply) == ["session kid: deleted"]
    assert (reply.accepted, reply.state_applied) == (False, False)
    assert story.ledger.session(ROOM, "kid") is None


# Delete.


def test_delete_covers_all_descendants_deepest_first(story: Story) -> None:
    """S9: A session is deleted with all that stands below it, the deepest first, ties by session id."""
    family(story)

    reply = story.delete()

    deleted = [one.session for one in story.commit(reply) if isinstance(one.event, Deleted)]
    assert deleted == ["grandkid", "kid-1", "kid-2", SESSION]
    assert len({one.event.deletion_id for one in story.commit(reply) if isinstance(one.event, Deleted)}) == 1
    assert [one for one in named(reply) if one.endswith("delete")] == [
        "session grandkid delete",
        "session kid-1 delete",
        "session kid-2 delete",
        f"session {SESSION} delete",
    ]
    assert story.ledger.sessions(ROOM) == ()
    assert len(story.ledger.sessions(ROOM, deleted=True)) == 4


def test_delete_of_a_child_leaves_the_rest(story: Story) -> None:
    """S9: What does not stand below the named session stays."""
    family(story)

    story.delete("kid-1")

    assert {one.session for one in story.ledger.sessions(ROOM)} == {SESSION, "kid-2"}


def test_delete_reaches_descendants_whose_parent_is_undecided(story: Story) -> None:
    """S9: A descendant belongs to the root that it names, although its parent has not been reported, or has
    not said what it is.
    """
    story.turn("t1", "running", at=0)
    story.turn("x1", "running", session="undecided", at=0)
    story.child("kid-1", parent="undecided", at=1)
    story.child("kid-2", parent="unheard-of", at=1)

    story.delete()

    assert {one.session for one in story.ledger.sessions(ROOM)} == {"undecided"}


def test_delete_settles_what_is_live_or_queued(story: Story) -> None:
    """S9: Turns of a deleted session settle provisionally; restore does not bring them back to life."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=1)
    story.ask("r1", at=2)

    reply = story.delete()

    assert story.wrote(reply) == ["turn_settled", "turn_settled", "interaction_superseded", "deleted"]
    assert {turn.cause for turn in story.turns().values()} == {"deleted"}
    assert all(turn.provisional for turn in story.turns().values())
    story.restore()
    assert {turn.phase for turn in story.turns().values()} == {"settled"}
    assert story.session().active_turn_id is None


def test_a_deleted_session_accepts_no_report(story: Story) -> None:
    """S9: Every report about a deleted session is ignored, and says so."""
    story.turn("t1", "running", at=0)
    story.delete()
    before = story.count()

    state = story.report(at=5, title="x", turn={"turn_id": "t2", "phase": "running"})
    messages = story.say(update("m1", "x"), update("m2", "y"))

    assert (state.accepted, state.state_applied, outcomes(state)) == (
        False,
        False,
        [f"session {SESSION}: deleted"],
    )
    assert outcomes(messages) == ["message m1: deleted", "message m2: deleted"]
    assert messages.accepted_count == 0
    assert story.count() == before


def test_commands_on_a_deleted_session_are_ignored(story: Story) -> None:
    """S9: A deleted session takes no title, pin, settings, answer or request to cancel."""
    story.turn("t1", "running")
    story.ask("r1")
    story.delete()

    replies = [
        story.ledger.set_title(ROOM, SESSION, "x"),
        story.ledger.set_pin(ROOM, SESSION, pinned=True),
        story.ledger.set_settings(ROOM, SESSION, {"a": 1}),
        story.ledger.request_cancel(ROOM, SESSION, "t1"),
        story.answer("r1", {"ok": True}),
    ]

    assert {became(reply, "session") for reply in replies} == {"deleted"}


@pytest.mark.parametrize(
    ("command", "reason"),
    [(Ledger.delete, "deleted"), (Ledger.restore, "duplicate"), (Ledger.purge, "duplicate")],
)
def test_tree_commands_are_idempotent(command: object, reason: str, story: Story) -> None:
    """S9: Delete, restore and purge done twice are done once; of an unknown session they do nothing."""
    assert callable(command)
    family(story)
    if command is Ledger.restore:
        story.delete()
    first: Reply = command(story.ledger, ROOM, SESSION)
    before = story.count()

    again: Reply = command(story.ledger, ROOM, SESSION)
    unknown: Reply = command(story.ledger, ROOM, "nobody")

    assert {became(one, "session") for one in (again, unknown)} == {reason, "unknown"}
    assert len(first.outcomes) == 4
    assert story.count() == before


# Restore.


def test_restore_brings_back_exactly_that_set_top_first(story: Story) -> None:
    """S9: What was deleted together comes back together; what was deleted before stays deleted."""
    family(story)
    story.delete("kid-2")
    story.delete()

    reply = story.restore()

    restored = [one.session for one in story.commit(reply) if isinstance(one.event, Restored)]
    assert restored == [SESSION, "kid-1", "grandkid"]
    assert {one.session for one in story.ledger.sessions(ROOM)} == {SESSION, "kid-1", "grandkid"}
    assert "session kid-1 restore" in named(reply)


def test_restore_of_any_member_brings_back_the_set(story: Story) -> None:
    """S9: Whichever session of the set is named, the whole set comes back."""
    family(story)
    story.delete()

    story.restore("grandkid")

    assert len(story.ledger.sessions(ROOM)) == 4


@pytest.mark.parametrize("below", ["kid-1", "grandkid"])
def test_no_member_comes_back_under_a_deleted_root(below: str, story: Story) -> None:
    """S9: A session that was deleted by itself stays deleted while its root or parent is, and says so."""
    family(story)
    story.delete(below)
    story.delete()

    reply = story.restore(below)

    assert became(reply, "session") == "root_deleted"
    assert story.ledger.sessions(ROOM) == ()
    story.restore()
    assert story.restore(below).applied
    assert len(story.ledger.sessions(ROOM)) == 4


def test_a_restored_session_takes_reports_again(story: Story) -> None:
    """S9: Only restore brings a deleted session back, and then it goes on; a guessed end may be taken
    back by its turn.
    """
    story.turn("t1", "running", at=0)
    story.delete()
    story.restore()

    assert became(story.turn("t1", "running", at=5)) == "applied"
    assert story.session().status == "working"


# Purge.


def test_purge_destroys_content_and_keeps_facts(story: Story) -> None:
    """S9: A purge covers all descendants, top first, and only facts remain; its event counts what was."""
    family(story)
    story.say(update("m1", "secret"), update("m2", "secret"))

    reply = story.purge()

    purged = [one for one in story.commit(reply) if isinstance(one.event, Purged)]
    assert [one.session for one in purged] == [SESSION, "kid-1", "kid-2", "grandkid"]
    first = purged[0].event
    assert isinstance(first, Purged)
    assert (first.turns, first.messages) == (1, 2)
    written = [one for one in story.events() if one.topic in ("session.titled", "session.message_added")]
    assert all(one.is_erased and one.event.content is None for one in written)
    assert [one for one in named(reply) if SESSION in one] == [f"session {SESSION} purge"]


def test_a_purged_session_never_comes_back(story: Story) -> None:
    """S9: Nothing restores a purged session, and no report reaches it."""
    family(story)
    story.purge()

    with refused("purged", "session"):
        story.restore()
    assert story.report(title="x").accepted is False
    assert became(story.delete(), "session") == "deleted"


def test_a_deleted_session_may_be_purged(story: Story) -> None:
    """S9: What was deleted can be purged later, under the same deletion."""
    family(story)
    story.delete()

    reply = story.purge()

    deletions = {one.event.deletion_id for one in story.events() if isinstance(one.event, Deleted | Purged)}
    assert len(reply.outcomes) == 4
    assert len(deletions) == 1


def test_a_purge_settles_what_is_at_work_first(story: Story) -> None:
    """S9, C6: A purge of a live session ends its turns, so that no root waits; the root hears of it last."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    story.turn("k1", "running", session="kid", at=2)
    story.provider("t1", "completed", at=3)

    reply = story.purge("kid")

    assert story.wrote(reply) == ["kid:turn_settled", "kid:purged", "child_quiet", "turn_settled"]
    assert story.the_turn().phase == "settled"
