"""The ledger for asyncio: no call of it reads or writes the store on the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, TypeVar

from application import access, commands
from application.access import Token, Tokens
from application.aggregates import Changing
from application.causes import Cause
from application.commands import Command, R, Rule, decision
from application.finding import Found, Wanted
from application.ledger import Ledger
from application.mirroring import is_pulled
from application.past import Comparison
from application.ports import (
    Committed,
    Decide,
    Extent,
    Listed,
    Observer,
    OutboxEntry,
    StoredEvent,
    Verification,
)
from application.rooms import Rooms
from application.status import Backlog, StatusView, backlog_of, status_of
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
)
from domain.aggregate import Held, Kind
from domain.delta import CommittedDelta
from domain.event import Event
from domain.ids import Position, RoomId, SessionId
from domain.reports import MessageReport, StateReport
from domain.session import Session
from infrastructure.answers import Answers
from infrastructure.store.event_store import EventStore

READERS_MAX: Final = 16
"""Reads that run side by side; more wait for their turn."""
PAGE_MAX: Final = 500
"""Rows that are taken from a thread at once."""

S = TypeVar("S")
T = TypeVar("T")


class AsyncLedger:
    """What `Ledger` offers, each call to be awaited; made by `open_ledger_async`.

    A report or command is checked at once, waits in the writer's queue without a thread of its own, and is
    answered when it is durable. Raises what `Ledger` raises, and Overloaded when too many wait already. A
    task that is cancelled while its command waits takes the command back; one that has begun is finished.

    Observers are called by one thread behind the answers, so that a slow one delays no caller.
    """

    def __init__(self, ledger: Ledger, store: EventStore) -> None:
        self._ledger = ledger
        self._store = store
        self._readers = ThreadPoolExecutor(READERS_MAX, "reprise-reader")
        self._observers = ThreadPoolExecutor(1, "reprise-observer")
        self._answers: Answers | None = None
        self._is_notifying = False
        self._is_closed = False

    @property
    def blocking(self) -> Ledger:
        """The ledger itself, for what has threads of its own."""
        return self._ledger

    # Reports and commands.

    async def report_state(
        self,
        report: Mapping[str, Any] | StateReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> StateReply:
        """See `Ledger.report_state`."""
        return await self._do(commands.report_state(report, room, session, command_id, caller))

    async def report_messages(
        self,
        report: Mapping[str, Any] | MessageReport,
        *,
        room: str = "",
        session: str = "",
        command_id: str = "",
        caller: str = "",
    ) -> MessageReply:
        """See `Ledger.report_messages`."""
        return await self._do(commands.report_messages(report, room, session, command_id, caller))

    async def answer(
        self,
        room: str,
        session: str,
        turn: str,
        request: str,
        output: Mapping[str, Any],
        *,
        command_id: str = "",
    ) -> Reply:
        """See `Ledger.answer`."""
        return await self._do(commands.answer(room, session, turn, request, output, command_id))

    async def request_cancel(self, room: str, session: str, turn: str, *, command_id: str = "") -> Reply:
        """See `Ledger.request_cancel`."""
        return await self._do(commands.request_cancel(room, session, turn, command_id))

    async def set_title(self, room: str, session: str, title: str, *, command_id: str = "") -> Reply:
        """See `Ledger.set_title`."""
        return await self._do(commands.set_title(room, session, title, command_id))

    async def set_settings(
        self, room: str, session: str, settings: Mapping[str, Any], *, command_id: str = ""
    ) -> Reply:
        """See `Ledger.set_settings`."""
        return await self._do(commands.set_settings(room, session, settings, command_id))

    async def set_pin(self, room: str, session: str, *, pinned: bool, command_id: str = "") -> Reply:
        """See `Ledger.set_pin`."""
        return await self._do(commands.set_pin(room, session, command_id, pinned=pinned))

    async def delete(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """See `Ledger.delete`."""
        return await self._do(commands.delete(room, session, command_id))

    async def restore(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """See `Ledger.restore`."""
        return await self._do(commands.restore(room, session, command_id))

    async def purge(self, room: str, session: str, *, command_id: str = "") -> Reply:
        """See `Ledger.purge`."""
        return await self._do(commands.purge(room, session, command_id))

    async def settle(self, room: str) -> tuple[Reply, ...]:
        """See `Ledger.settle`; its observers are called before it returns."""
        return await self._read(self._ledger.settle, room)

    async def do(self, command: Command[R], *, caller: str = "", if_version: int | None = None) -> R:
        """See `Ledger.do`."""
        return await self._do(commands.meant(command, caller, if_version))

    def begin(self, command: Command[Any]) -> "asyncio.Future[Committed]":
        """Put a command into the writer's queue now; what is begun first is decided first.

        Await it for what was committed, cancel it to take the command back while it waits. Raises Overloaded.
        """
        return self._begin(command.decide(self._ledger.clock.now_ms))

    # Reading.

    async def agents(
        self, room: str, origin: str = "", user: str = "", device: str = ""
    ) -> tuple[AgentView, ...]:
        """See `Ledger.agents`."""
        return await self._read(self._ledger.agents, room, origin, user, device)

    async def session(self, room: str, session: str) -> SessionView | None:
        """See `Ledger.session`."""
        return await self._read(self._ledger.session, room, session)

    async def sessions(
        self,
        room: str | None = None,
        *,
        deleted: bool = False,
        after: SessionSummary | None = None,
        limit: int | None = None,
    ) -> tuple[SessionSummary, ...]:
        """See `Ledger.sessions`."""
        return await self._read(
            lambda: self._ledger.sessions(room, deleted=deleted, after=after, limit=limit)
        )

    async def messages(
        self, room: str, session: str, after: int = 0, limit: int = 100, *, before: int | None = None
    ) -> MessagePage:
        """See `Ledger.messages`."""
        return await self._read(lambda: self._ledger.messages(room, session, after, limit, before=before))

    async def room_of(self, session: str) -> str:
        """See `Ledger.room_of`."""
        return await self._read(self._ledger.room_of, session)

    async def find(
        self, wanted: Wanted, room: str | None = None, after: Listed | None = None, limit: int = 100
    ) -> Found:
        """See `Ledger.find`."""
        return await self._read(self._ledger.find, wanted, room, after, limit)

    async def rooms(self, after: str = "", limit: int = 100) -> tuple[RoomSummary, ...]:
        """See `Ledger.rooms`."""
        return await self._read(self._ledger.rooms, after, limit)

    async def session_at(
        self, room: str, session: str, *, version: int | None = None, at_ms: int | None = None
    ) -> SessionView:
        """See `Ledger.session_at`."""
        return await self._read(lambda: self._ledger.session_at(room, session, version=version, at_ms=at_ms))

    async def compare(self, room: str, session: str, first: int, second: int) -> Comparison:
        """See `Ledger.compare`."""
        return await self._read(self._ledger.compare, room, session, first, second)

    async def why(self, room: str, session: str) -> Cause:
        """See `Ledger.why`."""
        return await self._read(self._ledger.why, room, session)

    async def commits(self, after: int = 0, limit: int = 100) -> tuple[CommittedDelta, ...]:
        """See `Ledger.commits`."""
        return await self._read(self._ledger.commits, after, limit)

    async def commit(self, transaction: str) -> CommittedDelta:
        """See `Ledger.commit`."""
        return await self._read(self._ledger.commit, transaction)

    def events(self, room: str, session: str, after: int = 0) -> AsyncIterator[StoredEvent]:
        """See `Ledger.events`."""
        return self._pages(self._ledger.events(room, session, after))

    def deltas(self, after: int = 0) -> AsyncIterator[CommittedDelta]:
        """See `Ledger.deltas`."""
        return self._pages(self._ledger.deltas(after))

    async def deltas_page(self, after: int, limit: int) -> Sequence[CommittedDelta]:
        """The next deltas behind a position; fewer than the limit when there are no more."""
        return await self._read(self._store.deltas_page, Position(after), limit)

    async def with_ledger(self, call: Callable[[Ledger], T]) -> T:
        """What a call of the ledger itself comes to, on a thread for reading."""
        return await self._read(call, self._ledger)

    async def with_subscriptions(self, call: Callable[[Subscriptions], T]) -> T:
        """What a call of `Ledger.subscriptions` comes to."""
        return await self._read(lambda: call(self._ledger.subscriptions))

    async def with_rooms(self, call: Callable[[Rooms], T], actor: str = "") -> T:
        """What a call about rooms that are pulled in comes to; `actor` is who asks."""
        ledger = self._ledger
        return await self._read(lambda: call(Rooms(ledger.store, ledger.clock, actor)))

    async def extent(self) -> Extent:
        """See `Store.extent`."""
        return await self._read(self._store.extent)

    async def follow(self, after: int = 0) -> AsyncIterator[CommittedDelta]:
        """See `Ledger.follow`; cancel the task that iterates to stop."""
        following = await self._read(self._ledger.follow, after)
        thread = ThreadPoolExecutor(1, "reprise-follower")
        loop = asyncio.get_running_loop()
        try:
            while page := await loop.run_in_executor(thread, following.page):
                for delta in page:
                    yield delta
        finally:
            following.stop()
            thread.submit(following.close)
            thread.shutdown(wait=False)

    async def status(self) -> StatusView:
        """How everything is at a glance."""
        return await self._read(status_of, self._ledger)

    async def backlog(self) -> Backlog:
        """What waits to be handed on or pulled in."""
        return await self._read(backlog_of, self._ledger)

    # Access.

    async def token(self, text: str) -> Token | None:
        """The token that somebody shows, if it is good."""
        return await self._read(access.find, self._store.tokens, text)

    async def with_tokens(self, call: Callable[[Tokens, int], T]) -> T:
        """What a call about tokens comes to; it is given the time, in ms."""
        return await self._read(lambda: call(self._store.tokens, self._ledger.clock.now_ms()))

    async def tokens(self) -> Sequence[Token]:
        """Every token, revoked ones too."""
        return await self._read(self._store.tokens.all)

    # Deliveries.

    async def subscribe(self, observer: Observer, name: str, after: int | None = None) -> None:
        """See `Ledger.subscribe`; the observer is called on a thread of its own, not on the event loop."""
        await self._observe(lambda: self._ledger.subscribe(observer, name, after))

    async def redeliver(self, name: str, transaction: str = "") -> int:
        """See `Ledger.redeliver`."""
        return await self._observe(lambda: self._ledger.redeliver(name, transaction))

    def outbox(self, *, pending: bool = False) -> AsyncIterator[OutboxEntry]:
        """See `Ledger.outbox`."""
        return self._pages(self._ledger.outbox(pending=pending))

    # What pulls and deliveries use.

    async def run(self, room: RoomId, rule: Rule) -> Committed:
        """See `Ledger.run`."""
        return await self._submit(decision(room, rule, self._ledger.clock.now_ms))

    async def state(self, room: RoomId, session: SessionId) -> Session | None:
        """A session as the read model has it."""
        row = await self._read(self._store.session, room, session)
        return row.state if row else None

    async def pulled(self, room: RoomId) -> Sequence[Session]:
        """The sessions of a room that were read at another host."""
        rows = await self._read(self._store.sessions, room)
        return [row.state for row in rows if is_pulled(row.state)]

    async def store_ids(self) -> Sequence[str]:
        """Every id the store ever had."""
        return await self._read(self._store.ids)

    async def aggregate(self, kind: Kind[S], key: str) -> Held[S]:
        """An aggregate beside the sessions as it stands."""
        return await self._read(self._store.aggregate, kind, key)

    async def aggregates(self, kind: Kind[S]) -> Sequence[Held[S]]:
        """All aggregates of a kind."""
        return await self._read(self._store.aggregates, kind)

    async def change(
        self, kind: Kind[S], key: str, rule: Callable[[S], Sequence[Event]], actor: str = ""
    ) -> Held[S]:
        """Let a rule decide on an aggregate; see `application.aggregates.change`."""
        change = Changing(kind, key, rule, self._ledger.clock.now_ms(), actor)
        await self._submit(change.decide)
        return change.after

    # Operation.

    async def rebuild(self) -> int:
        """See `Ledger.rebuild`."""
        return await self._read(self._ledger.rebuild)

    async def check_write(self) -> None:
        """Take the lock that every commit takes, and give it back; raises StoreError."""
        await self._read(self._store.check_write)

    async def schemas(self) -> tuple[int, int]:
        """How the store's tables are now, and how this release has them."""
        return await self._read(self._store.schemas)

    async def verify(self) -> Verification:
        """See `Ledger.verify`."""
        return await self._read(self._ledger.verify)

    async def close(self) -> None:
        """Answer every command that was taken, hand over what was committed, and let the store go."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._store.finish()
        self._observers.submit(self._ledger.delivery.notify).result()
        self._observers.shutdown()
        self._readers.shutdown()
        self._ledger.close()

    # How it stays off the event loop.

    async def _do(self, command: Command[R]) -> R:
        return command.reply(await self._submit(command.decide(self._ledger.clock.now_ms)))

    async def _submit(self, decide: Decide) -> Committed:
        return await self._begin(decide)

    def _begin(self, decide: Decide) -> "asyncio.Future[Committed]":
        answers = self._answers
        if answers is None or answers.loop is not asyncio.get_running_loop():
            answers = self._answers = Answers(asyncio.get_running_loop(), self._wake_observers)
        waiter = answers.waiter()
        self._store.enqueue(decide, waiter, answers.wake)
        return waiter.awaited

    def _wake_observers(self) -> None:
        if not self._ledger.delivery.has_observers:
            return
        if not (self._is_notifying or self._is_closed):  # Closing hands over what is left.
            self._is_notifying = True
            self._observers.submit(self._notify)

    def _notify(self) -> None:
        self._is_notifying = False  # What is committed from here on asks for another call.
        self._ledger.delivery.notify()

    async def _read(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *arguments)

    async def _observe(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._observers, call)

    async def _pages(self, rows: Iterator[T]) -> AsyncIterator[T]:
        def page() -> list[T]:
            return list(islice(rows, PAGE_MAX))

        while read := await self._read(page):
            for row in read:
                yield row
