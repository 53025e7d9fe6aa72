"""How soon a follower in another thread has what was committed, and how soon it stops."""

import time
from pathlib import Path
from threading import Thread
from uuid import uuid4

from infrastructure.main import open_ledger
from tests.benchmarks.figures import Figure, Table
from tests.benchmarks.reports import report_message, start_turn
from tests.postgres import SERVER, ask

COMMITS = 200
PAUSE_S = 0.005


def run(table: Table, folder: Path) -> None:
    _follow(table, "SQLite", f"sqlite:///{folder}/followed.db")
    schema = f"bench_{uuid4().hex}"
    try:
        ask("SELECT 1")
    except Exception:
        table.add(Figure("PostgreSQL", "no server here"))
        return
    try:
        _follow(table, "PostgreSQL", f"{SERVER}{'&' if '?' in SERVER else '?'}schema={schema}")
    finally:
        ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def _follow(table: Table, where: str, url: str) -> None:
    """One ledger commits, another one on the same place follows, as two processes would."""
    seen: dict[int, float] = {}
    committed: dict[int, float] = {}
    with open_ledger(url) as writing, open_ledger(url) as reading, reading.follow() as following:

        def follow() -> None:
            for delta in following:
                seen[delta.last_position] = time.perf_counter()

        thread = Thread(target=follow)
        thread.start()
        start_turn(writing, "ses-1")
        for number in range(COMMITS):
            report_message(writing, "ses-1", number)
            committed[number + 2] = time.perf_counter()
            time.sleep(PAUSE_S)
        time.sleep(0.5)
        stopping = time.perf_counter()
        following.stop()
        thread.join()
        stopped_s = time.perf_counter() - stopping
    late = sorted(seen[position] - at for position, at in committed.items() if position in seen)
    last_ms = late[len(late) * 99 // 100] * 1e3
    missing = len(committed.keys() - seen.keys())
    ok = last_ms <= 50 and not missing
    table.add(
        Figure(
            f"{where}, 99 of 100 commits reach a follower within",
            f"{last_ms:.0f} ms",
            "<= 50 ms",
            ok,
            f"half within {late[len(late) // 2] * 1e3:.0f} ms, {missing} missing",
        )
    )
    table.add(Figure(f"{where}, a follower stops within", f"{stopped_s:.2f} s", "<= 1 s", stopped_s <= 1))
