"""A session that grows long: what a report, a page, a cold start and a rebuild cost then."""

import subprocess
import sys
from pathlib import Path

from infrastructure.main import open_ledger
from tests.benchmarks.figures import Figure, Table, best_s, timed
from tests.benchmarks.reports import ROOM, fill, report_message, start_turn

MESSAGES = 20_000
TENTH = MESSAGES // 10
EVENTS = 100_000
PAGE_RUNS = 200

COLD = """
import resource, sys, time
from infrastructure.main import open_ledger
from domain.ids import RoomId, SessionId
ledger = open_ledger("sqlite:///" + sys.argv[1])
ledger.sessions("no such room")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
state = ledger.store.state(RoomId("room-1"), SessionId("ses-long"))
taken = time.perf_counter() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(state.version, taken * 1e3, (after - before) / 1024)
"""


def run(table: Table, folder: Path) -> None:
    _appends(table, folder)
    _pages(table, folder)
    _hundred_thousand(table, folder)


def _appends(table: Table, folder: Path) -> None:
    tenths = []
    with open_ledger(f"sqlite:///{folder}/appends.db") as ledger:
        start_turn(ledger, "ses-1")
        for tenth in range(10):
            with timed() as watch:
                for number in range(tenth * TENTH, (tenth + 1) * TENTH):
                    report_message(ledger, "ses-1", number)
            tenths.append(watch)
    ratio = tenths[-1].cpu_s / tenths[0].cpu_s
    beside = f"wall {tenths[-1].wall_s / tenths[0].wall_s:.2f}"
    table.add(
        Figure(
            f"report cost, last tenth of {MESSAGES:,} messages to the first (CPU)",
            f"{ratio:.2f}",
            "<= 1.2",
            ratio <= 1.2,
            beside,
        )
    )


def _pages(table: Table, folder: Path) -> None:
    with open_ledger(f"sqlite:///{folder}/pages.db") as ledger:
        fill(ledger, "ses-small", 200)
        fill(ledger, "ses-large", MESSAGES)
        small = best_s(lambda: ledger.messages(ROOM, "ses-small", after=100, limit=20), PAGE_RUNS)
        large = best_s(lambda: ledger.messages(ROOM, "ses-large", after=MESSAGES // 2, limit=20), PAGE_RUNS)
    beside = f"{large * 1e3:.2f} ms beside {small * 1e3:.2f} ms"
    ratio = large / small
    table.add(
        Figure(
            f"page of 20 in {MESSAGES:,} messages to one in 200",
            f"{ratio:.2f}",
            "<= 1.2",
            ratio <= 1.2,
            beside,
        )
    )


def _hundred_thousand(table: Table, folder: Path) -> None:
    path = folder / "long.db"
    with open_ledger(f"sqlite:///{path}") as ledger, timed() as filled:
        fill(ledger, "ses-long", EVENTS)
    table.add(Figure("batches of 500 messages a commit, filling", f"{EVENTS / filled.wall_s:,.0f}/s"))
    done = subprocess.run([sys.executable, "-c", COLD, str(path)], capture_output=True, text=True, check=True)
    version, milliseconds, megabytes = done.stdout.split()
    what = f"cold load of a session with {int(version):,} events"
    table.add(Figure(what, f"{float(milliseconds):.1f} ms", "<= 30 ms", float(milliseconds) <= 30))
    table.add(Figure(f"{what}, memory", f"{float(megabytes):.1f} MB", "<= 50 MB", float(megabytes) <= 50))
    with open_ledger(f"sqlite:///{path}") as ledger:
        with timed() as rebuilt:
            events = ledger.rebuild()
        rate = events / rebuilt.wall_s
        table.add(Figure("rebuild", f"{rate:,.0f} events/s", ">= 10,000", rate >= 10_000))
        with timed() as verified:
            assert ledger.verify().ok
        table.add(Figure("verify", f"{events / verified.wall_s:,.0f} events/s"))
