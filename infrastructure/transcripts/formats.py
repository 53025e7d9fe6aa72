"""The formats of transcripts that can be read."""

from pathlib import PurePath
from typing import Final

from infrastructure.transcripts import claude_code, codex, gemini
from infrastructure.transcripts.fields import as_object
from infrastructure.transcripts.format import Format
from infrastructure.transcripts.lines import Record, read_document, read_lines

FORMATS: Final[tuple[Format, ...]] = (
    claude_code.FORMAT,
    codex.FORMAT,
    gemini.FORMAT,
)
"""A file that none of them claims is read as the first."""
HEAD_BYTES: Final = 2**20
"""So much of a file is looked at to tell its format."""


def format_of(path: PurePath, head: bytes) -> Format:
    """The format of a file, by its name and how it begins."""
    lines = (line.value for line in read_lines(head) if isinstance(line, Record))
    document = (line.value for line in read_document(head) if isinstance(line, Record))
    first = as_object(next(lines, None) or next(document, None))
    return next((one for one in FORMATS if one.claims(path, first)), FORMATS[0])


def format_named(kind: str) -> Format:
    return next(one for one in FORMATS if one.kind == kind)
