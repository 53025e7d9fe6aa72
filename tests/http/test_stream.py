"""What is committed is streamed: once, in order, also when readers and the service come and go."""

import json
import random
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx
import pytest

from application import access
from application.access import Scope
from application.ledger import Ledger
from infrastructure.main import open_database, open_ledger
from infrastructure.store.tokens import StoredTokens
from tests.http.asgi import called
from tests.http.reading import EventReader, ServerSent
from tests.http.serving import WAIT_S, Served, served

END = "the end"
"""The room of the last commit."""


def commit(ledger: Ledger, number: int, room: str = "team") -> None:
    ledger.report_state({"state": {"title": f"title {number}"}}, room=room, session=f"s-{number}")


def positions(ledger: Ledger) -> list[int]:
    return [delta.last_position for delta in ledger.deltas()]


@contextmanager
def streaming(
    url: str, after: int | None = None, **headers: str
) -> Iterator[tuple[EventReader, Iterator[ServerSent]]]:
    """A stream that is open, and its events as they come."""
    reader = EventReader()
    params = {} if after is None else {"after": after}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.stream("GET", url, params=params, headers=named, timeout=WAIT_S) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        yield reader, (one for piece in answer.iter_bytes() for one in reader.feed(piece))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


def test_commits_of_any_process_are_streamed_as_they_come(url: str) -> None:
    with open_ledger(url) as ledger, served(url) as service:
        commit(ledger, 1)
        with streaming(f"{service.url}/v1/stream", after=0) as (reader, events):
            first = next(events)
            commit(ledger, 2)
            second = next(events)

        assert reader.retry_ms == 2_000
        assert [int(first.id), int(second.id)] == positions(ledger)
        assert [one.data["subject"] for one in (first, second)] == ["s-1", "s-2"]
        assert {one.event for one in (first, second)} == {"commit"}
        assert first.data["data"] == json.loads(next(ledger.deltas()).delta.to_json())


def test_where_it_was_cut_off_goes_before_where_it_began(place: str) -> None:
    with open_ledger(place) as ledger, served(place) as service:
        for number in range(4):
            commit(ledger, number)
        where = positions(ledger)
        with streaming(f"{service.url}/v1/stream", after=0, Last_Event_ID=str(where[2])) as (_, events):
            assert int(next(events).id) == where[3]
        with streaming(f"{service.url}/v1/stream", after=where[2], Last_Event_ID="") as (_, events):
            assert int(next(events).id) == where[3]


def test_a_room_has_a_stream_of_its_own_and_a_token_sees_its_rooms(place: str) -> None:
    database = open_database(place)
    text, _ = access.create(StoredTokens(database), bytes(32), [Scope.READ], ["a/b"], "", 1)
    database.close()
    with open_ledger(place) as ledger, served(place) as service:
        for number, room in enumerate(["x", "a/b", "x", "a/b"]):
            commit(ledger, number, room)
        ways = [
            (f"{service.url}/v1/rooms/a%2Fb/stream", {}),
            (f"{service.url}/v1/stream", {"Authorization": f"Bearer {text}"}),
        ]
        for way, headers in ways:
            with streaming(way, 0, **headers) as (_, events):
                assert [next(events).data["subject"] for _ in range(2)] == ["s-1", "s-3"]
        headers = {"Authorization": f"Bearer {text}"}
        assert httpx.get(f"{service.url}/v1/rooms/x/stream", headers=headers).status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "last"),
    [("?after=-1", ""), ("?after=x", ""), (f"?after={2**63}", ""), ("", "x"), ("", "-1"), ("", "9" * 500)],
)
async def test_what_is_no_position_is_refused(query: str, last: str) -> None:
    async with called() as service:
        answer = await service.client.get(f"/v1/stream{query}", headers={"Last-Event-ID": last})

        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"


@dataclass
class Address:
    """Where the service is at the moment: it comes back somewhere else."""

    url: str = ""


def read_on(address: Address, chance: random.Random, stop: Event) -> list[int]:
    """Read until the last commit, cut off now and then; where each event stood."""
    seen, last_id = list[int](), "0"
    with httpx.Client(timeout=WAIT_S) as client:
        while not stop.is_set():
            patience, reader = chance.randint(1, 60), EventReader()
            headers = {"Last-Event-ID": last_id}
            try:
                with client.stream("GET", f"{address.url}/v1/stream", headers=headers) as answer:
                    answer.raise_for_status()
                    for one in (one for piece in answer.iter_bytes() for one in reader.feed(piece)):
                        assert one.event == "commit", one
                        seen.append(int(one.id))
                        last_id = reader.last_id
                        patience -= 1
                        if one.data["partitionkey"] == END:
                            return seen
                        if not patience:
                            break
            except httpx.HTTPError:
                stop.wait(0.02)
    return seen


def test_nothing_is_lost_or_seen_twice_whoever_goes_away(url: str) -> None:
    """Four readers are cut off at random; the service is stopped, and killed, and comes back elsewhere."""
    chance, stop, address = random.Random(7), Event(), Address()
    reading, seen = list[Future[list[int]]](), list[list[int]]()
    with open_ledger(url) as ledger, ThreadPoolExecutor(4) as readers:
        try:
            number = 0
            for ends in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, None):
                with served(url) as service:
                    address.url = service.url
                    reading = reading or [
                        readers.submit(read_on, address, random.Random(seed), stop) for seed in range(4)
                    ]
                    for _ in range(chance.randint(30, 60)):
                        commit(ledger, number, chance.choice(["a", "b"]))
                        number += 1
                    if ends is None:
                        commit(ledger, number, END)
                        seen = [one.result(WAIT_S) for one in reading]
                        break
                    assert ended_by(service, ends)
                    commit(ledger, number := number + 1)
        finally:
            stop.set()

        assert seen == [positions(ledger)] * 4
        assert len(seen[0]) == len(set(seen[0])) > 150


def ended_by(service: Served, how: signal.Signals) -> bool:
    return service.told(how) == (0 if how is signal.SIGTERM else -how)
