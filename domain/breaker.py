"""A host's breaker, the aggregate: when rooms fail together, one call at a time finds out for all (SPEC B7).

Closed, it costs nothing and is no event. Open, nobody calls the host until the wait is over; then one room's
list call, the probe, is made under a claim that two processes cannot both hold. Its failures charge the
breaker and no lane. When it closes, the rooms come back one after the other, along a ramp.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, assert_never

from domain.aggregate import Kind
from domain.backoff import Trouble
from domain.backoff_policy import BackoffPolicy, has_ended
from domain.chance import chance
from domain.event import Event
from domain.ids import RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker opens, and how it closes."""

    probes: BackoffPolicy
    """How the waits between probes grow."""
    probe_max_s: float = 30.0
    """No wait between probes is longer, jitter included, unless the host asks for it by Retry-After."""
    rooms_min: int = 3
    """So many rooms have to fail in a row, with no answer to any room in between."""
    lease_s: float = 60.0
    """How long a probe's claim holds; longer than any call takes, because a killed prober cannot say so."""
    ramp_s: float = 8.0
    """How long it takes until each room of the host is due again."""

    def step(self, last_s: float, trouble: Trouble, drawn: float) -> tuple[float, float]:
        """The next step and the wait for it, in seconds."""
        step_s = self.probes.next(last_s)
        delay = self.probes.delay(step_s, None, drawn)
        return step_s, max(min(delay.total_s, self.probe_max_s), self.probes.heeded(trouble.retry_after_s))


SERVICE_BREAKER: Final = BreakerPolicy(
    probes=BackoffPolicy(initial_s=5.0, maximum_s=25.0, multiplier=2.0, jitter=0.2, retry_after_max_s=3_600.0)
)
"""What the service does: probes after 5, 10, 20, 25, 25 … s, each up to a fifth later."""


def is_of_the_host(trouble: Trouble) -> bool:
    """Whether a failure may be the host's and not the room's: another room may well meet it, too."""
    return trouble.retryable and trouble.kind != "too_large"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Which rooms of a host failed since it answered anybody last. It is no event until it is enough."""

    rooms: frozenset[RoomId] = frozenset()
    since: int = 0
    """When the first of them failed."""

    def failed(self, room: RoomId, now: int) -> "Suspicion":
        """One more failure that may be the host's."""
        return Suspicion(self.rooms | {room}, self.since if self.rooms else now)

    def is_enough(self, policy: BreakerPolicy) -> bool:
        """Whether it is the host's fault."""
        return len(self.rooms) >= policy.rooms_min


# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(Event):
    """A host failed for several rooms in a row. Content: `reason`."""

    TOPIC: ClassVar[str] = "breaker.opened"
    kind: str
    status: int = 0
    since: int
    step_s: float
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStarted(Event):
    """Somebody may make one call, for a room, until the claim ends."""

    TOPIC: ClassVar[str] = "breaker.probe_started"
    probe: int
    """Counts probes for ever, so that a late result is recognised."""
    room: RoomId
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailed(Event):
    """The host does not answer yet. Content: `reason`."""

    TOPIC: ClassVar[str] = "breaker.probe_failed"
    kind: str
    status: int = 0
    step_s: float
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(Event):
    """The host answers; its rooms are due one after the other until the ramp ends."""

    TOPIC: ClassVar[str] = "breaker.closed"
    by: str = "probe"
    """probe or operator."""
    ramp_until: int


BreakerEvent = BreakerOpened | ProbeStarted | ProbeFailed | BreakerClosed


# State.


@dataclass(frozen=True, slots=True)
class Probe:
    """A claim to make the one call."""

    version: int
    """Stream version of the event."""
    number: int
    room: RoomId
    began: int
    until: int


@dataclass(frozen=True, slots=True)
class HostBreaker:
    """Whether a host may be called, and by whom."""

    host: str
    version: int = 0
    is_open: bool = False
    hold_version: int = 0
    """Stream version of the event that holds the rooms: opened, or the last failed probe."""
    since: int = 0
    """When the first failure of the outage was seen."""
    kind: str = ""
    status: int = 0
    step_s: float = 0.0
    began: int = 0
    until: int = 0
    """When the next probe may be made."""
    probes: int = 0
    """All that were ever made."""
    probe: Probe | None = None
    """The one at work."""
    closed_at: int = 0
    closed_version: int = 0
    ramp_until: int = 0

    def allows(self, room: RoomId, now: int) -> bool:
        """Whether the room may call the host by itself; probes are claimed."""
        if self.is_open:
            return False
        is_ramp_over = has_ended(self.closed_at, self.ramp_until, now)
        return is_ramp_over or has_ended(self.closed_at, self.place_of(room), now)

    def place_of(self, room: RoomId) -> int:
        """The instant in the ramp at which a room is due, always the same one for the same ramp."""
        if not self.closed_at:
            return 0
        return self.closed_at + int(
            chance("ramp", self.host, room, str(self.closed_at)) * (self.ramp_until - self.closed_at)
        )

    def may_probe(self, now: int) -> bool:
        """Whether a probe is due and nobody is at one; a claim that was never settled ends by itself."""
        if not self.is_open or not has_ended(self.began, self.until, now):
            return False
        return self.probe is None or has_ended(self.probe.began, self.probe.until, now)

    def probe_due_at(self) -> int:
        """When the next probe may be made, unless the one at work ends earlier."""
        return max(self.until, self.probe.until if self.probe else 0)

    def prober(self, rooms: Sequence[RoomId]) -> RoomId:
        """The room whose list call is the next probe; they take turns, for one may fail by its own fault."""
        return sorted(rooms)[self.probes % len(rooms)]


