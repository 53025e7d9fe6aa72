"""The ledger for asyncio does what the other one does, and never on the event loop."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from application.ledger import Ledger
from domain.delta import CommittedDelta
from domain.errors import Rejected, StoreUnavailable
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import open_ledger, open_ledger_async

ROOM = "room-1"
RUNNING = {"state": {"title": "Tides", "turn": {"turnId": "t1", "phase": "running"}}}


def message(number: int) -> dict[str, Any]:
    update = {
        "messageId": f"m{number}",
        "turnId": "t1",
        "role": "assistant",
        "kind": "text",
        "payload": {"text": str(number)},
    }
    return {"updates": [update]}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


def with_ledger(url: str, use: Callable[[AsyncLedger], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_ledger_async(url) as ledger:
            await use(ledger)

    asyncio.run(main())


def test_it_offers_what_the_ledger_offers() -> None:
    """Every public method has the same parameters, so that one can be taken for the other."""
    own = {"run", "rehearse", "store", "delivery", "clock"}
    for name, method in inspect.getmembers(Ledger, inspect.isfunction):
        if not name.startswith("_") and name not in own:
            counterpart = getattr(AsyncLedger, name)
            expected = list(inspect.signature(method).parameters.values())
            assert list(inspect.signature(counterpart).parameters.values()) == expected, name


def test_reports_and_commands_are_answered_and_read_back(url: str) -> None:
    async def use(ledger: AsyncLedger) -> None:
        said = await ledger.report_state(RUNNING, room=ROOM, session="s1")
        assert said.accepted
        replies = await asyncio.gather(
            *(ledger.report_messages(message(number), room=ROOM, session="s1") for number in range(100))
        )
        assert sorted(reply.latest_version for reply in replies) == list(range(1, 101))
        page = await ledger.messages(ROOM, "s1", limit=500)
        assert [one.version for one in page.messages] == list(range(1, 101))
        await ledger.set_title(ROOM, "s1", "Harbour")
        await ledger.set_pin(ROOM, "s1", pinned=True)
        await ledger.set_settings(ROOM, "s1", {"model": "a"})
        await ledger.request_cancel(ROOM, "s1", "t1")
        view = await ledger.session(ROOM, "s1")
        assert view is not None
        assert view.title == "Harbour"
        assert await ledger.room_of("s1") == ROOM
        await ledger.settle(ROOM)
        await ledger.delete(ROOM, "s1")
        assert await ledger.sessions() == ()
        await ledger.restore(ROOM, "s1")
        assert [one.session for one in await ledger.sessions(ROOM)] == ["s1"]
        events = [one async for one in ledger.events(ROOM, "s1")]
        assert await ledger.rebuild() == len(events)
        await ledger.purge(ROOM, "s1")
        assert (await ledger.verify()).ok
        deltas = [one async for one in ledger.deltas()]
        assert [one.committed async for one in ledger.outbox()] == deltas

    with_ledger(url, use)


def test_a_refusal_reaches_its_own_caller(url: str) -> None:
    async def use(ledger: AsyncLedger) -> None:
        await ledger.report_state(RUNNING, room=ROOM, session="s1")
        with pytest.raises(Rejected, match="not known"):
            await ledger.report_messages(
                {"updates": [{**message(1)["updates"][0], "turnId": "t9"}]}, room=ROOM, session="s1"
            )
        with pytest.raises(Rejected):
            await ledger.answer(ROOM, "s1", "t1", "r1", {})

    with_ledger(url, use)


def test_the_store_is_never_used_on_the_event_loop(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[int] = []
    used: set[int] = set()

    async def use(ledger: AsyncLedger) -> None:
        loops.append(threading.get_ident())
        database = ledger._store._database
        for name in ("read", "write"):
            original = getattr(database, name)

            def noted(original: Any = original) -> Any:
                used.add(threading.get_ident())
                return original()

            monkeypatch.setattr(database, name, noted)
        await ledger.subscribe(lambda _: None, "all")
        await ledger.report_state(RUNNING, room=ROOM, session="s1")
        await ledger.sessions()
        assert len([one async for one in ledger.deltas()]) == 1
        await ledger.redeliver("all")

    with_ledger(url, use)
    assert used
    assert not used & set(loops)


def test_observers_get_every_delta_in_order_before_it_is_closed(url: str) -> None:
    seen: list[CommittedDelta] = []
    threads: set[int] = set()

    def observe(delta: CommittedDelta) -> None:
        seen.append(delta)
        threads.add(threading.get_ident())

    async def use(ledger: AsyncLedger) -> None:
        await ledger.subscribe(observe, "all")
        await ledger.report_state(RUNNING, room=ROOM, session="s1")
        await asyncio.gather(
            *(ledger.report_messages(message(number), room=ROOM, session="s1") for number in range(20))
        )

    with_ledger(url, use)
    assert [delta.last_position for delta in seen] == sorted({delta.last_position for delta in seen})
    assert len(seen) == 21
    assert len(threads) == 1


def test_an_observer_that_does_not_return_delays_no_caller(url: str) -> None:
    let_go = threading.Event()

    def wait(_: CommittedDelta) -> None:
        let_go.wait(30)

    async def use(ledger: AsyncLedger) -> None:
        await ledger.subscribe(wait, "slow")
        for number in range(3):
            await ledger.report_state(RUNNING, room=ROOM, session=f"s{number}")
        assert not let_go.is_set()
        let_go.set()

    with_ledger(url, use)


def test_what_is_committed_is_followed_until_the_task_is_cancelled(url: str) -> None:
    async def use(ledger: AsyncLedger) -> None:
        seen: list[CommittedDelta] = []
        has_seen = asyncio.Event()

        async def follow() -> None:
            async for delta in ledger.follow():
                seen.append(delta)
                if len(seen) == 3:
                    has_seen.set()

        await ledger.report_state(RUNNING, room=ROOM, session="s0")
        task = asyncio.create_task(follow())
        for number in (1, 2):
            await ledger.report_state(RUNNING, room=ROOM, session=f"s{number}")
        await has_seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [one async for one in ledger.deltas()]

    with_ledger(url, use)


def test_leaving_answers_what_was_taken_and_takes_no_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    seen: list[CommittedDelta] = []

    async def main() -> None:
        async with open_ledger_async(url) as ledger:
            await ledger.subscribe(seen.append, "all")
            asked = [
                asyncio.create_task(ledger.report_state(RUNNING, room=ROOM, session=f"s{number}"))
                for number in range(10)
            ]
            await asyncio.sleep(0)  # Every task has put its command in the queue.
        assert all(reply.accepted for reply in await asyncio.gather(*asked))
        with pytest.raises(StoreUnavailable, match="closed"):
            await ledger.report_state(RUNNING, room=ROOM, session="late")
        await ledger.close()

    asyncio.run(main())
    with open_ledger(url) as ledger:
        assert len(ledger.sessions()) == 10
        assert seen == list(ledger.deltas())
