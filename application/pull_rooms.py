"""What a pulling process remembers of rooms and hosts between calls; it may be lost at any time."""

from collections import deque
from dataclasses import dataclass, field

from application.pull_calls import Listed, Pace
from domain.backoff import LIST_LANE, RoomBackoff, messages_lane
from domain.breaker import HostBreaker, Suspicion
from domain.chance import chance
from domain.ids import RoomId, SessionId
from domain.tracked_room import TrackedRoom

SECOND_MS = 1_000
WINDOW_MS = 200
"""Where calls are bounded by time, no window of this length has more than its part of a second's calls."""
NEVER = 2**63
"""Later than any instant."""


@dataclass(slots=True)
class Reading:
    """How far one session is read, as far as it decides whether it is read again."""

    updated_at: int = 0
    is_live: bool = False
    seen_at: int | None = None
    """What `updated_at` was when the last complete reading began; None without one."""
    begun_at: int = 0
    """What it was when the reading at work began."""
    completed_at: int = 0
    """When it was read completely last, by our clock."""
    wanted_at: int = NEVER
    """Since when it is to be read."""

    def can_have_news(self) -> bool:
        """Whether a call may bring something: only a complete reading of the same state rules it out (P3)."""
        return self.is_live or not self.updated_at or self.seen_at != self.updated_at


@dataclass(slots=True)
class RoomPulls:
    """One tracked room: when it is listed, what of it is read, what is being called."""

    tracked: TrackedRoom
    host: str
    backoff: RoomBackoff
    list_due: int
    is_listed: bool = False
    """Whether its last list call worked; its sessions are read only then."""
    listed_at: int = 0
    is_triggered: bool = False
    """Whether somebody asked for a list call while one was at work."""
    readings: dict[SessionId, Reading] = field(default_factory=dict)
    at_work: set[str] = field(default_factory=set)
    """The lanes with a call that has not ended."""
    alarm_at: int = NEVER
    """When the schedule looks at it next if nothing happens."""

    @property
    def room(self) -> RoomId:
        """Which room it is."""
        return self.tracked.room

    def list_seen(self, sessions: list[Listed], now: int, pace: Pace) -> None:
        """Take in a list: whatever can have news is to be read, whatever is not in it is not."""
        known, self.readings = self.readings, {}
        for listed in sessions:
            if listed.session in self.tracked.hidden:
                continue
            reading = known.get(listed.session) or Reading()
            reading.updated_at, reading.is_live = listed.updated_at, listed.is_live
            self.readings[listed.session] = reading
            if not pace.skips_quiet or reading.can_have_news():
                reading.wanted_at = min(reading.wanted_at, now)
        self.is_listed, self.listed_at = True, now

    def due(self, breaker: HostBreaker, now: int) -> list[tuple[int, str]]:
        """The lanes that may be called from now on or later, each with the instant."""
        place = 0 if breaker.allows(self.room, now) else breaker.place_of(self.room)
        lanes = [(self.list_due, LIST_LANE)]
        if self.is_listed:
            lanes += [
                (reading.wanted_at, messages_lane(session))
                for session, reading in self.readings.items()
                if reading.wanted_at != NEVER
            ]
        found = []
        for wanted_at, lane in lanes:
            free_at = self.backoff.due_at(lane, now)
            if free_at is not None and lane not in self.at_work:
                found.append((max(wanted_at, place, free_at if free_at > now else 0), lane))
        return found

    def is_behind(self, since: int) -> bool:
        """Whether something of it has not been pulled since then."""
        return self.listed_at < since or any(
            reading.wanted_at != NEVER and reading.completed_at < since for reading in self.readings.values()
        )

    def live_sessions(self) -> int:
        """How many of its sessions are read in every tick."""
        return sum(reading.is_live for reading in self.readings.values())


@dataclass(slots=True)
class HostPulls:
    """One host: whether it may be called, and how many calls it has been given lately."""

    breaker: HostBreaker
    suspicion: Suspicion = field(default_factory=Suspicion)
    at_work: int = 0
    caught_up: int = 0
    """Version of the breaker's last closing behind which all rooms have caught up."""
    begun: deque[int] = field(default_factory=deque)
    """When the calls of the last window began."""

    def begin(self, now: int) -> None:
        """One more call."""
        self.at_work += 1
        self.calls_lately(now)
        self.begun.append(now)

    def calls_lately(self, now: int) -> int:
        """How many calls have begun within a window before now."""
        while self.begun and not now - WINDOW_MS < self.begun[0] <= now:
            self.begun.popleft()
        return len(self.begun)


def first_turn(room: RoomId, pace: Pace, after: int) -> int:
    """The first instant from `after` on at which the room is listed; each room has its place in the tick."""
    tick = round(pace.tick_s * SECOND_MS)
    place = int(chance("tick", room) * tick) if pace.spreads else 0
    return after + (place - after) % tick
