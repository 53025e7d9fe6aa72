"""What the use cases need of the world."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from application.lanes import Lanes, LaneWriter
from application.signing import SigningSecrets
from domain.aggregate import Held, Kind
from domain.delta import CommitDelta, CommittedDelta
from domain.event import Content, Event
from domain.ids import MessageVersion, Position, RoomId, SessionId, TransactionId
from domain.interaction import Interaction
from domain.message import Message
from domain.session import Session
from domain.turn import Turn
from domain.work import Source, Stored, Work

S = TypeVar("S")


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class CommandKey:
    """Whose command of what kind it is; the scope in which a command id is unique (SPEC C4)."""

    kind: str
    room: RoomId
    session: SessionId
    id: str
    caller: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A command that committed before: what it said, and what it was answered."""

    digest: str
    answer: Mapping[str, Any]
    position: Position
    """Of its commit's last event."""


class Loader(Protocol):
    """What a decision may look at, exact as of the transaction it is made in."""

    def session(self, room: RoomId, session: SessionId) -> tuple[Session, Stored]:
        """The state and rows of a session; an unknown one is at version 0."""

    def tree(self, room: RoomId, root: SessionId) -> Sequence[Session]:
        """A root and every reported session that names it as its root."""

    def by_provider_session(self, room: RoomId, provider_session_id: str) -> Sequence[Session]:
        """The sessions of a room with this provider session id that are not deleted."""

    def remembered(self, key: CommandKey) -> Remembered | None:
        """What a committed command was answered, while it is remembered."""

    def aggregate(self, kind: Kind[S], key: str) -> Held[S]:
        """An aggregate beside the sessions; an unknown one is at version 0."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a decision adds to an aggregate beside the sessions; it makes no delta (SPEC C9)."""

    kind: Kind[Any]
    held: Held[Any]
    """The aggregate as it was looked at."""
    events: Sequence[Event]
    recorded_at: int
    """Unix milliseconds."""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command comes to: its events, if any, and its answer but for the transaction id."""

    answer: Mapping[str, Any]
    work: Work | None = None
    key: CommandKey | None = None
    """Remember the answer under this key, if the command commits."""
    digest: str = ""
    repeats: Position = Position(0)
    """The commit whose answer this repeats: the position of its last event."""
    changes: Sequence[Change] = ()
    """Of aggregates beside the sessions, each of another one; those without events are no news."""
    operate: Callable[[LaneWriter], None] | None = None
    """What else is changed in the transaction that stores the events; not called when there are none."""


Decide = Callable[[Loader], Decision]


@dataclass(frozen=True, slots=True)
class Committed:
    """A command's answer, and its delta if it changed an entity."""

    answer: Mapping[str, Any]
    delta: CommittedDelta | None = None
    events: int = 0
    """How many events it stored."""
    repeats: bool = False
    """Whether it is the answer that the same command was given before."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event of the history, with all that is known of it."""

    position: Position
    version: int
    topic: str
    recorded_at: int
    room: RoomId
    session: SessionId
    transaction: TransactionId
    event: Event
    """Its content is None when it has none or it was erased."""
    is_erased: bool
    key: str = ""
    """What an aggregate beside the sessions is known by; such an event has no room and no session."""
    command_id: str = ""
    actor: str = ""
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class SealedEvent:
    """An event byte for byte, as the chain of hashes has it (SPEC A3)."""

    event: StoredEvent
    facts: bytes
    salt: bytes
    content: bytes | None
    """None when it has none or it was erased."""
    previous_hash: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the read model has it."""

    state: Session
    content: Content


@dataclass(frozen=True, slots=True)
class RoomRow:
    """A room, as far as its sessions tell of it."""

    room: RoomId
    sessions: int
    updated_at: int


Listed = tuple[int, str, str]
"""The place of a session in the list of them: when it changed last, its room, its id."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as the read model has it, with what it says."""

    message: Message
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Messages of a page, and whether there are more behind them."""

    rows: tuple[MessageRow, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A commit's delta in the outbox, and which subscriptions have not had it."""

    committed: CommittedDelta
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is for somebody who follows the commits."""

    kept_behind: Position
    """Every delta behind this position is kept; of those up to it some were removed."""
    end: Position
    """The last position that was given to an event."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something `verify` found."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` read, and what is wrong with it."""

    streams: int
    events: int
    outbox: int
    problems: tuple[Problem, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not self.problems


class Store(Protocol):
    """Where commits are kept. Every method that stores does it whole or not at all."""

    @property
    def lanes(self) -> Lanes:
        """Who delivers what, and how far everybody has come."""

    @property
    def secrets(self) -> SigningSecrets:
        """What webhooks are signed with."""

    def submit(self, decide: Decide) -> Committed:
        """Decide and store in one transaction (SPEC C2).

        Raises Rejected as the decision does, and StoreError when the store cannot do its work.
        """

    def session(self, room: RoomId, session: SessionId) -> SessionRow | None: ...

    def sessions(
        self,
        room: RoomId | None = None,
        *,
        deleted: bool = True,
        after: Listed | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """Sessions of a room, or all, the ones that changed last first, from behind one in that order."""

    def rooms_of(self, session: SessionId) -> Sequence[RoomId]:
        """The rooms that have a session of this id."""

    def rooms(self, after: str, limit: int) -> Sequence[RoomRow]:
        """The rooms that have sessions which are not deleted, by name, from behind one."""

    def live_sessions(self, room: RoomId) -> Sequence[Session]:
        """Sessions with a live or queued turn."""

    def turns(self, room: RoomId, session: SessionId) -> Sequence[Turn]: ...

    def interactions(self, room: RoomId, session: SessionId) -> Sequence[Interaction]: ...

    def messages_after(
        self, room: RoomId, session: SessionId, version: MessageVersion, limit: int, bytes_max: int
    ) -> MessageRows:
        """Messages above a message version, lowest first; one at least, whatever its stored bytes."""

    def messages_before(
        self, room: RoomId, session: SessionId, version: MessageVersion, limit: int, bytes_max: int
    ) -> MessageRows:
        """Messages below a message version, highest first; 0 means from the end."""

    def events(self, room: RoomId, session: SessionId, after: int = 0) -> Iterator[StoredEvent]:
        """A session's history, oldest first, from the version behind `after`."""

    def sealed(self, room: RoomId, session: SessionId) -> Iterator[SealedEvent]:
        """A session's history byte for byte, oldest first."""

    def ids(self) -> Sequence[str]:
        """Every store id this store ever had: a restored or copied one has those of what it was made of."""

    def aggregate(self, kind: Kind[S], key: str) -> Held[S]:
        """An aggregate beside the sessions as it stands; an unknown one is at version 0."""

    def aggregates(self, kind: Kind[S]) -> Sequence[Held[S]]:
        """All aggregates of a kind, by key."""

    def history(self, kind: Kind[Any], key: str, after: int = 0) -> Iterator[StoredEvent]:
        """The events of an aggregate beside the sessions, from the version behind `after`."""

    def deltas(self, after: Position = Position(0)) -> Iterator[CommittedDelta]:
        """Every delta, in commit order, from the position behind `after`.

        Raises Trimmed when some of them are no longer kept.
        """

    def delta(self, transaction: TransactionId) -> CommittedDelta | None: ...

    def extent(self) -> Extent:
        """Which deltas `deltas` can give."""

    def watch(self) -> "Watch":
        """Something to wait with for what is committed from now on, by any process."""

    def rebuild(self) -> int:
        """Make the read models anew from the log; the number of events read."""

    def verify(self) -> Verification:
        """Check the log, the outbox and the read models against each other."""

    def close(self) -> None: ...


class Watch(Protocol):
    """Waits for commits; for one thread."""

    def wait(self, timeout_s: float) -> None:
        """Return once something may have been committed since the last call, or when the time is over."""

    def close(self) -> None: ...


Observer = Callable[[CommittedDelta], None]
"""Is handed deltas after their commit; raises to say that it did not take one."""


class Deliveries(Protocol):
    """How far each subscription has been handed what the outbox holds."""

    def subscribe(self, name: str, after: Position | None) -> None:
        """Begin a subscription behind a position, None for the end; an existing one keeps its progress."""

    def subscriptions(self) -> Sequence[str]: ...

    def pending(self, name: str, after: Position = Position(0), limit: int = 100) -> Sequence[CommittedDelta]:
        """Deltas that the subscription has not had, oldest first."""

    def delivered(self, name: str, room: RoomId, position: Position) -> None:
        """Mark a room as handed over up to a position."""

    def failed(self, name: str, room: RoomId, error: str) -> None:
        """Count a failed attempt at a room's next delta; it stays pending."""

    def end(self) -> Position:
        """The position of the last delta."""

    def outbox(self, *, pending: bool = False) -> Iterator[OutboxEntry]: ...


class Participant(Protocol):
    """A host's own part in every commit, in the same transaction; if it raises, nothing is stored."""

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        """Write with `execute(statement, parameters)`; called for each commit, again where it was lost.

        Parameters stand in a statement as the database has it: `?` on SQLite, `%s` on PostgreSQL.
        """
