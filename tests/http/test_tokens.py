"""Tokens are made, listed and revoked over HTTP, by those who may do everything everywhere."""

from typing import Any

import pytest

from application.access import Scope
from tests.http.asgi import called

pytestmark = pytest.mark.anyio

READ: dict[str, Any] = {"scopes": ["read"], "rooms": ["team"], "note": "the wall"}


async def test_a_token_is_shown_once_works_and_ends_when_it_is_revoked() -> None:
    async with called(require_token=True) as service:
        operator = service.token(Scope.OPERATE)
        made = await service.client.post("/v1/tokens", json=READ, headers=operator)
        shown = {"Authorization": f"Bearer {made.json()['token']}"}
        reads = await service.client.get("/v1/rooms/team/sessions", headers=shown)
        elsewhere = await service.client.get("/v1/rooms/other/sessions", headers=shown)
        listed = await service.client.get("/v1/tokens", headers=operator)
        revoked = await service.client.delete(f"/v1/tokens/{made.json()['id']}", headers=operator)
        after = await service.client.get("/v1/tokens", headers=operator)
        nobody = await service.client.delete("/v1/tokens/nobody", headers=operator)
        stored = await service.ledger.token(made.json()["token"])

    assert made.status_code == 201
    assert (reads.status_code, elsewhere.status_code) == (200, 403)
    assert made.json()["token"] not in listed.text
    (one,) = (each for each in listed.json()["items"] if each["id"] == made.json()["id"])
    assert {name: one[name] for name in READ} == READ
    assert "revokedAt" not in one
    assert revoked.status_code == 204
    assert "revokedAt" in next(each for each in after.json()["items"] if each["id"] == one["id"])
    assert nobody.status_code == 404
    assert stored is None


@pytest.mark.parametrize(
    "wrong",
    [{}, {"scopes": []}, {"scopes": ["everything"]}, {"scopes": ["read"], "rooms": [" "]}, {"scope": "read"}],
)
async def test_a_token_that_would_be_good_for_nothing_is_refused(wrong: dict[str, Any]) -> None:
    async with called() as service:
        reply = await service.client.post("/v1/tokens", json=wrong)

        assert (reply.status_code, await service.tokens()) == (422, [])
        assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("scopes", "rooms"),
    [((Scope.READ, Scope.REPORT), ()), ((Scope.OPERATE,), ("team",))],
    ids=["who may not operate", "who may operate one room"],
)
async def test_nobody_makes_a_token_who_may_not_do_everything(
    scopes: tuple[Scope, ...], rooms: tuple[str, ...]
) -> None:
    """Else a token could make one that may do more than it."""
    async with called(require_token=True) as service:
        narrow = service.token(*scopes, rooms=rooms)
        made = await service.client.post("/v1/tokens", json=READ, headers=narrow)
        listed = await service.client.get("/v1/tokens", headers=narrow)
        (one,) = await service.tokens()
        revoked = await service.client.delete(f"/v1/tokens/{one.id}", headers=narrow)

    assert (made.status_code, listed.status_code, revoked.status_code) == (403, 403, 403)
