"""A room that lives on another host, the aggregate: where it is pulled from, and which sessions are not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, assert_never
from urllib.parse import urlsplit

from domain.aggregate import Kind
from domain.event import Event
from domain.ids import RoomId, SessionId

# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledFrom(Event):
    """What every event says that tells where a room is pulled from."""

    url: str
    """Without the prefix of the routes."""
    token_ref: str = ""
    """Where the token is found, such as the name of an environment variable; never the token."""
    user_id: str = ""
    allows_private: bool = False
    """Whether private addresses may be called for this room (SPEC P9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked(PulledFrom):
    """Somebody wants the room to be pulled in."""

    TOPIC: ClassVar[str] = "room.tracked"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteChanged(PulledFrom):
    """The room is pulled from elsewhere, or as somebody else; all as it is now."""

    TOPIC: ClassVar[str] = "room.remote_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Untracked(Event):
    """Nobody wants the room to be pulled in any more; what was pulled stays."""

    TOPIC: ClassVar[str] = "room.untracked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHidden(Event):
    """Somebody does not want the session to be pulled."""

    TOPIC: ClassVar[str] = "room.session_hidden"
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUnhidden(Event):
    """The session is pulled again, from where it was left."""

    TOPIC: ClassVar[str] = "room.session_unhidden"
    session: SessionId


RoomEvent = Tracked | RemoteChanged | Untracked | SessionHidden | SessionUnhidden


# State.


@dataclass(frozen=True, slots=True)
class TrackedRoom:
    """Where a room is pulled from. What is hidden stays hidden while the room is not tracked."""

    room: RoomId
    version: int = 0
    is_tracked: bool = False
    tracked_version: int = 0
    """Stream version of the event that tracked or untracked it last."""
    url: str = ""
    token_ref: str = ""
    user_id: str = ""
    allows_private: bool = False
    hidden: Mapping[str, int] = field(default_factory=dict)
    """Hidden sessions, with the stream version of the event that hid each."""

    @property
    def host(self) -> str:
        """Whom the room is pulled from, for bounds and breakers: name and port."""
        return host_of(self.url)


def host_of(url: str) -> str:
    """The host that a URL leads to, with its port; the URL itself if it leads nowhere."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return url
    return f"{parts.hostname}:{port}" if parts.hostname else url


def evolve(room: TrackedRoom, event: RoomEvent, at: int) -> TrackedRoom:  # noqa: ARG001 - the form of a fold
    """Fold the next event of the stream."""
    version = room.version + 1
    room = replace(room, version=version)
    match event:
        case Tracked() | RemoteChanged():
            return replace(
                room,
                is_tracked=True,
                tracked_version=version,
                url=event.url,
                token_ref=event.token_ref,
                user_id=event.user_id,
                allows_private=event.allows_private,
            )
        case Untracked():
            return replace(room, is_tracked=False, tracked_version=version)
        case SessionHidden():
            return replace(room, hidden={**room.hidden, event.session: version})
        case SessionUnhidden():
            return replace(
                room, hidden={name: at for name, at in room.hidden.items() if name != event.session}
            )
        case _:
            assert_never(event)


ROOM: Final = Kind("room", lambda room: TrackedRoom(RoomId(room)), evolve)


# Decisions.


def track(
    room: TrackedRoom, url: str, *, token_ref: str = "", user_id: str = "", allows_private: bool = False
) -> tuple[RoomEvent, ...]:
    """Somebody wants the room to be pulled in from there. The same wish again is no news."""
    wanted = (url, token_ref, user_id, allows_private)
    if not room.is_tracked:
        return (Tracked(url=url, token_ref=token_ref, user_id=user_id, allows_private=allows_private),)
    if wanted == (room.url, room.token_ref, room.user_id, room.allows_private):
        return ()
    return (RemoteChanged(url=url, token_ref=token_ref, user_id=user_id, allows_private=allows_private),)


def untrack(room: TrackedRoom) -> tuple[RoomEvent, ...]:
    """Nobody wants the room to be pulled in any more."""
    return (Untracked(),) if room.is_tracked else ()


def hide(room: TrackedRoom, session: SessionId) -> tuple[RoomEvent, ...]:
    """Somebody does not want the session to be pulled."""
    return () if session in room.hidden else (SessionHidden(session=session),)


def unhide(room: TrackedRoom, session: SessionId) -> tuple[RoomEvent, ...]:
    """Somebody wants the session to be pulled again."""
    return (SessionUnhidden(session=session),) if session in room.hidden else ()
