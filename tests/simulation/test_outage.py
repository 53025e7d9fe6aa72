"""A host with 200 rooms is down for half an hour, in time that only the test moves."""

from functools import cache
from itertools import pairwise

import pytest

from domain.backoff import BACKOFF
from domain.breaker import BREAKER
from tests.simulation.figures import REFUSED, TIMED_OUT, UNAVAILABLE, Outage, outage
from tests.simulation.remote import HOST
from tests.simulation.world import SEED, SERVICE, World

pytestmark = pytest.mark.slow

FAULTS = {
    "refused": (REFUSED, 20, "tide"),
    "hanging": (TIMED_OUT, 10_000, "ebb"),
    "503": (UNAVAILABLE, 40, "flood"),
}


@cache
def told(fault: str) -> tuple[Outage, World]:
    trouble, latency_ms, seed = FAULTS[fault]
    return outage(SERVICE, trouble=trouble, latency_ms=latency_ms, seed=seed)


@pytest.mark.parametrize("fault", FAULTS)
def test_half_an_hour_costs_150_requests_at_most(fault: str) -> None:
    """B7: 200 rooms with 5 sessions each."""
    assert told(fault)[0].requests <= 150


@pytest.mark.parametrize("fault", FAULTS)
def test_there_are_never_two_probes_at_once(fault: str) -> None:
    """B7: Nor any other request while one is at work, once the calls under way have ended."""
    probes = [one for one in told(fault)[1].requests if one.is_probe]

    assert len(probes) > 50
    assert all(one.ended_at <= next_.at for one, next_ in pairwise(probes))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_last_room_is_fresh_40_seconds_behind_the_recovery_at_most(fault: str) -> None:
    """B7: And what was written meanwhile is there within minutes."""
    assert told(fault)[0].last_fresh_s <= 40
    assert told(fault)[0].caught_up_s <= 180


@pytest.mark.parametrize("fault", FAULTS)
def test_the_host_gets_no_more_than_one_and_a_half_times_its_usual_calls_when_it_comes_back(
    fault: str,
) -> None:
    """B7: In any second, wherever it begins."""
    found = told(fault)[0]

    assert found.peak_after <= 1.5 * found.steady_per_s


@pytest.mark.parametrize("fault", FAULTS)
def test_the_outage_leaves_no_wait_behind(fault: str) -> None:
    """B7, B8: Few events tell it, and none are written once all is well."""
    world = told(fault)[1]
    waits = world.store.aggregates(BACKOFF)
    breaker = world.store.aggregate(BREAKER, HOST)

    assert all(not held.state.waits for held in waits)
    assert sum(held.version for held in waits) <= 8
    assert breaker.version <= 2 * 70 + 2
    last = list(world.store.history(BREAKER, HOST))[-1]
    assert last.topic == "breaker.closed"
    assert world.store.verify().ok


def test_the_same_seed_tells_the_same_story() -> None:
    """Chance comes from the seed alone."""
    first, second, other = (
        outage(SERVICE, seed=seed, count=20, length=120_000, after=60_000)[1].requests
        for seed in ("tide", "tide", "ebb")
    )

    assert first == second != other


def test_the_ancestors_profile_asks_far_more_and_all_at_once() -> None:
    """B2: For comparison, on a tenth of the rooms: every room asks by itself, together with all others."""
    found, _ = outage(SEED, count=20, after=600_000)

    assert found.requests == 20 * 10
    assert found.peak_down == 20
    assert found.peak_after > 2 * found.steady_per_s
