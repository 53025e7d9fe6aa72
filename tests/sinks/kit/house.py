"""A store, a destination, and workers between them, as the cases of the kit use them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from application.lanes import Choice, Delivered, State
from application.ledger import Ledger
from application.sinks import Sink
from domain.subscription import Added, Subscription
from infrastructure.main import delivery_worker
from infrastructure.worker import DeliveryWorker, Timing
from tests.sinks.kit.bench import Arrival, Bench
from tests.store.place import Place

NAME = "under-test"
STEP_S = 0.005
"""Between two looks at what is waited for."""
PATIENCE_S = 60
"""A case that waits longer has failed."""
LEASE_MS = Timing().lease_ms
T = TypeVar("T")


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """What is seen, once it is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds(seen := await look()):  # noqa: ASYNC110 - what is seen tells nobody
            await asyncio.sleep(STEP_S)
        return seen


@dataclass
class Running:
    """A worker at work."""

    worker: DeliveryWorker
    task: asyncio.Task[None]

    async def stop(self) -> None:
        self.worker.stop()
        await self.task

    async def freeze(self) -> None:
        """End it like a process that is killed: nothing is given back."""
        self.worker._mark = lambda mark: None  # type: ignore[method-assign]
        self.task.cancel()
        await asyncio.wait([self.task])


@dataclass
class House:
    """What a case has at hand. Its clock stands still until the case moves it."""

    place: Place
    bench: Bench
    ledger: Ledger
    running: list[Running] = field(default_factory=list)

    # The world.

    def say(self, title: str, room: str = "r1", session: str = "s") -> str:
        """Report something; its transaction."""
        reply = self.ledger.report_state({"state": {"title": title}}, room=room, session=session)
        return str(reply.transaction_id)

    def pass_time(self, seconds: float) -> None:
        self.place.clock.now += round(seconds * 1_000)

    # The subscription.

    def subscribe(self, name: str = NAME, *, after: int | None = 0, **more: Any) -> None:
        added = Added(name=name, kind=self.bench.kind, target=self.bench.target, from_position=0, **more)
        self.ledger.subscriptions.add(added, after=after)

    # Workers.

    async def work(self, sink_of: Callable[[Subscription], Sink | None] | None = None) -> Running:
        """Let a worker deliver."""
        worker = delivery_worker(self.ledger, sink_of or self._sink_of)
        running = Running(worker, asyncio.create_task(worker.run()))
        self.running.append(running)
        return running

    def _sink_of(self, subscription: Subscription) -> Sink | None:
        return self.bench.sink(subscription) if subscription.kind == self.bench.kind else None

    async def close(self) -> None:
        await self.bench.let_go()
        for running in self.running:
            if not running.task.done():
                await running.stop()
        await self.bench.close()

    # What can be seen.

    async def arrived(self, count: int) -> list[Arrival]:
        """What the destination has, once it is so much."""
        seen = await until(self.bench.received, lambda seen: len(seen) >= count)
        assert len(seen) == count, [one.id for one in seen]
        return list(seen)

    async def ids(self, count: int, room: str = "") -> list[str]:
        return [one.id for one in await self.arrived(count) if room in ("", one.room)]

    def deliveries(self, choice: Choice = Choice(), name: str = NAME) -> list[Delivered]:  # noqa: B008
        return list(self.ledger.subscriptions.list(name, choice))

    def states(self, name: str = NAME) -> list[State]:
        """Of each delta, oldest first."""
        return [one.state for one in self.deliveries(name=name)]

    async def stands(self, *states: State, name: str = NAME) -> list[Delivered]:
        """The deliveries, once their states are these."""

        async def look() -> list[Delivered]:
            return await asyncio.to_thread(lambda: self.deliveries(name=name))

        return await until(look, lambda seen: tuple(one.state for one in seen) == states)

    def topics(self, name: str = NAME) -> list[str]:
        """What happened to the subscription."""
        return [one.topic.removeprefix("subscription.") for one in self.ledger.subscriptions.history(name)]
