"""The delivery worker: claims lanes, hands their deltas to sinks, marks what has arrived (SPEC section 9).

Rooms are delivered side by side, one parcel of a room at a time. Nothing here decides what is delivered
when: that is the lanes' and the schedule's business. Any number of workers may run, in any number of
processes; a lease says which of them has a lane.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from application.lane_run import LaneRun, merged
from application.lanes import Claim, Lanes, Lease, Mark, Parking, Want
from application.ports import Clock, Watch
from application.sinks import Parcel, Receipt, Sink, Trouble
from application.subscriptions import Subscriptions
from domain.errors import LeaseLost, RepriseError, StoreError
from domain.ids import Position, TransactionId
from domain.subscription import Subscription
from infrastructure.crashpoints import crashpoint

LANES_MAX: Final = 64
"""Lanes of one subscription that one worker delivers side by side."""
PACED_LANES_MAX: Final = 16
"""The same while others commit and a backlog is drained, so that nothing new waits for long."""
PACED_RATE: Final = 1_000
"""Deltas a second that are drained from a backlog while others commit: whoever reports comes first."""
BACKLOG_ROWS: Final = 200
"""Deltas claimed at once from which on there is a backlog."""
BUSY_S: Final = 0.5
"""How long a store counts as busy after something was committed."""
POLL_S: Final = 0.25
"""How often it looks without being woken: for lanes of a worker that died, and for what operators changed."""
MEND_EVERY_S: Final = 5.0
"""How often it looks for lanes that a clock put back has left in the future."""
TRIM_EVERY_S: Final = 60.0
"""How often it removes deltas that are old and delivered."""
TRIM_ROWS: Final = 1_000
"""Deltas that are removed at once."""
STORE_PAUSE_S: Final = 1.0
"""How long it leaves a store alone that cannot be used."""
WAKE_EVERY_MS: Final = 1_000
"""How often at the most a success of a destination wakes its waiting lanes."""

SinkOf = Callable[[Subscription], Sink | None]
"""Makes the sink of a subscription; None when this process does not serve its kind."""
Told = Callable[[str, str, float], None]
T = TypeVar("T")

log = structlog.get_logger("reprise")


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take at the most."""

    lease_ms: int = 1_000
    """A lane of a worker that died is somebody else's after this."""
    drain_s: float = 8.0
    """A worker that is stopped finishes what it has begun for so long."""
    kept_ms: int = 7 * 24 * 60 * 60 * 1_000
    """How long a delta is kept at least, when every subscription has had it (SPEC O3)."""


@dataclass(slots=True)
class _Held:
    """A lane that is being delivered here."""

    until: int
    is_lost: bool = False


@dataclass(slots=True)
class _Served:
    """A subscription that is being delivered to here."""

    subscription: Subscription
    sink: Sink
    is_active: bool = True
    lanes: int = 0
    woken_at: int = 0


