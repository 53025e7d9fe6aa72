"""Faults that others met, told over HTTP: how a service ought to behave then."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.delta import CommittedDelta
from domain.jsontext import NESTING_MAX
from tests.http.service import ROOM, RUNNING, Service, serve, text

STATE = f"/v1/rooms/{ROOM}/agents/sessions/s1/state"
MESSAGES = f"/v1/rooms/{ROOM}/agents/sessions/s1/messages"
JSON = {"content-type": "application/json"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


class Consumer:
    """An observer that keeps what it is handed, and refuses what it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.refuses: set[str] = set()
        self.is_lost_on_the_way_back = False
        self.seen: list[str] = []

    def __call__(self, delta: CommittedDelta) -> None:
        if self.failures or delta.transaction_id in self.refuses:
            self.failures -= bool(self.failures)
            raise ConnectionError("not now")
        self.seen.append(delta.transaction_id)
        if self.is_lost_on_the_way_back:
            self.is_lost_on_the_way_back = False
            raise ConnectionError("taken, but nobody hears of it")


async def committed(service: Service) -> list[str]:
    return [one["transactionId"] for one in (await service.get("/v1/commits")).json()["items"]]


def test_a_report_succeeds_though_its_observer_fails_and_the_delta_comes_later(store: str) -> None:
    """F01."""
    consumer = Consumer(failures=3)

    async def use(service: Service) -> None:
        await service.ledger.subscribe(consumer, "crm")
        reply = await service.report("s1", {"title": "x"})
        for _ in range(4):
            await service.ledger.redeliver("crm")
        assert consumer.seen == [reply.json()["transactionId"]] == await committed(service)
        assert (await service.get(f"/v1/rooms/{ROOM}/sessions/s1")).json()["title"] == "x"
        pending = [one async for one in service.ledger.outbox(pending=True)]
        assert pending == []

    serve(store, use)


class _FailsOnce:
    """A host's own part in a commit, which fails the first time."""

    def __init__(self) -> None:
        self.is_broken = True

    def participate(self, execute: Any, delta: Any) -> None:
        if self.is_broken:
            self.is_broken = False
            raise RuntimeError("the outbox cannot be written")


def test_a_report_whose_commit_fails_is_an_error_and_leaves_nothing(store: str) -> None:
    """F02."""

    async def use(service: Service) -> None:
        said = await service.post(STATE, json={"state": {"title": "x"}})
        assert said.status_code == 500
        assert await committed(service) == []
        assert (await service.get(f"/v1/rooms/{ROOM}/sessions/s1/events")).status_code == 404
        await service.report("s1", {"title": "x"})
        events = (await service.get(f"/v1/rooms/{ROOM}/sessions/s1/events")).json()["items"]
        assert [one["version"] for one in events] == [1, 2]

    serve(store, use, participant=_FailsOnce())


def test_a_delta_that_is_not_taken_holds_its_room_and_no_other(store: str) -> None:
    """F03, F04: first things first inside a room, and a poisoned room is nobody else's trouble."""
    consumer = Consumer()

    async def use(service: Service) -> None:
        first = (await service.report("s1", {"title": "x"})).json()["transactionId"]
        second = (await service.report("s1", {"title": "y"})).json()["transactionId"]
        said = await service.post("/v1/rooms/other/agents/sessions/s1/state", json={"state": {"title": "z"}})
        third = said.json()["transactionId"]
        consumer.refuses = {first}
        await service.ledger.subscribe(consumer, "crm", after=0)
        await service.ledger.redeliver("crm")
        assert consumer.seen == [third]
        waiting = [one.committed.transaction_id async for one in service.ledger.outbox(pending=True)]
        assert waiting == [first, second]
        consumer.refuses.clear()
        await service.ledger.redeliver("crm")
        assert consumer.seen == [third, first, second]

    serve(store, use)


def test_a_delta_that_was_taken_unheard_comes_again_under_the_same_id(store: str) -> None:
    """F05."""
    consumer = Consumer()
    consumer.is_lost_on_the_way_back = True

    async def report(service: Service) -> None:
        await service.report("s1", {"title": "x"})
        await service.ledger.subscribe(consumer, "crm", after=0)
        await service.ledger.redeliver("crm")

    async def restarted(service: Service) -> None:
        await service.ledger.subscribe(consumer, "crm")
        await service.ledger.redeliver("crm")
        assert len(consumer.seen) == 2
        assert set(consumer.seen) == set(await committed(service))

    serve(store, report)
    serve(store, restarted)


