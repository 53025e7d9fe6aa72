"""`pull` reads rooms at the hosts they live on: once, or until somebody stops it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.ids import RoomId, SessionId
from infrastructure.cli import pulling
from tests.cli.conftest import Cli, Ran
from tests.remote.hosted import Step
from tests.remote.running import RunningRemote, running_remote, secure_remote

ROOM = "room-1"
FILLED: Step = {"do": "fill", "room": ROOM, "sessions": 2, "messages": 30}


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningRemote]:
    with running_remote() as remote:
        yield remote


@pytest.fixture
def remote(shared: RunningRemote) -> RunningRemote:
    """The reference remote, healthy, with the same room as in the beginning."""
    if ROOM in {call.room for call in shared.calls()}:
        shared.do({"do": "reset", "room": ROOM})
    shared.do({"do": "heal"}, FILLED)
    return shared


@pytest.fixture
def tracked(cli: Cli, remote: RunningRemote) -> Cli:
    assert cli.run("rooms", "track", ROOM, "--remote", remote.url).code == 0
    return cli


def once(cli: Cli) -> Ran:
    return cli.run("pull", ROOM, "--once")


def message(session: str, name: str) -> Step:
    return {"do": "message", "room": ROOM, "session": session, "message": name, "fields": {"turnId": "t"}}


def reason(cli: Cli, *session: str) -> str:
    """Why a room or session is not read, as `waits why` tells it."""
    lines = cli.run("waits", "why", ROOM, *session).lines
    return next(line for line in lines if line.startswith("  because ")).removeprefix("  because ")


def test_once_reads_what_there_is_and_then_nothing_new(tracked: Cli) -> None:
    first, second = once(tracked), once(tracked)

    assert (first.code, sorted(first.lines)) == (
        0,
        [f"{ROOM} session-1: read 30 messages", f"{ROOM} session-2: read 30 messages"],
    )
    assert first.err.startswith("stored 60 messages, ")
    assert first.err.endswith(" of 2 sessions\n")
    assert (second.code, second.out, second.err) == (0, "", "nothing new\n")
    assert len(tracked.run("messages", "session-1", "--json").lines) == 30


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "name a ROOM, or give --all"),
        ((ROOM, "--all"), 2, "name a ROOM, or give --all"),
        (("nowhere", "--once"), 3, "room nowhere is not tracked"),
    ],
)
def test_what_cannot_be_meant_is_said(tracked: Cli, arguments: tuple[str, ...], code: int, told: str) -> None:
    ran = tracked.run("pull", *arguments)

    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"what": "html"}, "the reply is no JSON object"),
        ({"what": "status", "status": 503}, "503 Service Unavailable"),
        ({"what": "status", "status": 401}, "401 Unauthorized: look at the token"),
        ({"what": "status", "status": 302}, "redirects are not followed"),
        ({"what": "large", "bytes": 9 * 2**20}, "more than 8388608 bytes"),
        ({"what": "truncated"}, "the reply is no JSON object"),
        ({"what": "body", "body": "{}"}, "no list 'sessions'"),
    ],
)
def test_a_remote_that_fails_is_told_with_its_reason_and_asked_no_more_than_twice(
    tracked: Cli, remote: RunningRemote, fault: Step, told: str
) -> None:
    """Exit code 5; nothing that was stored is lost, and the next try is told to wait or to be refused."""
    once(tracked)
    remote.do({"do": "fail", "route": "agents", **fault})
    calls = len(remote.calls())

    ran = once(tracked)

    assert ran.code == 5
    assert told in ran.out
    assert told in reason(tracked)
    assert len(remote.calls()) - calls <= 2
    assert len(tracked.run("messages", "session-1", "--json").lines) == 30


def test_a_session_that_fails_leaves_the_others_read(tracked: Cli, remote: RunningRemote) -> None:
    """What came is stored: exit code 5, then 75 until its time has come or somebody resets it."""
    remote.do({"do": "fail", "route": "messages", "session": "session-2", "what": "html"})

    failed, waiting = once(tracked), once(tracked)

    assert failed.code == 5
    assert f"{ROOM} session-1: read 30 messages" in failed.lines
    assert failed.err.endswith("error: the remote did not give all of it; what came is stored\n")
    assert "the reply is no JSON object" in reason(tracked, "session-2")
    assert (waiting.code, waiting.err) == (
        75,
        f"nothing new\nerror: not asked before the time: {ROOM} session-2\n",
    )

    remote.do({"do": "heal"})
    tracked.run("waits", "reset", ROOM, "session-2")
    assert once(tracked).lines[-1] == f"{ROOM} session-2: read 30 messages"


def test_a_room_that_waits_is_not_asked(tracked: Cli, remote: RunningRemote) -> None:
    remote.do({"do": "fail", "route": "agents", "what": "status", "status": 500})
    once(tracked)
    calls = len(remote.calls())

    one, every = once(tracked), tracked.run("pull", "--all", "--once")

    for ran in (one, every):
        assert (ran.code, ran.out) == (75, "")
        assert f"{ROOM}: delayed until " in ran.err
        assert f"`reprise waits why {ROOM}` tells more" in ran.err
    assert len(remote.calls()) == calls


def test_a_token_that_is_not_set_is_said_and_nobody_is_called(cli: Cli, remote: RunningRemote) -> None:
    cli.run("rooms", "track", ROOM, "--remote", remote.url, "--token-env", "REPRISE_TEST_NO_SUCH_TOKEN")
    calls = len(remote.calls())

    codes = [once(cli).code for _ in range(4)]

    assert codes == [5, 5, 5, 75]
    assert "REPRISE_TEST_NO_SUCH_TOKEN with the token is not set" in reason(cli)
    assert len(remote.calls()) == calls


def test_a_token_is_sent_and_shown_nowhere(
    cli: Cli, remote: RunningRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_TEST_TOKEN", "s3cret-of-the-remote")
    tracked = cli.run("rooms", "track", ROOM, "--remote", remote.url, "--token-env", "REPRISE_TEST_TOKEN")
    ran = once(cli)

    assert remote.calls("agents")[-1].headers["authorization"] == "Bearer s3cret-of-the-remote"
    assert "s3cret" not in tracked.out + tracked.err + ran.out + ran.err
    assert b"s3cret" not in cli.file.read_bytes()


def test_a_private_address_is_called_only_where_it_is_allowed(cli: Cli) -> None:
    cli.run("rooms", "track", ROOM, "--remote", "https://10.1.2.3")

    assert once(cli).code == 5
    assert "may not be called (private)" in reason(cli)


def test_an_untrusted_certificate_is_a_matter_of_settings(cli: Cli, tmp_path: Path) -> None:
    """Refused, and parked behind the third time."""
    with secure_remote(tmp_path) as (remote, _):
        cli.run("rooms", "track", ROOM, "--remote", remote.url)
        lines = [once(cli).lines[0] for _ in range(3)]

    assert lines[0].startswith(f"{ROOM}: refused: ")
    assert lines[2].startswith(f"{ROOM}: parked until ")
    assert "certificate is not trusted" in reason(cli)


def test_a_page_chain_without_an_end_ends_a_single_pass(
    tracked: Cli, remote: RunningRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came is kept, and the next pass goes on behind it."""
    monkeypatch.setattr(pulling, "ROUNDS_MAX", 2)
    remote.do(message("endless", "m"), {"do": "endless", "room": ROOM, "session": "endless"})

    first, second = once(tracked), once(tracked)

    for ran in (first, second):
        assert ran.code == 75
        assert ran.err.endswith("error: there is more; run it again\n")
    with tracked.ledger() as ledger:
        row = ledger.store.session(RoomId(ROOM), SessionId("endless"))
    assert row is not None
    assert row.state.pull is not None
    assert row.state.pull.cursor > 700


