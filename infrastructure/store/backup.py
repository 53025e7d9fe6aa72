"""Copies an SQLite store into one file and back, with SQLite's own backup, while others use it."""

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from domain.errors import DamagedStore, ForeignStore, StoreError, StoreUnavailable
from infrastructure.store.sqlite import refuse_unknown, translated
from infrastructure.store.sqlite_schema import MIGRATIONS


@dataclass(frozen=True)
class Backup:
    """A backup file as it was written or read."""

    position: int
    """Of the last event in it."""
    sha256: str
    """Of the file's bytes, in hex."""


def backup(store: Path, file: Path) -> Backup:
    """Write all that is committed now into a new file.

    Raises StoreError when the file exists, the store cannot be read or the file not be written; then there
    is no file.
    """
    _refuse_existing(file)
    with translated(store), closing(_opened(store, "rw")) as source:
        _refuse_unknown(source, store)
        with _written(source, file) as copy:
            copy.execute("PRAGMA journal_mode = DELETE")  # One file, without a log beside it.
            position = _end(copy)
    return Backup(position, _sha256(file))


def restore(file: Path, store: Path) -> Backup:
    """Make a store from a backup, with a store id of its own, where there is none yet.

    Raises StoreError when the store exists, the file is no backup of ours or newer than this release, and
    DamagedStore when its pages do not fit; then there is no store.
    """
    _refuse_existing(store)
    if not file.is_file():
        raise StoreUnavailable(f"{file}: no such file; name a backup")
    with translated(file), closing(_opened(file, "ro")) as source:
        _refuse_unknown(source, file)
        checked = source.execute("PRAGMA quick_check(1)").fetchone()[0]
        if checked != "ok":
            raise DamagedStore(f"{file}: the backup is damaged ({checked}); take another one")
        with _written(source, store) as copy:
            copy.execute("PRAGMA journal_mode = WAL")
            position = _end(copy)
            copy.execute("INSERT OR REPLACE INTO stores VALUES (?, ?)", (position + 1, str(uuid4())))
    return Backup(position, _sha256(file))


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise StoreError(f"{path}: there is something already; name a file that is not there")
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path.parent}: no such folder; make it first")


def _refuse_unknown(db: sqlite3.Connection, path: Path) -> None:
    refuse_unknown(db, path, len(MIGRATIONS))
    if not db.execute("PRAGMA user_version").fetchone()[0]:
        raise ForeignStore(f"{path}: this file holds no store; name another one")


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)


@contextmanager
def _written(source: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """A copy to be finished; it has its name only when it is whole and on the disk."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    with translated(path):
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as copy:
                unfinished.chmod(0o600)
                source.backup(copy)
                yield copy
            _flush(unfinished)
            os.link(unfinished, path)  # Unlike a rename it never replaces what somebody put there meanwhile.
            _flush(path.parent)
        except OSError as error:
            detail = f"{path}: {error.strerror}; check that its folder can be written"
            raise StoreUnavailable(detail) from error
        finally:
            for beside in ("", "-wal", "-shm", "-journal"):
                Path(f"{unfinished}{beside}").unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _end(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT version FROM streams WHERE key = 0").fetchone()[0])


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
