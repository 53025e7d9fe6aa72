"""Many callers at once, full durability: what sharing a commit gains, on SQLite and on PostgreSQL."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

from application.ledger import Ledger
from infrastructure.main import open_ledger, open_ledger_async
from infrastructure.store.event_store import EventStore
from infrastructure.store.group import BATCH_MAX
from tests.benchmarks.figures import Figure, Stopwatch, Table, best_s, timed
from tests.benchmarks.one_caller import bare
from tests.benchmarks.reports import ROOM, TEXT, fill, report_message, start_turn, update
from tests.postgres import SERVER, ask

CALLERS = 64
EACH = 60
"""Reports of each caller in one round."""
ROUNDS = 3
WRITERS = 8
SESSIONS = 100
EACH_WRITER = 250
FEW, MANY = 1_000, 100_000
LIST_PAGE = 50
REBUILT = 20_000


def run(table: Table, folder: Path) -> None:
    _callers(table, "SQLite", f"sqlite:///{folder}/callers.db", rate=4_000, ratio=2)
    _writers(table, folder)
    if _has_server():
        schema = f"bench_{uuid4().hex}"
        url = f"{SERVER}{'&' if '?' in SERVER else '?'}schema={schema}"
        try:
            _callers(table, "PostgreSQL", url, rate=2_000, ratio=4)
            _rebuild(table, url)
        finally:
            ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    else:
        table.add(Figure("PostgreSQL", "no server here"))
    _sessions(table, folder)


def _has_server() -> bool:
    try:
        ask("SELECT 1")
    except Exception:
        return False
    return True


def _at_once(count: int, work: Callable[[int], object]) -> None:
    """Let so many threads begin at the same moment, and wait for all."""
    start = Barrier(count)

    def go(number: int) -> None:
        start.wait()
        work(number)

    threads = [Thread(target=go, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _batches(ledger: Ledger, size_max: int) -> None:
    store = ledger.store
    assert isinstance(store, EventStore)
    store._group._batch_max = size_max


def _callers(table: Table, where: str, url: str, *, rate: int, ratio: float) -> None:
    """As tasks of one event loop, which is how the service calls, and as threads."""
    tasks = asyncio.run(_tasks(url))
    _tell(table, f"{where}, {CALLERS} tasks", tasks, rate=rate, ratio=ratio)
    _tell(table, f"{where}, {CALLERS} threads", _threads(url))


def _tell(table: Table, who: str, rounds: "_Rounds", *, rate: int = 0, ratio: float = 0) -> None:
    """The figures of callers; without bars there are none."""
    together, alone, gain = rounds.rate(BATCH_MAX), rounds.rate(1), rounds.rate(BATCH_MAX) / rounds.rate(1)
    cpu, wait = _middle(rounds.cpus_us), _middle(rounds.waits_ms)
    for what, measured, bar, ok, beside in (
        (who, f"{together:,.0f}/s", f">= {rate:,}/s", together >= rate, ""),
        (f"{who}, to a commit each", f"{gain:.1f}", f">= {ratio}", gain >= ratio, f"{alone:,.0f}/s"),
        (f"{who}, CPU a report", f"{cpu:.0f} µs", "<= 300 µs", cpu <= 300, ""),
        (f"{who}, 99 of 100 answers within", f"{wait:.0f} ms", "<= 50 ms", wait <= 50, ""),
    ):
        has_bar = rate > 0
        table.add(Figure(what, measured, bar if has_bar else "", ok if has_bar else None, beside))


@dataclass
class _Rounds:
    """Rounds in groups and rounds with a commit for each report take turns, and see the same disk."""

    rates: dict[int, list[float]] = field(default_factory=lambda: {1: [], BATCH_MAX: []})
    cpus_us: list[float] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)

    def took(self, size: int, watch: Stopwatch, waits: Sequence[float]) -> None:
        self.rates[size].append(CALLERS * EACH / watch.wall_s)
        if size != 1:
            self.cpus_us.append(watch.cpu_s / (CALLERS * EACH) * 1e6)
            self.waits_ms.append(sorted(waits)[len(waits) * 99 // 100] * 1e3)

    def rate(self, size: int) -> float:
        return _middle(self.rates[size])


def _middle(measured: Sequence[float]) -> float:
    return sorted(measured)[len(measured) // 2]


def _turns() -> Iterator[tuple[int, int]]:
    """The size of a round's groups, and the number of its first report."""
    for number, size in enumerate((1, BATCH_MAX) * ROUNDS):
        yield size, number * EACH


