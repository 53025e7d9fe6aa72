"""Reads a transcript of any format as the import does, whole or in part."""

import io
from pathlib import Path

from application.transcript import Transcript
from infrastructure.transcripts.formats import HEAD_BYTES, format_of

DATA = Path(__file__).parents[2] / "data"
SAMPLE = DATA / "sample"
OWN = DATA / "transcripts"
"""Transcripts of other formats, written for this project."""
FOUND = Path(__file__).parents[3] / "../shared/transcripts"
"""Transcripts that others have met, beside the repository; where it is absent tests skip."""


def own_files() -> list[Path]:
    """The repository's transcripts, but for those of Claude Code."""
    return sorted([*OWN.rglob("*.jsonl"), *OWN.rglob("session-*.json")])


def found_files() -> list[Path]:
    return sorted([*FOUND.glob("codex/*.jsonl"), *FOUND.glob("gemini/*.json*")])


def read(path: Path, size: int | None = None) -> Transcript:
    """The first `size` bytes of a file, with what stands beside it."""
    return read_bytes(path, path.read_bytes()[:size])


def read_bytes(path: Path, data: bytes) -> Transcript:
    """The file as it would be with this content."""
    format_ = format_of(path, path.read_bytes()[:HEAD_BYTES] if path.exists() else data[:HEAD_BYTES])
    beside = format_.beside(path)
    more = beside.read_bytes() if beside and beside.is_file() else b""
    return format_.read(io.BytesIO(data), str(path), more)
