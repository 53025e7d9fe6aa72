"""How soon every one of 200 streams has a commit, and what the service needs for them."""

import asyncio
import json
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from infrastructure.main import open_ledger
from tests.benchmarks.figures import Figure, Table
from tests.http.serving import served

READERS = 200
COMMITS = 200
RATE = 20
"""Commits in a second."""
LINE_BYTES_MAX = 2**20


def run(table: Table, folder: Path) -> None:
    place = f"sqlite:///{folder}/streamed.db"
    with served(place) as service:
        before = _mebibytes(service.process.pid)
        late_ms = sorted(asyncio.run(_measure(service.url, place)))
        after = _mebibytes(service.process.pid)
    p95_ms = late_ms[len(late_ms) * 95 // 100]
    missing = READERS * COMMITS - len(late_ms)
    half = (
        f"half within {late_ms[len(late_ms) // 2]:.0f} ms, the last {late_ms[-1]:.0f} ms, {missing} missing"
    )
    what = f"{READERS} streams, {RATE} commits/s, 95 of 100 events are read within"
    table.add(Figure(what, f"{p95_ms:.0f} ms", "<= 500 ms", p95_ms <= 500 and not missing, half))
    grown = after - before
    what = f"{READERS} streams, the service grows by"
    table.add(Figure(what, f"{grown} MiB", "<= 100 MiB", grown <= 100, f"{before} to {after}"))


async def _measure(url: str, place: str) -> list[float]:
    """How late each event was read, in milliseconds, by readers that share the other core."""
    open_ = asyncio.Semaphore(0)
    readers = [asyncio.create_task(_read(url, open_)) for _ in range(READERS)]
    for _ in readers:
        await open_.acquire()
    await asyncio.to_thread(_commit, place)
    return [late for one in await asyncio.gather(*readers) for late in one]


async def _read(url: str, open_: asyncio.Semaphore) -> list[float]:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=LINE_BYTES_MAX)
    writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    late: list[float] = []
    while len(late) < COMMITS:
        line = await reader.readline()
        if line.startswith(b"retry: "):
            open_.release()
        elif line.startswith(b"data: "):
            committed = datetime.fromisoformat(json.loads(line[6:])["time"]).timestamp()
            late.append((time.time() - committed) * 1e3)
    writer.close()
    return late


def _commit(place: str) -> None:
    began = time.monotonic()
    with open_ledger(place) as ledger:
        for number in range(COMMITS):
            ledger.report_state({"state": {"title": f"title {number}"}}, room="team", session="s-1")
            time.sleep(max(0.0, began + (number + 1) / RATE - time.monotonic()))


def _mebibytes(process: int) -> int:
    """What a process has in memory; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4_096 // 2**20
