"""How everything is at a glance: sessions, commits, and who waits for what."""

from collections import Counter
from typing import Final

from application.ledger import Ledger
from application.ports import Deliveries
from application.views import View

SESSIONS_MAX: Final = 10_000
"""Sessions that are counted, the ones that changed last first."""
PENDING_MAX: Final = 1_000
"""Deltas that are counted for a subscription; more are told as this many."""


class SubscriptionLag(View):
    """How far a subscription is behind."""

    name: str
    pending: int
    lag_seconds: float
    """Age of the oldest delta that it has not had; 0 when it has had all."""


class StatusView(View):
    """One screen."""

    sessions: dict[str, int]
    """How many sessions are in which status; of the SESSIONS_MAX that changed last."""
    position: int
    """Of the last commit."""
    kept_behind: int
    subscriptions: tuple[SubscriptionLag, ...]

    def behind(self, lag_seconds_max: float) -> list[str]:
        """The subscriptions that are further behind than they may be."""
        return [one.name for one in self.subscriptions if one.lag_seconds > lag_seconds_max]


def status_of(ledger: Ledger) -> StatusView:
    """How things are now."""
    extent, now = ledger.store.extent(), ledger.clock.now_ms()
    statuses = Counter(summary.status for summary in ledger.sessions(limit=SESSIONS_MAX))
    deliveries = ledger.delivery.deliveries
    return StatusView(
        sessions=dict(sorted(statuses.items())),
        position=extent.end,
        kept_behind=extent.kept_behind,
        subscriptions=tuple(_lag(deliveries, name, now) for name in deliveries.subscriptions()),
    )


def _lag(deliveries: Deliveries, name: str, now: int) -> SubscriptionLag:
    pending = deliveries.pending(name, limit=PENDING_MAX)
    oldest = pending[0].recorded_at if pending else now
    return SubscriptionLag(name=name, pending=len(pending), lag_seconds=max(0, now - oldest) / 1_000)
