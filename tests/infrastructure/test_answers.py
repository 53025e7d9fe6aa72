"""Answers of a writer's thread reach whoever awaits them on an event loop."""

import asyncio
from collections.abc import Sequence
from threading import Thread

import pytest

from application.ports import Committed
from domain.delta import CommitDelta, CommittedDelta
from domain.errors import StoreUnavailable
from domain.ids import Position
from infrastructure.answers import Answers, LoopWaiter
from infrastructure.store.writer import Done


def in_a_thread(waiters: Sequence[LoopWaiter], answers: Answers, done: Done) -> None:
    """Answer all of them as a writer does, and wake the loop."""

    def write() -> None:
        for waiter in waiters:
            if waiter.begins():
                waiter.ends(done)
        answers.wake()

    writer = Thread(target=write)
    writer.start()
    writer.join()


def test_all_answers_of_a_commit_come_with_one_wake_up() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        waiters = [answers.waiter() for _ in range(3)]
        committed = Committed({"transactionId": "t"})
        in_a_thread(waiters, answers, committed)
        assert await asyncio.gather(*(waiter.awaited for waiter in waiters)) == [committed] * 3

    asyncio.run(main())


def test_a_failure_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        waiter = answers.waiter()
        in_a_thread([waiter], answers, StoreUnavailable("closed"))
        with pytest.raises(StoreUnavailable, match="closed"):
            await waiter.awaited

    asyncio.run(main())


def test_who_goes_away_takes_the_command_back_and_the_others_are_answered() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        gone, stays = answers.waiter(), answers.waiter()
        gone.awaited.cancel()
        assert not gone.begins()
        in_a_thread([gone, stays], answers, Committed({}))
        assert await stays.awaited == Committed({})

    asyncio.run(main())


@pytest.mark.parametrize("done", [Committed({}), StoreUnavailable("closed")], ids=["answered", "failed"])
def test_who_goes_away_while_the_command_runs_is_not_told(done: Done) -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        gone, stays = answers.waiter(), answers.waiter()
        assert gone.begins()
        assert stays.begins()
        gone.awaited.cancel()
        gone.ends(done)
        stays.ends(Committed({}))
        answers.wake()
        assert await stays.awaited == Committed({})
        assert gone.awaited.cancelled()

    asyncio.run(main())


def test_deltas_are_noticed_once_for_all_that_come_together_whoever_still_waits() -> None:
    async def main() -> None:
        noticed: list[str] = []
        answers = Answers(asyncio.get_running_loop(), lambda: noticed.append("deltas"))
        without = answers.waiter()
        in_a_thread([without], answers, Committed({}))
        await without.awaited
        assert noticed == []

        gone, stays = answers.waiter(), answers.waiter()
        assert gone.begins()
        gone.awaited.cancel()
        empty = CommitDelta(transaction_id="t", workspace_id="room-1", mutations=())
        delta = CommittedDelta(empty, Position(1), Position(1), recorded_at=0)
        gone.ends(Committed({}, delta))
        stays.ends(Committed({}, delta))
        answers.wake()
        await stays.awaited
        assert noticed == ["deltas"]

    asyncio.run(main())


def test_a_loop_that_was_closed_stops_no_writer() -> None:
    loop = asyncio.new_event_loop()
    answers = Answers(loop)
    loop.close()

    answers.wake()
