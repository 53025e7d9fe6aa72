"""What holds for every route: problems, keys, versions, limits, types, scopes."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from domain.errors import Overloaded, StoreBusy, StoreUnavailable
from infrastructure.asynchronous import AsyncLedger
from infrastructure.http.access import Needs
from infrastructure.http.app import create_app
from infrastructure.http.problems import KINDS, REJECTED
from infrastructure.http.settings import HttpSettings
from infrastructure.main import open_ledger_async
from tests.http.listening import listening
from tests.http.service import ROOM, RUNNING, Service, serve, text

MEMORY = "memory://"
STATE = f"/v1/rooms/{ROOM}/agents/sessions/s1/state"
MESSAGES = f"/v1/rooms/{ROOM}/agents/sessions/s1/messages"
SESSION = f"/v1/rooms/{ROOM}/sessions/s1"


# Problems.


def test_no_rejection_is_told_as_a_passing_trouble() -> None:
    """SPEC C1: never 429 or 5xx."""
    assert {kind.status for kind in REJECTED.values()} <= {400, 404, 409, 413}
    assert all(not kind.retryable for kind in KINDS.values() if kind.status < 500)


def test_each_kind_of_problem_has_a_page() -> None:
    async def use(service: Service) -> None:
        for kind in KINDS.values():
            page = await service.get(f"/problems/{kind.slug}")
            assert page.headers["content-type"].startswith("text/html")
            assert kind.title in page.text
        assert (await service.get("/problems/none")).status_code == 404

    serve(MEMORY, use)


def test_a_method_that_an_address_lacks_is_told_with_all_that_it_has() -> None:
    async def use(service: Service) -> None:
        said = await service.client.patch(SESSION)
        assert (said.status_code, said.headers["allow"]) == (405, "DELETE, GET")
        said = await service.client.put(MESSAGES)
        assert (said.status_code, said.headers["allow"]) == (405, "GET, POST")

    serve(MEMORY, use)


class _Mistaken:
    """A participant with a programmer's mistake."""

    def participate(self, execute: Any, delta: Any) -> None:
        raise RuntimeError("the secret is swordfish")


def test_a_mistake_of_the_service_is_told_without_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    async def use(service: Service) -> None:
        said = await service.post(STATE, json={"state": RUNNING})
        assert said.status_code == 500
        assert "swordfish" not in said.text
        assert said.json()["code"] == "internal"
        assert said.json()["traceId"]
        assert await service.ledger.sessions() == ()

    serve(MEMORY, use, participant=_Mistaken())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Overloaded("1,024 wait"), "overloaded"),
        (StoreBusy("/secret/place is locked"), "store_unavailable"),
        (StoreUnavailable("/secret/place is closed"), "store_unavailable"),
    ],
)
def test_a_flood_and_a_lost_store_are_told_to_be_tried_again(
    error: Exception, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise error

    async def use(service: Service) -> None:
        monkeypatch.setattr(AsyncLedger, "report_state", refuse)
        said = await service.post(STATE, json={"state": RUNNING})
        assert said.status_code == 503
        assert said.headers["retry-after"] == "1"
        assert said.json()["error"] == {"code": code, "message": said.json()["detail"], "retryable": True}
        assert "secret" not in said.text

    serve(MEMORY, use)


def test_the_trace_of_the_caller_is_named() -> None:
    async def use(service: Service) -> None:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        said = await service.get("/nowhere", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        assert said.json()["traceId"] == trace
        said = await service.get("/nowhere", headers={"traceparent": "00-zz-1-01"})
        assert len(said.json()["traceId"]) == 32

    serve(MEMORY, use)


# Idempotency-Key.


def test_a_request_sent_again_with_its_key_is_answered_as_before_and_stores_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    first: list[httpx.Response] = []

    async def send(service: Service) -> None:
        first.append(await service.post(STATE, json={"state": RUNNING}, headers={"Idempotency-Key": '"k 1"'}))
        assert "idempotency-replayed" not in first[0].headers

    async def send_again(service: Service) -> None:
        """After a restart, spelled otherwise."""
        body = {"state": {"turn": {"phase": "running", "turn_id": "t1"}, "title": "Tides"}}
        said = await service.post(STATE, json=body, headers={"Idempotency-Key": "k 1"})
        assert (said.status_code, said.content) == (200, first[0].content)
        assert said.headers["idempotency-replayed"] == "true"
        assert len([one async for one in service.ledger.deltas()]) == 1

    async def send_another(service: Service) -> None:
        said = await service.post(STATE, json={"state": {"title": "x"}}, headers={"Idempotency-Key": '"k 1"'})
        assert (said.status_code, said.json()["code"]) == (409, "idempotency_key_reused")

    for use in (send, send_again, send_another):
        serve(url, use)


def test_a_key_belongs_to_its_kind_of_command_and_session() -> None:
    async def use(service: Service) -> None:
        headers = {"Idempotency-Key": "k"}
        await service.report("s1", RUNNING, headers=headers)
        await service.report("s2", {"title": "other", **RUNNING}, headers=headers)
        said = await service.post(f"{SESSION}/title", json={"title": "x"}, headers=headers)
        assert said.status_code == 200
        said = await service.post(f"{SESSION}/title", json={"title": "x"}, headers=headers)
        assert said.headers["idempotency-replayed"] == "true"

    serve(MEMORY, use)


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "caf\xe9", '"open', "tab\tinside"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    async def use(service: Service) -> None:
        headers = {"Idempotency-Key": key.encode("latin-1")}
        said = await service.client.post(STATE, json={"state": {}}, headers=headers)  # type: ignore[arg-type]
        assert (said.status_code, said.json()["code"]) == (400, "invalid_idempotency_key")

    serve(MEMORY, use)


# Bodies.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"\xff\xfe", 400),
        (b'{"state": 1}', 422),
        (b'{"state": {"turn": {"turnId": "t1", "outcome": "lost", "phase": "settled"}}}', 422),
        (b'{"roomId": "another"}', 400),
        (b'{"state": {"settings": {"n": NaN}}}', 400),
        (b'{"state": {"settings": {"n": 1e400}}}', 400),
        (b'{"state": {"settings": {"n": 18446744073709551616}}}', 400),
        (b"null", 200),
        (b"{}", 200),
    ],
)
def test_a_body_is_taken_or_refused_for_what_it_is(body: bytes, status: int) -> None:
    async def use(service: Service) -> None:
        headers = {"content-type": "application/json"}
        assert (await service.post(STATE, content=body, headers=headers)).status_code == status

    serve(MEMORY, use)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"content-type": "application/json"}, 200),
        ({"content-type": 'Application/JSON; charset="UTF-8"'}, 200),
        ({"content-type": "application/vnd.reprise+json"}, 200),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
    ],
)
def test_a_body_says_what_it_is(headers: dict[str, str], status: int) -> None:
    async def use(service: Service) -> None:
        assert (await service.post(STATE, content=b"{}", headers=headers)).status_code == status

    serve(MEMORY, use)