class Pulling:
    """`reprise pull` in a process of its own."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.command", "--db", cli.url, "pull", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def runs(self) -> bool:
        return self._process.poll() is None

    def stop(self, how: signal.Signals) -> Ran:
        self._process.send_signal(how)
        out, err = self._process.communicate()
        return Ran(self._process.returncode, out, err)


def test_each_change_is_a_line_and_ctrl_c_ends_with_a_summary(tracked: Cli, remote: RunningRemote) -> None:
    process = Pulling(tracked, "--all")
    first = {process.line(), process.line()}
    assert first == {f"{ROOM} session-{number}: read 30 messages\n" for number in (1, 2)}
    remote.do(message("session-2", "late"))
    assert process.line() == f"{ROOM} session-2: read 1 message\n"
    remote.do({"do": "fail", "route": "agents", "what": "status", "status": 500})
    assert process.line().startswith(f"{ROOM}: waits until ")

    ran = process.stop(signal.SIGINT)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("pulling 1 room; Ctrl-C ends it\nstored 61 messages, ")
    assert ran.err.endswith(" of 2 sessions, 1 failure\n")


@pytest.mark.parametrize(
    ("arguments", "how", "code"),
    [
        ((ROOM,), signal.SIGINT, 0),
        ((ROOM,), signal.SIGTERM, 0),
        ((ROOM, "--once"), signal.SIGINT, 130),
    ],
)
def test_a_stop_does_not_wait_for_a_call_that_hangs(
    tracked: Cli, remote: RunningRemote, arguments: tuple[str, ...], how: signal.Signals, code: int
) -> None:
    """The call ends neither with an answer nor with its time-out, and costs nobody a wait."""
    remote.do({"do": "fail", "route": "messages", "session": "session-2", "what": "silent"})
    calls = len(remote.calls("messages"))
    process = Pulling(tracked, *arguments)
    while not any(call.session == "session-2" for call in remote.calls("messages")[calls:]):
        assert process.runs()

    ran = process.stop(how)

    assert ran.code == code
    assert "waits" not in ran.out
    assert "failure" not in ran.err
    assert tracked.run("waits", "list").err == "nothing waits\n"
