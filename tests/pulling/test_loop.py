"""Rooms are pulled in: who is read and who is not, what vanishes, and how hosts that are down are spared."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from application.pull_calls import SERVICE_PACE, Pace
from application.pull_schedule import service_schedule
from application.remote import AgentsPage, Failure, MessagesPage, Remote
from domain import backoff, tracked_room
from domain.backoff import BACKOFF, LIST_LANE, RoomBackoff
from domain.breaker import BREAKER
from domain.ids import RemoteCursor, RoomId, SessionId
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import open_ledger_async
from infrastructure.pulls import PullLoop, Told
from tests.pulling.place import ROOM, SESSION, FakeClock, listed, message
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import Step

URL = "http://127.0.0.1:1"
STILL = Pace(spreads=False)
"""Every room has its turn at once, so that a test need not know its place in the tick."""


@dataclass
class Log:
    """What the loop has told."""

    told: list[Told] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, told: Told) -> None:
        self.told.append(told)
        self.news.set()

    async def until(self, room: RoomId) -> None:
        """Wait until something of a room was told."""
        while not any(told.room == room for told in self.told):
            await self.news.wait()
            self.news.clear()


@dataclass
class Pulled:
    """A ledger, the loop that pulls into it, and the remote that it pulls from."""

    ledger: AsyncLedger
    loop: PullLoop
    client: FakeRemoteActivity
    clock: FakeClock
    log: Log

    async def round(self, room: RoomId = ROOM) -> None:
        """A room's turn, and all calls that follow from it."""
        await self.loop.refresh()
        self.loop.trigger(room)
        await self.loop.once()

    async def waits(self, room: RoomId = ROOM) -> RoomBackoff:
        return (await self.ledger.aggregate(BACKOFF, room)).state

    def message_calls(self, session: str = SESSION) -> int:
        return sum(call.session == session for call in self.client.calls("messages"))


@asynccontextmanager
async def pulled(url: str, client: FakeRemoteActivity, clock: FakeClock) -> AsyncIterator[Pulled]:
    async with open_ledger_async(url, clock=clock) as ledger:
        log = Log()
        loop = PullLoop(ledger, client, service_schedule(pace=STILL), clock, tell=log.tell)
        yield Pulled(ledger, loop, client, clock, log)


