"""The commit delta: which entities it names, under which operation and version."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

import pytest
from pydantic import ValidationError

from application.views import Reply
from domain.delta import CommitDelta, Committed, Mutation, delta_of, interaction_entity_id
from domain.ids import (
    MessageId,
    MessageVersion,
    Position,
    RequestId,
    RoomId,
    SessionId,
    TransactionId,
    TurnId,
    session_stream,
    transaction_id,
)
from domain.interaction import InteractionAnswered, InteractionRequested
from domain.message import MessageAdded, MessageExtended
from domain.session import (
    ChildActive,
    ChildLinked,
    ChildQuiet,
    Imported,
    Opened,
    Pinned,
    Purged,
    RecordKept,
    SessionEvent,
    Titled,
)
from domain.turn import TurnSettled, TurnStarted
from tests.domain.story import ROOM, SESSION, Story, named, outcomes, told, tool, update

STORE = "0b7e6f2c-1111-4000-8000-000000000001"


def mutations(reply: Reply) -> tuple[Mutation, ...]:
    assert reply.delta is not None
    return reply.delta.delta.mutations


def made_of(*events: SessionEvent, first: int = 1) -> CommitDelta | None:
    """The delta of a commit of one session."""
    placed = [
        Committed(SessionId(SESSION), version, Position(version + 100), event)
        for version, event in enumerate(events, start=first)
    ]
    return delta_of(TransactionId("tx"), RoomId(ROOM), placed)


def seen(delta: CommitDelta | None) -> list[str]:
    return [f"{one.entity_kind} {one.operation} {one.version}" for one in delta.mutations] if delta else []


# Shape.


def test_the_wire_shape_of_a_delta(story: Story) -> None:
    """D1: A delta is JSON in camelCase with these fields and no others; mutations are numbered from 1."""
    reply = story.report(title="x", turn={"turn_id": "t1", "phase": "running"})

    assert reply.delta is not None
    wire = json.loads(reply.delta.delta.to_json())
    assert set(wire) == {"transactionId", "workspaceId", "mutations"}
    assert wire["mutations"] == [
        {
            "mutationId": f"{reply.transaction_id}:{number}",
            "workspaceId": ROOM,
            "agentSessionId": SESSION,
            "entityKind": kind,
            "entityId": id_,
            "operation": "upsert",
            "version": version,
        }
        for number, (kind, id_, version) in enumerate([("session", SESSION, 3), ("turn", "t1", 3)], start=1)
    ]


def test_a_delta_is_closed_and_frozen(story: Story) -> None:
    """D1: No other field is taken, and nobody changes a delta."""
    reply = story.report(title="x")
    assert reply.delta is not None
    delta = reply.delta.delta

    with pytest.raises(ValidationError):
        CommitDelta.from_json(delta.to_json().replace('"workspaceId"', '"more":1,"workspaceId"', 1))
    with pytest.raises(ValidationError):
        delta.workspace_id = "other"  # type: ignore[misc] # the type checker knows it too


def test_what_else_an_observer_gets_stands_around_the_delta(story: Story) -> None:
    """D1: Position range and recorded time are in the envelope, never in the delta."""
    reply = story.report(title="x", cwd="/a")

    assert reply.delta is not None
    positions = [event.position for event in story.commit(reply)]
    assert (reply.delta.first_position, reply.delta.last_position) == (positions[0], positions[-1])
    assert reply.delta.recorded_at == story.clock.now
    assert "position" not in reply.delta.delta.to_json().casefold()


# Which entities.


def test_a_delta_is_a_function_of_the_events_alone() -> None:
    """D2: The same events give the same delta, and nothing but events is asked."""
    events: Sequence[SessionEvent] = (
        Opened(created_at=1),
        TurnStarted(turn_id=TurnId("t1"), phase="running", active=True),
        MessageAdded(message_id=MessageId("m1"), role="r", kind="k", sequence=1, version=MessageVersion(7)),
    )

    assert seen(made_of(*events)) == ["session upsert 2", "turn upsert 2", "message upsert 7"]
    assert made_of(*events) == made_of(*events)


def test_one_mutation_per_entity_in_order_of_first_event() -> None:
    """D2: However many events an entity has in a commit, it is named once, where it came first."""
    message = MessageId("m1")
    delta = made_of(
        MessageAdded(message_id=message, role="r", kind="k", sequence=1, version=MessageVersion(1)),
        Titled(content={"title": "x"}),
        MessageExtended(message_id=message, version=MessageVersion(2), offset=0, length_after=1),
    )

    assert seen(delta) == ["message upsert 2", "session upsert 2"]


@pytest.mark.parametrize("cause", ["overtaken", "stale", "root", "deleted", "end_of_file", "pulled"])
def test_an_end_without_a_report_of_its_own_is_a_settle(cause: Any) -> None:
    """D2: `settle` is the operation of a turn's end that the turn did not report; it wins over upsert."""
    turn = TurnId("t1")
    started = TurnStarted(turn_id=turn, phase="running")
    ended = TurnSettled(turn_id=turn, outcome="interrupted", settled_at=1, cause=cause)

    assert seen(made_of(started, ended)) == ["turn settle 2", "session upsert 2"]
    own = TurnSettled(turn_id=turn, outcome="completed", settled_at=1)
    assert seen(made_of(own))[0] == "turn upsert 1"


