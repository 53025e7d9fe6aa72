"""Reads found files into transcripts without secrets: here, or in a process of its own ahead of the import.

A second process leaves this one's core to storing. It is at most a few transcripts ahead, so memory is
bounded by the largest of them.
"""

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Final

from domain.errors import RepriseError
from infrastructure.transcripts.files import (
    FoundFile,
    TranscriptFile,
    UnreadableTranscript,
    read_transcript,
)
from infrastructure.transcripts.formats import format_named
from infrastructure.transcripts.redaction import Redactor, known_secrets

AHEAD_FILES_MAX: Final = 8
AHEAD_BYTES_MAX: Final = 8 * 2**20
"""Files are read ahead until they have this many bytes; one that has more is read alone."""
ALONE_BYTES_MAX: Final = 4 * 2**20
"""An import of less is over before a process has started."""


class ReadingEnded(RepriseError):
    """The process that reads was killed, perhaps for want of memory."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading a file."""

    found: FoundFile
    file: TranscriptFile | None
    trouble: str = ""
    redacted: Mapping[str, int] = field(default_factory=dict)
    """How many secrets were taken out, by kind."""


def read(found: FoundFile, *, redacts: bool) -> Reading:
    """Read one file here."""
    try:
        file = read_transcript(found.path, found.format)
    except UnreadableTranscript as error:
        return Reading(found, None, str(error))
    if not redacts:
        return Reading(found, file)
    redactor = Redactor(known_secrets())
    transcript = redactor.transcript(file.transcript)
    return Reading(found, replace(file, transcript=transcript), redacted=dict(redactor.counts))


def read_all(files: Iterable[tuple[FoundFile, int]], *, redacts: bool) -> Iterator[Reading]:
    """Read files, each given with its size, one after the other in their order."""
    files = list(files)
    if sum(size for _, size in files) < ALONE_BYTES_MAX or (os.cpu_count() or 1) == 1:
        for found, _ in files:
            yield read(found, redacts=redacts)
        return
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_belong_to_parent) as process:
        try:
            yield from _ahead(process, files, redacts)
        except BrokenProcessPool as error:
            raise ReadingEnded("the process that reads transcripts ended; import again") from error
        finally:
            process.shutdown(wait=True, cancel_futures=True)


def _ahead(
    process: ProcessPoolExecutor, files: list[tuple[FoundFile, int]], redacts: bool
) -> Iterator[Reading]:
    waiting: deque[tuple[FoundFile, int, Future[Reading]]] = deque()
    ahead = 0
    for found, size in files:
        while waiting and (len(waiting) >= AHEAD_FILES_MAX or ahead + size > AHEAD_BYTES_MAX):
            ahead -= waiting[0][1]
            yield _received(*waiting.popleft())
        kind = found.format.kind if found.format else ""
        waiting.append((found, size, process.submit(_read_there, str(found.path), kind, redacts)))
        ahead += size
    while waiting:
        yield _received(*waiting.popleft())


def _received(found: FoundFile, _: int, future: Future[Reading]) -> Reading:
    return replace(future.result(), found=found)


def _read_there(path: str, kind: str, redacts: bool) -> Reading:
    """Read in the other process; a format, which holds functions, is told by its name."""
    done = read(FoundFile(Path(path), format_named(kind) if kind else None), redacts=redacts)
    return replace(done, found=FoundFile(done.found.path))


def _belong_to_parent() -> None:
    """An interrupt is for the import, which ends this process; when the import was killed, it ends itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "this runs in the reading process"

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=end_with_parent, name="reprise-orphan", daemon=True).start()
