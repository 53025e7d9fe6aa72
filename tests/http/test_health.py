"""Whether the service is alive and ready, and what it counts."""

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from domain.errors import StoreUnavailable
from infrastructure.http.health import HEARTBEAT_S_MAX, Check, Failing, Readiness
from infrastructure.metrics import Metrics
from tests.http.asgi import called

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
        (found,) = re.findall(rf"^{re.escape(sample)} (.+)$", text, re.MULTILINE)
        return float(found)

    assert value('reprise_events_appended_total{aggregate="session",event_type="session.opened"}') == 3
    assert value("reprise_append_duration_seconds_count") == 3
    assert value("reprise_commit_position") == 6
    assert value("reprise_sse_clients") == 0
    assert value('reprise_http_requests_total{method="GET",route="none",status="404"}') == 1
    assert value('reprise_http_requests_total{method="other",route="/healthz",status="405"}') == 1
    assert "reprise_build_info{" in text
    assert "secret" not in text


def test_every_metric_has_our_prefix_a_text_and_no_label_without_end() -> None:
    metrics = Metrics("sqlite")
    metrics.appended({("session", "session.opened"): 1}, 0.001)
    metrics.answered("GET", "/healthz", 200, 0.001)
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
            }


def test_every_metric_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    described = set(re.findall(r"^\| `(reprise_\w+)", text, re.MULTILINE))

    assert described == {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics("sqlite").registry.collect()
    }
