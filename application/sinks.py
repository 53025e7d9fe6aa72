"""What the delivery worker hands over, and what a destination says of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from domain.delta import CommittedDelta


@dataclass(frozen=True, slots=True)
class Parcel:
    """One commit's delta on its way to one subscription."""

    subscription: str
    committed: CommittedDelta
    attempt: int = 1
    """Which try this is, from 1."""
    redelivery: int = 0
    """How often an operator has asked for this delta again; 0 for the first delivery and its retries."""
    gap: int = 0
    """How many deltas of the room were parked or skipped right before this one (SPEC L5)."""


class Trouble(StrEnum):
    """Whose fault a failed delivery is, as far as the destination tells."""

    ENDPOINT = "endpoint"
    """The destination is not well: this delta is tried again by the schedule."""
    MESSAGE = "message"
    """The destination refuses this very delta: it is parked after the third try."""
    GONE = "gone"
    """The destination is no more: the subscription is disabled."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a parcel; without trouble, it has arrived and is durable there."""

    trouble: Trouble | None = None
    reason: str = ""
    """For people: what was answered, without secrets."""
    status: int = 0
    """The destination's own code, such as an HTTP status; 0 when there is none."""
    retry_after_s: float | None = None
    """The earliest time for another try, as the destination wishes it."""


class Sink(Protocol):
    """A destination that is being served. One parcel of a room at a time, rooms side by side."""

    async def send(self, parcel: Parcel) -> Receipt:
        """Hand one parcel over and wait until the destination has it for good.

        Never raises for what the destination does; a cancelled call propagates.
        """

    async def close(self) -> None:
        """Let the destination go."""
