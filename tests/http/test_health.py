"""Whether the service is alive and ready, and what it counts."""

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from application.lanes import Choice
from domain.errors import StoreUnavailable
from domain.ids import RemoteCursor, RoomId, SessionId
from domain.subscription import Added
from infrastructure.counted_remote import CountedActivity
from infrastructure.http.health import HEARTBEAT_S_MAX, Check, Failing, Readiness
from infrastructure.main import delivery_worker
from infrastructure.metrics import Metrics
from tests.http.asgi import called
from tests.pulling.place import REMOTE
from tests.remote.fake import FakeRemoteActivity
from tests.sinks.kit.bench import Fault
from tests.sinks.kit.recording import RecordingBench

pytestmark = pytest.mark.anyio


@dataclass
class Beating:
    """A worker that shows what a test wants."""

    age_s: float | None
    name: str = "deliveries"
    did: list[str] = field(default_factory=list)

    async def start(self) -> None:
        self.did.append("start")

    async def stop(self) -> None:
        self.did.append("stop")

    def beat_age_s(self) -> float | None:
        return self.age_s


async def test_it_is_alive_also_without_a_store() -> None:
    async with called() as service:
        await service.ledger.close()

        assert (await service.client.get("/healthz")).json() == {"status": "alive"}


async def test_it_is_ready_while_its_store_and_its_workers_are_well() -> None:
    async with called(workers=[Beating(0.5)]) as service:
        answer = await service.client.get("/readyz")

    assert answer.status_code == 200
    assert {one["name"]: one["status"] for one in answer.json()["checks"]} == {
        "schema": "ok",
        "store": "ok",
        "deliveries": "ok",
    }


@pytest.mark.parametrize("age_s", [None, HEARTBEAT_S_MAX + 1])
async def test_it_is_not_ready_when_a_worker_gives_no_sign(age_s: float | None) -> None:
    async with called(workers=[Beating(age_s)]) as service:
        answer = await service.client.get("/readyz")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert [one["name"] for one in answer.json()["checks"] if one["status"] != "ok"] == ["deliveries"]


async def test_a_check_that_fails_tells_no_secret_and_one_that_hangs_is_unknown_and_asked_once() -> None:
    asked, go = [], asyncio.Event()

    async def hangs() -> str:
        asked.append("hangs")
        await go.wait()
        return "well again"

    async def fails() -> str:
        raise StoreUnavailable("/home/me/secret.db: gone")

    async def finds() -> str:
        raise Failing("42 s behind")

    readiness = Readiness(
        [Check("hangs", hangs), Check("fails", fails), Check("finds", finds)], timeout_s=0.01
    )
    for _ in range(3):
        is_ready, answer = await readiness.ask()

        assert not is_ready
        assert [(one["name"], one["status"]) for one in answer["checks"]] == [
            ("hangs", "unknown"),
            ("fails", "failing"),
            ("finds", "failing"),
        ]
        assert "secret" not in str(answer)
        assert "42 s behind" in str(answer)
    assert asked == ["hangs"]

    go.set()
    await asyncio.sleep(0)
    _, answer = await readiness.ask()
    assert answer["checks"][0] == {"name": "hangs", "status": "ok", "detail": "well again"}


async def test_it_says_what_runs() -> None:
    async with called() as service:
        assert (await service.client.get("/version")).json()["name"] == "reprise"


async def test_it_counts_what_it_stored_and_answered() -> None:
    async with called() as service:
        for number in range(3):
            path = f"/v1/rooms/secret-room/agents/sessions/secret-session-{number}/state"
            await service.client.post(path, json={"state": {"title": "Tides", "userId": "secret-user"}})
        await service.client.get("/nowhere/secret-path")
        await service.client.request("BREW", "/healthz")
        text = (await service.client.get("/metrics")).text

    def value(sample: str) -> float:
        return value_of(text, sample)

    assert value('reprise_events_appended_total{aggregate="session",event_type="session.opened"}') == 3
    assert value("reprise_append_duration_seconds_count") == 3
    assert value("reprise_commit_position") == 6
    assert value("reprise_sse_clients") == 0
    assert value('reprise_http_requests_total{method="GET",route="none",status="404"}') == 1
    assert value('reprise_http_requests_total{method="other",route="/healthz",status="405"}') == 1
    assert "reprise_build_info{" in text
    assert "secret" not in text


