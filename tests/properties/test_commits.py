"""A commit is whole or not at all, says what it changed, and happens once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.delta import CommitDelta, CommittedDelta, interaction_entity_id
from domain.errors import StoreError
from domain.session import Session
from infrastructure import crashpoints
from infrastructure.store import memory
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import PARTS, SESSION_CONTENTS
from tests.properties.histories import HOUR_MS, ROOM, SESSIONS, Step, histories, steps
from tests.properties.playing import SHARED, Happened, House, Picture, new_url, opened, opened_on
from tests.properties.spellings import respelled

FEWER = settings(max_examples=max(5, settings().max_examples // 6))

# What changed is what the delta names (SPEC D3, D4).

NO_CHANGE = frozenset(
    (
        *("version", "own_version", "phase_version", "last_end_version", "message_version"),
        *("updated_at", "last_event_at", "status_at"),
        *("usage", "sequence", "turn_count", "text_count", "tool_call_count"),
        *("queue", "awaiting", "pending", "active_children", "imports", "kept"),
    )
)
"""Counters and clocks of a session, and what it notes about its parts."""

Entity = tuple[str, str, str]
"""Session, kind, id."""


def face(session: Session) -> dict[str, Any]:
    return {name: value for name, value in vars(session).items() if name not in NO_CHANGE}


def entities(picture: Picture) -> dict[Entity, Any]:
    """Every entity of the read models with all that is stored of it."""
    contents = {picture.names[row[0]]: row for row in picture.rows(SESSION_CONTENTS.name)}
    parts: dict[tuple[str, ...], list[Any]] = {}
    for row in picture.rows(PARTS.name):
        parts.setdefault((picture.names[row[0]], row[1]), []).append(row)
    return {
        **{
            (name, "session", name): (face(state), contents.get(name))
            for name, state in picture.sessions.items()
        },
        **{(key[0], "turn", key[1]): turn for key, turn in picture.turns.items()},
        **{(key[0], "message", key[1]): (one, parts.get(key)) for key, one in picture.messages.items()},
        **{
            (key[0], "interaction", interaction_entity_id(*key[1:])): one
            for key, one in picture.interactions.items()
        },
    }


def versions(picture: Picture) -> dict[Entity, int]:
    return {
        **{(name, "session", name): state.own_version for name, state in picture.sessions.items()},
        **{(key[0], "turn", key[1]): turn.version for key, turn in picture.turns.items()},
        **{(key[0], "message", key[1]): message.version for key, message in picture.messages.items()},
        **{
            (key[0], "interaction", interaction_entity_id(*key[1:])): one.version
            for key, one in picture.interactions.items()
        },
    }


def check_named(happened: Happened) -> None:
    before, after = entities(happened.before), entities(happened.after)
    purged = {one.agent_session_id for one in happened.mutations if one.operation == "purge"}
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    changed = {key for key in changed if key[0] not in purged or key[1] == "session"}
    named = {
        (one.agent_session_id, one.entity_kind, one.entity_id): one.version
        for one in happened.mutations
        if one.entity_kind != "interaction_tree"
    }
    assert named.keys() == changed
    stored = versions(happened.after)
    assert all(stored[key] == version for key, version in named.items() if key in stored)
    earlier = versions(happened.before)
    assert all(version > earlier.get(key, 0) for key, version in named.items())


def check_trees(happened: Happened) -> None:
    """Each root of which an interaction changed is dirty once, at the commit's end (SPEC D2)."""
    for committed in happened.deltas:
        mutations = committed.delta.mutations
        asked = {one.agent_session_id for one in mutations if one.entity_kind == "interaction"}
        sessions = happened.after.sessions
        roots = [sessions[name].root_session or name for name in asked]
        dirty = [one for one in mutations if one.entity_kind == "interaction_tree"]
        assert sorted(one.entity_id for one in dirty) == sorted(set(roots))
        assert all(one.version == committed.last_position for one in dirty)


@given(histories())
def test_a_delta_names_every_entity_whose_row_the_commit_changed_and_no_other(history: list[Step]) -> None:
    with opened() as house:
        for happened in house.live(history):
            check_named(happened)
            check_trees(happened)


# Once (SPEC C3, C4).


def other(step: Step) -> Step | None:
    """The same command with another content; None where a kind of command has none."""
    match step.verb:
        case "state":
            state = {**step.said["state"], "deviceId": "another device"}
            return replace(step, said={"state": state})
        case "messages":
            return replace(step, said={"updates": [*step.said["updates"], {"messageId": "another"}]})
        case "answer":
            return replace(step, said=(*step.said[:2], {"another": "answer"}))
        case "title" | "cancel":
            return replace(step, said=step.said + " and another")
        case "settings":
            return replace(step, said={**step.said, "another": "setting"})
        case "pin":
            return replace(step, said=not step.said)
        case _:
            return None


def check_once(house: House, step: Step, first: Any) -> None:
    again = replace(step, moves_ms=HOUR_MS)
    if step.verb in ("state", "messages"):
        again = replace(again, said=respelled(step.said))
    before = house.picture()
    replies, rejection = house.attempt(again)
    assert rejection is None
    assert [reply.model_dump() for reply in replies] == first
    if (another := other(step)) is not None:
        _, rejection = house.attempt(another)
        assert rejection is not None
        assert rejection.reason == "conflict"
    assert house.picture() == before
    house.clock.now -= HOUR_MS


def with_own_ids(history: list[Step]) -> list[Step]:
    return [replace(step, command_id=f"id {index}") for index, step in enumerate(history)]


