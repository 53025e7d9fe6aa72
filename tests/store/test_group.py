"""Commands that wait together are stored with one commit, and each gets its own answer."""

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Event, Thread
from typing import Any

import pytest

from application.ports import Committed, Decide, Decision, Loader
from domain.delta import CommitDelta
from domain.errors import Overloaded, StoreError, StoreUnavailable
from domain.ids import SessionId
from infrastructure.store.group import GroupCommit
from infrastructure.store.writer import Done
from tests.store.place import Place, titled


class Held:
    """Runs batches when it is let go, and remembers how large they were."""

    def __init__(self, run: Callable[[Sequence[Decide]], Sequence[Done]]) -> None:
        self.run = run
        self.sizes: list[int] = []
        self.has_begun = Event()
        self.let_go = Event()

    def __call__(self, decides: Sequence[Decide]) -> Sequence[Done]:
        self.has_begun.set()
        assert self.let_go.wait(30)
        self.sizes.append(len(decides))
        return self.run(decides)


def answered(decides: Sequence[Decide]) -> Sequence[Done]:
    return [Committed({"number": number}) for number, _ in enumerate(decides)]


def nothing(_: Loader) -> Decision:
    return Decision({})


def held_back(group: GroupCommit, held: Held, decides: Sequence[Decide]) -> "list[Future[Committed]]":
    """Have one command run alone, and the others wait together behind it."""
    first = group.submit(nothing)
    assert held.has_begun.wait(30)
    return [first, *(group.submit(decide) for decide in decides)]


def test_what_waits_is_committed_together_and_no_more_than_fits() -> None:
    held = Held(answered)
    group = GroupCommit(held, batch_max=3)
    answers = held_back(group, held, [nothing] * 5)
    held.let_go.set()

    assert [answer.result(30).answer["number"] for answer in answers] == [0, 0, 1, 2, 0, 1]
    assert held.sizes == [1, 3, 2]
    group.close()


def test_one_command_too_many_is_refused_and_the_others_are_not() -> None:
    held = Held(answered)
    group = GroupCommit(held, queue_max=2)
    answers = held_back(group, held, [nothing] * 2)

    with pytest.raises(Overloaded, match="2 commands are waiting; try again later"):
        group.submit(nothing)
    held.let_go.set()
    assert len([answer.result(30) for answer in answers]) == 3
    group.close()


def test_closing_answers_what_was_taken_and_takes_no_more() -> None:
    held = Held(answered)
    group = GroupCommit(held, queue_max=2)
    answers = held_back(group, held, [nothing] * 2)
    closing = Thread(target=group.close)
    closing.start()
    held.let_go.set()
    closing.join(30)

    assert all(answer.done() for answer in answers)
    with pytest.raises(StoreUnavailable, match="the store was closed; open it again"):
        group.submit(nothing)
    group.close()


def test_a_run_that_breaks_is_told_to_all_who_wait_and_the_next_one_runs() -> None:
    broken = [RuntimeError("broken")]

    def run(decides: Sequence[Decide]) -> Sequence[Done]:
        if broken:
            raise broken.pop()
        return answered(decides)

    group = GroupCommit(run)
    with pytest.raises(RuntimeError, match="broken"):
        group.submit(nothing).result(30)
    assert group.submit(nothing).result(30).answer == {"number": 0}
    group.close()


def test_a_command_that_was_called_off_while_it_waited_is_not_run() -> None:
    held = Held(answered)
    group = GroupCommit(held)
    answers = held_back(group, held, [nothing] * 2)
    assert answers[1].cancel()
    held.let_go.set()

    assert answers[2].result(30).answer == {"number": 0}
    assert held.sizes == [1, 1]
    group.close()


def test_who_shares_a_way_to_be_woken_is_woken_once_behind_all_answers_of_a_commit() -> None:
    held = Held(answered)
    group = GroupCommit(held)
    woken: list[list[bool]] = []

    def wake() -> None:
        woken.append([bool(one.done) for one in waiting])

    class Waiting:
        """Somebody who waits, and is told."""

        def __init__(self) -> None:
            self.done: list[Done] = []

        def begins(self) -> bool:
            return True

        def ends(self, done: Done) -> None:
            self.done.append(done)

    held_back(group, held, [])
    waiting = [Waiting() for _ in range(3)]
    for one in waiting:
        group.put(nothing, one, wake)
    held.let_go.set()
    group.close()

    assert woken == [[True] * 3]
    assert [one.done for one in waiting] == [[Committed({"number": number})] for number in range(3)]


def test_a_command_sees_what_those_before_it_in_its_batch_stored(place: Place) -> None:
    store = place.store()
    done, _ = store._writer.run([place.decides(titled(title)) for title in ("a", "b", "c")])

    assert [one.events for one in done if isinstance(one, Committed)] == [2, 1, 1]
    assert [delta.delta.mutations[0].version for delta in store.deltas()] == [2, 3, 4]


def test_a_refusal_costs_the_other_commands_of_its_batch_nothing(place: Place) -> None:
    store = place.store()

    def refused(_: Loader) -> Decision:
        raise ValueError("no")

    done, _ = store._writer.run([place.decides(titled("a")), refused, place.decides(titled("b"))])
    assert isinstance(done[1], ValueError)
    assert [one.events for one in done if isinstance(one, Committed)] == [2, 1]


class RefusesSession:
    """A host's participant that lets nothing of one session be stored."""

    def __init__(self, session: str) -> None:
        self.session = session

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        del execute
        if any(mutation.agent_session_id == self.session for mutation in delta.mutations):
            raise RuntimeError("not this one")


def test_of_a_batch_that_cannot_be_stored_only_the_guilty_command_fails(place: Place) -> None:
    """The transaction is taken back; then each command is decided and stored by itself."""
    store = place.store(RefusesSession("b"))
    done, _ = store._writer.run([place.decides(session=SessionId(name)) for name in ("a", "b", "c")])

    assert [type(one) for one in done] == [Committed, RuntimeError, Committed]
    stored = [delta.delta.mutations[0].agent_session_id for delta in store.deltas()]
    assert stored == ["a", "c"]
    assert store.verify().problems == ()


def test_trouble_of_the_database_is_told_in_our_words_and_costs_no_other_command(file: Place) -> None:
    store = file.store()

    def broken(load: Loader) -> Decision:
        raise sqlite3.OperationalError("disk I/O error")

    done, _ = store._writer.run([file.decides(titled("a")), broken, file.decides(titled("b"))])

    assert [type(one) for one in done] == [Committed, StoreError, Committed]
    assert len(list(store.deltas())) == 2


def test_a_decision_cannot_ask_for_another_one(place: Place) -> None:
    store = place.store()

    def decide(_: Loader) -> Decision:
        store.submit(place.decides(titled("inside")))
        raise AssertionError("not reached")

    with pytest.raises(StoreError, match="a decision may not write to the store it is made in"):
        store.submit(decide)
    assert list(store.deltas()) == []
