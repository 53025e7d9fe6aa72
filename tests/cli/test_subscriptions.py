"""`subscriptions` says where deltas go, `deliveries` what has become of them; both can change it."""

import asyncio
from collections.abc import Sequence

import pytest

from application.lanes import State
from infrastructure.main import delivery_worker
from tests.cli.conftest import Cli
from tests.sinks.kit.bench import Fault
from tests.sinks.kit.recording import RecordingBench


def report(cli: Cli, title: str, room: str = "r") -> str:
    with cli.ledger() as ledger:
        return str(ledger.report_state({"state": {"title": title}}, room=room, session="s").transaction_id)


def add(cli: Cli, name: str = "crm", *more: str) -> None:
    ran = cli.run(
        "subscriptions", "add", name, "--kind", "file", "--target", "file:///here", "--after", "0", *more
    )
    assert ran.code == 0, ran.err


def work(cli: Cli, bench: RecordingBench, states: Sequence[State], name: str = "crm") -> None:
    """Let a worker deliver until the deltas stand like this."""

    async def run() -> None:
        with cli.ledger() as ledger:
            worker = delivery_worker(ledger, bench.sink)
            task = asyncio.create_task(worker.run())
            async with asyncio.timeout(60):
                while [one.state for one in ledger.subscriptions.list(name)] != list(states):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            worker.stop()
            await task

    asyncio.run(run())


def fail(cli: Cli, fault: Fault, *states: State) -> RecordingBench:
    bench = RecordingBench()
    asyncio.run(bench.fail_next(fault, 100))
    work(cli, bench, states)
    return bench


def states(cli: Cli, *choosing: str) -> list[str]:
    return [one["state"] for one in cli.run("deliveries", "list", "--json", *choosing).objects]


# Destinations.


def test_a_destination_is_added_listed_shown_and_removed(cli: Cli) -> None:
    report(cli, "a")
    ran = cli.run(
        *("subscriptions", "add", "crm", "--kind", "webhook", "--target", "https://crm.example"),
        *("--room", "r", "--entity", "session", "--on-parked", "stop"),
    )
    added, secret = ran.out.splitlines()
    assert added == "added: crm delivers what is committed behind position 2"
    assert secret.startswith("secret: whsec_")
    (listed,) = cli.run("subscriptions", "list", "--json").objects
    assert (
        listed.items()
        >= {
            "name": "crm",
            "kind": "webhook",
            "target": "https://crm.example",
            "status": "active",
            "rooms": ["r"],
            "entityKinds": ["session"],
            "fromPosition": 2,
            "onParked": "stop",
        }.items()
    )
    text = cli.run("subscriptions", "show", "crm").out
    assert "crm: active, a webhook https://crm.example" in text
    assert "behind a parked delta a room stops" in text
    assert "a webhook was added" in text

    assert cli.run("subscriptions", "remove", "crm", "--yes").out == "removed: crm\n"
    assert cli.run("subscriptions", "list").err == "nobody subscribed; `reprise subscriptions add` does\n"
    assert cli.run("subscriptions", "show", "crm").code == 3


def test_adding_it_again_is_no_news_and_another_of_its_name_a_conflict(cli: Cli) -> None:
    add(cli)
    again = cli.run("subscriptions", "add", "crm", "--kind", "file", "--target", "file:///here")
    other = cli.run("subscriptions", "add", "crm", "--kind", "file", "--target", "file:///there")
    assert (again.code, again.err) == (0, "nothing to do: crm is there already\n")
    assert other.code == 4
    assert len(cli.run("subscriptions", "show", "crm", "--json").objects[0]["history"]) == 1


def test_it_is_paused_and_resumed_with_a_reason(cli: Cli) -> None:
    add(cli)
    assert cli.run("subscriptions", "pause", "crm", "--reason", "upkeep").out == "paused: crm\n"
    assert "because: upkeep" in cli.run("subscriptions", "show", "crm").out
    assert cli.run("subscriptions", "pause", "crm").err == "nothing to do: crm is so already\n"
    transaction = report(cli, "a")
    told = cli.run("deliveries", "why", transaction).out
    assert told == "crm: the subscription is paused (upkeep); resume it\n"
    assert cli.run("subscriptions", "resume", "crm").out == "resumed: crm\n"


@pytest.mark.parametrize("verb", ["pause", "resume", "remove", "show"])
def test_one_that_is_not_there_is_not_found(cli: Cli, verb: str) -> None:
    add(cli)
    yes = ("--yes",) if verb == "remove" else ()
    assert cli.run("subscriptions", verb, "nobody", *yes).code == 3


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    more = ("--kind", "webhook", "--target", "https://crm.example", "--dry-run")
    assert cli.run("subscriptions", "add", "x", *more).out.startswith("would be added")
    add(cli)
    for verb in ("pause", "remove"):
        assert cli.run("subscriptions", verb, "crm", "--dry-run").out.startswith("would be ")
    (one,) = cli.run("subscriptions", "list", "--json").objects
    assert (one["name"], one["status"]) == ("crm", "active")


def test_removing_asks_first(cli: Cli) -> None:
    add(cli)
    ran = cli.run("subscriptions", "remove", "crm")
    assert ran.code == 2
    assert "add --yes" in ran.err


