"""Turns, interactions and trees: what is over stays over, and nothing waits for ever."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from domain.turn import Turn
from tests.properties.histories import HOUR_MS, ROOM, TURNS, Step, histories
from tests.properties.playing import Happened, House, Picture, opened

# What is over (SPEC T3, T4, I3).


def end_of(turn: Turn) -> tuple[Any, ...]:
    return turn.phase, turn.outcome, turn.settled_at, turn.cause, turn.final_message_id


def check_ends_stay(happened: Happened) -> None:
    before, after = happened.before, happened.after
    for key, turn in before.turns.items():
        if turn.is_final and key in after.turns:
            assert end_of(after.turns[key]) == end_of(turn)
    for key, interaction in before.interactions.items():
        is_guess = interaction.provisional and not before.turns[key[0], key[1]].is_final
        if interaction.status != "pending" and not is_guess and key in after.interactions:
            assert after.interactions[key] == interaction


@given(histories())
def test_a_final_end_and_an_answer_never_change(history: list[Step]) -> None:
    with opened() as house:
        for happened in house.live(history):
            check_ends_stay(happened)


# What is live (SPEC T1, T2, T4).


def check_live(picture: Picture) -> None:
    for name, session in picture.sessions.items():
        turns = picture.turns_of(name)
        open_turns = {turn_id for turn_id, turn in turns.items() if not turn.is_settled}
        queue = [turn_id for _, turn_id in session.queue]
        live = {session.active_turn} - {""}
        assert open_turns == live | set(queue)
        assert session.active_turn not in queue
        assert live or not queue
        assert session.queue == tuple(sorted((turns[one].began, one) for one in queue))
        assert all(turns[one].phase == "submitted" for one in queue)
        assert session.live_phase == (turns[session.active_turn].phase if live else "")
        pending = {
            key[1:] for key, one in picture.interactions.items() if key[0] == name and one.status == "pending"
        }
        assert pending == set(session.pending)
        assert len(session.pending) == len(pending)
        assert all(not turns[turn].is_settled for turn, _ in pending)
        assert not (session.is_deleted and live)
        for turn in turns.values():
            assert turn.is_settled == (turn.outcome is not None) == (turn.settled_at > 0)


@given(histories())
def test_one_turn_is_live_and_only_behind_it_others_wait(history: list[Step]) -> None:
    with opened() as house:
        for happened in house.live(history):
            check_live(happened.after)


# What a root waits for (SPEC T8).


def held_turns(picture: Picture) -> set[tuple[str, str]]:
    """The root turns that a child at work names, as the rows of the children say."""
    return {
        (session.root_session, session.root_turn)
        for session in picture.sessions.values()
        if session.is_child
        and any(not turn.is_settled for turn in picture.turns_of(session.session).values())
    }


def check_nothing_waits_in_vain(picture: Picture) -> None:
    held = held_turns(picture)
    for key, turn in picture.turns.items():
        if turn.provider_phase == "completed" and (key[0], key[1]) not in held:
            assert turn.is_settled
    for name, session in picture.sessions.items():
        at_work = {
            child.session: child.root_turn
            for child in picture.sessions.values()
            if child.is_child and child.root_session == name and child.is_active
        }
        assert dict(session.active_children) == at_work


@given(histories())
def test_a_root_turn_with_a_completed_provider_waits_for_children_and_for_nothing_else(
    history: list[Step],
) -> None:
    with opened() as house:
        for happened in house.live(history):
            check_nothing_waits_in_vain(happened.after)


# What only grows (SPEC R4, S3, T6).


def check_only_grows(happened: Happened) -> None:
    before, after = happened.before, happened.after
    for name, session in before.sessions.items():
        if name not in after.sessions:
            continue
        now = after.sessions[name]
        assert now.last_event_at >= session.last_event_at
        assert now.last_event_at <= max(happened.at, session.last_event_at)
        assert now.message_version >= session.message_version
        assert now.ended_at >= session.ended_at
        assert now.created_at == session.created_at
        assert is_earlier_or_same(now.started_at, session.started_at)
        assert now.updated_at - session.updated_at >= now.version - session.version
        assert at_least(now.usage, session.usage)
        for relation in ("kind", "root_session", "root_turn", "parent_session", "parent_turn"):
            assert getattr(session, relation) in ("", getattr(now, relation))
        assert now.title_latched or not session.title_latched
    for key, turn in before.turns.items():
        if key in after.turns:
            assert after.turns[key].capability_refs[: len(turn.capability_refs)] == turn.capability_refs
            assert is_earlier_or_same(after.turns[key].started_at, turn.started_at)
            assert turn.origin in ("", after.turns[key].origin)
    for key, message in before.messages.items():
        if key in after.messages:
            later = after.messages[key]
            assert later.version >= message.version
            assert later.sequence == message.sequence
            assert later.occurred_at >= message.occurred_at
            assert is_earlier_or_same(later.started_at, message.started_at)
            assert later.completed_at >= message.completed_at or message.provisional
            assert at_least(later.usage or {}, message.usage or {})
            assert message.turn_id in ("", later.turn_id)


def is_earlier_or_same(now: int, before: int) -> bool:
    return now == before or not before or 0 < now < before


def at_least(now: Mapping[str, int], before: Mapping[str, int]) -> bool:
    return all(now.get(key, 0) >= count for key, count in before.items())


@given(histories())
def test_late_and_repeated_reports_lower_nothing_that_only_grows(history: list[Step]) -> None:
    with opened() as house:
        for happened in house.live(history):
            check_only_grows(happened)


@given(histories())
def test_a_sessions_usage_is_the_sum_over_its_messages(history: list[Step]) -> None:
    with opened() as house:
        house.play(history)
        picture = house.picture()
        for name, session in picture.sessions.items():
            counts = [one.usage or {} for key, one in picture.messages.items() if key[0] == name]
            sums = {
                key: sum(one.get(key, 0) for one in counts) for key in {key for one in counts for key in one}
            }
            assert dict(session.usage) == sums


# Stamps from the future (SPEC R4).


def report(house: House, turn: str, phase: str, at: int) -> None:
    house.clock.now += 1
    state = {"turn": {"turnId": turn, "phase": phase}, "occurredAtUnixMs": at}
    house.ledger.report_state({"state": state}, room=ROOM, session="root")


@given(histories(), st.sampled_from(TURNS), st.sampled_from((0, HOUR_MS)))
def test_after_a_report_from_the_future_the_next_one_still_settles_the_turn(
    history: list[Step], turn: str, ahead_ms: int
) -> None:
    with opened() as house:
        house.play(history)
        if house.state("root").purged:
            return
        house.ledger.restore(ROOM, "root")
        report(house, turn, "running", house.clock.now + HOUR_MS)
        report(house, turn, "waiting", house.clock.now + ahead_ms)
        report(house, turn, "failed", house.clock.now + ahead_ms)
        assert house.picture().turns["root", turn].is_final