async def _tasks(url: str) -> _Rounds:
    rounds = _Rounds()
    async with open_ledger_async(url) as ledger:
        for caller in range(CALLERS):
            start_turn(ledger.blocking, f"task-{caller}")
        for size, first in _turns():
            _batches(ledger.blocking, size)
            waits: list[float] = []

            async def report(caller: int, first: int = first, waits: list[float] = waits) -> None:
                for one in range(first, first + EACH):
                    begun = time.perf_counter()
                    body = {"updates": [update(one)]}
                    await ledger.report_messages(body, room=ROOM, session=f"task-{caller}")
                    waits.append(time.perf_counter() - begun)

            with timed() as watch:
                await asyncio.gather(*map(report, range(CALLERS)))
            rounds.took(size, watch, waits)
    return rounds


def _threads(url: str) -> _Rounds:
    rounds = _Rounds()
    with open_ledger(url) as ledger:
        for caller in range(CALLERS):
            start_turn(ledger, f"ses-{caller}")
        for size, first in _turns():
            _batches(ledger, size)
            waits: list[float] = []

            def report(caller: int, first: int = first, waits: list[float] = waits) -> None:
                for one in range(first, first + EACH):
                    begun = time.perf_counter()
                    report_message(ledger, f"ses-{caller}", one)
                    waits.append(time.perf_counter() - begun)

            with timed() as watch:
                _at_once(CALLERS, report)
            rounds.took(size, watch, waits)
    return rounds


def _writers(table: Table, folder: Path) -> None:
    """Eight threads on a hundred sessions, beside eight threads with a connection each."""
    floors, rates = [], []
    plain = folder / "bare8.db"
    bare(plain).close()

    def insert(_: int) -> None:
        with closing(sqlite3.connect(plain, isolation_level=None, timeout=60)) as db:
            db.execute("PRAGMA synchronous = FULL")
            for _ in range(EACH_WRITER):
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO messages (body) VALUES (?)", (TEXT,))
                db.execute("COMMIT")

    with open_ledger(f"sqlite:///{folder}/writers.db") as ledger:
        for session in range(SESSIONS):
            start_turn(ledger, f"ses-{session}")
        for turn in range(ROUNDS):

            def report(writer: int, turn: int = turn) -> None:
                for index in range(EACH_WRITER):
                    number = (turn * WRITERS + writer) * EACH_WRITER + index
                    report_message(ledger, f"ses-{(writer + index * WRITERS) % SESSIONS}", number)

            with timed() as floor:
                _at_once(WRITERS, insert)
            with timed() as ours:
                _at_once(WRITERS, report)
            floors.append(WRITERS * EACH_WRITER / floor.wall_s)
            rates.append(WRITERS * EACH_WRITER / ours.wall_s)
    ratio = sorted(ours / floor for ours, floor in zip(rates, floors, strict=True))[ROUNDS // 2]
    table.add(
        Figure(
            f"{WRITERS} writers, share of bare sqlite3 with as many",
            f"{ratio:.2f}",
            ">= 1.5",
            ratio >= 1.5,
            f"{max(rates):,.0f}/s beside {max(floors):,.0f}/s",
        )
    )


def _rebuild(table: Table, url: str) -> None:
    with open_ledger(url) as ledger:
        fill(ledger, "ses-long", REBUILT)
        with timed() as watch:
            events = ledger.rebuild()
    rate = events / watch.wall_s
    table.add(Figure("PostgreSQL, rebuild", f"{rate:,.0f} events/s", ">= 3,000", rate >= 3_000))


def _sessions(table: Table, folder: Path) -> None:
    """The same three things where there are few sessions and where there are many."""
    taken = {size: _with_sessions(folder / f"{size}.db", size) for size in (FEW, MANY)}
    for what, few in taken[FEW].items():
        many = taken[MANY][what]
        ratio = many / few
        beside = f"{many * 1e6:.0f} µs beside {few * 1e6:.0f} µs"
        table.add(
            Figure(f"{what}, {MANY:,} sessions to {FEW:,}", f"{ratio:.2f}", "<= 1.3", ratio <= 1.3, beside)
        )


def _with_sessions(path: Path, size: int) -> dict[str, float]:
    with open_ledger(f"sqlite:///{path}") as ledger:

        def begin(caller: int) -> None:
            for number in range(caller, size, CALLERS):
                start_turn(ledger, f"ses-{number:06d}")

        _at_once(CALLERS, begin)
        opened = f"ses-{size // 2:06d}"
        number = iter(range(10**9))
        acts: dict[str, Callable[[], Any]] = {
            f"list a page of {LIST_PAGE}": lambda: ledger.sessions("room-1", limit=LIST_PAGE),
            "open one": lambda: ledger.session("room-1", opened),
            "report to one": lambda: report_message(ledger, opened, next(number)),
        }
        return {what: best_s(act, 300) for what, act in acts.items()}
