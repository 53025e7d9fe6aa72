"""The store in one SQLite file: the library's recorder, and our tables in the same transaction."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Final
from uuid import uuid4

from eventsourcing.persistence import (
    ConnectionPoolClosedError,
    ConnectionUnavailableError,
)
from eventsourcing.sqlite import (
    SQLiteAggregateRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
)

from domain.errors import (
    DamagedStore,
    ForeignStore,
    NewerStore,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from domain.ids import Position, StreamId
from infrastructure.store.lane_tables import LaneTables
from infrastructure.store.sqlite_schema import (
    APPLICATION_ID,
    MIGRATIONS,
    PAGE_BYTES,
)
from infrastructure.store.sqlite_tables import Recorder, SQLiteStatements, SQLiteTables
from infrastructure.store.tables import (
    HEADS_MAX,
    Head,
)

LOCK_TIMEOUT_S: Final = 60
"""How long a writer waits for another process before it gives up with StoreBusy."""
LOCK_POLL_S: Final = 0.002
"""How often it asks for the lock meanwhile. SQLite itself soon asks only ten times a second, and a process
that writes without a pause would keep the others out for seconds."""
_NOTHING_KNOWN: Final[tuple[Position, dict[StreamId, Head | None]]] = (Position(-1), {})
_WAITS_BY_ITSELF: Final = "PRAGMA busy_timeout = 0"
"""For a connection whose transactions begin with `_patiently`."""
WATCH_POLL_S: Final = 0.005
"""How often a watch looks for commits; a look takes some microseconds."""
READERS_MAX: Final = 16
_CHECK_RIGHTS: Final = "check that the file and its folder can be written"


class _Connection(SQLiteConnection):
    """Writers take the lock before they read, so that what they decide on cannot change."""

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        cursor = self.cursor()
        if commit:
            _patiently(cursor, "BEGIN IMMEDIATE")
        else:
            cursor.execute("BEGIN")
        try:
            with cursor:
                yield cursor
            if commit:
                self.commit()
        finally:
            self.rollback()  # Does nothing after a commit.


class _Pool(SQLiteConnectionPool):
    """Connections that keep what they have acknowledged, and leave nothing of what was erased."""

    def _create_connection(self) -> SQLiteConnection:
        plain = sqlite3.connect(
            self.db_name,
            timeout=LOCK_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        for pragma in ("synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY"):
            plain.execute(f"PRAGMA {pragma}")
        plain.row_factory = sqlite3.Row
        return _Connection(plain, max_age=None)


class _Datastore(SQLiteDatastore):
    def __init__(self, path: Path) -> None:
        self.pool = _Pool(db_name=str(path), max_overflow=READERS_MAX, pool_timeout=LOCK_TIMEOUT_S)
        self.single_row_tracking = True
        self.originator_id_type = "text"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Say in our words what SQLite says in codes."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(path, error) from error
    except ConnectionPoolClosedError:
        raise StoreUnavailable(f"{path}: the store was closed; open it again") from None
    except ConnectionUnavailableError:
        raise StoreBusy(f"{path}: too many readers for {LOCK_TIMEOUT_S} s; try again") from None


def _translation(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"{path}: another process has held the store for {LOCK_TIMEOUT_S} s; try again")
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"{path}: no room left; nothing was stored; free some and try again")
        case sqlite3.SQLITE_NOTADB:
            return ForeignStore(f"{path}: this is no SQLite database; name another file with --db")
        case sqlite3.SQLITE_CORRUPT:
            return DamagedStore(f"{path}: the database is damaged ({error}); restore a backup")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return StoreUnavailable(f"{path}: {error}; {_CHECK_RIGHTS}")
        case _:
            return StoreError(f"{path}: {error}")


class SQLiteDatabase:
    """One store in one file; any number of threads and processes may open it."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
        self.path = path
        self._schema = len(migrations)
        with translated(path):
            self.store_id = _prepare(path, migrations)
        self._datastore = _Datastore(path)
        self._writer = self._datastore.pool.get_connection(is_writer=True)
        self._writer.cursor().execute(_WAITS_BY_ITSELF)
        self._turn = RLock()
        self._known = _NOTHING_KNOWN
        """Ends of streams, and where the log ended with them: they hold until something is appended."""
        self._recorder = Recorder(self._datastore)
        self._snapshots = SQLiteAggregateRecorder(self._datastore, events_table_name="snapshots")

    @contextmanager
    def write(self) -> Iterator["SQLiteTables"]:
        """One writing transaction; it has the lock from its first statement on."""
        with self._turn, translated(self.path):
            if self._datastore.pool.closed:
                raise ConnectionPoolClosedError
            ended, heads = self._known
            self._known = _NOTHING_KNOWN
            with self._writer.transaction(commit=True) as cursor:
                tables = SQLiteTables(cursor, self._recorder, self._snapshots)
                if tables.end() == ended:
                    tables.heads_known = heads
                yield tables
                tables.flush()
            if len(tables.heads_known) <= HEADS_MAX:
                self._known = tables.end(), tables.heads_known

    @contextmanager
    def operate(self) -> Iterator[LaneTables]:
        """One transaction on the lanes: in the log before the next commit that waits for the disk."""
        with self._turn, translated(self.path):
            if self._datastore.pool.closed:
                raise ConnectionPoolClosedError
            self._writer.cursor().execute("PRAGMA synchronous = NORMAL")
            try:
                with self._writer.transaction(commit=True) as cursor:
                    yield LaneTables(SQLiteStatements(cursor.sqlite_cursor.connection))
            finally:
                self._writer.cursor().execute("PRAGMA synchronous = FULL")

    @contextmanager
    def read(self) -> Iterator["SQLiteTables"]:
        """One consistent view."""
        with translated(self.path), self._datastore.transaction(commit=False) as cursor:
            yield SQLiteTables(cursor, self._recorder, self._snapshots)

    def watch(self) -> "SQLiteWatch":
        return SQLiteWatch(self.path)

    def schemas(self) -> tuple[int, int]:
        with translated(self.path), self._datastore.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA user_version")
            return int(cursor.fetchone()[0]), self._schema

    def close(self) -> None:
        with self._turn:
            if not self._datastore.pool.closed:
                self._datastore.pool.put_connection(self._writer)
                self._datastore.close()


