"""The worker beside a service: it begins, beats, survives its store's troubles, and ends cleanly."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from application.lanes import State
from application.ledger import Ledger
from application.sinks import Parcel, Receipt
from domain.errors import StoreBusy
from domain.subscription import Added, Subscription
from infrastructure.delivery_worker import Deliveries
from infrastructure.main import delivery_worker, open_ledger
from infrastructure.worker import DeliveryWorker
from tests.sinks.kit.house import until
from tests.sinks.kit.recording import RecordingBench, RecordingSink

NAME = "crm"


def say(ledger: Ledger, title: str, room: str = "r") -> str:
    return str(ledger.report_state({"state": {"title": title}}, room=room, session="s").transaction_id)


def subscribe(ledger: Ledger, kind: str = "test") -> None:
    ledger.subscriptions.add(Added(name=NAME, kind=kind, from_position=0), after=0)


def run(story: Callable[[Ledger, RecordingBench], Awaitable[None]], path: Path) -> None:
    async def told() -> None:
        with open_ledger(f"sqlite:///{path / 'store.db'}") as ledger:
            await story(ledger, RecordingBench())

    asyncio.run(told())


async def arrived(bench: RecordingBench, count: int) -> list[str]:
    return [one.id for one in await until(bench.received, lambda seen: len(seen) == count)]


def test_it_begins_beats_and_ends(tmp_path: Path) -> None:
    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        subscribe(ledger)
        said = [say(ledger, "a")]
        deliveries = Deliveries(lambda: delivery_worker(ledger, bench.sink))
        assert deliveries.beat_age_s() is None
        await deliveries.stop()
        deliveries = Deliveries(lambda: delivery_worker(ledger, bench.sink))
        await deliveries.start()
        assert await arrived(bench, 1) == said
        age_s = deliveries.beat_age_s()
        assert age_s is not None
        assert age_s < 60
        await deliveries.stop()
        await deliveries.stop()
        assert [one.state for one in ledger.subscriptions.list(NAME)] == [State.DELIVERED]

    run(story, tmp_path)


def test_a_store_that_is_busy_for_a_while_delays_and_ends_nothing(tmp_path: Path) -> None:
    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        subscribe(ledger)
        said = [say(ledger, "a"), say(ledger, "b")]
        troubles = 2
        lanes = ledger.store.lanes
        settle = lanes.settle

        def troubled(*arguments: Any) -> Any:
            nonlocal troubles
            if troubles:
                troubles -= 1
                raise StoreBusy("somebody else has it")
            return settle(*arguments)

        lanes.settle = troubled  # type: ignore[method-assign,assignment]
        worker = delivery_worker(ledger, bench.sink)
        task = asyncio.create_task(worker.run())
        await arrived(bench, 2)

        async def states() -> list[State]:
            return [one.state for one in ledger.subscriptions.list(NAME)]

        await until(states, lambda seen: seen == [State.DELIVERED, State.DELIVERED])
        assert await arrived(bench, 2) == said
        worker.stop()
        await task

    run(story, tmp_path)


def test_a_worker_that_fails_is_begun_anew(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("infrastructure.delivery_worker.AGAIN_S", 0.01)

    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        subscribe(ledger)
        said = [say(ledger, "a")]
        made: list[DeliveryWorker] = []

        def make() -> DeliveryWorker:
            worker = delivery_worker(ledger, bench.sink)
            made.append(worker)
            if len(made) == 1:
                worker.watch = lambda: 1 / 0  # type: ignore[assignment,return-value]
            return worker

        deliveries = Deliveries(make)
        await deliveries.start()
        assert await arrived(bench, 1) == said
        await deliveries.stop()
        assert len(made) == 2

    run(story, tmp_path)


def test_a_kind_that_nobody_serves_here_stays_pending(tmp_path: Path) -> None:
    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        subscribe(ledger, "carrier pigeon")
        ledger.subscriptions.add(Added(name="served", kind="test", from_position=0), after=0)
        say(ledger, "a")

        def sink_of(subscription: Subscription) -> RecordingSink | None:
            return bench.sink(subscription) if subscription.kind == "test" else None

        worker = delivery_worker(ledger, sink_of)
        task = asyncio.create_task(worker.run())
        await arrived(bench, 1)
        worker.stop()
        await task
        assert [one.state for one in ledger.subscriptions.list(NAME)] == [State.PENDING]

    run(story, tmp_path)


def test_a_sink_that_raises_has_failed(tmp_path: Path) -> None:
    """A sink never raises for what its destination does; one that does is a mistake, and loses nothing."""

    class Mistaken(RecordingSink):
        async def send(self, parcel: Parcel) -> Receipt:
            raise ZeroDivisionError

    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        subscribe(ledger)
        say(ledger, "a")
        worker = delivery_worker(ledger, lambda _: Mistaken(bench))
        task = asyncio.create_task(worker.run())

        async def errors() -> list[str]:
            return [one.error for one in ledger.subscriptions.list(NAME) if one.state is State.WAITING]

        assert await until(errors, bool) == ["the sink failed: ZeroDivisionError"]
        worker.stop()
        await task

    run(story, tmp_path)


def test_a_subscription_that_is_added_while_it_runs_is_served(tmp_path: Path) -> None:
    async def story(ledger: Ledger, bench: RecordingBench) -> None:
        worker = delivery_worker(ledger, bench.sink)
        task = asyncio.create_task(worker.run())
        said = [await asyncio.to_thread(say, ledger, "a")]
        await asyncio.to_thread(subscribe, ledger)
        assert await arrived(bench, 1) == said
        worker.stop()
        await task

    run(story, tmp_path)
