"""What a simulated outage costs: numbers of requests, and how old what was pulled is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.backoff import LIST_LANE, Trouble
from domain.ids import RoomId
from tests.simulation.remote import Fault, Remote, rooms
from tests.simulation.world import MINUTE, SECOND, Profile, Request, World
from tests.store.place import START_MS

REFUSED = Trouble("transport", True, "connection refused")
UNAVAILABLE = Trouble("status", True, "the remote answered 503", 503)
TIMED_OUT = Trouble("timeout", True, "no answer within 10 s")


def per_second(requests: Iterable[Request], start: int, end: int) -> Counter[int]:
    """How many requests there were in each second from an instant up to another."""
    return Counter((one.at - start) // SECOND for one in requests if start <= one.at < end)


@dataclass(frozen=True)
class Outage:
    """What half an hour without the host was like."""

    profile: str
    steady_per_s: float
    """Mean of the minute before."""
    requests: int
    """While the host was down."""
    peak_down: int
    """The busiest second of the outage but for its first one."""
    last_fresh_s: float
    """From the recovery to the first good list of the last room."""
    peak_after: int
    """The busiest second behind the recovery."""
    caught_up_s: float
    """From the recovery until every message that was written by then had been pulled."""

    def row(self) -> str:
        return (
            f"| {self.profile} | {self.steady_per_s:.1f} | {self.requests} | {self.peak_down} "
            f"| {self.last_fresh_s:.1f} | {self.peak_after} ({self.peak_after / self.steady_per_s:.2f}) "
            f"| {self.caught_up_s:.1f} |"
        )


HEADER = (
    "| profile | steady, requests/s | while down | busiest second while down | last room fresh, s "
    "| busiest second after (of steady) | caught up, s |\n| --- | --- | --- | --- | --- | --- | --- |"
)


def outage(
    profile: Profile,
    *,
    seed: str = "tide",
    count: int = 200,
    sessions: int = 5,
    warm_up: int = 2 * MINUTE,
    length: int = 30 * MINUTE,
    after: int = 6 * MINUTE,
    trouble: Trouble = REFUSED,
    latency_ms: int = 20,
) -> tuple[Outage, World]:
    """A host with many rooms is down for a while and comes back."""
    down_at = START_MS + warm_up
    up_at = down_at + length
    fault = Fault(down_at, up_at, trouble, latency_ms)
    world = World(Remote(seed, START_MS, rooms(seed, count, sessions), [fault]), profile, seed)
    world.run(up_at + after)
    asked = world.requests
    steady = [one for one in asked if down_at - MINUTE <= one.at < down_at]
    down = [one for one in asked if down_at <= one.at < up_at]
    fresh = first_good_lists(asked, up_at)
    seconds = per_second(asked, down_at + SECOND, up_at)
    told = Outage(
        profile=profile.name,
        steady_per_s=len(steady) / 60,
        requests=len(down),
        peak_down=max(seconds.values(), default=0),
        last_fresh_s=(max(fresh.values()) - up_at) / SECOND if len(fresh) == count else float("inf"),
        peak_after=busiest_second([one.at for one in asked if one.at >= up_at]),
        caught_up_s=(world.pulled_all_of(up_at) - up_at) / SECOND,
    )
    return told, world


def first_good_lists(requests: Sequence[Request], after: int) -> dict[RoomId, int]:
    """By room, when its first good list from an instant on had come in."""
    found: dict[RoomId, int] = {}
    for one in requests:
        if one.at >= after and one.is_good and one.lane == LIST_LANE:
            found.setdefault(one.room, one.ended_at)
    return found


def busiest_second(times: Sequence[int]) -> int:
    """The most requests in any second, wherever it begins."""
    most, first = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - SECOND:
            first += 1
        most = max(most, last - first + 1)
    return most