Story = Callable[[Pulled], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Tells stories one after the other on one store, each as a process that remembers nothing."""

    def tell(*stories: Story, steps: tuple[Step, ...] = ()) -> None:
        clock = FakeClock()
        client = FakeRemoteActivity(*steps, now_ms=clock.now_ms)

        async def run(story: Story) -> None:
            async with pulled(f"sqlite:///{tmp_path}/reprise.db", client, clock) as place:
                await place.ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, URL))
                await story(place)

        for story in stories:
            asyncio.run(run(story))

    return tell


# Who is read (SPEC P3).


def test_a_session_that_did_not_change_is_not_read_again(play: Play) -> None:
    """P3: its last read was complete, and it shows no change and no work."""

    async def story(place: Pulled) -> None:
        await place.round()
        await place.round()
        assert (len(place.client.calls("agents")), place.message_calls()) == (2, 1)

        place.client.do(message("b"))
        await place.round()
        assert place.message_calls() == 2

    play(story, steps=(message("a"),))


@pytest.mark.parametrize("status", ["working", "waiting"])
def test_a_session_at_work_is_read_in_every_round(play: Play, status: str) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        await place.round()
        assert place.message_calls() == 2

    play(story, steps=(listed(status=status), message("a")))


def test_a_session_that_does_not_say_when_it_changed_is_read_in_every_round(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        await place.round()
        assert place.message_calls() == 2

    play(story, steps=(message("a"), listed(updatedAtUnixMs=0)))


def test_a_session_is_read_when_its_epoch_changes_though_its_time_does_not(play: Play) -> None:
    """P8: as after a remote was restored from a backup."""

    async def story(place: Pulled) -> None:
        await place.round()
        place.client.do({"do": "reset", "room": ROOM}, message("b"))
        for _ in range(3):
            await place.round()
        names = [one.message_id for one in (await place.ledger.messages(ROOM, SESSION)).messages]
        assert names == ["a", "b"]
        assert place.message_calls() == 4

    play(story, steps=({"do": "speak", "room": ROOM, "home": "there"}, message("a")))


def test_a_healthy_round_without_news_costs_one_call_and_no_event(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        end = (await place.ledger.verify()).events
        calls = len(place.client.calls())
        await place.round()

        assert len(place.client.calls()) == calls + 1
        assert (await place.ledger.verify()).events == end

    play(story, steps=({"do": "fill", "room": ROOM, "sessions": 5, "messages": 30},))


def test_hidden_and_deleted_sessions_are_not_read_until_they_are_back(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        await place.ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.hide(room, SESSION))
        place.client.do(message("b"))
        await place.round()
        assert place.message_calls() == 1

        await place.ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.unhide(room, SESSION))
        await place.round()
        assert place.message_calls() == 2

        await place.ledger.delete(ROOM, SESSION)
        place.client.do(message("c"))
        for _ in range(3):
            await place.round()
        assert place.message_calls() == 2

        await place.ledger.restore(ROOM, SESSION)
        await place.round()
        assert [one.message_id for one in (await place.ledger.messages(ROOM, SESSION)).messages] == [
            "a",
            "b",
            "c",
        ]

    play(story, steps=(message("a"),))


def test_an_untracked_room_is_left_alone_and_goes_on_from_its_cursors(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        await place.ledger.change(tracked_room.ROOM, ROOM, tracked_room.untrack)
        calls = len(place.client.calls())
        await place.round()
        assert len(place.client.calls()) == calls

        await place.ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, URL))
        place.client.do(message("b"))
        await place.round()
        assert place.client.calls("messages")[-1].after == 0

    play(story, steps=(message("a"),))


# What is gone (SPEC P7).


def test_a_session_that_three_lists_in_a_row_miss_has_vanished_and_may_reappear(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        place.client.do({"do": "remove", "room": ROOM, "session": SESSION})
        for rounds in range(1, 4):
            await place.round()
            state = await place.ledger.state(ROOM, SESSION)
            assert state is not None
            assert state.pull is not None
            assert state.pull.vanished == (rounds == 3)
        assert place.log.told[-1] == Told("vanished", ROOM, SESSION)

        place.client.do(message("a"))
        await place.round()
        topics = [event.topic async for event in place.ledger.events(ROOM, SESSION)]
        assert topics.count("session.vanished") == topics.count("session.reappeared") == 1

    play(story, steps=(message("a"),))


def test_a_failing_list_makes_nothing_vanish(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        place.client.do({"do": "fail", "route": "agents", "what": "html"})
        for _ in range(4):
            place.clock.now += 400_000
            await place.round()
        assert not any(told.what == "vanished" for told in place.log.told)

    play(story, steps=(message("a"),))


# Whose home it is (SPEC P6).


def test_nothing_is_taken_from_a_remote_whose_home_is_here(play: Play) -> None:
    async def story(place: Pulled) -> None:
        [own] = await place.ledger.store_ids()
        place.client.do({"do": "speak", "room": ROOM, "home": own})
        await place.round()
        assert (await place.ledger.sessions(ROOM), place.message_calls()) == ((), 0)

    play(story, steps=(message("a"),))


# Waits (SPEC B1-B8).


def test_what_is_left_of_a_wait_is_left_after_a_restart(play: Play) -> None:
    """E05: restarts change nothing."""

    async def fails(place: Pulled) -> None:
        await place.round()
        assert len(place.client.calls("agents")) == 1

    async def waits(place: Pulled) -> None:
        place.clock.now += 5_000
        await place.round()
        assert len(place.client.calls("agents")) == 1

    async def tries(place: Pulled) -> None:
        place.clock.now += 10_000
        await place.round()
        assert len(place.client.calls("agents")) == 2

    play(fails, waits, tries, steps=({"do": "fail", "what": "status", "status": 500},))


def test_a_page_that_came_before_a_failure_starts_the_escalation_over(play: Play) -> None:
    async def story(place: Pulled) -> None:
        for call in (2, 4, 6):
            place.client.do({"do": "fail", "route": "messages", "calls": [call], "what": "cut"})
        for _ in range(3):
            await place.round()
            place.clock.now += 20_000
        wait = (await place.waits()).waits[backoff.messages_lane(SESSION)]
        assert wait.step_s == 10.0

    play(story, steps=({"do": "fill", "room": ROOM, "sessions": 1, "messages": 300},))


def test_a_room_that_is_gone_is_parked_after_three_answers_and_seldom_asked(play: Play) -> None:
    """E04: an hour of 404 costs a handful of calls."""

    async def story(place: Pulled) -> None:
        for _ in range(720):
            await place.round()
            place.clock.now += 5_000
        assert len(place.client.calls("agents")) == 3
        assert (await place.waits()).waits[LIST_LANE].is_parked
        place.clock.now += 3_600_000
        await place.round()
        assert len(place.client.calls("agents")) == 4

    play(story, steps=({"do": "fail", "what": "status", "status": 404},))


def test_429_is_no_empty_answer(play: Play) -> None:
    """E02: tries after 0, 10 and 30 s, and the cursor stays."""

    async def story(place: Pulled) -> None:
        await place.round()
        place.client.do({"do": "fail", "route": "messages", "what": "status", "status": 429})
        place.client.do(message("b"))
        begun = place.clock.now
        tried = []
        for _ in range(60):
            calls = place.message_calls()
            await place.round()
            if place.message_calls() > calls:
                tried.append((place.clock.now - begun) // 1_000)
            place.clock.now += 1_000
        assert tried[0] == 0
        assert 10 <= tried[1] <= 13
        assert tried[1] + 20 <= tried[2] <= tried[1] + 26
        state = await place.ledger.state(ROOM, SESSION)
        assert state is not None
        assert state.pull is not None
        assert state.pull.cursor == 1

    play(story, steps=(message("a"),))


def test_a_clock_that_jumps_an_hour_hammers_nothing_and_holds_nothing_for_an_hour(play: Play) -> None:
    async def story(place: Pulled) -> None:
        await place.round()
        place.clock.now += 3_600_000
        await place.round()
        assert len(place.client.calls("agents")) == 2
        place.clock.now -= 7_200_000
        for _ in range(10):
            await place.round()
        assert len(place.client.calls("agents")) <= 4

    play(story, steps=({"do": "fail", "what": "status", "status": 500},))


# Hosts (SPEC B7, P9).


def test_a_host_that_fails_for_several_rooms_is_asked_by_one_probe_at_a_time(play: Play) -> None:
    async def story(place: Pulled) -> None:
        rooms = [RoomId(f"room-{number}") for number in range(1, 11)]
        for room in rooms:
            await place.ledger.change(tracked_room.ROOM, room, lambda state: tracked_room.track(state, URL))
        await place.loop.refresh()
        for room in rooms:
            place.loop.trigger(room)
        await place.loop.once()
        host = tracked_room.host_of(URL)
        assert (await place.ledger.aggregate(BREAKER, host)).state.is_open

        calls = len(place.client.calls())
        place.clock.now += 10_000
        await place.loop.once()
        assert len(place.client.calls()) == calls + 1

        place.client.do({"do": "heal"})
        place.clock.now += 60_000
        for _ in range(20):
            await place.loop.once()
            place.clock.now += 1_000
        assert not (await place.ledger.aggregate(BREAKER, host)).state.is_open
        asked = {call.room for call in place.client.calls("agents")[calls + 1 :]}
        assert asked == set(rooms)

    play(story, steps=({"do": "fail", "what": "status", "status": 503},))


def test_a_slow_room_delays_no_other(play: Play) -> None:
    async def story(place: Pulled) -> None:
        other = RoomId("room-2")
        await place.ledger.change(tracked_room.ROOM, other, lambda room: tracked_room.track(room, URL))
        place.client.do({"do": "fail", "room": ROOM, "what": "hold"})
        await place.loop.refresh()
        place.loop.trigger(ROOM)
        place.loop.trigger(other)
        once = asyncio.create_task(place.loop.once())
        await place.log.until(other)
        assert not once.done()
        place.client.do({"do": "release"})
        await once

    slow = {"do": "message", "room": "room-2", "session": SESSION, "message": "a", "fields": {"turnId": "t"}}
    play(story, steps=(message("a"), slow))


# Stopping.


class Stuck:
    """A remote that never answers, and says when it is asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def list_agents(self, remote: Remote, room: RoomId) -> AgentsPage | Failure:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for ever")

    async def list_messages(
        self, remote: Remote, room: RoomId, session: SessionId, after_version: RemoteCursor, limit: int
    ) -> MessagesPage | Failure:
        raise AssertionError("nothing was listed")


def test_a_stop_ends_calls_that_are_at_work_and_charges_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with open_ledger_async(f"sqlite:///{tmp_path}/reprise.db", clock=clock) as ledger:
            await ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, URL))
            stuck = Stuck()
            loop = PullLoop(ledger, stuck, service_schedule(pace=SERVICE_PACE), clock)
            await loop.refresh()
            loop.trigger(ROOM)
            running = asyncio.create_task(loop.run())
            await stuck.asked.wait()
            loop.stop()
            await running
            assert (await ledger.aggregate(BACKOFF, ROOM)).version == 0

    asyncio.run(run())
