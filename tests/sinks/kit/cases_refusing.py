"""A destination that refuses a message, or is gone."""

import asyncio
from typing import Any

from application.lanes import Choice, State
from application.status import backlog_of
from domain.ids import TransactionId
from tests.sinks.kit.bench import Fault
from tests.sinks.kit.cases import DELIVERED, PARKED, PENDING, SKIPPED, WAITING, case
from tests.sinks.kit.house import NAME, House, until


async def park_first(house: House, room: str = "r1", **more: Any) -> str:
    """Let a room's first delta be parked; its transaction."""
    house.subscribe(**more)
    await house.bench.fail_next(Fault.REFUSES, 3, room)
    transaction = house.say("parked", room)
    await house.work()
    for _ in range(3):
        house.pass_time(400)
        await asyncio.sleep(0)

        async def look() -> tuple[State, int]:
            return house.deliveries()[0].state, house.deliveries()[0].attempts

        before = house.deliveries()[0].attempts
        await until(look, lambda seen, before=before: seen[0] is PARKED or seen[1] > before)  # type: ignore[misc]
        if house.deliveries()[0].state is PARKED:
            break
    await house.stands(PARKED)
    return transaction


@case(Fault.REFUSES)
async def one_that_is_refused_three_times_is_parked_and_the_room_goes_on(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.REFUSES, 3)
    house.say("a")
    second = house.say("b")
    await house.work()
    await house.stands(WAITING, WAITING)
    house.pass_time(5.5)

    async def look() -> int:
        return house.deliveries()[0].attempts

    await until(look, lambda attempts: attempts == 2)
    house.pass_time(330)

    (arrived,) = await house.arrived(1)
    assert arrived.id == second
    assert arrived.gap == (1 if house.bench.tells_gaps else 0)
    parked, _ = await house.stands(PARKED, DELIVERED)
    assert parked.error
    assert house.topics() == ["added", "row_parked"]
    (lag,) = backlog_of(house.ledger).subscriptions
    assert (lag.pending, lag.parked) == (0, 1)


@case(Fault.REFUSES)
async def a_room_may_stop_behind_what_was_parked(house: House) -> None:
    first = await park_first(house, on_parked="stop")
    second = await asyncio.to_thread(house.say, "b")
    other = await asyncio.to_thread(house.say, "c", "r2")

    assert await house.ids(1) == [other]
    await house.stands(PARKED, WAITING, DELIVERED)
    await asyncio.to_thread(
        house.ledger.subscriptions.redeliver, NAME, Choice(transactions=(TransactionId(first),))
    )

    assert await house.ids(3, "r1") == [first, second]
    await house.stands(DELIVERED, DELIVERED, DELIVERED)


@case(Fault.REFUSES)
async def a_stopped_room_goes_on_when_what_was_parked_is_skipped(house: House) -> None:
    await park_first(house, on_parked="stop")
    second = await asyncio.to_thread(house.say, "b")
    await house.stands(PARKED, WAITING)

    await asyncio.to_thread(house.ledger.subscriptions.skip, NAME, Choice(states=frozenset([PARKED])))

    assert await house.ids(1) == [second]
    await house.stands(SKIPPED, DELIVERED)


@case(Fault.GONE)
async def a_destination_that_is_gone_disables_its_subscription(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.GONE)
    said = [house.say("a"), house.say("b")]
    await house.work()

    async def look() -> str:
        return house.ledger.subscriptions.show(NAME).state.status

    await until(look, lambda status: status == "disabled")
    await house.stands(PENDING, PENDING)
    await asyncio.to_thread(house.ledger.subscriptions.resume, NAME)

    assert await house.ids(2) == said
    assert house.topics() == ["added", "disabled", "resumed"]
