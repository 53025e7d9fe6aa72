"""What there is to know of an agent's transcripts: where they lie, how they are recognised and read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from application.transcript import Json, Transcript

Environment = Mapping[str, str]
SETTINGS_BYTES_MAX = 2**20


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of transcript. A module that has one is added to `formats.FORMATS`."""

    kind: str
    title: str
    """The agent's name, for people."""
    folders: Callable[[Environment, Path], list[Path]]
    """Where the agent leaves transcripts, by its environment and the user's home."""
    is_named: Callable[[PurePath], bool]
    """Whether a file in a folder has the name of a transcript."""
    claims: Callable[[PurePath, Mapping[str, Json]], bool]
    """Whether a file of unknown origin is of this kind, by its name and first record."""
    read: Callable[[BinaryIO, str, bytes], Transcript]
    """All that a file tells: its stream, its path, and the content of the file beside it."""
    import_name: Callable[[str], str]
    """The name of a file across its versions and places, by its path."""
    beside: Callable[[Path], Path | None]
    """A small file that tells more about a transcript."""
    deletes: Callable[[Environment, Path], str]
    """In words, when the agent is set to delete transcripts; blank when it is not."""


def settings_in(path: Path) -> Mapping[str, Json]:
    """An agent's settings, as far as they are JSON; nothing when there are none or they cannot be read."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(SETTINGS_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
