"""What one room's trouble is to other rooms, and what a herd is to a host."""

from dataclasses import replace
from statistics import mean

import pytest

from domain.backoff import BACKOFF, Trouble
from domain.ids import RoomId
from tests.simulation.figures import TIMED_OUT, UNAVAILABLE, per_second
from tests.simulation.remote import Fault, Remote, rooms
from tests.simulation.world import MINUTE, SECOND, SERVICE, World
from tests.store.place import START_MS

pytestmark = pytest.mark.slow

BAD = RoomId("room-007")
GONE = Trouble("status", False, "the remote answered 404", 404)


def lag_ms(*faults: Fault) -> tuple[float, float]:
    """How old messages of the other rooms are when they come in: mean and the worst."""
    world = World(Remote("tide", START_MS, rooms("tide", 200, 5), list(faults)))
    world.run(START_MS + 6 * MINUTE)
    lags = [lag for room, found in world.lags.items() if room != BAD for lag in found]
    assert len(lags) > 14_000
    return mean(lags), max(lags)


@pytest.mark.parametrize(
    ("trouble", "latency_ms"),
    [(UNAVAILABLE, 20), (GONE, 20), (TIMED_OUT, 10_000)],
    ids=["503", "404", "hangs"],
)
def test_one_bad_room_leaves_the_others_as_fresh_as_before(trouble: Trouble, latency_ms: int) -> None:
    """B7: Its waits are its own, and the host is not blamed for it."""
    without = lag_ms()
    beside = lag_ms(Fault(START_MS, START_MS + 6 * MINUTE, trouble, latency_ms, frozenset([BAD])))

    assert beside[0] <= without[0] * 1.05
    assert beside[1] <= without[1] * 1.05


def herd(seed: str) -> World:
    """200 rooms that all fail from the first moment on, for 400 s."""
    fault = Fault(START_MS, START_MS + 400 * SECOND, UNAVAILABLE)
    world = World(Remote(seed, START_MS, rooms(seed, 200, 5), [fault]), seed=seed)
    for room in world.remote.rooms:
        world.schedule.trigger(room, world.now)
    world.run(START_MS + 400 * SECOND)
    return world


def test_e07_two_hundred_rooms_that_fail_at_once() -> None:
    """Case E07: Twenty calls at most in any later second, the same ones for the same seed, and no lane
    earlier than its schedule without jitter; probes are excepted.
    """
    world, again = herd("tide"), herd("tide")
    seconds = per_second(world.requests, START_MS + SECOND, START_MS + 400 * SECOND)

    assert max(seconds.values()) <= 20
    assert world.requests == again.requests
    asked: dict[RoomId, int] = {}
    for one in world.requests:
        if not one.is_probe:
            assert one.at >= asked.get(one.room, 0) + 10 * SECOND
            asked[one.room] = one.at


def test_a_herd_without_a_breaker_is_spread_by_jitter_alone() -> None:
    """B6: For comparison: later waves are wider than the first, and no try comes early."""
    fault = Fault(START_MS, START_MS + 400 * SECOND, UNAVAILABLE)
    profile = replace(SERVICE, breakers=None)
    world = World(Remote("tide", START_MS, rooms("tide", 200, 5), [fault]), profile)
    world.run(START_MS + 400 * SECOND)
    waits = [held.state.waits["list"] for held in world.store.aggregates(BACKOFF)]

    assert len({wait.until for wait in waits}) > 190
    assert all(wait.until - wait.began >= wait.step_s * SECOND for wait in waits)
