"""What the writer needs of a database inside one transaction: rows in, rows out, no rules.

Each database keeps the same tables. A row is a tuple in the order of its table's columns, so that an
adapter is statements and nothing else. What the columns mean is known in `rows`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from application.ports import Listed, Watch
from domain.errors import StoreUnavailable
from domain.ids import Position, StreamId, TransactionId
from infrastructure.store.records import Record

if TYPE_CHECKING:
    from infrastructure.store.lane_tables import LaneTables

Row = tuple[Any, ...]
HEADS_MAX: Final = 1_000
"""Streams whose ends are remembered from one transaction to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table that is read and written by whole rows; the first `keys` of its columns are its primary key.

    There is one of each, so they are told apart by identity: statements and rows are often looked up by it.
    """

    name: str
    columns: tuple[str, ...]
    keys: int


SESSIONS: Final = Table(
    "sessions",
    (
        "key",
        "room",
        "session",
        "version",
        "state",
        "root_session",
        "provider_session_id",
        "is_live",
        "is_deleted",
        "updated_at",
        "last_version",
        "last_event_at",
        "message_version",
        "sequence",
        "turn_count",
        "text_count",
        "tool_call_count",
        "usage",
    ),
    1,
)
CLOCKS: Final = SESSIONS.columns[SESSIONS.columns.index("updated_at") :]
"""The columns that almost every commit changes: what a session counts and when it did so."""
SESSION_CONTENTS: Final = Table("session_contents", ("key", "content"), 1)
TURNS: Final = Table("turns", ("key", "turn_id", "version", "state", "content"), 2)
MESSAGES: Final = Table(
    "messages",
    ("key", "message_id", "version", "turn_id", "sequence", "is_open_tool", "is_text", "position", "state"),
    2,
)
PARTS: Final = Table("message_parts", ("key", "message_id", "position", "occurred_at"), 3)
INTERACTIONS: Final = Table(
    "interactions", ("key", "turn_id", "request_id", "version", "state", "content"), 3
)
AGGREGATES: Final = Table("aggregates", ("key", "kind", "name", "version", "state"), 1)

SUBSCRIPTIONS: Final = Table("subscriptions", ("name", "after", "seen"), 1)
LANES: Final = Table(
    "lanes",
    (
        "name",
        "room",
        "position",
        "attempts",
        "error",
        "at",
        "target",
        "due_at",
        "refusals",
        "resumes_at",
        "owner",
        "token",
        "until",
        "gap",
        "asked",
    ),
    2,
)
ASIDES: Final = Table(
    "asides", ("name", "position", "room", "state", "attempts", "error", "at", "redelivery"), 2
)
TRIMS: Final = Table("trims", ("name", "position"), 1)
COMMANDS: Final = Table("commands", ("key", "stream", "digest", "answer", "position", "expires_at"), 1)
TOKENS: Final = Table("tokens", ("id", "digest", "scopes", "rooms", "note", "created_at", "revoked_at"), 1)
SECRETS: Final = Table("secrets", ("subscription", "secrets"), 1)

OPERATIONS: Final = (SUBSCRIPTIONS, LANES, ASIDES, TRIMS, COMMANDS, TOKENS, SECRETS)
"""What is kept beside the log and cannot be made from it; the outbox can."""
READ_MODELS: Final = (SESSIONS, SESSION_CONTENTS, TURNS, MESSAGES, PARTS, INTERACTIONS, AGGREGATES)


_CONTROLS: Final = frozenset(("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"))


def refuse_transaction_control(statement: str) -> None:
    """Raise ValueError for a statement that would end or nest the transaction it takes part in."""
    words = statement.split(None, 1)
    if words and words[0].rstrip(";").upper() in _CONTROLS:
        raise ValueError(f"{words[0]}: the transaction is the ledger's; write only")


def listing(
    mark: str,
    room: str | None,
    after: Listed | None,
    limit: int | None,
    *,
    deleted: bool,
    column: str = "room",
) -> tuple[str, list[Any]]:
    """The end of a statement that lists sessions, and its parameters, for which `mark` stands.

    `column` is how a database spells the room's so that it reads the list in its order.
    """
    conditions: list[str] = []
    parameters: list[Any] = []
    if room is not None:
        conditions.append(f"{column} = {mark}")
        parameters.append(room)
    if not deleted:
        conditions.append("is_deleted = 0")
    if after is not None:
        changed_at, *names = after
        # In two steps, because an index helps with the first one only.
        conditions.append(f"updated_at <= {mark}")
        conditions.append(f"(updated_at < {mark} OR (room, session) > ({mark}, {mark}))")
        parameters += [changed_at, changed_at, *names]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    if limit is None:
        return f"{where}ORDER BY updated_at DESC, room, session", parameters
    return f"{where}ORDER BY updated_at DESC, room, session LIMIT {mark}", [*parameters, limit]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a stream; `key` stands for the stream in the read models."""

    key: int
    version: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record at its place in the store's order."""

    position: Position
    record: Record


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A commit's delta, waiting to be delivered or delivered; kept as it was stored."""

    transaction: TransactionId
    room: str
    first_position: Position
    last_position: Position
    recorded_at: int
    delta: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A command that committed."""

    digest: str
    """Of what it said."""
    answer: str
    """What it was answered, as JSON text."""
    position: int
    """Of its commit's last event."""


