"""Deliveries: how many a second, how soon, and what they cost those who report meanwhile."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from threading import Thread
from uuid import uuid4

from application.lanes import State
from application.ledger import Ledger
from application.sinks import Parcel, Receipt, Trouble
from domain.subscription import Added
from infrastructure.main import delivery_worker, open_ledger
from infrastructure.worker import Timing
from tests.benchmarks.figures import Figure, Table
from tests.benchmarks.many_callers import _has_server
from tests.postgres import SERVER, ask
from tests.store.writer_process import Child, say

NAME = "bench"
DELIVERED = 20_000
BACKLOG = 100_000
ROOMS = 1_000
CALLERS = 64
INGEST_S = 3.0
INGEST_ROUNDS = 4
IDLE = 60
"""Single commits whose way to the sink is measured."""
KILLS = 30


def run(table: Table, folder: Path) -> None:
    _rate(table, "SQLite", f"sqlite:///{folder}/rate.db")
    if _has_server():
        with _schema() as url:
            _rate(table, "PostgreSQL", url)
    _poison(table, folder)
    _killed(table, folder)
    _ingest(table, f"sqlite:///{folder}/ingest.db")


@contextmanager
def _schema() -> Iterator[str]:
    schema = f"bench_{uuid4().hex}"
    try:
        yield f"{SERVER}{'&' if '?' in SERVER else '?'}schema={schema}"
    finally:
        ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


class Recorder:
    """Notes when which parcel came; refuses rooms that a bench poisons."""

    def __init__(self, poisoned: frozenset[str] = frozenset()) -> None:
        self.came: dict[str, float] = {}
        self._poisoned = poisoned

    async def send(self, parcel: Parcel) -> Receipt:
        if parcel.committed.room in self._poisoned:
            return Receipt(Trouble.ENDPOINT, "poisoned", 500)
        self.came[parcel.committed.transaction_id] = time.perf_counter()
        return Receipt()

    async def close(self) -> None:
        """Nothing to let go."""


def _fill(ledger: Ledger, count: int, rooms: int) -> None:
    """Commit so many small reports, as fast as many callers do."""

    def report(caller: int) -> None:
        for number in range(caller, count, CALLERS):
            body = {"state": {"title": f"title {number}"}}
            ledger.report_state(body, room=f"r{number % rooms}", session="s")

    threads = [Thread(target=report, args=(caller,)) for caller in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _subscribe(ledger: Ledger) -> None:
    ledger.subscriptions.add(Added(name=NAME, kind="bench", from_position=0), after=0)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what is looked at tells nobody
        await asyncio.sleep(0.002)


def _rate(table: Table, where: str, url: str) -> None:
    with open_ledger(url) as ledger:
        _fill(ledger, DELIVERED, ROOMS)
        _subscribe(ledger)
        recorder = Recorder()
        worker = delivery_worker(ledger, lambda _: recorder)

        async def drain() -> tuple[float, Sequence[float]]:
            begun = time.perf_counter()
            task = asyncio.create_task(worker.run())
            await _until(lambda: len(recorder.came) == DELIVERED)
            took_s = time.perf_counter() - begun
            await asyncio.sleep(0.5)
            waits = [await _one(ledger, recorder, number) for number in range(IDLE)]
            worker.stop()
            await task
            return took_s, sorted(waits)

        took_s, waits = asyncio.run(drain())
    rate, middle = DELIVERED / took_s, waits[IDLE // 2] * 1e3
    table.add(Figure(f"{where}, deliveries in the process", f"{rate:,.0f}/s", ">= 2,000/s", rate >= 2_000))
    p95 = f"p95 {waits[IDLE * 95 // 100] * 1e3:.1f} ms"
    table.add(
        Figure(f"{where}, commit to sink when idle, p50", f"{middle:.1f} ms", "<= 10 ms", middle <= 10, p95)
    )


async def _one(ledger: Ledger, recorder: Recorder, number: int) -> float:
    """Seconds from the answer of a report to its arrival."""

    def report() -> tuple[str, float]:
        reply = ledger.report_state({"state": {"title": f"idle {number}"}}, room="r0", session="s")
        return str(reply.transaction_id), time.perf_counter()

    transaction, answered = await asyncio.to_thread(report)
    await _until(lambda: transaction in recorder.came)
    await asyncio.sleep(0.02)
    return max(recorder.came[transaction] - answered, 0)


def _poison(table: Table, folder: Path) -> None:
    """Healthy rooms beside poisoned ones, and without them: what their p99 comes to."""
    p99s = {}
    for name, share in (("healthy", 0), ("poisoned", 10)):
        with open_ledger(f"sqlite:///{folder}/{name}.db") as ledger:
            _subscribe(ledger)
            poisoned = frozenset(f"r{room}" for room in range(ROOMS) if share and room % share == 0)
            p99s[name] = asyncio.run(_steady(ledger, Recorder(poisoned), poisoned))
    ratio = p99s["poisoned"] / p99s["healthy"]
    beside = f"p99 {p99s['poisoned'] * 1e3:.0f} ms against {p99s['healthy'] * 1e3:.0f} ms"
    table.add(
        Figure(
            f"{ROOMS:,} rooms, 10 % poisoned, p99 of the others",
            f"{ratio:.2f}",
            "<= 1.5",
            ratio <= 1.5,
            beside,
        )
    )


async def _steady(ledger: Ledger, recorder: Recorder, poisoned: frozenset[str]) -> float:
    """The p99 of the healthy rooms, seconds from answer to arrival, under a steady load."""
    worker = delivery_worker(ledger, lambda _: recorder)
    task = asyncio.create_task(worker.run())
    answered: dict[str, float] = {}

    def report() -> None:
        chance = Random(1)
        for number in range(4_000):
            room = f"r{chance.randrange(ROOMS)}"
            reply = ledger.report_state({"state": {"title": f"{number}"}}, room=room, session="s")
            if room not in poisoned:
                answered[str(reply.transaction_id)] = time.perf_counter()

    await asyncio.to_thread(report)
    await _until(lambda: answered.keys() <= recorder.came.keys())
    worker.stop()
    await task
    waits = sorted(max(recorder.came[one] - at, 0) for one, at in answered.items())
    return waits[len(waits) * 99 // 100]


def _deliver(pipe: Connection, url: str) -> None:
    """Deliver in a process of its own, and say what came."""

    class Telling(Recorder):
        async def send(self, parcel: Parcel) -> Receipt:
            say(pipe, parcel.committed.transaction_id)
            return await super().send(parcel)

    with open_ledger(url) as ledger:
        asyncio.run(delivery_worker(ledger, lambda _: Telling(), Timing(lease_ms=1_000)).run())


def _killed(table: Table, folder: Path) -> None:
    """How soon another worker delivers what a killed one had claimed."""
    url = f"sqlite:///{folder}/killed.db"
    waits: list[float] = []
    with open_ledger(url) as ledger:
        _subscribe(ledger)
        for number in range(KILLS):
            victim = Child(_hold, url)
            victim.lines(1)
            ledger.report_state({"state": {"title": f"title {number}"}}, room="r", session="s")
            victim.lines(1)
            other = Child(_deliver, url)
            victim.kill()
            killed_at = time.perf_counter()
            other.lines(1)
            waits.append(time.perf_counter() - killed_at)
            other.kill()
            _until_delivered(ledger)
    worst = sorted(waits)[KILLS * 99 // 100]
    beside = f"p50 {sorted(waits)[KILLS // 2]:.2f} s"
    table.add(
        Figure("a killed worker's rows with another, p99", f"{worst:.2f} s", "<= 2 s", worst <= 2, beside)
    )


def _hold(pipe: Connection, url: str) -> None:
    """Claim, and never come to an end."""

    class Holding:
        async def send(self, parcel: Parcel) -> Receipt:
            say(pipe, "claimed")
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None:
            """Nothing to let go."""

    with open_ledger(url) as ledger:
        worker = delivery_worker(ledger, lambda _: Holding(), Timing(lease_ms=1_000))

        async def work() -> None:
            task = asyncio.create_task(worker.run())
            await asyncio.sleep(0.2)
            say(pipe, "ready")
            await task

        asyncio.run(work())


def _until_delivered(ledger: Ledger) -> None:
    """Let a third one mark what the second was killed before marking."""
    finisher = delivery_worker(ledger, lambda _: Recorder())

    async def work() -> None:
        task = asyncio.create_task(finisher.run())
        await _until(lambda: all(one.state is State.DELIVERED for one in ledger.subscriptions.list(NAME)))
        finisher.stop()
        await task

    asyncio.run(work())


def _ingest(table: Table, url: str) -> None:
    """Reports a second of many callers, alone and while a worker in their process drains a backlog.

    Both take turns, and see the same disk.
    """
    alone, beside, drained = [], [], 0
    with open_ledger(url) as ledger:
        _fill(ledger, BACKLOG, ROOMS)
        _subscribe(ledger)
        for number in range(INGEST_ROUNDS):
            alone.append(_reports_a_second(ledger, f"alone {number}"))
            recorder = Recorder()
            worker = delivery_worker(ledger, lambda _, recorder=recorder: recorder)  # type: ignore[misc]
            thread = Thread(target=lambda worker=worker: asyncio.run(worker.run()))
            thread.start()
            beside.append(_reports_a_second(ledger, f"beside {number}"))
            drained += len(recorder.came)
            worker._loop.call_soon_threadsafe(worker.stop)
            thread.join()
    share = sum(beside) / sum(alone)
    told = (
        f"{sum(beside) / INGEST_ROUNDS:,.0f}/s against {sum(alone) / INGEST_ROUNDS:,.0f};"
        f" {drained / INGEST_S / INGEST_ROUNDS:,.0f} deliveries/s"
    )
    table.add(
        Figure("ingest while a backlog of 100,000 drains", f"{share:.0%}", ">= 85 %", share >= 0.85, told)
    )


def _reports_a_second(ledger: Ledger, name: str) -> float:
    done = [0] * CALLERS
    end = time.perf_counter() + INGEST_S

    def report(caller: int) -> None:
        while time.perf_counter() < end:
            body = {"state": {"title": f"{name} {done[caller]}"}}
            ledger.report_state(body, room=f"r{caller}", session=f"s-{caller}")
            done[caller] += 1

    threads = [Thread(target=report, args=(caller,)) for caller in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / INGEST_S