def test_an_interaction_has_an_id_that_any_database_holds() -> None:
    """D2: The id of an interaction is the JSON text of its turn and request."""
    assert interaction_entity_id("t1", "r1") == '["t1","r1"]'
    assert interaction_entity_id('a"', "b]") == '["a\\"","b]"]'


def test_a_roots_tree_is_dirty_once() -> None:
    """D2: However many interactions of a root's tree change, the tree is named once, at the commit's
    position.
    """
    asked = [
        InteractionRequested(turn_id=TurnId("t1"), request_id=RequestId(name), kind="plan") for name in "ab"
    ]
    delta = made_of(*asked, InteractionAnswered(turn_id=TurnId("t1"), request_id=RequestId("a")))

    assert seen(delta) == ["interaction upsert 3", "interaction_tree dirty 103", "interaction upsert 2"]


def test_a_childs_interaction_makes_its_roots_tree_dirty(story: Story) -> None:
    """D2: The tree is the root session's; root ids stand on it, and not on the interaction."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    story.turn("k1", "running", session="kid", at=2)

    interaction, tree = mutations(story.ask("r1", "k1", session="kid", at=3))

    assert (interaction.root_agent_session_id, interaction.root_turn_id) == (None, None)
    assert (tree.entity_kind, tree.entity_id, tree.agent_session_id) == (
        "interaction_tree",
        SESSION,
        SESSION,
    )
    assert (tree.root_agent_session_id, tree.root_turn_id) == (SESSION, "t1")


@pytest.mark.parametrize("command", ["delete", "restore", "purge"])
def test_removals_of_children_carry_the_root(command: str, story: Story) -> None:
    """D2: Root ids stand on delete, restore and purge of children, and not on those of roots."""
    story.turn("t1", "running", at=0)
    story.child("kid", at=1)
    if command == "restore":
        story.delete()

    reply = {"delete": story.delete, "restore": story.restore, "purge": story.purge}[command](SESSION)

    roots = {
        one.entity_id: (one.root_agent_session_id, one.root_turn_id)
        for one in mutations(reply)
        if one.operation == command
    }
    assert roots == {"kid": (SESSION, "t1"), SESSION: (None, None)}


@pytest.mark.parametrize(
    "event",
    [
        ChildLinked(child=SessionId("kid")),
        ChildActive(child=SessionId("kid")),
        ChildQuiet(child=SessionId("kid")),
        RecordKept(import_id="i", offset=0, length=1, reason="unknown"),
        Imported(import_id="i", digest="d", read_to=1),
    ],
)
def test_bookkeeping_names_nothing(event: SessionEvent) -> None:
    """D3: What changes no row that readers see is in no delta."""
    assert made_of(event) is None


def test_superseded_questions_and_closed_tools_are_named(story: Story) -> None:
    """D3: Whatever an end takes with it is named as well."""
    story.turn("t1", "running", at=0)
    story.say(tool("call", at=1))
    story.ask("r1", at=1)

    reply = story.turn("t1", "failed", at=5)

    assert named(reply) == [
        "turn t1 upsert",
        f"session {SESSION} upsert",
        'interaction ["t1","r1"] upsert',
        f"interaction_tree {SESSION} dirty",
        "message call upsert",
    ]


def test_an_implicitly_created_session_is_named(story: Story) -> None:
    """D3: A session that a message began is in that message's delta."""
    reply = story.say(update("m1", "x", turn="", kind="session_audit"))

    assert named(reply) == [f"session {SESSION} upsert", "message m1 upsert"]


def test_counters_and_clocks_are_no_change(story: Story) -> None:
    """D3: A message moves its session's counters and clocks; the session is not named for that."""
    story.turn("t1", "running", at=0)
    before = story.session()

    reply = story.say(update("m1", "x", at=5, usage={"output": 3}))

    assert named(reply) == ["message m1 upsert"]
    after = story.session()
    assert (after.message_version, after.messages, after.usage["output"]) == (1, 1, 3)
    assert after.version == before.version
    assert after.updated_at_unix_ms > before.updated_at_unix_ms


