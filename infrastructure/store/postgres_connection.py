"""Connections to a PostgreSQL server: where a store is, how to get there, and what its errors mean."""

import re
import select
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from threading import BoundedSemaphore, Lock
from typing import Any, Final
from urllib.parse import unquote

import psycopg
from psycopg import Connection
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from domain.errors import DamagedStore, StoreBusy, StoreError, StoreFull, StoreUnavailable

SCHEMA: Final = "reprise"
"""The schema of a store whose address names none."""
NAME_BYTES_MAX: Final = 63
"""The server cuts longer names."""
CONNECT_TIMEOUT_S: Final = 3
"""How long the server may take to answer, and how long it may be gone before that is an error."""
CONNECT_PAUSE_S: Final = 0.05
"""Between two attempts to reach a server that was there a moment ago."""
LOCK_TIMEOUT_S: Final = 60
"""How long a writer waits for others before it gives up with StoreBusy."""
IDLE_TIMEOUT_S: Final = 30
"""How long a transaction may do nothing before the server ends it: a writer that is gone without a word
holds up the others for so long at the most."""
READERS_MAX: Final = 16
IDLE_READERS_MAX: Final = 4
"""Readers' connections that are kept for the next one."""
STATEMENTS_MAX: Final = 400
"""Statements that a connection keeps prepared; there are fewer, but for those of a rebuild."""
_DEFAULTS: Final = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "fallback_application_name": "reprise",
    # A server that is gone without a word is missed after 25 s, or 10 s when it owes an answer.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

_SCHEMA_IN_URL: Final = re.compile(r"(?<=[?&])schema=([^&]*)&?")
_UNREADABLE: Final = (
    "the PostgreSQL address cannot be read; give postgresql://user@host:port/database?schema=name,"
    " with %40 for @, %2F for / and %3A for : in a user or password"
)


@dataclass(frozen=True)
class Place:
    """Where a store is: how to connect, which schema, and how to name it without the password."""

    parameters: dict[str, Any]
    schema: str
    shown: str

    @property
    def lock_key(self) -> int:
        """The advisory lock under which the schema is made and migrated."""
        return int.from_bytes(sha256(self.schema.encode()).digest()[:8], "big", signed=True)

    @property
    def quoted(self) -> str:
        """The schema's name as it stands in a statement."""
        return '"' + self.schema.replace('"', '""') + '"'


