"""`status`, `commits tail` and `doctor` say the same of a store and of the service on it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import access
from application.access import Scope
from infrastructure.store.sqlite import SQLiteDatabase
from infrastructure.store.tokens import StoredTokens
from tests.cli.conftest import Cli, run
from tests.http.serving import WAIT_S, clean_environment, served


@pytest.fixture
def service(filled: Cli, home: Path) -> Iterator[str]:
    """Where a service on the sample is reached."""
    with served(filled.url) as service:
        yield service.url


def test_status_counts_sessions_and_says_how_far_the_store_is(filled: Cli) -> None:
    ran = filled.run("status")

    assert ran.code == 0
    assert "sessions " in ran.out
    assert "commits up to " in ran.out
    (found,) = filled.run("status", "--json").objects
    assert sum(found["sessions"].values()) == 6
    assert found["behind"] == []


def test_status_finds_fault_with_a_subscription_that_is_behind(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.ledger() as ledger:
        ledger.subscribe(lambda _: None, "crm", after=0)
    monkeypatch.setenv("REPRISE_LAG_SECONDS_MAX", "0")

    ran = filled.run("status")

    assert ran.code == 1
    assert "subscription crm  BEHIND" in ran.out
    assert filled.run("status", "--json").objects[0]["behind"] == ["crm"]
    monkeypatch.setenv("REPRISE_LAG_SECONDS_MAX", "1000000000")
    assert filled.run("status").code == 0


def test_status_of_a_service_is_that_of_its_store(filled: Cli, service: str) -> None:
    assert run("status", "--url", service, "--json").out == filled.run("status", "--json").out


def test_sessions_of_a_service_are_those_of_its_store(filled: Cli, service: str) -> None:
    for room in ([], ["--room", "/home/dev/tidewatch"], ["--room", "nobody's"]):
        here = filled.run("sessions", "list", *room, "--json")
        assert run("sessions", "list", "--url", service, *room, "--json").out == here.out
    assert run("sessions", "list", "--url", service).out == filled.run("sessions", "list").out
    assert run("sessions", "list", "--url", service, "--deleted").code == 2


def test_the_environment_may_name_the_service(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_URL", service)

    assert run("status").code == 0


def test_commits_are_shown_from_a_position_or_the_last_ones(filled: Cli, service: str) -> None:
    whole = filled.run("commits", "tail", "--after", "0", "--json").objects
    assert [int(one["sequence"]) for one in whole] == sorted(int(one["sequence"]) for one in whole)
    assert len(whole) == 6

    for where in (["--db", filled.url], ["--url", service]):
        assert run("commits", "tail", *where, "--json").objects == whole[-10:]
        after = ["--after", str(int(whole[3]["sequence"]))]
        assert run("commits", "tail", *where, *after, "--json").objects == whole[4:]
        lines = run("commits", "tail", *where).lines
        assert len(lines) == 6
        assert all(one["id"] in line for one, line in zip(whole, lines, strict=True))


@pytest.mark.parametrize("way", ["--db", "--url"])
def test_commits_are_followed_until_somebody_interrupts(filled: Cli, service: str, way: str) -> None:
    where = filled.url if way == "--db" else service
    command = [sys.executable, "-m", "tests.cli.command", "commits", "tail", way, where, "--follow", "--json"]
    with (
        filled.ledger() as ledger,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment()) as following,
    ):
        assert following.stdout
        for _ in range(6):
            following.stdout.readline()
        ledger.set_title("/home/dev/tidewatch", "5e550002-7a11-4c0d-8e57-000000000002", "Anew")
        assert "5e550002-7a11" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(WAIT_S) == 0


def test_a_service_that_is_not_there_is_told(filled: Cli) -> None:
    for verb in (["status"], ["commits", "tail"]):
        ran = run(*verb, "--url", "http://127.0.0.1:1")

        assert (ran.code, ran.out) == (69, "")
        assert ran.err.startswith("error: http://127.0.0.1:1: ")


def test_a_token_comes_from_the_environment_and_one_that_is_missing_is_told(
    filled: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = SQLiteDatabase(filled.file)
    token, _ = access.create(StoredTokens(database), bytes(32), [Scope.READ], [], "", 1)
    database.close()
    with served(filled.url, environment={"REPRISE_REQUIRE_TOKEN": "true"}) as service:
        refused = run("status", "--url", service.url)
        monkeypatch.setenv("REPRISE_TOKEN", token)

        assert refused.code == 5
        assert "tokens create" in refused.err
        assert run("status", "--url", service.url).code == 0


def test_doctor_finds_nothing_wrong_where_all_is_well(filled: Cli, service: str) -> None:
    ran = filled.run("doctor", "--url", service, "--json")

    assert ran.code == 0, ran.out
    assert {one["name"] for one in ran.objects} >= {"settings", "store", "schema", "disk", "clock", "service"}
    assert all(line.startswith("ok ") for line in filled.run("doctor").lines)


def test_doctor_says_what_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = cli.run("doctor", "--url", "http://127.0.0.1:1")
    assert missing.code == 1
    assert f"BAD  store     {cli.file}: no store there" in missing.out
    assert "BAD  service " in missing.out

    monkeypatch.setenv("REPRISE_PORT", "all")
    broken = cli.run("doctor", "--json")
    assert broken.code == 1
    assert [one["name"] for one in broken.objects] == ["settings"]
    assert "REPRISE_PORT" in broken.objects[0]["detail"]