def evolve(breaker: HostBreaker, event: BreakerEvent, at: int) -> HostBreaker:
    """Fold the next event of the stream, recorded at `at` ms."""
    version = breaker.version + 1
    breaker = replace(breaker, version=version)
    match event:
        case BreakerOpened():
            return replace(
                breaker,
                is_open=True,
                hold_version=version,
                since=event.since,
                kind=event.kind,
                status=event.status,
                step_s=event.step_s,
                began=at,
                until=event.until,
                probe=None,
            )
        case ProbeStarted():
            probe = Probe(version, event.probe, event.room, at, event.until)
            return replace(breaker, probes=event.probe, probe=probe)
        case ProbeFailed():
            return replace(
                breaker,
                hold_version=version,
                kind=event.kind,
                status=event.status,
                step_s=event.step_s,
                began=at,
                until=event.until,
                probe=None,
            )
        case BreakerClosed():
            return replace(
                breaker,
                is_open=False,
                step_s=0.0,
                probe=None,
                closed_at=at,
                closed_version=version,
                ramp_until=event.ramp_until,
            )
        case _:
            assert_never(event)


BREAKER: Final = Kind("breaker", HostBreaker, evolve)


# Decisions.


def open_breaker(
    breaker: HostBreaker, since: int, trouble: Trouble, policy: BreakerPolicy, now: int, *, seed: str = ""
) -> tuple[BreakerEvent, ...]:
    """The host failed for several rooms in a row, first at `since`. Twice is once."""
    if breaker.is_open:
        return ()
    step_s, wait_s = policy.step(0.0, trouble, _drawn(breaker, seed))
    opened = BreakerOpened(
        kind=trouble.kind,
        status=trouble.status,
        since=since,
        step_s=step_s,
        until=_until(now, wait_s),
        content=_told(trouble),
    )
    return (opened,)


def claim_probe(
    breaker: HostBreaker, room: RoomId, policy: BreakerPolicy, now: int
) -> tuple[BreakerEvent, ...]:
    """Asks to make the one call. Whoever gets the event may make it and has to tell how it went.

    A claim is an event in the breaker's own stream, so of two processes one is told no.
    """
    if not breaker.may_probe(now):
        return ()
    return (ProbeStarted(probe=breaker.probes + 1, room=room, until=_until(now, policy.lease_s)),)


def probe_failed(
    breaker: HostBreaker,
    probe: int,
    trouble: Trouble,
    policy: BreakerPolicy,
    now: int,
    *,
    seed: str = "",
) -> tuple[BreakerEvent, ...]:
    """The call failed, and the next one waits longer. A late result changes nothing.

    The wait is counted from the beginning of the probe, so that a host that lets calls hang is not asked
    less often than one that refuses them; yet from its end it is the first step at least.
    A call that we gave up ourselves proves nothing; it counts, so that the claim ends.
    """
    if breaker.probe is None or not _is_current(breaker, probe):
        return ()
    last_s = 0.0 if trouble.is_canceled else breaker.step_s
    step_s, wait_s = policy.step(last_s, trouble, _drawn(breaker, seed))
    began = min(breaker.probe.began, now)  # the clock may have been set back in between
    pause_s = max(policy.probes.next(0.0), policy.probes.heeded(trouble.retry_after_s))
    failed = ProbeFailed(
        kind=trouble.kind,
        status=trouble.status,
        step_s=step_s,
        until=max(_until(began, wait_s), _until(now, pause_s)),
        content=_told(trouble),
    )
    return (failed,)


def probe_answered(
    breaker: HostBreaker, probe: int, policy: BreakerPolicy, now: int
) -> tuple[BreakerEvent, ...]:
    """The host answered, be it with a refusal: its rooms may come back. A late result changes nothing."""
    if not _is_current(breaker, probe):
        return ()
    return (BreakerClosed(ramp_until=_until(now, policy.ramp_s)),)


def close_breaker(breaker: HostBreaker, policy: BreakerPolicy, now: int) -> tuple[BreakerEvent, ...]:
    """Somebody wants the host's rooms to be tried now."""
    return (BreakerClosed(by="operator", ramp_until=_until(now, policy.ramp_s)),) if breaker.is_open else ()


def _is_current(breaker: HostBreaker, probe: int) -> bool:
    return breaker.is_open and breaker.probe is not None and breaker.probe.number == probe


def _drawn(breaker: HostBreaker, seed: str) -> float:
    return chance(seed, breaker.host, str(breaker.version))


def _until(now: int, length_s: float) -> int:
    return now + round(length_s * 1_000)


def _told(trouble: Trouble) -> dict[str, str] | None:
    return {"reason": trouble.reason} if trouble.reason else None
