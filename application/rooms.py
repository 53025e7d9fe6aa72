"""What people do about rooms that are pulled in: track them, hide sessions, look at waits and end them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from application.aggregates import change
from application.ports import Clock, Store, StoredEvent
from domain import backoff, breaker, tracked_room
from domain.aggregate import Kind
from domain.backoff import BACKOFF, EVERY_LANE, LIST_LANE, RoomBackoff, Wait, messages_lane
from domain.breaker import BREAKER, HostBreaker
from domain.errors import NotFound, Rejected
from domain.event import Event
from domain.holding import Hold, holds
from domain.ids import ID_LENGTH_MAX, RoomId, SessionId
from domain.reports import is_name
from domain.tracked_room import ROOM, TrackedRoom

S = TypeVar("S")

KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (ROOM, BACKOFF, BREAKER)}


@dataclass(frozen=True, slots=True)
class HeldLane:
    """A lane that does not work as it should: it waits, is parked, or was paused."""

    room: RoomId
    lane: str
    """Blank: every lane of the room."""
    wait: Wait | None
    is_paused: bool

    @property
    def state(self) -> str:
        """paused, parked, refused (which holds nothing yet) or waiting."""
        if self.is_paused or self.wait is None:
            return "paused"
        if self.wait.is_parked:
            return "parked"
        return "waiting" if self.wait.until > self.wait.began else "refused"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that holds a room or a session, and the event that says so."""

    hold: Hold
    event: StoredEvent | None
    """None when nothing ever happened, as in a room that was never tracked."""

    @property
    def told(self) -> str:
        """What the event itself gives as its reason."""
        content = self.event.event.content if self.event else None
        return str(content.get("reason", "")) if content else ""


