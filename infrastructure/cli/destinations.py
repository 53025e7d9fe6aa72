"""The verbs about what leads to a destination: `subscriptions test` and `rotate`."""

from typing import TYPE_CHECKING

import click

from infrastructure.cli.failures import EXIT_REMOTE, Failure
from infrastructure.cli.options import database_url, db_option, decides_only, json_option, opened
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import shown

if TYPE_CHECKING:
    from application.destinations import Destinations
    from application.ledger import Ledger
    from application.signing import Change, SigningSecrets


@click.command()
@click.argument("name")
@json_option
@db_option
def test(name: str, as_json: bool) -> None:
    """Send NAME a delta that is in no store, and tell what came back.

    It names the session reprise-test and stands at position 0. It is sent from here, not by a worker.
    """
    import asyncio
    from time import perf_counter

    from infrastructure.configuration import resolve
    from infrastructure.main import destinations, surroundings
    from infrastructure.sinks.targets import open_sink

    with opened() as ledger:
        around = surroundings(ledger, resolve(database_url=database_url()))
        began = perf_counter()
        receipt = asyncio.run(
            destinations(ledger, around).test(
                name, lambda state: open_sink(state.kind, state.target, state.name, around)
            )
        )
        took_ms = round((perf_counter() - began) * 1_000)
    if as_json:
        say_json(
            {
                "taken": receipt.trouble is None,
                "status": receipt.status or None,
                "trouble": receipt.trouble,
                "reason": receipt.reason,
                "retryAfterSeconds": receipt.retry_after_s,
                "durationMs": took_ms,
            }
        )
    elif receipt.trouble is None:
        say(f"{shown(name)} took it in {took_ms} ms{f': {receipt.status}' if receipt.status else ''}")
    if receipt.trouble is not None:
        raise Failure(f"{shown(name)} did not take it: {shown(receipt.reason)}", exit_code=EXIT_REMOTE)


@click.command()
@click.argument("name")
@click.option(
    "--keep-hours",
    type=click.FloatRange(0, 24 * 30),
    default=24,
    show_default=True,
    help="How long the old secret goes on signing; 0 when it got out.",
)
@db_option
def rotate(name: str, keep_hours: float) -> None:
    """Give NAME a new secret to sign with, and show it.

    Deliveries are signed with both until the old one ends, so change it at the receiver meanwhile.
    """
    with opened() as ledger:
        secret = destinations_of(ledger).rotate(name, round(keep_hours * 3_600))
    say(f"secret: {secret}")
    note(f"workers sign with it within seconds; the old one ends in {keep_hours:g} hours")


def destinations_of(ledger: "Ledger", *, dry_run: bool = False) -> "Destinations":
    """The ledger's destinations, which a dry run leaves as they are."""
    from dataclasses import replace

    from infrastructure.configuration import resolve
    from infrastructure.main import destinations, surroundings

    found = destinations(ledger, surroundings(ledger, resolve(database_url=database_url())))
    if not dry_run:
        return found
    subscriptions = decides_only(ledger).subscriptions
    return replace(found, subscriptions=subscriptions, secrets=_Untouched(found.secrets))


class _Untouched:
    """Secrets that are looked at and stay."""

    def __init__(self, secrets: "SigningSecrets") -> None:
        self.of = secrets.of

    def change(self, subscription: str, change: "Change") -> None:
        """Nothing changes."""
