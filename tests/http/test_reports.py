"""Hosts report over HTTP, under both prefixes, and are answered as the ancestor's clients expect."""

from infrastructure.http.app import PREFIXES
from tests.http.service import ROOM, RUNNING, Service, serve, text

MEMORY = "memory://"
STATE = f"/v1/rooms/{ROOM}/agents/sessions/s1/state"
MESSAGES = f"/v1/rooms/{ROOM}/agents/sessions/s1/messages"


def test_both_prefixes_take_the_same_reports() -> None:
    async def use(service: Service) -> None:
        for number, prefix in enumerate(PREFIXES):
            path = f"{prefix}/rooms/{ROOM}/agents/sessions/s{number}"
            said = await service.post(f"{path}/state", json={"state": RUNNING})
            assert said.status_code == 200
            assert said.headers["content-type"] == "application/json"
            body = said.json()
            assert body["accepted"] is True
            assert body["stateApplied"] is True
            assert body["transactionId"]
            assert [one["outcome"] for one in body["outcomes"]] == ["applied", "applied"]
            said = await service.post(f"{path}/messages", json={"updates": [text("m1", "Low water")]})
            assert said.json()["acceptedCount"] == 1
            assert said.json()["latestVersion"] == 1

    serve(MEMORY, use)


def test_an_id_may_hold_slashes_and_percent_signs() -> None:
    async def use(service: Service) -> None:
        said = await service.post(
            "/v1/rooms/%2Fhome%2Fa%2520b/agents/sessions/s%2Fx%3F/state", json={"state": RUNNING}
        )
        assert said.status_code == 200, said.text
        (summary,) = await service.ledger.sessions()
        assert (summary.room, summary.session) == ("/home/a%20b", "s/x?")

    serve(MEMORY, use)


def test_every_refusal_is_a_problem() -> None:
    async def use(service: Service) -> None:
        for path, method, status, code in (
            ("/nowhere", "GET", 404, "not_found"),
            (STATE, "PUT", 405, "method_not_allowed"),
            (STATE, "POST", 400, "bad_request"),
        ):
            said = await service.client.request(method, path)
            assert said.status_code == status, said.text
            assert said.headers["content-type"] == "application/problem+json"
            body = said.json()
            assert body["status"] == status
            assert body["code"] == body["error"]["code"] == code
            assert body["error"]["retryable"] is False
            assert body["instance"] == path
            assert (await service.get(body["type"])).status_code == 200

    serve(MEMORY, use)
