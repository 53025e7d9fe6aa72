"""What is, what was, and why: read over HTTP."""

from typing import Any

import jsonpatch

from tests.http.service import ROOM, RUNNING, Service, serve

SESSION = f"/v1/rooms/{ROOM}/sessions/s1"
MEMORY = "memory://"


async def story(service: Service) -> None:
    """A turn that asks, is answered, has a failing tool and fails."""
    await service.report("s1", {"provider": "codex", **RUNNING})
    asked = {"requestId": "q1", "turnId": "t1", "kind": "approval", "status": "pending", "toolName": "rm"}
    service.clock.now += 1_000
    await service.report("s1", {"interactionTransition": asked})
    service.clock.now += 1_000
    await service.post(f"{SESSION}/interactions/t1/q1/answer", json={"output": {"allow": True}})
    tool = {"messageId": "m1", "turnId": "t1", "role": "assistant", "kind": "tool_call", "status": "failed"}
    await service.say("s1", {**tool, "payload": {"toolName": "pytest"}})
    service.clock.now += 1_000
    failed = {"turnId": "t1", "phase": "settled", "outcome": "failed", "errorMessage": "pytest exited 1"}
    await service.report("s1", {"turn": failed})


def test_a_session_is_shown_as_it_was_at_any_version_and_time() -> None:
    async def use(service: Service) -> None:
        start = service.clock.now
        await story(service)
        now = (await service.get(SESSION)).json()
        assert now["status"] == "failed"
        assert now["turnList"][0]["error"] == "pytest exited 1"
        assert now["turnList"][0]["startedAt"] == "2026-03-01T09:00:00.000Z"
        last = now["streamVersion"]
        statuses = []
        for version in range(1, last + 1):
            said = await service.get(f"{SESSION}?version={version}")
            assert "immutable" in said.headers["cache-control"]
            statuses.append(said.json()["status"])
        assert statuses == ["idle", "idle", "working", "working", "working", "working", "failed"]
        assert (await service.get(f"{SESSION}?version={last}")).json() == now
        for at in ("2026-03-01T09:00:01.500Z", "2026-03-01T10:00:01.5+01:00", str(start + 1_500)):
            said = await service.get(SESSION, params={"at": at})
            assert (said.json()["interactionList"][0]["status"], said.headers["etag"]) == ("pending", '"4"')
            assert "cache-control" not in said.headers
        for query, status in {"version=99": 404, "at=2020-01-01T00:00:00Z": 404, "at=noon": 422}.items():
            assert (await service.get(f"{SESSION}?{query}")).status_code == status

    serve(MEMORY, use)


def test_a_difference_is_a_json_patch_with_the_event_behind_each_change() -> None:
    async def use(service: Service) -> None:
        await story(service)
        said = (await service.get(f"{SESSION}/diff?from=6&to=7")).json()
        by_path = {change["path"]: change for change in said["changes"]}
        assert by_path["/status"]["value"] == "failed"
        assert by_path["/turns/t1/phase"]["event"]["topic"] == "session.turn_settled"
        assert {change["event"]["version"] for change in said["changes"]} == {7}
        whole = (await service.get(f"{SESSION}/diff?from=0&to=7")).json()
        halves = [(await service.get(f"{SESSION}/diff?from={a}&to={b}")).json() for a, b in ((0, 4), (4, 7))]
        made: Any = {}
        for half in halves:
            made = jsonpatch.apply_patch(made, half["patch"])
        assert made == jsonpatch.apply_patch({}, whole["patch"])
        assert (await service.get(f"{SESSION}/diff?from=1&to=99")).status_code == 404
        assert (await service.get(f"{SESSION}/diff?from=1")).status_code == 422

    serve(MEMORY, use)


def test_why_names_the_event_that_made_the_status_and_what_led_there() -> None:
    async def use(service: Service) -> None:
        await story(service)
        said = (await service.get(f"{SESSION}/why")).json()
        assert said["status"] == "failed"
        assert [(link["role"], link["event"]["version"]) for link in said["chain"]] == [
            ("made_it_so", 7),
            ("failed_tool", 6),
            ("answered", 5),
            ("turn_began", 3),
        ]
        assert "pytest exited 1" in said["chain"][0]["event"]["words"]
        assert (await service.get(f"/v1/rooms/{ROOM}/sessions/none/why")).status_code == 404

    serve(MEMORY, use)


