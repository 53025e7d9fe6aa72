"""Why a lane is not called: which events hold it, until when, and what ends it (SPEC B9)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from domain.backoff import BACKOFF, EVERY_LANE, LIST_LANE, RoomBackoff, messages_lane
from domain.backoff_policy import has_ended
from domain.breaker import BREAKER, HostBreaker
from domain.ids import SessionId
from domain.tracked_room import ROOM, TrackedRoom

UNTIL_SOMEBODY_ACTS: Final = 0
"""In place of an instant."""

_REFUSED: Final = "its next turn, if that is answered; refused too often, it is parked"


@dataclass(frozen=True, slots=True)
class Hold:
    """One event that holds a lane."""

    kind: str
    """The kind of aggregate: `room`, `backoff` or `breaker`."""
    key: str
    """Which aggregate: the room, or the host."""
    version: int
    """Stream version of the event; 0 if there is none, as for a room that was never tracked."""
    lane: str
    """The lane that it holds; blank: every lane."""
    why: str
    """untracked, hidden, paused, delayed, refused, parked, open, probing or ramp."""
    until: int
    """Unix ms; 0: until somebody acts."""
    ends: str
    """What ends it, for a person."""


def holds(
    room: TrackedRoom,
    backoff: RoomBackoff,
    breaker: HostBreaker | None,
    now: int,
    session: SessionId | None = None,
) -> tuple[Hold, ...]:
    """All that keeps a room's list call from being made, and a session's messages from being read.

    None: it is called at its next turn. So is a refused lane, which is told because it cannot go on like
    that. Messages are read after the list call only, so what holds that one holds them.
    """
    return (
        *_by_the_room(room, session),
        *_by_pauses(backoff, session),
        *_by_waits(backoff, now, session),
        *(_by_the_host(room, breaker, now) if breaker else ()),
    )


def _lanes(session: SessionId | None) -> tuple[str, ...]:
    return (LIST_LANE,) if session is None else (LIST_LANE, messages_lane(session))


def _by_the_room(room: TrackedRoom, session: SessionId | None) -> Iterator[Hold]:
    if not room.is_tracked:
        yield Hold(
            ROOM.name,
            room.room,
            room.tracked_version,
            EVERY_LANE,
            "untracked",
            UNTIL_SOMEBODY_ACTS,
            "tracking the room",
        )
    if session is not None and session in room.hidden:
        yield Hold(
            ROOM.name,
            room.room,
            room.hidden[session],
            messages_lane(session),
            "hidden",
            UNTIL_SOMEBODY_ACTS,
            "unhiding the session",
        )


def _by_pauses(backoff: RoomBackoff, session: SessionId | None) -> Iterator[Hold]:
    for lane in (EVERY_LANE, *_lanes(session)):
        if lane in backoff.pauses:
            yield Hold(
                BACKOFF.name,
                backoff.room,
                backoff.pauses[lane],
                lane,
                "paused",
                UNTIL_SOMEBODY_ACTS,
                "resuming the lane" if lane else "resuming the room",
            )


def _by_waits(backoff: RoomBackoff, now: int, session: SessionId | None) -> Iterator[Hold]:
    for lane in _lanes(session):
        wait = backoff.waits.get(lane)
        if wait is None:
            continue
        if has_ended(wait.began, wait.until, now):
            if wait.refusals and not wait.is_parked:
                yield Hold(BACKOFF.name, backoff.room, wait.version, lane, "refused", wait.until, _REFUSED)
            continue
        why, ends = (
            ("parked", "a try at that time that is answered, or a reset")
            if wait.is_parked
            else ("delayed", "the time, or a reset")
        )
        yield Hold(BACKOFF.name, backoff.room, wait.version, lane, why, wait.until, ends)


def _by_the_host(room: TrackedRoom, breaker: HostBreaker, now: int) -> Iterator[Hold]:
    def held(version: int, why: str, until: int, ends: str) -> Hold:
        return Hold(BREAKER.name, breaker.host, version, EVERY_LANE, why, until, ends)

    if breaker.is_open:
        probe = breaker.probe
        if probe and not has_ended(probe.began, probe.until, now):
            yield held(probe.version, "probing", probe.until, "the answer to the probe")
        else:
            yield held(breaker.hold_version, "open", breaker.until, "a probe at that time that is answered")
    elif not breaker.allows(room.room, now):
        place = breaker.place_of(room.room)
        yield held(breaker.closed_version, "ramp", place, "the room's place in the ramp")
