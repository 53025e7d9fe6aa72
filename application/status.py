"""How everything is at a glance: sessions, commits, and who waits for what."""

from collections import Counter
from typing import Final

from application.lanes import Choice, State
from application.ledger import Ledger
from application.rooms import Rooms
from application.views import View
from domain.ids import Position

SESSIONS_MAX: Final = 10_000
"""Sessions that are counted, the ones that changed last first."""
PENDING_MAX: Final = 1_000
"""Deltas that are counted for a subscription; more are told as this many."""
PARKED: Final = Choice(states=frozenset((State.PARKED,)))


class SubscriptionLag(View):
    """How far a subscription is behind."""

    name: str
    pending: int
    lag_seconds: float
    """Age of the oldest delta that it has not had; 0 when it has had all."""
    parked: int
    """Deltas that were given up, until somebody decides."""


class Backlog(View):
    """What waits to be handed on or pulled in."""

    subscriptions: tuple[SubscriptionLag, ...]
    waits: dict[str, int]
    """How many rooms that are pulled in have lanes that are waiting, parked, refused or paused."""
    hosts_down: int
    """Hosts that are called for probes alone."""

    def behind(self, lag_seconds_max: float) -> list[str]:
        """The subscriptions that are further behind than they may be."""
        return [one.name for one in self.subscriptions if one.lag_seconds > lag_seconds_max]


class StatusView(Backlog):
    """One screen."""

    sessions: dict[str, int]
    """How many sessions are in which status; of the SESSIONS_MAX that changed last."""
    position: int
    """Of the last commit."""
    kept_behind: int


def status_of(ledger: Ledger) -> StatusView:
    """How things are now."""
    extent = ledger.store.extent()
    statuses = Counter(summary.status for summary in ledger.sessions(limit=SESSIONS_MAX))
    return StatusView(
        sessions=dict(sorted(statuses.items())),
        position=extent.end,
        kept_behind=extent.kept_behind,
        **dict(backlog_of(ledger)),
    )


def backlog_of(ledger: Ledger) -> Backlog:
    """What waits now."""
    rooms = Rooms(ledger.store, ledger.clock)
    states = Counter(state for _, state in {(lane.room, lane.state) for lane in rooms.held_lanes()})
    served = {held.key for held in ledger.subscriptions.all()}
    return Backlog(
        subscriptions=tuple(
            _lag(ledger, name, is_served=name in served)
            for name in ledger.delivery.deliveries.subscriptions()
        ),
        waits=dict(sorted(states.items())),
        hosts_down=len(rooms.breakers()),
    )


def _lag(ledger: Ledger, name: str, *, is_served: bool) -> SubscriptionLag:
    pending = ledger.delivery.deliveries.pending(name, limit=PENDING_MAX)
    age_ms = ledger.clock.now_ms() - pending[0].recorded_at if pending else 0
    parked = ledger.subscriptions.page(name, PARKED, Position(0), PENDING_MAX) if is_served else ()
    return SubscriptionLag(
        name=name, pending=len(pending), lag_seconds=max(0, age_ms) / 1_000, parked=len(parked)
    )
