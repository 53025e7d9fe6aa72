"""Deltas as JSON lines, and the file they are appended to."""

import fcntl
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from domain.delta import CommittedDelta
from domain.errors import StoreBusy
from infrastructure.json_lines import json_line

LINE_START: Final = b'{"transactionId":'
BLOCK_BYTES: Final = 2**16


def line_of(committed: CommittedDelta) -> dict[str, Any]:
    """A delta in its envelope; the time is RFC 3339 in UTC."""
    at = datetime.fromtimestamp(committed.recorded_at // 1_000, UTC)
    return {
        "transactionId": committed.transaction_id,
        "position": committed.last_position,
        "recordedAt": f"{at:%Y-%m-%dT%H:%M:%S}.{committed.recorded_at % 1_000:03d}Z",
        "delta": committed.delta.model_dump(by_alias=True, exclude_none=True),
    }


class DeltaFile:
    """An observer that appends to a file; a delta is taken once its line is on the disk.

    One process at a time holds the file. A line that another one left unfinished when it died is cut off:
    its delta was not marked and comes again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.subscription = "file:" + os.fsencode(self.path).decode(errors="backslashreplace")

    def __enter__(self) -> Self:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._mend()
        except BlockingIOError:
            os.close(self._file)
            raise StoreBusy(f"{self.path}: another process writes to it; try again") from None
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def __call__(self, committed: CommittedDelta) -> None:
        self.append(json_line(line_of(committed)))

    def append(self, lines: bytes) -> None:
        """Write whole lines and wait until the disk has them: all, or none when it raises OSError."""
        end = os.fstat(self._file).st_size
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise
        if not end:
            self._keep_name()

    def _keep_name(self) -> None:
        """Let the folder know the file for good, as it may be new."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _mend(self) -> None:
        """Let the file end with a whole line."""
        size = os.fstat(self._file).st_size
        start = self._last_line_start(size)
        if start == size:
            return
        head = os.pread(self._file, len(LINE_START), start)
        if LINE_START.startswith(head):
            os.ftruncate(self._file, start)
        else:  # not ours, so it stays
            os.write(self._file, b"\n")

    def _last_line_start(self, size: int) -> int:
        """Where the line begins that has no end; the size when there is none."""
        end = size
        while end:
            begin = max(0, end - BLOCK_BYTES)
            found = os.pread(self._file, end - begin, begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0
