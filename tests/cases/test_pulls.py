"""Faults that others have met with pulls: steps and right outcomes, over a real store and the real loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from application.pull_calls import SEED_PACE, Pace
from application.pull_schedule import PullSchedule, service_schedule
from application.remote import RemoteActivity
from domain import tracked_room
from domain.backoff import BACKOFF, LIST_LANE, Wait
from domain.backoff_policy import SEED_POLICY
from domain.ids import SessionId
from domain.pull import Pull
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import open_ledger_async
from infrastructure.pulls import PullLoop
from infrastructure.remote import HttpRemoteActivity
from tests.pulling.place import ROOM, SESSION, FakeClock, bad, message
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import Step
from tests.remote.running import running_remote

STILL = Pace(spreads=False)
NINE = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""


@dataclass
class Place:
    """A store, the loop, and a clock that stands until it is moved."""

    ledger: AsyncLedger
    loop: PullLoop
    clock: FakeClock

    async def round(self) -> None:
        await self.loop.refresh()
        self.loop.trigger(ROOM)
        await self.loop.once()

    async def pull(self) -> Pull:
        state = await self.ledger.state(ROOM, SESSION)
        assert state is not None
        assert state.pull is not None
        return state.pull

    async def names(self, session: SessionId = SESSION) -> list[str]:
        return [one.message_id for one in (await self.ledger.messages(ROOM, session, limit=500)).messages]

    async def wait(self) -> Wait | None:
        return (await self.ledger.aggregate(BACKOFF, ROOM)).state.waits.get(LIST_LANE)


@asynccontextmanager
async def pulled(
    folder: Path,
    remote: RemoteActivity,
    clock: FakeClock,
    url: str = "http://127.0.0.1:1",
    *,
    seed: bool = False,
) -> AsyncIterator[Place]:
    schedule = PullSchedule(SEED_PACE, SEED_POLICY, None) if seed else service_schedule(pace=STILL)
    async with open_ledger_async(f"sqlite:///{folder}/reprise.db", clock=clock) as ledger:
        await ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, url))
        yield Place(ledger, PullLoop(ledger, remote, schedule, clock), clock)


def test_d02_a_hole_in_a_live_stream(tmp_path: Path) -> None:
    """Case D02: A version that was missed is fetched, because the cursor moves to what a page held alone; the
    pull asks again from one below it, with nothing dropped too.
    """

    async def story() -> None:
        clock = FakeClock()
        remote = FakeRemoteActivity(message("v1"), message("v2"), now_ms=clock.now_ms)
        async with pulled(tmp_path, remote, clock) as place:
            await place.round()
            remote.do({"do": "fail", "route": "messages", "calls": [1], "what": "cut"})
            remote.do(message("v3"), message("v4"))
            await place.round()
            assert (await place.pull()).cursor == 2

            clock.now += 30_000
            await place.round()
            assert remote.calls("messages")[-1].after == 1
            assert await place.names() == ["v1", "v2", "v3", "v4"]

    asyncio.run(story())


def test_d04_one_row_that_can_never_be_read(tmp_path: Path) -> None:
    """Case D04: It is parked where people see it, all else is stored, and each run fetches what is new."""

    async def story() -> None:
        clock, other = FakeClock(), SessionId("other")
        ten: list[Step] = [message(f"m{number}") for number in range(1, 5)]
        ten += [bad("m5", '"undecodable"'), *(message(f"m{number}") for number in range(6, 11))]
        remote = FakeRemoteActivity(*ten, {**message("there"), "session": other}, now_ms=clock.now_ms)
        async with pulled(tmp_path, remote, clock) as place:
            for run in range(6):
                calls = len(remote.calls("messages"))
                await place.round()
                assert len(remote.calls("messages")) - calls <= 2
                remote.do(message(f"n{run}a"), message(f"n{run}b"))
            assert (await place.pull()).cursor == 20
            assert len(await place.names()) == 9 + 10
            assert "m5" not in await place.names()
            assert await place.names(other) == ["there"]
            topics = [event.topic async for event in place.ledger.events(ROOM, SESSION)]
            assert topics.count("session.row_parked") == 1

    asyncio.run(story())


@pytest.mark.parametrize("skew_ms", [120_000, -120_000])
def test_d05_a_clock_that_is_wrong_hides_no_message(tmp_path: Path, skew_ms: int) -> None:
    """Case D05: The cursor holds only what the server has sent."""

    async def story() -> None:
        clock = FakeClock(NINE + skew_ms)
        remote = FakeRemoteActivity(message("m1", occurredAtUnixMs=NINE), now_ms=clock.now_ms)
        async with pulled(tmp_path, remote, clock) as place:
            await place.round()
            assert (await place.pull()).cursor == 1
            remote.do(message("m2", occurredAtUnixMs=NINE + 60_000))
            clock.now += 10_000
            await place.round()
            assert await place.names() == ["m1", "m2"]

    asyncio.run(story())


def test_e01_a_server_that_answers_502_for_a_day_gets_292_calls(tmp_path: Path) -> None:
    """Case E01: With the seed profile: 0, 10, 30, 70, 150, 310 s, then every 300 s."""

    async def story() -> None:
        clock = FakeClock(NINE)
        remote = FakeRemoteActivity({"do": "fail", "what": "status", "status": 502}, now_ms=clock.now_ms)
        async with pulled(tmp_path, remote, clock, seed=True) as place:
            while clock.now < NINE + 86_400_000:
                await place.round()
                wait = await place.wait()
                assert wait is not None
                clock.now = wait.until - 1_000
                calls = len(remote.calls())
                await place.round()
                assert len(remote.calls()) == calls, "a second before its time it is not asked"
                clock.now = wait.until
        seconds = [(call.at_ms - NINE) // 1_000 for call in remote.calls()]
        assert seconds[:8] == [0, 10, 30, 70, 150, 310, 610, 910]
        assert len(seconds) == 292

    asyncio.run(story())


def date(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("status", "header", "until_at_least"),
    [
        (429, "3600", NINE + 3_600_000),
        (503, "Sun, 01 Mar 2026 09:30:00 GMT", date("2026-03-01T09:30:00")),
        (503, "Sunday, 01-Mar-26 09:30:00 GMT", date("2026-03-01T09:30:00")),
        (503, "Sun Mar  1 09:30:00 2026", date("2026-03-01T09:30:00")),
        (503, "Sun, 01 Mar 2026 10:30:00 GMT", NINE + 3_600_000),
        (429, "86400", NINE + 3_600_000),
        (429, "soon", NINE + 10_000),
        (429, "-5", NINE + 10_000),
        (429, "1", NINE + 10_000),
        (429, "", NINE + 10_000),
        (429, "Sun, 01 Mar 2026 08:00:00 GMT", NINE + 10_000),
    ],
)
def test_e03_each_spelling_of_retry_after_is_a_floor(
    tmp_path: Path, status: int, header: str, until_at_least: int
) -> None:
    """Case E03: Over HTTP, at most the stated hour; what makes no sense leaves the own schedule."""

    async def story() -> None:
        clock = FakeClock(NINE)
        fault = {"do": "fail", "what": "status", "status": status, "headers": {"retry-after": header}}
        with running_remote(fault) as remote:
            async with (
                HttpRemoteActivity(clock) as activity,
                pulled(tmp_path, activity, clock, remote.url) as place,
            ):
                await place.round()
                wait = await place.wait()
        assert wait is not None
        longest = 300_000 * 25 // 100
        assert until_at_least <= wait.until <= until_at_least + longest

    asyncio.run(story())


def test_e07_200_rooms_that_fail_at_once_are_no_herd(tmp_path: Path) -> None:
    """Case E07: Behind the first second there are 20 calls a second at the most."""

    async def story() -> None:
        clock = FakeClock(NINE)
        remote = FakeRemoteActivity({"do": "fail", "what": "status", "status": 503}, now_ms=clock.now_ms)
        async with pulled(tmp_path, remote, clock) as place:
            for number in range(200):
                await place.ledger.change(
                    tracked_room.ROOM,
                    f"herd-{number}",
                    lambda state: tracked_room.track(state, "http://127.0.0.1:1"),
                )
            await place.loop.refresh()
            for _ in range(400):
                await place.loop.once()
                clock.now += 1_000
        seconds = [(call.at_ms - NINE) // 1_000 for call in remote.calls()]
        assert max(seconds.count(second) for second in range(1, 400)) <= 20

    asyncio.run(story())
