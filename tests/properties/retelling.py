"""Plays written-down histories in a process of its own and prints digests of what is stored.

python -m tests.properties.retelling FILE URL
"""

import hashlib
import json
import locale
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any, Final

from application.delivery import Delivery
from application.ledger import Ledger
from domain.errors import Rejected
from infrastructure.main import open_database
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.records import SALT_BYTES
from infrastructure.store.tables import READ_MODELS, Database
from tests.properties.histories import Step
from tests.properties.playing import FakeClock, Quiet

STORE_ID: Final = "00000000-0000-5000-8000-000000000007"
SALT: Final = bytes(SALT_BYTES)


def write_down(told: Iterable[Sequence[Step]], file: Path) -> None:
    """Histories as JSON, each a list of steps."""
    file.write_text(json.dumps([[asdict(step) for step in history] for history in told]), encoding="ascii")


def read_back(file: Path) -> list[list[Step]]:
    written = json.loads(file.read_text(encoding="ascii"))
    return [[Step(**step) for step in history] for history in written]


def digests(database: Database, told: Iterable[Sequence[Step]]) -> dict[str, str]:
    """Play each history in a room of its own, rebuild, and give the digests of all that is stored."""
    database.store_id = STORE_ID
    clock = FakeClock()
    store = EventStore(database, clock, salt=lambda: SALT)
    with Ledger(store, Delivery(store, Quiet(), RLock()), clock) as ledger:
        for index, history in enumerate(told):
            for step in history:
                clock.now += step.moves_ms
                with suppress(Rejected):
                    step.take(ledger, f"room {index}")
        ledger.rebuild()
        with database.read() as tables:
            return {
                "log": _digest(tables.log(contents=True)),
                "outbox": _digest(tables.outbox(limit=1_000_000)),
                "state": _digest(row for table in READ_MODELS for row in tables.rows(table)),
            }


def _digest(things: Iterable[Any]) -> str:
    return hashlib.sha256("\n".join(map(repr, things)).encode("utf-8", "backslashreplace")).hexdigest()


def main(file: str, url: str) -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    told = read_back(Path(file))
    sys.stdout.write(json.dumps([digests(MemoryDatabase(), told), digests(open_database(url), told)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
