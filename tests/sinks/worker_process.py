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

DIGEST_LENGTH = 64


class RecordingConsumer:
    """Appends a line for each parcel to a file that all workers share.

    A line begins anew whatever stands before it, since a death in the middle of a write leaves half a line.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def send(self, parcel: Parcel) -> Receipt:
        committed = parcel.committed
        digest = sha256(committed.delta.to_json().encode()).hexdigest()
        os.write(self._file, f"\n{committed.room} {committed.transaction_id} {digest}\n".encode())
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
