"""Bulk imports: a line is a report, and each is answered by itself."""

import json
from typing import Any

import pytest

from infrastructure.http.settings import HttpSettings
from tests.http.service import ROOM, RUNNING, Service, serve, text

TYPE = {"content-type": "application/x-ndjson"}


def line(session: str, **report: Any) -> str:
    return json.dumps({"roomId": ROOM, "agentSessionId": session, **report})


async def sent(service: Service, *lines: str | bytes, **headers: str) -> list[dict[str, Any]]:
    body = b"\n".join(one.encode() if isinstance(one, str) else one for one in lines)
    said = await service.post("/v1/imports", content=body, headers={**TYPE, **headers})
    assert said.status_code == 200, said.text
    assert said.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(answer) for answer in said.text.splitlines()]


def test_many_reports_are_taken_in_their_order_and_each_is_answered() -> None:
    async def use(service: Service) -> None:
        sessions = [f"s{number}" for number in range(7)]
        lines = [line(name, state=RUNNING) for name in sessions]
        lines += [
            line(
                sessions[number % 7],
                updates=[text("m", f"{number};", status="", contentDelta=f"{number};", payload={})],
            )
            for number in range(700)
        ]
        answers = await sent(service, *lines)
        assert [one["line"] for one in answers] == list(range(1, len(lines) + 1))
        assert {one["status"] for one in answers} == {200}
        for at, name in enumerate(sessions):
            page = await service.ledger.messages(ROOM, name)
            assert page.messages[0].payload["text"] == "".join(f"{number};" for number in range(at, 700, 7))

    serve("memory://", use)


def test_a_bad_line_costs_only_itself() -> None:
    async def use(service: Service) -> None:
        answers = await sent(
            service,
            line("s1", state=RUNNING),
            "nope",
            "",
            "[1]",
            b"\xff",
            line("s1", updates=[text("m1", "x", turn="t9")]),
            line("s1"),
            json.dumps({"state": {}}),
            line("s1", updates=[text("m2", "y" * 2_000)]),
            line("s1", updates=[text("m3", "z")]),
        )
        assert [(one["line"], one["status"]) for one in answers] == [
            (1, 200),
            (2, 400),
            (4, 400),
            (5, 400),
            (6, 422),
            (7, 400),
            (8, 400),
            (9, 413),
            (10, 200),
        ]
        assert answers[4]["problem"]["code"] == "unknown_turn"
        assert answers[-1]["reply"]["latestVersion"] == 1

    serve("memory://", use, HttpSettings(body_bytes_max=1_000))


def test_an_import_with_a_key_may_be_sent_again() -> None:
    async def use(service: Service) -> None:
        lines = [
            line("s1", state=RUNNING),
            line("s1", updates=[text("m1", "x", contentDelta="x", payload={}, status="")]),
        ]
        key = {"idempotency-key": '"import 1"'}
        first = await sent(service, *lines, **key)
        again = await sent(service, *lines, **key)
        assert again == [{**answer, "replayed": True} for answer in first]
        page = await service.ledger.messages(ROOM, "s1")
        assert page.messages[0].payload["text"] == "x"

    serve("memory://", use)


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"", TYPE, 200),
        (b"\n\n", TYPE, 200),
        (b"{}", {"content-type": "application/json"}, 415),
        (b" " * 3_000, TYPE, 413),
    ],
)
def test_an_import_is_refused_as_a_whole_only_for_what_it_is(
    content: bytes, headers: dict[str, str], status: int
) -> None:
    async def use(service: Service) -> None:
        said = await service.post("/v1/imports", content=content, headers=headers)
        assert said.status_code == status

    serve("memory://", use, HttpSettings(import_bytes_max=2_000))
