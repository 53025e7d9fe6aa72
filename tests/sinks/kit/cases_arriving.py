"""What arrives, and in which order."""

import asyncio

from tests.sinks.kit.cases import DELIVERED, case
from tests.sinks.kit.house import House


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
