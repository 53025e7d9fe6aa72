"""Commands: their outcomes, their commits, and commands that come twice."""

from collections.abc import Callable
from typing import Any

import pytest

from domain.delta import CommittedDelta
from domain.reports import parse_state_report
from infrastructure.store.writer import COMMANDS_KEPT_MS
from tests.domain.story import ROOM, SESSION, Story, became, delta, outcomes, question, refused, told, update

Commands = dict[str, Callable[[Story, str], Any]]

COMMANDS: Commands = {
    "state": lambda story, id_: story.body(SESSION, {"state": {"title": "x"}}, command_id=id_),
    "messages": lambda story, id_: story.say(delta("m9", "x"), command_id=id_),
    "title": lambda story, id_: story.ledger.set_title(ROOM, SESSION, "y", command_id=id_),
    "settings": lambda story, id_: story.ledger.set_settings(ROOM, SESSION, {"a": 1}, command_id=id_),
    "pin": lambda story, id_: story.ledger.set_pin(ROOM, SESSION, pinned=True, command_id=id_),
    "answer": lambda story, id_: story.answer("r1", {"ok": True}, command_id=id_),
    "cancel": lambda story, id_: story.ledger.request_cancel(ROOM, SESSION, "t1", command_id=id_),
    "delete": lambda story, id_: story.ledger.delete(ROOM, SESSION, command_id=id_),
    "purge": lambda story, id_: story.ledger.purge(ROOM, SESSION, command_id=id_),
}


def at_work(story: Story) -> None:
    story.turn("t1", "running")
    story.ask("r1")


# Outcomes.


def test_every_part_of_a_report_has_its_outcome(story: Story) -> None:
    """C1: A report answers with one outcome for each of its parts: applied, or ignored with a reason."""
    story.turn("t0", "completed")

    reply = story.report(
        title="x",
        turns=[{"turn_id": "t0", "phase": "running"}, {"turn_id": "t1", "phase": "running"}],
        interactions=[question("r1")],
        messages=[update("m1", "x"), update("m1", "x")],
    )

    assert outcomes(reply) == [
        f"session {SESSION}: applied",
        "turn t0: late",
        "turn t1: applied",
        "interaction r1: applied",
        "message m1: applied",
        "message m1: duplicate",
    ]


def test_what_can_never_succeed_rejects_the_whole_command(story: Story) -> None:
    """C1: One part that is refused refuses them all, and nothing is stored."""
    story.turn("t1", "running")
    before = story.count()

    with refused("unknown_turn", "message"):
        story.report(
            title="x",
            turn={"turn_id": "t2", "phase": "running"},
            messages=[update("m1", "x"), update("m2", "x", turn="t9")],
        )

    assert story.count() == before
    assert story.messages() == {}
    assert set(story.turns()) == {"t1"}


def test_repeated_and_late_parts_are_no_errors(story: Story) -> None:
    """C1: Stale, late, repeated and already-true parts are ignored."""
    story.report(at=10, title="x", turn={"turn_id": "t1", "phase": "completed"})

    reply = story.report(at=5, title="x", turn={"turn_id": "t1", "phase": "running"})

    assert outcomes(reply) == [f"session {SESSION}: stale", "turn t1: late"]
    assert not reply.applied


# Commits.


def test_a_command_is_one_commit_and_returns_its_delta(story: Story) -> None:
    """C2: Everything that a report makes happen has one transaction id, and its delta is returned."""
    reply = story.report(title="x", turn={"turn_id": "t1", "phase": "running"}, messages=[update("m1", "x")])

    assert {event.transaction for event in story.events()} == {reply.transaction_id}
    assert list(story.ledger.deltas()) == [reply.delta]


