"""Finds the transcripts that agents leave on disk, and reads one into neutral facts.

An import is named for its kind and for the file's name without folder and suffix, so a transcript that was
moved or grew is the same import.
"""

import hashlib
import io
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from application.transcript import Transcript
from domain.errors import NotFound, RepriseError
from infrastructure.transcripts.format import Environment, Format
from infrastructure.transcripts.formats import FORMATS, HEAD_BYTES, format_of
from infrastructure.transcripts.ids import usable_id

FILE_BYTES_MAX: Final = 2**30
"""A transcript is read as a whole, so that its digest is that of what was read."""
BESIDE_BYTES_MAX: Final = 2**20


class UnreadableTranscript(RepriseError):
    """A file cannot be read, or is no transcript."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which an agent leaves transcripts."""

    format: Format
    folder: Path


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be a transcript, and its format where its folder tells."""

    path: Path
    format: Format | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The transcripts in some places, each once, and what could not be looked into."""

    files: tuple[FoundFile, ...]
    troubles: tuple[UnreadableTranscript, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """What a file holds, and under which names it is imported."""

    transcript: Transcript
    kind: str
    """Of its format."""
    import_id: str
    digest: str
    """SHA-256 of the bytes, in hex."""


def places(environment: Environment, home: Path) -> list[Place]:
    """The agents' folders that are there."""
    return [
        Place(format_, folder)
        for format_ in FORMATS
        for folder in format_.folders(environment, home)
        if folder.is_dir()
    ]


def missing_places(environment: Environment, home: Path) -> str:
    """Where agents would have left transcripts, for people."""
    return ", ".join(str(folder) for one in FORMATS for folder in one.folders(environment, home))


def find_in_places(found: Iterable[Place]) -> Found:
    """The transcripts in the agents' own folders."""
    search = _Search()
    for place in found:
        search.look_into(place.folder, place.format)
    return search.found()


def find_transcripts(paths: Iterable[Path]) -> Found:
    """Every path that is a file, and the transcripts in those that are folders, at whatever depth.

    Raises NotFound for a path that is not there.
    """
    search = _Search()
    for path in paths:
        search.add(path)
    return search.found()


@dataclass
class _Search:
    files: dict[str, FoundFile] = field(default_factory=dict)
    """By real path, so that what two paths lead to is read once."""
    troubles: list[UnreadableTranscript] = field(default_factory=list)

    def found(self) -> Found:
        return Found(tuple(self.files.values()), tuple(self.troubles))

    def add(self, path: Path) -> None:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            raise NotFound(f"{path}: no such file or folder") from None
        except OSError as error:
            self.troubles.append(_unreadable(path, error))
            return
        if stat.S_ISDIR(mode):
            self.look_into(path, None)
        else:
            self._keep(path, None)

    def look_into(self, path: Path, format_: Format | None) -> None:
        is_named = format_.is_named if format_ else _is_named_by_any
        for folder, folders, names in os.walk(path, onerror=self._cannot_look_into):
            folders.sort()
            for name in sorted(names):
                inner = Path(folder, name)
                if is_named(inner) and inner.is_file():
                    self._keep(inner, format_)

    def _keep(self, path: Path, format_: Format | None) -> None:
        self.files.setdefault(os.path.realpath(path), FoundFile(path, format_))

    def _cannot_look_into(self, error: OSError) -> None:
        self.troubles.append(_unreadable(Path(os.fsdecode(error.filename)), error))


def _is_named_by_any(path: Path) -> bool:
    return any(one.is_named(path) for one in FORMATS)


def read_transcript(path: Path, format_: Format | None = None) -> TranscriptFile:
    """All that the file tells; raises UnreadableTranscript when it cannot be read or tells nothing."""
    data = _bytes_of(path, FILE_BYTES_MAX)
    format_ = format_ or format_of(path, data[:HEAD_BYTES])
    beside = format_.beside(path)
    more = _bytes_of(beside, BESIDE_BYTES_MAX) if beside and beside.is_file() else b""
    transcript = format_.read(io.BytesIO(data), str(path), more)
    if transcript.damaged and not transcript.records:
        raise UnreadableTranscript(f"{path}: no transcript; not one line of it is a record")
    name = import_id(format_, path)
    return TranscriptFile(transcript, format_.kind, name, hashlib.sha256(data).hexdigest())


def import_id(format_: Format, path: Path) -> str:
    """The name of a file across its versions and places."""
    return f"{format_.kind}:{usable_id(format_.import_name(str(path)))}"


def _bytes_of(path: Path, size_max: int) -> bytes:
    try:
        # Opening a pipe waits for its other end, so the kind of file is looked at first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableTranscript(f"{path}: no regular file")
        with path.open("rb") as file:
            data = file.read(size_max + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > size_max:
        raise UnreadableTranscript(f"{path}: larger than {size_max} bytes")
    return data


def _unreadable(path: Path, error: OSError) -> UnreadableTranscript:
    return UnreadableTranscript(f"{path}: cannot be read: {error.strerror or error}")
