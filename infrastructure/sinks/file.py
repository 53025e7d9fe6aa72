"""Appends deltas to a file of JSON lines, each on the disk before its receipt."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from application.sinks import Parcel, Receipt, Trouble
from domain.errors import StoreBusy
from infrastructure.delta_lines import DeltaFile, line_of
from infrastructure.json_lines import json_line

LINES_MAX: Final = 256
"""Lines that share one flush."""
LOCK_TIMEOUT_S: Final = 5.0
"""How long to wait for another process that writes to the same file; it needs as long as a flush takes."""
LOCK_POLL_S: Final = 0.005


class FileSink:
    """A file of JSON lines, the same lines as `reprise redeliver` writes.

    The file is opened anew for each flush, so one that was renamed or removed by a rotation is left alone
    and a new one begun. Other processes may write to it in between: whole lines, since each locks it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = DeltaFile(path)
        self._waiting: list[tuple[bytes, asyncio.Future[Receipt]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def send(self, parcel: Parcel) -> Receipt:
        """Wait for a flush that has the line; lines that come meanwhile share the next one."""
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((json_line(_line(parcel)), receipt))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await receipt

    async def close(self) -> None:
        """Wait for the lines that are being written."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LINES_MAX], self._waiting[LINES_MAX:]
            batch = [one for one in batch if not one[1].done()]  # Somebody gave the others up.
            if not batch:
                continue
            receipt = await asyncio.to_thread(self._append, b"".join(line for line, _ in batch))
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_result(receipt)

    def _append(self, lines: bytes) -> Receipt:
        give_up_at = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                with self._file as file:
                    file.append(lines)
            except StoreBusy as busy:
                if time.monotonic() > give_up_at:
                    return Receipt(Trouble.ENDPOINT, str(busy))
                time.sleep(LOCK_POLL_S)
            except OSError as error:
                return Receipt(Trouble.ENDPOINT, f"{self._file.path}: {error.strerror or error}")
            else:
                return Receipt()


def _line(parcel: Parcel) -> dict[str, Any]:
    return line_of(parcel.committed) | ({"gap": parcel.gap} if parcel.gap else {})
