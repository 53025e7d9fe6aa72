"""What happened to a subscription, in words."""

from typing import assert_never

from domain.subscription import (
    Added,
    Chosen,
    Disabled,
    Paused,
    RedeliveryRequested,
    Removed,
    Resumed,
    RowParked,
    SecretRotated,
    Skipped,
    SubscriptionEvent,
)
from infrastructure.text import counted, shown, when


def subscription_words(event: SubscriptionEvent) -> str:
    """What happened, on one line that a terminal can take."""
    match event:
        case Added():
            return f"a {shown(event.kind)} was added {shown(event.target)}"
        case Paused():
            return f"paused {shown(event.reason)}"
        case Resumed():
            return f"resumed {shown(event.reason)}"
        case Disabled():
            return f"disabled: {shown(event.reason) or 'the destination is gone'}"
        case SecretRotated():
            both = (
                f", and with the old one until {when(event.previous_until)}" if event.previous_until else ""
            )
            return f"signs with a new secret{both}"
        case RowParked():
            tried = counted(event.attempts, "attempt")
            return f"gave up {shown(event.transaction)} after {tried}: {shown(event.reason)}"
        case Skipped():
            return f"somebody skipped {_chosen(event)}"
        case RedeliveryRequested():
            return f"somebody wants {_chosen(event)} delivered again"
        case Removed():
            return "removed"
        case _:
            assert_never(event)


def _chosen(event: Chosen) -> str:
    room = f" of {shown(event.room)}" if event.room else ""
    since = f" since {when(event.since)}" if event.since else ""
    return counted(event.count, "delta") + room + since
