"""Destinations and deliveries over HTTP: added, looked at, paused, redelivered, skipped."""

from typing import Any

import pytest
from standardwebhooks import Webhook

from application.access import Scope
from application.lanes import Choice, State
from tests.http.asgi import Called, called
from tests.sinks.receiving import receiver

pytestmark = pytest.mark.anyio

HOOK = {"name": "crm", "kind": "webhook", "target": "https://crm.example/hook", "after": 0}


async def report(service: Called, title: str, room: str = "r1") -> str:
    reply = await service.ledger.report_state({"state": {"title": title}}, room=room, session="s")
    return str(reply.transaction_id)


async def add(service: Called, **more: Any) -> dict[str, Any]:
    reply = await service.client.post("/v1/subscriptions", json=HOOK | more)
    assert reply.status_code == 201, reply.text
    added: dict[str, Any] = reply.json()
    return added


async def states(service: Called, **choosing: Any) -> list[str]:
    reply = await service.client.get("/v1/deliveries", params={"subscription": "crm", **choosing})
    assert reply.status_code == 200, reply.text
    return [one["state"] for one in reply.json()["items"]]


async def test_a_destination_is_added_and_shown_with_its_secret_once() -> None:
    async with called() as service:
        added = await add(service, rooms=["r1"])
        again = await service.client.post(
            "/v1/subscriptions", json=HOOK | {"target": "https://crm.example/other"}
        )
        listed = (await service.client.get("/v1/subscriptions")).json()["items"]
        shown = await service.client.get("/v1/subscriptions/crm")

    assert added["secret"].startswith("whsec_")
    assert again.status_code == 409
    assert [one["name"] for one in listed] == ["crm"]
    assert "secret" not in listed[0]
    assert shown.headers["etag"] == '"1"'
    assert shown.json() == {
        "name": "crm",
        "kind": "webhook",
        "target": "https://crm.example/hook",
        "status": "active",
        "rooms": ["r1"],
        "entityKinds": [],
        "fromPosition": 0,
        "onParked": "go_on",
        "addedAt": shown.json()["addedAt"],
        "version": 1,
        "secretRef": shown.json()["secretRef"],
        "deliveries": dict.fromkeys(State, 0),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "No Name"},
        {"kind": "pigeon"},
        {"kind": "file", "target": "file:///etc/reprise"},
        {"target": "ftp://x"},
        {"onParked": "panic"},
        {"entityKinds": ["planet"]},
        {"after": -1},
        {"rooms": "r1"},
        {"roms": ["r1"]},
    ],
)
async def test_a_destination_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    async with called() as service:
        reply = await service.client.post("/v1/subscriptions", json=HOOK | wrong)
        listed = (await service.client.get("/v1/subscriptions")).json()

    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert listed == {"items": [], "observers": []}


async def test_it_is_paused_resumed_rotated_and_removed() -> None:
    async with called() as service:
        added = await add(service)
        paused = await service.client.post("/v1/subscriptions/crm/pause", json={"reason": "upkeep"})
        resumed = await service.client.post("/v1/subscriptions/crm/resume", json={})
        rotated = await service.client.post("/v1/subscriptions/crm/rotate-secret")
        removed = await service.client.delete("/v1/subscriptions/crm")
        gone = await service.client.get("/v1/subscriptions/crm")
        history = [one.topic for one in service.ledger.blocking.subscriptions.history("crm")]

    assert (paused.json()["status"], paused.json()["reason"]) == ("paused", "upkeep")
    assert resumed.json()["status"] == "active"
    assert rotated.json()["secret"] not in ("", added["secret"])
    assert (removed.status_code, gone.status_code) == (204, 404)
    assert [topic.removeprefix("subscription.") for topic in history] == [
        "added",
        "paused",
        "resumed",
        "secret_rotated",
        "removed",
    ]


async def test_a_change_may_be_meant_for_one_version_only() -> None:
    async with called() as service:
        added = await add(service)
        at = f"/v1/subscriptions/{added['name']}"
        changes = {
            "pause": service.client.build_request("POST", f"{at}/pause", json={}),
            "resume": service.client.build_request("POST", f"{at}/resume"),
            "rotate": service.client.build_request("POST", f"{at}/rotate-secret"),
            "remove": service.client.build_request("DELETE", at),
        }
        for request in changes.values():
            request.headers["If-Match"] = '"7"'
            late = await service.client.send(request)
            assert (late.status_code, late.headers["etag"]) == (412, '"1"')
            assert late.headers["content-type"] == "application/problem+json"
        assert (await service.client.get(at)).headers["etag"] == '"1"', "nothing was changed"

        for version, request in enumerate(changes.values(), 1):
            request.headers["If-Match"] = f'"{version}"'
            done = await service.client.send(request)
            assert done.status_code in (200, 204)
            if done.content:
                assert done.headers["etag"] == f'"{version + 1}"'