class Tables(Protocol):
    """One transaction. Reads see its own writes."""

    @property
    def lanes(self) -> "LaneTables":
        """Who delivers what, in the same transaction."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a host's own statement in the transaction; it reads nothing."""

    # The log.

    def head(self, stream: StreamId) -> Head | None: ...

    def append(self, records: Sequence[Record]) -> Sequence[Position]:
        """Store events, their contents and their streams' heads; positions ascend without a gap.

        Raises VersionConflict where a stream already has the version.
        """

    def stream(self, stream: StreamId, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        """A stream's events in order, from the version behind `after`."""

    def log(self, after: int = 0, *, contents: bool = False) -> Iterator[StoredRecord]:
        """All events in order, from the position behind `after`."""

    def heads(self) -> Iterator[tuple[StreamId, Head]]: ...

    def end(self) -> Position:
        """The last position that was given to an event; 0 when none was."""

    def stores(self) -> Sequence[tuple[int, str]]:
        """Which store ids transaction ids were made with, each from a position on; the last one counts."""

    def put_store(self, from_position: int, store_id: str) -> None:
        """Make transaction ids with a store id from a position on, and no longer from another one."""

    def content(self, position: Position) -> bytes | None:
        """The content of one event; None when it has none or it was erased."""

    def erase(self, stream: StreamId) -> None:
        """Destroy the contents and salts of a stream's events."""

    # The outbox and what is remembered.

    def put_outbox(self, row: OutboxRow) -> None: ...

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]:
        """Rows behind a position, oldest first."""

    def outbox_at(self, position: int) -> OutboxRow | None:
        """The row of the commit whose last event stands at a position."""

    def outbox_row(self, transaction: TransactionId) -> OutboxRow | None:
        """The row of a transaction; looks through the newest first, so it may take its time."""

    def remembered(self, key: str, now: int) -> Answered | None:
        """What a command that committed said, while it is remembered."""

    def remember(self, key: str, stream: StreamId, said: Answered, now: int, expires_at: int) -> None:
        """Keep what a committed command of a stream said; forgets a bounded number of expired ones."""

    def forget(self, stream: StreamId) -> None:
        """Forget every command of a stream, since what they remember tells something of its content."""

    # Snapshots.

    def snapshot(self, stream: StreamId) -> tuple[int, bytes] | None:
        """The newest snapshot of a stream: its version and the state."""

    def put_snapshot(self, stream: StreamId, version: int, state: bytes) -> None:
        """Keep a snapshot in place of older ones; does nothing where a newer one stands."""

    # Deliveries.

    def put_subscription(self, name: str, after: int) -> None:
        """Begin a subscription; an existing one stays as it is."""

    def subscriptions(self) -> Sequence[str]: ...

    def pending(self, name: str, after: int, limit: int) -> Sequence[OutboxRow]:
        """Outbox rows that a subscription has not had, oldest first."""

    def put_lane(self, name: str, room: str, position: int, attempts: int, error: str, at: int) -> None:
        """Note how far a room was handed over to a subscription, and what its next row has met with."""

    def lane(self, name: str, room: str) -> tuple[int, int, str] | None:
        """Position handed over last, attempts at the next row, and the last error."""

    def outbox_end(self) -> int:
        """The position of the last row; 0 when there is none."""

    # Read models.

    def get(self, table: Table, *keys: Any) -> Row | None: ...

    def put(self, table: Table, row: Row) -> None: ...

    def put_clocks(self, key: int, clocks: Row) -> None:
        """Change the CLOCKS of a session's row and nothing else."""

    def remove_session(self, key: int) -> None:
        """Remove every read-model row of a session, also from read models that are being made anew."""

    def session_by_id(self, room: str, session: str) -> Row | None: ...

    def sessions(
        self, room: str | None, *, deleted: bool, after: Listed | None, limit: int | None
    ) -> Sequence[Row]:
        """Rows of SESSIONS, the ones that changed last first."""

    def rooms_of(self, session: str) -> Sequence[str]: ...

    def rooms(self, after: str, limit: int) -> Sequence[Row]:
        """Rooms that have sessions, how many are not deleted, and when one changed last; by name."""

    def aggregates(self, kind: str) -> Sequence[Row]:
        """Rows of AGGREGATES of one kind, by name."""

    def rows(self, table: Table) -> Iterator[Row]:
        """Every row of a table in the order of its key, for comparing and copying."""

    def shadow(self, name: str = "") -> "Tables":
        """This transaction with other, empty read models: beside the live ones; temporary without a name."""

    def reopen_shadow(self, name: str) -> "Tables":
        """This transaction with the read models that an earlier one made beside the live ones.

        Raises StoreBusy when they are gone, because another rebuild was done in the meantime.
        """

    def swap_shadow(self, name: str) -> None:
        """Put read models that stand beside the live ones in their place, and drop all others that do."""

    def tree(self, room: str, root: str) -> Sequence[Row]:
        """Rows of SESSIONS: a root and every session that names it as its root."""

    def live_sessions(self, room: str) -> Sequence[Row]:
        """Rows of SESSIONS with a live or queued turn, by session id."""

    def by_provider_session(self, room: str, provider_session_id: str) -> Sequence[Row]: ...

    def turns(self, key: int) -> Sequence[Row]: ...

    def interactions(self, key: int, turn_id: str | None = None) -> Sequence[Row]: ...

    def open_tools(self, key: int, turn_id: str) -> Sequence[Row]: ...

    def last_assistant_text(self, key: int, turn_id: str, after: int) -> Row | None:
        """The turn's assistant text with the highest version above `after`."""

    def messages_of(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        """Rows of MESSAGES of some messages of a session, in any order."""

    def messages_after(self, key: int, version: int, limit: int) -> Sequence[Row]:
        """Rows of MESSAGES above a message version, lowest first."""

    def messages_before(self, key: int, version: int, limit: int) -> Sequence[Row]:
        """Rows of MESSAGES below a message version, highest first."""

    def parts(self, key: int, message_ids: Sequence[str]) -> Sequence[Row]:
        """Rows of PARTS of some messages of a session, in any order."""

    def part_records(self, positions: Sequence[int]) -> Sequence[StoredRecord]:
        """The events at these positions with their contents, oldest first."""


class Database(Protocol):
    """A place that keeps the tables."""

    store_id: str
    errors: tuple[type[Exception], ...]
    """What it raises when it cannot do its work: trouble of the whole transaction, not of one decision."""

    def write(self) -> AbstractContextManager[Tables]:
        """One writing transaction, the only one at a time; stored when it ends well, else nothing is.

        Raises TransactionLost when the connection to the database went away on the way.
        """

    def operate(self) -> "AbstractContextManager[LaneTables]":
        """One transaction on the lanes alone, which waits for no disk.

        It is whole or not there, but when the machine crashes the newest ones may be lost.
        """

    def read(self) -> AbstractContextManager[Tables]:
        """One consistent view."""

    def watch(self) -> Watch:
        """Something to wait with for commits of any process."""

    def schemas(self) -> tuple[int, int]:
        """How the tables are now, which a newer release may change, and how this release has them."""

    def close(self) -> None: ...


RUNS_MAX: Final = 3
"""How often a transaction is begun that gets lost."""
T = TypeVar("T")


class TransactionLost(StoreUnavailable):
    """A server gave a transaction up, or went away with it; nothing was stored, so it can be run again."""


def in_transaction(database: Database, work: Callable[[Tables], T]) -> T:
    """Do `work` in a writing transaction, and again in another one when that was lost."""
    for _ in range(RUNS_MAX - 1):
        try:
            with database.write() as tables:
                return work(tables)
        except TransactionLost:
            continue
    with database.write() as tables:
        return work(tables)
