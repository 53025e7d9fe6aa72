"""What rooms cost that are well."""

from collections import Counter

from domain.backoff import LIST_LANE
from tests.simulation.remote import Remote, rooms
from tests.simulation.world import MINUTE, SECOND, World
from tests.store.place import START_MS


def quiet() -> World:
    """200 rooms with 5 sessions each that say nothing for ten minutes, known for a minute."""
    world = World(Remote("tide", START_MS, rooms("tide", 200, 5, live=0)))
    world.run(START_MS + MINUTE)
    return world


def test_a_round_with_nothing_new_is_one_list_call_a_room_and_no_event() -> None:
    """B8: Once each session was read completely, and nothing changes."""
    world = quiet()
    before, events = len(world.requests), world.store.verify().events
    world.run(world.now + 5 * SECOND)
    asked = Counter((one.room, one.lane) for one in world.requests[before:])

    lists = [room for (room, lane), count in asked.items() if lane == LIST_LANE and count == 1]
    assert len(lists) == 200
    assert sum(lane != LIST_LANE for _, lane in asked) <= 20, "those that say something once in ten minutes"
    assert world.store.verify().events == events


def test_list_calls_are_spread_over_the_tick() -> None:
    """The busiest half second has not much more than its share."""
    world = quiet()
    before = len(world.requests)
    world.run(world.now + 5 * SECOND)
    halves = Counter(one.at // 500 for one in world.requests[before:] if one.lane == LIST_LANE)

    assert max(halves.values()) <= 35
