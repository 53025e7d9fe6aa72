"""Faults that others have met with turns, interactions and hosts that die, as steps and right outcomes."""

from tests.domain.story import ROOM, SESSION, Story, became, refused, told, tool, update


def test_b01_a_late_running_report_after_completion(story: Story) -> None:
    """Case B01: Two running reports behind a completed turn are ignored, the one that happened before it and
    the one that claims to come after it; the session is idle and nothing fails.
    """
    story.turn("t1", "submitted", at=0)
    story.turn("t1", "running", at=1_000)
    story.turn("t1", "settled", outcome="completed", at=5_000)

    late = [story.turn("t1", "running", at=at) for at in (4_000, 6_000)]

    assert [became(reply) for reply in late] == ["late", "late"]
    assert (story.the_turn().phase, story.the_turn().outcome) == ("settled", "completed")
    assert (story.session().status, story.session().active_turn_id) == ("idle", None)


def test_b02_a_canceled_turn_unwinds_behind_its_successor(story: Story) -> None:
    """Case B02: A canceled turn that fails and speaks once more neither settles nor hides the next one."""
    story.turn("t1", "running", at=0)
    story.ledger.request_cancel(ROOM, SESSION, "t1")
    story.turn("t1", "settled", outcome="canceled", at=1_100)
    story.turn("t2", "running", at=2_000)

    failed = story.turn("t1", "settled", outcome="failed", at=2_500)
    story.say(update("m-late", "old text", status="completed", at=2_600))

    assert became(failed) == "late"
    assert story.the_turn("t1").outcome == "canceled"
    assert story.the_turn("t2").phase == "running"
    assert (story.session().active_turn_id, story.session().status) == ("t2", "working")
    assert (story.message("m-late").turn_id, story.text("m-late")) == ("t1", "old text")


def test_b03_a_settled_fact_beside_stale_session_state(story: Story) -> None:
    """Case B03: A report that mixes the provider's end with a snapshot of a running turn takes the title and
    the end, and nothing goes back to running.
    """
    story.turn("t1", "settled", outcome="completed", at=1_000)

    reply = story.report(
        at=2_000,
        title="new title",
        root_provider_turn={"root_turn_id": "t1", "provider_turn_id": "p-1", "phase": "completed"},
        turn_lifecycle={"activeTurnId": "t1", "phase": "running"},
    )

    assert [one.outcome for one in reply.outcomes] == ["applied", "applied"]
    assert story.the_turn().phase == "settled"
    assert story.session().title == "new title"
    assert (story.the_turn().provider_turn or {})["phase"] == "completed"


def test_b05_a_tool_is_pending_when_the_machine_dies(url: str) -> None:
    """Case B05: After a restart the host settles what was left: turn interrupted, tool canceled, request
    superseded; the next prompt is taken, and a second restart changes nothing.
    """
    with told(url) as story:
        story.turn("t1", "running", at=0)
        story.say(tool("call-1", payload={"input": {"command": "ls"}}, at=500))
        story.ask("r1", at=600)

    with told(url) as story:
        story.report(SESSION)
        story.ledger.settle(ROOM)
        assert (story.the_turn().phase, story.the_turn().outcome) == ("settled", "interrupted")
        assert story.message("call-1").status == "canceled"
        assert story.asked("r1").status == "superseded"
        assert story.session().status == "idle"
        before = story.count()

    with told(url) as story:
        assert all(not reply.applied for reply in story.ledger.settle(ROOM))
        assert became(story.turn("t2", "submitted")) == "applied"
        assert story.session().status == "working"
        assert before < story.count()


def test_a_restart_alone_settles_nothing(url: str) -> None:
    """Case B05: Agents may outlive the service, so opening the store changes nothing."""
    with told(url) as story:
        story.turn("t1", "running", at=0)
        before = story.events()

    with told(url) as story:
        assert story.events() == before
        assert story.session().status == "working"


def test_b06_a_completion_under_an_id_that_nobody_knows(story: Story) -> None:
    """Case B06: A completion under the provider's id is a turn of its own; the turn's own completion still
    ends it.
    """
    story.turn("t1", "running", at=0)
    story.turn("t1-provider-id", "settled", outcome="completed", at=1_000)
    assert story.session().active_turn_id == "t1"

    story.turn("t1", "settled", outcome="completed", at=1_001)

    assert (story.the_turn("t1").phase, story.the_turn("t1").outcome) == ("settled", "completed")
    assert (story.session().active_turn_id, story.session().status) == (None, "idle")


def test_c01_one_request_id_in_two_turns(story: Story) -> None:
    """Case C01: Each turn's request has its own answer; the same answer again is no news, another refused."""
    story.turn("t1", "running", at=0)
    story.ask("1", "t1", at=10)
    story.answer("1", {"decision": "allow"}, "t1")
    story.turn("t1", "settled", outcome="completed", at=30)
    story.turn("t2", "running", at=40)
    story.ask("1", "t2", at=50)
    story.answer("1", {"decision": "deny"}, "t2")
    before = story.count()

    assert became(story.answer("1", {"decision": "deny"}, "t2"), "interaction") == "duplicate"
    with refused("conflict", "interaction"):
        story.answer("1", {"decision": "allow"}, "t2")

    assert story.count() == before
    answers = [(one.turn_id, one.status, one.output) for one in story.session().interaction_list]
    assert answers == [
        ("t1", "answered", {"decision": "allow"}),
        ("t2", "answered", {"decision": "deny"}),
    ]


def test_g03_late_writes_after_delete_and_purge(story: Story) -> None:
    """Case G03: What arrives for a deleted or purged session is acknowledged without effect, and the session
    does not come back.
    """
    story.turn("t1", "running")
    story.say(update("m1", "secret-7f3a", status="completed", at=0))
    story.delete()

    late = story.say(update("m2", "late secret-7f3b", status="completed", at=10))
    turn = story.turn("t9", "running", at=20)
    again = story.delete()
    story.purge()
    purged = story.say(update("m3", "after purge secret-7f3c", status="completed", at=30))

    assert [became(reply, "message") for reply in (late, purged)] == ["deleted", "deleted"]
    assert (turn.accepted, became(turn, "session"), became(again, "session")) == (False, "deleted", "deleted")
    assert not any(reply.applied for reply in (late, turn, again, purged))
    assert story.ledger.sessions(ROOM) == ()
    assert "secret-7f3" not in repr(story.events())
    assert "secret-7f3" not in repr([delta.delta.to_json() for delta in story.ledger.deltas()])
