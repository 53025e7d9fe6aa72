"""Decides which calls to other hosts are due, and what their outcomes mean for waits and breakers.

It calls nobody, waits for nothing and stores nothing: whoever drives it asks for a plan, makes the calls,
tells how each ended, and asks the store for what the answer says. So the same code runs against the world
and against a clock that only a test moves.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import assert_never

from application.pull_calls import SERVICE_PACE, Call, Listed, Pace, Plan, Step
from application.pull_outcomes import NO_STEPS, Outcomes, taken_back
from application.pull_rooms import NEVER, SECOND_MS, WINDOW_MS, HostPulls, Reading, RoomPulls, first_turn
from domain.backoff import LIST_LANE, RoomBackoff, Trouble, session_of
from domain.backoff_policy import CLOCK_SET_BACK_MS, SERVICE_POLICY, BackoffPolicy
from domain.breaker import SERVICE_BREAKER, BreakerPolicy, HostBreaker, Suspicion
from domain.ids import RoomId, SessionId
from domain.tracked_room import TrackedRoom

_Ready = tuple[bool, int, RoomId, str]
"""A due lane: whether it reads messages, since when it is due, room, lane. They take turns in this order."""


def service_schedule(seed: str = "", pace: Pace = SERVICE_PACE) -> "PullSchedule":
    """The schedule as the service has it: waits and breakers are on."""
    return PullSchedule(pace, SERVICE_POLICY, SERVICE_BREAKER, seed)


class PullSchedule:
    """The rooms that one process pulls in. Times are Unix milliseconds, and come from outside."""

    def __init__(
        self,
        pace: Pace = SERVICE_PACE,
        waits: BackoffPolicy | None = None,
        breakers: BreakerPolicy | None = None,
        seed: str = "",
    ) -> None:
        """`waits` None: failures cost nothing, and each tick tries again (SPEC B1).

        `breakers` None: hosts have none. `seed` feeds the jitter.
        """
        self._pace = pace
        self._outcomes = Outcomes(waits, breakers, seed)
        self._rooms: dict[RoomId, RoomPulls] = {}
        self._hosts: dict[str, HostPulls] = {}
        self._planned_at = 0
        self._touched: set[RoomId] = set()
        """Rooms to look at with the next plan, because something was told or left undone."""
        self._alarms: list[tuple[int, RoomId]] = []
        """A heap of instants at which to look at a room; one that is no longer right does no harm."""

    # What the store says.

    def know(self, state: TrackedRoom | RoomBackoff | HostBreaker, now: int) -> Sequence[Step]:
        """How one of the aggregates stands that pulls rest on; what is left to do about it."""
        match state:
            case TrackedRoom():
                self.know_room(state, now)
            case RoomBackoff():
                self.know_backoff(state)
            case HostBreaker():
                return self.know_breaker(state)
            case _:
                assert_never(state)
        return NO_STEPS

    def know_room(self, tracked: TrackedRoom, now: int) -> None:
        """A room as it stands: one that is not tracked any more is forgotten."""
        pulls = self._rooms.get(tracked.room)
        if not tracked.is_tracked:
            self._rooms.pop(tracked.room, None)
            return
        if pulls and pulls.tracked == tracked:
            return
        if pulls is None:
            first = first_turn(tracked.room, self._pace, now)
            pulls = RoomPulls(tracked, tracked.host, RoomBackoff(tracked.room), first)
            self._rooms[tracked.room] = pulls
        elif pulls.tracked.tracked_version != tracked.tracked_version:
            pulls.list_due = now
        pulls.tracked, pulls.host = tracked, tracked.host
        for session in tracked.hidden:
            pulls.readings.pop(SessionId(session), None)
        self._touched.add(tracked.room)

    def know_backoff(self, backoff: RoomBackoff) -> None:
        """A room's waits as they stand."""
        pulls = self._rooms.get(backoff.room)
        if pulls and pulls.backoff.version < backoff.version:
            pulls.backoff = backoff
            self._touched.add(backoff.room)

    def know_breaker(self, breaker: HostBreaker) -> Sequence[Step]:
        """A host's breaker as it stands; once closed, what its outage cost is to be taken back."""
        host = self._host(breaker.host)
        if breaker.version < host.breaker.version:
            return NO_STEPS
        rooms = self._rooms_of(breaker.host)
        if breaker.version > host.breaker.version:
            self._touched.update(pulls.room for pulls in rooms)
        host.breaker = breaker
        if breaker.is_open:
            host.suspicion = Suspicion()
            return NO_STEPS
        return taken_back(breaker, [pulls.backoff for pulls in rooms])

    def trigger(self, room: RoomId, now: int) -> None:
        """Somebody wants the room now. Wishes for one room are one wish, and no wait is cut short (P1)."""
        if pulls := self._rooms.get(room):
            pulls.is_triggered = LIST_LANE in pulls.at_work
            pulls.list_due = min(pulls.list_due, now)
            self._touched.add(room)

    # What is due.

    def plan(self, now: int) -> Plan:
        """The calls to make now, the longest due first, and when to ask again."""
        if now < self._planned_at - CLOCK_SET_BACK_MS:
            self._clock_was_set_back(now)
        self._planned_at = now
        calls: list[Call] = []
        wake_at = NEVER
        for name, ready in self._ready(now).items():
            host = self._hosts[name]
            may = self._probe(host, now) if host.breaker.is_open else self._chosen(host, ready, now)
            calls += may[0]
            wake_at = min(wake_at, may[1])
        if self._alarms:
            wake_at = min(wake_at, self._alarms[0][0])
        return Plan(calls, None if wake_at == NEVER else wake_at)

    def _ready(self, now: int) -> dict[str, list[_Ready]]:
        """By host, the lanes that are due; of all rooms, only those are looked at that may have one."""
        rooms, self._touched = self._touched, set()
        while self._alarms and self._alarms[0][0] <= now:
            room = heappop(self._alarms)[1]
            rooms.add(room)
            if pulls := self._rooms.get(room):
                pulls.alarm_at = NEVER
        found: dict[str, list[_Ready]] = {
            name: [] for name, host in self._hosts.items() if host.breaker.is_open
        }
        for room in rooms:
            pulls = self._rooms.get(room)
            if pulls is None or self._host(pulls.host).breaker.is_open:
                continue
            later = NEVER
            for at, lane in pulls.due(self._host(pulls.host).breaker, now):
                if at <= now:
                    found.setdefault(pulls.host, []).append((lane != LIST_LANE, at, room, lane))
                    self._touched.add(room)
                else:
                    later = min(later, at)
            if later < pulls.alarm_at:
                pulls.alarm_at = later
                heappush(self._alarms, (later, room))
        return found

    def _chosen(self, host: HostPulls, ready: list[_Ready], now: int) -> tuple[list[Call], int]:
        """As many of the lanes that are due as the host's and the rooms' bounds let through."""
        free = self._pace.calls_per_host_max - host.at_work
        again_at = NEVER
        pages_max = self._pace.pages_max
        if (usual := self._recovery_bound(host, len(ready), now)) is not None:
            pages_max = 1
            left = usual - host.calls_lately(now)
            if left < min(free, len(ready)):
                free = left
                again_at = max(host.begun[0] + WINDOW_MS, now + 1) if host.begun else now + 1
        calls: list[Call] = []
        taken: dict[RoomId, int] = {}
        for is_reading, _, room, lane in sorted(ready):
            if len(calls) >= free:
                break
            at_work = len(self._rooms[room].at_work) + taken.get(room, 0)
            if at_work < self._pace.calls_per_room_max:
                taken[room] = taken.get(room, 0) + 1
                calls.append(Call(room, host.breaker.host, lane, pages_max if is_reading else 1))
        return calls, again_at

    def _recovery_bound(self, host: HostPulls, ready: int, now: int) -> int | None:
        """How many calls a window a host gets whose rooms catch up behind an outage; None: as usual.

        Else the host that has just come back would get all that piled up at once. The bound goes when
        nothing is left of the outage and the calls that are due would pass it anyway.
        """
        breaker = host.breaker
        if breaker.closed_version <= host.caught_up:
            return None
        rooms = self._rooms_of(breaker.host)
        usual = sum(1 + pulls.live_sessions() for pulls in rooms) / self._pace.tick_s
        a_second = max(self._pace.recovery_calls_min, usual * self._pace.recovery_share)
        bound = max(1, int(a_second * WINDOW_MS / SECOND_MS))
        is_late = now >= breaker.closed_at + self._pace.recovery_max_s * SECOND_MS
        fits = ready <= bound - host.calls_lately(now)
        is_over = fits and now >= breaker.ramp_until
        if is_late or (is_over and not any(pulls.is_behind(breaker.closed_at) for pulls in rooms)):
            host.caught_up = breaker.closed_version
            return None
        return bound

    def _probe(self, host: HostPulls, now: int) -> tuple[list[Call], int]:
        """The one call that finds out for all rooms of a host, when it is due."""
        breaker = host.breaker
        if not breaker.may_probe(now):
            return [], breaker.probe_due_at()
        rooms = [pulls for pulls in self._rooms_of(breaker.host) if LIST_LANE not in pulls.at_work]
        free = [pulls.room for pulls in rooms if not pulls.backoff.is_paused(LIST_LANE)]
        healthy = [room for room in free if not self._is_parked(room)]
        if not free:
            return [], NEVER
        return [Call(breaker.prober(healthy or free), breaker.host, LIST_LANE, is_probe=True)], NEVER

    def _is_parked(self, room: RoomId) -> bool:
        wait = self._rooms[room].backoff.waits.get(LIST_LANE)
        return wait is not None and wait.is_parked

    # How calls go.

    def begin(self, call: Call, now: int) -> None:
        """The call is made now; a probe only by whoever got the claim."""
        self._host(call.host).begin(now)
        if pulls := self._rooms.get(call.room):
            pulls.at_work.add(call.lane)
            self._touched.add(call.room)
            if call.is_list:
                half = round(self._pace.tick_s * SECOND_MS / 2)
                pulls.list_due = first_turn(call.room, self._pace, now + half)
            elif reading := self._reading(pulls, call):
                reading.begun_at = reading.updated_at

    def listed(self, call: Call, sessions: Iterable[Listed], now: int) -> Sequence[Step]:
        """The list call worked; what it costs no more, and which sessions there are to read."""
        if pulls := self._ended(call, now):
            pulls.list_seen(list(sessions), now, self._pace)
        return self._answered(call, now)

    def read(self, call: Call, now: int, *, has_more: bool = False) -> Sequence[Step]:
        """The session was read as far as the call goes; `has_more`: there are pages left."""
        pulls = self._ended(call, now)
        if pulls and (reading := self._reading(pulls, call)):
            reading.wanted_at = NEVER
            if not has_more:
                reading.seen_at, reading.completed_at = reading.begun_at, now
            elif call.pages_max < self._pace.pages_max:
                reading.seen_at, reading.wanted_at = None, now
            else:
                reading.seen_at = None
        return self._answered(call, now)

    def failed(
        self, call: Call, trouble: Trouble, now: int, *, has_progressed: bool = False
    ) -> Sequence[Step]:
        """The call brought nothing, or no more; `has_progressed`: it had stored a page before."""
        if pulls := self._ended(call, now):
            self._note_failure(pulls, call, now)
        host = self._host(call.host)
        return self._outcomes.failed(call, host, trouble, now, has_progressed=has_progressed)

    def _note_failure(self, pulls: RoomPulls, call: Call, now: int) -> None:
        """A session is tried again with the next list, or a tick later if no list brings it up."""
        if call.is_list:
            pulls.is_listed = False
        elif reading := self._reading(pulls, call):
            reading.seen_at, reading.wanted_at = None, now + round(self._pace.tick_s * SECOND_MS)

    def _ended(self, call: Call, now: int) -> RoomPulls | None:
        host = self._host(call.host)
        host.at_work -= 1
        pulls = self._rooms.get(call.room)
        if pulls is None:
            return None
        pulls.at_work.discard(call.lane)
        self._touched.add(call.room)
        if call.is_list and pulls.is_triggered:
            pulls.is_triggered, pulls.list_due = False, now
        return pulls

    def _answered(self, call: Call, now: int) -> Sequence[Step]:
        pulls = self._rooms.get(call.room)
        backoff = pulls.backoff if pulls else None
        return self._outcomes.answered(call, self._host(call.host), backoff, now)

    # What is remembered.

    def _host(self, name: str) -> HostPulls:
        if name not in self._hosts:
            self._hosts[name] = HostPulls(HostBreaker(name))
        return self._hosts[name]

    def _rooms_of(self, host: str) -> list[RoomPulls]:
        return [pulls for pulls in self._rooms.values() if pulls.host == host]

    def _reading(self, pulls: RoomPulls, call: Call) -> Reading | None:
        session = session_of(call.lane)
        return None if session is None else pulls.readings.get(session)

    def _clock_was_set_back(self, now: int) -> None:
        """What was due at an instant of the old clock would be due in an hour, perhaps."""
        self._alarms.clear()
        for host in self._hosts.values():
            host.begun.clear()
        for pulls in self._rooms.values():
            pulls.list_due = min(pulls.list_due, first_turn(pulls.room, self._pace, now))
            pulls.alarm_at = NEVER
            self._touched.add(pulls.room)
            for reading in pulls.readings.values():
                reading.wanted_at = now if reading.wanted_at != NEVER else NEVER
                reading.completed_at = min(reading.completed_at, now)
