"""A room's waits, the aggregate: one wait per lane, in one stream per room (SPEC B1).

A lane is the room's list call or the messages of one session. Only transitions are events: a lane that works
has no wait and leaves no trace (SPEC B8). Texts are content, so the state is folded from facts alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeVar, assert_never

from domain.aggregate import Kind
from domain.backoff_policy import BackoffPolicy, has_ended
from domain.chance import chance
from domain.event import Event
from domain.ids import RoomId, SessionId

V = TypeVar("V")

LIST_LANE: Final = "list"
"""The call that lists a room's sessions."""
_MESSAGES: Final = "messages:"

EVERY_LANE: Final = ""
"""In place of a lane: all of the room's."""


def messages_lane(session: SessionId) -> str:
    """The lane of a session's messages."""
    return _MESSAGES + session


def session_of(lane: str) -> SessionId | None:
    """The session whose messages a lane reads; None for the list call."""
    return SessionId(lane.removeprefix(_MESSAGES)) if lane.startswith(_MESSAGES) else None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a call brought nothing, as far as waits depend on it."""

    kind: str
    """A word such as `status`, `timeout`, `transport`, `malformed` or `canceled`."""
    retryable: bool
    """Whether the same call may succeed by itself later (SPEC B3)."""
    reason: str = ""
    """For a person."""
    status: int = 0
    """The HTTP status, 0 without an answer."""
    retry_after_s: float | None = None

    @property
    def is_canceled(self) -> bool:
        """Whether we gave up ourselves, which says nothing about the remote."""
        return self.kind == "canceled"


# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed(Event):
    """A lane has to wait after a failure. Content: `reason`."""

    TOPIC: ClassVar[str] = "backoff.delayed"
    lane: str
    kind: str
    status: int = 0
    step_s: float
    retry_after_s: float = 0.0
    jitter_s: float = 0.0
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """A lane got an answer that another try does not change, and is not parked yet. Content: `reason`."""

    TOPIC: ClassVar[str] = "backoff.refused"
    lane: str
    kind: str
    status: int = 0
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked(Event):
    """A lane rests until somebody changes something; it is tried now and then. Content: `reason`."""

    TOPIC: ClassVar[str] = "backoff.parked"
    lane: str
    kind: str
    status: int = 0
    count: int
    next_probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared(Event):
    """A lane's wait is over and its escalation starts over."""

    TOPIC: ClassVar[str] = "backoff.cleared"
    lane: str
    by: str
    """success, progress, operator, host or untracked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """Somebody stopped a lane."""

    TOPIC: ClassVar[str] = "backoff.paused"
    lane: str = EVERY_LANE


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """Somebody let a lane go on; a resumed room has no paused lane left."""

    TOPIC: ClassVar[str] = "backoff.resumed"
    lane: str = EVERY_LANE


BackoffEvent = Delayed | Refused | Parked | Cleared | Paused | Resumed


# State.


@dataclass(frozen=True, slots=True)
class Wait:
    """What failures have cost a lane since it worked last."""

    version: int
    """Stream version of the event that set it."""
    kind: str
    status: int
    since: int
    """When the first of these failures was recorded."""
    began: int
    until: int
    """When the lane may be tried again."""
    step_s: float = 0.0
    failures: int = 0
    """Retryable ones."""
    refusals: int = 0
    is_parked: bool = False


@dataclass(frozen=True, slots=True)
class RoomBackoff:
    """When a room's lanes may be tried again. A lane that works has no wait."""

    room: RoomId
    version: int = 0
    waits: Mapping[str, Wait] = field(default_factory=dict)
    pauses: Mapping[str, int] = field(default_factory=dict)
    """Paused lanes, with the stream version of the event that paused each."""

    def is_paused(self, lane: str) -> bool:
        """Whether somebody stopped the lane, or the whole room."""
        return EVERY_LANE in self.pauses or lane in self.pauses

    def allows(self, lane: str, now: int) -> bool:
        """Whether the lane may be tried; true from the very instant at which its wait ends (SPEC B2)."""
        if self.pauses and self.is_paused(lane):
            return False
        wait = self.waits.get(lane)
        return wait is None or has_ended(wait.began, wait.until, now)

    def due_at(self, lane: str, now: int) -> int | None:
        """The instant from which the lane may be tried, `now` if at once; None while it is paused."""
        if self.pauses and self.is_paused(lane):
            return None
        wait = self.waits.get(lane)
        return now if wait is None or has_ended(wait.began, wait.until, now) else wait.until


def evolve(room: RoomBackoff, event: BackoffEvent, at: int) -> RoomBackoff:
    """Fold the next event of the stream, recorded at `at` ms."""
    version = room.version + 1
    waits, pauses = room.waits, room.pauses
    match event:
        case Delayed() | Refused() | Parked():
            waits = {**waits, event.lane: _waiting(waits.get(event.lane), event, version, at)}
        case Cleared():
            waits = _without(waits, event.lane)
        case Paused():
            pauses = {**pauses, event.lane: version}
        case Resumed():
            pauses = {} if event.lane == EVERY_LANE else _without(pauses, event.lane)
        case _:
            assert_never(event)
    return replace(room, version=version, waits=waits, pauses=pauses)


def _waiting(last: Wait | None, event: Delayed | Refused | Parked, version: int, at: int) -> Wait:
    """A lane's wait after one more failure."""
    wait = replace(
        last or Wait(version, event.kind, event.status, since=at, began=at, until=at),
        version=version,
        kind=event.kind,
        status=event.status,
        began=at,
    )
    match event:
        case Delayed():
            failures = wait.failures + 1
            return replace(wait, until=event.until, step_s=event.step_s, failures=failures, is_parked=False)
        case Refused():
            return replace(wait, until=at, refusals=event.count)
        case Parked():
            return replace(wait, until=event.next_probe, refusals=event.count, is_parked=True)
        case _:
            assert_never(event)


