"""What can be asked of the record: reports and commands in, sessions, messages, history and deltas out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from application import commands
from application.causes import Cause, why
from application.commands import Command, R, Rule, decision
from application.delivery import Delivery
from application.finding import Found, Wanted, find
from application.following import Following
from application.past import Comparison, compare, state_at
from application.ports import (
    Clock,
    CommandKey,
    Committed,
    Decide,
    Listed,
    Observer,
    OutboxEntry,
    SessionRow,
    Store,
    StoredEvent,
    Verification,
)
from application.subscriptions import Subscriptions
from application.views import (
    AgentView,
    MessagePage,
    MessageReply,
    Reply,
    RoomSummary,
    SessionSummary,
    SessionView,
    StateReply,
    agent_view,
    interaction_view,
    message_view,
    room_summary,
    session_summary,
    session_view,
    turn_view,
)
from domain import tree_rules
from domain.delta import CommittedDelta
from domain.errors import NotFound, Rejected
from domain.ids import MessageVersion, Position, RoomId, SessionId, TransactionId
from domain.reports import MessageReport, StateReport

PAGE_LIMIT_MAX: Final = 500
"""Messages in one page (SPEC M10)."""
PAGE_BYTES_MAX: Final = 3 * 2**19
"""Stored bytes of messages after which a page ends early (SPEC M10)."""


@dataclass(frozen=True)
class Ledger:
    """The record of what coding agents do, on one store."""

    store: Store
    delivery: Delivery
    clock: Clock

    # Reports.

    def report_state(
        self,
        report: Mapping[str, Any] | StateReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> StateReply:
        """Take one atomic report about a session (WIRE "State report").

        Raises Rejected when it can never succeed unchanged; then nothing of it was stored.
        """
        return self._do(commands.report_state(report, room, session, command_id, caller))

    def report_messages(
        self,
        report: Mapping[str, Any] | MessageReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> MessageReply:
        """Take a batch of message updates of one session (WIRE "Message report").

        Raises Rejected when one of them can never succeed unchanged; then nothing of it was stored.
        """
        return self._do(commands.report_messages(report, room, session, command_id, caller))

    # Commands.

    def answer(
        self,
        room: str,
        session: str,
        turn: str,
        request: str,
        output: Mapping[str, Any],
        *,
        command_id: str = "",
    ) -> Reply:
        """Answer a pending interaction; raises Rejected("conflict") when it was answered otherwise."""
        return self._do(commands.answer(room, session, turn, request, output, command_id))

    def request_cancel(self, room: str, session: str, turn: str, *, command_id: str = "") -> Reply:
        """Record that a turn is wanted to end; the runtime's own report settles it."""
        return self._do(commands.request_cancel(room, session, turn, command_id))

    def set_title(self, room: str, session: str, title: str, *, command_id: str = "") -> Reply:
        """Set a session's title for good: later reports do not change it."""
        return self._do(commands.set_title(room, session, title, command_id))

    def set_settings(
        self, room: str, session: str, settings: Mapping[str, Any], *, command_id: str = ""
    ) -> Reply:
        """Replace a session's settings as a whole."""
        return self._do(commands.set_settings(room, session, settings, command_id))

    def set_pin(self, room: str, session: str, *, pinned: bool, command_id: str = "") -> Reply:
        """Pin a session, or take the pin away."""
        return self._do(commands.set_pin(room, session, command_id, pinned=pinned))

    def delete(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Delete a session with all its descendants; an unknown one is ignored."""
        return self._do(commands.delete(room, session, command_id))

    def restore(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Bring back exactly what was deleted together with a session."""
        return self._do(commands.restore(room, session, command_id))

    def purge(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """Destroy the content of a session and its descendants for good; its facts stay."""
        return self._do(commands.purge(room, session, command_id))

    def settle(self, room: str) -> tuple[Reply, ...]:
        """Settle every turn that a host left over when it died; for the host that owns the room.

        Sessions that live elsewhere are left to their home. One commit per session, children before parents;
        running it again settles nothing.
        """
        where = RoomId(room)
        live = [state for state in self.store.live_sessions(where) if not state.home]
        tree = {row.state.session: row.state for row in self.store.sessions(where)} if live else {}
        deepest_first = sorted(live, key=lambda state: (-tree_rules.level(tree, state), state.session))
        return tuple(self._do(commands.settle(where, state.session)) for state in deepest_first)

    def do(self, command: Command[R], *, caller: str = "", if_version: int | None = None) -> R:
        """Do a command of a caller, if its session is still at a stream version; else it raises Outdated."""
        return self._do(commands.meant(command, caller, if_version))

    # Reading.

    @property
    def home(self) -> str:
        """The id of this store: its sessions are at home here; a restored store has another one (SPEC P6)."""
        return self.store.ids()[-1]

    def agents(self, room: str, origin: str = "", user: str = "", device: str = "") -> tuple[AgentView, ...]:
        """The sessions of a room as the ancestor's clients list them, the ones that changed last first."""
        home = self.home
        rows = self.store.sessions(RoomId(room), deleted=False)
        asked = (("origin", origin), ("user_id", user), ("device_id", device))
        wanted = [(name, value) for name, value in asked if value]
        return tuple(
            agent_view(row, home)
            for row in rows
            if all(getattr(row.state, name) == value for name, value in wanted)
        )

    def session(self, room: str, session: str) -> SessionView | None:
        """A session as it is now, deleted or not; None when there is none."""
        ids = RoomId(room), SessionId(session)
        row = self.store.session(*ids)
        if row is None:
            return None
        turns = tuple(turn_view(turn) for turn in self.store.turns(*ids))
        return session_view(row, turns, tuple(map(interaction_view, self.store.interactions(*ids))))

    def sessions(
        self,
        room: str | None = None,
        *,
        deleted: bool = False,
        after: SessionSummary | None = None,
        limit: int | None = None,
    ) -> tuple[SessionSummary, ...]:
        """The sessions of a room, or of all, the ones that changed last first: all, or `limit` behind one.

        Raises Rejected for a limit that is no positive number.
        """
        if limit is not None and limit < 1:
            raise Rejected("invalid", "command", "", f"limit is {limit}; give at least 1, or none for all")
        place = (after.updated_at_unix_ms, after.room, after.session) if after else None
        where = None if room is None else RoomId(room)
        rows = self.store.sessions(where, deleted=deleted, after=place, limit=limit)
        return tuple(map(session_summary, rows))

    def messages(
        self, room: str, session: str, after: int = 0, limit: int = 100, *, before: int | None = None
    ) -> MessagePage:
        """A page of messages above `after`, or the highest ones below `before` (0: from the end).

        Raises NotFound for an unknown session and Rejected for a limit that is no positive number.
        """
        if limit < 1:
            raise Rejected("invalid", "command", "", f"limit is {limit}; give 1 to {PAGE_LIMIT_MAX}")
        ids = RoomId(room), SessionId(session)
        if self.store.session(*ids) is None:
            raise NotFound(f"no session {session} in room {room}")
        cursor = MessageVersion(after if before is None else before)
        read = self.store.messages_after if before is None else self.store.messages_before
        found = read(*ids, cursor, min(limit, PAGE_LIMIT_MAX), PAGE_BYTES_MAX)
        views = tuple(message_view(session, row) for row in found.rows)
        latest = max((view.version for view in views), default=cursor)
        return MessagePage(messages=views, latest_version=latest, has_more=found.has_more)

    def find(
        self, wanted: Wanted, room: str | None = None, after: Listed | None = None, limit: int = 100
    ) -> Found:
        """The sessions of a room, or of all, that are wanted: a page of at most `limit`."""
        where = None if room is None else RoomId(room)

        def page(place: Listed | None, rows: int) -> Sequence[SessionRow]:
            return self.store.sessions(where, deleted=False, after=place, limit=rows)

        return find(page, wanted, after, limit)

    def rooms(self, after: str = "", limit: int = 100) -> tuple[RoomSummary, ...]:
        """The rooms that have sessions, by name, from behind one."""
        return tuple(map(room_summary, self.store.rooms(after, limit)))

    def session_at(
        self, room: str, session: str, *, version: int | None = None, at_ms: int | None = None
    ) -> SessionView:
        """A session as it was at a stream version or a time; raises NotFound where there was none."""
        return state_at(room, session, self.events(room, session), version, at_ms)

    def compare(self, room: str, session: str, first: int, second: int) -> Comparison:
        """Compare two stream versions of a session; raises NotFound where there is none."""
        return compare(room, session, self.events(room, session), first, second)

    def why(self, room: str, session: str) -> Cause:
        """Why a session has its status; raises NotFound for an unknown one."""
        return why(room, session, self.events(room, session))

    def commits(self, after: int = 0, limit: int = 100) -> tuple[CommittedDelta, ...]:
        """The deltas of at most so many commits, in commit order, from the position behind `after`."""
        return tuple(islice(self.deltas(after), limit))

    def commit(self, transaction: str) -> CommittedDelta:
        """The delta of one commit; raises NotFound when there is none."""
        delta = self.store.delta(TransactionId(transaction))
        if delta is None:
            raise NotFound(f"no delta of transaction {transaction}")
        return delta

    def events(self, room: str, session: str, after: int = 0) -> Iterator[StoredEvent]:
        """A session's history, oldest first."""
        return self.store.events(RoomId(room), SessionId(session), after)

    def deltas(self, after: int = 0) -> Iterator[CommittedDelta]:
        """Every commit's delta, in commit order, from the position behind `after`."""
        return self.store.deltas(Position(after))

    def follow(self, after: int = 0) -> Following:
        """Every delta from the position behind `after`, and then each one as it is committed.

        Iterate over it, on a thread of its own; `stop` ends that within half a second.
        """
        return Following(self.store, Position(after))

    def room_of(self, session: str) -> str:
        """The one room that has a session of this id; raises NotFound when none or several have."""
        rooms = self.store.rooms_of(SessionId(session))
        if not rooms:
            raise NotFound(f"no session {session}; `reprise sessions list` shows them all")
        if len(rooms) > 1:
            raise NotFound(
                f"session {session} is in several rooms ({', '.join(rooms)}); say which with --room"
            )
        return rooms[0]

    # Deliveries.

    def subscribe(self, observer: Observer, name: str, after: int | None = None) -> None:
        """Hand every delta to an observer right after its commit.

        A subscription is known by its name and remembers across restarts what its observer has taken.
        A new one begins behind the position `after`, by default at the end. What its observer did not
        take stays pending until `redeliver`.
        """
        self.delivery.subscribe(name, observer, None if after is None else Position(after))

    def redeliver(self, name: str, transaction: str = "") -> int:
        """Hand an observer all that is pending for it, or one commit's delta again; how many it took."""
        if not transaction:
            return self.delivery.redeliver(name)
        delta = self.store.delta(TransactionId(transaction))
        if delta is None:
            raise NotFound(f"no delta of transaction {transaction}; `reprise outbox` lists them")
        return int(self.delivery.redeliver_one(name, delta))

    def outbox(self, *, pending: bool = False) -> Iterator[OutboxEntry]:
        """The deltas of the outbox, or those that a subscription has not had."""
        return self.delivery.deliveries.outbox(pending=pending)

    @property
    def subscriptions(self) -> Subscriptions:
        """The destinations of deltas that a worker serves, and what has become of their deltas."""
        return Subscriptions(self.store, self.store.lanes, self.delivery.deliveries, self.clock)

    # Operation.

    def rebuild(self) -> int:
        """Make the read models anew from the log; the number of events read."""
        return self.store.rebuild()

    def verify(self) -> Verification:
        """Check the log, the outbox and the read models against each other; writes nothing."""
        return self.store.verify()

    def close(self) -> None:
        """Finish what is under way and let the store go."""
        self.store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How every command is decided and stored.

    def _do(self, command: Command[R]) -> R:
        return command.reply(self._submit(command.decide(self.clock.now_ms)))

    def run(self, room: RoomId, rule: Rule, key: CommandKey | None = None, digest: str = "") -> Committed:
        """Decide a rule that is none of the commands above, and store what it comes to."""
        return self._submit(decision(room, rule, self.clock.now_ms, key, digest))

    def rehearse(self, room: RoomId, rule: Rule) -> Committed:
        """Say what a rule would come to, and store nothing."""
        return self.store.submit(decision(room, rule, self.clock.now_ms, stores=False))

    def _submit(self, decide: Decide) -> Committed:
        committed = self.store.submit(decide)
        if committed.delta and self.delivery.has_observers:
            self.delivery.notify()
        return committed
