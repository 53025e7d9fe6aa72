"""A subscription's rules, told as stories: given these events, when this is asked, then these events."""

from dataclasses import replace
from typing import Any

import pytest

from domain.delta import CommitDelta, EntityKind, Mutation
from domain.errors import Rejected
from domain.ids import RoomId, TransactionId
from domain.subscription import (
    Added,
    Disabled,
    Filter,
    Paused,
    RedeliveryRequested,
    Removed,
    Resumed,
    RowParked,
    SecretRotated,
    Skipped,
    Subscription,
    SubscriptionEvent,
    add,
    disable,
    evolve,
    park,
    pause,
    remove,
    request_redelivery,
    resume,
    rotate,
    skip,
)

T0 = 1_772_355_600_000
ADDED = Added(name="crm", kind="webhook", target="https://crm.example/hook", from_position=7, secret_ref="s1")


def given(*events: SubscriptionEvent) -> Subscription:
    subscription = Subscription("crm")
    for event in events:
        subscription = evolve(subscription, event, T0)
    return subscription


def delta(room: str, *kinds: EntityKind) -> CommitDelta:
    mutations = tuple(
        Mutation(
            mutation_id=f"t:{number}",
            workspace_id=room,
            agent_session_id="s",
            entity_kind=kind,
            entity_id="e",
            operation="upsert",
            version=1,
        )
        for number, kind in enumerate(kinds, start=1)
    )
    return CommitDelta(transaction_id="t", workspace_id=room, mutations=mutations)


def test_one_that_was_added_is_active() -> None:
    assert add(given(), ADDED) == (ADDED,)
    assert given(ADDED).is_active
    assert given(ADDED).from_position == 7


def test_adding_it_again_is_no_news_wherever_the_log_ends_by_now() -> None:
    assert add(given(ADDED), replace(ADDED, from_position=99)) == ()


def test_another_one_of_its_name_is_a_conflict() -> None:
    with pytest.raises(Rejected, match="conflict"):
        add(given(ADDED), replace(ADDED, target="https://elsewhere.example"))


@pytest.mark.parametrize("name", ["", "A", "a b", "a/b", "a" * 101])
def test_a_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(Rejected, match="invalid"):
        add(Subscription(name), replace(ADDED, name=name))


@pytest.mark.parametrize(
    "wrong", [{"entity_kinds": ("planet",)}, {"on_parked": "panic"}, {"rooms": ("r",) * 1_001}]
)
def test_a_filter_or_setting_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        add(given(), replace(ADDED, **wrong))


def test_pausing_and_resuming_twice_is_once() -> None:
    paused, resumed = Paused(reason="lunch"), Resumed()
    assert pause(given(ADDED), "lunch") == (paused,)
    assert pause(given(ADDED, paused)) == ()
    assert given(ADDED, paused).reason == "lunch"
    assert resume(given(ADDED, paused)) == (resumed,)
    assert resume(given(ADDED, paused, resumed)) == ()


def test_a_destination_that_is_gone_disables_it_until_somebody_resumes() -> None:
    gone = Disabled(reason="410")
    assert disable(given(ADDED), "410") == (gone,)
    assert disable(given(ADDED, gone), "410") == ()
    assert not given(ADDED, gone).is_active
    assert resume(given(ADDED, gone)) == (Resumed(),)


def test_a_new_secret_signs_beside_the_one_before() -> None:
    rotated = SecretRotated(secret_ref="s2", previous_until=T0)
    assert rotate(given(ADDED), "s2", T0) == (rotated,)
    after = given(ADDED, rotated)
    assert (after.secret_ref, after.previous_secret_ref, after.previous_until) == ("s2", "s1", T0)
    assert rotate(after, "s2", T0) == ()


def test_what_was_given_up_is_told() -> None:
    parked = RowParked(room="r", transaction="t", attempts=3, reason="400")
    assert park(given(ADDED), RoomId("r"), TransactionId("t"), 3, "400") == (parked,)
    assert given(ADDED, parked) == given(ADDED)
    assert park(given(ADDED, Removed()), RoomId("r"), TransactionId("t"), 3, "400") == ()


def test_choosing_no_deltas_is_no_news() -> None:
    assert skip(given(ADDED), Skipped(count=0)) == ()
    assert skip(given(ADDED), Skipped(count=2)) == (Skipped(count=2),)
    assert request_redelivery(given(ADDED), RedeliveryRequested(count=0)) == ()
    assert request_redelivery(given(ADDED), RedeliveryRequested(count=2)) == (RedeliveryRequested(count=2),)


def test_one_that_was_removed_leaves_its_name() -> None:
    assert remove(given(ADDED)) == (Removed(),)
    assert remove(given(ADDED, Removed())) == remove(given()) == ()
    assert add(given(ADDED, Removed()), replace(ADDED, kind="file")) == (replace(ADDED, kind="file"),)


@pytest.mark.parametrize("history", [(), (ADDED, Removed())])
def test_one_that_is_not_there_cannot_be_changed(history: tuple[SubscriptionEvent, ...]) -> None:
    for decide in (pause, resume, lambda one: rotate(one, "s2", 0), lambda one: skip(one, Skipped(count=1))):
        with pytest.raises(Rejected, match="unknown_subscription"):
            decide(given(*history))


def test_a_filter_takes_a_delta_whole_or_not_at_all() -> None:
    turns_of_a = Filter(frozenset([RoomId("a")]), frozenset(["turn"]))
    assert turns_of_a.wants(delta("a", "message", "turn"))
    assert not turns_of_a.wants(delta("a", "message"))
    assert not turns_of_a.wants(delta("b", "turn"))
    assert Filter().wants(delta("b", "message"))
