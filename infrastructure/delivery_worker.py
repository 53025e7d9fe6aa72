"""The delivery worker as a worker of a service: started and stopped with it, and begun anew when it fails."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

import structlog

from infrastructure.worker import DeliveryWorker

AGAIN_S: Final = 5.0
"""After how long a worker is begun anew that could not go on, such as without its store."""

log = structlog.get_logger("reprise.deliveries")


class Deliveries:
    """Delivers for as long as a service runs."""

    name = "deliveries"

    def __init__(self, make: Callable[[], DeliveryWorker]) -> None:
        self._make = make
        self._worker: DeliveryWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Begin; returns at once."""
        self._began_at = monotonic()
        self._task = asyncio.create_task(self._run(), name="reprise-deliveries")

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._worker = self._make()
            try:
                await self._worker.run()
            except Exception as error:
                log.exception("deliveries_failed", error=f"{type(error).__name__}: {error}")
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._stopping.wait()

    async def stop(self) -> None:
        """Claim nothing new, finish what was begun, give back the rest; may be called again.

        Who is cancelled while it waits takes the worker along.
        """
        self._stopping.set()
        if self._worker is not None:
            self._worker.stop()
        if self._task is not None:
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError:
                self._task.cancel()
                raise

    def beat_age_s(self) -> float | None:
        """Seconds since it last looked for work; None when it was not started."""
        if self._task is None:
            return None
        return monotonic() - max(self._began_at, self._worker.beat_at if self._worker else 0.0)
