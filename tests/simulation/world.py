"""Drives the schedule of pulls against a remote in time that only this module moves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from application.aggregates import change
from application.pull_calls import SEED_PACE, SERVICE_PACE, Call, Pace, Step
from application.pull_schedule import PullSchedule
from application.pull_waits import claim, learn, settle
from domain.backoff_policy import SEED_POLICY, SERVICE_POLICY, BackoffPolicy
from domain.breaker import SERVICE_BREAKER, BreakerPolicy
from domain.ids import RoomId
from domain.tracked_room import ROOM, track
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from tests.simulation.remote import PAGE, URL, Remote
from tests.store.place import START_MS, Clock

SECOND = 1_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Profile:
    """How a pulling process is set."""

    name: str
    pace: Pace
    waits: BackoffPolicy | None
    breakers: BreakerPolicy | None


SERVICE = Profile("service", SERVICE_PACE, SERVICE_POLICY, SERVICE_BREAKER)
SEED = Profile("seed", SEED_PACE, SEED_POLICY, None)


@dataclass(frozen=True)
class Request:
    """One request that reached the remote."""

    at: int
    room: RoomId
    lane: str
    is_good: bool
    is_probe: bool
    ended_at: int


@dataclass
class World:
    """One pulling process, its store and its remote. Starting again forgets all but the store."""

    remote: Remote
    profile: Profile = SERVICE
    seed: str = "tide"
    clock: Clock = field(default_factory=Clock)
    requests: list[Request] = field(default_factory=list)
    lags: dict[RoomId, list[int]] = field(default_factory=dict)
    """How old each message was when it was pulled, ms."""
    pages: list[tuple[int, int]] = field(default_factory=list)
    """When each page was pulled, and when its first message was written."""

    def __post_init__(self) -> None:
        self.store = EventStore(MemoryDatabase(), self.clock, None, lambda: b"salt" * 8)
        self._cursors: dict[tuple[RoomId, str], int] = {}
        self._ending: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        for room in self.remote.rooms:
            change(self.store, ROOM, room, lambda state: track(state, URL), START_MS)
        self.start()

    @property
    def now(self) -> int:
        return self.clock.now

    def start(self) -> None:
        """A new process begins; calls at work are lost with the old one."""
        self._ending.clear()
        profile = self.profile
        self.schedule = PullSchedule(profile.pace, profile.waits, profile.breakers, self.seed)
        self._settle(learn(self.store, self.schedule, self.now))

    def pulled_all_of(self, until: int) -> int:
        """When the last message that had been written by an instant was pulled."""
        return max(pulled_at for pulled_at, first in self.pages if first <= until)

    def run(self, until: int) -> None:
        """Let time pass up to an instant."""
        while True:
            while self._ending and self._ending[0][0] <= self.now:
                heappop(self._ending)[2]()
            plan = self.schedule.plan(self.now)
            for call in plan.calls:
                self._begin(call)
            ends_at = self._ending[0][0] if self._ending else until
            next_at = min(ends_at, plan.wake_at or until, until)
            if next_at >= until:
                self.clock.now = until
                return
            self.clock.now = max(next_at, self.now + (0 if plan.calls else 1))

    def _begin(self, call: Call) -> None:
        if call.is_probe:
            assert self.profile.breakers
            claimed = claim(self.store, self.schedule, call, self.profile.breakers, self.now)
            if claimed is None:
                return
            call = claimed
        self.schedule.begin(call, self.now)
        self._request(call, pages_left=call.pages_max, has_progressed=False)

    def _request(self, call: Call, pages_left: int, *, has_progressed: bool) -> None:
        """One request of a call; the next page follows its answer."""
        now, remote = self.now, self.remote
        fault = remote.fault(call.room, now)
        ends_at = now + (fault.latency_ms if fault else remote.latency_ms(call.room, now))
        asked = Request(now, call.room, call.lane, fault is None, call.is_probe, ends_at)
        self.requests.append(asked)

        def end() -> None:
            if fault:
                failed = self.schedule.failed(call, fault.trouble, self.now, has_progressed=has_progressed)
                self._settle(failed)
            elif call.is_list:
                self._settle(self.schedule.listed(call, remote.list(call.room, now), self.now))
            elif self._store_page(call, now) and pages_left > 1:
                self._request(call, pages_left - 1, has_progressed=True)
            else:
                has_more = self._has_more(call, now)
                self._settle(self.schedule.read(call, self.now, has_more=has_more))

        heappush(self._ending, (ends_at, next(self._order), end))

    def _store_page(self, call: Call, at: int) -> bool:
        """Take in a page as it was at an instant; whether there is more."""
        assert call.session
        session = self.remote.session(call.room, call.session)
        cursor = self._cursors.get((call.room, call.lane), 0)
        head = session.messages(at, self.remote.start)
        read_to = min(cursor + PAGE, head)
        lags = self.lags.setdefault(call.room, [])
        lags += [
            self.now - session.written_at(number, self.remote.start)
            for number in range(cursor + 1, read_to + 1)
        ]
        self._cursors[call.room, call.lane] = read_to
        self.pages.append((self.now, session.written_at(cursor + 1, self.remote.start)))
        return read_to < head

    def _has_more(self, call: Call, at: int) -> bool:
        assert call.session
        session = self.remote.session(call.room, call.session)
        return self._cursors[call.room, call.lane] < session.messages(at, self.remote.start)

    def _settle(self, steps: Sequence[Step]) -> None:
        settle(self.store, self.schedule, steps, self.now)


def without_breaker(profile: Profile) -> Profile:
    """The same, but that hosts have no breaker."""
    return replace(profile, name=f"{profile.name}, no breaker", breakers=None)
