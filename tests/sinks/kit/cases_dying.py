"""Workers that die, are late, are slow, or stop."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from application.lanes import Claim, Lanes, Mark, Parking, Release, State, Want
from application.sinks import Parcel, Receipt, Sink
from domain.errors import LeaseLost
from domain.ids import Position, TransactionId
from domain.subscription import Filter
from infrastructure import crashpoints
from tests.sinks.kit.cases import CLAIMED, DELIVERED, PENDING, case
from tests.sinks.kit.house import LEASE_MS, NAME, PATIENCE_S, House, until


def claim_by_hand(house: House, owner: str = "dead", lanes: int = 10) -> list[Claim]:
    """Claim what is due, as a worker that will not go on."""
    want = Want(NAME, Position(0), Filter(), lanes)
    now = house.place.clock.now
    return list(house.ledger.store.lanes.claim([want], owner, now, now + LEASE_MS))


class Died(BaseException):
    """The worker ends here."""


def die() -> None:
    crashpoints.disarm()
    raise Died


@case()
async def a_death_between_sending_and_marking_repeats_the_same(house: House) -> None:
    house.subscribe()
    said = [house.say("a"), house.say("b")]
    crashpoints.arm("outbox.after_send", die)
    await house.work()
    await house.arrived(1)
    await house.stands(CLAIMED, CLAIMED)
    house.pass_time(1.5)

    first, again, second = await house.arrived(3)

    assert first == again
    assert [again.id, second.id] == said


@case()
async def a_death_before_sending_loses_nothing(house: House) -> None:
    house.subscribe()
    said = [house.say("a"), house.say("b")]
    crashpoints.arm("outbox.before_send", die)
    await house.work()
    await house.stands(CLAIMED, CLAIMED)
    house.pass_time(1.5)

    assert await house.ids(2) == said


@case()
async def the_lanes_of_a_worker_that_died_are_delivered_by_another(house: House) -> None:
    house.subscribe()
    said = [house.say("a"), house.say("b", "r2")]
    assert len(claim_by_hand(house)) == 2
    await house.work()
    assert house.states() == [CLAIMED, CLAIMED]

    house.pass_time(1)

    assert sorted(await house.ids(2)) == sorted(said)


@case()
async def a_late_worker_changes_nothing(house: House) -> None:
    """It wakes up after its lease has gone to another, and tells of a failure and of a success."""
    house.subscribe()
    house.say("a")
    (late,) = claim_by_hand(house)
    house.pass_time(1)
    await house.work()
    await house.stands(DELIVERED)
    now, lanes = house.place.clock.now, house.ledger.store.lanes

    failed = Mark(late.lease, release=Release(now + 10**6, error="late"))
    done = Mark(late.lease, Position(late.through + 10))

    for mark in (failed, done):
        assert await asyncio.to_thread(lanes.settle, [mark], "dead", now, now) == [late.lease]
    assert house.states() == [DELIVERED]
    await asyncio.to_thread(house.say, "b")
    await house.arrived(2)


@case()
async def a_late_worker_parks_nothing(house: House) -> None:
    house.subscribe()
    transaction = house.say("a")
    (late,) = claim_by_hand(house)
    house.pass_time(1)
    await house.work()
    await house.stands(DELIVERED)
    now = house.place.clock.now
    parking = Parking(
        late.lease, "dead", late.through, 3, "late", is_redelivery=False, gap=1, due_at=now, now=now
    )

    with pytest.raises(LeaseLost):
        house.ledger.subscriptions.park(parking, TransactionId(transaction))

    assert house.states() == [DELIVERED]
    assert house.topics() == ["added"]


@case()
async def a_slow_destination_keeps_its_lane_with_the_worker_that_waits_for_it(house: House) -> None:
    house.subscribe()
    await house.bench.hold()
    said = [house.say("a"), house.say("b")]
    first = await house.work()

    async def claimed() -> list[State]:
        return house.states()

    await until(claimed, lambda seen: seen == [CLAIMED, CLAIMED])
    await house.work()
    for _ in range(4):
        house.pass_time(0.5)

        async def ends_at() -> int:
            with house.ledger.store._database.read() as tables:  # type: ignore[attr-defined]
                return int(tables.lanes._all("SELECT until FROM lanes")[0][0])

        await until(ends_at, lambda end: end == house.place.clock.now + LEASE_MS)
    assert {one.owner for one in house.deliveries()} == {first.worker.owner}
    await house.bench.let_go()

    assert await house.ids(2) == said


@case()
async def two_workers_share_the_work_and_repeat_nothing(house: House) -> None:
    house.subscribe()
    said = {room: [house.say(str(number), room) for number in range(8)] for room in ("r1", "r2", "r3", "r4")}
    await house.work()
    await house.work()

    await house.arrived(32)

    for room, ids in said.items():
        assert await house.ids(32, room) == ids
    await house.stands(*[DELIVERED] * 32)


@case()
async def a_worker_that_stops_finishes_what_it_has_begun_and_gives_back_the_rest(house: House) -> None:
    house.subscribe()
    await house.bench.hold()
    said = [house.say("a"), house.say("b")]
    sending = asyncio.Event()

    class Noticed:
        def __init__(self, sink: Sink) -> None:
            self._sink = sink
            self.close = sink.close

        async def send(self, parcel: Parcel) -> Receipt:
            sending.set()
            return await self._sink.send(parcel)

    first = await house.work(lambda one: Noticed(house.bench.sink(one)))
    await sending.wait()

    first.worker.stop()
    await house.bench.let_go()
    await first.task

    assert house.states() == [DELIVERED, PENDING]
    await house.work()
    assert await house.ids(2) == said


@case()
async def a_worker_that_stops_while_it_claims_gives_back_what_it_gets(house: House) -> None:
    house.subscribe()
    await house.bench.hold()
    house.say("a", "r1")
    first = await house.work()
    await house.stands(CLAIMED)
    claiming, go_on = threading.Event(), threading.Event()
    lanes = first.worker.lanes

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(lanes, name)

        def claim(self, *arguments: Any) -> Sequence[Claim]:
            claiming.set()
            go_on.wait(PATIENCE_S)
            return lanes.claim(*arguments)

    first.worker.lanes = cast(Lanes, Late())
    await asyncio.to_thread(claiming.wait, PATIENCE_S)
    await asyncio.to_thread(house.say, "b", "r2")

    first.worker.stop()
    await house.bench.let_go()
    await house.stands(DELIVERED, PENDING)
    go_on.set()
    await first.task

    assert house.states() == [DELIVERED, PENDING]


@case()
async def a_clock_that_is_put_back_stops_nothing(house: House) -> None:
    house.subscribe()
    house.say("a")
    await house.work()
    await house.stands(DELIVERED)
    house.pass_time(7_200)
    await asyncio.to_thread(house.say, "b")
    await house.stands(DELIVERED, DELIVERED)

    house.pass_time(-3_600)
    await asyncio.to_thread(house.say, "c")

    await house.arrived(3)


@case()
async def a_lease_from_a_clock_that_was_put_back_is_not_believed(house: House) -> None:
    house.subscribe()
    house.say("a")
    house.pass_time(3_600)
    claim_by_hand(house)
    house.pass_time(-3_600)

    await house.work()

    await house.arrived(1)


@case()
async def a_destination_that_restarts_misses_nothing(house: House) -> None:
    house.subscribe()
    said = [house.say("a")]
    await house.work()
    await house.arrived(1)

    await house.bench.restart()
    said.append(await asyncio.to_thread(house.say, "b"))

    async def look() -> list[str]:
        house.pass_time(6)
        return list(dict.fromkeys(one.id for one in await house.bench.received()))

    assert await until(look, lambda seen: len(seen) == 2) == said


@case()
async def a_service_that_restarts_goes_on_where_it_was(house: House) -> None:
    house.subscribe()
    said = [house.say("a")]
    first = await house.work()
    await house.stands(DELIVERED)
    await first.stop()
    said.append(house.say("b"))

    await house.work()

    assert await house.ids(2) == said