def test_hostile_text_is_stored_and_comes_back_equal_and_a_hostile_id_is_refused(url: str) -> None:
    """G07."""
    hostile = "lone \ud83d nul \u0000 esc \u001b[2J"

    async def use(service: Service) -> None:
        await service.report("s1", {**RUNNING, "title": hostile})
        refused = json.dumps({"updates": [text("m\u0000x", hostile)]})
        said = await service.post(MESSAGES, content=refused, headers=JSON)
        assert (said.status_code, said.json()["code"]) == (400, "invalid_id")
        await service.say("s1", text("m1", hostile))
        assert await service.ledger.rebuild() == 4
        for path in (MESSAGES, f"/v1/rooms/{ROOM}/sessions/s1/messages"):
            body = (await service.get(path)).json()
            (message,) = body.get("messages") or body["items"]
            assert message["payload"]["text"] == hostile
        assert (await service.get(f"/v1/rooms/{ROOM}/sessions/s1")).json()["title"] == hostile
        assert len(await committed(service)) == 2
        assert (await service.ledger.verify()).ok

    serve(url, use)


def test_numbers_come_back_exactly_or_are_refused(url: str) -> None:
    """G08."""
    payload = '{"id":2512292042121000001,"u64":18446744073709551615,"f":0.1,"neg0":-0.0}'

    def update(message: str, said: str) -> str:
        named = f'"messageId":"{message}","turnId":"t1","role":"assistant","kind":"tool_call"'
        return f'{{"updates":[{{{named},"status":"completed","payload":{said}}}]}}'

    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        said = await service.post(MESSAGES, content=update("m1", payload), headers=JSON)
        assert said.status_code == 200
        assert f'"payload":{payload}' in (await service.get(MESSAGES)).text
        for bad in ('{"nan":NaN}', '{"inf":1e400}', '{"big":18446744073709551616}'):
            said = await service.post(MESSAGES, content=update("m2", bad), headers=JSON)
            assert said.status_code == 400
            assert "send it as text" in said.json()["detail"]
        said = await service.post(MESSAGES, content=update("m3", '{"dup":1,"dup":2}'), headers=JSON)
        assert said.status_code == 200
        assert (await service.get(MESSAGES)).json()["messages"][-1]["payload"] == {"dup": 2}

    serve(url, use)


@pytest.mark.parametrize("depth", [64, 65, 200, 500, 1_000, 20_000])
def test_nesting_has_one_limit_and_what_is_deeper_hurts_nobody(depth: int) -> None:
    """G09."""

    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        nested = '{"a":' * depth + "1" + "}" * depth
        named = '"messageId":"m1","turnId":"t1","role":"user","kind":"text"'
        body = f'{{"updates":[{{{named},"payload":{nested}}}]}}'
        said = await service.post(MESSAGES, content=body, headers=JSON)
        assert said.status_code == (200 if depth <= NESTING_MAX else 400)
        await service.say("s1", text("m2", "later"))

    serve("memory://", use)


@pytest.mark.parametrize(("size", "status"), [(1_000_000, 200), (4_500_000, 413), (20_000_000, 413)])
def test_a_text_has_one_limit_and_what_is_longer_hurts_nobody(size: int, status: int) -> None:
    """G09: a body of 20 MB is not read to its end, an update of 4.5 MB is too large to be stored."""

    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        body = json.dumps({"updates": [text("m1", "x" * size)]})
        said = await service.post(MESSAGES, content=body, headers=JSON)
        assert said.status_code == status
        await service.say("s1", text("m2", "later"))

    serve("memory://", use)


def test_a_reader_who_missed_a_change_finds_it_by_one_pull_from_its_cursor() -> None:
    """D02: versions 1, 2 and 4 came live, 3 did not; a cursor moves only over what was shown."""

    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        for number in (1, 2):
            await service.say("s1", text(f"m{number}", str(number)))
        page = (await service.get(MESSAGES)).json()
        cursor = page["latestVersion"]
        assert cursor == 2
        for number in (3, 4):  # The client is told of the second one only.
            await service.say("s1", text(f"m{number}", str(number)))
        pulled = (await service.get(f"{MESSAGES}?after_version={cursor}")).json()
        assert [one["messageId"] for one in pulled["messages"]] == ["m3", "m4"]
        assert (pulled["latestVersion"], pulled["hasMore"]) == (4, False)
        again = (await service.get(f"{MESSAGES}?after_version={pulled['latestVersion']}")).json()
        assert (again["messages"], again["latestVersion"]) == ([], 4)
        await service.say("s1", text("m2", "newer", occurredAtUnixMs=service.clock.now + 1))
        late = (await service.get(f"{MESSAGES}?after_version=1")).json()
        assert [one["version"] for one in late["messages"]] == sorted(
            one["version"] for one in late["messages"]
        )

    serve("memory://", use)
