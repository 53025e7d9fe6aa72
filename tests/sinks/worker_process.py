"""A delivery worker in a process of its own, with a consumer that records what it is handed."""

import asyncio
import os
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

from application.sinks import Parcel, Receipt
from infrastructure.main import delivery_worker, open_ledger
from infrastructure.worker import Timing
from tests.store.writer_process import say


class RecordingConsumer:
    """Appends a line for each parcel, whole or not at all, to a file that all workers share."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def send(self, parcel: Parcel) -> Receipt:
        committed = parcel.committed
        digest = sha256(committed.delta.to_json().encode()).hexdigest()
        os.write(self._file, f"{committed.room} {committed.transaction_id} {digest}\n".encode())
        await asyncio.sleep(0)
        return Receipt()

    async def close(self) -> None:
        os.close(self._file)


def deliver(pipe: Connection, url: str, path: Path, lease_ms: int) -> None:
    """Deliver until the process is killed."""
    with open_ledger(url) as ledger:
        worker = delivery_worker(ledger, lambda _: RecordingConsumer(path), Timing(lease_ms=lease_ms))
        say(pipe, "ready")
        asyncio.run(worker.run())