def place_of(url: str) -> Place:
    """Read an address; it is never repeated in an error, because it may hold a password."""
    named = _SCHEMA_IN_URL.search(url)
    if named:
        url = (url[: named.start()] + url[named.end() :]).rstrip("?&")
    try:
        given = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        raise StoreUnavailable(_UNREADABLE) from None
    host, port, database = (str(given.get(name, "")) for name in ("host", "port", "dbname"))
    if "@" in host + database or not re.fullmatch(r"[\d,]*", port):
        raise StoreUnavailable(_UNREADABLE)
    schema = unquote(named[1]) if named else SCHEMA
    shown = f"postgresql://{host}{port and f':{port}'}/{database}"
    if not schema.strip() or "\0" in schema or len(schema.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise StoreUnavailable(
            f"{shown}: the name of a schema has 1 to {NAME_BYTES_MAX} bytes; give ?schema=name"
        )
    parameters = {**_DEFAULTS, **given, "client_encoding": "utf8"}
    return Place(parameters, schema, f"{shown} (schema {schema})")


# What errors mean.

_LOST: Final = (
    "57P01",  # ended by an administrator
    "57P02",  # another backend crashed
    "57P03",  # starting up or shutting down
    "57P05",  # idle for too long
    "25P03",  # idle in a transaction for too long
)


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Say in our words what PostgreSQL says in codes."""
    try:
        yield
    except psycopg.Error as error:
        raise translation(place, error) from error


def reason_of(error: psycopg.Error) -> str:
    """What is wrong, without the details, which may repeat values."""
    said = error.diag.message_primary or str(error).split("DETAIL:")[0]
    return " ".join(said.split()) or type(error).__name__


def translation(place: Place, error: psycopg.Error) -> StoreError:
    state, reason = error.sqlstate or "", reason_of(error)
    match state[:2], state:
        case _, "55P03":
            return StoreBusy(f"{place.shown}: others have held the store for {LOCK_TIMEOUT_S} s; try again")
        case _, "53100":
            return StoreFull(f"{place.shown}: no room left; nothing was stored; free some and try again")
        case _, "53300":
            return StoreBusy(f"{place.shown}: {reason}; try again, or allow more connections")
        case _, "57014" | "40001" | "40P01":
            return StoreBusy(f"{place.shown}: {reason}; nothing was stored; try again")
        case _, "42P01" | "3F000":
            return StoreUnavailable(f"{place.shown}: {reason}; was the store moved or dropped?")
        case _, "42501" | "25006":
            return StoreUnavailable(f"{place.shown}: {reason}; check what the user may do here")
        case "XX", "XX001" | "XX002":
            return DamagedStore(f"{place.shown}: the database is damaged ({reason}); restore a backup")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(f"{place.shown}: {reason}; look at the server")
    return StoreError(f"{place.shown}: {reason}")


def is_lost(connection: Connection[DictRow], error: BaseException) -> bool:
    """Whether the error is that the connection has gone."""
    return isinstance(error, psycopg.Error) and (connection.closed or error.sqlstate in _LOST)


# Connections.


def _adapters() -> AdaptersMap:
    """Numbers go as what the columns are, so that a statement has one plan whatever the numbers' sizes."""
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    return adapters


_ADAPTERS: Final = _adapters()
_SESSION: Final = b"""
    SELECT set_config('search_path', %s || ', ' || current_setting('search_path'), false),
        set_config('lock_timeout', %s, false),
        set_config('idle_in_transaction_session_timeout', %s, false),
        set_config('jit', 'off', false),
        CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', false) END
"""
"""What holds for each of our connections. An acknowledged commit is on the disk, whatever the default."""


class _NoConnection(psycopg.OperationalError):
    """The server cannot be reached, or does not let us in."""


def connect(place: Place) -> Connection[DictRow]:
    """A new connection, on which nothing is committed but by an explicit COMMIT."""
    try:
        connection = Connection.connect(
            **place.parameters, autocommit=True, row_factory=dict_row, context=_ADAPTERS
        )
    except psycopg.Error as error:
        raise _NoConnection(reason_of(error)) from None  # Its details repeat the address.
    connection.prepared_max = STATEMENTS_MAX
    settings = (place.quoted, f"{LOCK_TIMEOUT_S}s", f"{IDLE_TIMEOUT_S}s")
    try:
        connection.execute(_SESSION, settings, prepare=False)
    except BaseException:
        connection.close()
        raise
    return connection


def reconnect(place: Place) -> Connection[DictRow]:
    """Connect to a server that was there a moment ago, and is perhaps being restarted."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            return connect(place)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(CONNECT_PAUSE_S)


def is_usable(connection: Connection[DictRow]) -> bool:
    """Whether an idle connection is in order, as far as that shows without asking the server."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)  # A server that speaks unasked says goodbye.


def roll_back(connection: Connection[DictRow]) -> None:
    """End a transaction of which nothing is to be kept; a connection that cannot is closed."""
    if connection.closed:
        return
    try:
        connection.execute("ROLLBACK", prepare=False)
    except psycopg.Error:
        connection.close()


class Readers:
    """Connections for readers, made when they are needed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._slots = BoundedSemaphore(READERS_MAX)
        self._idle: deque[Connection[DictRow]] = deque()
        self._lock = Lock()
        self._is_closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection[DictRow]]:
        """A connection for a while; what is left of a transaction then is rolled back."""
        if not self._slots.acquire(timeout=LOCK_TIMEOUT_S):
            raise StoreBusy(f"{self._place.shown}: too many readers for {LOCK_TIMEOUT_S} s; try again")
        try:
            connection = self._take() or reconnect(self._place)
            try:
                yield connection
            finally:
                roll_back(connection)
                self._put_back(connection)
        finally:
            self._slots.release()

    def _take(self) -> Connection[DictRow] | None:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if is_usable(connection):
                    return connection
                connection.close()
        return None

    def _put_back(self, connection: Connection[DictRow]) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < IDLE_READERS_MAX and is_usable(connection):
                self._idle.append(connection)
                return
        connection.close()

    def close_idle(self) -> None:
        """Keep no connection for the next reader: where one is lost, the others may be."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.close_idle()
