"""A destination that is not well: waits, and what ends them."""

import asyncio

from application.lanes import State
from tests.sinks.kit.bench import RETRY_AFTER_S, Fault
from tests.sinks.kit.cases import DELIVERED, PARKED, WAITING, case
from tests.sinks.kit.house import House, until


@case(Fault.UNAVAILABLE)
async def a_destination_that_is_not_well_gets_it_later(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE)
    said = [house.say("a"), house.say("b")]
    await house.work()

    waiting, behind = await house.stands(WAITING, WAITING)
    assert 5_000 <= waiting.due_at - house.place.clock.now <= 5_500
    assert (waiting.attempts, behind.due_at) == (1, waiting.due_at)
    assert waiting.error
    house.pass_time(5.5)

    assert await house.ids(2) == said
    await house.stands(DELIVERED, DELIVERED)


@case(Fault.UNAVAILABLE)
async def the_second_wait_is_five_minutes(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE, 2)
    house.say("a")
    await house.work()
    await house.stands(WAITING)
    house.pass_time(5.5)

    async def look() -> int:
        return house.deliveries()[0].attempts

    await until(look, lambda attempts: attempts == 2)

    (waiting,) = await house.stands(WAITING)
    assert 300_000 <= waiting.due_at - house.place.clock.now <= 330_000


@case(Fault.UNAVAILABLE)
async def after_ten_attempts_it_is_given_up_and_the_room_goes_on(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE, 10)
    first, second = house.say("a"), house.say("b")
    await house.work()
    for attempt in range(1, 10):

        async def look() -> tuple[State, int]:
            (one, *_) = house.deliveries()
            return one.state, one.attempts

        await until(look, lambda seen, attempt=attempt: seen == (WAITING, attempt))  # type: ignore[misc]
        house.pass_time(100_000)

    (arrived,) = await house.arrived(1)

    assert arrived.id == second
    assert arrived.gap == (1 if house.bench.tells_gaps else 0)
    parked, _ = await house.stands(PARKED, DELIVERED)
    assert (parked.committed.transaction_id, parked.attempts) == (first, 10)
    assert house.topics() == ["added", "row_parked"]


@case(Fault.LATER)
async def a_wish_for_a_later_time_is_heard(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.LATER)
    house.say("a")
    await house.work()

    (waiting,) = await house.stands(WAITING)

    assert waiting.due_at - house.place.clock.now >= RETRY_AFTER_S * 1_000
    house.pass_time(RETRY_AFTER_S + 1)
    await house.arrived(1)


@case(Fault.SILENT)
async def what_arrived_without_an_answer_comes_again_and_is_the_same(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.SILENT)
    house.say("a")
    await house.work()
    await house.stands(WAITING)
    house.pass_time(5.5)

    first, again = await house.arrived(2)

    assert first == again
    await house.stands(DELIVERED)


@case(Fault.UNAVAILABLE)
async def a_room_that_fails_holds_up_itself_and_no_other(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE, 1, "r1")
    held = [house.say("a", "r1"), house.say("b", "r1")]
    others = [house.say("c", "r2"), house.say("d", "r2")]
    await house.work()

    assert await house.ids(2) == others
    await house.stands(WAITING, WAITING, DELIVERED, DELIVERED)
    house.pass_time(5.5)
    assert (await house.ids(4))[2:] == held


@case(Fault.UNAVAILABLE)
async def a_success_wakes_what_waits_for_the_destination(house: House) -> None:
    """The rooms that failed do not wait for their time when another one shows that it works again."""
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE, 3)
    for room in ("r1", "r2", "r3"):
        house.say("a", room)
    await house.work()
    await house.stands(WAITING, WAITING, WAITING)
    house.pass_time(0.1)

    await asyncio.to_thread(house.say, "b", "r4")

    await house.arrived(4)
    await house.stands(*[DELIVERED] * 4)


@case(Fault.UNAVAILABLE)
async def a_lane_that_was_woken_in_vain_waits_for_its_time(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE, 2, "r1")
    house.say("a", "r1")
    await house.work()
    (waiting,) = await house.stands(WAITING)
    house.pass_time(0.1)
    await asyncio.to_thread(house.say, "b", "r2")
    await house.stands(WAITING, DELIVERED)
    house.pass_time(1)
    await asyncio.to_thread(house.say, "c", "r2")

    again, _, _ = await house.stands(WAITING, DELIVERED, DELIVERED)

    assert (again.attempts, again.due_at) == (1, waiting.due_at)
    house.pass_time(5)
    await house.stands(DELIVERED, DELIVERED, DELIVERED)
