"""Pulls rooms in from other hosts: makes the calls that are due and stores what they bring, until stopped.

What is due is the schedule's to say; what a page means is the mirror's. Here is what needs an event loop:
calls side by side, waking in time, and an end that leaves nothing half done.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, assert_never

import structlog

from application.mirroring import is_closed, note_absence
from application.ports import Clock
from application.pull_calls import Call, Step
from application.pull_schedule import PullSchedule
from application.pull_waits import KINDS, Claim
from application.reading import Reading, SessionReader, is_deleted
from application.remote import AgentsPage, Failure, FailureKind, Remote, RemoteActivity, failure
from application.room_list import RoomList
from domain.backoff import RoomBackoff, Trouble
from domain.breaker import BREAKER, SERVICE_BREAKER, BreakerPolicy, HostBreaker
from domain.errors import Overloaded, RepriseError, StoreBusy, StoreFull, StoreUnavailable
from domain.ids import RoomId, SessionId
from domain.tracked_room import TrackedRoom
from infrastructure.asynchronous import AsyncLedger

REFRESH_S: Final = 5.0
"""How often rooms, waits and breakers are looked up, since other processes change them too."""
STOP_S: Final = 5.0
"""How long calls that are at work may take to end once a stop was asked for."""

log = structlog.get_logger("reprise")


@dataclass(frozen=True, slots=True)
class Told:
    """Something that changed, for whoever watches."""

    what: str
    """read, waits, refused, parked, cleared, down, up, vanished, unreadable; failed: that costs no wait."""
    room: RoomId
    session: SessionId | None = None
    host: str = ""
    """Of down and up, which are about all of a host's rooms."""
    messages: int = 0
    """New or changed ones."""
    events: int = 0
    until: int = 0
    """Unix ms; 0: nothing waits."""
    reason: str = ""


def token_from_environment(name: str) -> str:
    """The token that a tracked room's reference names; raises KeyError when it is not set."""
    return os.environ[name] if name else ""