def test_a_body_that_is_too_large_is_read_no_further_than_shows_it() -> None:
    settings = HttpSettings(body_bytes_max=1_000)
    taken: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b" " * 100

    async def use(service: Service) -> None:
        said = await service.post(STATE, content=b" " * 1_001)
        assert (said.status_code, said.json()["code"]) == (413, "payload_too_large")
        assert (await service.post(STATE, content=b"{}" + b" " * 998)).status_code == 200

    serve(MEMORY, use, settings)

    async def over_a_socket() -> None:
        """A server that reads no more also says that the connection is at its end."""
        with listening(MEMORY, settings) as address:
            host, port = address.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST {STATE} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"connection: close" in answer.lower()
            writer.close()

    asyncio.run(over_a_socket())


@pytest.mark.parametrize("name", ["%20", "x" * 513, "a%00b", "%ED%A0%80", "%FF"])
def test_an_id_that_can_name_nothing_is_refused(name: str) -> None:
    async def use(service: Service) -> None:
        for path in (f"/v1/rooms/{ROOM}/agents/sessions/{name}/state", f"/v1/rooms/{name}/settle"):
            said = await service.post(path, json={})
            assert (said.status_code, said.json()["code"]) == (400, "invalid_id")
        said = await service.get(f"/v1/rooms/{ROOM}/sessions/{name}")
        assert said.status_code == 400

    serve(MEMORY, use)


# Versions.


def test_a_command_is_done_for_the_version_it_is_meant_for_or_not_at_all() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        tag = (await service.get(SESSION)).headers["etag"]
        stale, current = {"If-Match": '"1"'}, {"If-Match": tag}
        said = await service.post(f"{SESSION}/title", json={"title": "x"}, headers=stale)
        assert (said.status_code, said.headers["etag"]) == (412, tag)
        assert said.json()["code"] == "version_conflict"
        said = await service.post(f"{SESSION}/title", json={"title": "x"}, headers=current)
        assert said.status_code == 200
        said = await service.post(f"{SESSION}/title", json={"title": "y"}, headers=current)
        assert said.status_code == 412
        for anything in ({"If-Match": "*"}, {}):
            said = await service.post(f"{SESSION}/title", json={"title": "z"}, headers=anything)
            assert said.status_code == 200
        for weak in ({"If-Match": f"W/{tag}"}, {"If-Match": '"other"'}):
            assert (await service.post(f"{SESSION}/purge", headers=weak)).status_code == 412
        assert (await service.post(f"{SESSION}/purge", headers={"If-Match": "7"})).status_code == 400

    serve(MEMORY, use)


