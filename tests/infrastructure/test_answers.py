"""Answers of a writer's thread reach whoever awaits them on an event loop."""

import asyncio
from concurrent.futures import Future
from threading import Thread

import pytest

from application.ports import Committed
from domain.delta import CommitDelta, CommittedDelta
from domain.errors import StoreUnavailable
from domain.ids import Position
from infrastructure.answers import Answers


def in_a_thread(act: "list[Future[Committed]]", answers: Answers, done: Committed | BaseException) -> None:
    """Answer all of them as a writer does, and wake the loop."""

    def write() -> None:
        for answer in act:
            if answer.set_running_or_notify_cancel():
                if isinstance(done, BaseException):
                    answer.set_exception(done)
                else:
                    answer.set_result(done)
        answers.wake()

    writer = Thread(target=write)
    writer.start()
    writer.join()


def test_all_answers_of_a_commit_come_with_one_wake_up() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        given: list[Future[Committed]] = [Future() for _ in range(3)]
        awaited = [answers.awaited(answer) for answer in given]
        committed = Committed({"transactionId": "t"})
        in_a_thread(given, answers, committed)
        assert await asyncio.gather(*awaited) == [committed] * 3

    asyncio.run(main())


def test_an_answer_that_is_there_already_comes_with_the_wake_up_behind_it() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        given: Future[Committed] = Future()
        in_a_thread([given], answers, Committed({}))
        assert await answers.awaited(given) == Committed({})

    asyncio.run(main())


def test_a_failure_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        given: Future[Committed] = Future()
        awaited = answers.awaited(given)
        in_a_thread([given], answers, StoreUnavailable("closed"))
        with pytest.raises(StoreUnavailable, match="closed"):
            await awaited

    asyncio.run(main())


def test_who_goes_away_takes_the_command_back_and_the_others_are_answered() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        given: list[Future[Committed]] = [Future(), Future()]
        gone, stays = [answers.awaited(answer) for answer in given]
        gone.cancel()
        await asyncio.sleep(0)
        assert given[0].cancelled()
        in_a_thread(given, answers, Committed({}))
        assert await stays == Committed({})

    asyncio.run(main())


def test_who_goes_away_while_the_command_runs_is_not_told() -> None:
    async def main() -> None:
        answers = Answers(asyncio.get_running_loop())
        given: list[Future[Committed]] = [Future(), Future()]
        gone, stays = [answers.awaited(answer) for answer in given]
        assert all(answer.set_running_or_notify_cancel() for answer in given)
        gone.cancel()
        await asyncio.sleep(0)
        for answer in given:
            answer.set_result(Committed({}))
        answers.wake()
        assert await stays == Committed({})
        assert gone.cancelled()

    asyncio.run(main())


def test_deltas_are_noticed_once_for_all_that_come_together_whoever_still_waits() -> None:
    async def main() -> None:
        noticed: list[str] = []
        answers = Answers(asyncio.get_running_loop(), lambda: noticed.append("deltas"))
        without: Future[Committed] = Future()
        awaited = answers.awaited(without)
        in_a_thread([without], answers, Committed({}))
        await awaited
        assert noticed == []

        given: list[Future[Committed]] = [Future(), Future()]
        gone, stays = [answers.awaited(answer) for answer in given]
        assert all(answer.set_running_or_notify_cancel() for answer in given)
        gone.cancel()
        await asyncio.sleep(0)
        delta = CommittedDelta(
            CommitDelta(transaction_id="t", workspace_id="room-1", mutations=()),
            Position(1),
            Position(1),
            recorded_at=0,
        )
        for answer in given:
            answer.set_result(Committed({}, delta))
        answers.wake()
        await stays
        assert noticed == ["deltas"]

    asyncio.run(main())


def test_a_loop_that_was_closed_stops_no_writer() -> None:
    loop = asyncio.new_event_loop()
    answers = Answers(loop)
    loop.close()

    answers.wake()
