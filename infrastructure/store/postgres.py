"""The store in one schema of a PostgreSQL database, which many machines may share."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import Connection, sql
from psycopg.rows import DictRow, tuple_row

from domain.errors import (
    DamagedStore,
    ForeignStore,
    NewerStore,
    StoreError,
    StoreUnavailable,
)
from domain.ids import StreamId
from infrastructure.store.lane_tables import LaneTables
from infrastructure.store.postgres_connection import (
    Place,
    Readers,
    connect,
    is_lost,
    is_usable,
    place_of,
    reason_of,
    reconnect,
    roll_back,
    translated,
)
from infrastructure.store.postgres_schema import MIGRATIONS
from infrastructure.store.postgres_tables import PlacedEvent, PostgresStatements, PostgresTables, Recorder
from infrastructure.store.tables import HEADS_MAX, Head, TransactionLost

_BEGIN: Final = b"""
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    LOCK TABLE writers_turn IN EXCLUSIVE MODE;
    SELECT (SELECT version FROM streams WHERE key = 0), (SELECT max(key) FROM streams)
"""
"""A writer has the lock before it reads, so that what it decides on cannot change."""
_LOOK: Final = b"""
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SELECT (SELECT version FROM streams WHERE key = 0), (SELECT max(key) FROM streams)
"""
"""A reader sees what was committed before its first statement, and nothing that came later."""
_OPERATE: Final = b"""
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL synchronous_commit TO off
"""
"""Lanes are marked beside the writers, row by row, and no mark is worth a wait for the disk."""
_GIVEN_UP: Final = ("40001", "40P01")
"""Serialization failure and deadlock; under our lock only a host's own tables bring them about."""


class PostgresDatabase:
    """One store in one schema; any number of threads, processes and machines may open it."""

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str, migrations: Sequence[str] = MIGRATIONS) -> None:
        self._place = place_of(url)
        self._schema = len(migrations)
        with translated(self._place):
            connection = connect(self._place)
            try:
                self.store_id = _prepare(connection, self._place, migrations)
            except BaseException:
                connection.close()
                raise
        self.recorder = Recorder(self._place)
        self._writer = connection
        self._readers = Readers(self._place)
        self._turn = RLock()
        self._heads: dict[int, dict[StreamId, Head | None]] = {}
        """Ends of streams, by the position at which the log ended: they hold until something is appended."""
        self._is_writing = False
        self._is_closed = False

    @staticmethod
    def missing(url: str) -> str:
        """The place that an address names, when there is no store yet; blank when there is one."""
        place = place_of(url)
        with translated(place), connect(place) as connection:
            return place.shown if _version(connection, place) is None else ""

    # Writing.

    @contextmanager
    def write(self) -> Iterator[PostgresTables]:
        """One writing transaction; it has the lock from its first statement on.

        Statements are sent without waiting for their answers, but where one is needed. When the connection
        goes away during the commit, the log tells whether it happened.
        """
        with self._turn, translated(self._place):
            self._refuse_if_closed()
            if self._is_writing:
                raise StoreError(f"{self._place.shown}: a decision may not write to the store it is made in")
            connection, ends = self._begin_writing()
            heads = self._heads.pop(ends[0], {})
            self._heads.clear()
            tables = PostgresTables(connection, self.recorder, lambda: connection, ends=ends, heads=heads)
            self._is_writing, is_committing = True, False
            try:
                yield tables
                with connection.pipeline():
                    tables.finish()
                    is_committing = True
                    commit = connection.execute("COMMIT", prepare=False)
                if commit.statusmessage != "COMMIT":
                    raise tables.failure or StoreError(f"{self._place.shown}: nothing was stored")
                if len(heads) <= HEADS_MAX:
                    self._heads[tables.end()] = heads
            except BaseException as error:
                roll_back(connection)
                if is_lost(connection, error) and is_committing and self._has_happened(tables.appended):
                    return
                told = self._told(connection, tables, error)
                if told is error:
                    raise
                raise told from error
            finally:
                self._is_writing = False

    def _begin_writing(self) -> tuple[Connection[DictRow], tuple[int, int]]:
        """Take the lock; the last position and the last key of a stream that were given."""
        for is_last in (False, True):
            if not is_usable(self._writer):
                self._writer.close()
                self._heads.clear()
                self._writer = reconnect(self._place)
            connection = self._writer
            try:
                return connection, _ends(connection, _BEGIN)
            except BaseException as error:
                roll_back(connection)
                if is_last or not is_lost(connection, error):
                    raise
        raise AssertionError("not reached")

    def _has_happened(self, appended: PlacedEvent | None) -> bool:
        """Whether the log has the last event of a commit that was never answered.

        Looks under the lock, which the lost connection's transaction holds for as long as it lives.
        """
        if appended is None:
            return False
        try:
            connection, _ = self._begin_writing()
            try:
                found = "SELECT 1 FROM stored_events WHERE notification_id = %s AND hash = %s"
                return connection.execute(found, (appended.position, appended.hash)).fetchone() is not None
            finally:
                roll_back(connection)
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"{self._place.shown}: the connection was lost during a commit, and the server cannot be"
                f" asked whether it happened ({reason_of(error)}); send the command again with its command id"
            ) from error

    def _told(
        self, connection: Connection[DictRow], tables: PostgresTables, error: BaseException
    ) -> BaseException:
        """What a transaction that failed tells its caller."""
        if not isinstance(error, psycopg.Error):
            return error
        first = tables.failure or error
        if is_lost(connection, error) or first.sqlstate in _GIVEN_UP:
            return TransactionLost(f"{self._place.shown}: {reason_of(first)}; nothing was stored; try again")
        return first

    @contextmanager
    def operate(self) -> Iterator[LaneTables]:
        """One transaction on the lanes, beside the writers'."""
        with translated(self._place):
            self._refuse_if_closed()
            with self._readers.connection() as connection:
                try:
                    connection.execute(_OPERATE, prepare=False)
                    yield LaneTables(PostgresStatements(connection))
                    connection.execute("COMMIT", prepare=False)
                except psycopg.Error as error:
                    if is_lost(connection, error) or error.sqlstate in _GIVEN_UP:
                        raise TransactionLost(f"{self._place.shown}: {reason_of(error)}") from error
                    raise

    # Reading.

    @contextmanager
    def read(self) -> Iterator[PostgresTables]:
        """One consistent view, on a connection of its own."""
        with translated(self._place), ExitStack() as stack:
            self._refuse_if_closed()
            connection, ends = self._begin_reading(stack)
            yield PostgresTables(
                connection, self.recorder, lambda: self._scratch(stack, connection), ends=ends
            )

    def _begin_reading(self, stack: ExitStack) -> tuple[Connection[DictRow], tuple[int, int]]:
        for is_last in (False, True):
            connection = stack.enter_context(self._readers.connection())
            try:
                return connection, _ends(connection, _LOOK)
            except psycopg.Error as error:
                if is_last or not is_lost(connection, error):
                    raise
                stack.close()
                self._readers.close_idle()
        raise AssertionError("not reached")

    def _scratch(self, stack: ExitStack, reader: Connection[DictRow]) -> Connection[DictRow]:
        """A connection that sees what a reader does, and may make temporary tables meanwhile."""
        snapshot = reader.execute("SELECT pg_export_snapshot() AS name").fetchone()
        assert snapshot is not None
        connection = stack.enter_context(self._readers.connection())
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot['name']}'")
        return connection

    def schemas(self) -> tuple[int, int]:
        with translated(self._place), self._readers.connection() as connection:
            self._refuse_if_closed()
            return _version(connection, self._place) or 0, self._schema

    def watch(self) -> "PostgresWatch":
        return PostgresWatch(self._place, self.recorder.channel_name)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"{self._place.shown}: the store was closed; open it again")

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._readers.close()
            self._writer.close()


