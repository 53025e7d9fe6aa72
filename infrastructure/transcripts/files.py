"""Finds the transcripts that agents leave on disk, and reads one into neutral facts.

An import is named for its kind and for the file's name without folder and suffix, so a transcript that was
moved or grew is the same import. A sub-agent's file carries the session whose folder it stands in as well,
because agents' ids repeat across sessions.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from application.transcript import Transcript
from domain.errors import NotFound, RepriseError
from infrastructure.transcripts.claude_code import read_claude_code
from infrastructure.transcripts.claude_ids import SourcePath
from infrastructure.transcripts.ids import usable_id

KIND: Final = "claude-code"
SUFFIX: Final = ".jsonl"
FILE_BYTES_MAX: Final = 2**30
"""A transcript is read as a whole, so that its digest is that of what was read."""
META_BYTES_MAX: Final = 2**20


class UnreadableTranscript(RepriseError):
    """A file cannot be read, or is no transcript."""


@dataclass(frozen=True, slots=True)
class Found:
    """The transcripts in some places, each once, and what could not be looked into."""

    files: tuple[Path, ...]
    troubles: tuple[UnreadableTranscript, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """What a file holds, and under which names it is imported."""

    transcript: Transcript
    import_id: str
    digest: str
    """SHA-256 of the bytes, in hex."""


def default_folders(claude_folder: Path) -> list[Path]:
    """Where agents leave transcripts; raises NotFound when none has left any."""
    folder = claude_folder / "projects"
    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder; say where the transcripts are")
    return [folder]


def find_transcripts(paths: Iterable[Path]) -> Found:
    """Every path that is a file, and the transcripts in those that are folders, at whatever depth.

    Raises NotFound for a path that is not there.
    """
    search = _Search()
    for path in paths:
        search.add(path)
    return Found(tuple(search.files.values()), tuple(search.troubles))


@dataclass
class _Search:
    files: dict[str, Path] = field(default_factory=dict)
    """By real path, so that what two paths lead to is read once."""
    troubles: list[UnreadableTranscript] = field(default_factory=list)

    def add(self, path: Path) -> None:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            raise NotFound(f"{path}: no such file or folder") from None
        except OSError as error:
            self.troubles.append(_unreadable(path, error))
            return
        if not stat.S_ISDIR(mode):
            self._keep(path)
            return
        for folder, folders, names in os.walk(path, onerror=self._cannot_look_into):
            folders.sort()
            for name in sorted(names):
                inner = Path(folder, name)
                if name.endswith(SUFFIX) and inner.is_file():
                    self._keep(inner)

    def _keep(self, path: Path) -> None:
        self.files.setdefault(os.path.realpath(path), path)

    def _cannot_look_into(self, error: OSError) -> None:
        self.troubles.append(_unreadable(Path(os.fsdecode(error.filename)), error))


def read_transcript(path: Path) -> TranscriptFile:
    """All that the file tells; raises UnreadableTranscript when it cannot be read or tells nothing."""
    data = _bytes_of(path, FILE_BYTES_MAX)
    meta_path = path.with_suffix(".meta.json")
    meta = _bytes_of(meta_path, META_BYTES_MAX) if meta_path.is_file() else b""
    transcript = read_claude_code(data, str(path), meta)
    if transcript.damaged and not transcript.records:
        raise UnreadableTranscript(f"{path}: no transcript; not one line of it is a record")
    return TranscriptFile(transcript, import_id(path), hashlib.sha256(data).hexdigest())


def import_id(path: Path) -> str:
    """The name of a file across its versions and places."""
    source = SourcePath(str(path))
    parent = source.parent_session_uuid if source.agent_id else ""
    return f"{KIND}:{usable_id('/'.join(filter(None, (parent, source.stem))))}"


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
