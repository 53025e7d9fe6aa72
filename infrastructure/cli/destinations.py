"""The verbs about what leads to a destination: `subscriptions test` and `rotate`."""

import click

from infrastructure.cli.desk import desk_at
from infrastructure.cli.failures import EXIT_REMOTE, Failure
from infrastructure.cli.options import db_option, dry_run_option, json_option
from infrastructure.cli.remote import url_option
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import shown


@click.command()
@click.argument("name")
@url_option
@json_option
@db_option
def test(name: str, url: str | None, as_json: bool) -> None:
    """Send NAME a delta that is in no store, and tell what came back.

    It names the session reprise-test and stands at position 0. It is sent from here, or from the service at
    --url, and not by a worker.
    """
    with desk_at(url) as desk:
        trial = desk.test(name)
    if as_json:
        say_json(trial.model_dump(by_alias=True))
    elif trial.taken:
        say(f"{shown(name)} took it in {trial.duration_ms} ms{f': {trial.status}' if trial.status else ''}")
    if not trial.taken:
        raise Failure(f"{shown(name)} did not take it: {shown(trial.reason)}", exit_code=EXIT_REMOTE)


@click.command()
@click.argument("name")
@click.option(
    "--keep-hours",
    type=click.FloatRange(0, 24 * 30),
    default=24,
    show_default=True,
    help="How long the old secret goes on signing; 0 when it got out.",
)
@dry_run_option
@url_option
@db_option
def rotate(name: str, keep_hours: float, dry_run: bool, url: str | None) -> None:
    """Give NAME a new secret to sign with, and show it.

    Deliveries are signed with both until the old one ends, so change it at the receiver meanwhile.
    """
    with desk_at(url) as desk:
        secret = desk.rotate(name, round(keep_hours * 3_600), dry_run=dry_run)
    if dry_run:
        say(f"would be rotated: the secret of {shown(name)}")
        return
    say(f"secret: {secret}")
    note(f"workers sign with it within seconds; the old one ends in {keep_hours:g} hours")
