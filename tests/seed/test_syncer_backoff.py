"""The back-off rules of a syncer, test by test, against the waits as they are stored and the real pull.

The remote shows one session at work. Only its messages fail; the clock stands until a test moves it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from application.pull_calls import SEED_PACE
from application.pull_schedule import PullSchedule
from domain import tracked_room
from domain.backoff_policy import SEED_POLICY, BackoffPolicy
from domain.ids import RoomId, SessionId
from infrastructure.main import open_ledger_async
from infrastructure.pulls import PullLoop
from tests.pulling.place import FakeClock
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import Step

ROOM = RoomId("room-1")
SESSION = SessionId("session-1")
WORKING: Step = {
    "do": "session",
    "room": ROOM,
    "session": SESSION,
    "fields": {"lifecycleStatus": "active", "status": "working"},
}


@dataclass
class Syncer:
    """A room that is pulled in, and the remote it comes from."""

    loop: PullLoop
    client: FakeRemoteActivity
    clock: FakeClock

    async def sync_room(self) -> None:
        """One tick for the room."""
        await self.loop.refresh()
        self.loop.trigger(ROOM)
        await self.loop.once()

    def fail_messages(self, what: str, status: int = 0) -> None:
        self.client.do({"do": "heal"}, {"do": "fail", "route": "messages", "what": what, "status": status})

    def answer_messages(self) -> None:
        self.client.do({"do": "heal"})

    @property
    def message_calls(self) -> int:
        return len(self.client.calls("messages"))


@asynccontextmanager
async def syncer(url: str, policy: BackoffPolicy | None) -> AsyncIterator[Syncer]:
    clock = FakeClock()
    client = FakeRemoteActivity(WORKING, now_ms=clock.now_ms)
    async with open_ledger_async(url, clock=clock) as ledger:
        await ledger.change(
            tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, "http://127.0.0.1:1")
        )
        schedule = PullSchedule(SEED_PACE, waits=policy, breakers=None)
        yield Syncer(PullLoop(ledger, client, schedule, clock), client, clock)


Play = Callable[[Callable[[Syncer], Awaitable[None]], BackoffPolicy | None], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Tells a story on a fresh store, with waits by a policy or without any."""

    def tell(story: Callable[[Syncer], Awaitable[None]], policy: BackoffPolicy | None) -> None:
        async def run() -> None:
            async with syncer(f"sqlite:///{tmp_path}/reprise.db", policy) as place:
                await story(place)

        asyncio.run(run())

    return tell


def test_sync_backoff_skips_message_sync_until_window_elapses(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("status", 500)

        await place.sync_room()
        assert place.message_calls == 1

        await place.sync_room()
        assert place.message_calls == 1

        place.clock.now += 10_000
        await place.sync_room()
        assert place.message_calls == 2

        # The second failure in a row doubles the wait to 20 s.
        place.clock.now += 19_000
        await place.sync_room()
        assert place.message_calls == 2
        place.clock.now += 1_000
        await place.sync_room()
        assert place.message_calls == 3

    play(story, SEED_POLICY)


def test_sync_backoff_disabled_by_default_retries_every_tick(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("status", 500)

        await place.sync_room()
        await place.sync_room()
        assert place.message_calls == 2

    play(story, None)


def test_sync_backoff_ignores_non_retryable_errors(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("status", 404)

        await place.sync_room()
        await place.sync_room()
        assert place.message_calls == 2

    play(story, SEED_POLICY)


def test_sync_backoff_applies_to_transport_errors(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("cut")

        await place.sync_room()
        await place.sync_room()
        assert place.message_calls == 1

    play(story, SEED_POLICY)


def test_sync_backoff_ignores_context_cancellation(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("canceled")

        await place.sync_room()
        await place.sync_room()
        assert place.message_calls == 2

    play(story, SEED_POLICY)


def test_sync_backoff_resets_after_success(play: Play) -> None:
    async def story(place: Syncer) -> None:
        place.fail_messages("status", 500)

        await place.sync_room()
        place.clock.now += 10_000
        place.answer_messages()
        await place.sync_room()
        assert place.message_calls == 2

        # A fresh failure behind a success starts over at the first wait instead of doubling on.
        place.fail_messages("status", 500)
        await place.sync_room()
        assert place.message_calls == 3
        place.clock.now += 10_000
        await place.sync_room()
        assert place.message_calls == 4

    play(story, SEED_POLICY)


def test_sync_backoff_caps_delay_at_max() -> None:
    policy = BackoffPolicy(initial_s=10.0, maximum_s=15.0, multiplier=2.0)

    assert policy.next(10.0) == 15.0
    assert policy.next(0.0) == 10.0
