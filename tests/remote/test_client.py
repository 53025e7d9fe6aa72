"""What the client does that no fake does: how it writes calls, connects, tries again and gives up."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import pytest

from application.remote import AgentsPage, Failure, FailureKind, MessagesPage, Remote
from domain.ids import RemoteCursor, RoomId, SessionId
from infrastructure.addresses import Address, Resolve
from infrastructure.http_client import DEFAULT_LIMITS, Limits
from infrastructure.remote import BadRemote, HttpRemoteActivity, base_url
from tests.remote.faults import Call
from tests.remote.running import SECURE_NAME, RunningRemote, running_remote, secure_remote

"""A host name that only the tests' look-ups know."""
SECRET = "secret-token"

_Answer = TypeVar("_Answer")


class StoppedClock:
    def now_ms(self) -> int:
        return 0


class Lookups:
    """Answers as it is told, one answer after the other, the last for ever; counts the questions."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = [[ip_address(text) for text in answer] for answer in answers]
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def use(
    work: Callable[[HttpRemoteActivity], Coroutine[Any, Any, _Answer]],
    limits: Limits = DEFAULT_LIMITS,
    **how: Any,
) -> _Answer:
    async def main() -> _Answer:
        async with HttpRemoteActivity(StoppedClock(), limits=limits, **how) as port:
            return await work(port)

    return asyncio.run(main())


def list_agents(
    remote: Remote, room: str, limits: Limits = DEFAULT_LIMITS, **how: Any
) -> AgentsPage | Failure:
    return use(lambda port: port.list_agents(remote, RoomId(room)), limits, **how)


def kind_of(answer: AgentsPage | MessagesPage | Failure) -> FailureKind:
    assert isinstance(answer, Failure), answer
    return answer.kind


def calls_for(server: RunningRemote, room: str) -> list[Call]:
    return [call for call in server.calls() if call.room == room]


@pytest.fixture
def server(shared_remote: RunningRemote, room: RoomId) -> RunningRemote:
    """A remote with two sessions of five messages in the room."""
    shared_remote.do({"do": "fill", "room": room, "sessions": 2, "messages": 5})
    return shared_remote


# How a call is written.


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://localhost/", "http://localhost/v1"),
        ("http://[::1]:9", "http://[::1]:9/v1"),
        (" https://remote.example ", "https://remote.example/api/desktop/v1"),
        ("https://remote.example:8443/behind/", "https://remote.example:8443/behind/api/desktop/v1"),
        ("https://10.0.0.7", "https://10.0.0.7/api/desktop/v1"),
        ("https://remote.example/v1", "https://remote.example/v1"),
        ("http://localhost/api/desktop/v1/", "http://localhost/api/desktop/v1"),
    ],
)
def test_the_prefix_goes_by_the_host_unless_the_url_has_one(url: str, base: str) -> None:
    assert base_url(url) == base


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "remote.example",
            "//remote.example",
            "ftp://remote.example",
            "http://",
            "http://:80",
            "http:///v1",
        ),
        *("http://h:port", "http://h:99999", "http://h:0", "http://[::1", "http://h?x=1", "http://h#x"),
        f"http://user:{SECRET}@h",
    ],
)
def test_a_bad_url_is_told_without_repeating_it(url: str) -> None:
    with pytest.raises(BadRemote) as told:
        base_url(url)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    "remote",
    [
        Remote("remote.example"),
        Remote(f"http://me:{SECRET}@127.0.0.1"),
        Remote("http://bad host/"),
        Remote("http://" + "a" * 64 + ".example"),
        Remote("http://ex\u2028ample/"),
        Remote("http://127.0.0.1", token=f"{SECRET}é"),
        Remote("http://127.0.0.1", token=f"a\n{SECRET}"),
        Remote("http://127.0.0.1", token=SECRET, user_id="jörg"),
    ],
)
def test_settings_that_cannot_work_are_malformed_and_not_tried_again(remote: Remote) -> None:
    """B3: waiting does not mend a bad URL."""
    answer = list_agents(remote, "room", resolve=Lookups(["127.0.0.1"]))

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == (FailureKind.MALFORMED, False)
    assert SECRET not in f"{answer}"


def test_a_call_says_who_asks(server: RunningRemote, room: RoomId) -> None:
    list_agents(Remote(server.url, token=SECRET, user_id="user-7"), room)
    list_agents(Remote(server.url), room)

    named, nameless = calls_for(server, room)
    assert (named.headers["authorization"], named.headers["x-user-id"]) == (f"Bearer {SECRET}", "user-7")
    assert named.headers["accept"] == "application/json"
    assert not {"authorization", "x-user-id"} & nameless.headers.keys()
    assert named.prefix == "/v1"


@pytest.mark.parametrize("name", ["a/b?c#d", "..", ".", "ä ö", "100%", "a%2Fb", "🌊", "a\u2028b"])
def test_every_name_arrives_as_it_is(shared_remote: RunningRemote, room: RoomId, name: str) -> None:
    strange_room = f"{room}{name}"
    for inside in (strange_room, name):
        shared_remote.do({"do": "message", "room": inside, "session": name, "message": "m", "fields": {}})

    async def read_both(port: HttpRemoteActivity) -> list[MessagesPage | Failure]:
        remote, session = Remote(shared_remote.url), SessionId(name)
        return [
            await port.list_messages(remote, RoomId(inside), session, RemoteCursor(0), 20)
            for inside in (strange_room, name)
        ]

    answers = use(read_both)

    assert all(isinstance(answer, MessagesPage) for answer in answers), answers


# Another try, and giving up.


@pytest.mark.parametrize("what", ["cut", "cut_body", "garbage"])
def test_a_broken_connection_is_tried_once_more_at_once(
    server: RunningRemote, room: RoomId, what: str
) -> None:
    """B3: a connection that breaks once is not worth a wait."""
    server.do({"do": "fail", "room": room, "what": what, "calls": [1]})

    assert isinstance(list_agents(Remote(server.url), room), AgentsPage)
    assert len(calls_for(server, room)) == 2


def test_a_connection_that_breaks_twice_is_a_failure(server: RunningRemote, room: RoomId) -> None:
    server.do({"do": "fail", "room": room, "what": "cut"})

    assert kind_of(list_agents(Remote(server.url), room)) is FailureKind.TRANSPORT
    assert len(calls_for(server, room)) == 2


@pytest.mark.parametrize(
    "fault", [{"what": "status", "status": 503}, {"what": "html"}, {"what": "truncated"}]
)
def test_an_answer_is_not_asked_for_again(server: RunningRemote, room: RoomId, fault: dict[str, Any]) -> None:
    server.do({"do": "fail", "room": room, **fault})

    list_agents(Remote(server.url), room)

    assert len(calls_for(server, room)) == 1


@pytest.mark.parametrize("what", ["silent", "stuck"])
def test_a_time_out_is_not_followed_by_another_try(server: RunningRemote, room: RoomId, what: str) -> None:
    server.do({"do": "fail", "room": room, "what": what})

    answer = list_agents(Remote(server.url), room, Limits(read_timeout_s=0.2))

    assert kind_of(answer) is FailureKind.TIMEOUT
    assert len(calls_for(server, room)) == 1


def test_a_reply_that_drips_for_ever_ends_with_the_call(server: RunningRemote, room: RoomId) -> None:
    """Each piece comes in time, and the whole does not."""
    server.do({"do": "fail", "room": room, "what": "drip", "every_s": 0.05})

    answer = list_agents(Remote(server.url), room, Limits(call_timeout_s=0.6))

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.reason) == (FailureKind.TIMEOUT, "the call took longer than 0.6 s")


def test_nobody_listening_is_an_error_of_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    answer = list_agents(Remote(f"http://127.0.0.1:{port}"), "room")

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == (FailureKind.TRANSPORT, True)


def test_a_name_server_that_is_silent_takes_no_longer_than_connecting_may() -> None:
    async def think(host: str, port: int) -> Sequence[Address]:
        await asyncio.Event().wait()
        raise AssertionError

    answer = list_agents(
        Remote(f"http://{SECURE_NAME}"), "room", Limits(connect_timeout_s=0.1), resolve=think
    )

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.reason) == (FailureKind.TIMEOUT, "no connection within 0.1 s")


def test_a_restarted_remote_is_found_again_by_the_same_client() -> None:
    """Its idle connections are dead, which costs no failure."""
    with running_remote({"do": "session", "room": "room", "session": "s"}) as server:

        async def around_a_restart(port: HttpRemoteActivity) -> list[Any]:
            remote, room = Remote(server.url), RoomId("room")
            before = await port.list_agents(remote, room)
            await asyncio.to_thread(server.kill)
            during = await port.list_agents(remote, room)
            await asyncio.to_thread(server.start)
            return [before, during, await port.list_agents(remote, room)]

        before, during, after = use(around_a_restart)

    assert kind_of(during) is FailureKind.TRANSPORT
    assert isinstance(before, AgentsPage)
    assert after == before


def test_a_call_cancelled_by_its_transport_is_a_value() -> None:
    """B3: it is not retryable, and it does not cancel whoever called."""

    async def give_up(host: str, port: int) -> Sequence[Address]:
        raise asyncio.CancelledError

    answer = list_agents(Remote(f"http://{SECURE_NAME}"), "room", resolve=give_up)

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == (FailureKind.CANCELED, False)


# What is read.


def test_a_packed_page_is_read_like_another(server: RunningRemote, room: RoomId) -> None:
    plain = list_agents(Remote(server.url), room)
    server.do({"do": "fail", "room": room, "what": "gzip"})

    assert list_agents(Remote(server.url), room) == plain
    assert calls_for(server, room)[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("what", ["large", "bomb"])
def test_no_more_is_read_than_the_limit(server: RunningRemote, room: RoomId, what: str) -> None:
    """P4: too much is a failure of its own, however it is packed."""
    limits = Limits(body_bytes_max=100_000)
    server.do({"do": "fail", "room": room, "what": what, "bytes": 90_000, "calls": [1]})
    server.do({"do": "fail", "room": room, "what": what, "bytes": 100_001})

    below = list_agents(Remote(server.url), room, limits)
    above = list_agents(Remote(server.url), room, limits)

    assert not isinstance(below, Failure) or below.kind is FailureKind.PROTOCOL
    assert kind_of(above) is FailureKind.TOO_LARGE


def test_a_redirect_is_not_followed(server: RunningRemote, room: RoomId) -> None:
    """P9: it could lead to an address that nobody allowed."""
    to = f"{server.url}/v1/rooms/elsewhere/agents/list"
    server.do({"do": "fail", "room": room, "what": "status", "status": 302, "headers": {"location": to}})

    answer = list_agents(Remote(server.url), room)

    assert isinstance(answer, Failure)
    assert (answer.status, answer.retryable) == (302, False)
    assert calls_for(server, "elsewhere") == []


# Where it connects.


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.168.1.1", "169.254.169.254", "fd00::1", "::ffff:10.0.0.7"]
)
def test_a_name_may_not_lead_to_a_private_address(address: str) -> None:
    """P9: refused before anything is sent, and not tried again."""
    answer = list_agents(Remote(f"http://{SECURE_NAME}", token=SECRET), "room", resolve=Lookups([address]))

    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == (FailureKind.REFUSED_ADDRESS, False)
    assert SECURE_NAME in answer.reason


@pytest.mark.parametrize(
    "host", ["10.0.0.7", "169.254.169.254", "[fd00::1]", "[::ffff:192.168.1.1]", "0.0.0.0"]
)
def test_nor_may_the_url_name_one(host: str) -> None:
    assert kind_of(list_agents(Remote(f"http://{host}"), "room")) is FailureKind.REFUSED_ADDRESS


def refuses(remote: Remote, **how: Any) -> bool:
    """Whether the client refuses a private address; where it may connect, nobody answers in time."""
    limits = Limits(connect_timeout_s=0.05)
    answer = list_agents(remote, "room", limits, resolve=Lookups(["fd00::1"]), **how)
    return kind_of(answer) is FailureKind.REFUSED_ADDRESS


def test_private_addresses_are_allowed_by_the_room_or_by_the_settings() -> None:
    """P9: one of them is enough."""
    assert refuses(Remote(f"http://{SECURE_NAME}"))
    assert not refuses(Remote(f"http://{SECURE_NAME}", allows_private=True))
    assert not refuses(Remote(f"http://{SECURE_NAME}"), allows_private=True)


def test_the_address_that_was_checked_is_the_one_that_is_called(server: RunningRemote, room: RoomId) -> None:
    """P9: a second answer, which would lead elsewhere, is not asked for."""
    lookups = Lookups(["127.0.0.1"], ["10.0.0.7"])

    answer = list_agents(Remote(f"http://{SECURE_NAME}:{server.port}"), room, resolve=lookups)

    assert isinstance(answer, AgentsPage)
    assert lookups.asked == [SECURE_NAME]
    (call,) = calls_for(server, room)
    assert call.headers["host"] == f"{SECURE_NAME}:{server.port}"
    assert call.prefix == "/api/desktop/v1"


def test_each_new_connection_is_checked_anew(server: RunningRemote, room: RoomId) -> None:
    lookups = Lookups(["127.0.0.1"], ["10.0.0.7"])
    server.do({"do": "fail", "room": room, "what": "cut", "calls": [1]})

    answer = list_agents(Remote(f"http://{SECURE_NAME}:{server.port}"), room, resolve=lookups)

    assert kind_of(answer) is FailureKind.REFUSED_ADDRESS


def test_the_next_address_is_tried_when_one_does_not_answer(server: RunningRemote, room: RoomId) -> None:
    lookups = Lookups(["127.0.0.2", "127.0.0.3", "127.0.0.1"])

    answer = list_agents(Remote(f"http://{SECURE_NAME}:{server.port}"), room, resolve=lookups)

    assert isinstance(answer, AgentsPage)


def test_proxies_of_the_environment_are_not_asked(
    server: RunningRemote, room: RoomId, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert isinstance(list_agents(Remote(server.url), room), AgentsPage)


# Over TLS.


def test_certificates_are_checked_against_the_name_at_the_checked_address(tmp_path: Path) -> None:
    """P9, B3: an untrusted certificate is a matter of settings."""
    here: Resolve = Lookups(["127.0.0.1"])
    with secure_remote(tmp_path) as (server, certificate):
        trusting = ssl.create_default_context(cafile=str(certificate))
        named, by_address = f"https://{SECURE_NAME}:{server.port}", f"https://127.0.0.1:{server.port}"

        trusted = list_agents(Remote(named), "room", resolve=here, tls=trusting)
        untrusted = list_agents(Remote(named), "room", resolve=here)
        misnamed = list_agents(Remote(by_address), "room", tls=trusting)
        plain = list_agents(Remote(f"http://{SECURE_NAME}:{server.port}"), "room", resolve=here)

    assert isinstance(trusted, AgentsPage)
    for answer in (untrusted, misnamed):
        assert isinstance(answer, Failure)
        assert (answer.kind, answer.retryable) == (FailureKind.MALFORMED, False)
        assert "certificate is not trusted" in answer.reason
    assert kind_of(plain) is FailureKind.TRANSPORT


def test_a_server_without_tls_has_no_secure_connection(server: RunningRemote, room: RoomId) -> None:
    answer = list_agents(Remote(f"https://127.0.0.1:{server.port}"), room)

    assert kind_of(answer) is FailureKind.TRANSPORT