def test_a_queued_turn_that_becomes_live_changes_the_session(story: Story) -> None:
    """D3: The session's row names its live turn, so it is named; the queued turn's own row stays."""
    story.turn("t1", "running", at=0)
    story.turn("t2", "submitted", at=1)

    assert named(story.turn("t1", "completed", at=2)) == ["turn t1 upsert", f"session {SESSION} upsert"]


def test_a_purge_names_the_session_alone() -> None:
    """D3: What else a purged session had is gone, and not named one by one."""
    turn = TurnId("t1")
    delta = made_of(
        TurnSettled(turn_id=turn, outcome="interrupted", settled_at=1, cause="deleted"),
        Purged(deletion_id="d"),
    )

    assert seen(delta) == ["session purge 2"]


# Versions.


def test_every_row_carries_the_version_that_its_mutation_carries(story: Story) -> None:
    """D4: Message versions for messages, stream versions for sessions, turns and interactions; the row has
    the same.
    """
    story.turn("t1", "running", at=0)
    story.say(update("m1", "x", at=1))
    story.ask("r1", at=2)
    story.turn("t1", "waiting", at=3)

    told = {
        (one.entity_kind, one.entity_id): one.version
        for delta in story.ledger.deltas()
        for one in delta.delta.mutations
    }

    assert told["session", SESSION] == story.session().version
    assert told["turn", "t1"] == story.the_turn().version
    assert told["interaction", '["t1","r1"]'] == story.asked("r1").version
    assert told["message", "m1"] == story.message("m1").version


def test_a_later_change_has_a_higher_version(story: Story) -> None:
    """D4: Versions of one entity only go up, whatever the clock does."""
    story.turn("t1", "running", at=0)
    for phase in ("waiting", "running") * 3:
        story.clock.now -= 1_000
        story.turn("t1", phase)
        story.ask(phase, at=1)

    found: dict[tuple[str, str], list[int]] = {}
    for delta in story.ledger.deltas():
        for one in delta.delta.mutations:
            found.setdefault((one.entity_kind, one.entity_id), []).append(one.version)
    assert all(versions == sorted(set(versions)) for versions in found.values())


# Identity.


def test_a_transaction_id_is_a_function_of_store_stream_and_version() -> None:
    """D5: The same commit of the same store has the same id; another store's never has."""
    stream = session_stream(RoomId(ROOM), SessionId(SESSION))
    id_ = transaction_id(STORE, stream, 1)

    assert id_ == transaction_id(STORE, stream, 1) == str(uuid5(UUID(STORE), f"{stream}@1"))
    others = (
        transaction_id(STORE, stream, 2),
        transaction_id(STORE, session_stream(RoomId(ROOM), SessionId("x")), 1),
        transaction_id(STORE.replace("1111", "2222"), stream, 1),
    )
    assert len({id_, *others}) == 4


@pytest.mark.parametrize("version", range(1, 65))
def test_a_transaction_id_is_a_name_based_uuid(version: int) -> None:
    """D5: Whoever knows the store's id and the stream can make it with any UUIDv5."""
    stream = session_stream(RoomId("ärger"), SessionId(SESSION))

    assert transaction_id(STORE, stream, version) == str(uuid5(UUID(STORE), f"{stream}@{version}"))


def test_two_stores_give_the_same_report_two_ids() -> None:
    """D5: Each store mints an id when it is made."""
    with told() as one, told() as other:
        assert one.report(title="x").transaction_id != other.report(title="x").transaction_id


def test_a_stored_delta_is_the_live_one_byte_for_byte(story: Story) -> None:
    """D6: What an observer is handed live, what the outbox holds and what a redelivery decodes are equal,
    also behind a rebuild.
    """
    live: list[str] = []
    again: list[str] = []
    story.ledger.subscribe(lambda one: live.append(one.delta.to_json()), "live")
    story.turn("t1", "running", at=0)
    story.ask("r1", at=1)
    story.say(update("m1", "\ud83d \0 \u2028", at=2))
    story.turn("t2", "running", at=3)
    story.delete()
    story.ledger.rebuild()

    story.ledger.subscribe(lambda one: again.append(one.delta.to_json()), "again", after=0)
    story.ledger.redeliver("again")

    assert live == again == [one.delta.to_json() for one in story.ledger.deltas()]
    assert all(CommitDelta.from_json(text).to_json() == text for text in live)


def test_a_pin_is_a_change_of_the_session() -> None:
    """D3: Whatever a reader sees of the session itself names it."""
    assert seen(made_of(Pinned())) == ["session upsert 1"]


def test_outcomes_and_delta_agree(story: Story) -> None:
    """D3: A part that was ignored is in no delta."""
    story.turn("t1", "running", at=0)

    reply = story.report(at=1, turn={"turn_id": "t1", "phase": "running"}, messages=[update("m1", "x")])

    assert outcomes(reply)[1] == "turn t1: duplicate"
    assert named(reply) == ["message m1 upsert"]
