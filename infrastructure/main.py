"""Puts the pieces together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import random
from secrets import token_bytes
from threading import RLock
from time import time_ns
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog

from application.delivery import Delivery
from application.destinations import Destinations
from application.ledger import Ledger
from application.ports import Clock, Participant
from application.sinks import Sink
from domain.delta import CommittedDelta
from domain.errors import StoreUnavailable
from domain.subscription import Subscription
from infrastructure.asynchronous import AsyncLedger
from infrastructure.crashpoints import crashpoint
from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tables import Database
from infrastructure.store.writer import Appended
from infrastructure.worker import DeliveryWorker, SinkOf, Timing, Told

if TYPE_CHECKING:
    from infrastructure.configuration import Settings
    from infrastructure.sinks.targets import Surroundings
    from infrastructure.store.postgres import PostgresDatabase

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
MEMORY: Final = "memory://"

log = structlog.get_logger("reprise")


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time_ns() // 1_000_000


class ObserverFailures:
    """Logs and counts the deltas that observers did not take."""

    def __init__(self) -> None:
        self.by_subscription: Counter[str] = Counter()

    def __call__(self, name: str, delta: CommittedDelta, error: Exception) -> None:
        self.by_subscription[name] += 1
        log.warning(
            "observer_failed",
            subscription=name,
            transaction=delta.transaction_id,
            room=delta.room,
            position=delta.last_position,
            error=f"{type(error).__name__}: {error}",
            failures=self.by_subscription[name],
        )


def open_ledger(
    url: str,
    *,
    participant: Participant | None = None,
    clock: Clock | None = None,
    failures: ObserverFailures | None = None,
) -> Ledger:
    """Open the ledger at `sqlite:///path/to/file.db`, `postgresql://user@host/database` or `memory://`.

    A file or schema that is not there is made; `?schema=name` names another schema than `reprise`.
    Raises StoreError when the place cannot be used: StoreUnavailable, ForeignStore, NewerStore,
    DamagedStore or StoreBusy. A host's `participant` takes part in every commit.
    """
    clock = clock or SystemClock()
    return _ledger(EventStore(open_database(url), clock, participant), clock, failures)


@asynccontextmanager
async def open_ledger_async(
    url: str,
    *,
    participant: Participant | None = None,
    clock: Clock | None = None,
    failures: ObserverFailures | None = None,
    appended: Appended | None = None,
) -> AsyncIterator[AsyncLedger]:
    """Open the same ledger for asyncio: `async with open_ledger_async(url) as ledger:`.

    Raises what `open_ledger` raises. `appended` is told of each group of commits. Leaving the block answers
    every command that was taken.
    """
    clock = clock or SystemClock()
    store = await asyncio.to_thread(
        lambda: EventStore(open_database(url), clock, participant, appended=appended)
    )
    ledger = AsyncLedger(_ledger(store, clock, failures), store)
    try:
        yield ledger
    finally:
        await ledger.close()


def _ledger(store: EventStore, clock: Clock, failures: ObserverFailures | None) -> Ledger:
    delivery = Delivery(store, failures or ObserverFailures(), RLock(), crashpoint=crashpoint)
    return Ledger(store, delivery, clock)


def delivery_worker(
    ledger: Ledger, sink_of: SinkOf, timing: Timing | None = None, told: Told = lambda *_: None
) -> DeliveryWorker:
    """A worker that delivers a ledger's deltas to the sinks of its subscriptions; `run` it, `stop` it."""
    return DeliveryWorker(
        subscriptions=ledger.subscriptions,
        lanes=ledger.store.lanes,
        watch=ledger.store.watch,
        sink_of=sink_of,
        clock=ledger.clock,
        chance=random,
        owner=str(uuid4()),
        timing=timing or Timing(),
        told=told,
    )


def surroundings(ledger: Ledger, settings: "Settings") -> "Surroundings":
    """What the sinks of a ledger's subscriptions are made of."""
    from infrastructure.addresses import AddressPolicy
    from infrastructure.sinks.targets import Surroundings

    is_open = settings.allow_private_targets
    return Surroundings(
        ledger.clock,
        ledger.store.secrets,
        AddressPolicy(allows_loopback=is_open, allows_private=is_open),
        settings.nats_credentials.get_secret_value(),
    )


def destinations(ledger: Ledger, around: "Surroundings", *, is_local: bool = True) -> Destinations:
    """The subscriptions of a ledger with their secrets; their targets are checked.

    Who is not `is_local` may name no file: it would be any that the service may write to.
    """
    from infrastructure.sinks.targets import KINDS, KINDS_FOR_CALLERS, check_target, open_sink

    kinds = KINDS if is_local else KINDS_FOR_CALLERS

    return Destinations(
        ledger.subscriptions,
        around.secrets,
        ledger.clock,
        token_bytes,
        lambda kind, target: check_target(kind, target, around.addresses, kinds),
        lambda one: open_sink(one.kind, one.target, one.name, around),
    )


def sinks(around: "Surroundings") -> SinkOf:
    """Makes the sinks of subscriptions, for `delivery_worker`; of kinds that lead outside, that is.

    One whose target cannot be served, or no longer, gets a sink that says so.
    """
    from infrastructure.sinks.targets import KINDS, BadTarget, UnservedSink, open_sink

    def sink_of(subscription: Subscription) -> Sink | None:
        if subscription.kind not in KINDS:
            return None
        try:
            return open_sink(subscription.kind, subscription.target, subscription.name, around)
        except BadTarget as error:
            return UnservedSink(str(error))

    return sink_of


def open_database(url: str) -> Database:
    """Open the place alone, without a ledger on it; raises StoreError when it cannot be used."""
    if url == MEMORY:
        return MemoryDatabase()
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return SQLiteDatabase(Path(url.removeprefix(SQLITE)).expanduser())
    if url.startswith(POSTGRES):
        return _postgres()(url)
    raise StoreUnavailable(
        "the address names no store; give sqlite:///path/to/file.db, postgresql://user@host/database"
        " or memory://"
    )


def missing_store(url: str) -> str:
    """The place that an address names, when there is no store yet; blank when there is one."""
    if url.startswith(POSTGRES):
        return _postgres().missing(url)
    path = Path(url.removeprefix(SQLITE)).expanduser()
    return "" if url == MEMORY or path.exists() else str(path)


def _postgres() -> "type[PostgresDatabase]":
    """The store on a server, if what speaks to one is installed."""
    try:
        from infrastructure.store.postgres import PostgresDatabase
    except ImportError as error:
        raise StoreUnavailable(
            f"a store on PostgreSQL needs more packages ({error}); install reprise[postgres]"
        ) from error
    return PostgresDatabase