def _without(given: Mapping[str, V], lane: str) -> Mapping[str, V]:
    return {name: value for name, value in given.items() if name != lane}


BACKOFF: Final = Kind("backoff", lambda room: RoomBackoff(RoomId(room)), evolve)


# Decisions.


def fail(
    room: RoomBackoff,
    lane: str,
    trouble: Trouble,
    policy: BackoffPolicy,
    now: int,
    *,
    seed: str = "",
    has_progressed: bool = False,
) -> tuple[BackoffEvent, ...]:
    """What a failed call costs its lane.

    `has_progressed` says that the round stored something before it failed, which is not punished (SPEC B4).
    `seed` feeds the jitter, which is another one for each room, lane and try. A call that we gave up
    ourselves costs nothing (SPEC B3).
    """
    if trouble.is_canceled:
        return ()
    last = room.waits.get(lane)
    forgiven: tuple[BackoffEvent, ...] = ()
    if last and has_progressed and policy.forgives_progress:
        forgiven, last = (Cleared(lane=lane, by="progress"),), None
    rests = last is not None and last.is_parked and policy.refusals_max > 0
    if rests or not trouble.retryable:
        return (*forgiven, *_refuse(lane, last, trouble, policy, now))
    return (*forgiven, *_delay(room.room, lane, last, trouble, policy, now, seed))


def _delay(
    room: RoomId,
    lane: str,
    last: Wait | None,
    trouble: Trouble,
    policy: BackoffPolicy,
    now: int,
    seed: str,
) -> tuple[BackoffEvent, ...]:
    """One step further, or no further when the failure is a second one within the same wait.

    Two processes may fail at once; that is one failure of the remote. A longer Retry-After still counts.
    """
    step_s = policy.next(last.step_s if last else 0.0)
    failures = last.failures if last else 0
    if last and failures and not has_ended(last.began, last.until, now):
        if now + policy.heeded(trouble.retry_after_s) * 1_000 <= last.until:
            return ()
        step_s = last.step_s
    delay = policy.delay(step_s, trouble.retry_after_s, chance(seed, room, lane, str(failures)))
    delayed = Delayed(
        lane=lane,
        kind=trouble.kind,
        status=trouble.status,
        step_s=step_s,
        retry_after_s=delay.retry_after_s,
        jitter_s=delay.jitter_s,
        until=delay.until(now),
        content=_told(trouble),
    )
    return (delayed,)


def _refuse(
    lane: str, last: Wait | None, trouble: Trouble, policy: BackoffPolicy, now: int
) -> tuple[BackoffEvent, ...]:
    """Counts answers that another try does not change, and parks the lane when they are many (SPEC B5).

    They are counted until the lane works again; what is merely down in between does not prove them wrong.
    """
    if not policy.refusals_max or (last and last.is_parked and not has_ended(last.began, last.until, now)):
        return ()
    count = (last.refusals if last else 0) + (0 if trouble.retryable else 1)
    kind, status, content = trouble.kind, trouble.status, _told(trouble)
    if count < policy.refusals_max and not (last and last.is_parked):
        return (Refused(lane=lane, kind=kind, status=status, count=count, content=content),)
    rest_s = max(policy.parked_s, policy.heeded(trouble.retry_after_s))
    next_probe = now + round(rest_s * 1_000)
    return (Parked(lane=lane, kind=kind, status=status, count=count, next_probe=next_probe, content=content),)


def _told(trouble: Trouble) -> dict[str, str] | None:
    return {"reason": trouble.reason} if trouble.reason else None


def succeed(room: RoomBackoff, lane: str) -> tuple[BackoffEvent, ...]:
    """The lane works; that is news only after a failure (SPEC B4, B8)."""
    return _clear(room, (lane,), "success")


def reset(room: RoomBackoff, lane: str = EVERY_LANE, by: str = "operator") -> tuple[BackoffEvent, ...]:
    """Somebody wants the lane, or every lane, to be tried now. Pauses stay."""
    return _clear(room, room.waits if lane == EVERY_LANE else (lane,), by)


def host_recovered(room: RoomBackoff, since: int, closed_at: int) -> tuple[BackoffEvent, ...]:
    """The host answers again: what its outage cost in between is taken back (SPEC B7).

    Waits that began before or after it and parked lanes are matters of the room itself.
    """
    charged = [
        lane
        for lane, wait in room.waits.items()
        if since <= wait.since and wait.began <= closed_at and not wait.is_parked
    ]
    return _clear(room, charged, "host")


def _clear(room: RoomBackoff, lanes: Iterable[str], by: str) -> tuple[BackoffEvent, ...]:
    return tuple(Cleared(lane=lane, by=by) for lane in lanes if lane in room.waits)


def pause(room: RoomBackoff, lane: str = EVERY_LANE) -> tuple[BackoffEvent, ...]:
    """Somebody stops the lane, or every lane."""
    return () if lane in room.pauses else (Paused(lane=lane),)


def resume(room: RoomBackoff, lane: str = EVERY_LANE) -> tuple[BackoffEvent, ...]:
    """Somebody lets the lane go on, or all that was paused. Waits stay."""
    is_news = bool(room.pauses) if lane == EVERY_LANE else lane in room.pauses
    return (Resumed(lane=lane),) if is_news else ()
