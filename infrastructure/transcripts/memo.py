"""Remembers which files were taken in as they are, so that the next import passes over them unread.

It only saves time. What it remembers counts for one store, one way of importing and one version of the
program, and only while the store still holds the commit that was its last. A file counts as unchanged while
nothing that the file system says of it has moved; one that was changed a moment ago is not remembered.
Losing the memo, or half of it, means reading files again that bring no news.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SHAPE: Final = 1
SETTLED_NS: Final = 2_000_000_000
"""A file that changed less than this before it was read may change again without showing it."""

Fingerprint = list[int]
Entry = tuple[str, Fingerprint]
"""The kind of a file's format, and what the file system said of it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A commit of the store, by which it is known again."""

    transaction: str
    position: int


def fingerprint(path: Path, beside: Path | None) -> Fingerprint | None:
    """What the file system says of a transcript and of the file beside it; None when it says nothing."""
    try:
        found = _said(path)
    except OSError:
        return None
    try:
        return found + (_said(beside) if beside else [])
    except OSError:
        return found


def _said(path: Path) -> Fingerprint:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def is_settled(found: Fingerprint, now_ns: int) -> bool:
    return max(found[1:3]) < now_ns - SETTLED_NS


@dataclass
class Memo:
    """The files that need not be read, by their real path."""

    path: Path | None
    """None: nothing is remembered beyond this run."""
    how: str
    files: dict[str, Entry] = field(default_factory=dict)

    def kind_of(self, path: Path, found: Fingerprint | None) -> str:
        """The format of a file that was taken in as it is; blank for any other."""
        kind, seen = self.files.get(os.path.realpath(path), ("", None))
        return kind if found is not None and found == seen else ""

    def remember(self, path: Path, kind: str, found: Fingerprint) -> None:
        self.files[os.path.realpath(path)] = (kind, found)

    def forget(self, path: Path) -> None:
        self.files.pop(os.path.realpath(path), None)

    def save(self, mark: Mark | None) -> None:
        """Write it whole or not at all; a memo that cannot be written is none."""
        if self.path is None or mark is None:
            return
        content = {
            "shape": SHAPE,
            "how": self.how,
            "transaction": mark.transaction,
            "position": mark.position,
            "files": self.files,
        }
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(content), encoding="utf-8", errors="surrogateescape")
            unfinished.replace(self.path)
        except OSError:
            unfinished.unlink(missing_ok=True)


def open_memo(path: Path, how: str, holds: Callable[[Mark], bool]) -> Memo:
    """The memo at `path`, empty when it is not of this store or this way of importing."""
    try:
        content = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        mark = Mark(content["transaction"], content["position"])
        is_ours = content["shape"] == SHAPE and content["how"] == how and holds(mark)
        files = _files(content["files"]) if is_ours else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        files = {}
    return Memo(path, how, files)


def _files(content: Mapping[str, Any]) -> dict[str, Entry]:
    return {path: (str(kind), [int(number) for number in found]) for path, (kind, found) in content.items()}


def memo_path(folder: Path, store: str, how: str) -> Path:
    """Where the memo for a store and a way of importing lies."""
    name = hashlib.sha256(json.dumps([store, how]).encode()).hexdigest()[:24]
    return folder / "imports" / f"{name}.json"
