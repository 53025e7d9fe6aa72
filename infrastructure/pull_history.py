"""Events of pulled rooms, their waits and their hosts, in words."""

from typing import assert_never

from domain.backoff import BackoffEvent, Cleared, Delayed, Parked, Paused, Refused, Resumed
from domain.breaker import BreakerClosed, BreakerEvent, BreakerOpened, ProbeFailed, ProbeStarted
from domain.tracked_room import RemoteChanged, RoomEvent, SessionHidden, SessionUnhidden, Tracked, Untracked
from infrastructure.text import short, shown, when

PullHistoryEvent = BackoffEvent | BreakerEvent | RoomEvent


def pull_words(event: PullHistoryEvent) -> str:
    """What happened, and why if that is still known."""
    reason = str((event.content or {}).get("reason", ""))
    return " ".join(filter(None, (_words(event), f"because {short(reason, 80)}" if reason else "")))


def _words(event: PullHistoryEvent) -> str:
    match event:
        case Delayed() | Refused() | Parked() | Cleared() | Paused() | Resumed():
            return f"{shown(event.lane) or 'every lane'} {_lane_words(event)}"
        case BreakerOpened() | ProbeFailed():
            return f"{_breaker_words(event)} ({_trouble(event)}); next probe {when(event.until)}"
        case ProbeStarted():
            return f"probe {event.probe} by room {shown(event.room)}"
        case BreakerClosed():
            return f"the host answers again, by {event.by}; rooms come back until {when(event.ramp_until)}"
        case Tracked() | RemoteChanged():
            return f"pulled from {shown(event.url)}"
        case Untracked():
            return "not pulled any more"
        case SessionHidden():
            return f"session {shown(event.session)} is hidden"
        case SessionUnhidden():
            return f"session {shown(event.session)} is pulled again"
        case _:
            assert_never(event)


def _lane_words(event: BackoffEvent) -> str:
    match event:
        case Delayed():
            return f"failed ({_trouble(event)}) and waits until {when(event.until)}"
        case Refused():
            return f"was refused ({_trouble(event)}), {event.count} in a row"
        case Parked():
            return f"is parked ({_trouble(event)}); tried again {when(event.next_probe)}"
        case Cleared():
            return f"does not wait any more, by {event.by}"
        case Paused():
            return "is paused"
        case Resumed():
            return "goes on"
        case _:
            assert_never(event)


def _breaker_words(event: BreakerOpened | ProbeFailed) -> str:
    return "the host is down" if isinstance(event, BreakerOpened) else "the host is still down"


def _trouble(event: Delayed | Refused | Parked | BreakerOpened | ProbeFailed) -> str:
    return f"status {event.status}" if event.status else event.kind
