"""What the service counts and measures, as Prometheus reads it.

Every name begins with `reprise_`, in base units. A label never holds a room, a session or a user, since
those are private and without number.
"""

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    exposition,
    generate_latest,
)

from application.status import Backlog

CONTENT_TYPE: Final = exposition.CONTENT_TYPE_PLAIN_0_0_4
QUICK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Metrics:
    """The metrics of one service; each service has a registry of its own."""

    def __init__(self, store: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # twice the lines, and nobody asks
        own = self.registry = CollectorRegistry()
        self._appended = Counter(
            "reprise_events_appended", "Events that were stored.", ("aggregate", "event_type"), registry=own
        )
        self._append_seconds = Histogram(
            "reprise_append_duration_seconds",
            "From the store's lock to its commit.",
            buckets=QUICK_S,
            registry=own,
        )
        self._position = Gauge(
            "reprise_commit_position", "The last position this process has seen.", registry=own
        )
        self._requests = Counter(
            "reprise_http_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=own,
        )
        self._request_seconds = Histogram(
            "reprise_http_request_duration_seconds",
            "From a request's head to the end of its answer; without streams.",
            ("route",),
            buckets=QUICK_S,
            registry=own,
        )
        self._pending = Gauge(
            "reprise_outbox_pending",
            "Deltas that a subscription has not had.",
            ("subscription",),
            registry=own,
        )
        self._oldest = Gauge(
            "reprise_outbox_oldest_age_seconds",
            "Age of the oldest of them; 0 when there is none.",
            ("subscription",),
            registry=own,
        )
        self._parked = Gauge(
            "reprise_deliveries_parked", "Deltas that were given up.", ("subscription",), registry=own
        )
        self._attempts = Counter(
            "reprise_deliveries",
            "Attempts to deliver: delivered, failed, or failed for the last time and parked.",
            ("subscription", "outcome"),
            registry=own,
        )
        self._attempt_seconds = Histogram(
            "reprise_delivery_duration_seconds",
            "From a parcel's sending to its receipt.",
            ("subscription",),
            buckets=QUICK_S,
            registry=own,
        )
        self._pulls = Counter(
            "reprise_sync_requests", "Calls to hosts that rooms are pulled from.", ("outcome",), registry=own
        )
        self._waits = Gauge(
            "reprise_backoff_rooms", "Rooms of which lanes do not go on.", ("state",), registry=own
        )
        self._hosts_down = Gauge(
            "reprise_backoff_hosts", "Hosts that are called for probes alone.", registry=own
        )
        self._clients = Gauge("reprise_sse_clients", "Streams that are open.", registry=own)
        build = Gauge(
            "reprise_build_info", "What runs; always 1.", ("version", "python", "store"), registry=own
        )
        build.labels(version("reprise"), platform.python_version(), store).set(1)

    def appended(self, events: Mapping[tuple[str, str], int], seconds: float) -> None:
        """A group of commits: how many events of which aggregate and topic, and how long it took."""
        for labels, count in events.items():
            self._appended.labels(*labels).inc(count)
        self._append_seconds.observe(seconds)

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request; `route` is the address's pattern, blank for one that nothing serves."""
        route = route or "none"
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        if seconds is not None:
            self._request_seconds.labels(route).observe(seconds)

    def seen(self, position: int) -> None:
        """The end of the store, whoever wrote it."""
        self._position.set(position)

    def attempted(self, subscription: str, outcome: str, seconds: float) -> None:
        """An attempt to deliver."""
        self._attempts.labels(subscription, outcome).inc()
        self._attempt_seconds.labels(subscription).observe(seconds)

    def pulled(self, outcome: str) -> None:
        """A call to a host that rooms are pulled from: `ok`, or the kind of its failure."""
        self._pulls.labels(outcome).inc()

    def waiting(self, backlog: Backlog) -> None:
        """What waits at the moment, in this store and whichever process serves it."""
        for gauge in (self._pending, self._oldest, self._parked, self._waits):
            gauge.clear()
        for one in backlog.subscriptions:
            self._pending.labels(one.name).set(one.pending)
            self._oldest.labels(one.name).set(one.lag_seconds)
            self._parked.labels(one.name).set(one.parked)
        for state, rooms in backlog.waits.items():
            self._waits.labels(state).set(rooms)
        self._hosts_down.set(backlog.hosts_down)

    def count_clients(self, clients: Callable[[], int]) -> None:
        self._clients.set_function(clients)

    def text(self) -> bytes:
        """The page that is scraped."""
        return generate_latest(self.registry)
