"""The pull loop as a worker of a service: started and stopped with it, and begun anew when it fails."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

import structlog

from application.ports import Clock
from application.pull_schedule import service_schedule
from domain.errors import RepriseError
from infrastructure.asynchronous import AsyncLedger
from infrastructure.counted_remote import CountedActivity
from infrastructure.pulls import PullLoop
from infrastructure.remote import HttpRemoteActivity

AGAIN_S: Final = 5.0
"""After how long a loop is begun anew that could not go on, such as without its store."""

log = structlog.get_logger("reprise.pulls")


class PullWorker:
    """Pulls the tracked rooms in for as long as a service runs."""

    name = "pulls"

    def __init__(
        self, ledger: AsyncLedger, clock: Clock, told: Callable[[str], None] = lambda _: None
    ) -> None:
        """`told` hears what became of each call: `ok`, or the kind of its failure."""
        self._ledger = ledger
        self._clock = clock
        self._told = told
        self._loop: PullLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        self._began_at = monotonic()
        self._task = asyncio.create_task(self._run(), name="reprise-pulls")

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._pull()
            except RepriseError as error:
                log.warning("pulls_failed", error=f"{type(error).__name__}: {error}")
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._stopping.wait()

    async def _pull(self) -> None:
        schedule = service_schedule((await self._ledger.store_ids())[-1])
        async with HttpRemoteActivity(self._clock) as activity:
            counted = CountedActivity(activity, self._told)
            self._loop = PullLoop(self._ledger, counted, schedule, self._clock)
            if not self._stopping.is_set():
                await self._loop.run()

    async def stop(self) -> None:
        self._stopping.set()
        if self._loop is not None:
            self._loop.stop()
        if self._task is not None:
            await self._task

    def beat_age_s(self) -> float | None:
        if self._task is None:
            return None
        return monotonic() - max(self._began_at, self._loop.beat_at if self._loop else 0.0)
