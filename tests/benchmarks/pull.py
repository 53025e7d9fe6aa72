"""Pulls: how fast a room is mirrored from a remote on this machine, and what a round without news costs."""

import asyncio
from pathlib import Path

from application.pull_calls import Call, Listed, Pace
from application.pull_schedule import service_schedule
from application.rooms import Rooms
from domain.backoff import LIST_LANE, RoomBackoff
from domain.ids import RoomId, SessionId
from domain.tracked_room import TrackedRoom, host_of
from infrastructure.main import SystemClock, open_ledger, open_ledger_async
from infrastructure.pulls import PullLoop
from infrastructure.remote import HttpRemoteActivity
from tests.benchmarks.figures import Figure, Stopwatch, Table, best_s, timed
from tests.remote.running import RunningRemote, running_remote

SESSIONS, MESSAGES = 50, 200
ROOMS, SESSIONS_A_ROOM = 200, 5
ROOM = "room-1"
ROUNDS_MAX = 50


def run(table: Table, folder: Path) -> None:
    _mirror(table, f"sqlite:///{folder}/mirror.db")
    _quiet(table, f"sqlite:///{folder}/quiet.db")
    _check(table)


def _track(url: str, remote: RunningRemote, *rooms: str) -> None:
    with open_ledger(url) as ledger:
        for room in rooms:
            Rooms(ledger.store, SystemClock()).track(room, remote.url)


def _mirror(table: Table, url: str) -> None:
    """One room, all of it, over HTTP."""

    async def pull() -> Stopwatch:
        clock = SystemClock()
        async with open_ledger_async(url) as ledger, HttpRemoteActivity(clock) as activity:
            loop = PullLoop(ledger, activity, service_schedule(pace=Pace(spreads=False)), clock)
            with timed() as watch:
                await loop.drain(ROUNDS_MAX)
        return watch

    with running_remote({"do": "fill", "room": ROOM, "sessions": SESSIONS, "messages": MESSAGES}) as remote:
        _track(url, remote, ROOM)
        watch = asyncio.run(pull())
        calls = len(remote.calls())
    rate = SESSIONS * MESSAGES / watch.wall_s
    beside = f"{calls} calls, {watch.cpu_s / (SESSIONS * MESSAGES) * 1e6:.0f} µs of CPU a message"
    table.add(
        Figure("mirrored from a loopback remote", f"{rate:,.0f}/s", ">= 3,000/s", rate >= 3_000, beside)
    )


def _quiet(table: Table, url: str) -> None:
    """200 rooms that have been read, and a round in which none has news."""
    rooms = [f"room-{number}" for number in range(ROOMS)]

    async def pull(remote: RunningRemote) -> tuple[int, int, Stopwatch]:
        clock = SystemClock()
        async with open_ledger_async(url) as ledger, HttpRemoteActivity(clock) as activity:
            loop = PullLoop(ledger, activity, service_schedule(pace=Pace(spreads=False)), clock)
            await loop.drain(ROUNDS_MAX)
            events, calls = (await ledger.verify()).events, len(remote.calls())
            with timed() as watch:
                await loop.drain(1)
            return len(remote.calls()) - calls, (await ledger.verify()).events - events, watch

    filled = [{"do": "fill", "room": room, "sessions": SESSIONS_A_ROOM, "messages": 2} for room in rooms]
    with running_remote(*filled) as remote:
        _track(url, remote, *rooms)
        calls, events, watch = asyncio.run(pull(remote))
    beside = f"{events} events, {watch.wall_s:.2f} s, {watch.cpu_s / ROOMS * 1e6:.0f} µs of CPU a room"
    is_quiet = calls == ROOMS and events == 0
    table.add(Figure(f"calls for {ROOMS} rooms without news", f"{calls}", f"{ROOMS}", is_quiet, beside))


def _check(table: Table) -> None:
    """Which lanes of 200 rooms may be called, when each of them is asked."""
    now, url = 1_000_000, "http://host.example"
    schedule = service_schedule(pace=Pace(spreads=False))
    rooms = [RoomId(f"room-{number}") for number in range(ROOMS)]
    for room in rooms:
        schedule.know(TrackedRoom(room, version=1, is_tracked=True, tracked_version=1, url=url), now)
        call = Call(room, host_of(url), LIST_LANE)
        schedule.begin(call, now)
        sessions = [Listed(SessionId(f"s{one}"), 1, is_live=True) for one in range(SESSIONS_A_ROOM)]
        schedule.listed(call, sessions, now)

    def ask_all() -> None:
        for room in rooms:
            schedule.know_backoff(RoomBackoff(room))  # So that no answer of before is taken again.
        schedule.plan(now)

    each_us = best_s(ask_all, 20) / (ROOMS * (SESSIONS_A_ROOM + 1)) * 1e6
    table.add(Figure("wait check a lane", f"{each_us:.1f} µs", "<= 5 µs", each_us <= 5))