def value_of(text: str, sample: str) -> float:
    (found,) = re.findall(rf"^{re.escape(sample)} (.+)$", text, re.MULTILINE)
    return float(found)


async def test_it_says_what_waits_to_be_delivered_and_what_became_of_attempts() -> None:
    bench = RecordingBench()
    await bench.fail_next(Fault.UNAVAILABLE, room="r1")
    async with called() as service:
        ours = service.ledger.blocking.subscriptions
        ours.add(Added(name="crm", kind="recorder", from_position=0), after=0)
        for room in ("r1", "r2"):
            await service.ledger.report_state({"state": {"title": "a"}}, room=room, session="s")
        before = (await service.client.get("/metrics")).text
        told: asyncio.Queue[str] = asyncio.Queue()

        def attempted(name: str, outcome: str, seconds: float) -> None:
            service.metrics.attempted(name, outcome, seconds)
            told.put_nowait(outcome)

        worker = delivery_worker(service.ledger.blocking, bench.sink, told=attempted)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            assert {await told.get(), await told.get()} == {"failed", "delivered"}
            ours.redeliver("crm", Choice(room="r1"))
            assert await told.get() == "delivered"
            worker.stop()
            await running
        after = (await service.client.get("/metrics")).text

    crm = '{subscription="crm"}'
    assert value_of(before, f"reprise_outbox_pending{crm}") == 2
    assert value_of(after, f"reprise_outbox_pending{crm}") == 0
    assert value_of(after, f"reprise_outbox_oldest_age_seconds{crm}") == 0
    assert value_of(after, f"reprise_deliveries_parked{crm}") == 0
    assert value_of(after, f"reprise_delivery_duration_seconds_count{crm}") == 3
    for outcome, count in {"failed": 1, "delivered": 2}.items():
        sample = f'reprise_deliveries_total{{outcome="{outcome}",subscription="crm"}}'
        assert value_of(after, sample) == count


async def test_it_says_which_rooms_wait_and_what_calls_came_to() -> None:
    fake = FakeRemoteActivity({"do": "fill", "room": "r1", "sessions": 1, "messages": 1})
    async with called() as service:
        await service.ledger.with_rooms(lambda rooms: rooms.track("r1", "https://far.example"))
        await service.ledger.with_rooms(lambda rooms: rooms.pause("r1"))
        counted = CountedActivity(fake, service.metrics.pulled)
        await counted.list_agents(REMOTE, RoomId("r1"))
        fake.do({"do": "fail", "what": "status", "status": 503})
        await counted.list_messages(REMOTE, RoomId("r1"), SessionId("session-1"), RemoteCursor(0), 20)
        text = (await service.client.get("/metrics")).text

    assert value_of(text, 'reprise_backoff_rooms{state="paused"}') == 1
    assert value_of(text, "reprise_backoff_hosts") == 0
    assert value_of(text, 'reprise_sync_requests_total{outcome="ok"}') == 1
    assert value_of(text, 'reprise_sync_requests_total{outcome="status"}') == 1


def test_every_metric_has_our_prefix_a_text_and_no_label_without_end() -> None:
    metrics = Metrics("sqlite")
    metrics.appended({("session", "session.opened"): 1}, 0.001)
    metrics.answered("GET", "/healthz", 200, 0.001)
    metrics.attempted("crm", "delivered", 0.001)
    metrics.pulled("ok")
    families = list(metrics.registry.collect())

    assert families
    for family in families:
        assert family.name.startswith("reprise_")
        assert family.documentation
        for sample in family.samples:
            assert set(sample.labels) <= {
                "aggregate",
                "event_type",
                "method",
                "route",
                "status",
                "le",
                "version",
                "python",
                "store",
                "subscription",
                "outcome",
                "state",
            }


def test_every_metric_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    described = set(re.findall(r"^\| `(reprise_\w+)", text, re.MULTILINE))

    assert described == {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics("sqlite").registry.collect()
    }
