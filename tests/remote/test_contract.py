"""What every `RemoteActivity` promises: the client against a real server, and the fake in its place."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from application.remote import (
    AgentsPage,
    BadRow,
    Failure,
    FailureKind,
    MessagesPage,
    Remote,
    RemoteActivity,
    RemoteMessage,
    RemoteSession,
)
from domain.ids import RemoteCursor, RoomId, SessionId
from infrastructure.http_client import DEFAULT_LIMITS, Limits
from infrastructure.remote import HttpRemoteActivity
from tests.remote.fake import FakeRemoteActivity
from tests.remote.faults import Call
from tests.remote.hosted import BEGINNING_MS, Hosted
from tests.remote.running import RunningRemote

MARCH_2026_MS = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""
IMPATIENT = Limits(read_timeout_s=0.2)
"""For a remote that is silent on purpose."""

_Answer = TypeVar("_Answer")


class FixedClock:
    """Stands still."""

    def now_ms(self) -> int:
        return MARCH_2026_MS


@dataclass
class Asked:
    """A remote and the port under test."""

    room: RoomId
    do: Callable[..., None]
    calls: Callable[[], list[Call]]
    ask: Callable[[Callable[[RemoteActivity], Awaitable[Any]], Limits], Any]
    remote: Remote

    def has(self, **step: Any) -> None:
        """Do a step in the room."""
        self.do({"room": self.room, **step})

    def with_port(self, use: Callable[[RemoteActivity], Awaitable[_Answer]]) -> _Answer:
        answer: _Answer = self.ask(use, DEFAULT_LIMITS)
        return answer

    def agents(self) -> AgentsPage | Failure:
        return self.with_port(lambda port: port.list_agents(self.remote, self.room))

    def messages(
        self, after: int = 0, limit: int = 20, *, limits: Limits = DEFAULT_LIMITS, session: str = "session-1"
    ) -> MessagesPage | Failure:
        answer: MessagesPage | Failure = self.ask(
            lambda port: port.list_messages(
                self.remote, self.room, SessionId(session), RemoteCursor(after), limit
            ),
            limits,
        )
        return answer


@pytest.fixture(params=["http", "fake"])
def asked(request: pytest.FixtureRequest, room: RoomId) -> Asked:
    if request.param == "http":
        return over_http(request.getfixturevalue("shared_remote"), room)
    fake = FakeRemoteActivity(now_ms=FixedClock().now_ms)

    def ask(use: Callable[[RemoteActivity], Awaitable[Any]], limits: Limits) -> Any:
        async def main() -> Any:
            return await use(fake)

        return asyncio.run(main())

    return Asked(room, fake.do, fake.calls, ask, Remote("http://fake"))


def over_http(server: RunningRemote, room: RoomId) -> Asked:
    def ask(use: Callable[[RemoteActivity], Awaitable[Any]], limits: Limits) -> Any:
        async def main() -> Any:
            async with HttpRemoteActivity(FixedClock(), limits=limits) as port:
                return await use(port)

        return asyncio.run(main())

    def calls() -> list[Call]:
        return [call for call in server.calls() if call.room == room]

    return Asked(room, server.do, calls, ask, Remote(server.url))


def page(answer: MessagesPage | Failure) -> MessagesPage:
    assert isinstance(answer, MessagesPage), answer
    return answer


def listing(answer: AgentsPage | Failure) -> AgentsPage:
    assert isinstance(answer, AgentsPage), answer
    return answer


def failed(answer: AgentsPage | MessagesPage | Failure) -> Failure:
    assert isinstance(answer, Failure), answer
    return answer


def versions(answer: MessagesPage | Failure) -> list[int | None]:
    return [row.version for row in page(answer).rows]


# Pages.


def test_a_session_is_listed_with_all_that_the_remote_says_of_it(asked: Asked) -> None:
    asked.has(do="session", session="s", fields={"status": "working", "turnPhase": "running", "newKey": [1]})

    (session,) = listing(asked.agents()).rows

    assert session == RemoteSession(
        id="s",
        origin="WORKSPACE_AGENT_SESSION_ORIGIN_RUNTIME",
        user_id="user",
        device_id="device",
        agent_target_id="target",
        provider="codex",
        provider_session_id="provider-s",
        cwd="/work",
        title="About s",
        status="working",
        lifecycle_status="active",
        turn_phase="running",
        started_at_unix_ms=BEGINNING_MS,
        created_at_unix_ms=BEGINNING_MS,
        updated_at_unix_ms=BEGINNING_MS,
    )


def test_a_service_of_our_own_also_says_relations_version_epoch_and_home(asked: Asked) -> None:
    asked.has(do="speak", home="store-2")
    asked.has(
        do="session",
        session="s",
        fields={
            "kind": "child",
            "relations": {"rootAgentSessionId": "root", "parent_turn_id": "t"},
            "messageVersion": 7,
            "version": "12",
        },
    )

    (session,) = listing(asked.agents()).rows

    assert isinstance(session, RemoteSession)
    assert (session.kind, session.root_agent_session_id, session.parent_turn_id) == ("child", "root", "t")
    assert (session.message_version, session.version) == (7, 12)
    assert (session.epoch, session.home) == ("1", "store-2")
    assert page(asked.messages(session="s")).home == "store-2"


@pytest.mark.parametrize("name", ["agentSessionId", "agent_session_id", "agentId", "agent_id"])
def test_a_session_may_call_itself_by_any_of_four_names(asked: Asked, name: str) -> None:
    asked.has(do="session", session="s", fields={"agentSessionId": None, name: " other "})

    (session,) = listing(asked.agents()).rows

    assert isinstance(session, RemoteSession)
    assert session.id == "other"


def test_a_page_holds_the_lowest_versions_above_the_cursor(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=50)

    first = page(asked.messages(after=10, limit=20))
    last = page(asked.messages(after=30, limit=20))

    assert versions(first) == list(range(11, 31))
    assert first.has_more
    assert versions(last) == list(range(31, 51))
    assert not last.has_more
    assert versions(asked.messages(after=50)) == []


def test_a_message_is_read_with_all_that_the_remote_says_of_it(asked: Asked) -> None:
    fields = {
        "turnId": "t",
        "role": "assistant",
        "kind": "text",
        "status": "completed",
        "semantics": {"userVisibleAssistantResponse": True},
        "payload": {"text": "high \ud800 tide", "n": 1},
        "occurredAtUnixMs": 5,
        "startedAtUnixMs": 4,
        "completedAtUnixMs": 6,
    }
    asked.has(do="message", session="session-1", message="m", fields=fields)

    (message,) = page(asked.messages()).rows

    assert message == RemoteMessage(
        sequence=1,
        message_id="m",
        turn_id="t",
        role="assistant",
        kind="text",
        status="completed",
        semantics={"userVisibleAssistantResponse": True},
        payload={"text": "high \ud800 tide", "n": 1},
        occurred_at_unix_ms=5,
        started_at_unix_ms=4,
        completed_at_unix_ms=6,
        created_at_unix_ms=BEGINNING_MS + 1000,
        updated_at_unix_ms=BEGINNING_MS + 1000,
        version=1,
    )


def test_a_changed_message_comes_again_at_its_new_version(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=3)
    asked.has(do="message", session="session-1", message="message-2", fields={"payload": {"text": "better"}})

    rows = page(asked.messages()).rows

    assert [(row.message_id, row.version) for row in rows if isinstance(row, RemoteMessage)] == [
        ("message-1", 1),
        ("message-3", 3),
        ("message-2", 4),
    ]


def test_numbers_as_text_and_snake_case_names_are_read_alike(asked: Asked) -> None:
    asked.has(do="fill", sessions=2, messages=12)
    plain = (asked.agents(), asked.messages())

    asked.has(do="speak", names="snake", numbers="text")

    assert (asked.agents(), asked.messages()) == plain


def test_the_announced_version_is_reported_as_it_was_announced(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=3)
    asked.has(do="claim", session="session-1", claim={"latestVersion": 900})

    answer = page(asked.messages())

    assert answer.latest_version == 900
    assert versions(answer) == [1, 2, 3]


def test_a_chain_of_pages_may_never_end(asked: Asked) -> None:
    asked.has(do="session", session="session-1")
    asked.has(do="endless", session="session-1")

    assert all(page(asked.messages(after, 20)).has_more for after in (0, 20, 40, 980))


def test_after_a_reset_versions_start_over_in_a_new_epoch(asked: Asked) -> None:
    asked.has(do="speak", home="store-2")
    asked.has(do="fill", sessions=1, messages=9)
    before = page(asked.messages())
    asked.has(do="reset")
    asked.has(do="fill", sessions=1, messages=2)

    after = page(asked.messages())

    assert versions(after) == [1, 2]
    assert before.epoch != after.epoch
    assert versions(asked.messages(after=8)) == []


# Bad rows.

ROW = '{"messageId": "bad", "version": VERSION, "payload": {"text": "x"}'
ADVICE = "send it as text or leave it out"
BAD_ROWS = {
    '"no object"': ("expected an object", None),
    "null": ("expected an object", None),
    '{"version": VERSION}': ("messageId: expected an id", 2),
    '{"messageId": " ", "version": "VERSION"}': ("messageId: expected an id", 2),
    '{"messageId": {}, "version": VERSION}': ("messageId: expected text, got an object", 2),
    '{"messageId": "m"}': ("version: expected an integer of at least 1", None),
    '{"messageId": "m", "version": -1}': ("version: expected an integer of at least 1", None),
    '{"messageId": "m", "version": "two"}': ("version: expected an integer, got text that is none", None),
    ROW + ', "payload": []}': ("payload: expected an object, got a list", 2),
    ROW + ', "role": 5}': ("role: expected text, got an integer", 2),
    ROW + ', "occurredAtUnixMs": "soon"}': (
        "occurredAtUnixMs: expected an integer, got text that is none",
        2,
    ),
    ROW + ', "payload": {"n": 1e999}}': (
        f"payload: inf is no JSON number; {ADVICE}",
        2,
    ),
    ROW + ', "payload": {"n": [NaN]}}': (
        f"payload: nan is no JSON number; {ADVICE}",
        2,
    ),
    ROW + ', "payload": {"text": "\udcff"}}': ("not UTF-8", 2),
}


@pytest.mark.parametrize(
    ("raw", "expected"), BAD_ROWS.items(), ids=[f"row {n}" for n in range(len(BAD_ROWS))]
)
def test_a_bad_row_keeps_its_bytes_and_spoils_no_other(
    asked: Asked, raw: str, expected: tuple[str, int | None]
) -> None:
    """P4: the row is passed on with its bytes, and with its version as far as that can be read."""
    asked.has(do="fill", sessions=1, messages=1)
    asked.has(do="message", session="session-1", message="bad", raw=raw)
    asked.has(do="message", session="session-1", message="good", fields={})

    first, bad, third = page(asked.messages()).rows

    reason, version = expected
    sent = raw.replace("VERSION", "2").encode("utf-8", "surrogateescape")
    assert bad == BadRow(1, sent, reason, version)
    assert isinstance(first, RemoteMessage)
    assert isinstance(third, RemoteMessage)
    assert (first.message_id, third.message_id) == ("message-1", "good")


def test_a_bad_session_spoils_no_other(asked: Asked) -> None:
    asked.has(do="session", session="good")
    asked.has(do="session", session="bad", fields={"agentSessionId": None})

    good, bad = listing(asked.agents()).rows

    assert isinstance(good, RemoteSession)
    assert isinstance(bad, BadRow)
    assert bad.reason == "agentSessionId: expected an id"


def test_a_row_that_breaks_the_page_is_found_by_asking_for_less(asked: Asked) -> None:
    """P4: what cannot be taken apart fails as a page, and pages without it are good."""
    asked.has(do="fill", sessions=1, messages=4)
    asked.has(do="message", session="session-1", message="bad", raw='{"messageId": "bad')
    asked.has(do="message", session="session-1", message="good", fields={})

    assert failed(asked.messages()).kind is FailureKind.PROTOCOL
    assert versions(asked.messages(after=0, limit=4)) == [1, 2, 3, 4]
    assert failed(asked.messages(after=4, limit=1)).kind is FailureKind.PROTOCOL
    assert versions(asked.messages(after=5)) == [6]


# Failures.

NO_PAGES = ["", "   ", "null", "5", "[]", "{}", '{"messages": 5}', '{"messages": [}', '{"messages": []} {}']
NO_PAGES += ['{"messages": [], "latestVersion": "x"}', '{"messages": [], "hasMore": 3}', '{"error": "no"}']


@pytest.mark.parametrize("body", NO_PAGES)
def test_what_is_not_the_expected_object_is_a_protocol_error(asked: Asked, body: str) -> None:
    """P4, B3: waiting helps, so it is retryable."""
    asked.has(do="fill", sessions=1, messages=1)
    asked.has(do="fail", what="body", body=body)

    failure = failed(asked.messages())

    assert (failure.kind, failure.retryable) == (FailureKind.PROTOCOL, True)


@pytest.mark.parametrize("body", ['{"messages": null}', '\ufeff{"messages": [], "latest_version": "0"} \n'])
def test_a_null_or_empty_list_is_an_empty_page(asked: Asked, body: str) -> None:
    asked.has(do="fail", what="body", body=body)
    asked.has(do="session", session="session-1")

    assert asked.messages() == MessagesPage((), 0, has_more=False)


FAULTS: dict[str, tuple[FailureKind, dict[str, Any]]] = {
    "html": (FailureKind.PROTOCOL, {}),
    "truncated": (FailureKind.PROTOCOL, {}),
    "packed": (FailureKind.PROTOCOL, {"encoding": "br"}),
    "cut": (FailureKind.TRANSPORT, {}),
    "cut_body": (FailureKind.TRANSPORT, {}),
    "garbage": (FailureKind.TRANSPORT, {}),
    "large": (FailureKind.TOO_LARGE, {"bytes": 9 * 2**20}),
    "bomb": (FailureKind.TOO_LARGE, {"bytes": 64 * 2**20}),
    "silent": (FailureKind.TIMEOUT, {}),
    "stuck": (FailureKind.TIMEOUT, {}),
}


@pytest.mark.parametrize("what", FAULTS)
def test_every_kind_of_trouble_is_a_value_worth_another_try(asked: Asked, what: str) -> None:
    """B3: time-outs, and errors of the connection and of the protocol, are retryable."""
    kind, details = FAULTS[what]
    asked.has(do="fill", sessions=1, messages=5)
    asked.has(do="fail", what=what, **details)
    limits = IMPATIENT if kind is FailureKind.TIMEOUT else DEFAULT_LIMITS

    failure = failed(asked.messages(limits=limits))

    assert (failure.kind, failure.retryable, failure.retry_after_s) == (kind, True, None)


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [
        *((status, False) for status in (301, 400, 401, 403, 404, 408, 410, 422, 499)),
        *((status, True) for status in (429, 500, 502, 503, 504, 599)),
    ],
)
def test_a_status_is_retryable_when_the_server_is_at_fault_or_asks_for_it(
    asked: Asked, status: int, is_retryable: bool
) -> None:
    """B3: 429 and everything from 500 on, and no other."""
    asked.has(do="fail", what="status", status=status)

    failure = failed(asked.agents())

    assert (failure.kind, failure.status) == (FailureKind.STATUS, status)
    assert failure.retryable is is_retryable
    assert str(status) in failure.reason


def test_an_unknown_room_is_a_status_of_its_own(asked: Asked) -> None:
    failure = failed(asked.agents())

    assert (failure.kind, failure.status, failure.retryable) == (FailureKind.STATUS, 404, False)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("spelling", "wait_s"),
    [
        ("3600", 3600.0),
        ("Sun, 01 Mar 2026 10:30:00 GMT", 3600.0),
        ("Sun, 01 Mar 2026 09:00:30 GMT", 30.0),
        ("soon", None),
        ("-5", None),
        ("1", 1.0),
    ],
)
def test_retry_after_is_read_in_every_spelling(
    asked: Asked, status: int, spelling: str, wait_s: float | None
) -> None:
    """B6: at most an hour, and bad values say nothing."""
    asked.has(do="fail", what="status", status=status, headers={"retry-after": spelling})

    assert failed(asked.agents()).retry_after_s == wait_s


# Calls.


def test_faults_come_by_number_of_call_and_by_route(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=5)
    asked.has(do="fail", what="status", status=502, route="messages", calls=[2, 3])

    kinds = [type(asked.messages()) for _ in range(4)]

    assert kinds == [MessagesPage, Failure, Failure, MessagesPage]
    assert isinstance(asked.agents(), AgentsPage)
    assert [call.route for call in asked.calls()] == ["messages"] * 4 + ["agents"]


def test_faults_by_lot_are_the_same_in_every_run(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=5)
    asked.has(do="fail", what="status", status=502, share=0.3, seed=7)

    lots = "".join("x" if isinstance(asked.messages(), Failure) else "." for _ in range(12))

    assert lots == ".....x...x.."


def test_a_row_may_spoil_every_page_that_would_hold_it(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=20)
    asked.has(do="fail", what="truncated", covers=5)

    spoilt = [
        (after, limit)
        for after, limit in [(0, 4), (0, 5), (4, 1), (4, 20), (5, 20)]
        if isinstance(asked.messages(after, limit), Failure)
    ]

    assert spoilt == [(0, 5), (4, 1), (4, 20)]


def test_the_remote_remembers_what_it_was_asked(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=5)

    asked.messages(after=3, limit=7)

    (call,) = asked.calls()
    assert (call.route, call.room, call.session) == ("messages", asked.room, "session-1")
    assert call.query == {"after_version": "3", "limit": "7"}


def test_a_slow_answer_delays_no_other_call(asked: Asked) -> None:
    """P9: calls of one client do not wait for each other."""
    asked.has(do="fill", sessions=2, messages=5)
    asked.has(do="fail", what="hold", session="session-1")

    async def both(port: RemoteActivity) -> tuple[bool, Any]:
        def read(session: str) -> Awaitable[MessagesPage | Failure]:
            return port.list_messages(asked.remote, asked.room, SessionId(session), RemoteCursor(0), 20)

        slow = asyncio.ensure_future(read("session-1"))
        page(await read("session-2"))
        was_waiting = not slow.done()
        await asyncio.to_thread(asked.do, {"do": "release"})
        return was_waiting, await slow

    was_waiting, slow = asked.with_port(both)

    assert was_waiting
    assert versions(slow) == [1, 2, 3, 4, 5]


def test_a_cancelled_call_ends_as_its_caller_wanted(asked: Asked) -> None:
    asked.has(do="fill", sessions=1, messages=5)
    asked.has(do="fail", what="hold")

    async def cancel(port: RemoteActivity) -> bool:
        call = asyncio.ensure_future(port.list_agents(asked.remote, asked.room))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    assert asked.with_port(cancel)


def test_a_large_room_is_read_as_it_is_known_to_be(asked: Asked) -> None:
    fill = {"do": "fill", "room": asked.room, "sessions": 3, "messages": 205}
    asked.do(fill)
    known = Hosted()
    known.take(fill)

    for name, session in known.rooms[asked.room].sessions.items():
        rows, after = [], 0
        while True:
            answer = page(asked.messages(after, 100, session=name))
            rows += [row for row in answer.rows if isinstance(row, RemoteMessage)]
            after = rows[-1].version
            if not answer.has_more:
                break
        assert [(row.message_id, row.sequence, row.version, row.payload) for row in rows] == [
            (name, one.sequence, one.version, one.row["payload"]) for name, one in session.messages.items()
        ]


def test_a_remote_never_shows_its_token() -> None:
    remote = Remote("http://remote.example", token="secret-token")

    assert "secret-token" not in f"{remote!r} {remote} {replace(remote, user_id='u')}"
