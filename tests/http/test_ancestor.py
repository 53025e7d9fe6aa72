"""The ancestor's clients go on unchanged: lists, messages page by page, delete, goals."""

from typing import Any
from uuid import UUID

import pytest

from infrastructure.http.app import PREFIXES
from tests.http.service import ROOM, RUNNING, Service, serve, text

MESSAGES = f"/v1/rooms/{ROOM}/agents/sessions/s1/messages"
LIST = f"/v1/rooms/{ROOM}/agents/list"


def test_a_session_is_listed_with_every_name_that_the_ancestor_reads() -> None:
    async def use(service: Service) -> None:
        state = {
            "provider": "codex",
            "providerSessionId": "p1",
            "cwd": "/w",
            "agentTargetId": "a1",
            "deviceId": "d1",
            "lifecycleStatus": "active",
            "startedAtUnixMs": service.clock.now - 5,
            **RUNNING,
        }
        await service.report("s1", state)
        (session,) = (await service.get(LIST)).json()["sessions"]
        home = session["home"]
        assert str(UUID(home)) == home
        assert isinstance(session.pop("id"), int)
        assert session == {
            "agentSessionId": "s1",
            "agentTargetId": "a1",
            "deviceId": "d1",
            "presenceId": 0,
            "userId": "",
            "provider": "codex",
            "providerSessionId": "p1",
            "sessionOrigin": "WORKSPACE_AGENT_SESSION_ORIGIN_RUNTIME",
            "cwd": "/w",
            "status": "working",
            "effectiveStatus": "working",
            "lifecycleStatus": "active",
            "turnPhase": "running",
            "title": "Tides",
            "startedAtUnixMs": service.clock.now - 5,
            "endedAtUnixMs": 0,
            "lastEventAtUnixMs": service.clock.now,
            "createdAtUnixMs": service.clock.now,
            "updatedAtUnixMs": session["updatedAtUnixMs"],
            "kind": "",
            "relations": {},
            "messageVersion": 0,
            "version": session["version"],
            "epoch": home,
            "home": home,
        }
        for prefix in PREFIXES:
            listed = (await service.get(f"{prefix}/rooms/{ROOM}/agents/list")).json()
            assert listed["presences"] == []
            assert [one["agentSessionId"] for one in listed["sessions"]] == ["s1"]

    serve("memory://", use)


def test_origin_and_device_fill_reports_and_narrow_the_list() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING, params={"session_origin": "imported", "device_id": "d1"})
        await service.report("s2", {**RUNNING, "deviceId": "d2"}, params={"device_id": "d1"})
        expected: dict[str, list[str]] = {
            "?session_origin=imported": ["s1"],
            "?session_origin=%20": ["s1", "s2"],
            "?device_id=d2": ["s2"],
            "?user_id=nobody": [],
            "": ["s1", "s2"],
        }
        for query, sessions in expected.items():
            found = (await service.get(LIST + query)).json()["sessions"]
            assert sorted(one["agentSessionId"] for one in found) == sessions, query

    serve("memory://", use)


def test_names_may_be_snake_case_and_numbers_may_be_text() -> None:
    async def use(service: Service) -> None:
        body = {
            "room_id": ROOM,
            "source": {"provider_session_id": "p1", "session_created_at_unix_ms": "1700000000000"},
            "state": {"turn": {"turn_id": "t1", "phase": "working"}, "occurred_at_unix_ms": "1700000000001"},
        }
        said = await service.post(f"/v1/rooms/{ROOM}/agents/sessions/s1/state", json=body)
        assert said.json()["lastEventAtUnixMs"] == 1_700_000_000_001
        (session,) = (await service.get(LIST)).json()["sessions"]
        assert (session["createdAtUnixMs"], session["providerSessionId"]) == (1_700_000_000_000, "p1")

    serve("memory://", use)


def test_messages_are_read_up_from_a_cursor_and_down_from_another() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        for number in range(1, 8):
            await service.say("s1", text(f"m{number}", str(number)))

        async def read(query: str) -> tuple[list[int], int, bool]:
            body = (await service.get(f"{MESSAGES}?{query}")).json()
            return [one["version"] for one in body["messages"]], body["latestVersion"], body["hasMore"]

        assert await read("after_version=2&limit=3") == ([3, 4, 5], 5, True)
        assert await read("after_version=5&limit=3") == ([6, 7], 7, False)
        assert await read("after_version=7") == ([], 7, False)
        assert await read("after_version=9") == ([], 9, False)
        assert await read("before_version=4") == ([3, 2, 1], 3, False)
        assert await read("order=desc&limit=2") == ([7, 6], 7, True)
        assert await read("before_version=4&order=asc&limit=1") == ([1], 1, True)
        assert (await read("limit=100000"))[1:] == (7, False)

    serve("memory://", use)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "after_version=-1", "order=up", "limit=", "limit=1.5"]
)
def test_a_bad_page_is_refused_with_422(query: str) -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        said = await service.get(f"{MESSAGES}?{query}")
        assert said.status_code == 422
        assert said.headers["content-type"] == "application/problem+json"
        (error,) = said.json()["errors"]
        assert error["pointer"] == f"/query/{query.split('=', maxsplit=1)[0]}"

    serve("memory://", use)


def test_messages_of_a_session_that_nobody_reported_are_not_found() -> None:
    async def use(service: Service) -> None:
        assert (await service.get(MESSAGES)).status_code == 404

    serve("memory://", use)


def test_a_deleted_session_is_gone_from_the_list_and_deleting_again_is_no_error() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        for name in ("s1", "s1", "never-seen"):
            said = await service.client.delete(f"/v1/rooms/{ROOM}/agents/{name}")
            assert (said.status_code, said.content) == (204, b"")
        assert (await service.get(LIST)).json()["sessions"] == []
        said = await service.report("s1", RUNNING)
        assert said.json()["accepted"] is False

    serve("memory://", use)


def test_goals_are_told_to_be_unknown_so_that_clients_go_on() -> None:
    async def use(service: Service) -> None:
        base = f"/v1/rooms/{ROOM}/agents/sessions/s1"
        body: dict[str, Any] = {"providerSessionId": "p1"}
        assert (await service.post(f"{base}/goal-provenance/lookup", json=body)).json() == {"found": False}
        assert (await service.post(f"{base}/goal-provenance/bind", json=body)).status_code == 409
        said = await service.post(f"{base}/goal-reconcile-required", json=body)
        assert said.json() == {"Accepted": False}

    serve("memory://", use)
