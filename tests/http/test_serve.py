"""`reprise serve` is there until it is told to stop, and then finishes what has begun."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from application import access
from application.access import Scope
from infrastructure.main import open_database
from infrastructure.store.tokens import StoredTokens
from tests.http.reading import read_all
from tests.http.serving import WAIT_S, Served, served, started

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
STATE = "/v1/rooms/team/agents/sessions/s-1/state"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and stores of whoever runs the tests are not looked at."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


def token_in(place: str, *scopes: Scope, rooms: tuple[str, ...] = ()) -> str:
    """A token of the store, which is made if need be."""
    database = open_database(place)
    try:
        return access.create(StoredTokens(database), bytes(32), scopes, rooms, "", 1)[0]
    finally:
        database.close()


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT], ids=lambda told: told.name)
def test_it_says_where_it_is_and_ends_with_success_when_told(place: str, told: signal.Signals) -> None:
    with served(place) as service:
        said = httpx.post(service.url + STATE, json={"state": {"title": "Tides"}})
        assert said.status_code == 200

        assert service.told(told) == 0
    events = [line["event"] for line in service.log]
    assert events == ["serving", "request", "stopping", "stopped"]
    assert service.log[0]["url"].startswith("http://127.0.0.1:")


def test_a_store_on_postgresql_is_served_like_one_in_a_file(url: str) -> None:
    with served(url) as service:
        assert httpx.post(service.url + STATE, json={"state": {"title": "Tides"}}).status_code == 200
        assert httpx.get(service.url + "/readyz").json()["status"] == "ready"
        assert service.told() == 0


@contextmanager
def begun(service: Served, body: bytes) -> Iterator[socket.socket]:
    """A report of which the service has had everything but the last byte."""
    where = urlsplit(service.url)
    head = f"POST {STATE} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    with socket.create_connection((where.hostname, where.port), WAIT_S) as line:
        line.sendall(head.encode() + b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
        assert line.recv(1_000).startswith(b"HTTP/1.1 100")  # A route reads the body, so the request runs.
        line.sendall(body[:-1])
        yield line


def test_what_has_begun_is_finished_and_what_comes_then_is_refused(place: str) -> None:
    body = json.dumps({"state": {"title": "Tides"}}).encode()
    with served(place) as service, httpx.Client(base_url=service.url) as client:
        with begun(service, body) as line:
            service.process.send_signal(signal.SIGTERM)
            until_stopping(client)
            refused = client.get("/v1/status")
            stream = client.get("/v1/stream", headers={"Accept": "text/event-stream"})
            line.sendall(body[-1:])
            answer = b"".join(iter(lambda: line.recv(4_096), b""))

        assert service.ended() == 0
    assert answer.startswith(b"HTTP/1.1 200")
    assert refused.status_code == 503
    assert stream.text == "id: 0\nretry: 2000\n\n", "a browser comes again, and would not if it were refused"
    assert (refused.json()["code"], refused.headers["retry-after"]) == ("stopping", "1")


def until_stopping(client: httpx.Client) -> None:
    """Ask until the service says that it is about to stop."""
    while (answer := client.get("/readyz")).status_code == 200:
        pass
    assert answer.status_code == 503
    assert answer.json()["detail"] == "it is stopping"
    assert client.get("/healthz").status_code == 200


def test_streams_are_closed_when_it_stops(place: str) -> None:
    with served(place) as service:
        httpx.post(service.url + STATE, json={"state": {"title": "Tides"}})
        with httpx.stream("GET", service.url + "/v1/stream?after=0", timeout=WAIT_S) as answer:
            pieces = answer.iter_bytes()
            first = next(pieces)
            service.process.send_signal(signal.SIGTERM)
            rest = list(pieces)
        assert service.ended() == 0

    assert [one.event for one in read_all([first, *rest])] == ["commit"]


def test_a_request_that_never_ends_does_not_keep_it(place: str) -> None:
    with (
        served(place, environment={"REPRISE_DRAIN_SECONDS": "1.2"}) as service,
        begun(service, b"{}"),
    ):
        assert service.told() == 0

    assert "stopped_in_the_middle" in [line["event"] for line in service.log]


def test_a_second_signal_does_not_wait(place: str) -> None:
    with (
        served(place, environment={"REPRISE_DRAIN_SECONDS": "300"}) as service,
        httpx.Client(base_url=service.url) as client,
        begun(service, b"{}"),
    ):
        service.process.send_signal(signal.SIGINT)
        until_stopping(client)
        assert service.told(signal.SIGINT) == 0


def test_it_does_not_let_others_in_who_cannot_be_asked_for_a_token(place: str) -> None:
    service = started("--db", place, "--host", "0.0.0.0")
    _, said = service.process.communicate(timeout=WAIT_S)

    assert service.process.returncode == 78
    assert "reprise tokens create" in said
    assert len(said.splitlines()) == 1


def test_others_are_let_in_with_a_token(place: str) -> None:
    token = token_in(place, Scope.READ)
    with served(place, "--host", "0.0.0.0") as service:
        port = urlsplit(service.url).port
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/v1/status").status_code == 401
            assert client.get("/metrics").status_code == 401
            headers = {"Authorization": f"Bearer {token}"}
            assert client.get("/v1/status", headers=headers).status_code == 200
            assert client.get("/metrics", headers=headers).status_code == 200


def test_an_address_that_is_taken_is_told(place: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = started("--db", place, "--port", str(taken.getsockname()[1]))
        _, said = service.process.communicate(timeout=WAIT_S)

    assert service.process.returncode == 69
    assert "--port" in said


def test_settings_that_mean_nothing_are_told_one_by_one(place: str) -> None:
    service = started(
        "--db", place, environment={"REPRISE_DRAIN_SECONDS": "never", "REPRISE_READ_ONLY": "maybe"}
    )
    _, said = service.process.communicate(timeout=WAIT_S)

    assert service.process.returncode == 78
    assert [line.split(":")[1].strip() for line in said.splitlines()] == [
        "REPRISE_READ_ONLY",
        "REPRISE_DRAIN_SECONDS",
    ]


def test_a_request_is_logged_with_its_trace_and_without_its_secrets(place: str) -> None:
    token = token_in(place, Scope.OPERATE)
    with served(place) as service, httpx.Client(base_url=service.url) as client:
        trace = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        answers = [
            client.get("/v1/status", headers={"Authorization": f"Bearer {token}", **trace}),
            client.get("/v1/status", headers={"Authorization": "Bearer reprise_" + "x" * 43, **trace}),
            client.get(f"/v1/{token}?token={token}", headers=trace),
        ]
        assert service.told() == 0

    assert [answer.status_code for answer in answers] == [200, 401, 404]
    assert [line["trace_id"] for line in service.log if line["event"] == "request"] == [TRACE] * 3
    assert answers[1].json()["traceId"] == TRACE
    written = "".join(service.lines) + answers[1].text
    assert token not in written
    assert "x" * 43 not in written


def test_read_only_takes_no_reports(place: str) -> None:
    token_in(place, Scope.READ)
    with served(place, "--read-only") as service:
        refused = httpx.post(service.url + STATE, json={"state": {"title": "Tides"}})
        assert (refused.status_code, refused.json()["code"]) == (403, "read_only_mode")
        assert httpx.get(service.url + "/readyz").status_code == 200
        assert service.told() == 0
