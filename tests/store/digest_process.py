"""Rebuilds a store in a process of its own surroundings and prints digests of what came out."""

import hashlib
import sys
from pathlib import Path

from infrastructure.store.audit import rebuild, verify
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import READ_MODELS


def digests(path: Path) -> str:
    """One digest of the rebuilt rows, one of the outbox, and whether all of it verifies."""
    database = SQLiteDatabase(path)
    rebuild(database)
    with database.read() as tables:
        rows = [list(tables.rows(table)) for table in READ_MODELS]
        outbox = [(row.transaction, row.delta) for row in tables.outbox(limit=10_000)]
    ok = verify(database).ok
    database.close()
    return " ".join([*(hashlib.sha256(repr(part).encode()).hexdigest() for part in (rows, outbox)), str(ok)])


if __name__ == "__main__":
    sys.stdout.write(digests(Path(sys.argv[1])))