def test_observers_are_listed_and_can_be_removed(cli: Cli) -> None:
    report(cli, "a")
    cli.run("redeliver")
    assert cli.run("subscriptions", "list", "--json").objects == [
        {"name": "stdout", "kind": "in_process", "status": "active"}
    ]
    assert cli.run("subscriptions", "remove", "stdout", "--yes").out == "removed: stdout\n"
    assert len(cli.run("redeliver").lines) == 1


# Deliveries.


def test_deliveries_are_listed_and_chosen(cli: Cli) -> None:
    add(cli)
    first, second = report(cli, "a", "r1"), report(cli, "b", "r2")
    assert states(cli) == ["pending", "pending"]
    assert states(cli, "--room", "r1", "--since", "1h") == ["pending"]
    assert states(cli, "--since", "2099-01-01T00:00:00Z") == states(cli, "--state", "parked") == []
    text = cli.run("deliveries", "list").out
    assert first in text
    assert second in text
    ran = cli.run("deliveries", "list", "--limit", "1")
    assert "more than 1 delivery" in ran.err
    assert cli.run("deliveries", "list", "--since", "yesterday").code == 2


def test_one_delivery_is_shown_with_its_delta(cli: Cli) -> None:
    add(cli)
    transaction = report(cli, "a")
    (shown,) = cli.run("deliveries", "show", transaction, "--json").objects
    assert (shown["subscription"], shown["state"]) == ("crm", "pending")
    assert shown["delta"]["transactionId"] == transaction
    assert f"transaction {transaction}" in cli.run("deliveries", "show", transaction).out
    assert cli.run("deliveries", "show", "t-1").code == 3
    assert cli.run("deliveries", "show", "t-1", "--to", "crm").code == 3


def test_why_tells_what_it_waits_for(cli: Cli) -> None:
    add(cli)
    first, second = report(cli, "a"), report(cli, "b")
    assert cli.run("deliveries", "why", first).out == "crm: a worker will take it; is one running?\n"
    fail(cli, Fault.UNAVAILABLE, State.WAITING, State.WAITING)
    told = cli.run("deliveries", "why", first).out
    assert told.startswith("crm: attempt 1 failed: not well; the next one is at ")
    assert (
        f"it comes behind {first} of its room, which is waiting until "
        in cli.run("deliveries", "why", second).out
    )
    (why,) = cli.run("deliveries", "why", second, "--json").objects
    assert why["waitsFor"] == first


def test_what_waits_is_skipped_and_the_rest_redelivered(cli: Cli) -> None:
    add(cli)
    first, second = report(cli, "a"), report(cli, "b")
    fail(cli, Fault.UNAVAILABLE, State.WAITING, State.WAITING)
    ran = cli.run("deliveries", "skip", first, "--yes")
    assert ran.out == "skipped: 1 delta for crm, position 3\n"
    bench = RecordingBench()
    work(cli, bench, [State.SKIPPED, State.DELIVERED])
    assert [one.id for one in bench.arrived] == [second]
    assert "somebody skipped it" in cli.run("deliveries", "why", first).out

    ran = cli.run("deliveries", "redeliver", "--state", "skipped", "--state", "delivered", "--yes")
    assert ran.out == "redelivered: 2 deltas for crm, positions 3 to 4\n"
    again = RecordingBench()
    work(cli, again, [State.DELIVERED, State.DELIVERED])
    assert [(one.id, one.redelivery) for one in again.arrived] == [(first, 1), (second, 1)]
    assert "it was delivered, and 1 time again" in cli.run("deliveries", "why", first).out
    history = cli.run("subscriptions", "show", "crm").out
    assert "somebody skipped 1 delta" in history
    assert "somebody wants 2 deltas delivered again" in history


def test_a_dry_run_says_how_many_and_another_number_is_a_conflict(cli: Cli) -> None:
    """L7: Nothing changes then."""
    add(cli)
    report(cli, "a")
    tried = cli.run("deliveries", "skip", "--room", "r", "--dry-run")
    assert tried.out == "would be skipped: 1 delta for crm, position 3\n"
    assert tried.err == "run it again with --yes --expect 1\n"
    report(cli, "b")

    ran = cli.run("deliveries", "skip", "--room", "r", "--yes", "--expect", "1")

    assert (ran.code, ran.err) == (
        4,
        "error: subscription crm: 2 deltas are chosen, 1 were expected; look again (conflict)\n",
    )
    assert states(cli) == ["pending", "pending"]


def test_changing_needs_a_choice_and_a_yes(cli: Cli) -> None:
    add(cli)
    report(cli, "a")
    for verb in ("redeliver", "skip"):
        assert cli.run("deliveries", verb, "--yes").code == 2
        ran = cli.run("deliveries", verb, "--room", "r")
        assert ran.code == 2
        assert "add --yes" in ran.err
        none = cli.run("deliveries", verb, "--room", "elsewhere", "--yes")
        assert (none.code, none.err) == (0, "no deliveries like this: nothing to do\n")


def test_with_several_subscriptions_one_is_named(cli: Cli) -> None:
    add(cli)
    add(cli, "other")
    transaction = report(cli, "a")
    assert cli.run("deliveries", "skip", transaction, "--yes").code == 2
    assert cli.run("deliveries", "skip", transaction, "--yes", "--to", "other").code == 0
    assert states(cli, "--to", "crm") == ["pending"]
    assert states(cli, "--to", "other") == ["skipped"]
    assert len(cli.run("deliveries", "why", transaction).lines) == 2