class SQLiteWatch:
    """Asks a connection of its own, often, whether another one has committed; that costs no page."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with translated(path):
            self._db = sqlite3.connect(
                path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._seen = self._version()

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def wait(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        with translated(self._path):
            while (version := self._version()) == self._seen and time.monotonic() < end:
                time.sleep(WATCH_POLL_S)
        self._seen = version

    def close(self) -> None:
        self._db.close()


def _prepare(path: Path, migrations: Sequence[str]) -> str:
    """Make or migrate the store; its id."""
    try:
        is_folder, has_folder = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}; {_CHECK_RIGHTS}") from error
    if is_folder:
        raise StoreUnavailable(f"{path}: this is a folder; name a file in it")
    if not has_folder:
        raise StoreUnavailable(f"{path.parent}: no such folder; make it first")
    db = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
    try:
        refuse_unknown(db, path, len(migrations))
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _patiently(db, "PRAGMA journal_mode = WAL")
        db.execute(_WAITS_BY_ITSELF)
        _patiently(db, "BEGIN IMMEDIATE")
        refuse_unknown(db, path, len(migrations))
        version = db.execute("PRAGMA user_version").fetchone()[0]
        for script in migrations[version:]:
            for statement in script.split(";"):
                db.execute(statement)
        if version < len(migrations):
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {len(migrations)}")
        stored = db.execute("SELECT store_id FROM stores ORDER BY from_position DESC LIMIT 1").fetchone()
        store_id = stored[0] if stored else str(uuid4())
        if not stored:
            db.execute("INSERT INTO stores VALUES (1, ?)", (store_id,))
        db.execute("COMMIT")
        return str(store_id)
    finally:
        db.close()


def _patiently(db: sqlite3.Connection | SQLiteCursor, statement: str) -> None:
    """Run a statement again for as long as SQLite refuses it because another process is at work."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            db.execute(statement)
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            )
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(LOCK_POLL_S)
        else:
            return


def refuse_unknown(db: sqlite3.Connection, path: Path, newest: int) -> None:
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables:
        return
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ForeignStore(f"{path}: this database was made by another program; name another file with --db")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > newest:
        raise NewerStore(
            f"{path}: the store has schema {version}, this release knows up to {newest}; use a newer release"
        )
