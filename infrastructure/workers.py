"""What works in the background of a service, and how it shows that it does."""

from collections.abc import Callable, Sequence
from typing import Protocol

from infrastructure.asynchronous import AsyncLedger
from infrastructure.configuration import Settings
from infrastructure.delivery_worker import Deliveries
from infrastructure.main import SystemClock, delivery_worker, sinks, surroundings
from infrastructure.metrics import Metrics
from infrastructure.pull_worker import PullWorker


class Worker(Protocol):
    """Something that runs beside the requests; it has a thread or a task of its own."""

    name: str

    async def start(self) -> None:
        """Begin; returns at once."""

    async def stop(self) -> None:
        """Take nothing new, finish or give back what is under way, and return within a few seconds.

        May be called again, also when it was never started.
        """

    def beat_age_s(self) -> float | None:
        """Seconds since it last showed that it works; None when it has not yet."""


MakeWorkers = Callable[[AsyncLedger, Settings, Metrics], Sequence[Worker]]


def workers_of(ledger: AsyncLedger, settings: Settings, metrics: Metrics) -> Sequence[Worker]:
    """Every worker that a service runs, in the order in which they are started."""
    around = surroundings(ledger.blocking, settings)
    return (
        Deliveries(lambda: delivery_worker(ledger.blocking, sinks(around), told=metrics.attempted)),
        PullWorker(ledger, SystemClock(), metrics.pulled),
    )
