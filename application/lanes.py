"""What the delivery worker needs of a store: lanes to claim, marks to set, rows for operators to look at.

A lane is one room of one subscription. A row of the outbox has no row of its own for each subscription; its
state there follows from its lane and, where an operator or the schedule took it out of its lane, from the
row that says so (SPEC L3).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from domain.delivery_schedule import Tries
from domain.delta import CommittedDelta
from domain.ids import Position, RoomId, TransactionId
from domain.subscription import Filter

NEVER: Final = 2**62
"""The time, in ms, at which a stopped lane is due."""


class State(StrEnum):
    """What has become of a delta for one subscription."""

    PENDING = "pending"
    """Nobody is at work on it; a worker that asks for lanes gets it."""
    CLAIMED = "claimed"
    """A worker has its lane."""
    WAITING = "waiting"
    """It, or a delta before it in its room, is tried again later."""
    DELIVERED = "delivered"
    PARKED = "parked"
    """It was given up, until an operator decides."""
    SKIPPED = "skipped"
    """An operator wants it left out."""


UNFINISHED: Final = frozenset((State.PENDING, State.CLAIMED, State.WAITING))


@dataclass(frozen=True, slots=True)
class Want:
    """A subscription for which a worker has hands free."""

    name: str
    after: Position
    """It wants nothing up to here."""
    filter: Filter
    lanes: int
    """How many lanes it can take on."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to deliver a lane, until somebody else gets it; a token is given once per lane."""

    subscription: str
    room: RoomId
    token: int


@dataclass(frozen=True, slots=True)
class Due:
    """A delta that is next in its lane."""

    committed: CommittedDelta
    redelivery: int = 0
    """How often an operator has asked for it again; such a delta stands outside its lane's order."""
    gap: int = 0
    """Deltas right before it that an operator skips."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A lane that a worker got, and the deltas to deliver in this order."""

    lease: Lease
    due: tuple[Due, ...]
    through: Position
    """What of the lane was looked at: up to here nothing but `due` is left."""
    tries: Tries
    gap: int
    """Deltas parked or skipped since the lane's last delivery."""
    gap_after: int = 0
    """Deltas behind the last of `due`, up to `through`, that an operator skips."""
    is_passing: bool = False
    """Among what was looked at, there are deltas that an operator skips."""


@dataclass(frozen=True, slots=True)
class Release:
    """How a lane is given back."""

    due_at: int
    """When it may be claimed again, in ms."""
    tries: Tries = field(default_factory=Tries)
    error: str = ""
    """What the last attempt said; blank when it succeeded."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a worker has come with a lane; without a release it goes on and keeps the lease."""

    lease: Lease
    position: Position = Position(0)
    """Everything of the lane up to here is finished; 0: nothing new."""
    gap: int = 0
    tries: Tries = field(default_factory=Tries)
    redelivered: tuple[Position, ...] = ()
    """Deltas outside the lane's order that were delivered."""
    is_passing: bool = False
    """Up to `position` there were deltas that an operator skips."""
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class Parking:
    """A delta that is given up, and what becomes of its lane."""

    lease: Lease
    owner: str
    position: Position
    attempts: int
    error: str
    is_redelivery: bool
    gap: int
    """Of the lane, with this delta."""
    due_at: int
    """When the lane goes on."""
    now: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which deltas of a subscription an operator means; what is blank excludes nothing."""

    transactions: tuple[TransactionId, ...] = ()
    room: str = ""
    since: int = 0
    """Recorded at this time or later, in ms."""
    states: frozenset[State] = frozenset()


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delta as one subscription has it."""

    subscription: str
    committed: CommittedDelta
    state: State
    attempts: int = 0
    due_at: int = 0
    """When a waiting delta is tried again, in ms."""
    error: str = ""
    redelivery: int = 0
    owner: str = ""
    """The worker that has its lane."""


class LaneWriter(Protocol):
    """What is changed beside the log, in the transaction that stores why."""

    def begin(self, name: str, after: Position) -> None:
        """Keep a subscription's progress from here on, and forget that of an earlier one of its name.

        Raises Trimmed when what it would begin with is no longer kept.
        """

    def end(self, name: str) -> None:
        """Forget a subscription's progress."""

    def park(self, parking: Parking) -> None:
        """Give a delta up; raises LeaseLost when somebody else has the lane."""

    def skip(self, name: str, rows: Sequence["Delivered"], now: int) -> None:
        """Leave deltas out that are unfinished or parked; a worker at work on one loses its lease."""

    def ask(self, name: str, rows: Sequence["Delivered"], now: int) -> None:
        """Let deltas be delivered again, soon; a worker at work on their lanes loses its lease."""


class Lanes(Protocol):
    """Who delivers what, and how far everybody has come. Losing the newest of it costs a repetition only."""

    def claim(self, wants: Sequence[Want], owner: str, now: int, until: int) -> Sequence[Claim]:
        """Get lanes that are due, the ones due longest first; the lease holds until a time in ms."""

    def settle(
        self, marks: Sequence[Mark], owner: str, now: int, until: int, wake: Collection[str] = ()
    ) -> Sequence[Lease]:
        """Set marks; gives the leases that somebody else has got, whose marks changed nothing.

        Lanes that wait since a failure of a subscription to `wake` are due now, once for each wait.
        """

    def mend(self, names: Sequence[str], now: int) -> None:
        """Let lanes be due that wait for a time no clock will show soon, since one was put back."""

    def next_due(self, names: Sequence[str], now: int) -> int | None:
        """When the next lane of these subscriptions is due by itself, in ms; None when none is."""

    def trim(self, recorded_before: int, limit: int) -> int:
        """Remove the oldest deltas, `limit` at the most, that were recorded before a time in ms and that
        every subscription has had, parked or skipped (SPEC O3); how many.
        """

    def deliveries(
        self, name: str, filter_: Filter, choice: Choice, now: int, after: Position, limit: int
    ) -> Sequence[Delivered]:
        """Deltas as a subscription has them, oldest first."""