def test_a_command_without_news_leaves_no_trace(story: Story) -> None:
    """C3: No new events: no commit, no delta, no outbox row, no observer called, no version consumed."""
    seen: list[CommittedDelta] = []
    story.report(at=1, title="x", turn={"turn_id": "t1", "phase": "running"}, messages=[update("m1", "x")])
    story.ledger.subscribe(seen.append, "observer")
    before = (story.count(), list(story.ledger.deltas()), story.session())

    reply = story.report(
        at=2, title="x", turn={"turn_id": "t1", "phase": "running"}, messages=[update("m1", "x")]
    )

    assert (reply.transaction_id, reply.delta, reply.applied) == ("", None, False)
    assert (story.count(), list(story.ledger.deltas()), story.session()) == before
    assert seen == []


def test_a_heartbeat_makes_no_event(story: Story) -> None:
    """C3: A report that changes nothing but times is no news."""
    story.report(at=1, title="x", started_at_unix_ms=5, turn={"turn_id": "t1", "phase": "running"})

    for at in range(2, 6):
        reply = story.report(
            at=at, title="x", started_at_unix_ms=4, turn={"turn_id": "t1", "phase": "running"}
        )
        assert not reply.applied


# Commands that come twice.


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_id_gives_the_first_answer_again(kind: str, story: Story) -> None:
    """C4: The same id with the same content returns the first answer, transaction id included, and stores
    nothing.
    """
    at_work(story)

    first = COMMANDS[kind](story, "c1")
    before = story.count()
    again = COMMANDS[kind](story, "c1")

    assert first.applied
    assert (again, again.delta) == (first, first.delta)
    assert (first.replayed, again.replayed) == (False, True)
    assert story.count() == before


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_id_of_another_command_is_a_conflict(kind: str, story: Story) -> None:
    """C4: The same id with other content is refused; another kind of command has ids of its own."""
    at_work(story)
    other: Commands = {
        "state": lambda story, id_: story.body(SESSION, {"state": {"title": "z"}}, command_id=id_),
        "messages": lambda story, id_: story.say(delta("m9", "y"), command_id=id_),
        "title": lambda story, id_: story.ledger.set_title(ROOM, SESSION, "z", command_id=id_),
        "settings": lambda story, id_: story.ledger.set_settings(ROOM, SESSION, {"a": 2}, command_id=id_),
        "pin": lambda story, id_: story.ledger.set_pin(ROOM, SESSION, pinned=False, command_id=id_),
        "answer": lambda story, id_: story.answer("r1", {"ok": False}, command_id=id_),
        "cancel": lambda story, id_: story.ledger.request_cancel(ROOM, SESSION, "t2", command_id=id_),
    }
    COMMANDS[kind](story, "c1")

    if kind in other:
        with refused("conflict", "command"):
            other[kind](story, "c1")
    for another in set(other) - {kind}:
        if kind not in ("delete", "purge"):
            COMMANDS[another](story, "c1")


def test_equal_commands_may_be_spelled_differently(story: Story) -> None:
    """C4: Key order, spelling of names and numbers, and transport-only fields do not matter."""
    settings = {"a": 1, "b": 2.5}
    first = story.body(
        SESSION, {"state": {"occurredAtUnixMs": 5, "settings": settings}, "unknown": 1}, command_id="c1"
    )

    again = story.ledger.report_state(
        {
            "roomId": ROOM,
            "agentSessionId": SESSION,
            "state": {"settings": {"b": 2.5, "a": 1.0}, "occurred_at_unix_ms": "5"},
        },
        command_id="c1",
    )

    assert again == first


def test_a_delta_under_one_command_id_is_appended_once(story: Story) -> None:
    """C4: A retry of an append without offset and time is safe with a command id."""
    story.turn("t1", "running")

    for _ in range(3):
        story.say(delta("m1", "ha"), command_id="c1")
    story.say(delta("m1", "ha"), command_id="c2")

    assert story.text("m1") == "haha"


