"""Read models are listed, and made anew while the service runs."""

import asyncio

import pytest

from tests.http.asgi import called

pytestmark = pytest.mark.anyio
STATE = "/v1/rooms/team/agents/sessions/s-1/state"


async def test_a_read_model_is_as_far_as_the_log() -> None:
    async with called() as service:
        await service.client.post(STATE, json={"state": {"title": "Tides"}})
        (one,) = (await service.client.get("/v1/read-models")).json()["items"]

    assert one == {"name": "sessions", "position": 2, "head": 2, "lagEvents": 0}


async def test_it_is_made_anew_beside_reports_that_go_on(url: str) -> None:
    async with called(url) as service:
        for number in range(20):
            await service.client.post(STATE, json={"state": {"title": f"title {number}"}})
        before = (await service.client.get("/v1/rooms/team/sessions/s-1")).json()
        rebuilt, reported = await asyncio.gather(
            service.client.post("/v1/read-models/sessions/rebuild"),
            service.client.post(STATE, json={"state": {"lifecycleStatus": "running"}}),
        )
        after = (await service.client.get("/v1/rooms/team/sessions/s-1")).json()
        problems = (await service.ledger.verify()).problems

    assert rebuilt.status_code == reported.status_code == 200
    assert rebuilt.json()["events"] >= 21
    assert (after["title"], after["version"]) == (before["title"], before["version"] + 1)
    assert problems == ()


async def test_one_that_is_not_there_is_not_found() -> None:
    async with called() as service:
        reply = await service.client.post("/v1/read-models/planets/rebuild")

    assert (reply.status_code, reply.json()["detail"]) == (404, "no read model planets; there is sessions")
