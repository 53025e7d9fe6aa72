"""A destination is added with a secret, tried, given another secret, and forgotten."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.cli.conftest import Cli
from tests.nats import nats_server
from tests.sinks.receiving import Receiving, receiver


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiving]:
    monkeypatch.setenv("REPRISE_ALLOW_PRIVATE_TARGETS", "true")
    with receiver() as receiving:
        yield receiving


def add(cli: Cli, kind: str, target: str, name: str = "crm") -> str:
    """Add a destination; its secret."""
    with cli.ledger() as ledger:
        ledger.report_state({"state": {"title": "a"}}, room="r", session="s")
    ran = cli.run("subscriptions", "add", name, "--kind", kind, "--target", target)
    assert ran.code == 0, ran.err
    return secret_in(ran.out)


def secret_in(out: str) -> str:
    return next((line.removeprefix("secret: ") for line in out.splitlines() if "whsec_" in line), "")


def test_a_webhook_is_tried_and_its_receiver_can_verify_the_trial(cli: Cli, endpoint: Receiving) -> None:
    secret = add(cli, "webhook", endpoint.url)

    ran = cli.run("subscriptions", "test", "crm")

    assert ran.code == 0
    assert ran.out.startswith("crm took it in ")
    assert ran.out.endswith(" ms: 204\n")
    (posted,) = endpoint.posted()
    event = Webhook(secret).verify(posted.body, posted.headers)
    assert event["subject"] == "reprise-test"
    assert int(event["sequence"]) == 0
    assert cli.run("deliveries", "list", "--json").objects == [], "a trial is no delivery"


def test_a_trial_that_is_not_taken_says_why_and_ends_with_five(cli: Cli, endpoint: Receiving) -> None:
    add(cli, "webhook", endpoint.url)
    endpoint.always(status=503, body="we are moving", headers={"retry-after": "60"})

    text = cli.run("subscriptions", "test", "crm")
    told = cli.run("subscriptions", "test", "crm", "--json")

    assert (text.code, told.code) == (5, 5)
    assert "crm did not take it: 503 Service Unavailable: we are moving" in text.err
    (answer,) = told.objects
    assert answer.pop("durationMs") >= 0
    assert answer == {
        "taken": False,
        "status": 503,
        "trouble": "endpoint",
        "reason": "503 Service Unavailable: we are moving",
        "retryAfterSeconds": 60.0,
    }


def test_a_file_and_a_subject_without_a_stream_are_tried_too(cli: Cli, tmp_path: Path) -> None:
    add(cli, "file", f"file://{tmp_path}/deltas.jsonl", "file")
    add(cli, "jetstream", f"{nats_server()}/test_nobody", "broker")

    assert cli.run("subscriptions", "test", "file").code == 0
    assert json.loads((tmp_path / "deltas.jsonl").read_bytes())["position"] == 0
    ran = cli.run("subscriptions", "test", "broker")
    assert ran.code == 5
    assert "no stream takes test_nobody.reprise-test.reprise-test" in ran.err


def test_a_rotated_secret_signs_beside_the_old_one(cli: Cli, endpoint: Receiving) -> None:
    old = add(cli, "webhook", endpoint.url)

    ran = cli.run("subscriptions", "rotate", "crm")
    cli.run("subscriptions", "test", "crm")

    new = secret_in(ran.out)
    assert new != old
    (posted,) = endpoint.posted()
    for secret in (old, new):
        Webhook(secret).verify(posted.body, posted.headers)
    assert (
        "signs with a new secret, and with the old one until" in cli.run("subscriptions", "show", "crm").out
    )


def test_a_secret_that_got_out_signs_no_more(cli: Cli, endpoint: Receiving) -> None:
    old = add(cli, "webhook", endpoint.url)

    new = secret_in(cli.run("subscriptions", "rotate", "crm", "--keep-hours", "0").out)
    cli.run("subscriptions", "test", "crm")

    (posted,) = endpoint.posted()
    Webhook(new).verify(posted.body, posted.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(posted.body, posted.headers)


def test_secrets_are_shown_to_nobody_else(cli: Cli, endpoint: Receiving) -> None:
    secrets = [add(cli, "webhook", endpoint.url)]
    secrets.append(secret_in(cli.run("subscriptions", "rotate", "crm").out))

    shown = "".join(
        ran.out + ran.err
        for ran in (
            cli.run("subscriptions", "show", "crm"),
            cli.run("subscriptions", "show", "crm", "--json"),
            cli.run("subscriptions", "list", "--json"),
            cli.run("subscriptions", "test", "crm", "--json"),
            cli.run("config", "show", "--json"),
            cli.run("outbox", "--json"),
        )
    )

    assert not any(secret.removeprefix("whsec_") in shown for secret in secrets)


def test_adding_it_again_shows_its_secret_and_makes_no_other(cli: Cli, endpoint: Receiving) -> None:
    first = add(cli, "webhook", endpoint.url)
    rotated = secret_in(cli.run("subscriptions", "rotate", "crm").out)

    assert add(cli, "webhook", endpoint.url) == rotated != first


def test_a_removed_destination_takes_its_secret_along(cli: Cli, endpoint: Receiving) -> None:
    first = add(cli, "webhook", endpoint.url)

    cli.run("subscriptions", "remove", "crm", "--yes")

    assert first.removeprefix("whsec_").encode() not in cli.file.read_bytes()
    assert add(cli, "webhook", endpoint.url) != first


def test_a_file_has_no_secret_to_rotate(cli: Cli, tmp_path: Path) -> None:
    assert add(cli, "file", f"file://{tmp_path}/deltas.jsonl") == ""

    ran = cli.run("subscriptions", "rotate", "crm")

    assert ran.code == 1
    assert "only a webhook has a secret" in ran.err


def test_a_target_that_is_none_is_told_what_to_write(cli: Cli) -> None:
    ran = cli.run("subscriptions", "add", "crm", "--kind", "webhook", "--target", "http://127.0.0.1/")

    assert ran.code == 2
    assert "REPRISE_ALLOW_PRIVATE_TARGETS=true" in ran.err


@pytest.mark.parametrize("verb", ["test", "rotate"])
def test_one_that_is_not_there_is_not_found(cli: Cli, tmp_path: Path, verb: str) -> None:
    add(cli, "file", f"file://{tmp_path}/deltas.jsonl")

    assert cli.run("subscriptions", verb, "nobody").code == 3
