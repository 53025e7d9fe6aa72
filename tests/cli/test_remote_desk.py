"""`subscriptions`, `deliveries` and `tokens` say and do the same at a service as at its store."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ran, run
from tests.http.serving import served
from tests.sinks.receiving import Receiving, receiver

HOOK = ("--kind", "webhook", "--after", "0")


@pytest.fixture
def endpoint() -> Iterator[Receiving]:
    with receiver() as receiving:
        yield receiving


@pytest.fixture
def service(filled: Cli, home: Path) -> Iterator[str]:
    """Where a service on the sample is reached; nobody delivers there, so that everything stays as it is."""
    environment = {"REPRISE_ALLOW_PRIVATE_TARGETS": "true"}
    with served(filled.url, "--no-workers", environment=environment) as service:
        yield service.url


def at(service: str, *verb: str) -> Ran:
    return run(*verb, "--url", service)


def same(filled: Cli, service: str, *verb: str) -> Ran:
    """What a verb says at the service, which is what it says at the store."""
    there, here = at(service, *verb), filled.run(*verb)
    assert (there.code, there.out) == (here.code, here.out), there.err
    return there


def transactions(filled: Cli) -> Sequence[str]:
    return [one["transactionId"] for one in filled.run("outbox", "--json").objects]


def test_destinations_are_added_looked_at_changed_and_removed(
    filled: Cli, service: str, endpoint: Receiving
) -> None:
    added = at(service, "subscriptions", "add", "crm", *HOOK, "--target", endpoint.url)
    assert added.lines[0] == "added: crm delivers what is committed behind position 0"
    assert added.lines[1].startswith("secret: whsec_")
    again = at(service, "subscriptions", "add", "crm", *HOOK, "--target", endpoint.url)
    assert again.err == "nothing to do: crm is there already\n"
    other = at(service, "subscriptions", "add", "crm", *HOOK, "--target", "https://crm.example")
    assert other.code == 4

    assert at(service, "subscriptions", "pause", "crm", "--reason", "upkeep").out == "paused: crm\n"
    assert at(service, "subscriptions", "pause", "crm").err == "nothing to do: crm is so already\n"
    assert at(service, "subscriptions", "resume", "crm").out == "resumed: crm\n"
    rotated = at(service, "subscriptions", "rotate", "crm", "--keep-hours", "0")
    assert rotated.out.startswith("secret: whsec_")
    for verb in (["list"], ["show", "crm"]):
        same(filled, service, "subscriptions", *verb)
        same(filled, service, "subscriptions", *verb, "--json")

    assert at(service, "subscriptions", "remove", "crm", "--yes").out == "removed: crm\n"
    assert at(service, "subscriptions", "show", "crm").code == 3
    assert filled.run("subscriptions", "list", "--json").objects == []


def test_a_dry_run_changes_nothing(filled: Cli, service: str, endpoint: Receiving) -> None:
    target = ("--target", endpoint.url)
    tried = at(service, "subscriptions", "add", "crm", *HOOK, *target, "--dry-run")
    assert tried.lines == ["would be added: crm delivers what is committed behind position 0"]
    assert filled.run("subscriptions", "list", "--json").objects == []

    at(service, "subscriptions", "add", "crm", *HOOK, *target)
    before = filled.run("subscriptions", "show", "crm", "--json").out
    for verb in ("pause", "remove", "rotate"):
        assert at(service, "subscriptions", verb, "crm", "--dry-run").out.startswith("would be ")
    assert filled.run("subscriptions", "show", "crm", "--json").out == before


def test_the_service_tries_a_destination(filled: Cli, service: str, endpoint: Receiving) -> None:
    at(service, "subscriptions", "add", "crm", *HOOK, "--target", endpoint.url)

    ran = at(service, "subscriptions", "test", "crm")
    endpoint.always(status=503, body="we are moving")
    refused = at(service, "subscriptions", "test", "crm")

    assert ran.out.startswith("crm took it in ")
    assert refused.code == 5
    assert "crm did not take it: 503 Service Unavailable: we are moving" in refused.err
    assert len(endpoint.posted()) == 2


def test_deliveries_are_looked_at_skipped_and_redelivered(
    filled: Cli, service: str, endpoint: Receiving
) -> None:
    at(service, "subscriptions", "add", "crm", *HOOK, "--target", endpoint.url)
    first, second, *_ = transactions(filled)
    for verb in (["list"], ["list", "--state", "pending", "--limit", "2"], ["show", first], ["why", second]):
        ran = same(filled, service, "deliveries", *verb)
        assert ran.out
        same(filled, service, "deliveries", *verb, "--json")
    assert at(service, "deliveries", "show", "t-1").code == 3

    tried = at(service, "deliveries", "skip", first, "--dry-run")
    assert tried.out.startswith("would be skipped: 1 delta for crm, position ")
    assert tried.err == "run it again with --yes --expect 1\n"
    assert at(service, "deliveries", "skip", first, "--yes", "--expect", "2").code == 4
    assert at(service, "deliveries", "skip", first).code == 2, "nobody can be asked"
    assert at(service, "deliveries", "skip", first, "--yes", "--expect", "1").code == 0
    assert (
        at(service, "deliveries", "list", "--state", "skipped", "--json").objects[0]["transactionId"] == first
    )
    again = at(service, "deliveries", "redeliver", "--state", "skipped", "--since", "9999d", "--yes")
    assert again.out.startswith("redelivered: 1 delta for crm, position ")
    assert same(filled, service, "deliveries", "list", "--state", "skipped", "--json").out == ""


def test_tokens_are_made_listed_and_revoked(filled: Cli, service: str) -> None:
    tried = at(service, "tokens", "create", "--scope", "read", "--room", "r", "--dry-run")
    assert tried.out == "would be made: a token to read in r\n"
    assert filled.run("tokens", "list", "--json").objects == []

    made = at(
        service, "tokens", "create", "--scope", "read", "--scope", "report", "--note", "a wall", "--json"
    )
    (token,) = made.objects
    assert token["token"].startswith("reprise_")
    same(filled, service, "tokens", "list")
    (listed,) = same(filled, service, "tokens", "list", "--json").objects
    assert listed == {name: value for name, value in token.items() if name != "token"}

    assert (
        at(service, "tokens", "revoke", token["id"], "--dry-run").out == f"would be revoked: {token['id']}\n"
    )
    assert "revokedAtUnixMs" not in filled.run("tokens", "list", "--json").objects[0]
    assert at(service, "tokens", "revoke", token["id"]).code == 0
    assert filled.run("tokens", "list", "--json").objects[0]["revokedAtUnixMs"] > 0
    for verb in (["revoke", "nobody"], ["revoke", "nobody", "--dry-run"]):
        assert at(service, "tokens", *verb).code == 3


def test_a_service_that_is_not_there_is_told(home: Path) -> None:
    for verb in (["subscriptions", "list"], ["deliveries", "list"], ["tokens", "list"]):
        ran = at("http://127.0.0.1:1", *verb)

        assert (ran.code, ran.out) == (69, "")