def test_where_it_is_required_a_command_without_a_version_is_refused() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        said = await service.post(f"{SESSION}/title", json={"title": "x"})
        assert (said.status_code, said.json()["code"]) == (428, "precondition_required")

    serve(MEMORY, use, HttpSettings(require_if_match=True))


def test_a_reader_who_has_the_version_is_told_so() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        tag = (await service.get(SESSION)).headers["etag"]
        for known in (tag, f'"1", W/{tag}', "*"):
            said = await service.get(SESSION, headers={"If-None-Match": known})
            assert (said.status_code, said.content, said.headers["etag"]) == (304, b"", tag)
        await service.say("s1", text("m1", "x"))
        assert (await service.get(SESSION, headers={"If-None-Match": tag})).status_code == 200

    serve(MEMORY, use)


# Access.


def test_a_service_that_only_reads_refuses_everything_else() -> None:
    async def use(service: Service) -> None:
        for method, path in (
            ("POST", STATE),
            ("POST", "/v1/imports"),
            ("POST", f"{SESSION}/purge"),
            ("DELETE", SESSION),
        ):
            said = await service.client.request(method, path, json={})
            assert (said.status_code, said.json()["code"]) == (403, "read_only_mode")
        assert (await service.get("/v1/rooms")).status_code == 200

    serve(MEMORY, use, HttpSettings(read_only=True))


def test_each_route_under_a_prefix_names_one_scope() -> None:
    async def main() -> None:
        async with open_ledger_async(MEMORY) as ledger:
            for route in iter_route_contexts(create_app(ledger).routes):
                if str(route.path).startswith(("/v1", "/api/desktop/v1")):
                    needed = [
                        one.dependency.scope
                        for one in route.dependencies
                        if isinstance(one.dependency, Needs)
                    ]
                    assert len(needed) == 1, route.path
                    # What tokens there are is for those who can make some.
                    is_reading = route.methods == {"GET"} and not str(route.path).endswith("/tokens")
                    assert (needed == ["read"]) == is_reading, route.path

    asyncio.run(main())


# Pages.


async def all_pages(service: Service, path: str) -> list[dict[str, Any]]:
    """Every item of a list, by following its links."""
    items: list[dict[str, Any]] = []
    address = path
    while address:
        said = await service.get(address)
        assert said.status_code == 200, said.text
        items += said.json()["items"]
        link = said.headers.get("link", "")
        address = path.split("?", maxsplit=1)[0] + link.split(">")[0].removeprefix("<") if link else ""
    return items


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_following_the_links_shows_every_item_once(limit: int) -> None:
    async def use(service: Service) -> None:
        for number in range(5):
            service.clock.now += number % 2
            await service.report(f"s{number}", RUNNING)
        await service.say("s1", *(text(f"m{number}", "x") for number in range(5)))
        lists = {
            f"/v1/rooms/{ROOM}/sessions": "session",
            "/v1/sessions": "session",
            f"{SESSION}/messages": "messageId",
            f"{SESSION}/events": "version",
        }
        for path, name in lists.items():
            found = [one[name] for one in await all_pages(service, f"{path}?limit={limit}")]
            assert len(found) == len(set(found)) >= 5, path

    serve(MEMORY, use)


def test_a_cursor_of_another_list_or_filter_is_refused() -> None:
    async def use(service: Service) -> None:
        for number in range(3):
            await service.report(f"s{number}", RUNNING)
        path = f"/v1/rooms/{ROOM}/sessions?limit=1"
        cursor = (await service.get(path)).json()["next"]
        assert (await service.get(f"{path}&cursor={cursor}")).status_code == 200
        for address in (
            f"{path}&status=working&cursor={cursor}",
            f"/v1/sessions?cursor={cursor}",
            f"/v1/rooms/other/sessions?cursor={cursor}",
            f"{path}&cursor={cursor}x",
            f"{path}&cursor=%00",
        ):
            said = await service.get(address)
            assert (said.status_code, said.json()["code"]) == (400, "cursor_invalid"), address

    serve(MEMORY, use)


def test_answers_are_json_that_any_reader_takes() -> None:
    async def use(service: Service) -> None:
        await service.report("s1", RUNNING)
        await service.say("s1", text("m1", "\ud83d \u0000 \u2028"))
        said = await service.get(MESSAGES)
        said.content.decode("utf-8", "strict")
        (message,) = json.loads(said.content)["messages"]
        assert message["payload"]["text"] == "\ud83d \u0000 \u2028"

    serve(MEMORY, use)
