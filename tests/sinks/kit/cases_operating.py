"""What operators may do."""

import asyncio
from dataclasses import replace

import pytest

from application.lanes import Choice
from domain.errors import Rejected
from domain.ids import TransactionId
from domain.subscription import Added
from tests.sinks.kit.bench import Fault
from tests.sinks.kit.cases import DELIVERED, PARKED, PENDING, SKIPPED, WAITING, case
from tests.sinks.kit.cases_refusing import park_first
from tests.sinks.kit.house import NAME, House, until
from tests.sinks.kit.recording import RecordingBench


@case()
async def a_paused_subscription_waits_and_goes_on_when_it_is_resumed(house: House) -> None:
    house.subscribe()
    house.ledger.subscriptions.pause(NAME, "lunch")
    said = [house.say("a"), house.say("b")]
    other = RecordingBench()
    house.ledger.subscriptions.add(Added(name="other", kind="other", from_position=0), after=0)
    await house.work(lambda one: other.sink(one) if one.kind == "other" else house._sink_of(one))
    await until(other.received, lambda seen: len(seen) == 2)
    assert await house.bench.received() == ()
    assert house.states() == [PENDING, PENDING]

    await asyncio.to_thread(house.ledger.subscriptions.resume, NAME)

    assert await house.ids(2) == said


@case(Fault.UNAVAILABLE)
async def a_subscription_that_fails_delays_no_other(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE)
    house.say("a")
    other = RecordingBench()
    house.ledger.subscriptions.add(Added(name="other", kind="other", from_position=0), after=0)

    await house.work(lambda one: other.sink(one) if one.kind == "other" else house._sink_of(one))

    await until(other.received, lambda seen: len(seen) == 1)
    await house.stands(WAITING)
    await house.stands(DELIVERED, name="other")


@case()
async def a_subscription_that_was_removed_gets_nothing_and_leaves_its_name(house: House) -> None:
    house.subscribe()
    house.say("a")
    house.ledger.subscriptions.remove(NAME)
    house.subscribe(after=None)
    second = house.say("b")
    await house.work()

    assert await house.ids(1) == [second]
    assert house.topics() == ["added", "removed", "added"]


@case()
async def what_was_delivered_can_be_delivered_again_each_time_told_apart(house: House) -> None:
    house.subscribe()
    transaction = house.say("a")
    await house.work()
    await house.stands(DELIVERED)
    chosen = Choice(transactions=(TransactionId(transaction),))
    for number in (1, 2):
        await asyncio.to_thread(house.ledger.subscriptions.redeliver, NAME, chosen)
        arrived = await house.arrived(number + 1)
        assert replace(arrived[-1], redelivery=0) == arrived[0]
        assert arrived[-1].redelivery in (0, number)
        await house.stands(DELIVERED)
    assert house.topics() == ["added", "redelivery_requested", "redelivery_requested"]


@case(Fault.REFUSES)
async def what_was_parked_can_be_delivered_again(house: House) -> None:
    parked = await park_first(house)

    await asyncio.to_thread(
        house.ledger.subscriptions.redeliver, NAME, Choice(states=frozenset([PARKED])), expected=1
    )

    assert await house.ids(1) == [parked]
    await house.stands(DELIVERED)


@case(Fault.REFUSES)
async def what_is_refused_again_is_parked_at_once(house: House) -> None:
    await park_first(house)
    await house.bench.fail_next(Fault.REFUSES)

    await asyncio.to_thread(house.ledger.subscriptions.redeliver, NAME, Choice(room="r1"))

    async def look() -> list[str]:
        return house.topics()

    wanted = ["added", "row_parked", "redelivery_requested", "row_parked"]
    await until(look, lambda topics: topics == wanted)
    await house.stands(PARKED)


@case(Fault.UNAVAILABLE)
async def what_waits_can_be_tried_at_once(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE)
    said = [house.say("a"), house.say("b")]
    await house.work()
    await house.stands(WAITING, WAITING)

    await asyncio.to_thread(house.ledger.subscriptions.redeliver, NAME, Choice(states=frozenset([WAITING])))

    assert await house.ids(2) == said


@case(Fault.UNAVAILABLE)
async def what_waits_can_be_skipped(house: House) -> None:
    house.subscribe()
    await house.bench.fail_next(Fault.UNAVAILABLE)
    first, second = house.say("a"), house.say("b")
    await house.work()
    await house.stands(WAITING, WAITING)

    chosen = Choice(transactions=(TransactionId(first),))
    await asyncio.to_thread(house.ledger.subscriptions.skip, NAME, chosen)

    (arrived,) = await house.arrived(1)
    assert arrived.id == second
    assert arrived.gap == (1 if house.bench.tells_gaps else 0)
    await house.stands(SKIPPED, DELIVERED)
    assert house.topics() == ["added", "skipped"]


@case()
async def what_nobody_has_looked_at_yet_can_be_skipped(house: House) -> None:
    house.subscribe()
    said = [house.say(title) for title in "abcd"]
    chosen = Choice(transactions=tuple(map(TransactionId, (said[1], said[2]))))
    house.ledger.subscriptions.skip(NAME, chosen, expected=2)
    await house.work()

    first, last = await house.arrived(2)

    assert [first.id, last.id] == [said[0], said[3]]
    assert (first.gap, last.gap) == ((0, 2) if house.bench.tells_gaps else (0, 0))
    await house.stands(DELIVERED, SKIPPED, SKIPPED, DELIVERED)


@case()
async def another_number_than_expected_changes_nothing(house: House) -> None:
    house.subscribe()
    house.say("a")
    house.say("b")

    for change in (house.ledger.subscriptions.skip, house.ledger.subscriptions.redeliver):
        with pytest.raises(Rejected, match="2 deltas are chosen, 1 were expected"):
            change(NAME, Choice(room="r1"), expected=1)

    assert house.states() == [PENDING, PENDING]
    assert house.topics() == ["added"]
