"""One follower serves all readers: each is given what was kept and then what comes, once and in order."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import pytest
from starlette.types import Message

from application.ports import Extent
from domain.delta import CommittedDelta
from domain.errors import Overloaded, StoreUnavailable, Trimmed
from domain.ids import Position, RoomId
from infrastructure.asynchronous import AsyncLedger
from infrastructure.http import live
from infrastructure.http import stream as stream_routes
from infrastructure.http.live import Live
from infrastructure.http.stream import EventStream
from infrastructure.main import open_ledger_async
from tests.http.reading import EventReader, ServerSent, read_all, until

pytestmark = pytest.mark.anyio


def everywhere(room: RoomId) -> bool:
    return True


async def commit(ledger: AsyncLedger, number: int, room: str = "team") -> None:
    """One more commit in a room."""
    await ledger.report_state({"state": {"title": f"title {number}"}}, room=room, session=f"s-{number}")


async def positions(ledger: AsyncLedger, room: str | None = None) -> list[int]:
    """Where every commit stands."""
    return [delta.last_position async for delta in ledger.deltas() if room in (None, delta.room)]


async def take(stream: AsyncGenerator[bytes], count: int) -> list[ServerSent]:
    """The next events of a stream that stays open."""
    reader, found = EventReader(), list[ServerSent]()
    async with asyncio.timeout(30):
        async for piece in stream:
            found += reader.feed(piece)
            if len(found) >= count:
                break
    return found


@asynccontextmanager
async def opened(**options: float) -> AsyncIterator[tuple[AsyncLedger, Live]]:
    async with open_ledger_async("memory://") as ledger:
        streams = Live(ledger, **options)
        try:
            yield ledger, streams
        finally:
            await streams.close()


async def test_a_reader_is_given_what_was_kept_and_then_what_comes() -> None:
    async with opened() as (ledger, streams):
        for number in range(120):
            await commit(ledger, number)
        async with aclosing(await streams.stream(0, everywhere)) as stream:
            kept = await take(stream, 120)
            await commit(ledger, 120)
            (came,) = await take(stream, 1)

        assert [int(one.id) for one in (*kept, came)] == await positions(ledger)
        assert {one.event for one in (*kept, came)} == {"commit"}
        assert all(int(one.data["sequence"]) == int(one.id) for one in kept)


async def test_the_first_word_says_when_to_come_again_and_from_where() -> None:
    async with opened() as (ledger, streams):
        await commit(ledger, 1)
        async with aclosing(await streams.stream(None, everywhere)) as stream:
            first = await anext(stream)

        assert first == f"id: {(await positions(ledger))[-1]}\nretry: 2000\n\n".encode()


async def test_without_a_position_only_what_comes_is_given() -> None:
    async with opened() as (ledger, streams):
        await commit(ledger, 1)
        async with aclosing(await streams.stream(None, everywhere)) as stream:
            await anext(stream)
            await commit(ledger, 2)
            (one,) = await take(stream, 1)

        assert one.data["subject"] == "s-2"


async def test_a_reader_of_a_room_sees_this_room_alone_and_learns_how_far_it_is() -> None:
    async with opened(keep_alive_s=0.01) as (ledger, streams):
        await commit(ledger, 1, "mine")
        async with aclosing(await streams.stream(0, lambda room: room == "mine")) as stream:
            (one,) = await take(stream, 1)
            reader = EventReader()
            for number in (2, 3):  # once while it catches up, once when it has joined
                await commit(ledger, number, "yours")
                end = (await positions(ledger))[-1]
                async with asyncio.timeout(30):
                    while reader.last_id != str(end):
                        assert list(reader.feed(await anext(stream))) == []

        assert one.data["partitionkey"] == "mine"
        assert reader.comments > 0


@dataclass
class Shortened:
    """A store of which the beginning is no longer kept."""

    ledger: AsyncLedger
    kept_behind: int

    async def extent(self) -> Extent:
        return Extent(Position(self.kept_behind), (await self.ledger.extent()).end)

    async def deltas_page(self, after: int, limit: int) -> Sequence[CommittedDelta]:
        if after < self.kept_behind:
            raise Trimmed(after, self.kept_behind)
        return await self.ledger.deltas_page(after, limit)

    def follow(self, after: int) -> AsyncIterator[CommittedDelta]:
        return self.ledger.follow(after)


async def test_a_position_that_is_no_longer_kept_is_told_and_the_rest_follows() -> None:
    async with open_ledger_async("memory://") as ledger:
        for number in range(5):
            await commit(ledger, number)
        where = await positions(ledger)
        streams = Live(Shortened(ledger, where[1]))
        async with aclosing(await streams.stream(where[0], everywhere)) as stream:
            found = await take(stream, 4)
        await streams.close()

        assert (found[0].event, found[0].data) == ("reset", {"earliest": where[1]})
        assert [int(one.id) for one in found] == where[1:]


async def test_a_position_beyond_the_end_is_that_of_another_store() -> None:
    async with opened() as (ledger, streams):
        await commit(ledger, 1)
        async with aclosing(await streams.stream(1_000, everywhere)) as stream:
            reset, one = await take(stream, 2)

        assert (reset.event, reset.data, reset.id) == ("reset", {"earliest": 0}, "0")
        assert [int(one.id)] == await positions(ledger)


async def test_a_slow_reader_is_told_and_cut_off_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "BUFFER_BYTES_MAX", 2_000)
    async with opened() as (ledger, streams):
        async with (
            aclosing(await streams.stream(0, everywhere)) as slow,
            aclosing(await streams.stream(0, everywhere)) as quick,
        ):
            for reader in (slow, quick):
                await anext(reader)
            joined = [asyncio.ensure_future(anext(reader)) for reader in (slow, quick)]
            await until(lambda: len(streams._readers) == 2)
            await commit(ledger, 0)
            await asyncio.gather(*joined)
            for number in range(1, 50):
                await commit(ledger, number)
                await take(quick, 1)
            *had, last = read_all([piece async for piece in slow])

        where = await positions(ledger)
        assert last.event == "lagged"
        assert [int(one.id) for one in had] == where[1 : 1 + len(had)]
        assert last.data == {"position": where[len(had)]}
        assert streams.clients == 0


async def test_closing_ends_every_stream_after_what_waits_for_its_reader() -> None:
    async with opened() as (ledger, streams):
        readers = [await streams.stream(0, everywhere) for _ in range(3)]
        for reader in readers:
            await commit(ledger, 1)
            await take(reader, 1)

        await streams.close()
        rest = [[piece async for piece in reader] for reader in readers]

        assert streams.clients == 0
        assert not streams.is_following
        assert all(one.event == "commit" for pieces in rest for one in read_all(pieces))


async def test_one_stream_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READERS_MAX", 1)
    async with opened() as (_, streams):
        async with aclosing(await streams.stream(0, everywhere)) as stream:
            await anext(stream)
            with pytest.raises(Overloaded):
                await streams.stream(0, everywhere)

        assert streams.clients == 0
        await (await streams.stream(0, everywhere)).aclose()


@dataclass
class Failing:
    """A store that goes away under whoever follows it, once."""

    ledger: AsyncLedger
    fails: bool = True

    async def extent(self) -> Extent:
        return await self.ledger.extent()

    async def deltas_page(self, after: int, limit: int) -> Sequence[CommittedDelta]:
        return await self.ledger.deltas_page(after, limit)

    async def follow(self, after: int) -> AsyncIterator[CommittedDelta]:
        async for one in self.ledger.follow(after):
            if self.fails:
                self.fails = False
                raise StoreUnavailable("gone")
            yield one


async def test_when_the_follower_fails_readers_come_again_and_miss_nothing() -> None:
    async with open_ledger_async("memory://") as ledger:
        streams = Live(Failing(ledger))
        async with aclosing(await streams.stream(None, everywhere)) as stream:
            reader = EventReader()
            list(reader.feed(await anext(stream)))
            ended = asyncio.ensure_future(anext(stream, b""))
            await until(lambda: bool(streams._readers))
            await commit(ledger, 1)
            assert await ended == b""
        async with aclosing(await streams.stream(int(reader.last_id), everywhere)) as stream:
            (one,) = await take(stream, 1)
            assert one.data["subject"] == "s-1"
            await commit(ledger, 2)
            assert (await take(stream, 1))[0].data["subject"] == "s-2"
        await streams.close()


@pytest.mark.parametrize("seed", range(12))
async def test_readers_that_come_and_go_lose_nothing_and_see_nothing_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pages and buffers, so that every way from the outbox to the others is taken."""
    monkeypatch.setattr(live, "PAGE_MAX", 3)
    monkeypatch.setattr(live, "BUFFER_BYTES_MAX", 3_000)
    chance = random.Random(seed)
    async with opened() as (ledger, streams):
        read_on = [asyncio.create_task(come_and_go(ledger, streams, random.Random(n))) for n in range(6)]
        for number in range(150):
            await commit(ledger, number, chance.choice(["a", "b"]))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        await commit(ledger, 999, "end")
        async with asyncio.timeout(60):
            seen = await asyncio.gather(*read_on)

        assert seen == [await positions(ledger)] * len(seen)


async def come_and_go(ledger: AsyncLedger, streams: Live, chance: random.Random) -> list[int]:
    """Read until the last commit, and be cut off now and then; where each event stood."""
    seen, last_id = list[int](), 0
    while True:
        patience = chance.randint(1, 9)
        reader = EventReader()
        async with aclosing(await streams.stream(last_id, everywhere)) as stream:
            async for piece in stream:
                for one in reader.feed(piece):
                    if one.event == "commit":
                        seen.append(int(one.id))
                        if one.data["partitionkey"] == "end":
                            return seen
                last_id = int(reader.last_id)
                patience -= 1
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                if not patience:
                    break


async def test_a_reader_that_takes_nothing_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_routes, "SEND_TIMEOUT_S", 0.01)
    taken = list[str]()

    async def send(message: Message) -> None:
        taken.append(message["type"])
        if len(taken) > 1:
            await asyncio.Event().wait()

    async with opened() as (_, streams):
        answer = EventStream(await streams.stream(None, everywhere))
        await answer.stream_response(send)

        assert taken == ["http.response.start", "http.response.body"]
        assert streams.clients == 0
