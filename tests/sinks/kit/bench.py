"""What a sink under test offers to the kit: a destination that can be watched, told to fail, and restarted.

A sink joins the kit by a bench of its own and one line in `tests/sinks/kit/benches.py`. The kit starts
the bench, adds a subscription of its `kind` and `target`, lets a real worker deliver to the sink that `sink`
makes, and asks what has arrived.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from application.sinks import Sink
from domain.delta import CommitDelta
from domain.subscription import Subscription


class Fault(StrEnum):
    """What a destination can be told to do with the next parcels it is handed."""

    UNAVAILABLE = "unavailable"
    """Say that it is not well (503, no ack); nothing is kept."""
    REFUSES = "refuses"
    """Refuse this very message (400); nothing is kept."""
    GONE = "gone"
    """Say that it is no more (410); nothing is kept."""
    LATER = "later"
    """Say that it is not well, and ask to be left alone for `RETRY_AFTER_S` seconds."""
    SILENT = "silent"
    """Keep the parcel and never answer, as when the connection breaks before the answer."""


RETRY_AFTER_S = 120
"""What a destination asks for under LATER."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One parcel as the destination has it for good."""

    id: str
    """The transaction id, the same however often it comes."""
    room: str
    body: CommitDelta
    gap: int = 0
    """What it was told to be missing right before this one; 0 where the destination is not told."""
    redelivery: int = 0
    """Which wanted repetition it is; 0 where the destination is not told."""


class Bench(Protocol):
    """A destination and the sink that leads there."""

    kind: str
    """The subscription's kind."""
    target: str
    """The subscription's target; known once it was started."""
    faults: frozenset[Fault]
    """What it can be told to do; the kit leaves out the cases that need more."""
    tells_gaps: bool
    """Whether `Arrival.gap` means something here."""

    async def start(self) -> None:
        """Open the destination."""

    def sink(self, subscription: Subscription) -> Sink:
        """A new sink to the destination, as the service would make it; several may live at once."""

    async def received(self) -> Sequence[Arrival]:
        """All that has arrived so far, in the order of arrival, repetitions included."""

    async def fail_next(self, fault: Fault, times: int = 1, room: str = "") -> None:
        """Treat the next parcels, of a room or of any, like this; earlier orders stand before it."""

    async def hold(self) -> None:
        """Answer nothing from now on, as a destination that is slow; what arrives is kept."""

    async def let_go(self) -> None:
        """Answer again, first what was held."""

    async def restart(self) -> None:
        """Let the destination go away with all its connections, and come back with what it had."""

    async def close(self) -> None:
        """Take the destination away."""