def test_only_commands_that_committed_are_remembered(story: Story) -> None:
    """C4: An ignored or refused command is decided anew under its id."""
    story.body(SESSION, {"state": {"title": "x"}})
    assert not story.body(SESSION, {"state": {"title": "x"}}, command_id="c1").applied
    with refused("unknown_turn"):
        story.say(update("m1", "x"), command_id="c1")

    story.turn("t1", "running")

    assert story.body(SESSION, {"state": {"title": "y"}}, command_id="c1").applied
    assert story.say(update("m1", "x"), command_id="c1").applied


def test_a_command_id_belongs_to_its_caller_and_session(story: Story) -> None:
    """C4: Callers and sessions do not share ids."""
    replies = [
        story.body(session, {"state": {"title": title}}, command_id="c1", caller=caller)
        for session, title, caller in (("a", "1", "x"), ("a", "2", "y"), ("b", "3", "x"))
    ]

    assert all(reply.applied for reply in replies)


def test_the_caller_stands_at_its_events(story: Story) -> None:
    """C4: Who gave a command is kept with what it stored."""
    story.body(SESSION, {"state": {"title": "x"}}, command_id="c1", caller="token-1")

    assert {(event.actor, event.command_id) for event in story.events()} == {("token-1", "c1")}


def test_a_command_is_remembered_for_a_day(story: Story) -> None:
    """C4: For at least 24 hours; behind that an id is free again."""
    first = story.body(SESSION, {"state": {"title": "x"}}, command_id="c1")
    story.clock.now += COMMANDS_KEPT_MS - 1
    assert story.body(SESSION, {"state": {"title": "x"}}, command_id="c1") == first
    story.clock.now += 2

    assert COMMANDS_KEPT_MS >= 24 * 60 * 60 * 1_000
    assert story.body(SESSION, {"state": {"title": "y"}}, command_id="c1").applied


def test_a_parsed_report_is_the_same_command_as_its_body(story: Story) -> None:
    """C4: What counts is what a command says, however it was handed over."""
    body = {"state": {"title": "x", "turn": {"turnId": "t1", "phase": "running"}}}
    first = story.body(SESSION, body, command_id="c1")

    again = story.ledger.report_state(parse_state_report(body, ROOM, SESSION), command_id="c1")

    assert again == first


# Late content.


def test_late_content_is_stored(story: Story) -> None:
    """C5: A late message is kept as a message, a late request as a superseded one."""
    story.turn("t1", "completed", at=0)

    story.say(update("m1", "late"))
    story.ask("r1", at=1)

    assert story.text("m1") == "late"
    assert story.asked("r1").status == "superseded"


def test_late_phases_cannot_grow_the_log(story: Story) -> None:
    """C5: A bare late phase is answered and leaves nothing, however often it is sent."""
    story.turn("t1", "completed", at=0)
    before = story.count()

    replies = [story.turn("t1", "running", at=at) for at in range(50)]

    assert {became(reply) for reply in replies} == {"late"}
    assert story.count() == before


# Long work.


def test_settling_a_room_is_one_commit_per_session(story: Story) -> None:
    """C8: Each session is settled by a commit of its own, so a rerun goes on where it stopped."""
    for session in ("a", "b", "c"):
        story.turn("t1", "running", session=session)

    replies = story.ledger.settle(ROOM)

    assert len({reply.transaction_id for reply in replies}) == 3
    assert [story.session(session).status for session in "abc"] == ["idle"] * 3


def test_a_commit_without_mutations_has_no_delta(story: Story) -> None:
    """C9: What changes no entity, such as a child's news for a root that nobody reported, makes none."""
    reply = story.child("kid")

    assert reply.delta is not None
    assert {one.agent_session_id for one in reply.delta.delta.mutations} == {"kid"}


def test_deliveries_make_no_deltas() -> None:
    """C9: Handing deltas over changes no session, so it causes no delivery."""
    with told() as story:
        seen: list[CommittedDelta] = []
        story.ledger.subscribe(seen.append, "observer", after=0)
        story.report(title="x")
        story.ledger.redeliver("observer")

        assert len(seen) == len(list(story.ledger.deltas())) == 1
