"""Who may do what: this machine without a token, others with one, each in its scope and rooms."""

import json
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from application import access
from application.access import Scope
from infrastructure.http import guard
from infrastructure.http.access import Needs, needs
from infrastructure.http.gate import is_loopback
from infrastructure.http.routing import Room
from tests.http.asgi import called

pytestmark = pytest.mark.anyio

OTHERS: Any = {"host": "0.0.0.0", "allowed_hosts": ["reprise.example"]}
"""A service that others can reach."""
OPEN = {"/healthz", "/readyz", "/version", "/openapi.json", "/problems/{slug}"}
"""Told to everybody: nothing in it is anybody's."""
REPORT = {"state": {"title": "Tides"}}
STATE = "/v1/rooms/team/agents/sessions/s-1/state"


async def test_every_route_says_which_scope_it_needs() -> None:
    async with called() as service:
        scopes = {}
        for context in iter_route_contexts(service.service.routes.routes):
            route = context.route
            if isinstance(route, APIRoute):
                needed = [one.call for one in route.dependant.dependencies if isinstance(one.call, Needs)]
                included = [one.dependency for one in getattr(context, "dependencies", ())]
                needed += [one for one in included if isinstance(one, Needs)]
                scopes[context.path] = [need.scope for need in needed]

    assert {path for path, needed in scopes.items() if not needed} <= OPEN
    assert len(scopes) > 5


async def test_on_this_machine_nobody_needs_a_token() -> None:
    async with called() as service:
        assert (await service.client.post(STATE, json=REPORT)).status_code == 200
        assert (await service.client.get("/v1/status")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "reprise.example"},
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"Via": "1.1 proxy"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_whoever_may_come_from_elsewhere_needs_a_token(headers: dict[str, str]) -> None:
    async with called(allowed_hosts=["reprise.example"]) as service:
        refused = await service.client.get("/v1/status", headers=headers)
        token = service.token(Scope.READ)

        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert refused.json()["code"] == "unauthorized"
        assert (await service.client.get("/v1/status", headers=headers | token)).status_code == 200


async def test_a_service_may_want_a_token_of_everybody() -> None:
    async with called(require_token=True) as service:
        assert (await service.client.get("/v1/status")).status_code == 401


async def test_a_page_of_another_origin_cannot_use_that_no_token_is_needed() -> None:
    async with called(cors_origins=["https://desk.example"]) as service:
        send = service.client.post
        assert (await send(STATE, json=REPORT, headers={"Origin": "https://evil.example"})).status_code == 403
        assert (await send(STATE, json=REPORT, headers={"Origin": "null"})).status_code == 403
        assert (await send(STATE, json=REPORT, headers={"Origin": "http://localhost"})).status_code == 200
        allowed = await send(STATE, json=REPORT, headers={"Origin": "https://desk.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://desk.example"


async def test_without_a_word_no_other_origin_is_let_in() -> None:
    async with called() as service:
        asked = {"Origin": "https://desk.example", "Access-Control-Request-Method": "POST"}
        answer = await service.client.options(STATE, headers=asked)

        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8765", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8765", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8765", 421),
        ("", 421),
    ],
)
async def test_a_name_that_is_not_the_services_is_refused(host: str, status: int) -> None:
    async with called() as service:
        answer = await service.client.get("/v1/status", headers={"Host": host})

        assert answer.status_code == status
        if status != 200:
            assert answer.headers["content-type"] == "application/problem+json"


async def test_any_name_will_do_where_that_is_set() -> None:
    async with called(allowed_hosts=["*"]) as service:
        token = service.token(Scope.READ)
        answer = await service.client.get("/v1/status", headers={"Host": "10.0.0.7", **token})

        assert answer.status_code == 200


def add_routes(app: FastAPI) -> None:
    """Routes of a room of which all that counts is who may ask."""

    async def done(room: Room) -> str:
        return room

    for scope in ("read", "operate"):
        app.add_api_route(f"/tests/{scope}/{{room}}", done, dependencies=[needs(scope)])