def test_a_session_that_waits_names_the_question() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        asked = {"requestId": "q1", "turnId": "t1", "kind": "question", "status": "pending"}
        waiting = {"turnId": "t1", "phase": "waiting"}
        await service.report("s1", {"turn": waiting, "interactionTransition": asked})
        said = (await service.get(f"{SESSION}/why")).json()
        assert said["status"] == "waiting"
        roles = {link["role"]: link["event"]["topic"] for link in said["chain"]}
        assert roles["made_it_so"] == "session.turn_advanced"
        assert roles["asked"] == "session.interaction_requested"

    serve(MEMORY, use)


def test_events_are_narrowed_by_topic_source_and_versions() -> None:
    async def use(service: Service) -> None:
        await story(service)

        async def versions(query: str) -> list[int]:
            said = await service.get(f"{SESSION}/events?{query}")
            return [one["version"] for one in said.json()["items"]]

        assert await versions("type=session.turn_settled") == [7]
        assert await versions("from_version=3&to_version=5") == [3, 4, 5]
        assert await versions("source=nobody") == []
        one = (await service.get(f"{SESSION}/events/7")).json()
        assert one["facts"]["outcome"] == "failed"
        assert one["content"] == {"error": "pytest exited 1"}
        for path in ("/events/8", "/../none/events"):
            assert (await service.get(SESSION + path)).status_code == 404

    serve(MEMORY, use)


def test_of_a_purged_session_its_events_are_left() -> None:
    async def use(service: Service) -> None:
        await story(service)
        await service.post(f"{SESSION}/purge")
        assert (await service.get(SESSION)).status_code == 404
        events = (await service.get(f"{SESSION}/events")).json()["items"]
        assert events[-1]["topic"] == "session.purged"
        assert all("content" not in one or one["content"] is None for one in events)
        was = (await service.get(f"{SESSION}?version=7")).json()
        assert (was["status"], "error" in was["turnList"][0]) == ("failed", False)

    serve(MEMORY, use)


def test_sessions_are_found_by_what_is_shown_of_them() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", {"title": "Fix the Tides", "provider": "codex", "kind": "root"})
        service.clock.now += 60_000
        await service.report("s2", {**RUNNING, "provider": "claude-code"})
        expected = {
            "status=working": ["s2"],
            "status=idle": ["s1"],
            "provider=codex": ["s1"],
            "kind=root": ["s1"],
            "q=TIDES": ["s2", "s1"],
            "q=fix": ["s1"],
            "since=2026-03-01T09:00:30Z": ["s2"],
            "until=2026-03-01T09:00:30Z": ["s1"],
            "until=2020-01-01T00:00:00Z": [],
            "": ["s2", "s1"],
        }
        for query, sessions in expected.items():
            for path in ("/v1/sessions", f"/v1/rooms/{ROOM}/sessions"):
                said = (await service.get(f"{path}?{query}")).json()
                assert [one["session"] for one in said["items"]] == sessions, query
        assert (await service.get("/v1/sessions?status=odd")).status_code == 422
        (room,) = (await service.get("/v1/rooms")).json()["items"]
        assert (room["room"], room["sessions"]) == (ROOM, 2)

    serve(MEMORY, use)


def test_commits_are_read_by_position_and_by_transaction() -> None:
    async def use(service: Service) -> None:
        await story(service)
        first = (await service.get("/v1/commits?limit=2")).json()
        rest = (await service.get(f"/v1/commits?after={first['next']}")).json()
        commits = [*first["items"], *rest["items"]]
        assert [one["position"] for one in commits] == sorted({one["position"] for one in commits})
        assert len(commits) == 5
        one = (await service.get(f"/v1/commits/{commits[0]['transactionId']}")).json()
        assert one == commits[0]
        assert one["delta"]["transactionId"] == one["transactionId"]
        end = (await service.get(f"/v1/commits?after={rest['next']}")).json()
        assert end == {"items": [], "next": rest["next"]}
        assert (await service.get("/v1/commits/none")).status_code == 404

    serve(MEMORY, use)