@dataclass
class DeliveryWorker:
    """Delivers from one store until it is stopped."""

    subscriptions: Subscriptions
    lanes: Lanes
    watch: Callable[[], Watch]
    sink_of: SinkOf
    clock: Clock
    chance: Callable[[], float]
    """0 to 1, for the jitter of waits."""
    owner: str
    """Tells this worker from every other one, also from those before it."""
    timing: Timing = field(default_factory=Timing)
    told: Told = lambda *_: None
    """Is told what became of each attempt: the subscription, delivered, failed or parked, and the seconds."""
    beat_at: float = 0.0
    """When it last looked for work, on the monotonic clock."""

    def __post_init__(self) -> None:
        self._served: dict[str, _Served] = {}
        self._held: dict[Lease, _Held] = {}
        self._marks: dict[Lease, Mark] = {}
        self._wakes: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._is_over = False
        """No lane is delivered any more, and none will be claimed."""
        self._end, self._busy_until = Position(0), 0.0
        self._refresh_at = self._mend_at = 0.0
        self._setting: frozenset[Lease] = frozenset()

    # Life.

    async def run(self) -> None:
        """Deliver until `stop` is called, then finish what was begun."""
        self._loop = asyncio.get_running_loop()
        self._woken, self._marked, self._set_down = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._threads = ThreadPoolExecutor(2, "reprise-lanes")
        ended = Event()
        watch = await self._do(self.watch)
        watching = Thread(target=self._watching, args=(watch, ended), name="reprise-watch", daemon=True)
        watching.start()
        marking = self._loop.create_task(self._marking())
        beating = self._loop.create_task(self._beating())
        trimming = self._loop.create_task(self._trimming())
        try:
            while not self._is_stopping:
                await self._look()
            await self._drain()
        finally:
            beating.cancel()
            trimming.cancel()
            await self._end_lanes()
            self._is_stopping = self._is_over = True
            self._marked.set()
            await marking
            for served in self._served.values():
                await served.sink.close()
            ended.set()
            await self._do(watching.join)
            self._threads.shutdown()

    def stop(self) -> None:
        """Let `run` end soon; for the thread that runs the worker."""
        self._is_stopping = True
        if hasattr(self, "_woken"):
            self._woken.set()

    def _watching(self, watch: Watch, ended: Event) -> None:
        while not ended.is_set():
            try:
                watch.wait(POLL_S)
            except StoreError:
                ended.wait(STORE_PAUSE_S)
            with suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(self._woken.set)
        watch.close()

    async def _do(self, call: Callable[..., T], *arguments: Any) -> T:
        """Ask the store, off the event loop."""
        return await self._loop.run_in_executor(self._threads, call, *arguments)

    async def _drain(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.timing.drain_s)

    async def _end_lanes(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Looking for work.

    async def _look(self) -> None:
        """Take on what is due; else wait until something may be."""
        self._woken.clear()
        self.beat_at = monotonic()
        try:
            await self._refresh()
            has_more = await self._claim()
            due_at = (
                None if has_more else await self._do(self.lanes.next_due, list(self._served), self._now())
            )
        except RepriseError as error:
            log.warning("deliveries_wait", error=str(error))
            await asyncio.sleep(STORE_PAUSE_S)
            return
        if not has_more:
            wait_s = POLL_S if due_at is None else min(POLL_S, max(0, due_at - self._now()) / 1_000)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait_s)

    def _now(self) -> int:
        return self.clock.now_ms()

    async def _next_due(self) -> int | None:
        return await self._do(self.lanes.next_due, list(self._served), self._now())

    async def _refresh(self) -> None:
        """See which subscriptions there are."""
        if self._loop.time() < self._refresh_at:
            return
        held = await self._do(self.subscriptions.all)
        self._refresh_at = self._loop.time() + POLL_S
        there = {one.key: one.state for one in held if one.state.is_active}
        for name, served in list(self._served.items()):
            if there.get(name) != served.subscription:
                served.is_active = False
            if not served.is_active and not served.lanes:
                del self._served[name]
                await served.sink.close()
        for name, subscription in there.items():
            if name not in self._served and (sink := self.sink_of(subscription)) is not None:
                self._served[name] = _Served(subscription, sink)
        if self._loop.time() >= self._mend_at:
            await self._do(self.lanes.mend, list(self._served), self._now())
            self._mend_at = self._loop.time() + MEND_EVERY_S

    async def _claim(self) -> bool:
        """Take on lanes that are due; whether there may be more for free hands."""
        began = self._loop.time()
        hands = PACED_LANES_MAX if began < self._busy_until else LANES_MAX
        wants = [
            Want(
                name,
                Position(served.subscription.from_position),
                served.subscription.filter,
                hands - served.lanes,
            )
            for name, served in self._served.items()
            if served.is_active and served.lanes < hands
        ]
        if not wants:
            return False
        now = self._now()
        until = now + self.timing.lease_ms
        claims = await self._do(self.lanes.claim, wants, self.owner, now, until)
        for claim in claims:
            served = self._served[claim.lease.subscription]
            served.lanes += 1
            self._held[claim.lease] = _Held(until)
            task = self._loop.create_task(self._deliver(served, claim))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self._pace(sum(len(claim.due) for claim in claims), began)
        return bool(claims)

    async def _pace(self, rows: int, began: float) -> None:
        """Take time over a backlog while others commit, who use the same disk and the same processors."""
        if rows < BACKLOG_ROWS:
            return
        end = await self._do(self.subscriptions.deliveries.end)
        if end != self._end and self._end:
            self._busy_until = self._loop.time() + BUSY_S
        self._end = end
        if self._loop.time() < self._busy_until:
            await asyncio.sleep(max(0, rows / PACED_RATE - (self._loop.time() - began)))

    # Delivering.

    async def _deliver(self, served: _Served, claim: Claim) -> None:
        """Hand over what a lane has, in its order, until something fails."""
        run = LaneRun(claim, self.owner, served.subscription.on_parked)
        held = self._held[claim.lease]
        try:
            last = await self._hand_over(served, run, held)
            self._mark(last)
        except asyncio.CancelledError:
            self._mark(run.left(self._now()))
            raise
        except LeaseLost:
            pass
        except Exception as error:
            log.error("lane_failed", subscription=claim.lease.subscription, error=repr(error))
        finally:
            served.lanes -= 1
            if claim.lease not in self._marks:
                self._held.pop(claim.lease, None)
            self._woken.set()

    async def _hand_over(self, served: _Served, run: LaneRun, held: _Held) -> Mark:
        """Deliver until the end of the claim; the mark that gives the lane back."""
        while (due := run.next) is not None:
            if held.is_lost:
                raise LeaseLost
            if self._is_stopping or not served.is_active or held.until <= self._now():
                return run.left(self._now())
            crashpoint("outbox.before_send")
            began = monotonic()
            receipt = await _sent(served.sink, run.parcel())
            took_s = monotonic() - began
            crashpoint("outbox.after_send")
            if receipt.trouble is None:
                self.told(served.subscription.name, "delivered", took_s)
                self._mark(run.arrived())
                self._wake_others(served)
                continue
            if receipt.trouble is Trouble.GONE:
                served.is_active = False
                await self._do(self.subscriptions.disable, served.subscription.name, receipt.reason)
                self.told(served.subscription.name, "failed", took_s)
                return run.left(self._now())
            after = run.failed(receipt, self._now(), self.chance())
            if isinstance(after, Mark):
                self.told(served.subscription.name, "failed", took_s)
                return after
            await self._park(served, after, due.committed.transaction_id)
            self.told(served.subscription.name, "parked", took_s)
            raise LeaseLost  # The lane was given back with the delta.
        return run.done(self._now())

    async def _park(self, served: _Served, parking: Parking, transaction: TransactionId) -> None:
        while parking.lease in self._marks or parking.lease in self._setting:
            await self._set_down.wait()  # What arrived before it is marked while the lane is still ours.
        await self._do(self.subscriptions.park, parking, transaction)
        log.warning(
            "delivery_parked",
            subscription=served.subscription.name,
            room=parking.lease.room,
            transaction=transaction,
            attempts=parking.attempts,
            reason=parking.error,
        )

    def _wake_others(self, served: _Served) -> None:
        """The destination works: what waits for it need not wait."""
        now = self._now()
        if abs(now - served.woken_at) >= WAKE_EVERY_MS:
            served.woken_at = now
            self._wakes.add(served.subscription.name)

    # Marking.

    def _mark(self, mark: Mark) -> None:
        earlier = self._marks.get(mark.lease)
        self._marks[mark.lease] = merged(earlier, mark) if earlier else mark
        self._marked.set()

    async def _marking(self) -> None:
        """Set all marks that came up while the ones before were being set, until no more can come up."""
        while not (self._is_over and not self._marks):
            await self._marked.wait()
            self._marked.clear()
            marks, self._marks = self._marks, {}
            wakes, self._wakes = self._wakes, set()
            if marks:
                self._setting = frozenset(marks)
                await self._set(list(marks.values()), wakes)
                self._setting = frozenset()
                self._set_down.set()
                self._set_down = asyncio.Event()

    async def _set(self, marks: Sequence[Mark], wakes: set[str]) -> None:
        now = self._now()
        until = now + self.timing.lease_ms
        try:
            lost = await self._do(self.lanes.settle, marks, self.owner, now, until, wakes)
        except RepriseError as error:
            log.warning("marks_not_set", error=str(error), marks=len(marks))
            if not self._is_over:  # Else the leases run out and somebody delivers them again.
                await asyncio.sleep(POLL_S)
                for mark in marks:
                    later = self._marks.get(mark.lease)
                    self._marks[mark.lease] = merged(mark, later) if later else mark
                self._marked.set()
            return
        crashpoint("outbox.after_mark")
        for mark in marks:
            held = self._held.get(mark.lease)
            if held is None:
                continue
            held.until = until
            held.is_lost = mark.lease in lost
            if mark.release or held.is_lost:
                del self._held[mark.lease]
        if wakes or any(mark.release for mark in marks):
            self._woken.set()

    async def _beating(self) -> None:
        """Keep the leases of what takes long."""
        while True:
            await asyncio.sleep(self.timing.lease_ms / 3_000)
            for lease in self._held:
                if lease not in self._marks:
                    self._mark(Mark(lease))

    async def _trimming(self) -> None:
        """Remove what is old and was delivered, a little at a time."""
        while True:
            before = self._now() - self.timing.kept_ms
            try:
                removed = await self._do(self.lanes.trim, before, TRIM_ROWS)
            except RepriseError as error:
                log.warning("trim_waits", error=str(error))
                removed = 0
            await asyncio.sleep(POLL_S if removed == TRIM_ROWS else TRIM_EVERY_S)


async def _sent(sink: Sink, parcel: Parcel) -> Receipt:
    """What became of a parcel. A sink that raises is mistaken; that must not hold up its lane for good."""
    try:
        return await sink.send(parcel)
    except Exception as error:
        log.exception("sink_failed", subscription=parcel.subscription)
        return Receipt(Trouble.ENDPOINT, f"the sink failed: {type(error).__name__}")