async def test_a_scope_lets_in_to_what_it_is_for() -> None:
    async with called(**OTHERS) as service:
        add_routes(service.service.routes)
        send = service.client.request
        asked = [
            ("GET", "/v1/status", Scope.READ),
            ("POST", STATE, Scope.REPORT),
            ("GET", "/tests/operate/team", Scope.OPERATE),
        ]
        for scope in Scope:
            token = service.token(scope)
            for method, path, needed in asked:
                body = REPORT if needed is Scope.REPORT else None
                answer = await send(method, path, json=body, headers=token)
                may = scope in (needed, Scope.OPERATE)
                assert (answer.status_code == 403) is not may, (scope, path, answer.text)
                if not may:
                    assert answer.json()["detail"] == f"the token lacks the scope {needed}"


async def test_a_token_for_a_room_is_good_there_and_nowhere_else() -> None:
    async with called(**OTHERS) as service:
        add_routes(service.service.routes)
        token = service.token(Scope.READ, rooms=["a/b"])
        read = service.client.get

        assert (await read("/tests/read/a%2Fb", headers=token)).json() == "a/b"
        for path in ("/tests/read/a", "/tests/read/a%252Fb", "/v1/rooms/a/stream", "/v1/status"):
            assert (await read(path, headers=token)).status_code == 403, path


@pytest.mark.parametrize(
    "said",
    [
        "Bearer",
        "Bearer ",
        "Basic cmVwcmlzZTp4",
        "Bearer reprise_" + "A" * 43,
        "bearer é",
        "Bearer " + "x" * 9000,
    ],
    ids=lambda said: said[:20],
)
async def test_what_is_no_token_is_refused_also_on_this_machine(said: str) -> None:
    async with called() as service:
        answer = await service.client.get("/v1/status", headers=[(b"Authorization", said.encode())])

        assert answer.status_code == 401
        assert "x" * 100 not in answer.text


async def test_a_token_is_looked_up_once_in_a_while_and_a_revoked_one_is_known_by_then() -> None:
    async with called(**OTHERS) as service:
        now, asked = 0.0, list[str]()

        async def find(text: str) -> access.Token | None:
            asked.append(text)
            return await service.ledger.token(text)

        service.service.routes.state.guard = guard.Guard(find, is_local=False, clock=lambda: now)
        token = service.token(Scope.READ)

        for _ in range(3):
            assert (await service.client.get("/v1/status", headers=token)).status_code == 200
        assert len(asked) == 1
        access.revoke(service.ledger._store.tokens, (await service.tokens())[0].id, 2)
        now = guard.TOKEN_KEPT_S - 0.01
        assert (await service.client.get("/v1/status", headers=token)).status_code == 200
        now = guard.TOKEN_KEPT_S
        assert (await service.client.get("/v1/status", headers=token)).status_code == 401
        assert len(asked) == 2


async def test_only_so_many_tokens_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "TOKENS_KEPT_MAX", 2)
    async with called(**OTHERS) as service:
        for token in [service.token(Scope.READ) for _ in range(5)]:
            assert (await service.client.get("/v1/status", headers=token)).status_code == 200

        assert len(service.service.routes.state.guard._kept) == 2


@pytest.mark.parametrize(
    ("host", "is_near"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("reprise.example", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, is_near: bool) -> None:
    assert is_loopback(host) is is_near


async def test_a_token_for_one_room_imports_only_the_lines_of_that_room() -> None:
    """Whatever name the room has in a line."""
    names = ("roomId", "room_id", "workspaceId", "workspace_id")
    lines = [{**REPORT, name: room, "agentSessionId": "s"} for name in names for room in ("team", "other")]
    body = "\n".join(map(json.dumps, lines))
    async with called(**OTHERS) as service:
        headers = service.token(Scope.REPORT, rooms=["team"]) | {"Content-Type": "application/x-ndjson"}
        said = await service.client.post("/v1/imports", content=body, headers=headers)
        answers = [json.loads(line) for line in said.text.splitlines()]

        assert [answer["status"] for answer in answers] == [200, 403] * len(names)
        assert answers[1]["problem"]["code"] == "forbidden"