@dataclass(frozen=True)
class Rooms:
    """Rooms that live on other hosts, on one store. `actor` is who asks, for the audit."""

    store: Store
    clock: Clock
    actor: str = ""

    def track(
        self, room: str, url: str, *, token_ref: str = "", user_id: str = "", allows_private: bool = False
    ) -> TrackedRoom:
        """Have a room pulled in from a remote; another one than before begins without waits.

        Raises Rejected for what cannot be a name.
        """
        before = self.room(_named(room))
        tracked = self._change(
            ROOM,
            before.room,
            lambda state: tracked_room.track(
                state, url, token_ref=token_ref, user_id=user_id, allows_private=allows_private
            ),
        )
        if tracked.version > before.version:
            self._change(BACKOFF, tracked.room, backoff.reset)
        return tracked

    def untrack(self, room: str) -> TrackedRoom:
        """Pull a room no more; its lanes end, what was pulled and its cursors stay (SPEC P7)."""
        self._tracked(room)
        untracked = self._change(ROOM, room, tracked_room.untrack)
        self._change(BACKOFF, room, lambda state: backoff.reset(state, by="untracked"))
        return untracked

    def room(self, room: str) -> TrackedRoom:
        """A room as it stands, tracked or not."""
        return self.store.aggregate(ROOM, room).state

    def waits(self, room: str) -> RoomBackoff:
        """A room's waits and pauses as they stand."""
        return self.store.aggregate(BACKOFF, room).state

    def tracked(self) -> Sequence[TrackedRoom]:
        """The rooms that are pulled in, by name."""
        return [held.state for held in self.store.aggregates(ROOM) if held.state.is_tracked]

    def hide(self, room: str, session: str) -> TrackedRoom:
        """Do not pull a session any more, or not begin with it; raises Rejected for what cannot be a name."""
        hidden = SessionId(_named(session))
        return self._change(ROOM, room, lambda state: tracked_room.hide(state, hidden))

    def unhide(self, room: str, session: str) -> TrackedRoom:
        """Pull a session again, from where it was left."""
        return self._change(ROOM, room, lambda state: tracked_room.unhide(state, SessionId(session)))

    def held_lanes(self) -> Sequence[HeldLane]:
        """Every lane that waits or is paused, by room and lane."""
        return [lane for held in self.store.aggregates(BACKOFF) for lane in _held_lanes(held.state)]

    def held_lanes_of(self, room: str) -> Sequence[HeldLane]:
        """The lanes of a room that wait or are paused; raises NotFound when it was never tracked."""
        return _held_lanes(self.waits(self._tracked(room).room))

    def breakers(self) -> Sequence[HostBreaker]:
        """The hosts that are not called at the moment but for probes."""
        return [held.state for held in self.store.aggregates(BREAKER) if held.state.is_open]

    def why(self, room: str, session: str = "") -> Sequence[Reason]:
        """What keeps a room from being listed, or a session from being read; nothing: it is next (B9)."""
        tracked, waits = self.room(room), self.waits(room)
        host = self.store.aggregate(BREAKER, tracked.host).state if tracked.url else None
        found = holds(tracked, waits, host, self.clock.now_ms(), SessionId(session) if session else None)
        return [Reason(hold, self._event(hold)) for hold in found]

    def reset(self, room: str, lane: str = EVERY_LANE, *, if_version: int | None = None) -> int:
        """End the waits of a lane, or of the whole room and its host; how many there were.

        What is meant for another version than the room's waits have raises Outdated.
        """
        tracked = self._tracked(room)
        ended = len(self._waiting(room, lane))
        self._change(BACKOFF, room, lambda state: backoff.reset(state, lane), if_version)
        if lane == EVERY_LANE:
            now = self.clock.now_ms()
            held = self.store.aggregate(BREAKER, tracked.host).state
            ended += held.is_open
            policy = breaker.SERVICE_BREAKER
            self._change(BREAKER, held.host, lambda state: breaker.close_breaker(state, policy, now))
        return ended

    def pause(self, room: str, lane: str = EVERY_LANE, *, if_version: int | None = None) -> RoomBackoff:
        """Do not call a lane, or the whole room, until it is resumed."""
        self._tracked(room)
        return self._change(BACKOFF, room, lambda state: backoff.pause(state, lane), if_version)

    def resume(self, room: str, lane: str = EVERY_LANE, *, if_version: int | None = None) -> RoomBackoff:
        """Call a paused lane again, or all that was paused in the room."""
        self._tracked(room)
        return self._change(BACKOFF, room, lambda state: backoff.resume(state, lane), if_version)

    def _waiting(self, room: str, lane: str) -> Sequence[str]:
        waits = self.waits(room).waits
        return [one for one in waits if lane in (EVERY_LANE, one)]

    def _tracked(self, room: str) -> TrackedRoom:
        """The room; raises NotFound when it was never tracked."""
        held = self.store.aggregate(ROOM, room)
        if not held.state.url:
            raise NotFound(f"room {room} is not tracked; `reprise rooms list` shows those that are")
        return held.state

    def _event(self, hold: Hold) -> StoredEvent | None:
        if not hold.version:
            return None
        return next(self.store.history(KINDS[hold.kind], hold.key, hold.version - 1), None)

    def _change(
        self,
        kind: Kind[S],
        key: str,
        rule: Callable[[S], Sequence[Event]],
        if_version: int | None = None,
    ) -> S:
        now = self.clock.now_ms()
        return change(self.store, kind, key, rule, now, self.actor, if_version=if_version).state


def _named(name: str) -> str:
    """A name of a room or session, trimmed."""
    if not (trimmed := name.strip()) or not is_name(trimmed):
        detail = f"expected a name of 1 to {ID_LENGTH_MAX} characters that every database can keep"
        raise Rejected("invalid_id", "room", "", detail)
    return trimmed


def _held_lanes(state: RoomBackoff) -> Sequence[HeldLane]:
    names = sorted({*state.waits, *state.pauses})
    return [HeldLane(state.room, lane, state.waits.get(lane), lane in state.pauses) for lane in names]


def lane_of(name: str) -> str:
    """The lane that a person means: `list`, `messages:SESSION`, or a session's id; blank: every lane."""
    if name in ("", LIST_LANE) or name.startswith(messages_lane(SessionId(""))):
        return name
    return messages_lane(SessionId(name))
