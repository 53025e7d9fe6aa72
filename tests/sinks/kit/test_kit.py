"""What every sink does with a worker before it and a store behind: the same cases for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from application.lanes import Choice, Claim, Mark, Parking, Release, State, Want
from application.sinks import Parcel, Receipt, Sink
from domain.errors import LeaseLost, Rejected
from domain.ids import Position, TransactionId
from domain.subscription import Added, Filter
from infrastructure import crashpoints
from tests.sinks.kit.bench import RETRY_AFTER_S, Fault
from tests.sinks.kit.conftest import Kit
from tests.sinks.kit.house import LEASE_MS, NAME, House, until
from tests.sinks.kit.recording import RecordingBench

PENDING, CLAIMED, WAITING = State.PENDING, State.CLAIMED, State.WAITING
DELIVERED, PARKED, SKIPPED = State.DELIVERED, State.PARKED, State.SKIPPED
Case = Callable[[House], Awaitable[None]]
CASES: dict[str, tuple[Case, frozenset[Fault]]] = {}


def case(*needs: Fault) -> Callable[[Case], Case]:
    """A case of the kit, and what its destination must be able to do."""

    def add(told: Case) -> Case:
        CASES[told.__name__] = (told, frozenset(needs))
        return told

    return add


def claim_by_hand(house: House, owner: str = "dead", lanes: int = 10) -> list[Claim]:
    """Claim what is due, as a worker that will not go on."""
    want = Want(NAME, Position(0), Filter(), lanes)
    now = house.place.clock.now
    return list(house.ledger.store.lanes.claim([want], owner, now, now + LEASE_MS))


# Arriving.


@case()
async def every_delta_arrives_whole(house: House) -> None:
    house.subscribe()
    said = [house.say("a"), house.say("b", "r2"), house.say("c")]
    await house.work()

    arrived = await house.arrived(3)

    assert {one.id: one.body for one in arrived} == {
        delta.transaction_id: delta.delta for delta in house.ledger.deltas()
    }
    assert sorted(said) == sorted(one.id for one in arrived)
    await house.stands(DELIVERED, DELIVERED, DELIVERED)


@case()
async def a_room_arrives_in_its_order(house: House) -> None:
    house.subscribe()
    said = {
        room: [house.say(f"{room} {number}", room) for number in range(12)] for room in ("r1", "r2", "r3")
    }
    await house.work()

    await house.arrived(36)

    for room, ids in said.items():
        assert await house.ids(36, room) == ids


@case()
async def what_is_committed_while_it_works_arrives_too(house: House) -> None:
    house.subscribe()
    await house.work()
    said = []
    for number in range(5):
        said.append(await asyncio.to_thread(house.say, str(number)))
        assert await house.ids(number + 1) == said


@case()
async def nothing_before_its_beginning_arrives(house: House) -> None:
    house.say("a")
    house.subscribe(after=None)
    second = house.say("b")
    await house.work()

    assert await house.ids(1) == [second]
    await house.stands(DELIVERED)


@case()
async def a_filter_on_rooms_keeps_the_others_away(house: House) -> None:
    house.subscribe(rooms=("r2",))
    house.say("a", "r1")
    said = [house.say("b", "r2"), house.say("c", "r2")]
    await house.work()

    assert await house.ids(2) == said
    await house.stands(DELIVERED, DELIVERED)


@case()
async def a_filter_on_entities_takes_a_delta_whole_or_not_at_all(house: House) -> None:
    house.subscribe(entity_kinds=("turn",))
    house.say("no turn")
    body = {"state": {"title": "both", "turn": {"turnId": "t1", "phase": "running"}}}
    both = house.ledger.report_state(body, room="r1", session="s").delta
    assert both is not None
    house.say("none again")
    await house.work()

    (arrived,) = await house.arrived(1)

    assert {one.entity_kind for one in arrived.body.mutations} == {"session", "turn"}
    assert arrived.body == both.delta
    await house.stands(DELIVERED)


@case()
async def a_delta_with_a_thousand_mutations_arrives_whole(house: House) -> None:
    house.subscribe()
    updates = [
        {"messageId": f"m-{number}", "role": "system", "kind": "session_audit", "payload": {"text": "x"}}
        for number in range(1_000)
    ]
    delta = house.ledger.report_messages({"updates": updates}, room="r1", session="s").delta
    assert delta is not None
    await house.work()

    (arrived,) = await house.arrived(1)

    assert arrived.body == delta.delta
    assert len(arrived.body.mutations) >= 1_000


@case()
async def names_from_everywhere_arrive_as_they_are(house: House) -> None:
    house.subscribe()
    names = ["a b.*>", 'quote" % \\', "Grüße 日本 🎈", "line\u2028break", "x" * 400, "a/../b?c#d"]
    for name in names:
        house.say("x", name, f"s {name}")
    await house.work()

    arrived = await house.arrived(len(names))

    assert sorted(one.room for one in arrived) == sorted(names)
    assert {one.body.mutations[0].agent_session_id for one in arrived} == {f"s {name}" for name in names}


# Failing and waiting.


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


# Refusing.


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


# Dying, being late, being slow.


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


# Operators.


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


@pytest.mark.parametrize("name", CASES)
def test_sink(kit: Kit, name: str) -> None:
    """The case of this name, told by the function of this name."""
    told, needs = CASES[name]

    async def run() -> None:
        async with kit.house() as house:
            if not needs <= house.bench.faults:
                pytest.skip(
                    f"{kit.sink} cannot be told to be {', '.join(sorted(needs - house.bench.faults))}"
                )
            await told(house)

    asyncio.run(run())


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30
