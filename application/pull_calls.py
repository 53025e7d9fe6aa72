"""What pulls a room in, said in values: the calls to make, their bounds, and what they cost or bring."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from domain.aggregate import Kind
from domain.backoff import LIST_LANE, session_of
from domain.event import Event
from domain.ids import RoomId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often rooms are pulled, and how much at once."""

    tick_s: float = 5.0
    """Each room is listed once in this time."""
    pages_max: int = 10
    """Pages of one session that one round reads at most."""
    calls_per_host_max: int = 16
    calls_per_room_max: int = 4
    """So that a slow room leaves the host's other rooms a way."""
    spreads: bool = True
    """Whether rooms have places of their own in the tick; otherwise all are due with it."""
    skips_quiet: bool = True
    """Whether sessions that cannot have news are skipped (SPEC P3)."""
    recovery_share: float = 1.25
    """While a host's rooms catch up behind an outage, it gets so many times its usual calls at most."""
    recovery_calls_min: int = 20
    """A host may always have so many calls in a second, however few its rooms are."""
    recovery_max_s: float = 600.0
    """Whoever has not caught up by then goes on without that bound."""


SERVICE_PACE: Final = Pace()
SEED_PACE: Final = Pace(spreads=False, skips_quiet=False, recovery_max_s=0.0, calls_per_host_max=1_000)
"""As the ancestor pulls: all rooms at once with each tick, and every session (SPEC B2)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that is due: a room's list call, or the reading of one session's messages."""

    room: RoomId
    host: str
    lane: str
    pages_max: int = 1
    """How many pages to read at most, one after the other."""
    is_probe: bool = False
    """Whether it has to be claimed first, because the host's breaker is open (SPEC B7)."""
    probe: int = 0
    """The number of the claim."""

    @property
    def session(self) -> SessionId | None:
        """Whose messages are read; None for the list call."""
        return session_of(self.lane)

    @property
    def is_list(self) -> bool:
        """Whether it is the room's list call."""
        return self.lane == LIST_LANE


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now."""

    calls: Sequence[Call]
    wake_at: int | None
    """When to ask again at the latest, Unix ms; None: when something was told to the schedule."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as a room's list tells of it, as far as it decides whether it is read."""

    session: SessionId
    updated_at: int
    """The remote's time, only to compare; 0: not said."""
    is_live: bool
    """Whether its status is working or waiting."""


@dataclass(frozen=True, slots=True)
class Step:
    """A rule to ask of an aggregate as it stands in the store; it may decide that nothing happened."""

    kind: Kind[Any]
    key: str
    rule: Callable[[Any], Sequence[Event]]