class PullLoop:
    """Pulls tracked rooms in, one task a call."""

    def __init__(
        self,
        ledger: AsyncLedger,
        activity: RemoteActivity,
        schedule: PullSchedule,
        clock: Clock,
        *,
        breakers: BreakerPolicy = SERVICE_BREAKER,
        only: RoomId | None = None,
        token: Callable[[str], str] = token_from_environment,
        tell: Callable[[Told], None] = lambda _: None,
    ) -> None:
        """`only`: leave all other rooms to others. `tell` is called for each change."""
        self._ledger = ledger
        self._activity = activity
        self._schedule = schedule
        self._clock = clock
        self._breakers = breakers
        self._only = only
        self._token = token
        self._tell = tell
        self._tracked: dict[RoomId, TrackedRoom] = {}
        self._rooms: dict[RoomId, RoomList] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._mistake: BaseException | None = None
        self._own_ids: frozenset[str] = frozenset()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self.beat_at = 0.0
        """When it last looked for what is due; seconds of the clock that only goes forward."""
        self._has_more = False
        """Whether a session was left with more to read since this was last set to false."""
        self.failures = 0
        """Calls that failed so far."""

    async def run(self) -> None:
        """Pull until `stop`, then end the calls at work."""
        try:
            if self._only:
                await self._refresh_or_go_on()
                self.trigger(self._only)
            while not self._stopping.is_set():
                await self._refresh_or_go_on()
                deadline = asyncio.get_running_loop().time() + REFRESH_S
                while not self._stopping.is_set() and asyncio.get_running_loop().time() < deadline:
                    self.beat_at = monotonic()
                    wake_at = await self._begin_due()
                    await self._sleep(wake_at, deadline)
        finally:
            await self.end()

    def stop(self) -> None:
        """Let `run` or `drain` end; to be called on the event loop."""
        self._stopping.set()
        self._wake.set()

    @property
    def rooms(self) -> Sequence[RoomId]:
        """The rooms that are pulled in here."""
        return [room for room, tracked in self._tracked.items() if tracked.is_tracked]

    def trigger(self, room: RoomId) -> None:
        """Somebody wants a room now; no wait is cut short (SPEC P1)."""
        self._schedule.trigger(room, self._clock.now_ms())
        self._wake.set()

    async def once(self) -> None:
        """Make the calls that are due now, and those that follow from them, until none is left."""
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                await self._begin_due()
                if not self._tasks:
                    return
                await asyncio.wait({*self._tasks, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def drain(self, rounds_max: int) -> bool:
        """Read all rooms until they have no more, or for so many rounds; whether that came before a stop."""
        self._has_more = True
        try:
            for _ in range(rounds_max):
                if self._stopping.is_set() or not self._has_more:
                    break
                self._has_more = False
                await self.refresh()
                for room in self.rooms:
                    self.trigger(room)
                await self.once()
        finally:
            await self.end()
        return not (self._has_more or self._stopping.is_set())

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._stopping.is_set()

    async def refresh(self) -> None:
        """Look up how rooms, waits and breakers stand."""
        self._own_ids = self._own_ids or frozenset(await self._ledger.store_ids())
        now = self._clock.now_ms()
        steps: list[Step] = []
        for kind in KINDS:
            for held in await self._ledger.aggregates(kind):
                if isinstance(held.state, TrackedRoom):
                    if self._only not in (None, held.state.room):
                        continue
                    self._tracked[held.state.room] = held.state
                steps += self._schedule.know(held.state, now)
        await self._settle(steps)

    async def _refresh_or_go_on(self) -> None:
        """A store that cannot be read at the moment is read again next time; till then all is as it was."""
        try:
            await self.refresh()
        except (Overloaded, StoreBusy, StoreFull, StoreUnavailable) as error:
            log.warning("pull_not_refreshed", error=str(error))

    # Waking.

    async def _sleep(self, wake_at: int | None, deadline: float) -> None:
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        if wake_at is not None:
            left_s = min(left_s, max(0.0, (wake_at - self._clock.now_ms()) / 1_000))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), left_s)
        self._wake.clear()

    async def _begin_due(self) -> int | None:
        plan = self._schedule.plan(self._clock.now_ms())
        if self._mistake:
            raise self._mistake
        for planned in plan.calls:
            call = await self._claim(planned) if planned.is_probe else planned
            if call is None:
                continue
            self._schedule.begin(call, self._clock.now_ms())
            task = asyncio.create_task(self._make(call))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return plan.wake_at

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._mistake = self._mistake or task.exception()
        self._wake.set()

    async def end(self) -> None:
        """End what is at work: what was read is stored, what was only asked for is asked again next time."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)

    # Calls.

    async def _make(self, call: Call) -> None:
        try:
            await (self._list(call) if call.is_list else self._read(call))
        except asyncio.CancelledError:
            await self._give_up(call, "stopped")
            raise
        except RepriseError as error:
            # Our own store, not the remote: nobody waits for that, the next turn comes anyway.
            log.warning("pull_not_stored", room=call.room, lane=call.lane, error=str(error))
            await self._give_up(call, str(error))

    async def _give_up(self, call: Call, reason: str) -> None:
        """End a call that says nothing about the remote; a probe's claim ends with it."""
        trouble = Trouble("canceled", retryable=False, reason=reason)
        steps = self._schedule.failed(call, trouble, self._clock.now_ms())
        with suppress(RepriseError):
            await self._settle(steps)

    async def _list(self, call: Call) -> None:
        page = await self._ask_list(call.room)
        if isinstance(page, Failure):
            await self._failed(call, page)
            return
        room = await self._room(call.room)
        before = room.bad_rows
        room.take(page, self._own_ids)
        await self._look_at_deleted(call.room, room)
        await self._settle(self._schedule.listed(call, room.to_read(), self._clock.now_ms()), call)
        if room.bad_rows != before:
            for reason in room.bad_rows:
                self._tell(Told("unreadable", call.room, reason=reason))
        for session in room.missing():
            committed = await self._ledger.run(call.room, note_absence(session))
            if committed.events:
                self._tell(Told("vanished", call.room, session))

    async def _room(self, room: RoomId) -> RoomList:
        if room not in self._rooms:
            states = await self._ledger.pulled(room)
            self._rooms[room] = RoomList({state.session for state in states if not is_closed(state)})
        return self._rooms[room]

    async def _ask_list(self, room: RoomId) -> AgentsPage | Failure:
        remote = self._remote(room)
        return remote if isinstance(remote, Failure) else await self._activity.list_agents(remote, room)

    def _remote(self, room: RoomId) -> Remote | Failure:
        tracked = self._tracked[room]
        try:
            token = self._token(tracked.token_ref)
        except KeyError:
            reason = f"the environment variable {tracked.token_ref} with the token is not set"
            return failure(FailureKind.MALFORMED, reason)
        return Remote(tracked.url, token, tracked.user_id, allows_private=tracked.allows_private)

    async def _look_at_deleted(self, room: RoomId, known: RoomList) -> None:
        """What was restored meanwhile is read again."""
        for session in sorted(known.deleted):
            if not await is_deleted(self._ledger, room, known.shown[session]):
                known.deleted.discard(session)

    async def _read(self, call: Call) -> None:
        session, room = call.session, self._rooms[call.room]
        assert session is not None, "a call is a list call or reads a session"
        shown, remote = room.shown.get(session), self._remote(call.room)
        if shown is None:
            await self._give_up(call, "no longer listed")
            return
        if isinstance(remote, Failure):
            await self._failed(call, remote)
            return
        home = shown.home or self._tracked[call.room].host
        reader = SessionReader(self._ledger, self._activity, remote, call.room, shown, home, call.pages_max)
        reading = await reader.read()
        if reading.events:
            self._tell(Told("read", call.room, session, messages=reading.messages, events=reading.events))
        if reading.is_deleted:
            room.deleted.add(session)
            room.known.discard(session)
            await self._give_up(call, "deleted here")
            return
        if reading.pages:
            room.known.add(session)
        await self._note(call, reading)

    async def _note(self, call: Call, reading: Reading) -> None:
        if reading.failure:
            await self._failed(call, reading.failure, has_progressed=reading.progress > 0)
            return
        has_more = not reading.complete
        self._has_more |= has_more
        await self._settle(self._schedule.read(call, self._clock.now_ms(), has_more=has_more), call)

    # What outcomes cost.

    async def _failed(self, call: Call, found: Failure, *, has_progressed: bool = False) -> None:
        self.failures += 1
        trouble = Trouble(found.kind.value, found.retryable, found.reason, found.status, found.retry_after_s)
        now = self._clock.now_ms()
        steps = self._schedule.failed(call, trouble, now, has_progressed=has_progressed)
        if not steps:
            self._tell(Told("failed", call.room, call.session, reason=found.reason))
        await self._settle(steps, call, found.reason)

    async def _settle(self, steps: Sequence[Step], call: Call | None = None, reason: str = "") -> None:
        """Store what the steps decide and let the schedule know; a closed breaker brings further steps."""
        left = list(steps)
        while left:
            step = left.pop(0)
            held = await self._ledger.change(step.kind, step.key, step.rule, "pull")
            left += self._schedule.know(held.state, self._clock.now_ms())
            if call:
                self._tell_state(held.state, call, reason)

    def _tell_state(self, state: RoomBackoff | HostBreaker, call: Call, reason: str) -> None:
        match state:
            case RoomBackoff():
                wait = state.waits.get(call.lane)
                if wait is None:
                    self._tell(Told("cleared", call.room, call.session))
                else:
                    what = "parked" if wait.is_parked else "waits" if wait.until > wait.began else "refused"
                    self._tell(Told(what, call.room, call.session, until=wait.until, reason=reason))
            case HostBreaker():
                what = "down" if state.is_open else "up"
                until = state.until if state.is_open else 0
                self._tell(Told(what, call.room, host=state.host, until=until, reason=reason))
            case _:
                assert_never(state)

    async def _claim(self, call: Call) -> Call | None:
        """The probe with the number of its claim; None if another process was quicker (SPEC B7)."""
        now = self._clock.now_ms()
        claim = Claim(call, self._breakers, now)
        held = await self._ledger.change(BREAKER, call.host, claim.rule, "pull")
        self._schedule.know(held.state, now)
        return claim.granted
