"""One caller, one report a commit, full durability: speed, CPU, disk and fsyncs."""

import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from infrastructure.main import open_ledger
from tests.benchmarks.figures import Figure, Table, store_bytes, timed
from tests.benchmarks.reports import TEXT, report_message, start_turn

ROUNDS = 5
REPORTS = 1_000
"""In each round, first of the floor and then of the ledger, so that both see the same disk."""
SIZE_REPORTS = 5_000
FSYNC_REPORTS = 300


def bare(path: Path) -> sqlite3.Connection:
    """SQLite as it comes, with the same durability."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    return db


def run(table: Table, folder: Path) -> None:
    _speed(table, folder)
    _size(table, folder)
    _fsyncs(table, folder)


def _speed(table: Table, folder: Path) -> None:
    db = bare(folder / "bare.db")
    ratios, floors, rates, cpus = [], [], [], []
    with open_ledger(f"sqlite:///{folder}/speed.db") as ledger:
        start_turn(ledger, "ses-1")
        for turn in range(ROUNDS):
            with timed() as floor:
                for _ in range(REPORTS):
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("INSERT INTO messages (body) VALUES (?)", (TEXT,))
                    db.execute("COMMIT")
            with timed() as ours:
                for number in range(turn * REPORTS, (turn + 1) * REPORTS):
                    report_message(ledger, "ses-1", number)
            floors.append(REPORTS / floor.wall_s)
            rates.append(REPORTS / ours.wall_s)
            ratios.append(floor.wall_s / ours.wall_s)
            cpus.append(ours.cpu_s / REPORTS * 1e6)
    db.close()
    ratio, cpu = sorted(ratios)[ROUNDS // 2], sorted(cpus)[ROUNDS // 2]
    beside = f"{max(rates):,.0f}/s beside {max(floors):,.0f}/s"
    table.add(
        Figure("one caller, share of bare sqlite3's rate", f"{ratio:.2f}", ">= 0.45", ratio >= 0.45, beside)
    )
    beside = f"best round {min(cpus):.0f} µs"
    table.add(Figure("CPU a report", f"{cpu:.0f} µs", "<= 300 µs", cpu <= 300, beside))


def _size(table: Table, folder: Path) -> None:
    path = folder / "size.db"
    with open_ledger(f"sqlite:///{path}") as ledger:
        start_turn(ledger, "ses-1")
        for number in range(SIZE_REPORTS):
            report_message(ledger, "ses-1", number)
    kilobytes = store_bytes(path) / SIZE_REPORTS / 1_000
    ok = kilobytes <= 2.6
    table.add(Figure("stored for a message of 1 KB, everything", f"{kilobytes:.2f} KB", "<= 2.6 KB", ok))


def _fsyncs(table: Table, folder: Path) -> None:
    """Counted by strace, where there is one; checkpoints of the log add a few."""
    if not shutil.which("strace"):
        table.add(Figure("fsyncs a commit", "no strace here", "1"))
        return
    script = (
        "from infrastructure.main import open_ledger\n"
        "from tests.benchmarks.reports import report_message, start_turn\n"
        f"ledger = open_ledger('sqlite:///{folder}/fsync.db')\n"
        "start_turn(ledger, 's')\n"
        f"print('begin', flush=True)\n"
        f"for n in range({FSYNC_REPORTS}): report_message(ledger, 's', n)\n"
        "print('end', flush=True)\n"
    )
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync,write", sys.executable, "-c", script]
    trace = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    within = trace[trace.index('write(1, "begin') : trace.index('write(1, "end')]
    syncs = len(re.findall(r"\b(?:fsync|fdatasync)\(", within))
    each = syncs / FSYNC_REPORTS
    table.add(
        Figure(
            "fsyncs a commit",
            f"{each:.2f}",
            "1",
            each <= 1.1,
            f"{syncs} for {FSYNC_REPORTS}, checkpoints too",
        )
    )
