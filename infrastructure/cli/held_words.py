"""The events of waits, breakers and tracked rooms in words."""

from domain import backoff, breaker, tracked_room
from domain.event import Event
from infrastructure.cli.text import shown, when


def held_words(event: Event) -> str:
    """What happened, without the reason that it may give as content; blank for events of other kinds."""
    match event:
        case backoff.Delayed():
            return f"{lane(event.lane)} waits until {when(event.until)} ({_kind(event.kind, event.status)})"
        case backoff.Refused():
            return (
                f"{lane(event.lane)} was refused, {event.count} in a row ({_kind(event.kind, event.status)})"
            )
        case backoff.Parked():
            return f"{lane(event.lane)} is parked, and tried again {when(event.next_probe)}"
        case backoff.Cleared():
            return f"{lane(event.lane)} works again, because: {shown(event.by)}"
        case backoff.Paused():
            return f"{lane(event.lane)} was paused"
        case backoff.Resumed():
            return f"{lane(event.lane)} was resumed"
        case breaker.BreakerOpened():
            return f"the host is down ({_kind(event.kind, event.status)}): a probe at {when(event.until)}"
        case breaker.ProbeStarted():
            return f"probe {event.probe} began, for room {shown(event.room)}"
        case breaker.ProbeFailed():
            return f"a probe failed ({_kind(event.kind, event.status)}): the next at {when(event.until)}"
        case breaker.BreakerClosed():
            return f"the host answers again ({event.by}): its rooms come back until {when(event.ramp_until)}"
        case _:
            return _room_words(event)


def _room_words(event: Event) -> str:
    match event:
        case tracked_room.Tracked():
            return f"pulled from {shown(event.url)}"
        case tracked_room.RemoteChanged():
            return f"pulled from {shown(event.url)} from now on"
        case tracked_room.Untracked():
            return "pulled no more"
        case tracked_room.SessionHidden():
            return f"session {shown(event.session)} is pulled no more"
        case tracked_room.SessionUnhidden():
            return f"session {shown(event.session)} is pulled again"
        case _:
            return ""


def lane(name: str) -> str:
    """A lane for people."""
    if name == backoff.EVERY_LANE:
        return "every lane"
    session = backoff.session_of(name)
    return f"session {shown(session)}" if session is not None else shown(name)


def _kind(kind: str, status: int) -> str:
    return f"{kind} {status}" if status else kind