def play_once(house: House, history: list[Step]) -> list[tuple[Step, Any]]:
    """Play, and check each command that commits at once; gives their first answers."""
    firsts = []
    for step in with_own_ids(history):
        replies, _ = house.attempt(step)
        if step.verb != "settle" and replies and replies[0].transaction_id:
            first = [reply.model_dump() for reply in replies]
            firsts.append((step, first))
            check_once(house, step, first)
    return firsts


def is_remembered(house: House, step: Step) -> bool:
    """A purge takes what the commands before it said (SPEC A4); itself it is remembered."""
    return step.verb == "purge" or not house.state(step.session).purged


@given(histories())
def test_a_command_id_twice_is_one_commit_and_one_answer(history: list[Step]) -> None:
    with opened() as house:
        for step, first in play_once(house, history):
            if is_remembered(house, step):
                check_once(house, step, first)


@pytest.mark.parametrize("kind", SHARED)
@FEWER
@given(histories())
def test_a_command_id_twice_is_one_commit_and_one_answer_after_a_restart_too(
    kind: str, history: list[Step]
) -> None:
    with new_url(kind) as url:
        with opened(url) as house:
            firsts = play_once(house, history)
        with opened(url, now=house.clock.now) as reopened:
            for step, first in firsts:
                if is_remembered(reopened, step):
                    check_once(reopened, step, first)


@given(histories())
def test_a_command_without_news_stores_nothing_and_calls_nobody(history: list[Step]) -> None:
    called: list[CommittedDelta] = []
    with opened() as house:
        house.ledger.subscribe(called.append, "observer")
        for happened in house.live(history):
            assert len(called) == len(happened.deltas)
            if not happened.deltas:
                assert happened.before == happened.after
            called.clear()


# All or nothing (SPEC C2, O1).


class Refusing:
    """A host's part that refuses while it is armed."""

    armed = False

    def participate(self, execute: Any, delta: CommitDelta) -> None:
        if self.armed:
            raise OSError("the host refuses")


@given(histories(), st.integers(0, 40))
def test_a_part_of_the_host_that_raises_undoes_the_commit(history: list[Step], at: int) -> None:
    host = Refusing()
    with opened(participant=host) as house, opened() as control:
        for index, step in enumerate(history):
            if index == at % len(history):
                host.armed = True
                before = house.picture()
                with suppress(OSError):
                    house.attempt(replace(step, moves_ms=0))
                assert house.picture() == before
                host.armed = False
            assert house.attempt(step)[1] == control.attempt(step)[1]
        assert house.ledger.verify().ok
        assert house.picture().models == control.picture().models


@contextmanager
def failing_write(number: int) -> Iterator[None]:
    """Let the write of that number fail, counted from now."""
    real, left = memory._set, [number]

    def put(*arguments: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError("no room")
        real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_set", put)
        yield


def fails(house: House, number: int, step: Step) -> bool:
    """Take a step of which one write fails; whether it had so many writes at all."""
    with failing_write(number):
        try:
            house.attempt(step)
        except OSError:
            return True
    return False


@given(histories(), st.integers(0, 40), st.integers(1, 25))
def test_a_write_to_memory_that_fails_undoes_the_commit(history: list[Step], at: int, number: int) -> None:
    with opened() as house, opened() as control:
        for index, step in enumerate(history):
            before = house.picture()
            if index != at % len(history) or step.verb == "settle":
                house.attempt(step)
            elif fails(house, number, step):
                assert house.picture() == before
                house.attempt(replace(step, moves_ms=0))
            control.attempt(step)
        assert house.ledger.verify().ok
        assert house.picture().models == control.picture().models


TABLES = (
    *("stored_events", "contents", "streams", "outbox", "commands", "sessions", "session_contents"),
    *("turns", "messages", "message_parts", "interactions"),
)


@contextmanager
def full(house: House, table: str) -> Iterator[None]:
    """Let the table take no row for a while."""
    database = house.store._database
    assert isinstance(database, SQLiteDatabase)
    with closing(sqlite3.connect(database.path)) as db:
        db.execute(f"CREATE TRIGGER full BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no room'); END")
        yield
        db.execute("DROP TRIGGER full")


def dies() -> None:
    raise OSError("killed before the commit")


@settings(max_examples=max(5, settings().max_examples // 10))
@given(histories(), steps())
def test_a_table_that_takes_no_row_undoes_the_commit(history: list[Step], last: Step) -> None:
    """So does whatever else stops the command before its commit, when every table took its rows."""
    last = replace(last, command_id="last", moves_ms=0)
    with opened_on("sqlite") as house:
        house.play(history)
        before = house.picture()
        crashpoints.arm("append.before_commit", dies)
        try:
            for table in TABLES:
                with full(house, table), suppress(StoreError, OSError):
                    house.attempt(last)
                assert house.picture() == before
        finally:
            crashpoints.disarm()
        _, rejection = house.attempt(last)
        with opened() as control:
            control.play(history)
            assert control.attempt(last)[1] == rejection
            assert house.picture().models == control.picture().models
        assert house.ledger.verify().ok


@given(histories())
def test_versions_and_positions_go_up_without_gaps(history: list[Step]) -> None:
    with opened() as house:
        house.play(history)
        positions = []
        for name in SESSIONS:
            stored = list(house.ledger.events(ROOM, name))
            assert [one.version for one in stored] == list(range(1, len(stored) + 1))
            assert all(one.position < two.position for one, two in pairwise(stored))
            positions += [one.position for one in stored]
        assert sorted(positions) == list(range(1, len(positions) + 1))
