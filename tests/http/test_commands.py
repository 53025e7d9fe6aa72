"""Commands over HTTP: each is done once, and says what became of it."""

from typing import Any

import pytest

from tests.http.service import ROOM, RUNNING, Service, serve

SESSION = f"/v1/rooms/{ROOM}/sessions/s1"
MEMORY = "memory://"


def test_title_pin_and_settings_are_set() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        for verb, body in (
            ("title", {"title": ""}),
            ("pin", {"pinned": True}),
            ("settings", {"settings": {"model": "a"}, "unknown": 1}),
        ):
            said = await service.post(f"{SESSION}/{verb}", json=body)
            assert [one["outcome"] for one in said.json()["outcomes"]] == ["applied"], verb
        view = (await service.get(SESSION)).json()
        assert (view["title"], view["settings"]) == ("", {"model": "a"})
        assert "pinnedAt" in view
        await service.post(f"{SESSION}/pin", json={"pinned": False})
        assert "pinnedAt" not in (await service.get(SESSION)).json()

    serve(MEMORY, use)


@pytest.mark.parametrize(
    ("verb", "body"),
    [("title", {}), ("title", {"title": 3}), ("pin", {"pinned": "yes"}), ("settings", {"settings": []})],
)
def test_a_command_that_says_nothing_usable_is_refused(verb: str, body: dict[str, Any]) -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        said = await service.post(f"{SESSION}/{verb}", json=body)
        assert said.status_code == 422
        assert said.json()["errors"][0]["pointer"] == f"/{'pinned' if verb == 'pin' else verb}"

    serve(MEMORY, use)


def test_what_the_address_names_has_to_be_there() -> None:
    async def use(service: Service) -> None:
        assert (await service.post(f"{SESSION}/title", json={"title": "x"})).status_code == 404
        await service.report("s1", RUNNING)
        assert (await service.post(f"{SESSION}/turns/t9/cancel")).status_code == 404
        said = await service.post(f"{SESSION}/interactions/t1/q9/answer", json={"output": {}})
        assert said.status_code == 404
        assert (await service.post(f"{SESSION}/turns/t1/cancel")).status_code == 200

    serve(MEMORY, use)


def test_an_answer_given_twice_is_one_and_another_one_is_a_conflict() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        asked = {"requestId": "q/1", "turnId": "t1", "kind": "approval", "status": "pending"}
        await service.report("s1", {"interactionTransition": asked})
        path = f"{SESSION}/interactions/t1/q%2F1/answer"
        outcomes = []
        for answer in ({"allow": True}, {"allow": True}):
            said = await service.post(path, json={"output": answer})
            outcomes.append(said.json()["outcomes"][0]["outcome"])
        assert outcomes == ["applied", "ignored"]
        said = await service.post(path, json={"output": {"allow": False}})
        assert (said.status_code, said.json()["code"]) == (409, "conflict")

    serve(MEMORY, use)


def test_delete_restore_purge_and_settle() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        said = await service.post(f"/v1/rooms/{ROOM}/settle")
        assert len(said.json()["sessions"]) == 1
        assert (await service.client.delete(SESSION)).status_code == 200
        assert (await service.get("/v1/sessions")).json()["items"] == []
        assert "deletedAt" in (await service.get(SESSION)).json()
        await service.post(f"{SESSION}/restore")
        assert len((await service.get("/v1/sessions")).json()["items"]) == 1
        await service.post(f"{SESSION}/purge")
        said = await service.post(f"{SESSION}/restore")
        assert (said.status_code, said.json()["code"]) == (409, "purged")

    serve(MEMORY, use)
