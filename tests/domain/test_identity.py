"""What names a thing, and what orders things."""

from domain.event import is_older, seen_at
from domain.ids import RoomId, SessionId, session_stream, stream_id
from tests.domain.story import HOURS, ROOM, SESSION, T0, Story, became, update


def test_a_session_is_one_in_its_room(story: Story) -> None:
    """R1: The same session id in two rooms is two sessions."""
    story.report(title="here")
    story.ledger.report_state({"state": {"title": "there"}}, room="room-2", session=SESSION)

    other = story.ledger.session("room-2", SESSION)

    assert story.session().title == "here"
    assert other is not None
    assert other.title == "there"


def test_ids_of_turns_and_messages_repeat_across_sessions(story: Story) -> None:
    """R1: A turn and a message are one in their session."""
    for session, text in (("a", "x"), ("b", "y")):
        story.turn("t1", "running", session=session)
        story.say(update("m1", text), session=session)

    assert (story.text("m1", "a"), story.text("m1", "b")) == ("x", "y")


def test_the_wire_may_call_a_room_a_workspace(story: Story) -> None:
    """R1: Workspace is another word for room, with the same value, in reports and in deltas."""
    reply = story.ledger.report_state({"workspaceId": "room-1", "state": {"title": "x"}}, session=SESSION)

    assert story.session().title == "x"
    assert reply.delta is not None
    assert reply.delta.delta.workspace_id == ROOM


def test_ids_are_trimmed_on_entry(story: Story) -> None:
    """R1: White space around an id is none of it."""
    story.ledger.report_state(
        {"state": {"turn": {"turnId": " t1 ", "phase": " running "}}}, room=f" {ROOM} ", session=f"{SESSION} "
    )

    assert story.the_turn("t1").phase == "running"


def test_a_stream_is_a_function_of_kind_room_and_session() -> None:
    """R2: Two processes name the same stream for a session; neighbouring ids do not run together."""
    first = session_stream(RoomId("a"), SessionId("bc"))

    assert first == session_stream(RoomId("a"), SessionId("bc"))
    assert len({first, session_stream(RoomId("ab"), SessionId("c")), stream_id("wait", "a", "bc")}) == 3


def test_the_stream_of_a_session_never_changes() -> None:
    """R2: The ids of streams are stored, so their derivation is for ever."""
    stream = session_stream(RoomId("room-1"), SessionId("ses-1"))

    assert stream == "session-930a79f3-6a2c-58a4-ba1a-18f4d42e3727"


def test_the_number_spaces_are_apart(story: Story) -> None:
    """R3: Position counts the store, stream version the session, message version its messages."""
    story.report("other", title="x")
    story.turn("t1", "running")
    reply = story.say(update("m1", "x"))

    (event,) = story.commit(reply)
    assert (event.position, event.version, reply.latest_version) == (5, 3, 1)


def test_a_report_from_the_future_does_not_lock_its_turn(story: Story) -> None:
    """R4: A report stamped an hour ahead counts as now, so the next one still settles the turn."""
    story.clock.now = T0
    story.turn("t1", "running", at=60 * 60 * 1_000)
    story.clock.now += 10
    story.turn("t1", "waiting", at=10)
    story.clock.now += 10

    assert became(story.turn("t1", "completed", at=20)) == "applied"
    assert story.the_turn().phase == "settled"


def test_a_session_report_from_the_future_makes_no_other_stale(story: Story) -> None:
    """R4: In comparisons a time counts as at most the recorded one."""
    story.clock.now = T0
    story.report(at=HOURS, title="ahead")
    story.clock.now += 10

    reply = story.report(at=5, title="now")

    assert (reply.state_applied, story.session().title) == (True, "now")


def test_a_message_end_from_the_future_can_be_replaced(story: Story) -> None:
    """R4: An end stamped ahead is as old as its recording."""
    story.clock.now = T0
    story.turn("t1", "running")
    story.say(update("m1", "one", at=HOURS, status="failed"))
    story.clock.now += 10

    story.say(update("m1", "two", at=5, status="completed"))

    assert story.text("m1") == "two"


def test_an_unknown_time_is_newest_and_raises_nothing(story: Story) -> None:
    """R4: A report without a time counts as newest and leaves the last event's time alone."""
    story.report(at=10, title="timed")

    reply = story.report(title="untimed")

    assert (reply.state_applied, story.session().title) == (True, "untimed")
    assert story.session().last_event_at_unix_ms == T0 + 10
    assert became(story.report(at=11, title="later"), "session") == "applied"


def test_a_negative_time_is_unknown(story: Story) -> None:
    """R4: A time below 0 is no time."""
    story.report(at=10, title="timed")

    reply = story.report(at=-T0 - 5, title="odd", started_at_unix_ms=-1)

    assert (reply.state_applied, story.session().title) == (True, "odd")
    assert story.session().started_at_unix_ms == 0


def test_the_order_of_two_times() -> None:
    """R4: Unknown is never older; a time ahead is compared as the recorded one."""
    assert not is_older(0, 100, than=50)
    assert is_older(40, 100, than=50)
    assert not is_older(50, 100, than=50)
    assert not is_older(999, 100, than=100)
    assert (seen_at(999, 100), seen_at(40, 100)) == (100, 40)


def test_a_messages_time_defaults_to_its_start_then_its_end_then_the_recording(story: Story) -> None:
    """R5: A message that does not say when it occurred did when it started, else when it completed."""
    story.turn("t1", "running")
    story.say(
        update("start", "x", started_at_unix_ms=T0 + 1, completed_at_unix_ms=T0 + 2),
        update("end", "x", completed_at_unix_ms=T0 + 2),
        update("none", "x"),
    )

    times = {name: one.occurred_at_unix_ms for name, one in story.messages().items()}
    assert times == {"start": T0 + 1, "end": T0 + 2, "none": story.clock.now}


def test_a_turns_times_default_to_its_report_then_to_the_recording(story: Story) -> None:
    """R5: startedAt and settledAt are what the turn says, else the report's time, else the recorded one."""
    story.turn("said", "completed", at=5, started_at_unix_ms=T0 + 1, completed_at_unix_ms=T0 + 2)
    story.turn("report", "completed", at=5)
    story.turn("none", "completed")

    times = {
        name: (one.started_at_unix_ms, one.settled_at_unix_ms or 0) for name, one in story.turns().items()
    }
    now = story.clock.now
    assert times == {"said": (T0 + 1, T0 + 2), "report": (T0 + 5, T0 + 5), "none": (now, now)}


def test_an_interactions_times_default_to_the_recording(story: Story) -> None:
    """R5: A question without a time was asked, and ended, when it was recorded."""
    story.turn("t1", "running")
    story.ask("r1")
    story.answer("r1", {})

    asked = story.asked("r1")
    assert (asked.requested_at_unix_ms, asked.ended_at_unix_ms) == (story.clock.now, story.clock.now)