async def test_a_service_may_want_every_change_to_be_meant_for_a_version() -> None:
    async with called(require_if_match=True) as service:
        await add(service)
        reply = await service.client.post("/v1/subscriptions/crm/pause")

    assert (reply.status_code, reply.json()["code"]) == (428, "precondition_required")


@pytest.mark.parametrize("change", ["pause", "resume", "rotate-secret", ""])
async def test_a_dry_run_changes_nothing(change: str) -> None:
    async with called() as service:
        await add(service)
        ours = service.ledger.blocking.subscriptions
        if change == "resume":
            ours.pause("crm")
        before, secrets = ours.show("crm"), service.ledger.blocking.store.secrets.of("crm")
        request = service.client.build_request(
            "POST" if change else "DELETE",
            f"/v1/subscriptions/crm/{change}".rstrip("/"),
            params={"dryRun": "true"},
        )
        told = await service.client.send(request)

        assert told.status_code in (200, 204)
        assert "secret" not in (told.json() if told.content else {})
        assert ours.show("crm") == before
        assert service.ledger.blocking.store.secrets.of("crm") == secrets


async def test_adding_is_tried_out_as_well() -> None:
    async with called() as service:
        told = await service.client.post("/v1/subscriptions", params={"dryRun": "true"}, json=HOOK)
        bad = await service.client.post(
            "/v1/subscriptions", params={"dryRun": "true"}, json=HOOK | {"target": "ftp://x"}
        )
        listed = (await service.client.get("/v1/subscriptions")).json()

    assert (told.status_code, told.json()["status"], "secret" in told.json()) == (200, "active", False)
    assert bad.status_code == 422
    assert listed["items"] == []


async def test_what_happened_to_a_destination_is_told_also_when_it_is_gone() -> None:
    async with called() as service:
        await add(service)
        await service.client.delete("/v1/subscriptions/crm")
        told = await service.client.get("/v1/subscriptions/crm/events")
        nobody = await service.client.get("/v1/subscriptions/nobody/events")

    assert [one["topic"] for one in told.json()["items"]] == ["subscription.added", "subscription.removed"]
    assert told.json()["items"][0]["words"].startswith("a webhook was added")
    assert nobody.status_code == 404


async def test_a_destination_is_tried_from_the_service() -> None:
    with receiver() as endpoint:
        async with called(allow_private_targets=True) as service:
            added = await add(service, target=endpoint.url)
            taken = await service.client.post("/v1/subscriptions/crm/test")
            endpoint.always(status=503, body="we are moving")
            refused = await service.client.post("/v1/subscriptions/crm/test", json={})
            first = endpoint.posted()[0]
            nobody = await service.client.post("/v1/subscriptions/nobody/test")

    assert (taken.json()["taken"], taken.json()["status"]) == (True, 204)
    assert (refused.json()["taken"], refused.json()["trouble"]) == (False, "endpoint")
    assert refused.json()["reason"] == "503 Service Unavailable: we are moving"
    Webhook(added["secret"]).verify(first.body, first.headers)
    assert nobody.status_code == 404


async def test_a_secret_that_got_out_ends_at_once() -> None:
    async with called() as service:
        await add(service)
        await service.client.post("/v1/subscriptions/crm/rotate-secret", json={"keepSeconds": 0})
        wrong = await service.client.post("/v1/subscriptions/crm/rotate-secret", json={"keepSeconds": -1})
        kept = service.ledger.blocking.store.secrets.of("crm")

    assert len(kept) == 1
    assert wrong.status_code == 422