class PostgresWatch:
    """Listens for the word that every commit sends; without a connection it waits the time out."""

    def __init__(self, place: Place, channel: str) -> None:
        self._place = place
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        with translated(place):
            self._connection: Connection[DictRow] | None = self._listening()

    def _listening(self) -> Connection[DictRow]:
        connection = connect(self._place)
        connection.execute(self._listen)
        return connection

    def wait(self, timeout_s: float) -> None:
        try:
            if self._connection is None:
                self._connection = self._listening()
                return  # Something may have been committed before it listened.
            for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
                pass
        except psycopg.OperationalError:
            self.close()
            time.sleep(timeout_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _ends(connection: Connection[DictRow], statements: bytes) -> tuple[int, int]:
    """Begin a transaction; the last position and the last key of a stream that it finds."""
    cursor = connection.cursor(row_factory=tuple_row)
    cursor.execute(statements, prepare=False)
    cursor.set_result(-1)
    row = cursor.fetchone()
    if row is None or row[0] is None:
        raise DamagedStore("the store has lost the row that counts its positions; restore a backup")
    return row[0], row[1]


# Set-up.


def _prepare(connection: Connection[DictRow], place: Place, migrations: Sequence[str]) -> str:
    """Make or migrate the store; its id."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"{place.shown}: the database is in {encoding}; make one whose encoding is UTF8"
        )
    if _version(connection, place) != len(migrations):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key,))
            version = _version(connection, place)
            _refuse_foreign(connection, place, version, len(migrations))
            if version is not None:
                connection.execute("LOCK TABLE writers_turn IN EXCLUSIVE MODE")
            elif not _is_there(connection, place):
                connection.execute(f"CREATE SCHEMA {place.quoted}".encode())
            connection.execute("".join(migrations[version or 0 :]).encode(), prepare=False)
            connection.execute("UPDATE store_schema SET version = %s", (len(migrations),))
            if version is None:
                connection.execute("INSERT INTO stores VALUES (1, %s)", (str(uuid4()),))
    row = connection.execute("SELECT store_id FROM stores ORDER BY from_position DESC LIMIT 1").fetchone()
    if row is None:
        raise DamagedStore(f"{place.shown}: the store has lost its id; restore a backup")
    return str(row["store_id"])


def _is_there(connection: Connection[DictRow], place: Place) -> bool:
    found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (place.schema,))
    return found.fetchone() is not None


def _version(connection: Connection[DictRow], place: Place) -> int | None:
    """The schema's version; None when there is none of ours."""
    found = connection.execute(
        "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'store_schema'", (place.schema,)
    )
    if found.fetchone() is None:
        return None
    row = connection.execute("SELECT version FROM store_schema").fetchone()
    return row["version"] if row else None


def _refuse_foreign(connection: Connection[DictRow], place: Place, version: int | None, newest: int) -> None:
    if version is not None and version > newest:
        raise NewerStore(
            f"{place.shown}: the store has schema {version}, this release knows up to {newest};"
            " use a newer release"
        )
    if (
        version is None
        and connection.execute(
            "SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(%s) LIMIT 1", (place.quoted,)
        ).fetchone()
    ):
        raise ForeignStore(
            f"{place.shown}: this schema was made by another program; name another one with ?schema="
        )
