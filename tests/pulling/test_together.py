"""Several processes pull one room into one store: one of them wins each time, and nothing comes twice."""

import asyncio
import subprocess
import sys
from pathlib import Path

from application.aggregates import change
from application.pull_calls import Pace
from application.pull_schedule import service_schedule
from domain import tracked_room
from domain.backoff import BACKOFF
from domain.breaker import BREAKER
from domain.ids import RoomId
from infrastructure.main import open_ledger, open_ledger_async
from infrastructure.pulls import PullLoop
from tests.pulling.place import FakeClock
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import Step
from tests.remote.running import running_remote

ROOM = RoomId("room-1")
URL = "http://127.0.0.1:1"
SESSIONS, MESSAGES = 5, 60
FILLED: Step = {"do": "fill", "room": ROOM, "sessions": SESSIONS, "messages": MESSAGES}

MESSAGE: Step = {"do": "message", "session": "s", "message": "m", "fields": {"turnId": "t"}}


def track(url: str, *rooms: str, remote: str = URL) -> None:
    with open_ledger(url) as ledger:
        for room in rooms:
            change(
                ledger.store,
                tracked_room.ROOM,
                room,
                lambda state: tracked_room.track(state, remote),
                ledger.clock.now_ms(),
            )


def test_two_processes_that_read_one_room_store_every_page_once(url: str) -> None:
    command = [sys.executable, "-m", "tests.cli.command", "--db", url, "pull", ROOM, "--once"]
    with running_remote(FILLED) as remote:
        track(url, ROOM, remote=remote.url)
        processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [process.wait() for process in processes] == [0, 0]

    with open_ledger(url) as ledger:
        assert ledger.verify().ok
        for number in range(1, SESSIONS + 1):
            topics = [event.topic for event in ledger.events(ROOM, f"session-{number}")]
            assert topics.count("session.message_added") == MESSAGES
            assert topics.count("session.opened") == 1
            row = ledger.store.session(ROOM, f"session-{number}")  # type: ignore[arg-type]
            assert row is not None
            assert row.state.pull is not None
            assert row.state.pull.cursor == MESSAGES


def test_two_that_fail_at_once_agree_on_one_wait_and_on_one_probe_at_a_time(url: str) -> None:
    """B7, B8: a second failure within the same wait is no further step, and a claim is given once."""
    rooms = [RoomId(f"room-{number}") for number in range(1, 6)]
    track(url, *rooms)
    clock = FakeClock()
    remote = FakeRemoteActivity({"do": "fail", "what": "status", "status": 503}, now_ms=clock.now_ms)

    async def story() -> None:
        async with open_ledger_async(url, clock=clock) as one, open_ledger_async(url, clock=clock) as other:
            loops = [
                PullLoop(ledger, remote, service_schedule(pace=Pace(spreads=False)), clock)
                for ledger in (one, other)
            ]

            async def round_of_both() -> None:
                for loop in loops:
                    await loop.refresh()
                    for room in rooms:
                        loop.trigger(room)
                await asyncio.gather(*(loop.once() for loop in loops))

            await round_of_both()
            host = tracked_room.host_of(URL)
            first, second = [(await ledger.aggregate(BREAKER, host)).state for ledger in (one, other)]
            assert first == second
            assert first.is_open
            waits = [
                wait.failures
                for room in rooms
                for wait in (await one.aggregate(BACKOFF, room)).state.waits.values()
            ]
            assert all(failures == 1 for failures in waits)

            for _ in range(5):
                clock.now += 40_000
                calls = len(remote.calls())
                await round_of_both()
                assert len(remote.calls()) == calls + 1

            for room in rooms:
                remote.do({**MESSAGE, "room": room})
            remote.do({"do": "heal"})
            # A host that has just come back gets few calls at a time.
            for _ in range(100):
                clock.now += 1_000
                await asyncio.gather(*(loop.once() for loop in loops))
            assert not (await one.aggregate(BREAKER, host)).state.is_open
            for room in rooms:
                assert len((await other.messages(room, "s")).messages) == 1
                topics = [event.topic async for event in one.events(room, "s")]
                assert topics.count("session.message_added") == 1

    asyncio.run(story())


def test_a_store_that_another_process_fills_is_read_on_from_there(tmp_path: Path) -> None:
    """The cursor is the store's, not the process's: the second one asks behind what the first has read."""
    url = f"sqlite:///{tmp_path}/reprise.db"
    track(url, ROOM)
    clock = FakeClock()
    remote = FakeRemoteActivity({**FILLED, "sessions": 1}, now_ms=clock.now_ms)

    async def pull_once() -> None:
        async with open_ledger_async(url, clock=clock) as ledger:
            loop = PullLoop(ledger, remote, service_schedule(pace=Pace(spreads=False)), clock)
            await loop.refresh()
            loop.trigger(ROOM)
            await loop.once()

    asyncio.run(pull_once())
    asyncio.run(pull_once())

    assert remote.calls("messages")[-1].after == MESSAGES - 1