async def test_deliveries_are_listed_page_by_page_and_shown_with_their_delta() -> None:
    async with called() as service:
        await add(service)
        said = [await report(service, title) for title in "abc"]
        first = await service.client.get("/v1/deliveries", params={"subscription": "crm", "limit": 2})
        behind = {"subscription": "crm", "after": first.json()["next"]}
        second = await service.client.get("/v1/deliveries", params=behind)
        one = await service.client.get(f"/v1/deliveries/{said[0]}", params={"subscription": "crm"})
        none = await service.client.get("/v1/deliveries/t-1", params={"subscription": "crm"})

    pages = [*first.json()["items"], *second.json()["items"]]
    assert [item["transactionId"] for item in pages] == said
    assert one.json()["delta"]["transactionId"] == said[0]
    assert one.json()["state"] == "pending"
    assert one.json()["why"] == "a worker will take it; is one running?"
    assert none.status_code == 404


async def test_one_delta_is_delivered_again() -> None:
    async with called() as service:
        await add(service)
        first, second = await report(service, "a"), await report(service, "b")
        service.ledger.blocking.subscriptions.skip("crm", Choice())
        asked = {"subscription": "crm"}
        again = await service.client.post(f"/v1/deliveries/{first}/redeliver", params=asked)
        none = await service.client.post("/v1/deliveries/t-1/redeliver", params=asked)
        after = await states(service)

    assert (again.status_code, again.json()["redeliveries"], none.status_code) == (200, 1, 404)
    assert after == ["pending", "skipped"]
    assert second


async def test_deltas_are_skipped_and_redelivered_when_their_number_is_the_expected_one() -> None:
    async with called() as service:
        await add(service)
        first = await report(service, "a")
        await report(service, "b", "r2")
        chosen = {"subscription": "crm", "room": "r1"}
        tried = await service.client.post("/v1/skips", json={**chosen, "dryRun": True})
        before = await states(service)
        other = await service.client.post("/v1/skips", json={**chosen, "expectCount": 2})
        done = await service.client.post("/v1/skips", json={**chosen, "expectCount": 1})
        after = await states(service)
        again = {"subscription": "crm", "states": ["skipped"]}
        asked = await service.client.post("/v1/redeliveries", json=again)

    assert tried.json()["sample"][0]["transactionId"] == first
    assert (tried.json()["count"], tried.json()["dryRun"], before) == (1, True, ["pending", "pending"])
    assert other.status_code == 409
    assert (done.json()["count"], after) == (1, ["skipped", "pending"])
    assert asked.json()["count"] == 1


@pytest.mark.parametrize("wrong", [{}, {"states": ["lost"]}, {"since": "yesterday"}, {"rom": "r1"}])
async def test_a_choice_that_means_nothing_or_everything_is_refused(wrong: dict[str, Any]) -> None:
    async with called() as service:
        await add(service)
        for route in ("/v1/skips", "/v1/redeliveries"):
            reply = await service.client.post(route, json={"subscription": "crm", **wrong})
            assert reply.status_code == 422


async def test_the_states_and_times_of_a_list_are_chosen() -> None:
    async with called() as service:
        await add(service)
        await report(service, "a")
        service.ledger.blocking.subscriptions.skip("crm", Choice(room="r1"))
        assert await states(service, state=["skipped", "parked"]) == ["skipped"]
        assert await states(service, state="pending") == []
        assert await states(service, since="2099-01-01T00:00:00Z") == []
        reply = await service.client.get("/v1/deliveries", params={"subscription": "crm", "state": "lost"})
        assert reply.status_code == 422


async def test_reading_needs_read_and_changing_needs_operate_in_all_rooms() -> None:
    async with called(require_token=True) as service:
        reader, operator = service.token(Scope.READ), service.token(Scope.OPERATE)
        narrow = service.token(Scope.OPERATE, Scope.READ, rooms=["r1"])
        statuses = [
            (await service.client.get("/v1/subscriptions", headers=token)).status_code
            for token in (reader, narrow)
        ]
        changes = [
            (await service.client.post("/v1/subscriptions", json=HOOK, headers=token)).status_code
            for token in (reader, narrow, operator)
        ]

    assert statuses == [200, 403]
    assert changes == [403, 403, 201]


async def test_commits_that_are_no_longer_kept_are_gone() -> None:
    async with called() as service:
        await report(service, "a")
        lanes = service.ledger.blocking.store.lanes
        lanes.trim(2**62, 10)
        reply = await service.client.get("/v1/commits", params={"after": 0})

    assert (reply.status_code, reply.json()["earliest"]) == (410, 2)
    assert reply.json()["code"] == "cursor_expired"
